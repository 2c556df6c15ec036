# SPDX-License-Identifier: Apache-2.0
"""Which columns of the sites' files are categories, and with which levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afcl.data.cells import NotNumbers, OddCell
from afcl.data.errors import fail
from afcl.data.features import Embedding, Feature, Texts, agree
from afcl.data.sources import SiteFiles, texts_at


def categories_in(
    sites: Sequence[SiteFiles],
    columns: tuple[str, ...],
    odd: Sequence[OddCell],
    declared: Mapping[str, tuple[str, ...]],
    ordinal: Mapping[str, Feature],
    dates: Sequence[str],
    least: int,
) -> tuple[Embedding, list[str]]:
    """Settle which columns are categories, and their levels.

    A column of numbers with a few texts among them is refused: these are slips of the
    pen, or another way to say that there is no value.

    Parameters
    ----------
    sites : sequence of SiteFiles
    columns : tuple of str
        Those in use.
    odd : sequence of OddCell
        Those that are not of numbers.
    declared : mapping from str to tuple of str
        Those that are categories whatever they look like, and their levels; none: what
        is found.
    ordinal : mapping from str to Feature
        Those whose levels have an order.
    dates : sequence of str
        Those that are dates.
    least : int
        Rows of a level that a site needs to name it.

    Returns
    -------
    embedding : Embedding
        Without columns that are neither numbers nor categories.
    notes : list of str
        What was left out and why.
    """
    known = {cell.column: cell for cell in odd}
    features, notes, slips, kept = [], [], [], []
    for column in columns:
        if column in ordinal:
            features.append(ordinal[column])
        elif (column in known or column in declared) and column not in dates:
            found = [texts_at(site, column) for site in sites]
            if column not in declared and any(texts.mixed for texts in found):
                slips.append(known[column])
                continue
            feature, said = _feature(column, found, declared.get(column), least)
            notes += said
            if feature is None:
                continue
            features.append(feature)
        kept.append(column)
    if slips:
        raise NotNumbers(slips)
    if not kept:
        raise fail(f"no column is of numbers or of categories: {'; '.join(notes)}")
    return Embedding(tuple(kept), tuple(features), tuple(dates)), notes


def _feature(
    column: str,
    found: Sequence[Texts],
    levels: tuple[str, ...] | None,
    least: int,
) -> tuple[Feature | None, list[str]]:
    if levels:
        return Feature(column, levels), []
    return agree(column, found, least)

# SPDX-License-Identifier: Apache-2.0
"""Which columns of the sites' files are categories, and with which levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afcl.data.cells import NotNumbers, OddCell
from afcl.data.errors import fail, listed
from afcl.data.features import STRAY, Embedding, Feature, Texts, agree
from afcl.data.sources import SiteFiles, texts_at


def declared_in(
    categories: Mapping[str, Sequence[str]], columns: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return what is declared of these columns, or refuse what is of none of them."""
    unknown = [name for name in categories if name not in columns]
    if unknown:
        raise fail(
            f"--category names {unknown[0]!r}, which is no column in use; these are "
            f"{listed(columns)}"
        )
    return {name: tuple(levels) for name, levels in categories.items()}


def categories_in(
    sites: Sequence[SiteFiles],
    columns: tuple[str, ...],
    odd: Sequence[OddCell],
    declared: Mapping[str, tuple[str, ...]],
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
        if column in known or column in declared:
            found = [texts_at(site, column) for site in sites]
            if column not in declared and any(map(_has_slips, found)):
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
    return Embedding(tuple(kept), tuple(features)), notes


def _feature(
    column: str,
    found: Sequence[tuple[Texts, int]],
    levels: tuple[str, ...] | None,
    least: int,
) -> tuple[Feature | None, list[str]]:
    if levels:
        return Feature(column, levels), []
    return agree(column, [texts for texts, _ in found], least)


def _has_slips(found: tuple[Texts, int]) -> bool:
    """Whether nearly all cells of a site's column are numbers, but not all."""
    texts, n_numbers = found
    return 0 < texts.n_values - n_numbers <= STRAY * texts.n_values

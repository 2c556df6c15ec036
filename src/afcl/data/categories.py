# SPDX-License-Identifier: Apache-2.0
"""Which columns of the sites' files are categories, and with which levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afcl.data.cells import NotNumbers, OddCell
from afcl.data.errors import fail
from afcl.data.features import (
    MOST_LEVELS,
    Embedding,
    Feature,
    Texts,
    agree,
    are_numbers,
    level_key,
)
from afcl.data.sources import SiteFiles, texts_at


def categories_in(
    sites: Sequence[SiteFiles],
    columns: tuple[str, ...],
    odd: Sequence[OddCell],
    declared: Mapping[str, tuple[str, ...]],
    settled: Mapping[str, Feature],
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
    settled : mapping from str to Feature
        Those about which nothing has to be found out: levels with an order, and dates
        of which parts count.
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
        if column in settled:
            features.append(settled[column])
        elif (column in known or column in declared) and column not in dates:
            found = [texts_at(site, column) for site in sites]
            if column not in declared and any(texts.mixed for texts in found):
                slips.append(known[column])
                continue
            if column not in declared and are_numbers(found):
                kept.append(column)
                continue
            feature, remarks = _feature(column, found, declared.get(column), least)
            notes += remarks
            if feature is None:
                continue
            features.append(feature)
        kept.append(column)
    if slips:
        raise NotNumbers(slips)
    if not kept:
        raise fail(f"no column is of numbers or of categories: {'; '.join(notes)}")
    return Embedding(tuple(kept), tuple(features), tuple(dates)), notes


def own_categories(
    site: SiteFiles,
    columns: tuple[str, ...],
    odd: Sequence[OddCell],
    declared: Mapping[str, tuple[str, ...]],
    dates: Sequence[str],
    least: int,
) -> tuple[Embedding, list[str]]:
    """Find the categories of one site of several that have not met yet.

    Parameters are those of :func:`categories_in`. What a site can tell by itself to be
    no category is left out; every level that it has stays, for which of them count is
    settled with the others.

    Returns
    -------
    embedding : Embedding
        Coded, with all levels.
    notes : list of str
        What was left out and why.
    """
    known = {cell.column: cell for cell in odd}
    features, notes, slips, kept = [], [], [], []
    for column in columns:
        if (column in known or column in declared) and column not in dates:
            found = texts_at(site, column)
            if column not in declared and found.mixed:
                slips.append(known[column])
                continue
            if column not in declared and are_numbers([found]):
                kept.append(column)
                continue
            reason = _no_category(column, found, least)
            if reason and not declared.get(column):
                notes.append(f"column {column!r} left out: {reason}")
                continue
            levels = declared.get(column) or sorted(found.levels, key=level_key)
            features.append(Feature(column, tuple(levels)))
        kept.append(column)
    if slips:
        raise NotNumbers(slips)
    if not kept:
        raise fail(f"no column is of numbers or of categories: {'; '.join(notes)}")
    own = Embedding(tuple(kept), tuple(features), tuple(dates), coded=True)
    return own, notes


def _no_category(column: str, found: Texts, least: int) -> str:
    """Say why one site's texts are no kinds of rows; "": they may be."""
    if found.mostly_dates:
        return f"dates; --date {column} counts its days"
    named = sum(n >= least for n in found.levels.values())
    few = len(found.levels) <= MOST_LEVELS
    if found.all_differ or named > MOST_LEVELS or not (few or found.covered(least)):
        return (
            f"{len(found.levels)} different texts in {found.n_values} cells are no "
            "kinds of rows"
        )
    return ""


def _feature(
    column: str,
    found: Sequence[Texts],
    levels: tuple[str, ...] | None,
    least: int,
) -> tuple[Feature | None, list[str]]:
    if levels:
        return Feature(column, levels), []
    return agree(column, found, least)

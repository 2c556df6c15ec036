# SPDX-License-Identifier: Apache-2.0
"""Data in memory that would spoil an answer: found, and said as Python's users need it.

The rules are those of files; what they advise is an option of the command line there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.data.column_sample import evenly
from afcl.data.errors import listed
from afcl.data.features import Feature
from afcl.data.sites import Sites, SiteTable
from afcl.data.suspicion import (
    EXTREME,
    IDS,
    MOSTLY_EMPTY,
    SAME_ROWS,
    SENTINEL,
    TWO_VALUES,
    ZERO,
    Suspicion,
)
from afcl.data.suspicions import find_suspicions
from afcl.data.tables import Table
from afcl.privacy import parse_level
from afcl.reliance import SPLITS
from afcl.robust import ROBUST
from afcl.runtime.agreement import takes_the_say
from afcl.scale import ends_by_part

#: Most rows of all tables that are looked at, about. With their extremes they are fewer
#: than the rules look at: these need not draw again.
LOOKED_AT = 16_000
#: Fewest rows of a table that are looked at.
FEWEST = 1_000
#: Most tables that are told apart; beyond, neighbours are taken together.
TABLES = 50
#: A larger part of values that differ may be ids.
ALL_DIFFER = 0.9
#: Findings of a kind that are told one by one.
TOLD = 3
NO_VALUE = ", write NaN there and give missing='impute'"
#: By kind, where its advice begins, and what that is in Python.
ADVICE = {
    IDS: (": use --drop", ": leave it out"),
    SENTINEL: (", use --null", NO_VALUE),
    ZERO: (", use --null", NO_VALUE),
    EXTREME: ("or use --scale", "or give scale='robust'"),
    TWO_VALUES: (", use --category", ", make it a category: texts in a frame"),
    MOSTLY_EMPTY: ("; compare with", "; compare with an answer without"),
    SPLITS: ("; compare with", "; compare with an answer without"),
    SAME_ROWS: (": if it is the same file", ": if it is the same table, give it once"),
}


def suspicions_in(
    tables: Sequence[Floats],
    names: Sequence[str],
    columns: Sequence[str],
    features: Sequence[Feature],
    dates: Sequence[str],
    scale: Any,
) -> list[Suspicion]:
    """Return what looks odd about tables of numbers.

    Parameters
    ----------
    tables, names
        One per client, and what messages call it.
    columns, features, dates
        Those of the tables, and which are categories or dates.
    scale
        How the answer brings columns to one scale: with given bounds a column of two
        values weighs what was asked for, with quantiles far values do no harm.
    """
    full = [i for i, rows in enumerate(tables) if rows.shape[0]]
    tables, names = [tables[i] for i in full], [names[i] for i in full]
    whole = [
        Table(name, rows, tuple(columns), None)
        for name, rows in _together(tables, names)
    ]
    most = max(FEWEST, LOOKED_AT // len(whole))
    few = [replace(each, values=_some(each.values, most)) for each in whole]
    sites: Sites[SiteTable] = Sites(tuple(few), (), tuple(features), tuple(dates))
    found = list(find_suspicions(sites, dates))
    if any(a.shape != b.shape for a, b in zip(few, whole, strict=True)):
        found = [*_counters(few, whole, dates), *map(_at_least, found)]
    harmless = () if isinstance(scale, str) else (TWO_VALUES,)
    harmless = (EXTREME,) if scale == ROBUST else harmless
    return for_python(
        [each for each in found if each.is_serious and each.kind not in harmless]
    )


def for_python(found: Sequence[Suspicion]) -> list[Suspicion]:
    """Return findings with advice for Python."""
    return [replace(each, text=_advised(each)) for each in found]


def stretches_for_python(notes: Sequence[str], roster: Sequence[str]) -> list[str]:
    """Return what a run noted of who has no say in columns, with advice for Python.

    Examples
    --------
    >>> notes = ["4 stretches column 1: it has no say there; give --ranges", "Else."]
    >>> stretches_for_python(notes, ["0", "4"])
    ['client 4 stretches column 1: it has no say there; give scale=(low, high)']
    """
    is_numbered = all(name.isdecimal() for name in roster if name)
    who = "client " if is_numbered else ""
    return [
        who + note.replace("give --ranges", "give scale=(low, high)")
        for note in notes
        if takes_the_say(note)
    ]


def lines_for_user(found: Sequence[Suspicion]) -> list[str]:
    """Return a line for each, and one on all others of a kind that has very many."""
    lines = []
    for kind in dict.fromkeys(each.kind for each in found):
        alike = [each for each in found if each.kind == kind]
        lines += [each.text for each in alike[:TOLD]]
        if more := [repr(each.column or each.site) for each in alike[TOLD:]]:
            lines.append(f"{kind} also: {listed(more)}")
    return lines


def is_private(level: str | None) -> bool:
    """Whether nothing that is kept or shown may depend on single rows."""
    if level in (None, "exact", "affine"):
        return False
    return parse_level(str(level)).private


def _together(
    tables: Sequence[Floats], names: Sequence[str]
) -> list[tuple[str, Floats]]:
    """Return tables and their names, neighbours as one where there are very many."""
    if len(tables) <= TABLES:
        return list(zip(names, tables, strict=True))
    groups = np.array_split(np.arange(len(tables)), TABLES)
    return [
        (
            f"{names[own[0]]} to {names[own[-1]]}",
            np.concatenate(tables[own[0] : own[-1] + 1]),
        )
        for own in groups
    ]


def _some(rows: Floats, most: int) -> Floats:
    """Return some rows, evenly, and those with the extremes of all."""
    if rows.shape[0] <= most:
        return rows
    places = evenly(rows.shape[0], most)
    starts, lows, highs = map(np.array, zip(*ends_by_part(rows), strict=True))
    if np.isnan(lows).any():
        gaps = np.isnan(rows)
        low, high = np.where(gaps, np.inf, rows), np.where(gaps, -np.inf, rows)
        lows = np.array([least for _, least, _ in ends_by_part(low)])
        highs = np.array([largest for _, _, largest in ends_by_part(high)])
    ends = [
        *_places_of(rows, starts, lows, lows.argmin(axis=0)),
        *_places_of(rows, starts, highs, highs.argmax(axis=0)),
    ]
    some: Floats = rows[np.union1d(places, ends)]
    return some


def _places_of(rows: Floats, starts: Ints, ends: Floats, parts: Ints) -> list[int]:
    """Return where every column has its extreme, the first place of several.

    NumPy finds an extreme much faster than its place: so that is sought in one of the
    `parts`, which begin at `starts` and have the `ends`.
    """
    behind = [*starts[1:], rows.shape[0]]
    found = []
    for column, part in enumerate(parts):
        inside = rows[starts[part] : behind[part], column] == ends[part, column]
        found.append(int(starts[part]) + int(np.argmax(inside)))
    return found


def _counters(
    few: Sequence[Table], whole: Sequence[Table], dates: Sequence[str]
) -> list[Suspicion]:
    """Return ids, which only all rows together can show, where some may be there."""
    values = np.concatenate([table.values for table in few])
    columns = few[0].columns
    may_be = [
        place
        for place, column in enumerate(values.T)
        if (column == np.rint(column)).all()
        and np.unique(column).size > ALL_DIFFER * column.size
        and columns[place] not in dates
    ]
    names = tuple(columns[place] for place in may_be)
    if not names:
        return []
    held = [replace(t, values=t.values[:, may_be], columns=names) for t in whole]
    # The rules look at some rows, and know how many there are.
    found = find_suspicions(Sites(tuple(held), ()))
    return [each for each in found if each.kind == IDS]


def _at_least(found: Suspicion) -> Suspicion:
    """Return a finding among some rows: in all of them there are more such cells."""
    text = re.sub(r" in (\d+ cells?\b)", r" in at least \1", found.text, count=1)
    return replace(found, text=text)


def _advised(found: Suspicion) -> str:
    """Return its line with advice for Python."""
    begins, advice = ADVICE.get(found.kind, ("", ""))
    place = found.text.rfind(begins) if begins else -1
    return found.text if place < 0 else found.text[:place] + advice

# SPDX-License-Identifier: Apache-2.0
"""Data that would spoil an answer, named before it does: ids, sentinels, other units.

The rules are silent on ordinary data; decision 0034 has their thresholds and how often
they were wrong. Categories and dates are not judged: they are no numbers, or declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afcl._typing import Floats
from afcl.data.column_rules import ENOUGH, judged_column
from afcl.data.column_sample import ColumnSample, column_samples
from afcl.data.empty_columns import mostly_empty
from afcl.data.errors import listed
from afcl.data.repeated_rows import holding_the_same, mostly_repeated, seen_rows
from afcl.data.sites import Sites, SiteTable
from afcl.data.suspicion import REPEATED, SAME_ROWS, UNIT, Suspicion
from afcl.data.unit_check import ColumnStats, Conversion, converted_columns
from afcl.texts import plain

#: Fewest other sites that units are compared with.
OTHERS = 2
#: Converted, the quartiles of a site fit the others', and these each other, up to this
#: part of the interquartile range: sites that merely differ do so in other ways too.
FIT = 0.5
#: Most sites whose units are compared.
COMPARED = 256
#: Part of the values at either end that may be a tail.
TAIL = 0.05
#: Longest text of a finding.
LONGEST = 600


def find_suspicions(
    sites: Sites[SiteTable], dates: Sequence[str] = ()
) -> tuple[Suspicion, ...]:
    """Look at the sites' tables for what would spoil the answer.

    Parameters
    ----------
    sites : Sites
        Of a table with more than 20,000 rows as many are looked at, evenly, and the
        extremes of all. Repeated rows are not looked for in streamed tables.
    dates : sequence of str
        Columns that are dates.

    Returns
    -------
    tuple of Suspicion
        By column, then of whole sites.

    Examples
    --------
    >>> from afcl.data.tables import Table
    >>> rows = np.column_stack([np.arange(40) % 7 / 3, np.arange(40) + 1001])
    >>> table = Table("north", rows, ("dose", "patient"), None)
    >>> for found in find_suspicions(Sites((table,), ())):
    ...     print(found.kind, "|", found.text)
    ids | 'patient' looks like ids or a counter (1001 to 1040, nearly all different): \
use --drop patient, or --id patient
    """
    categories = {c for feature in sites.features for c in feature.columns}
    judged = [c for c in sites.columns if c not in categories and c not in dates]
    columns = column_samples(sites.tables, judged)
    found: list[Suspicion] = []
    cleaned = []
    for column in columns:
        of_column, rest = judged_column(column)
        found += of_column
        cleaned.append(rest)
    found += mostly_empty(sites.tables, sites.features)
    found += _units(cleaned)
    found += _of_rows(sites.tables, judged)
    # Names of columns and sites are a stranger's, and options hold them unquoted.
    return tuple(replace(each, text=plain(each.text, LONGEST)) for each in found)


def _units(columns: Sequence[ColumnSample]) -> list[Suspicion]:
    """Columns of a site that look converted, by the rule of live runs."""
    found = []
    for column in columns:
        large = [i for i, part in enumerate(column.parts) if part.size >= ENOUGH]
        if len(large) <= OTHERS:
            continue
        parts = [column.parts[i] for i in large][:COMPARED]
        places = _elsewhere(parts)
        if not places:
            continue
        # Apart by all values and without the tails: either alone may be chance.
        by_all, by_most = _stats(parts, 0.0), _stats(parts, TAIL)
        for place in places:
            own = parts[place]
            conversions = _odd_one(by_all, place)
            if conversions:
                most = _odd_one(by_most, place)
                conversions = [look for look in conversions if look in most]
            rest = [*parts[:place], *parts[place + 1 :]]
            for units, larger in conversions:
                if _fits(own, rest, units, larger):
                    found.append(_converted(column, large[place], units, larger))
    return found


def _elsewhere(parts: Sequence[Floats]) -> list[int]:
    """Return the sites that do not lie where most do: the others have their unit."""
    quartiles = np.array([np.quantile(part, [0.25, 0.5, 0.75]) for part in parts])
    typical = np.median(quartiles, axis=0)
    off = np.abs(quartiles - typical).max(axis=1)
    return [int(i) for i in np.flatnonzero(off > FIT * (typical[2] - typical[0]))]


def _stats(parts: Sequence[Floats], tail: float) -> ColumnStats:
    """Return where sites lie without so much of their ends; spans have no tails."""
    shares = [tail, 1 - tail, 0.5, TAIL, 1 - TAIL]
    low, high, middle, few, most = np.array(
        [np.quantile(part, shares) for part in parts]
    ).T[:, :, None]
    return ColumnStats(low, high, middle, most - few)


def _odd_one(stats: ColumnStats, place: int) -> list[tuple[Conversion, bool]]:
    """Return what one site looks converted by, next to the others."""
    own = ColumnStats(*(part[place] for part in stats))
    others = ColumnStats(*(np.delete(part, place, axis=0) for part in stats))
    return list(converted_columns(own, others))


def _fits(
    own: Floats, others: Sequence[Floats], units: Conversion, larger: bool
) -> bool:
    """Whether a site is like the others once it is converted, and these are alike."""
    if larger:
        own = (own - units.offset) / units.factor
    else:
        own = own * units.factor + units.offset
    quartiles = np.array([np.quantile(part, [0.25, 0.5, 0.75]) for part in others])
    typical = np.median(quartiles, axis=0)
    off = np.abs(quartiles - typical).max(axis=1)
    own_off = np.abs(np.quantile(own, [0.25, 0.5, 0.75]) - typical).max()
    room = FIT * float(typical[2] - typical[0])
    # One of ten others may be another odd one out.
    return bool(max(own_off, np.quantile(off, 0.9)) <= room)


def _converted(
    column: ColumnSample, site: int, units: Conversion, larger: bool
) -> Suspicion:
    where = column.sites[site]
    shift = f" and {units.offset:g} off" if units.offset else ""
    text = (
        f"{column.name!r} at {where} is about {units.factor:.10g} times as "
        f"{'large' if larger else 'small'} as at the other sites{shift}: it looks like "
        f"another unit ({units.units}); convert it there"
    )
    return Suspicion(where, column.name, UNIT, text)


def _of_rows(tables: Sequence[SiteTable], columns: Sequence[str]) -> list[Suspicion]:
    """Rows that are there more than once."""
    found = []
    sites = list(seen_rows(tables, columns))
    for name, share in mostly_repeated(sites):
        text = (
            f"{share:.0%} of the rows of {name} are there more than once: if they were "
            "copied, remove the copies"
        )
        found.append(Suspicion(name, None, REPEATED, text))
    for name, other, share in holding_the_same(sites):
        what = "the same rows as" if share == 1 else f"{share:.0%} of the rows of"
        text = f"{name} holds {what} {other}: if it is the same file, give it once"
        found.append(Suspicion(name, None, SAME_ROWS, text))
    return found


def shown(found: Sequence[Suspicion], most: int = 3) -> list[str]:
    """Return the lines for people, at most so many of a kind and one on the others."""
    lines, kinds = [], dict.fromkeys(each.kind for each in found)
    for kind in kinds:
        alike = [each for each in found if each.kind == kind]
        lines += [each.text for each in alike[:most]]
        if len(alike) > most:
            names = [repr(each.column or each.site) for each in alike[most:]]
            lines.append(f"{kind} also: {listed(names)}; 'afcl check' tells all")
    return lines

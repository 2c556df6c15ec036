# SPDX-License-Identifier: Apache-2.0
"""Rules on single columns of numbers: ids, codes, sentinels, zeros, wild values.

Every rule looks for what chance does not do; decision 0034 has how often it is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from afcl._typing import Floats
from afcl.data.column_sample import ColumnSample
from afcl.data.errors import drop_option, naming
from afcl.data.features import MISMATCH
from afcl.data.suspicion import (
    EXTREME,
    FEW_VALUES,
    IDS,
    SENTINEL,
    TWO_VALUES,
    ZERO,
    Suspicion,
    as_typed,
)

#: Fewest values from which anything is concluded.
ENOUGH = 30
#: Ids may repeat in this part of the rows: somebody came twice.
AGAIN = 0.01
#: Ids are dense if they reach at most so many times as far as there are rows. Of as
#: many whole numbers drawn from there a fifth would repeat.
REACH = 2.0
#: Ids that rise from row to row do so in equal steps in this part of the rows. Sorted
#: measurements that do are so close to each other that some are equal.
STEPS = 0.25
#: Fewest values that may be ids by being spread evenly, however far they reach,
EVENLY = 200
#: and how far from even they may be: Kolmogorov's distance times the root of their
#: number. Of numbers that are drawn from a range 93 % are nearer.
UNEVEN = 1.3
#: What people write where there is no value, if it is the smallest or the largest.
NINES = tuple(float("9" * digits) for digits in range(1, 8))
SENTINELS = (*(-nine for nine in NINES), *NINES[1:])
#: What is written in fewer cells must lie farther off.
SEVERAL = 3
#: Interquartile ranges between a sentinel and everything else.
FAR = 1.5
#: Interquartile ranges between zeros and everything else,
ZERO_FAR = 1.0
#: if they are few so many,
ZERO_FAR_IF_FEW = 3.0
#: and so many times the usual step from one value to the next: below 1 comes 0.
STEPS_TO_ZERO = 10.0
#: Most values that count as very few; and as few, if that is no more than this part.
VERY_FEW, FEW, FEW_OF_ALL = 3, 10, 0.02
#: An extreme value leaves all others at most this part of the range, and several more
#: than very few this part,
FILLS, FEW_FILL = 0.1, 0.01
#: and lies beyond them so many times as far, in orders of magnitude, as the outer ones
#: of them lie beyond the others: that of a long tail does not.
TAIL = 12.0
#: Which part of them are the outer ones,
OUTER = 0.1
#: and how many are at least.
OUTER_AT_LEAST = 10
#: Most values of a column of whole numbers that may be codes.
CODES = 6

#: A rule for one column: its findings, and the column without what was found.
Rule: TypeAlias = Callable[[ColumnSample], tuple[list[Suspicion], ColumnSample]]


def judged_column(column: ColumnSample) -> tuple[list[Suspicion], ColumnSample]:
    """Judge one column; what one rule explains no other one is asked about."""
    if column.pooled.size < ENOUGH:
        return [], column
    ids, codes = _ids(column), _few_values(column)
    if ids or any(each.is_serious for each in codes):
        return ids or codes, column
    found: list[Suspicion] = []
    rules: tuple[Rule, ...] = (_sentinels, _zeros, _extremes)
    for rule in rules:
        suspicions, column = rule(column)
        found += suspicions
    # An unknown code among codes comes first.
    return found or codes, column


# ------------------------------------------------------------------ ids and codes


def _ids(column: ColumnSample) -> list[Suspicion]:
    """Whole numbers that are nearly all different, and dense or rising evenly."""
    if not column.is_whole:
        return []
    large = [i for i, part in enumerate(column.parts) if part.size >= ENOUGH]
    named = [i for i in large if _counts(column.parts[i], column.n_values[i])]
    every, n_values = np.concatenate(column.parts), sum(column.n_values)
    counts = 2 * len(named) > len(large) or _is_dense(every, n_values)
    if not counts and not _is_even(column):
        return []
    low, high = as_typed(column.pooled.min()), as_typed(column.pooled.max())
    what = "ids or a counter" if counts else "ids"
    how = "" if counts else " and spread evenly"
    text = (
        f"{column.name!r} looks like {what} ({low} to {high}, nearly all "
        f"different{how}): use {drop_option(column.name)}, or "
        f"{naming('--id', column.name)}"
    )
    return [Suspicion(None, column.name, IDS, text)]


def _counts(values: Floats, n_values: int) -> bool:
    return _is_dense(values, n_values) or _rises(values)


def _is_dense(values: Floats, n_values: int) -> bool:
    """Whether nearly all differ although there is hardly room for it."""
    if not _all_differ(values, n_values):
        return False
    return bool(values.max() - values.min() < REACH * n_values)


def _all_differ(values: Floats, n_values: int) -> bool:
    again = AGAIN if values.size == n_values else 0.0
    return bool(np.unique(values).size >= (1 - again) * values.size)


def _is_even(column: ColumnSample) -> bool:
    """Whether nearly all differ and lie as if drawn from a range: no amounts do.

    All together, or at most sites, each of which may have a range of its own.
    """
    every, n_values = np.concatenate(column.parts), sum(column.n_values)
    if every.size < EVENLY or not _all_differ(every, n_values):
        return False
    large = [part for part in column.parts if part.size >= EVENLY]
    even = sum(_evenly_spread(part) for part in large)
    return _evenly_spread(every) or 2 * even > len(large)


def _evenly_spread(values: Floats) -> bool:
    ordered = np.sort(values)
    places = (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    off = np.abs(places - np.linspace(0.0, 1.0, places.size)).max()
    return bool(off * np.sqrt(places.size) < UNEVEN)


def _rises(values: Floats) -> bool:
    """Whether every row has a larger value than the one before, often by the same."""
    gaps = np.diff(values)
    if not (gaps > 0).all():
        return False
    _, times = np.unique(gaps, return_counts=True)
    return bool(times.max() >= STEPS * gaps.size)


def _few_values(column: ColumnSample) -> list[Suspicion]:
    """Numbers that may be codes."""
    values = np.unique(column.pooled)
    declare = naming("--category", column.name)
    if values.size == 2:
        low, high = map(as_typed, values)
        text = (
            f"{column.name!r} has two values only ({low} and {high}) and weighs "
            f"{1 / MISMATCH:.0f} times as much as a category: if it says which kind a "
            f"row is, use {declare}"
        )
        return [Suspicion(None, column.name, TWO_VALUES, text)]
    if 2 < values.size <= CODES and column.is_whole:
        shown = ", ".join(map(as_typed, values))
        text = (
            f"{column.name!r} has {values.size} values only ({shown}): if they are "
            f"codes, use {declare}, or {drop_option(column.name)}"
        )
        return [Suspicion(None, column.name, FEW_VALUES, text)]
    return []


# ------------------------------------------------------------------ values at the edge


def _sentinels(column: ColumnSample) -> tuple[list[Suspicion], ColumnSample]:
    """Numbers that stand for no value, far from all others."""
    values = np.unique(column.pooled)
    marks = set(_edge(values)) | set(_edge(values[::-1]))
    rest = column.pooled[~np.isin(column.pooled, sorted(marks))]
    if rest.size < ENOUGH // 2:
        return [], column
    low, high = float(rest.min()), float(rest.max())
    near = FAR * _spread(rest)
    found = []
    for mark in sorted(marks):
        gap = max(low - mark, mark - high)
        times, where = column.occurrences(mark)
        if gap >= (near if times >= SEVERAL else high - low):
            found.append((mark, times, where))
    suspicions = [
        Suspicion(
            where,
            column.name,
            SENTINEL,
            f"{column.name!r} has {as_typed(mark)} in {_cells(column, times)}"
            f"{_at(where)}, and else {as_typed(low)} to {as_typed(high)}: if it means "
            f"no value, use --null {as_typed(mark)}",
        )
        for mark, times, where in found
    ]
    return suspicions, column.without([mark for mark, _, _ in found])


def _edge(values: Floats) -> Iterator[float]:
    """Yield sentinels from one end on, up to the first other value."""
    for value in values[: len(SENTINELS)].tolist():
        if value not in SENTINELS:
            return
        yield value


def _zeros(column: ColumnSample) -> tuple[list[Suspicion], ColumnSample]:
    """Zeros that lie far below all other values."""
    rest = column.pooled[column.pooled != 0]
    times, where = column.occurrences(0.0)
    if not times or rest.size < ENOUGH // 2 or np.unique(rest).size <= CODES:
        return [], column
    low, high = float(rest.min()), float(rest.max())
    far = ZERO_FAR if times >= SEVERAL else ZERO_FAR_IF_FEW
    step = float(np.median(np.diff(np.unique(rest))))
    if low <= 0 or low < max(far * _spread(rest), STEPS_TO_ZERO * step):
        return [], column
    text = (
        f"{column.name!r} has 0 in {_cells(column, times)}{_at(where)}, and else "
        f"{as_typed(low)} to {as_typed(high)}: if it means no value, use "
        f"{naming('--null', f'{column.name}=0')}"
    )
    suspicions = [Suspicion(where, column.name, ZERO, text)]
    return suspicions, column.without([0.0])


def _extremes(column: ColumnSample) -> tuple[list[Suspicion], ColumnSample]:
    """Few values without which all others have a small part of the range."""
    ordered = np.sort(column.pooled)
    n, whole = ordered.size, float(ordered[-1]) - float(ordered[0])
    for few in range(1, min(n // 4, max(FEW, int(FEW_OF_ALL * n))) + 1):
        part = FILLS if few <= VERY_FEW else FEW_FILL
        for extreme, rest in (
            (ordered[n - few :], ordered[: n - few]),
            (ordered[:few], ordered[few:]),
        ):
            left = float(rest[-1]) - float(rest[0])
            if left <= part * whole and _beyond_a_tail(extreme, rest):
                return [_filling(column, extreme, rest)], column.without(extreme)
    return [], column


def _beyond_a_tail(extreme: Floats, rest: Floats) -> bool:
    """Whether these lie farther off than a long tail reaches."""
    middle = float(np.median(rest))
    off = np.sort(np.abs(rest - middle))
    outer = off[-max(OUTER_AT_LEAST, int(OUTER * off.size)) :]
    if outer[0] <= 0:
        return False
    # Hill's estimator: of a tail that is a power, gaps are exponential with this mean.
    slope = float(np.log(outer / outer[0]).mean())
    beyond = float(np.log(np.abs(extreme - middle).min() / outer[-1]))
    return beyond >= TAIL * slope


def _filling(column: ColumnSample, extreme: Floats, rest: Floats) -> Suspicion:
    """Say which values fill the range of a column."""
    distinct = [as_typed(value) for value in np.unique(extreme)]
    values = ", ".join(distinct[:VERY_FEW]) + (", …" if distinct[VERY_FEW:] else "")
    if extreme.size > VERY_FEW:
        values += f" in {_cells(column, extreme.size)}"
    homes = {column.occurrences(float(value))[1] for value in extreme}
    where = homes.pop() if len(homes) == 1 else None
    many = extreme.size > 1
    text = (
        f"{column.name!r} has {values}{_at(where)}, and else {as_typed(rest[0])} to "
        f"{as_typed(rest[-1])}: {'they fill' if many else 'it fills'} the range and "
        f"all other rows look alike; correct {'them' if many else 'it'}, leave the "
        f"{'rows' if many else 'row'} out, or use --scale robust"
    )
    return Suspicion(where, column.name, EXTREME, text)


def _spread(values: Floats) -> float:
    """Return the interquartile range, or the range if half of all are the same."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low if high > low else values.max() - values.min())


# ------------------------------------------------------------------ words


def _cells(column: ColumnSample, times: int) -> str:
    about = "at least " if column.is_sampled else ""
    return f"{about}{times} cell{'' if times == 1 else 's'}"


def _at(site: str | None) -> str:
    return "" if site is None else f" of {site}"

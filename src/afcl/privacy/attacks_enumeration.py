# SPDX-License-Identifier: Apache-2.0
"""Values by going through everything that fits: cells of whole numbers or tenths.

Who knows in which steps a column is measured knows that count times mean is a sum of
whole numbers, and that the scatter is a sum of their squared distances. Few tables fit
both; a value that is in all of them is known. With several columns the scatter is one
number for all, and what is found are values of a cell's rows, column by column: which
of them belong to the same row is not told.

Of a column of yes and no, such as a level of a category, the mean alone tells how many
rows of a cell are which, however large the cell, and on a coarse grid too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import Cells
from afcl.core.rounding import root_of, squared_steps
from afcl.privacy.attacks import FEW, Released
from afcl.privacy.lattice import Lattice, lattice_of, ones_of, values_of
from afcl.scale import Box

#: Cells of more rows have too many tables that fit.
MOST_ROWS = 12
#: Messages of a site that are attacked, the first ones.
MOST_MESSAGES = 4
#: Columns of a table that is attacked, at most.
MOST_COLUMNS = 4
#: Ways to fill a cell's column that are gone through before the attack gives up.
MOST_WAYS = 5_000
#: Sums of several columns that are compared with a scatter, at most.
MOST_SUMS = 200_000
#: A table of whole numbers that fits, in increasing order, with its scatter.
Way: TypeAlias = tuple[float, tuple[int, ...]]
#: All of them; None: too many.
Ways: TypeAlias = list[Way] | None

#: Where more of a site's radii are no multiples of a unit, they are not rounded.
MOSTLY = 0.5
#: What rounding of floating-point numbers may do, relative to a scatter.
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Known:
    """What a cell was found to hold: of every column, values and how often."""

    columns: tuple[Counter[int], ...]


def enumerate_cells(
    release: Released, lattice: Lattice, unit: float = 0.0
) -> Iterator[Known]:
    """Go through everything that fits, cell by cell; yield what all of it shares.

    `unit` is what mean squared radii were rounded to, and the means of a single column
    to its root; see :mod:`afcl.core.rounding`.
    """
    cells, sizes = release.cells, release.cells.counts
    ones = ones_of(release, lattice)
    numbers, rest = _numbers(release, lattice, ones)
    for number in range(len(cells)):
        columns = [Counter[int]() for _ in lattice.units]
        for column in np.flatnonzero(ones[number] >= 0).tolist():
            yes, size = int(ones[number, column]), int(sizes[number])
            columns[column] = values_of(lattice, column, yes, size)
        if rest is not None and sizes[number] <= MOST_ROWS and rest[number] >= 0:
            alone = Cells(sizes, cells.means[:, lattice.numbers], rest)
            found = _of_numbers(alone, number, numbers, unit)
            for column, values in zip(lattice.numbers.tolist(), found, strict=True):
                columns[column] = values
        yield Known(tuple(columns))


def _numbers(
    release: Released, lattice: Lattice, ones: Ints
) -> tuple[Lattice, Floats | None]:
    """Return the other columns, and what they have of the scatters; None: not known.

    -1 stands for a cell of which it is not.
    """
    own, cells = lattice.of_numbers(), release.cells
    few = 0 < own.units.size <= MOST_COLUMNS
    if release.step or not few or not np.all(own.units > 0):
        return own, None
    counts = ones[:, lattice.yes_no]
    within = counts * (cells.counts[:, None] - counts) / cells.counts[:, None]
    weights = lattice.steps()[lattice.yes_no] ** 2
    rest = np.maximum(cells.scatters - within @ weights, 0.0)
    return own, np.where((counts >= 0).all(axis=1), rest, -1.0)


def _of_numbers(
    cells: Cells, number: int, lattice: Lattice, unit: float
) -> list[Counter[int]]:
    """Return what all tables of numbers share that fit a cell, column by column."""
    weights = lattice.steps() ** 2
    size, scatter = int(cells.counts[number]), float(cells.scatters[number])
    off = SLACK * (scatter + float(weights.max())) + size * unit / 2
    if weights.size == 1:
        ways = _ways_of_one(cells, number, lattice, unit, scatter + off)
        fits = (
            way for squares, way in ways if abs(scatter - weights[0] * squares) <= off
        )
        return [_in_all(fits)]
    places = [lattice.place(j, m) for j, m in enumerate(cells.means[number])]
    every = _ways_by_column(size, places, lattice, scatter + off)
    return list(_shared(every, weights, scatter, off))


def _ways_of_one(
    cells: Cells, number: int, lattice: Lattice, unit: float, most: float
) -> Iterator[Way]:
    """Yield the ways to fill a cell of one column, whose mean may be rounded.

    The means of the neighbouring cells are bounds: these cells do not cross.
    """
    means, size = cells.means[:, 0], int(cells.counts[number])
    step, own = float(lattice.steps()[0]), means[number]
    width = root_of(unit) / step if unit else 0.0
    below, above = means[means < own], means[means > own]
    low, high = lattice.ends(0)
    if below.size:
        low = max(low, lattice.place(0, float(below.max())) - width)
    if above.size:
        high = min(high, lattice.place(0, float(above.min())) + width)
    sway = width / 2 if below.size and above.size else width
    place = lattice.place(0, float(own))
    first = math.ceil(size * (place - sway) - SLACK)
    last = math.floor(size * (place + sway) + SLACK)
    for total in sorted(range(first, last + 1), key=lambda t: abs(t - size * place)):
        yield from _fill(total, size, most / step**2, low, high)


def _in_all(ways: Iterable[tuple[int, ...]]) -> Counter[int]:
    """Return what is the same in all of these, nothing if they are too many."""
    shared: Counter[int] | None = None
    for number, way in enumerate(ways):
        shared = Counter(way) if shared is None else shared & Counter(way)
        if not shared or number >= MOST_WAYS:
            return Counter()
    return shared or Counter()


def _ways_by_column(
    size: int, places: Sequence[float], lattice: Lattice, most: float
) -> list[Ways]:
    """Return the ways to fill every column of a cell that its scatter leaves."""
    weights = lattice.steps() ** 2
    sums = [round(size * place) for place in places]
    least = [w * _least(total, size) for w, total in zip(weights, sums, strict=True)]
    rest = most - sum(least)
    return [
        _ways(total, size, (rest + own) / weight, *lattice.ends(column))
        for column, (total, own, weight) in enumerate(
            zip(sums, least, weights, strict=True)
        )
    ]


def _shared(
    every: Sequence[Ways], weights: Floats, scatter: float, off: float
) -> Iterator[Counter[int]]:
    """Yield, for every column, what is the same in all ways to fill it that fit."""
    for column, own in enumerate(every):
        others = list(zip(weights.tolist(), every, strict=True))
        del others[column]
        around = _sums_of(others)
        yield _in_all(
            way
            for squares, way in own or ()
            if around is None
            or _reaches(around, scatter - weights[column] * squares, off)
        )


def _least(total: int, size: int) -> float:
    """Return the smallest scatter of so many whole numbers with this sum."""
    over = total % size
    return over * (size - over) / size


def _ways(total: int, size: int, most: float, low: float, high: float) -> Ways:
    """Return all ways to fill a column, None if there are too many."""
    found: list[Way] = []
    for way in _fill(total, size, most, low, high):
        found.append(way)
        if len(found) > MOST_WAYS:
            return None
    return found


def _fill(total: int, size: int, most: float, low: float, high: float) -> Iterator[Way]:
    """Yield all tables of whole numbers with this sum and no larger scatter."""
    mean, budget = total / size, most + SLACK
    if budget < 0:  # noise can make any scatter
        return
    stack: list[tuple[tuple[int, ...], int, float]] = [((), total, 0.0)]
    while stack:
        taken, left, spent = stack.pop()
        open_ = size - len(taken)
        if not open_:
            yield spent, taken
            continue
        least = taken[-1] if taken else math.ceil(max(low, mean - math.sqrt(budget)))
        values = range(least, left // open_ + 1) if open_ > 1 else (left,)
        for value in values:
            now, still = spent + (value - mean) ** 2, left - value
            after = now
            if open_ > 1:
                after += (open_ - 1) * (still / (open_ - 1) - mean) ** 2
            if least <= value <= high and after <= budget:
                stack.append(((*taken, value), still, now))


def _sums_of(columns: Sequence[tuple[float, Ways]]) -> Floats | None:
    """Return, sorted, what several columns can have of a scatter; None: too much."""
    sums = np.zeros(1)
    for weight, each in columns:
        if each is None:
            return None
        own = np.unique(np.round([squares for squares, _ in each], 6)) * weight
        if sums.size * own.size > MOST_SUMS:
            return None
        sums = np.unique((sums[:, None] + own).ravel())
    return sums


def _reaches(sums: Floats, wanted: float, off: float) -> bool:
    """Whether one of the sums is as large as wanted."""
    first = int(np.searchsorted(sums, wanted - off))
    return first < sums.size and bool(sums[first] <= wanted + off)


@dataclass(frozen=True, slots=True)
class Enumeration:
    """What enumeration is worth, judged by the rows.

    Attributes
    ----------
    singled
        Share of values found that fewer than :data:`FEW` rows of their site have.
    shared
        Share of values found that more have: nobody is singled out by them.
    """

    singled: float
    shared: float


def enumerated(
    releases: Sequence[Released],
    tables: Sequence[Floats],
    box: Box,
    bounds: tuple[Floats, Floats] | None = None,
    ends: bool = False,
) -> Enumeration:
    """Attack every site's messages one by one; the best message of a site counts.

    Parameters
    ----------
    releases : sequence of Released
        Those of single sites are attacked.
    tables : sequence of ndarray
        Rows of every site, in the units of the data.
    box : Box
        The agreed map.
    bounds : (low, high), optional
        Of columns that are levels of categories; NaN: of numbers.
    ends : bool
        Whether it is known between what values the columns of numbers lie.
    """
    categories = None if bounds is None else ~np.isnan(bounds[0])
    lattice = lattice_of(np.concatenate(tables), box, categories, ends)
    totals = np.zeros(2)
    for client, rows in enumerate(tables):
        held = [
            Counter(np.rint(column / (unit or 1.0)).astype(int).tolist())
            for column, unit in zip(rows.T, lattice.units, strict=True)
        ]
        own = [each for each in releases if each.clients == (client,)][:MOST_MESSAGES]
        unit = _unit_of(own[0].cells, box.scale(rows)) if own else 0.0
        found = [_counted(enumerate_cells(each, lattice, unit), held) for each in own]
        totals += max(found, default=(0, 0))
    n = sum(table.size for table in tables)
    return Enumeration(float(totals[0]) / n, float(totals[1]) / n)


def _unit_of(cells: Cells, rows: Floats) -> float:
    """Return what a site's radii are rounded to, 0 if they are not.

    The rule is public and the smallest gap of a column mostly its step. Radii that are
    not rounded are no multiples of a power of two; sums of rounded ones need not be.
    """
    unit = float(squared_steps(rows).max())
    multiples = cells.scatters / cells.counts / unit if unit else cells.scatters
    exact = np.abs(multiples - np.rint(multiples)) > SLACK
    return 0.0 if exact.mean() > MOSTLY else unit


def _counted(cells: Iterator[Known], held: Sequence[Counter[int]]) -> tuple[int, int]:
    """Return how many values were found: of few rows of the site, and of more."""
    few, more = 0, 0
    for known in cells:
        for counts, values in zip(held, known.columns, strict=True):
            for value, often in values.items():
                if counts[value] >= FEW:
                    more += often
                elif counts[value]:
                    few += often
    return few, more

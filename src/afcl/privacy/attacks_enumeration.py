# SPDX-License-Identifier: Apache-2.0
"""Values by going through everything that fits: cells of whole numbers or tenths.

Who knows in which steps a column is measured knows that count times mean is a sum of
whole numbers, and that the scatter is a sum of their squared distances. Few tables fit
both; a value that is in all of them is known. With several columns the scatter is one
number for all, and what is found are values of a cell's rows, column by column: which
of them belong to the same row is not told.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import Cells
from afcl.core.rounding import root_of, squared_steps
from afcl.privacy.attacks import FEW, Released
from afcl.scale import Box

#: Columns of more steps than this are as good as continuous.
MOST_STEPS = 1000
#: Decimals in which people measure.
DECIMALS = 4
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
class Lattice:
    """In which steps the columns are measured, which everybody knows.

    Attributes
    ----------
    units
        The step of every column; 0: continuous.
    box
        The agreed map.
    """

    units: Floats
    box: Box

    def steps(self) -> Floats:
        """Return the steps in agreed units."""
        steps: Floats = self.units / self.box.span
        return steps

    def place(self, column: int, mean: float) -> float:
        """Return a mean in steps of its column."""
        raw = self.box.low[column] + self.box.span[column] * mean
        return float(raw / self.units[column])


@dataclass(frozen=True, slots=True)
class Known:
    """What a cell was found to hold: of every column, values and how often."""

    columns: tuple[Counter[int], ...]


def measured_in(rows: Floats) -> Floats:
    """Return the step in which every column is measured; 0: no decimal step is.

    Examples
    --------
    >>> measured_in(np.array([[3.0, 0.25, np.pi], [4.0, 0.5, np.e]])).tolist()
    [1.0, 0.01, 0.0]
    """
    units = np.zeros(rows.shape[1])
    for feature, column in enumerate(rows.T):
        for decimals in range(DECIMALS + 1):
            if np.array_equal(np.round(column, decimals), column):
                unit = 10.0**-decimals
                if np.ptp(column) <= MOST_STEPS * unit:
                    units[feature] = unit
                break
    return units


def enumerate_cells(
    release: Released, lattice: Lattice, unit: float = 0.0
) -> Iterator[Known]:
    """Go through everything that fits, cell by cell; yield what all of it shares.

    `unit` is what mean squared radii were rounded to, and the means of a single column
    to its root; see :mod:`afcl.core.rounding`.
    """
    cells = release.cells
    if (
        release.step
        or not np.all(lattice.units > 0)
        or lattice.units.size > MOST_COLUMNS
    ):
        return
    weights = lattice.steps() ** 2
    for number in np.flatnonzero(cells.counts <= MOST_ROWS).tolist():
        size, scatter = int(cells.counts[number]), float(cells.scatters[number])
        off = SLACK * (scatter + float(weights.max())) + size * unit / 2
        if weights.size == 1:
            ways = _ways_of_one(cells, number, lattice, unit, scatter + off)
            fits = (
                way
                for squares, way in ways
                if abs(scatter - weights[0] * squares) <= off
            )
            yield Known((_in_all(fits),))
        else:
            places = [lattice.place(j, m) for j, m in enumerate(cells.means[number])]
            every = _ways_by_column(size, places, weights, scatter + off)
            yield Known(tuple(_shared(every, weights, scatter, off)))


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
    low = lattice.place(0, float(below.max())) - width if below.size else -math.inf
    high = lattice.place(0, float(above.min())) + width if above.size else math.inf
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
    size: int, places: Sequence[float], weights: Floats, most: float
) -> list[Ways]:
    """Return the ways to fill every column of a cell that its scatter leaves."""
    sums = [round(size * place) for place in places]
    least = [w * _least(total, size) for w, total in zip(weights, sums, strict=True)]
    rest = most - sum(least)
    return [
        _ways(total, size, (rest + own) / weight)
        for total, own, weight in zip(sums, least, weights, strict=True)
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


def _ways(total: int, size: int, most: float) -> Ways:
    """Return all ways to fill a column, None if there are too many."""
    found: list[Way] = []
    for way in _fill(total, size, most, -math.inf, math.inf):
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
    """
    units = measured_in(np.concatenate(tables))
    lattice = Lattice(units, box)
    totals = np.zeros(2)
    for client, rows in enumerate(tables):
        held = [
            Counter(np.rint(column / (unit or 1.0)).astype(int).tolist())
            for column, unit in zip(rows.T, units, strict=True)
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
                if counts[value] < FEW:
                    few += often
                else:
                    more += often
    return few, more

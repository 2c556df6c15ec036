# SPDX-License-Identifier: Apache-2.0
"""In which steps columns are measured, and what means say of columns of yes and no."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.privacy.attacks import Released
from afcl.scale import Box

#: Columns of more steps than this are as good as continuous.
MOST_STEPS = 1000
#: Decimals in which people measure.
DECIMALS = 4
#: What rounding of floating-point numbers may do to how many rows have a yes.
YES_NO = 1e-6


@dataclass(frozen=True)
class Lattice:
    """In which steps the columns are measured, which everybody knows.

    Attributes
    ----------
    units
        The step of every column; 0: continuous.
    box
        The agreed map.
    lowest
        The lower of the two values of columns of yes and no; NaN: another column.
    reach
        Between what values of every column lie, in its steps, as far as that is known.
    """

    units: Floats
    box: Box
    lowest: Floats | None = None
    reach: Floats | None = None

    @cached_property
    def yes_no(self) -> Bools:
        """Which columns have two values only.

        One that is alone is not among them: its means are rounded.
        """
        if self.lowest is None or self.units.size == 1:
            return np.zeros(self.units.size, dtype=np.bool_)
        known: Bools = ~np.isnan(self.lowest)
        return known

    @cached_property
    def numbers(self) -> Ints:
        """The other columns."""
        return np.flatnonzero(~self.yes_no)

    def of_numbers(self) -> Lattice:
        """Return the lattice of the other columns."""
        some = self.numbers
        box = Box(self.box.low[some], self.box.span[some])
        reach = None if self.reach is None else self.reach[:, some]
        return Lattice(self.units[some], box, reach=reach)

    def ends(self, column: int) -> tuple[float, float]:
        """Return between what steps a column lies."""
        if self.reach is None:
            return -math.inf, math.inf
        return float(self.reach[0, column]), float(self.reach[1, column])

    def steps(self) -> Floats:
        """Return the steps in agreed units."""
        steps: Floats = self.units / self.box.span
        return steps

    def place(self, column: int, mean: float) -> float:
        """Return a mean in steps of its column."""
        raw = self.box.low[column] + self.box.span[column] * mean
        return float(raw / self.units[column])


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


def lattice_of(
    rows: Floats, box: Box, categories: Bools | None = None, ends: bool = False
) -> Lattice:
    """Return the lattice of rows in the units of the data.

    With `ends` it is known between what values a column lies, too: that nobody has -1
    children, and that a mark is 1 to 5. `categories` are the columns of 0 and 1,
    whatever values these rows have of them.
    """
    units = measured_in(rows)
    lowest = np.where(np.ptp(rows, axis=0) == units, rows.min(axis=0), np.nan)
    lowest[units == 0] = np.nan
    if categories is not None:
        units[categories], lowest[categories] = 1.0, 0.0
    if not ends:
        return Lattice(units, box, lowest)
    outermost = np.stack([rows.min(axis=0), rows.max(axis=0)])
    reach = np.rint(outermost / np.where(units > 0, units, 1.0))
    return Lattice(units, box, lowest, reach)


def ones_of(release: Released, lattice: Lattice) -> Ints:
    """Return how many rows of every cell have a yes, column by column; -1: unknown."""
    cells, box = release.cells, lattice.box
    found_ones = np.full(cells.means.shape, -1, dtype=np.int64)
    if lattice.lowest is None:
        return found_ones
    for column in np.flatnonzero(lattice.yes_no):
        unit, span = lattice.units[column], box.span[column]
        above = box.low[column] + span * cells.means[:, column]
        ones = cells.counts * (above - lattice.lowest[column]) / unit
        sway = cells.counts * (release.step / 2 * span / unit) + YES_NO
        whole = np.rint(ones)
        known = (np.abs(ones - whole) <= sway) & (sway < 1 / 2)
        known &= (whole >= 0) & (whole <= cells.counts)
        found_ones[known, column] = whole[known]
    return found_ones


def values_of(lattice: Lattice, column: int, ones: int, size: int) -> Counter[int]:
    """Return the values of a cell in a column of yes and no, in steps."""
    assert lattice.lowest is not None
    no = int(np.rint(lattice.lowest[column] / lattice.units[column]))
    return Counter({no: size - ones, no + 1: ones})

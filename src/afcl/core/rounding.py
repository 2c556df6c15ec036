# SPDX-License-Identifier: Apache-2.0
"""Cells that do not tell the rows behind them, where a column has few values.

Count, mean and scatter of five whole numbers leave few tables that fit, often one: who
goes through them all knows the rows. The mean alone leaves many, and so does a mean
squared radius that is known to a few squared steps of the column. So it is rounded, to
a power of two that follows the smallest gap between two values of a column; where
values are as good as continuous this changes nothing. See decision 0029.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import Cells

#: Mean squared radii are rounded to the square of so many steps of the columns.
STEPS = 2.0
#: A column's step is at most this share of its reach: yes and no are not both rounded
#: away.
MOST_OF_REACH = 1 / 8


def squared_steps(X: Floats) -> Floats:
    """Return, for every column, the unit to which its variances are rounded.

    Examples
    --------
    >>> squared_steps(np.array([[3.0, 0.5], [9.0, 0.5], [4.0, 0.5], [30.0, 0.5]]))
    array([4., 0.])
    """
    units = np.zeros(X.shape[1])
    for feature, column in enumerate(X.T):
        gaps = np.diff(np.unique(column))
        if gaps.size:
            step = min(float(gaps.min()), MOST_OF_REACH * float(gaps.sum()))
            units[feature] = _power_of_two(STEPS * step * STEPS * step)
    return units


def coarse(squares: Floats, unit: Floats | float) -> Floats:
    """Return squares as multiples of a unit; 0 leaves them as they are.

    Examples
    --------
    >>> coarse(np.array([0.4, 0.9, 2.1]), 0.5)
    array([0.5, 1. , 2. ])
    """
    width = np.where(np.asarray(unit) > 0, unit, 1.0)
    rounded: Floats = np.where(
        np.asarray(unit) > 0, np.rint(squares / width) * width, squares
    )
    return rounded


def coarse_cells(cells: Cells, units: Floats) -> Cells:
    """Return cells whose mean squared radii are rounded; `units` are the columns'.

    The coarsest column decides: nobody can tell whose the scatter is. Cells of a single
    column lie between each other, so that there the means are rounded too, but not
    beyond the outermost.
    """
    unit = float(units.max())
    radii = coarse(cells.scatters / cells.counts, unit)
    means = cells.means
    if units.size == 1 and unit > 0:
        means = _coarse_inside(means, root_of(unit))
    return Cells(cells.counts, means, radii * cells.counts, cells.offsets)


def root_of(unit: float) -> float:
    """Return the power of two at or below the root of one: what means are rounded to.

    Examples
    --------
    >>> root_of(0.25), root_of(8.0)
    (0.5, 2.0)
    """
    return float(2.0 ** (np.log2(unit) // 2))


def _coarse_inside(means: Floats, width: float) -> Floats:
    """Return multiples of a width between the lowest and the highest mean."""
    low, high = means.min(), means.max()
    rounded = np.rint(means / width) * width
    rounded += width * (rounded < low)
    rounded -= width * (rounded > high)
    inside: Floats = np.clip(rounded, low, high)
    return inside


def _power_of_two(number: float) -> float:
    """Return the next power of two: more than its size would tell of two rows.

    0 of what is too small, or too large to be squared.
    """
    known = np.finfo(np.float64)
    if not known.tiny < number < known.max / 2:
        return 0.0
    return float(2.0 ** np.ceil(np.log2(number)))

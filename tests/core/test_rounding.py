# SPDX-License-Identifier: Apache-2.0
"""What is rounded where a column has few values, by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from afcl.core.cells import cells_of
from afcl.core.messages import Cells
from afcl.core.rounding import coarse, coarse_cells, root_of, squared_steps


def test_the_unit_follows_the_smallest_gap():
    """Gap 1 of 27: (2 x 1)^2 = 4. Yes and no: (2 x 1/8)^2 = 1/16, not 4."""
    assert squared_steps(np.array([[3.0], [4.0], [30.0]])).tolist() == [4.0]
    assert squared_steps(np.array([[0.0], [1.0], [1.0]])).tolist() == [1 / 16]
    assert squared_steps(np.full((3, 1), 7.0)).tolist() == [0.0]
    assert squared_steps(np.array([[0.0], [1e-200], [1.0]])).tolist() == [0.0]


def test_the_unit_is_a_power_of_two():
    """(2 x .3)^2 = .36 becomes .5."""
    assert squared_steps(np.array([[0.0], [0.3], [9.0]])).tolist() == [0.5]


def test_nothing_is_rounded_where_the_unit_is_0():
    squares = np.array([0.1, 0.7])
    assert coarse(squares, 0.0).tolist() == [0.1, 0.7]
    assert coarse(np.stack([squares, squares], 1), np.array([0.0, 0.5])).tolist() == [
        [0.1, 0.0],
        [0.7, 0.5],
    ]


def test_scatters_are_rounded_and_means_of_several_columns_are_not():
    """Mean squared radii .3 and .8 with a unit of .5: .5 and 1."""
    cells = Cells(
        np.array([5, 10]), np.array([[0.3, 0.1], [0.7, 0.9]]), np.array([1.5, 8])
    )
    rounded = coarse_cells(cells, np.array([0.5, 0.25]))
    assert rounded.scatters.tolist() == [2.5, 10.0]
    assert rounded.means.tolist() == cells.means.tolist()
    assert rounded.counts.tolist() == [5, 10]


def test_means_of_one_column_are_rounded_but_not_beyond_the_outermost():
    """To multiples of 1/2; 1.3 is the lowest and 3.3 the highest."""
    cells = Cells(np.full(4, 5), np.array([[1.3], [1.8], [2.6], [3.3]]), np.zeros(4))
    assert coarse_cells(cells, np.array([0.25])).means.ravel().tolist() == [
        1.5,
        2.0,
        2.5,
        3.0,
    ]
    lone = Cells(np.array([5]), np.array([[1.3]]), np.zeros(1))
    assert coarse_cells(lone, np.array([0.25])).means.ravel().tolist() == [1.3]


def test_the_root_of_a_unit_is_a_power_of_two():
    assert [root_of(4.0), root_of(2.0), root_of(0.5)] == [2.0, 1.0, 0.5]


@given(st.lists(st.integers(0, 200), min_size=6, max_size=60))
def test_a_radius_moves_by_half_a_unit_at_most(values):
    X = np.array(values, dtype=np.float64)[:, None] / 10
    cells = cells_of(X, np.arange(len(X)) % 3, 3)
    units = squared_steps(X)
    rounded = coarse_cells(cells, units)
    moved = np.abs(rounded.scatters - cells.scatters) / cells.counts
    assert (moved <= units.max() / 2 + 1e-9).all()
    shifts = np.abs(rounded.means - cells.means).max()
    assert shifts <= 1.5 * np.sqrt(units.max()) + 1e-9
    assert rounded.means.min() >= cells.means.min()
    assert rounded.means.max() <= cells.means.max()


def test_what_cannot_be_squared_is_not_rounded():
    rows = np.array([[0.0, 0.0], [1e300, 1e-300], [3e300, 3e-300]])
    assert squared_steps(rows).tolist() == [0.0, 0.0]

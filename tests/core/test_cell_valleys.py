# SPDX-License-Identifier: Apache-2.0
"""Valleys by cells where no rows were counted, and by a former build."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core.cell_valleys import carried_over, cell_valleys
from afcl.core.messages import Cells
from afcl.core.protocol import PathLevel
from afcl.kernels import valleys

#: Two centres on a line, ten apart: slabs are 4 to 6, -1 to 1 and 9 to 11.
ENDS = np.array([[0.0], [10.0]])


def cells(counts, means, scatters):
    return Cells(
        np.array(counts, dtype=np.int64),
        np.array(means, dtype=float).reshape(len(counts), -1),
        np.array(scatters, dtype=float),
    )


def level(centers, counts=None):
    k = len(centers)
    table = np.empty((0, 3)) if counts is None else np.array(counts, dtype=float)
    return PathLevel(
        k, np.array(centers, dtype=float), np.ones(k), {}, np.ones(k), valleys=table
    )


def test_cells_without_scatter_are_rows(seed):
    rng = np.random.default_rng(seed)
    X, centers = rng.random((200, 3)), rng.random((5, 3))
    counts = rng.integers(1, 9, 200)
    found = cell_valleys(Cells(counts, X, np.zeros(200)), centers)
    assert found.tolist() == valleys(X, counts.astype(float), centers).tolist()


def test_half_of_a_cell_lies_one_deviation_to_each_side():
    # Four rows around 5 with scatter 4 * 9: at 2 and 8, in no slab. The mean is in one.
    assert cell_valleys(cells([4], [5], [36]), ENDS).tolist() == [[0.0] * 3] * 2
    # With scatter 4 at 4 and 6: in the middle.
    found = cell_valleys(cells([4], [5], [4]), ENDS)
    assert found.tolist() == [[4.0, 0.0, 0.0]] * 2
    # Around 0 with scatter 2 * 16: at -4 and 4, half of it in the middle.
    found = cell_valleys(cells([2], [0], [32]), ENDS)
    assert found.tolist() == [[1.0, 0.0, 0.0]] * 2


def test_the_deviation_is_that_of_one_direction():
    # Two columns: of a scatter of 3 half is in each, 3/4 a row. Without halving it the
    # cell would reach beyond the slabs.
    ends = np.array([[0.0, 3.0], [10.0, 3.0]])
    found = cell_valleys(cells([2], [[0.0, 3.0]], [3.0]), ends)
    assert found.tolist() == [[0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]


@pytest.mark.parametrize("centers", [[[0.0]], [[1.0], [1.0]]])
def test_nothing_is_counted_without_an_axis(centers):
    found = cell_valleys(cells([3], [1], [0]), np.array(centers))
    assert found.tolist() == [[0.0] * 3] * len(centers)


def test_cells_of_others_are_not_between():
    # The cell at 12 is nearest to the centre at 20, which is nearest to nobody else's.
    three = np.array([[0.0], [1.0], [20.0]])
    found = cell_valleys(cells([7], [12], [0]), three)
    assert found[:2].tolist() == [[0.0] * 3] * 2


def test_counts_go_with_their_centres():
    before = level([[0.0], [5.0], [9.0]], [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    (found,) = carried_over((level([[9.1], [0.1], [5.2]]),), (before,))
    assert found.valleys.tolist() == [[7, 8, 9], [1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (level([[0.0], [5.0]], [[1, 1, 1]] * 2), level([[0.0], [5.0], [9.0]])),
        (level([[0.0], [5.0]]), level([[0.0], [5.0]])),
        # Both are nearest to the same one: this is another clustering.
        (level([[0.0], [5.0]], [[1, 1, 1]] * 2), level([[4.0], [6.0]])),
    ],
)
def test_other_clusterings_have_nothing_to_carry_over(before, now):
    (found,) = carried_over((now,), (before,))
    assert found is now


def test_what_is_counted_is_not_replaced():
    now = level([[0.0], [5.0]], [[2, 2, 2]] * 2)
    before = level([[0.0], [5.0]], [[1, 1, 1]] * 2)
    assert carried_over((now,), (before,)) == (now,)

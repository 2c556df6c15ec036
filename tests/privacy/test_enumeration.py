# SPDX-License-Identifier: Apache-2.0
"""Everything that fits a cell, gone through by hand and by the attack."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core.cells import cells_of
from afcl.core.rounding import coarse_cells, squared_steps
from afcl.data.features import WIDTH
from afcl.privacy import attacks_enumeration
from afcl.privacy.attacks import Released
from afcl.privacy.attacks_enumeration import enumerate_cells, enumerated
from afcl.privacy.lattice import Lattice, lattice_of, measured_in
from afcl.scale import Box


def found(X, labels, unit=0.0, step=0.0):
    """Attack labelled whole numbers; return the values of every cell and column."""
    d = X.shape[1]
    box = Box(np.zeros(d), np.full(d, 10.0))
    labels = np.asarray(labels)
    cells = cells_of(box.scale(X), labels, int(labels.max()) + 1)
    if unit:
        cells = coarse_cells(cells, np.full(d, unit))
    release = Released((0,), cells, step=step)
    lattice = Lattice(np.ones(d), box)
    return [known.columns for known in enumerate_cells(release, lattice, unit)]


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def test_one_way_to_fill_a_cell():
    """Five numbers of sum 21 and scatter .8: 4, 4, 4, 4, 5 and no others."""
    assert found(column(4, 4, 4, 4, 5), [0] * 5) == [(Counter({4: 4, 5: 1}),)]


def test_two_ways_share_some_values():
    """Sum 15: scatter 10 has 1 2 3 4 5 alone, scatter 6 has 2 2 3 3 5 and 1 3 3 4 4."""
    assert found(column(1, 2, 3, 4, 5), [0] * 5) == [
        (Counter({1: 1, 2: 1, 3: 1, 4: 1, 5: 1}),)
    ]
    # Distances 2 -1 -1 0 0 to the mean have the sum and scatter of -2 1 1 0 0.
    assert found(column(5, 2, 2, 3, 3), [0] * 5) == [(Counter({3: 2}),)]


def test_neighbours_are_bounds():
    """0 0 3 3 and 0 0 0 ... : a cell lies between the means beside it."""
    rows = column(0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 20, 20, 20, 20, 20)
    labels = np.repeat([0, 1, 2], 5)
    assert found(rows, labels)[1] == (Counter({4: 1, 5: 1, 6: 1, 7: 1, 8: 1}),)


def test_rounded_cells_leave_too_many_ways():
    """A unit of 1/16 of the box is 6 squared steps."""
    rows = column(3, 4, 4, 5, 7)
    assert found(rows, [0] * 5) != [(Counter(),)]
    assert found(rows, [0] * 5, unit=1 / 16) == [(Counter(),)]


def test_two_columns_share_one_scatter():
    """A column of equal values leaves all of the scatter to the other."""
    rows = np.array([[2.0, 1], [2, 1], [2, 1], [2, 1], [2, 2]])
    assert found(rows, [0] * 5) == [(Counter({2: 5}), Counter({1: 4, 2: 1}))]


def test_large_cells_and_grids_are_left_alone():
    rows = column(*range(14))
    assert found(rows, [0] * 14) == [(Counter(),)]
    assert found(column(1, 2, 3, 4, 5), [0] * 5, step=1 / 64) == [(Counter(),)]


def test_too_many_ways_tell_nothing(monkeypatch):
    rows = np.array([[2.0, 1], [2, 9], [7, 1], [2, 5], [4, 2]])
    monkeypatch.setattr(attacks_enumeration, "MOST_WAYS", 2)
    assert found(rows, [0] * 5) == [(Counter(), Counter())]
    monkeypatch.undo()
    monkeypatch.setattr(attacks_enumeration, "MOST_SUMS", 0)
    assert len(found(rows, [0] * 5)) == 1


@given(
    st.lists(st.integers(0, 9), min_size=5, max_size=8),
    st.sampled_from([0.0, 1 / 64, 1 / 16]),
)
def test_what_is_found_is_there(values, unit):
    """Whatever is rounded, the true rows are among the ways that are gone through."""
    rows = column(*values, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9)
    labels = [1] * len(values) + [0] * 5 + [2] * 5
    order = np.argsort([np.mean(values), 0, 9], kind="stable")
    assert order.size == 3
    for known, label in zip(found(rows, labels, unit), (0, 1, 2), strict=False):
        held = Counter(rows[np.array(labels) == label, 0].astype(int).tolist())
        if label == 1 and 0 < np.mean(values) < 9:
            assert known[0] <= held


def test_steps_of_columns():
    rows = np.array([[1.0, 0.5, 1e6, 2.0], [2.0, 0.25, 3.0, 2.0], [9.0, 1.0, 0.0, 2.0]])
    assert measured_in(rows).tolist() == [1.0, 0.01, 0.0, 1.0]


def test_values_are_counted_by_how_many_rows_have_them():
    rows = column(4, 4, 4, 4, 5, 20, 21, 22, 23, 24, 4, 4)
    box = Box(np.zeros(1), np.full(1, 24.0))
    labels = np.array([0] * 5 + [1] * 5 + [0] * 2)
    release = Released((0,), cells_of(box.scale(rows), labels, 2))
    result = enumerated([release, Released((1,), release.cells)], [rows], box)
    assert result.shared == pytest.approx(6 / 12)
    assert 1 / 12 <= result.singled <= 6 / 12


def test_continuous_columns_are_left_alone(seed):
    rows = np.random.default_rng(seed).random((20, 1))
    box = Box(np.zeros(1), np.ones(1))
    cells = cells_of(rows, np.repeat(np.arange(4), 5), 4)
    result = enumerated([Released((0,), cells)], [rows], box)
    assert (result.singled, result.shared) == (0, 0)
    assert squared_steps(rows).max() < 1e-4


# ------------------------------------------------------------------ yes and no


def test_a_mean_tells_how_many_have_a_level():
    """Categories are 0 or 1 in a box of 0 to 5.66; two of twenty rows have a level."""
    rows = np.zeros((20, 2))
    rows[[3, 4], 1] = 1.0
    rows[:, 0] = np.pi * np.arange(20)
    box = Box(np.zeros(2), np.array([60.0, WIDTH]))
    labels = np.repeat([0, 1], [6, 14])
    release = Released((0,), cells_of(box.scale(rows), labels, 2))
    lattice = lattice_of(rows, box, np.array([False, True]))
    told = [known.columns[1] for known in enumerate_cells(release, lattice)]
    assert told == [Counter({0: 4, 1: 2}), Counter({0: 14, 1: 0})]
    bounds = (np.array([np.nan, 0.0]), np.array([np.nan, WIDTH]))
    result = enumerated([release], [rows], box, bounds)
    assert (result.singled, result.shared) == (2 / 40, 18 / 40)


def test_a_grid_of_one_in_64_tells_it_of_small_cells():
    """A level counts .177; a fifth of that is more than two steps of the grid."""
    rows = np.column_stack([np.linspace(0, 1, 20), np.arange(20) < 3])
    box = Box(np.zeros(2), np.array([1.0, WIDTH]))
    cells = cells_of(box.scale(rows), np.repeat([0, 1], [5, 15]), 2)
    grid = replace(cells, means=np.rint(cells.means * 64) / 64)
    release = Released((0,), grid, step=1 / 64)
    lattice = lattice_of(rows, box, np.array([False, True]))
    small, large = enumerate_cells(release, lattice)
    assert small.columns[1] == Counter({0: 2, 1: 3})
    assert large.columns[1] == Counter()


def test_columns_of_two_numbers_are_yes_and_no_too():
    rows = np.array([[1.0, 8], [2, 8], [1, 7], [1, 9], [1, 8], [2, 8]])
    box = Box(np.zeros(2), np.array([3.0, 10.0]))
    lattice = lattice_of(rows, box)
    assert lattice.yes_no.tolist() == [True, False]
    release = Released((0,), cells_of(box.scale(rows), np.zeros(6, dtype=int), 1))
    (known,) = enumerate_cells(release, lattice)
    assert known.columns[0] == Counter({1: 4, 2: 2})
    # What is left of the scatter is the other column's.
    assert known.columns[1] == Counter({7: 1, 8: 4, 9: 1})


def test_shares_of_yes_are_no_count(seed):
    """Gaps are filled with means: what is no whole number of rows tells nothing."""
    rows = np.zeros((6, 2))
    rows[0, 1], rows[:, 0] = 0.2, np.arange(6)
    box = Box(np.zeros(2), np.array([6.0, WIDTH]))
    release = Released((0,), cells_of(box.scale(rows), np.zeros(6, dtype=int), 1))
    lattice = lattice_of(rows, box, np.array([False, True]))
    (known,) = enumerate_cells(release, lattice)
    assert known.columns[1] == Counter()


@given(
    st.lists(st.booleans(), min_size=5, max_size=40),
    st.lists(st.booleans(), min_size=5, max_size=40),
)
def test_counts_of_yes_are_exact(first, second):
    rows = np.array([[float(i), yes] for i, yes in enumerate([*first, *second])])
    box = Box(np.zeros(2), np.array([100.0, WIDTH]))
    labels = np.repeat([0, 1], [len(first), len(second)])
    release = Released((0,), cells_of(box.scale(rows), labels, 2))
    lattice = lattice_of(rows, box, np.array([False, True]))
    told = [known.columns[1][1] for known in enumerate_cells(release, lattice)]
    assert told == [sum(first), sum(second)]


def test_whoever_knows_the_ends_of_a_column_leaves_out_what_cannot_be():
    """Nobody has -1 children: a sum of 2 and a scatter of 3.2 are one who has 2."""
    rows = column(0, 0, 0, 0, 2)
    box = Box(np.zeros(1), np.full(1, 10.0))
    release = Released((0,), cells_of(box.scale(rows), np.zeros(5, dtype=int), 1))
    (known,) = enumerate_cells(release, lattice_of(rows, box), unit=1 / 64)
    assert known.columns[0] == Counter()
    (known,) = enumerate_cells(release, lattice_of(rows, box, ends=True), unit=1 / 64)
    assert known.columns[0] <= Counter({0: 4, 2: 1})
    two = np.column_stack([rows, np.array([7.0, 7, 7, 9, 9])])
    box = Box(np.zeros(2), np.full(2, 10.0))
    release = Released((0,), cells_of(box.scale(two), np.zeros(5, dtype=int), 1))
    without, within = (
        next(enumerate_cells(release, lattice_of(two, box, ends=ends)))
        for ends in (False, True)
    )
    assert without.columns[0] <= within.columns[0] <= Counter({0: 4, 2: 1})

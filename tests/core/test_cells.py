# SPDX-License-Identifier: Apache-2.0
"""Cells: what they say of the rows, and that pooling and folding lose nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from afcl.core.cells import (
    cells_of,
    fold,
    fold_owned,
    has_few_values,
    join_coincident,
    pool,
    union,
)
from afcl.core.messages import Cells


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def cells(counts, means, scatters):
    return Cells(np.array(counts), column(*means), np.array(scatters, dtype=np.float64))


def as_lists(found):
    return found.counts.tolist(), found.means[:, 0].tolist(), found.scatters.tolist()


def moments(bag):
    """Count, mean and total scatter around that mean, of all cells together."""
    count = bag.counts.sum()
    mean = (bag.counts[:, None] * bag.means).sum(axis=0) / count
    around = bag.counts * ((bag.means - mean) ** 2).sum(axis=1)
    return count, mean, (bag.scatters + around).sum()


# ------------------------------------------------------------- cells of rows


def test_cells_of_by_hand():
    # Label 0: 1, 3, 8 -> mean 4, scatter 9 + 1 + 16 = 26. Label 1: nobody.
    # Label 2: 10 -> scatter 0.
    found = cells_of(column(1, 10, 3, 8), np.array([0, 2, 0, 0]), 3)
    assert as_lists(found) == ([3, 1], [4.0, 10.0], [26.0, 0.0])
    assert found.counts.dtype == np.int64
    assert found.means.dtype == np.float64
    assert len(found) == 2


def test_cells_of_adds_the_features_scatter():
    # (0,0), (2,4): mean (1,2), scatter 2 * (1 + 4) = 10.
    found = cells_of(np.array([[0.0, 0.0], [2.0, 4.0]]), np.array([0, 0]), 1)
    assert found.means.tolist() == [[1.0, 2.0]]
    assert found.scatters.tolist() == [10.0]


# ------------------------------------------------------------------- pooling


def test_pool_by_hand():
    # Rows 0, 2 as a cell (2, 1, 2) and the row 4 as (1, 4, 0): mean (2 + 4)/3 = 2,
    # scatter 2 + 0 + 2 * 1 + 1 * 4 = 8; directly: 4 + 0 + 4. The cell (3, 9, 5) alone.
    bag = cells([2, 3, 1], [1, 9, 4], [2, 5, 0])
    counts, means, scatters = pool(bag, np.array([0, 2, 0]), 3)
    assert counts.tolist() == [3.0, 0.0, 3.0]
    assert means[:, 0].tolist() == [2.0, 0.0, 9.0]
    assert scatters.tolist() == [8.0, 0.0, 5.0]


def test_pooled_cells_are_the_cells_of_the_rows(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    fine = rng.permutation(np.arange(200) % 12)
    coarse_of = rng.permutation(np.arange(12) % 4)
    counts, means, scatters = pool(cells_of(X, fine, 12), coarse_of, 4)
    expected = cells_of(X, coarse_of[fine], 4)
    np.testing.assert_array_equal(counts, expected.counts)
    np.testing.assert_allclose(means, expected.means, rtol=0, atol=1e-12)
    np.testing.assert_allclose(scatters, expected.scatters, rtol=1e-12)


# ------------------------------------------------------------------- folding


def test_fold_by_hand():
    # The cell of 1 goes first: nearest mean is 5 (gap 1). It becomes 4 rows with mean
    # (6 + 3 * 5)/4 = 5.25 and scatter 3 + 0.5 + 1 * 3/4 * 1 = 4.25. The cell of 2 goes
    # next: 5.25 is nearer to 0 than 20 is: (0 + 4 * 5.25)/6 = 3.5 and scatter
    # 4.25 + 1 + 2 * 4/6 * 5.25^2 = 42.
    start = cells([2, 1, 3, 9], [0, 6, 5, 20], [1, 0.5, 3, 7])
    counts, means, scatters = as_lists(fold(start, 3))
    assert counts == [6, 9]
    assert means == [3.5, 20.0]
    assert scatters == pytest.approx([42.0, 7.0], rel=1e-15)
    assert as_lists(start) == ([2, 1, 3, 9], [0.0, 6.0, 5.0, 20.0], [1, 0.5, 3, 7])


def test_fold_takes_the_lowest_index_on_ties():
    # Two cells of one row: the first goes; its neighbours at 0 and 2 are equally near
    # and the first of them takes it: (2 * 0 + 1)/3. Then the other cell of one, at 9,
    # joins the nearer of 1/3 and 2.
    start = cells([2, 1, 2, 1], [0, 1, 2, 9], [0, 0, 0, 0])
    counts, means, _ = as_lists(fold(start, 2))
    assert counts == [3, 3]
    assert means == pytest.approx([1 / 3, (2 * 2 + 9) / 3], rel=1e-15)


def test_fold_leaves_large_cells_alone():
    start = cells([5, 7], [0, 1], [2, 3])
    assert as_lists(fold(start, 5)) == as_lists(start)
    assert as_lists(fold(start, 1)) == as_lists(start)


def test_fold_stops_at_one_cell():
    # 2 + 2 < 5, and nobody is left to join.
    assert as_lists(fold(cells([2, 2], [0, 1], [0, 0]), 5)) == ([4], [0.5], [1.0])
    assert as_lists(fold(cells([2], [3], [1]), 5)) == ([2], [3.0], [1.0])


def test_fold_of_coincident_cells_adds_no_scatter():
    assert as_lists(fold(cells([1, 1], [3, 3], [0, 0]), 2)) == ([2], [3.0], [0.0])


@st.composite
def bags(draw):
    r, d = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    return Cells(
        draw(arrays(np.int64, r, elements=st.integers(1, 9))),
        draw(arrays(np.float64, (r, d), elements=st.floats(-100, 100))),
        draw(arrays(np.float64, r, elements=st.floats(0, 100))),
    )


@given(bags(), st.integers(1, 12))
def test_folding_keeps_counts_mean_and_total_scatter(bag, smallest):
    folded = fold(bag, smallest)
    assert len(folded) == 1 or folded.counts.min() >= smallest
    expected, found = moments(bag), moments(folded)
    assert found[0] == expected[0]
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-9, atol=1e-9)


@given(bags(), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_pooling_keeps_counts_mean_and_total_scatter(bag, k, draw):
    labels = np.random.default_rng(draw).integers(0, k, len(bag))
    counts, means, scatters = pool(bag, labels, k)
    held = counts > 0
    pooled = Cells(counts[held].astype(np.int64), means[held], scatters[held])
    expected, found = moments(bag), moments(pooled)
    assert found[0] == expected[0]
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-9, atol=1e-9)


def test_folding_tells_whose_a_cell_is_left():
    # As above: 6 goes into 5, then 0 into that; 20 stays its owner's alone.
    start = cells([2, 1, 3, 9], [0, 6, 5, 20], [1, 0.5, 3, 7])
    folded, owners = fold_owned(start, np.array([3, 5, 8, 9]), 3)
    assert as_lists(folded) == as_lists(fold(start, 3))
    assert owners.tolist() == [-1, 9]
    assert owners.dtype == np.int64
    assert fold_owned(start, np.array([3, 5, 8, 9]), 1)[1].tolist() == [3, 5, 8, 9]


@given(bags(), st.integers(1, 12))
def test_whoever_keeps_its_owner_took_nobody_in(bag, smallest):
    folded, owners = fold_owned(bag, np.arange(len(bag)), smallest)
    own = owners >= 0
    np.testing.assert_array_equal(folded.counts[own], bag.counts[owners[own]])
    np.testing.assert_array_equal(folded.means[own], bag.means[owners[own]])
    assert len(folded) + (~own).sum() <= len(bag)


def test_cells_at_one_place_are_joined():
    start = cells([2, 1, 3, 4], [5, 0, 5, 7], [1, 0.5, 2, 3])
    joined, owners = join_coincident(start, np.array([4, 5, 6, 7]))
    assert as_lists(joined) == ([5, 1, 4], [5.0, 0.0, 7.0], [3.0, 0.5, 3.0])
    assert owners.tolist() == [-1, 5, 7]
    assert joined.counts.dtype == np.int64


def test_cells_at_different_places_stay_as_they_are():
    start, owners = cells([2, 1], [5, 0], [1, 0.5]), np.array([4, 5])
    assert join_coincident(start, owners) == (start, owners)


# --------------------------------------------------------------------- union


def test_union_keeps_the_order():
    first, second = cells([2, 3], [0, 1], [4, 5]), cells([7], [9], [6])
    joined = union(bag for bag in (second, first))
    assert as_lists(joined) == ([7, 2, 3], [9.0, 0.0, 1.0], [6.0, 4.0, 5.0])
    assert joined.counts.dtype == np.int64


@pytest.mark.parametrize("n", [40, 1000, 5000])
@pytest.mark.parametrize("seed", range(3))
def test_columns_of_few_values_are_known_from_those_of_many(n, seed):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n, 2))
    bag = Cells(np.full(n, 5), means, np.ones(n))
    assert not has_few_values(bag, 1e-5)
    level = rng.integers(0, 3, n) / 2.0
    assert has_few_values(replace(bag, means=np.column_stack([means, level])), 1e-5)
    # A column that is the same everywhere tells nothing, and hides nothing.
    assert not has_few_values(
        replace(bag, means=np.column_stack([means, 0 * level])), 1e-5
    )

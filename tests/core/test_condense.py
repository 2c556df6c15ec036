# SPDX-License-Identifier: Apache-2.0
"""Fewer cells that stand for many: what is conserved, and what is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.core import condense
from afcl.core.cells import pool
from afcl.core.condense import condense_cells, groups_of, thin_cells
from afcl.core.messages import Cells


def cells(counts, means, scatters=None):
    places = np.array(means, dtype=np.float64).reshape(len(counts), -1)
    scatter = np.zeros(len(counts)) if scatters is None else np.array(scatters, float)
    return Cells(np.array(counts), places, scatter)


def drawn(seed, n=300, d=3, spots=6):
    rng = np.random.default_rng(seed)
    middles = rng.random((spots, d))
    means = middles[rng.integers(0, spots, n)] + 0.02 * rng.normal(size=(n, d))
    return Cells(rng.integers(1, 9, n), means, rng.random(n))


def whole(bag):
    """Return count, mean and scatter of all cells together."""
    labels = np.zeros(len(bag), dtype=np.int64)
    counts, means, scatters = pool(bag, labels, 1)
    return np.concatenate([counts, means[0], scatters])


# ------------------------------------------------------------------ condensing


def test_few_cells_stay_as_they_are():
    bag = cells([1, 2], [0, 1])
    assert condense_cells(bag, 2) is bag


def test_two_pairs_become_two_cells():
    # Mean 5.25: {0, 1} and {10, 10} (6 rows). 0 and 1 with one row and three: mean .75,
    # scatter 1 * .75^2 + 3 * .25^2 = .75, and 2 that they had.
    found = condense_cells(cells([1, 3, 2, 2], [0, 1, 10, 10], [1, 1, 0, 4]), 2)
    order = np.argsort(found.means[:, 0])
    assert found.counts[order].tolist() == [4, 4]
    assert found.means[order, 0].tolist() == [0.75, 10.0]
    assert found.scatters[order].tolist() == [2.75, 4.0]


def test_the_group_that_loses_most_is_cut_first():
    # {0, 4} loses 8 by being one, {100, 101} loses .5: with three groups 0 and 4 part.
    labels, k = groups_of(
        np.array([[0.0], [4.0], [100.0], [101.0]]), np.ones(4), most=3
    )
    assert k == 3
    assert labels[2] == labels[3]
    assert len({*labels.tolist()}) == 3


def test_a_group_is_cut_across_its_widest_feature():
    points = np.array([[0.0, 0.0], [1.0, 5.0], [0.0, 5.0], [1.0, 0.0]])
    labels, k = groups_of(points, np.ones(4), most=2)
    assert k == 2
    assert labels[0] == labels[3] != labels[1] == labels[2]


def test_equal_cells_are_one_however_many_may_be():
    found = condense_cells(cells([1] * 9, [3.0] * 9), 4)
    assert found.counts.tolist() == [9]
    assert found.means.tolist() == [[3.0]]
    assert found.scatters.tolist() == [0.0]


def test_numbers_that_differ_by_rounding_only_end_it():
    # Far from 0 the mean of two neighbours is one of them, and nothing is beyond it.
    near = np.nextafter(1.0, 2.0)
    points = np.array([[1.0], [near], [1.0], [near], [7.0]])
    labels, k = groups_of(points, np.array([1.0, 9.0, 1.0, 9.0, 1.0]), most=4)
    assert 2 <= k <= 4
    assert labels.max() == k - 1


@pytest.mark.parametrize("most", [1, 2, 7, 50, 299])
def test_rows_means_and_scatters_are_conserved(seed, most):
    bag = drawn(seed)
    found = condense_cells(bag, most)
    assert len(found) == most
    assert found.counts.min() >= 1
    assert found.counts.sum() == bag.counts.sum()
    np.testing.assert_allclose(whole(found), whole(bag), rtol=1e-12)


def test_clusters_far_apart_are_never_mixed(seed):
    rng = np.random.default_rng(seed)
    own = rng.integers(0, 5, 400)
    means = 10.0 * own[:, None] + rng.random((400, 2))
    found, k = groups_of(means, rng.integers(1, 5, 400).astype(float), most=20)
    assert k == 20
    assert all(np.unique(own[found == group]).size == 1 for group in range(k))


def test_little_is_lost(seed):
    # As little as k-means++ loses with as many picks, give or take.
    bag = drawn(seed, n=2000, d=2, spots=9)
    lost = condense_cells(bag, 200).scatters.sum() - bag.scatters.sum()
    assert lost < 0.01 * (whole(bag)[-1] - bag.scatters.sum())


def test_nothing_is_drawn_and_the_place_does_not_matter(seed):
    bag = drawn(seed)
    weights = bag.counts.astype(float)
    labels, k = groups_of(bag.means, weights, 40)
    again, _ = groups_of(bag.means.copy(), weights, 40)
    moved, _ = groups_of(bag.means + 1024.0, weights, 40)
    assert np.array_equal(labels, again)
    assert np.mean(labels == moved) > 0.99
    assert k == 40


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(-3, 3), st.floats(-1e6, 1e6)),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 12),
)
def test_any_bag_keeps_its_rows(rows, most):
    counts, first, second = zip(*rows, strict=True)
    bag = Cells(
        np.array(counts), np.array([first, second], dtype=float).T, np.zeros(len(rows))
    )
    found = condense_cells(bag, most)
    assert 1 <= len(found) <= max(most, 1)
    assert found.counts.sum() == sum(counts)
    assert found.counts.min() >= 1
    np.testing.assert_allclose(whole(found), whole(bag), rtol=1e-9, atol=1e-3)


def test_where_there_are_very_many_the_others_follow(seed, monkeypatch):
    # Cuts are found on every third cell; groups are cut at the same places for all.
    monkeypatch.setattr(condense, "SAMPLE", 100)
    monkeypatch.setattr(condense, "PER_GROUP", 5)
    monkeypatch.setattr(condense, "BLOCK", 64)
    bag = drawn(seed, n=300)
    found, k = groups_of(bag.means, bag.counts.astype(float), 20)
    assert found.shape == (300,)
    assert np.array_equal(np.unique(found), np.arange(k))
    picks = np.arange(100) * 300 // 100
    alone, _ = groups_of(bag.means[picks], bag.counts[picks].astype(float), 20)
    assert np.array_equal(found[picks], alone)
    pooled = condense_cells(bag, 20)
    np.testing.assert_allclose(whole(pooled), whole(bag), rtol=1e-12)


# ------------------------------------------------------------------ thinning


def test_a_third_of_a_bag():
    # 6, 4 and 2 rows: 2, 1.33 and .67; 4 in all, so the largest remainder gets one.
    bag = cells([6, 4, 2], [0, 1, 2], [3, 4, 6])
    found = thin_cells(bag, 1 / 3)
    assert found.counts.tolist() == [2, 1, 1]
    assert found.scatters.tolist() == [1.0, 1.0, 3.0]


def test_all_or_nothing():
    bag = cells([6, 4, 2], [0, 1, 2], [3, 4, 6])
    same = thin_cells(bag, 1.0)
    assert same.counts.tolist() == [6, 4, 2]
    assert same.scatters.tolist() == [3.0, 4.0, 6.0]
    assert len(thin_cells(bag, 0.0)) == 0


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30), st.floats(0, 1))
def test_a_share_of_the_rows_is_a_share_of_the_rows(counts, share):
    bag = cells(counts, range(len(counts)))
    found = thin_cells(bag, share)
    assert abs(int(found.counts.sum()) - sum(counts) * share) <= 0.5 + 1e-6 * sum(
        counts
    )
    assert (found.counts >= 1).all()

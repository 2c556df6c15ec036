# SPDX-License-Identifier: Apache-2.0
"""Placing seeds: scikit-learn's k-means++ draw by draw, Lloyd, coincident seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import KMeans, kmeans_plusplus

from afcl.core.seeding import (
    CONVERGED,
    distinct,
    merge_coincident,
    plus_plus,
    weighted_kmeans,
)
from afcl.kernels import assign, lloyd


class Legacy:
    """The draws of scikit-learn's generator, one at a time."""

    def __init__(self, seed):
        self._draw = np.random.RandomState(seed).random_sample

    def random(self) -> float:
        return float(self._draw())


class Fixed:
    """Given draws, in order."""

    def __init__(self, *draws):
        self._draws = list(draws)

    def random(self) -> float:
        return float(self._draws.pop(0))


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def blobs(seed, n=120, d=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 6 * rng.integers(0, 3, size=(n, 1))


# ------------------------------------------------------------------ k-means++


def test_plus_plus_by_hand():
    # First draw .3 of mass 4 (cumulated 1 2 3 4): 1.2 -> row 1, at 1. Squared distances
    # 1 0 1 81, cumulated 1 1 2 83; .02 * 83 = 1.66 -> row 2. Then 1 0 0 64, cumulated
    # 1 1 1 65; .5 * 65 = 32.5 -> row 3.
    X = column(0, 1, 2, 10)
    assert plus_plus(X, 3, Fixed(0.3, 0.02, 0.5)).tolist() == [1, 2, 3]


def test_plus_plus_with_weights_by_hand():
    # Cumulated weights 1 1 6: .1 * 6 = .6 -> row 0. Weights times squared distances
    # 0 0 5 * 4: any draw -> row 2. A row without weight is never picked.
    weights = np.array([1.0, 0.0, 5.0])
    assert plus_plus(column(0, 1, 2), 2, Fixed(0.1, 0.0), weights).tolist() == [0, 2]


def test_plus_plus_ends_when_every_row_is_a_pick():
    assert plus_plus(column(4, 4, 4), 3, Fixed(0.5, 0.1, 0.2)).tolist() == [1]
    picks = plus_plus(column(1, 2, 1, 2), 4, Fixed(0.0, 0.9, 0.1, 0.1))
    assert picks.tolist() == [0, 3]


def test_plus_plus_never_draws_beyond_the_last_mass():
    # The smallest number there is, times .9, is rounded up to the whole mass.
    weights = np.array([0.0, 5e-324, 0.0])
    assert plus_plus(column(0, 1, 2), 1, Fixed(0.9), weights).tolist() == [1]
    # The same among squared distances: 2e-162 squared is 5e-324.
    assert plus_plus(column(2e-162, 0, 0), 2, Fixed(0.9, 0.9)).tolist() == [2, 0]


@pytest.mark.parametrize("draw", range(20))
def test_plus_plus_is_scikit_learns_with_one_trial(seed, draw):
    X, start = blobs(seed), 1000 * seed + draw
    _, expected = kmeans_plusplus(X, 9, random_state=start, n_local_trials=1)
    assert plus_plus(X, 9, Legacy(start)).tolist() == expected.tolist()


@pytest.mark.parametrize("draw", range(20))
def test_weighted_plus_plus_is_scikit_learns_with_one_trial(seed, draw):
    X, start = blobs(seed), 1000 * seed + draw
    weights = np.random.default_rng(start).integers(0, 5, X.shape[0]).astype(float)
    _, expected = kmeans_plusplus(
        X, 9, sample_weight=weights, random_state=start, n_local_trials=1
    )
    assert plus_plus(X, 9, Legacy(start), weights).tolist() == expected.tolist()


@given(
    arrays(np.float64, (9, 2), elements=st.integers(0, 2).map(float)),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
)
def test_picks_are_different_points(X, k, draw):
    picks = plus_plus(X, k, np.random.default_rng(draw))
    assert picks.shape[0] == min(k, distinct(X)) == distinct(X[picks])


# --------------------------------------------------------------------- Lloyd


@pytest.mark.parametrize("weighted", [False, True])
def test_lloyd_is_scikit_learns(seed, weighted):
    rng = np.random.default_rng(seed)
    X = blobs(seed, 300, 2)
    weights = rng.integers(1, 6, 300).astype(float) if weighted else np.ones(300)
    start = X[rng.choice(300, 7, replace=False)]
    expected = KMeans(7, init=start, n_init=1, tol=0, max_iter=500, algorithm="lloyd")
    expected.fit(X, sample_weight=weights)
    centers, labels = lloyd(X, weights, start, 500)
    np.testing.assert_allclose(centers, expected.cluster_centers_, atol=1e-10, rtol=0)
    np.testing.assert_array_equal(labels, expected.labels_)


def test_weights_are_repetitions(seed):
    rng = np.random.default_rng(seed)
    X = blobs(seed, 60, 2)
    weights = rng.integers(1, 4, 60)
    start = X[rng.choice(60, 5, replace=False)]
    weighted, _ = lloyd(X, weights.astype(float), start, CONVERGED)
    repeated = np.repeat(X, weights, axis=0)
    plain, _ = lloyd(repeated, np.ones(repeated.shape[0]), start, CONVERGED)
    np.testing.assert_allclose(weighted, plain, atol=1e-12, rtol=0)


# ----------------------------------------------------------- weighted k-means


def sse(X, weights, centers):
    return float((weights * assign(X, centers)[1]).sum())


def test_the_lowest_weighted_sse_is_kept(seed):
    X = blobs(seed, 80, 2)
    weights = np.random.default_rng(seed).integers(1, 5, 80).astype(float)
    rng, again = np.random.default_rng(seed), np.random.default_rng(seed)
    best = weighted_kmeans(X, weights, 6, rng, 4)
    runs = [
        lloyd(X, weights, X[plus_plus(X, 6, again, weights)], CONVERGED)[0]
        for _ in range(4)
    ]
    costs = [sse(X, weights, centers) for centers in runs]
    np.testing.assert_array_equal(best, runs[int(np.argmin(costs))])


def test_a_start_takes_part_and_wins_only_if_better(seed):
    # Three tight pairs: from one centre a pair the cost is 3 * 2 * .01, whatever else
    # a draw finds; from three centres in one pair, Lloyd cannot get there.
    X = column(0, 0.2, 10, 10.2, 20, 20.2)
    weights = np.ones(6)
    good, bad = column(0, 10, 20), column(0, 0.05, 0.2)
    found = weighted_kmeans(X, weights, 3, np.random.default_rng(seed), 1, good)
    assert sse(X, weights, found) == pytest.approx(0.06)
    stuck = lloyd(X, weights, bad, CONVERGED)[0]
    assert sse(X, weights, stuck) > 1
    found = weighted_kmeans(X, weights, 3, np.random.default_rng(seed), 8, bad)
    assert sse(X, weights, found) <= sse(X, weights, stuck)


def test_without_restarts_only_the_start_counts():
    X = column(0, 1, 10, 11)
    rng = np.random.default_rng(0)
    found = weighted_kmeans(X, np.ones(4), 2, rng, 0, column(0, 10))
    assert found[:, 0].tolist() == [0.5, 10.5]


# ------------------------------------------------------- distinct, coincident


def test_distinct_counts_different_rows():
    assert distinct(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0]])) == 2
    assert distinct(column(3)) == 1


def test_chains_of_coincident_seeds_are_one():
    # 0 - 0.9 - 1.8 hang together by pairs, though 0 and 1.8 are farther than 1 apart;
    # listed out of order: the first of each group stays.
    seeds = column(5, 0, 1.8, 0.9, 5.5)
    assert merge_coincident(seeds, 1.0)[:, 0].tolist() == [5.0, 0.0]


def test_coincident_means_less_than_the_width_in_every_coordinate():
    assert merge_coincident(column(0, 1), 1.0).shape[0] == 2
    assert merge_coincident(np.array([[0.0, 0.0], [0.5, 1.5]]), 1.0).shape[0] == 2
    assert merge_coincident(np.array([[0.0, 0.0], [0.9, -0.9]]), 1.0).shape[0] == 1


@given(arrays(np.float64, (8, 2), elements=st.integers(0, 6).map(float)))
def test_survivors_are_one_of_each_connected_group(seeds):
    # Labels spread along close pairs until nothing changes: another way to the groups.
    close = (np.abs(seeds[:, None] - seeds[None]) < 1.5).all(axis=2)
    group = np.arange(8)
    for _ in range(8):
        group = np.array([group[close[i]].min() for i in range(8)])
    expected = seeds[np.unique(group)]
    np.testing.assert_array_equal(merge_coincident(seeds, 1.5), expected)

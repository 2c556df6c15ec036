# SPDX-License-Identifier: Apache-2.0
"""What is written in vector instructions is what its twins in NumPy say."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from afcl.kernels import along, lanes, reference
from afcl.kernels.singles import found_in_short
from afcl.kernels.tiles import TILE
from afcl.kernels.vectors import IS_COMPILED


# Not kept on the disk: what writes the instructions runs in every test run.
@njit
def nearest_of(columns, centers, found):
    lanes.nearest(columns, lanes.in_fours(centers), found)


@njit
def two_of(columns, centers, found):
    lanes.two_nearest(columns, lanes.in_fours(centers), found)


@njit
def ranked_of(columns, centers, spreads, found):
    groups, blurs = lanes.in_fours(centers), lanes.one_each(spreads)
    distances = np.empty((blurs.shape[0], columns.shape[1]))
    lanes.ranked(columns, groups, blurs, distances, found)
    return distances


@njit
def products_of(columns, factors, norms, found):
    lanes.two_by_products(columns, factors, norms, found)


@njit
def added_around(rows, centers, label, best, counts, firsts, seconds):
    along.add_around(rows, centers, label, best, counts, firsts, seconds)


@njit
def apart(rows, centers, label, best):
    along.apart_from_own(rows, centers, label, best)


@njit
def turned(rows, columns):
    along.turn(rows, columns)


@njit
def nearest_own(rows, parents, groups, starts, label):
    along.nearest_of_own(rows, parents, groups, starts, label)


def tile(seed, d, k, rows=TILE):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d))
    centers[-1] = centers[0]  # of two that are as near the first is meant
    return rng.normal(size=(rows, d)), centers, rng


def test_by_hand():
    # One feature; centres at 0, 10 and 4, spreads of .5, 2 and 30. The row at 3 is 1
    # from the third, 9 from the first; with spreads 9.5 and 51 are left. At 10 all is
    # 0; then 36, and 100.5 is more than 66.
    columns = np.zeros((1, TILE))
    columns[0, :2] = 3.0, 10.0
    found = lanes.found_for(TILE)
    distances = ranked_of(
        columns, np.array([[0.0], [10.0], [4.0]]), np.array([0.5, 2.0, 30.0]), found
    )
    assert distances[:3, 0].tolist() == [9.0, 49.0, 1.0]
    assert found.label[:2].tolist() == [2, 1]
    assert found.best[:2].tolist() == [1.0, 0.0]
    assert found.second[:2].tolist() == [9.0, 36.0]
    assert found.outside[:2].tolist() == [9.5, 66.0]


@pytest.mark.parametrize("rows", [TILE, TILE // 2])
@pytest.mark.parametrize(
    ("d", "k"), [(1, 2), (2, 3), (5, 4), (9, 5), (16, 8), (17, 41)]
)
def test_distances_have_the_bits_of_the_reference(seed, d, k, rows):
    X, centers, rng = tile(seed, d, k, rows)
    X[0] = centers[0]
    spreads = rng.random(k)
    columns = np.ascontiguousarray(X.T)
    expected = reference.squared_distances(X, centers)
    every, order = np.arange(rows), np.sort(expected, axis=1)
    found = [lanes.found_for(rows) for _ in range(3)]
    nearest_of(columns, centers, found[0])
    two_of(columns, centers, found[1])
    distances = ranked_of(columns, centers, spreads, found[2])
    for each in found:
        assert np.array_equal(each.label, expected.argmin(axis=1))
        assert np.array_equal(each.best, order[:, 0])
    assert np.array_equal(found[1].second, order[:, 1])
    assert np.array_equal(found[2].second, order[:, 1])
    assert np.array_equal(distances[:k], expected.T)
    assert np.isinf(distances[k:]).all()
    others = expected + spreads
    others[every, found[2].label] = np.inf
    assert np.array_equal(found[2].outside, others.min(axis=1))


@pytest.mark.parametrize(("d", "k"), [(2, 2), (16, 17), (33, 64)])
def test_products_in_32_bits(seed, d, k):
    X, centers, _ = tile(seed, d, k)
    columns = np.ascontiguousarray(X.T, dtype=np.float32)
    norms = lanes.one_each((centers**2).sum(axis=1).astype(np.float32))
    factors = lanes.in_fours((-2 * centers).astype(np.float32))
    factors[~np.isfinite(factors)] = 0.0
    found = found_in_short(TILE)
    products_of(columns, factors, norms, found)
    expected = (centers**2).sum(axis=1) - 2 * X @ centers.T
    order = np.sort(expected, axis=1)
    np.testing.assert_allclose(found.best, order[:, 0], atol=1e-4)
    np.testing.assert_allclose(found.second, order[:, 1], atol=1e-4)
    clear = order[:, 1] - order[:, 0] > 1e-4
    assert np.array_equal(found.label[clear], expected.argmin(axis=1)[clear])
    assert (found.label < k).all()


def test_the_only_centre_has_no_second(seed):
    X, centers, _ = tile(seed, 3, 1)
    found = lanes.found_for(TILE)
    ranked_of(np.ascontiguousarray(X.T), centers, np.ones(1), found)
    assert (found.label == 0).all()
    assert np.isinf(found.second).all()
    assert np.isinf(found.outside).all()


@pytest.mark.parametrize("d", [1, 7, 8, 9, 16, 30])
@pytest.mark.parametrize("held", [0, 1, TILE])
def test_rows_and_their_own_centres(seed, d, held):
    X, centers, rng = tile(seed, d, 6)
    rows, label = X[:held], rng.integers(0, 6, TILE)
    best = np.full(TILE, np.nan)
    apart(rows, centers, label, best)
    own = label[:held]
    expected = ((rows - centers[own]) ** 2).sum(axis=1)
    np.testing.assert_allclose(best[:held], expected, rtol=1e-14)
    assert np.isnan(best[held:]).all()
    counts, firsts, seconds = np.ones(6), np.ones((6, d)), np.ones(6)
    known, first, second = counts.copy(), firsts.copy(), seconds.copy()
    added_around(rows, centers, label, best, counts, firsts, seconds)
    for row in range(held):
        known[label[row]] += 1
        first[label[row]] += rows[row] - centers[label[row]]
        second[label[row]] += best[row]
    assert np.array_equal(counts, known)
    assert np.array_equal(firsts, first)
    assert np.array_equal(seconds, second)


def test_the_nearest_of_a_rows_own_centres(seed):
    # Two parents, with three centres and with eleven: one group of eight and two.
    rng = np.random.default_rng(seed)
    X, parents = rng.normal(size=(50, 5)), rng.integers(0, 2, 50)
    X[0] = 0.0
    parents[0] = 0
    own = [rng.normal(size=(3, 5)), rng.normal(size=(11, 5))]
    own[0][1] = -own[0][0]  # both as far from the origin: the first is meant
    own[0][2] = 9.0
    groups = np.full((3, 5, 8), np.inf)
    groups[0, :, :3] = own[0].T
    groups[1], groups[2, :, :3] = own[1][:8].T, own[1][8:].T
    label = np.full(50, -1)
    nearest_own(X, parents, groups, np.array([0, 1, 3]), label)
    for row in range(50):
        expected = reference.squared_distances(X[row : row + 1], own[parents[row]])
        assert label[row] == expected.argmin()


@pytest.mark.parametrize("d", [1, 7, 8, 9, 16, 21])
@pytest.mark.parametrize("held", [0, 1, 8, 13, 64])
def test_rows_are_turned_feature_by_feature(seed, d, held):
    rows = np.random.default_rng(seed).normal(size=(held, d))
    columns = np.full((d, 64), np.nan)
    turned(rows, columns)
    assert np.array_equal(columns[:, :held], rows.T)
    assert np.isnan(columns[:, held:]).all()


@pytest.mark.skipif(not IS_COMPILED, reason="a question to the compiler")
def test_arrays_that_do_not_lie_line_by_line_are_refused():
    rows = np.zeros((8, 16))
    for one, other in ((rows[:, ::2], rows.T), (rows.T, rows)):
        with pytest.raises(TypingError, match="must lie in memory line by line"):
            turned(one, other)

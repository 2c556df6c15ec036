# SPDX-License-Identifier: Apache-2.0
"""The nearest centre in 32 bits is that in 64, whatever the rows."""

from __future__ import annotations

import os

import numpy as np
import pytest

from afcl.kernels import native, reference, singles, tiles

#: As plain Python (see test_parity.py) the kernels are slow: fewer rows do.
MANY = 300 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 5000


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Let small tables be wide, where the kernels are not compiled."""
    # Compiled code is kept on the disk, with the numbers it was compiled with.
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        monkeypatch.setattr(tiles, "SMALL_WIDE", 0)


def of_use(X, centers):
    single = singles.single_for(X, centers, tiles.TILE)
    return bool(singles.is_of_use(X, centers, single))


def assert_same(X, centers):
    """Compare labels, distances and sums with the reference's."""
    known, apart = reference.assign(X, centers)
    labels, nearest = native.assign(X, centers)
    assert np.array_equal(labels, known)
    np.testing.assert_allclose(nearest, apart, rtol=1e-12)
    nothing = np.zeros(centers.shape[0])
    asked = (np.array([0, centers.shape[0]]), np.array([0]), nothing, nothing)
    found = native.tally(X, centers, *asked)
    expected = reference.tally(X, centers, *asked)
    assert np.array_equal(found[0], expected[0])
    for one, other in zip(found[1:3], expected[1:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("d", "k"), [(9, 40), (16, 41), (33, 33)])
def test_rows_of_clusters(seed, d, k):
    rng = np.random.default_rng(seed)
    centers = rng.random((k, d))
    X = centers[rng.integers(0, k, MANY)] + 0.1 * rng.normal(size=(MANY, d))
    assert of_use(X, centers)
    assert_same(X, centers)


def test_few_rows_half_way_are_computed_anew(seed):
    # Some rows lie between two centres, by less than 32 bits can tell; some centres are
    # there twice, and the first of them is meant.
    rng = np.random.default_rng(seed)
    centers = rng.random((40, 12))
    centers[39] = centers[3]
    X = centers[rng.integers(4, 39, MANY)] + 0.05 * rng.normal(size=(MANY, 12))
    X[1::50] = (centers[5] + centers[6]) / 2 + 1e-9 * rng.normal(size=X[1::50].shape)
    X[2::50] = centers[3] + 0.01 * rng.normal(size=X[2::50].shape)
    assert of_use(X, centers)
    assert_same(X, centers)


def test_clusters_that_are_small_beside_the_whole_are_left_to_64_bits(seed):
    rng = np.random.default_rng(seed)
    centers = np.repeat(rng.random((4, 12)), 10, axis=0)
    centers += 1e-5 * rng.normal(size=centers.shape)
    X = centers[rng.integers(0, 40, MANY)] + 1e-6 * rng.normal(size=(MANY, 12))
    assert not of_use(X, centers)
    assert_same(X, centers)


@pytest.mark.parametrize("far", [1e3, 1e12])
def test_where_the_origin_is_does_not_matter(seed, far):
    rng = np.random.default_rng(seed)
    centers = far + rng.integers(0, 64, (40, 12)).astype(float)
    X = centers[rng.integers(0, 40, MANY)] + rng.integers(-4, 5, (MANY, 12))
    assert of_use(X, centers)
    known = reference.assign(X, centers)[0]
    assert np.array_equal(native.assign(X, centers)[0], known)


def test_numbers_that_32_bits_do_not_hold(seed):
    rng = np.random.default_rng(seed)
    centers = 1e30 * rng.random((40, 12))
    X = centers[rng.integers(0, 40, MANY)] * (1 + 0.05 * rng.normal(size=(MANY, 12)))
    with np.errstate(all="ignore"):
        assert not of_use(X, centers)
        known = reference.assign(X, centers)[0]
        assert np.array_equal(native.assign(X, centers)[0], known)


@pytest.mark.parametrize(("d", "k"), [(8, 400), (30, singles.FEW - 1)])
def test_narrow_tables_and_few_centres_are_left_to_64_bits(seed, d, k):
    rng = np.random.default_rng(seed)
    X, centers = rng.random((MANY, d)), rng.random((k, d))
    assert not of_use(X, centers)
    assert not singles.turned(X, k).tiles.size


def test_few_centres_of_many_features(seed):
    rng = np.random.default_rng(seed)
    centers = rng.random((singles.FEW + 1, 700))
    X = centers[rng.integers(0, singles.FEW, 300)] + 0.1 * rng.normal(size=(300, 700))
    assert of_use(X, centers)
    assert_same(X, centers)


@pytest.mark.parametrize("iterations", [0, 1, 7])
@pytest.mark.parametrize("few", [True, False])
def test_lloyd_moves_as_the_reference_does(seed, iterations, few):
    # Half way between two centres 32 bits leave some rows in doubt, at first at least;
    # where one row is far out, all of them.
    rng = np.random.default_rng(seed)
    centers = rng.random((40, 12))
    X = centers[rng.integers(0, 40, MANY)] + 0.05 * rng.normal(size=(MANY, 12))
    X[1::30] = (centers[5] + centers[6]) / 2
    X[0] += 0.0 if few else 1e6
    weights = 1.0 + rng.random(MANY)
    moved, labels = native.lloyd(X, weights, centers, iterations)
    known, expected = reference.lloyd(X, weights, centers, iterations)
    assert np.array_equal(labels, expected)
    np.testing.assert_allclose(moved, known, rtol=1e-12)
    rows = singles.turned(X, 40)
    assert bool(singles.label_turned(X, rows, centers, labels)) == few
    assert np.array_equal(labels, reference.assign(X, centers)[0])

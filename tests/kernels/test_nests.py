# SPDX-License-Identifier: Apache-2.0
"""Partitions inside each other: by hand, and the twins bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl import kernels
from afcl.kernels import native, reference_nests

BACKENDS = pytest.mark.parametrize(
    "backend", [reference_nests, native], ids=["reference", "native"]
)


@BACKENDS
def test_the_nearest_seed_of_the_own_parent_by_hand(backend):
    # Parent 0 has the seeds at 0 and 4, parent 1 that at 1. The third row is nearer to
    # 1, which is not its parent's; the last is as far from 0 as from 4.
    X = np.array([[1.0], [3.0], [1.0], [2.0]])
    parents, starts = np.array([1, 0, 0, 0]), np.array([0, 2, 3])
    seeds = np.array([[0.0], [4.0], [1.0]])
    assert backend.nearest_inside(X, parents, starts, seeds).tolist() == [2, 1, 0, 0]


@BACKENDS
def test_sums_around_seeds_by_hand(backend):
    # Seed 0 at (1, 0): rows (2, 0) and (0, 3), so 1 - 1 and 0 + 3; squares 1 + 1, 9.
    X = np.array([[2.0, 0.0], [5.0, 5.0], [0.0, 3.0]])
    seeds = np.array([[1.0, 0.0], [9.0, 9.0], [5.0, 4.0]])
    counts, firsts, squares = backend.sums_around(X, np.array([0, 2, 0]), seeds)
    assert counts.tolist() == [2, 0, 1]
    assert firsts.tolist() == [[0, 3], [0, 0], [0, 1]]
    assert squares.tolist() == [[2, 9], [0, 0], [0, 1]]


@BACKENDS
def test_halves_inside_groups_by_hand(backend):
    # Group 0: 0, 1 and 8, 9, begun with 9 alone; 8 is nearer to it than to the mean of
    # the rest. Group 1: 5 and 5.5 are halves already.
    X = np.array([[0.0], [1.0], [8.0], [9.0], [5.0], [5.5]])
    labels, weights = np.array([0, 0, 0, 0, 1, 1]), np.ones(6)
    upper = np.array([False, False, False, True, False, True])
    found = backend.halved(X, weights, labels, upper, 8)
    assert found.tolist() == [False, False, True, True, False, True]
    assert backend.halved(X, weights, labels, upper, 0).tolist() == upper.tolist()
    # All of a group in one half: the other is at the origin, and takes what is nearer.
    none = np.zeros(6, dtype=bool)
    taken = backend.halved(X, weights, labels, none, 1)[:4]
    assert taken.tolist() == [True, True, False, False]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 12))
def test_twins_halve_alike(seed, n, d):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n, d)).round(1), rng.integers(1, 9, n).astype(float)
    labels, upper = rng.integers(0, 4, n), rng.random(n) < 0.5
    for max_iter in (1, 8):
        asked = (X, weights, labels, upper, max_iter)
        one, other = reference_nests.halved(*asked), native.halved(*asked)
        assert one.tolist() == other.tolist() == kernels.halved(*asked).tolist()


@BACKENDS
def test_how_rows_are_cut_does_not_show_in_sums(seed, backend):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(60, 3)), rng.integers(0, 4, 60)
    seeds = rng.normal(size=(4, 3))
    first = backend.sums_around(X[:17], labels[:17], seeds)
    kept = [each.copy() for each in first]
    both = backend.sums_around(X[17:], labels[17:], seeds, first)
    for one, other in zip(both, backend.sums_around(X, labels, seeds), strict=True):
        assert np.array_equal(one, other)
    for one, other in zip(first, kept, strict=True):
        assert np.array_equal(one, other)  # what was given is not written to


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 12))
def test_twins_give_the_same_bits(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).round(1)  # some ties
    sizes = rng.integers(1, 20, 4)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    seeds, parents = rng.normal(size=(starts[-1], d)).round(1), rng.integers(0, 4, n)
    own = reference_nests.nearest_inside(X, parents, starts, seeds)
    assert native.nearest_inside(X, parents, starts, seeds).tolist() == own.tolist()
    assert np.all((starts[parents] <= own) & (own < starts[parents + 1]))
    summed = reference_nests.sums_around(X, own, seeds)
    for one, other in zip(summed, native.sums_around(X, own, seeds), strict=True):
        assert one.tobytes() == other.tobytes()
    assert kernels.sums_around(X, own, seeds)[0].sum() == n

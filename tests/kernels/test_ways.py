# SPDX-License-Identifier: Apache-2.0
"""Ways between nodes and what joins along them: by hand, and the twins bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl import kernels
from afcl.kernels import native, reference, reference_ways

BACKENDS = pytest.mark.parametrize(
    "backend", [reference_ways, native], ids=["reference", "native"]
)
FAR = np.inf


@BACKENDS
def test_a_way_round_is_shorter(backend):
    # 0-1 is 5 directly, 1 + 2 by way of 2; 3 is reached from 2 only; 4 from nowhere.
    steps = np.array(
        [
            [FAR, 5, 1, FAR, FAR],
            [5, FAR, 2, FAR, FAR],
            [1, 2, FAR, 4, FAR],
            [FAR, FAR, 4, FAR, FAR],
            [FAR, FAR, FAR, FAR, FAR],
        ]
    )
    assert backend.shortest_ways(steps).tolist() == [
        [0, 3, 1, 5, FAR],
        [3, 0, 2, 6, FAR],
        [1, 2, 0, 4, FAR],
        [5, 6, 4, 0, FAR],
        [FAR, FAR, FAR, FAR, 0],
    ]


@BACKENDS
def test_ward_of_distances_by_hand(backend):
    # Three nodes on a line at 0, 1 and 4, with 1, 1 and 2 rows. 0 and 1: 1/2 * 1. Then
    # their mean .5 and 4: 2*2/4 * 3.5^2 = 12.25.
    places = np.array([0.0, 1.0, 4.0])
    squares = (places[:, None] - places) ** 2
    left, right, costs, sizes = backend.ward_of_distances(
        np.array([1.0, 1, 2]), squares
    )
    assert left.tolist() == [0, 3]
    assert right.tolist() == [1, 2]
    assert costs == pytest.approx([0.5, 12.25])
    assert sizes.tolist() == [2.0, 4.0]


@BACKENDS
def test_the_lowest_pair_on_ties(backend):
    squares = 1.0 - np.eye(4)
    left, right, *_ = backend.ward_of_distances(np.ones(4), squares)
    assert (left[0], right[0]) == (0, 1)


def drawn(seed, m):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2)).round(1)  # some ties
    squares = reference.squared_distances(X, X)
    steps = np.where(squares <= np.quantile(squares, 0.5), squares**1.5, np.inf)
    chain = np.arange(m - 1)
    steps[chain, chain + 1] = steps[chain + 1, chain] = squares[chain, chain + 1]
    return rng.integers(1, 9, m).astype(float), steps


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 25))
def test_twins_give_the_same_bits(seed, m):
    counts, steps = drawn(seed, m)
    ways = reference_ways.shortest_ways(steps)
    assert native.shortest_ways(steps).tobytes() == ways.tobytes()
    for one, other in zip(
        reference_ways.ward_of_distances(counts, ways),
        native.ward_of_distances(counts, ways),
        strict=True,
    ):
        assert one.tobytes() == other.tobytes()


def test_twins_give_the_same_bits_of_many_nodes(seed):
    # Steps of every order of magnitude: some are longer than two others by a rounding.
    rng = np.random.default_rng(seed)
    for power in (0.01, 1, 3, 12):
        X = rng.normal(size=(150, 2))
        squares = reference.squared_distances(X, X)
        near = np.argsort(squares, axis=1)[:, :12]
        linked = np.zeros_like(squares, dtype=bool)
        linked[np.arange(150)[:, None], near] = True
        linked = (linked | linked.T) & ~np.eye(150, dtype=bool)
        steps = np.where(linked, squares**power, np.inf)
        ways = reference_ways.shortest_ways(steps)
        assert native.shortest_ways(steps).tobytes() == ways.tobytes()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 15))
def test_on_squared_distances_it_is_ward(seed, m):
    rng = np.random.default_rng(seed)
    X, counts = rng.normal(size=(m, 3)), rng.integers(1, 9, m).astype(float)
    ours = kernels.ward_of_distances(counts, reference.squared_distances(X, X))
    theirs = kernels.ward(counts, X)
    assert ours[0].tolist() == theirs[0].tolist()
    assert ours[1].tolist() == theirs[1].tolist()
    assert ours[2] == pytest.approx(theirs[2])
    assert ours[3].tolist() == theirs[3].tolist()


def test_ways_are_symmetric_and_no_longer_by_a_detour(seed):
    _, steps = drawn(seed, 30)
    ways = kernels.shortest_ways(steps)
    assert np.array_equal(ways, ways.T)
    assert np.all(ways[:, None, :] <= ways[:, :, None] + ways[None] + 1e-9)

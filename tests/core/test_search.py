# SPDX-License-Identifier: Apache-2.0
"""The search from the likeliest level on: cut, join, never less likely."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.core.cells import cells_of
from afcl.core.messages import Cells
from afcl.core.path import level_on
from afcl.core.search import STEPS, likelier


def bag_of(spots, sigmas, sizes, seed=0, per_cell=5):
    """Cells of Gaussians, each of rows of one of them."""
    rng = np.random.default_rng(seed)
    rows, labels, at = [], [], 0
    for spot, sigma, size in zip(spots, sigmas, sizes, strict=True):
        rows.append(np.array(spot) + rng.normal(0, sigma, (size, len(spot))))
        labels.append(at + np.arange(size) // per_cell)
        at = int(labels[-1].max()) + 1
    return cells_of(np.concatenate(rows), np.concatenate(labels), at)


def likeliness(level):
    return level.scores["free_bic"]


THREE = (((0, 0), (1, 0), (0.12, 0.12)), (0.03, 0.03, 0.01), (300, 300, 20))


def test_a_small_cluster_beside_a_large_one_is_cut_off(seed):
    bag = bag_of(*THREE, seed=seed)
    start = level_on(bag, np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert start is not None
    found = likelier(bag, start, 10)
    assert found[-1].k == 3
    gaps = ((found[-1].centers - np.array([0.12, 0.12])) ** 2).sum(axis=1)
    assert gaps.min() < 1e-3


def test_halves_of_one_cluster_are_joined(seed):
    bag = bag_of(((0, 0), (1, 1)), (0.03, 0.03), (300, 300), seed=seed)
    start = level_on(bag, np.array([[-0.03, 0.0], [0.03, 0.0], [1.0, 1.0]]))
    assert start is not None
    assert start.k == 3
    found = likelier(bag, start, 10)
    assert found[-1].k == 2
    assert np.sort(found[-1].sizes).tolist() == [300.0, 300.0]


def test_what_cannot_be_improved_stays():
    bag = bag_of(((0, 0), (1, 1)), (0.03, 0.03), (300, 300))
    start = level_on(bag, np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert start is not None
    assert likelier(bag, start, 10) == ()


def test_no_level_has_more_clusters_than_allowed():
    bag = bag_of(*THREE)
    start = level_on(bag, np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert start is not None
    assert likelier(bag, start, 2) == ()


def test_single_cells_and_equal_cells_are_not_cut():
    """One cell is one cluster; two cells at one place cannot be told apart."""
    means = np.array([[0.0], [1.0], [1.0]])
    bag = Cells(np.array([9, 5, 5]), means, np.array([0.1, 0.1, 0.1]))
    start = level_on(bag, np.array([[0.0], [1.0]]))
    assert start is not None
    assert likelier(bag, start, 10) == ()


def test_one_cluster_is_no_level():
    bag = Cells(np.array([9, 5]), np.array([[0.0], [0.0]]), np.zeros(2))
    assert level_on(bag, np.array([[0.0], [1.0]])) is None


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 3))
def test_every_step_is_likelier(seed, k, d):
    rng = np.random.default_rng(seed)
    spots = rng.random((4, d))
    bag = bag_of(spots, rng.uniform(0.01, 0.1, 4), rng.integers(10, 60, 4), seed)
    start = level_on(bag, rng.random((k, d)))
    if start is None:
        return
    found = likelier(bag, start, 12)
    every = [likeliness(start), *map(likeliness, found)]
    assert every == sorted(every)
    assert len(set(every)) == len(every) <= STEPS + 1
    for level in found:
        assert 2 <= level.k <= 12
        assert level.sizes.sum() == pytest.approx(bag.counts.sum())

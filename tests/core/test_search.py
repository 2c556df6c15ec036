# SPDX-License-Identifier: Apache-2.0
"""The search for a likelier level: what it mends, what it leaves, what is admitted."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from afcl.core import rebuild, search
from afcl.core.condense import condense_cells
from afcl.core.indices import INDICES, Partition, admitted, free_bic, goodness
from afcl.core.messages import Cells
from afcl.core.path import polish
from afcl.core.protocol import PathLevel
from afcl.core.search import likelier
from afcl.kernels import assign


def blobs(*places, spread=0.1, cells=12, rows=8, seed=0):
    """Cells of as many rows around every place, and whose each is."""
    rng = np.random.default_rng(seed)
    where = np.repeat(np.array(places, dtype=np.float64), cells, axis=0)
    d = where.shape[1]
    means = where + spread / np.sqrt(rows) * rng.normal(size=where.shape)
    scatters = np.full(len(means), (rows - 1) * d * spread**2)
    bag = Cells(np.full(len(means), rows), means, scatters)
    return bag, np.repeat(np.arange(len(places)), cells)


def same(centers, bag, owners):
    """Whether the cells around these centres are those of one place each."""
    labels, _ = assign(bag.means, np.ascontiguousarray(centers))
    pairs = {*zip(labels.tolist(), owners.tolist(), strict=True)}
    return len(pairs) == len(centers) == len(set(owners.tolist()))


PLACES = ((0.0, 0.0), (1.0, 0.0), (4.0, 0.0), (4.0, 3.0))


@pytest.mark.parametrize("seed", range(5))
def test_two_that_are_one_are_parted_and_halves_are_joined(seed):
    bag, owners = blobs(*PLACES, seed=seed)
    # The first two as one, the last in two: as many centres as there are clusters.
    wrong = np.array([[0.5, 0.0], [4.0, 0.0], [3.97, 3.0], [4.03, 3.0]])
    found = likelier(bag, [wrong], 10)
    assert found is not None
    assert same(found, bag, owners)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "start",
    [
        np.array([[0.5, 0.0], [4.0, 1.5]]),
        np.array([*PLACES, (4.04, 3.0), (0.04, 0.0)]),
    ],
    ids=["too few", "too many"],
)
def test_from_too_few_and_from_too_many(seed, start):
    bag, owners = blobs(*PLACES, seed=seed)
    found = likelier(bag, [start], 10)
    assert found is not None
    assert same(found, bag, owners)


def test_what_is_right_is_left_and_so_is_what_is_allowed_no_more():
    bag, _ = blobs(*PLACES)
    assert likelier(bag, [np.array(PLACES)], 10) is None
    # Two centres, and no more allowed: nothing to join, nothing to split.
    pair, _ = blobs((0.0, 0.0), (1.0, 0.0), (5.0, 0.0))
    assert likelier(pair, [np.array([[0.5, 0.0], [5.0, 0.0]])], 2) is None


def test_the_best_of_several_starts():
    bag, owners = blobs(*PLACES)
    poor = np.array([[0.5, 0.0], [4.0, 1.5]])
    with patch.object(search, "MOVES", 1):
        found = likelier(bag, [poor], 10)
        assert found is not None
        assert len(found) == 3
        assert same(
            likelier(bag, [poor, np.array(PLACES[:2] + ((4, 1.5),))], 10), bag, owners
        )


def test_no_cluster_of_a_few_rows_or_of_a_single_cell():
    # A cell of rows that coincide would be infinitely likely by itself.
    bag, _ = blobs((0.0, 0.0), (3.0, 0.0))
    scatters = bag.scatters.copy()
    scatters[3] = 0.0
    start = np.array([[0.0, 0.0], [3.0, 0.0]])
    assert likelier(replace(bag, scatters=scatters), [start], 10) is None
    few = replace(bag, counts=np.ones_like(bag.counts))
    three, _ = blobs((0.0, 0.0), (1.0, 0.0), (3.0, 0.0), cells=5, rows=1)
    assert likelier(three, [np.array([[0.5, 0.0], [3.0, 0.0]])], 10) is None
    assert likelier(few, [start], 10) is None


def test_a_large_bag_is_condensed():
    bag, owners = blobs(*PLACES, cells=300)
    wrong = np.array([[0.5, 0.0], [4.0, 0.0], [4.0, 3.0]])
    with patch.object(search, "condense_cells", wraps=condense_cells) as used:
        found = likelier(bag, [wrong], 10)
    assert used.call_count == 1
    assert same(found, bag, owners)


def test_nobody_searches_among_levels_of_a_category():
    bag, _ = blobs(*PLACES)
    wrong = np.array([[0.5, 0.0], [4.0, 0.0], [4.0, 3.0]])
    assert likelier(bag, [wrong], 10) is not None
    flag = np.arange(len(bag)) % 2.0
    means = np.column_stack([bag.means, flag])
    wrong = np.column_stack([wrong, np.full(3, 0.5)])
    assert likelier(replace(bag, means=means), [wrong], 10) is None


def test_cells_that_coincide_are_not_split():
    still = Cells(np.full(8, 9), np.zeros((8, 2)), np.full(8, 1.0))
    assert likelier(still, [np.zeros((1, 2))], 5) is None


# ------------------------------------------------------------------ what is admitted


def level(k, likely, searched=False, valley=0.0, n=1000.0):
    scores = {**dict.fromkeys(INDICES, 0.0), "free_bic": likely, "silhouette": 0.5}
    valleys = np.tile([valley, 50.0, 50.0], (k, 1))
    sizes = np.full(k, n / k)
    zeros = np.zeros((k, 1))
    return PathLevel(k, zeros, sizes, scores, np.ones(k), 0, valleys, searched)


def test_a_searched_level_counts_if_it_is_likelier_and_confirmed():
    path = (level(2, 1.0), level(3, 2.0))
    other = level(4, 3.0, searched=True)
    assert admitted((*path, other), 20) == (*path, other)
    # It takes the place of the path's level of the same k.
    same_k = level(2, 3.0, searched=True)
    assert admitted((*path, same_k), 20) == (same_k, path[1])


def test_if_not_it_is_as_if_nobody_had_searched():
    path = (level(2, 1.0), level(3, 2.0))
    for other in (
        level(4, 2.0, searched=True),  # not likelier
        level(4, 3.0, searched=True, valley=60.0),  # a hill between all of them
        level(17, 3.0, searched=True),  # near the path's end
    ):
        assert admitted((*path, other), 20) == path
    assert admitted((), 20) == ()


def test_one_candidate_is_searched_for_and_marked():
    bag, owners = blobs(*PLACES)
    parts = np.array([[0.5, 0.0], [4.0, 0.0], [3.97, 3.0], [4.03, 3.0]])
    counts, means, scatters = polish(bag, parts)
    begun = replace(level(4, 1.0), centers=means, sizes=counts, scatters=scatters)
    (found,) = rebuild._searched(bag, (begun,), 10)
    assert found.searched
    assert same(found.centers, bag, owners)
    known = Partition(found.sizes, found.centers, found.scatters, 0.0, 0.0)
    assert found.scores["free_bic"] == free_bic(known)
    assert 0.5 < goodness([found], "silhouette")[0] < 1
    assert rebuild._searched(bag, (found,), 10) == ()
    assert rebuild._searched(bag, (), 10) == ()

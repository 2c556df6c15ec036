# SPDX-License-Identifier: Apache-2.0
"""Splits of the path's best level: what they mend, and what stays as it is."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from tests.core.test_search import blobs, same

from afcl import AFCL
from afcl.core import climb, rebuild
from afcl.core.climb import climbed
from afcl.core.messages import Cells
from afcl.core.path import level_around
from afcl.core.protocol import PathLevel
from afcl.core.search import halves_of

#: Three clusters, of which two are nearer to each other.
PLACES = ((0.0, 0.0), (10.0, 0.0), (10.0, 4.0))
#: A good level of two, and one of three that has halved the wrong cluster.
TWO = ((0.0, 0.0), (10.0, 2.0))
WRONG = ((-0.02, 0.0), (0.02, 0.0), (10.0, 2.0))


def path(bag: Cells, *levels) -> tuple[PathLevel, ...]:
    """Return polished levels around centres."""
    found = [level_around(bag, np.array(centers)) for centers in levels]
    assert all(level is not None for level in found)
    return cast(tuple[PathLevel, ...], tuple(found))


@pytest.mark.parametrize("seed", range(5))
def test_a_level_that_the_path_has_missed_takes_the_place_of_its_own(seed):
    bag, owners = blobs(*PLACES, seed=seed)
    levels = path(bag, TWO, WRONG)
    two, three = climbed(bag, levels, 5)
    assert two is levels[0]
    assert same(three.centers, bag, owners)
    assert set(three.scores) == set(two.scores)
    assert three.split
    assert not three.searched


@pytest.mark.parametrize("seed", range(5))
def test_where_splits_are_no_better_the_path_stays(seed):
    bag, _ = blobs(*PLACES, seed=seed)
    levels = path(bag, TWO, PLACES)
    assert all(a is b for a, b in zip(climbed(bag, levels, 5), levels, strict=True))


def test_no_further_than_the_largest_k():
    bag, _ = blobs(*PLACES)
    levels = path(bag, TWO, WRONG)
    assert climbed(bag, levels, 2) == levels


def test_a_path_without_levels_and_clusters_too_small_to_split():
    bag, _ = blobs(*PLACES, cells=1)
    assert climbed(bag, (), 5) == ()
    levels = path(bag, TWO)
    assert climbed(bag, levels, 5) == levels


def test_only_a_few_steps(monkeypatch):
    """Eight clusters in a row, the distances ever larger: every split is better."""
    bag, _ = blobs(*((2.0 ** (2 * i), 0.0) for i in range(8)), spread=0.01)
    (level,) = path(bag, ((5.0, 0.0), (4.0**7, 0.0)))
    reached = [each.k for each in climbed(bag, (level,), 20)]
    assert reached == list(range(2, reached[-1] + 1))
    assert reached[-1] <= 2 + climb.STEPS
    monkeypatch.setattr(climb, "STEPS", 0)
    assert climbed(bag, (level,), 20) == (level,)


def test_halves_the_likeliest_first():
    bag, owners = blobs(*PLACES)
    first, *others = halves_of(bag, np.array(TWO))
    assert same(first, bag, owners)
    assert all(len(centers) == 3 for centers in others)


def test_asked_for_indices_alone():
    bag, _ = blobs(*PLACES)
    names = ("silhouette", "free_bic")
    two, three = climbed(bag, path(bag, TWO), 5, names)
    assert set(two.scores) > set(names) == set(three.scores)


def test_a_wish_for_an_index_is_a_wish_for_the_path(monkeypatch):
    """Another index than the silhouette is not climbed by."""
    seen = []

    def watched(bag, levels, most):
        seen.append(most)
        return climbed(bag, levels, most)

    monkeypatch.setattr(rebuild, "climbed", watched)
    X = np.repeat(np.array(PLACES), 20, axis=0)
    X += np.random.default_rng(0).normal(size=X.shape) * 0.1
    AFCL(random_state=0, criterion="ch").fit(X)
    assert not seen
    AFCL(random_state=0).fit(X)
    assert seen

# SPDX-License-Identifier: Apache-2.0
"""True sums pass, whatever the rows; sums moved by more than rounding do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core.cohort import GroupMoments
from afcl.core.cohort_answers import groups_of, numbers_for
from afcl.core.cohort_checks import (
    HELLO_GRID,
    add_up,
    agree_with_hellos,
    lie_around_seeds,
)
from afcl.core.messages import Cells
from afcl.core.refine import coarse, joined, moments_from
from afcl.core.tasks import (
    ANYBODY,
    COUNT,
    PRESENCE,
    SUM,
    Question,
    SeedPartition,
    Threshold,
)

MEMBERS = 4


def told(question, tables, threshold=ANYBODY):
    return sum(numbers_for(question, table, threshold) for table in tables)


def summed(nested, tables, threshold=ANYBODY):
    """Return what a cohort's sums say, of groups that enough members hold."""
    presence = told(Question(PRESENCE, nested), tables, threshold)
    opened = threshold.opened(presence).astype(np.int64)
    question = Question(SUM, nested, opened=opened)
    counted = told(Question(COUNT, (*nested[:-1], alone(nested[-1]))), tables)
    return moments_from(question, told(question, tables, threshold), counted)


def alone(partition):
    """Return the partition in which every seed is a group of its own."""
    numbers = np.arange(partition.groups.shape[0])
    return SeedPartition(partition.seeds, partition.parents, numbers)


def federation(seed, d=2):
    """Rows of four members, a coarse partition of them and a finer one."""
    rng = np.random.default_rng(seed)
    tables = [rng.random((int(rng.integers(6, 30)), d)) for _ in range(MEMBERS)]
    first = coarse(rng.random((3, d)))
    first = joined(first, told(Question(COUNT, (first,)), tables), 5)
    pooled = np.concatenate(tables)
    groups = groups_of(pooled, (first,))
    held = np.unique(groups)
    if held.shape[0] < first.n_groups:
        return federation(seed + 1000, d)
    seeds = [pooled[groups == g][:2] for g in held]
    parents = np.repeat(held, [len(each) for each in seeds])
    finer = SeedPartition(
        np.concatenate(seeds), parents, np.arange(parents.shape[0], dtype=np.int64)
    )
    counts = told(Question(COUNT, (first, finer)), tables)
    return tables, first, joined(finer, counts, 5)


def on_grid(tables):
    """Every row as a cell of its own, as first messages show it."""
    rows = np.rint(np.concatenate(tables) / HELLO_GRID) * HELLO_GRID
    n = rows.shape[0]
    return Cells(np.ones(n, dtype=np.int64), rows, np.zeros(n))


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_true_sums_pass(seed, d):
    """Also if rows are missing in them that few members hold."""
    tables, first, finer = federation(seed, d)
    for threshold in (ANYBODY, Threshold(5, 3), Threshold(9, 4)):
        moments = summed((first,), tables, threshold)
        assert moments is not None
        assert agree_with_hellos(moments, on_grid(tables))
        assert lie_around_seeds(moments.means, first, MEMBERS, moments.counts)
        found = summed((first, finer), tables, threshold)
        assert found is not None
        assert lie_around_seeds(found.means, finer, MEMBERS, found.counts)
        assert add_up(found, finer, moments, MEMBERS, on_grid(tables))


def test_rows_in_no_sum_may_lie_where_first_messages_tell_of_rows():
    """Five rows are 0, five are 1. Two are missing: both 0, both 1, or neither can."""
    hellos = Cells(np.array([5, 5]), np.array([[0.0], [1.0]]), np.zeros(2))
    for mean, missing, holds in (
        (5 / 8, 2, True),
        (3 / 8, 2, True),
        (3 / 8, 0, False),
        (2 / 8, 2, False),
        (6 / 8, 2, False),
    ):
        scatters = np.array([[10 * (mean - mean**2)]])
        moments = GroupMoments(np.array([10]), np.array([[mean]]), scatters, missing)
        assert agree_with_hellos(moments, hellos) is holds


def test_first_moments_tell_who_moved_rows():
    # 10 rows at 0.5; half the grid a row is 10 / 128.
    hellos = Cells(np.array([10]), np.array([[0.5]]), np.zeros(1))
    for shift, holds in ((0.07, True), (0.09, False)):
        means = np.array([[0.5 + shift / 10]])
        moments = GroupMoments(np.array([10]), means, np.zeros((1, 1)))
        assert agree_with_hellos(moments, hellos) is holds


def test_second_moments_tell_who_spread_rows():
    hellos = Cells(np.array([10]), np.array([[0.5]]), np.zeros(1))
    for scatter, holds in ((0.07, True), (0.2, False)):
        moments = GroupMoments(np.array([10]), np.array([[0.5]]), np.array([[scatter]]))
        assert agree_with_hellos(moments, hellos) is holds


def test_a_mean_nearer_to_another_seed_is_no_mean():
    partition = coarse(np.array([[0.0], [1.0]]))
    counts = np.array([5, 5])
    assert lie_around_seeds(np.array([[0.4], [0.6]]), partition, 3, counts)
    assert not lie_around_seeds(np.array([[0.7], [0.9]]), partition, 3, counts)


def test_seeds_that_were_joined_may_have_their_mean_anywhere():
    seeds = np.array([[0.0], [0.5], [1.0]])
    partition = SeedPartition(seeds, np.zeros(3, np.int64), np.array([0, 1, 0]))
    counts = np.array([10, 5])
    assert lie_around_seeds(np.array([[0.5], [0.5]]), partition, 3, counts)


def test_only_seeds_of_the_same_parent_are_compared():
    partition = SeedPartition(
        np.array([[0.0], [1.0]]), np.array([0, 1]), np.array([0, 1])
    )
    assert lie_around_seeds(np.array([[0.9], [0.1]]), partition, 3, np.array([5, 5]))


@pytest.mark.parametrize("what", ["means", "scatters"])
def test_groups_that_do_not_add_up(what):
    partition = SeedPartition(
        np.array([[0.0], [1.0]]), np.array([0, 0]), np.array([0, 1])
    )
    cells = Cells(np.array([5, 5]), np.array([[0.0], [1.0]]), np.zeros(2))
    # Ten rows with mean .5, which scatter by 10 * .25.
    whole = GroupMoments(np.array([10]), np.array([[0.5]]), np.array([[2.5]]))
    found = GroupMoments(cells.counts, cells.means, cells.scatters[:, None])
    assert add_up(found, partition, whole, 3, cells)
    moved = {
        "means": GroupMoments(found.counts, found.means + 0.01, found.scatters),
        "scatters": GroupMoments(found.counts, found.means, found.scatters + 0.01),
    }
    assert not add_up(moved[what], partition, whole, 3, cells)

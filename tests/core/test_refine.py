# SPDX-License-Identifier: Apache-2.0
"""Finer partitions inside coarser ones, and what sums over them say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core.checks import check_question
from afcl.core.cohort import GroupMoments
from afcl.core.cohort_answers import groups_of, numbers_for
from afcl.core.messages import Cells
from afcl.core.params import DefaultParams
from afcl.core.refine import (
    EXPLAINED,
    MOST_FINER,
    MOST_PSEUDO,
    coarse,
    finer,
    joined,
    moments_from,
    sub_cells,
    without_few,
)
from afcl.core.tasks import COUNT, SUM, UNIT, Question, SeedPartition


def partition(seeds, parents=None, groups=None):
    """Return a partition of seeds on a line, or of a table of seeds."""
    places = np.array(seeds, dtype=np.float64)
    places = places.reshape(len(seeds), -1)
    m = places.shape[0]
    return SeedPartition(
        places,
        np.zeros(m, dtype=np.int64) if parents is None else np.array(parents),
        np.arange(m) if groups is None else np.array(groups),
    )


def scatter_of(X):
    return float(((X - X.mean(axis=0)) ** 2).sum())


def same_cells(cells, X, labels, atol=1e-4):
    """Assert that cells are what NumPy says of the labelled rows."""
    assert cells.counts.tolist() == np.bincount(labels).tolist()
    for g in range(len(cells)):
        mine = X[labels == g]
        assert np.allclose(cells.means[g], mine.mean(axis=0), atol=atol)
        assert np.isclose(cells.scatters[g], scatter_of(mine), atol=atol)


# ------------------------------------------------------------------ joining


def test_a_partition_of_all_rows():
    first = coarse(np.array([[0.25], [0.75]]))
    assert first.parents.tolist() == [0, 0]
    assert first.groups.tolist() == [0, 1]
    assert first.n_groups == 2
    assert first.starts.tolist() == [0, 2]
    assert first.origins.tolist() == [[0.25], [0.75]]


def test_joining_inside_parents_by_hand():
    """Of the first parent 1 row at .15 joins 4 at .2; of the second all is enough.

    In the second, the seed without rows joins the one at .7, not the nearer one at .2,
    which has another parent. The third parent holds nothing: one group.
    """
    fine = partition(
        [0.0, 0.15, 0.2, 0.4, 0.7, 0.9, 1.0, 1.1], [0, 0, 0, 1, 1, 1, 2, 2]
    )
    counts = np.array([3, 1, 4, 0, 3, 5, 0, 0])
    found = joined(fine, counts, 3)
    assert found.groups.tolist() == [0, 1, 1, 2, 2, 3, 4, 4]
    assert found.parents is fine.parents
    assert found.seeds is fine.seeds
    assert found.n_groups == 5
    assert found.starts.tolist() == [0, 3, 6, 8]
    assert found.origins[:, 0].tolist() == [0.0, 0.15, 0.4, 0.9, 1.0]


def test_too_few_rows_are_one_group_of_each_parent():
    fine = partition([0.0, 0.1, 0.5, 0.6], [0, 0, 1, 1])
    assert joined(fine, np.array([1, 1, 1, 1]), 9).groups.tolist() == [0, 0, 1, 1]


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=24),
    st.integers(1, 9),
    st.integers(1, 5),
)
def test_every_group_holds_enough_of_its_parent(counts, smallest, n_parents):
    held = np.array(counts, dtype=np.int64)
    m = held.shape[0]
    parents = np.sort(np.arange(m) % n_parents)
    seeds = np.random.default_rng(m).random((m, 2))
    found = joined(SeedPartition(seeds, parents, np.arange(m)), held, smallest)
    assert np.unique(found.groups).tolist() == list(range(found.n_groups))
    inside = np.bincount(found.groups, held)
    for parent in range(int(parents[-1]) + 1):
        mine = np.unique(found.groups[parents == parent])
        assert not np.isin(mine, found.groups[parents != parent]).any()
        assert inside[mine].min() >= min(smallest, held[parents == parent].sum())


# ------------------------------------------------------------------ reading sums


def rows_like(seed, n, d):
    rng = np.random.default_rng(seed)
    return rng.random((n, d)) * rng.uniform(0.1, 1.0, d)


@pytest.mark.parametrize("d", [1, 2, 5, 21])
def test_moments_are_those_of_the_rows(seed, d):
    X = rows_like(seed, 60, d)
    first = joined(coarse(X[:6].copy()), np.array([4, 1, 9, 2, 0, 3]), 3)
    question = Question(SUM, (first,))
    sites = np.array_split(X, 7)
    total = np.sum([numbers_for(question, site) for site in sites], axis=0)
    found = moments_from(question, total)
    assert found is not None
    labels = groups_of(X, (first,))
    assert found.counts.tolist() == np.bincount(labels).tolist()
    # Each of up to 7 sites rounds by half a unit; sums are at most 60 rows'.
    atol = 60 * UNIT
    for g in range(first.n_groups):
        mine = X[labels == g]
        centered = mine - mine.mean(axis=0)
        assert np.allclose(found.means[g], mine.mean(axis=0), rtol=0, atol=7 * UNIT)
        wanted = (centered * centered).sum(axis=0)
        assert np.allclose(found.scatters[g], wanted, rtol=0, atol=atol)
    same_cells(found.cells, X, labels, d * atol)


@pytest.mark.parametrize("d", [1, 3, 21])
def test_cells_are_those_of_the_rows(seed, d):
    X = rows_like(seed, 60, d)
    first = joined(coarse(X[:3].copy()), np.array([1, 1, 1]), 1)
    m = 6
    fine = SeedPartition(X[10 : 10 + m].copy(), np.arange(m) // 2, np.arange(m))
    labels = groups_of(X, (first, fine))
    used = np.unique(labels)
    counts = np.bincount(labels, minlength=m)
    fine = joined(fine, counts, 2)
    question = Question(SUM, (first, fine))
    check_question(question, d, DefaultParams())
    sites = np.array_split(X, 7)
    total = np.sum([numbers_for(question, site) for site in sites], axis=0)
    found = moments_from(question, total)
    assert used.size > 1
    assert found is not None
    same_cells(found.cells, X, groups_of(X, (first, fine)), d * 60 * UNIT)


def test_moments_by_hand():
    """Two rows (0, 0) and (.5, .25), around the seed at (.5, 0).

    Shifts (-.5, 0) and (0, .25), sums (-.5, .25), squares .25 and .0625. Mean
    (.25, .125); around it .125 and .03125.
    """
    question = Question(SUM, (coarse(np.array([[0.5, 0.0]])),))
    X = np.array([[0.0, 0.0], [0.5, 0.25]])
    numbers = numbers_for(question, X)
    each = np.array([-0.5, 0.25, 0.25, 0.0625]) / UNIT
    assert numbers.tolist() == [2, *each.astype(int).tolist()]
    found = moments_from(question, numbers)
    assert found is not None
    assert found.counts.tolist() == [2]
    assert found.means.tolist() == [[0.25, 0.125]]
    assert found.scatters.tolist() == [[0.125, 0.03125]]
    assert found.cells.scatters.tolist() == [0.15625]


def test_cells_by_hand():
    """Rows .25 and .75 around .5: sums 0, squares .125, all of it scatter."""
    fine = partition([0.5])
    question = Question(SUM, (partition([0.0]), fine))
    numbers = numbers_for(question, np.array([[0.25], [0.75]]))
    assert numbers.tolist() == [2, 0, int(0.125 / UNIT)]
    found = moments_from(question, numbers)
    assert found is not None
    assert found.cells.means.tolist() == [[0.5]]
    assert found.cells.scatters.tolist() == [0.125]


@pytest.mark.parametrize("n_nested", [1, 2])
@pytest.mark.parametrize("d", [1, 2, 21])
def test_what_cannot_be_is_nothing(n_nested, d):
    nested = (coarse(np.zeros((1, d))),) * n_nested
    question = Question(SUM, nested)
    honest = numbers_for(question, np.full((4, d), 0.5))
    assert moments_from(question, honest) is not None
    nobody = honest.copy()
    nobody[0] = 0
    assert moments_from(question, nobody) is None
    fewer = honest.copy()
    fewer[0] = -4
    assert moments_from(question, fewer) is None
    # The squares of four times .5 are 1 in every column; less there cannot be.
    lie = honest.copy()
    lie[1 + d] -= round(0.1 / UNIT)
    assert moments_from(question, lie) is None


def test_groups_that_few_hold_are_joined_to_the_nearest_that_enough_hold():
    """Three parents: one with two good parts, one with none, one that stays."""
    inner = SeedPartition(
        np.array([[0.0], [0.3], [0.4], [1.0], [1.1], [2.0], [2.1]]),
        np.array([0, 0, 0, 1, 1, 2, 2]),
        np.arange(7),
    )
    opened = np.array([True, False, True, False, False, False, False])
    found = without_few(inner, opened, np.array([1, 1, 0]))
    assert found.groups.tolist() == [0, 1, 1, 2, 2, 3, 4]
    assert found.parents.tolist() == inner.parents.tolist()
    assert found.outer.tolist() == [0, 0, 1, 2, 2]


def test_rows_in_no_sum_are_like_the_others_or_at_their_seeds():
    """Two of three rows of the first group are summed, none of the second's four.

    Three of these were counted at .75, one at .95: mean .8, squares .0075 + .0225.
    """
    first = SeedPartition(
        np.array([[0.5], [0.75], [0.95]]),
        np.zeros(3, dtype=np.int64),
        np.array([0, 1, 1]),
    )
    counted = np.array([3, 3, 1])
    for nested in ((first,), (partition([0.0]), first)):
        question = Question(SUM, nested, opened=np.zeros(2, dtype=np.int64))
        numbers = numbers_for(question, np.array([[0.25], [0.5]]))
        found = moments_from(question, numbers, counted)
        assert found is not None
        assert found.counts.tolist() == [3, 4]
        assert np.allclose(found.means, [[0.375], [0.8]])
        assert np.allclose(found.scatters, [[1.5 * 0.03125], [0.03 / EXPLAINED]])
        lie = numbers.copy()
        lie[-1] = 1  # a sum of no rows
        assert moments_from(question, lie, counted) is None
        # Of a group that was not counted there is no sum.
        assert moments_from(question, numbers, np.array([3, 0, 0])) is None


def test_rows_at_their_seeds_stay_there():
    """What is known of a group without a sum is how many rows each seed has."""
    fine = SeedPartition(
        np.array([[0.25, 0.5], [0.5, 0.5]]),
        np.zeros(2, dtype=np.int64),
        np.zeros(2, int),
    )
    nested = (coarse(np.zeros((1, 2))), fine)
    question = Question(SUM, nested, opened=np.zeros(1, dtype=np.int64))
    counted = np.array([3, 2])
    found = moments_from(question, np.zeros(4, dtype=np.int64), counted)
    assert found is not None
    cells = sub_cells(found.cells, fine, counted)
    assert cells.counts.tolist() == [3, 2]
    assert np.allclose(cells.means, fine.seeds)


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(3, 40))
def test_rounding_alone_never_makes_a_sum_impossible(seed, d, sites):
    """Equal rows have no scatter at all; every site rounds by itself."""
    rng = np.random.default_rng(seed)
    X = np.tile(rng.random((1, d)), (sites, 1))
    nested = (coarse(rng.random((1, d))), coarse(rng.random((1, d))))
    for question in (Question(SUM, nested[:1]), Question(SUM, nested)):
        total = np.sum([numbers_for(question, X[i : i + 1]) for i in range(sites)], 0)
        found = moments_from(question, total)
        assert found is not None


# ------------------------------------------------------------------ finer seeds


def moments_of(X, labels):
    """Return groups' moments, by NumPy."""
    k = int(labels.max()) + 1
    parts = [X[labels == g] for g in range(k)]
    means = np.stack([part.mean(axis=0) for part in parts])
    centered = [part - mean for part, mean in zip(parts, means, strict=True)]
    scatters = np.stack([(each * each).sum(axis=0) for each in centered])
    return GroupMoments(np.bincount(labels), means, scatters)


def placed(every, seed=0):
    n = sum(int(each.counts.sum()) for each in every)
    return finer(every, n, np.random.default_rng(seed))


@pytest.mark.parametrize("d", [1, 2, 21])
def test_every_group_has_seeds_and_parents_are_in_order(seed, d):
    X = rows_like(seed, 200, d)
    every = [
        moments_of(X[:120], np.arange(120) % 7),
        moments_of(X[120:], np.arange(80) % 3),
    ]
    found = placed(every, seed)
    assert len(found) == 2
    for each, part in zip(every, found, strict=True):
        assert np.unique(part.parents).tolist() == list(range(len(each.counts)))
        assert np.all(np.diff(part.parents) >= 0)
        assert part.groups.tolist() == list(range(part.groups.shape[0]))
        first = coarse(np.random.default_rng(0).random((len(each.counts), d)))
        check_question(Question(COUNT, (first, part)), d, DefaultParams())


def test_the_same_seed_places_the_same_seeds(seed):
    every = [moments_of(rows_like(seed, 90, 2), np.arange(90) % 5)]
    one, same, other = placed(every, 1), placed(every, 1), placed(every, 2)
    assert np.array_equal(one[0].seeds, same[0].seeds)
    assert np.array_equal(one[0].parents, same[0].parents)
    assert not np.array_equal(one[0].seeds, other[0].seeds)


def test_a_long_group_is_divided_along_its_length():
    """Rows on a line along one column: pseudo-rows and so seeds lie on it."""
    t = np.linspace(0, 1, 400)
    X = np.stack([t, np.full(400, 0.5)], axis=1)
    (found,) = placed([moments_of(X, np.zeros(400, dtype=np.int64))])
    assert found.seeds.shape[0] > 20
    assert np.all(found.seeds[:, 1] == 0.5)
    assert np.ptp(found.seeds[:, 0]) > 0.8


def test_rows_at_one_place_are_not_divided():
    X = np.full((50, 2), 0.5)
    (found,) = placed([moments_of(X, np.zeros(50, dtype=np.int64))])
    assert found.seeds.tolist() == [[0.5, 0.5]]


def test_very_many_rows_are_drawn_in_part():
    """Forty cohorts of a million rows each: as many seeds as there are at most."""
    counts = np.array([600_000, 400_000])
    scatters = np.full((2, 2), 0.01) * counts[:, None]
    means = np.array([[0.2, 0.2], [0.8, 0.8]])
    every = [GroupMoments(counts, means, scatters)] * 40
    assert 40 * 1000 > MOST_PSEUDO
    found = placed(every)
    places = np.unique(np.concatenate([part.seeds for part in found]), axis=0)
    assert places.shape[0] == MOST_FINER
    for part in found:
        assert np.unique(part.parents).tolist() == [0, 1]


# ------------------------------------------------------------------ cells cut up


def test_cells_are_cut_up_by_hand():
    """Two seeds at 0 and 1, 1 row and 3 rows; mean .5, scatter 1.

    Seeds around their own mean .75 lie at -.75 and .25, scatter .5625 + .1875 = .75,
    less than nine tenths of 1: rows are put at -.25 and .75, a quarter is left over.
    """
    fine = partition([0.0, 1.0], groups=[0, 0])
    cell = Cells(np.array([4]), np.array([[0.5]]), np.array([1.0]))
    found = sub_cells(cell, fine, np.array([1, 3]))
    assert found.counts.tolist() == [1, 3]
    assert found.means[:, 0].tolist() == [-0.25, 0.75]
    assert np.allclose(found.scatters, [0.0625, 0.1875])


def test_seeds_that_lie_too_far_apart_are_drawn_together():
    """As above with a scatter of .3: .27 of it is between, by a factor of .6."""
    fine = partition([0.0, 1.0], groups=[0, 0])
    cell = Cells(np.array([4]), np.array([[0.5]]), np.array([0.3]))
    found = sub_cells(cell, fine, np.array([1, 3]))
    assert np.allclose(found.means[:, 0], [0.5 - 0.45, 0.5 + 0.15])
    assert np.isclose(found.scatters.sum(), 0.3 * (1 - EXPLAINED))


def test_seeds_without_rows_are_no_cells_and_without_scatter_all_lie_at_the_mean():
    fine = partition([0.0, 1.0, 2.0], groups=[0, 0, 0])
    cell = Cells(np.array([4]), np.array([[0.5]]), np.array([0.0]))
    found = sub_cells(cell, fine, np.array([1, 0, 3]))
    assert found.counts.tolist() == [1, 3]
    assert found.means[:, 0].tolist() == [0.5, 0.5]
    assert found.scatters.tolist() == [0.0, 0.0]


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 9), min_size=2, max_size=12),
    st.sampled_from([0.0, 1e-9, 0.1, 10.0]),
)
def test_cutting_up_keeps_counts_means_and_scatters(seed, counts, spread):
    rng = np.random.default_rng(seed)
    held = np.array(counts)
    held[:2] += 1
    m = held.shape[0]
    groups = np.arange(m) % 2
    fine = SeedPartition(rng.random((m, 3)), np.zeros(m, dtype=np.int64), groups)
    cells = Cells(np.bincount(groups, held).astype(int), rng.random((2, 3)),
                  spread * rng.random(2))  # fmt: skip
    found = sub_cells(cells, fine, held)
    labels = groups[np.flatnonzero(held)]
    assert found.scatters.min() >= 0
    for g in range(2):
        mine = labels == g
        mass, means = found.counts[mine], found.means[mine]
        assert mass.sum() == cells.counts[g]
        mean = (mass[:, None] * means).sum(axis=0) / mass.sum()
        assert np.allclose(mean, cells.means[g])
        around = (mass * ((means - mean) ** 2).sum(axis=1)).sum()
        assert np.isclose(found.scatters[mine].sum() + around, cells.scatters[g])


# ------------------------------------------------------------------ all together


@given(
    st.integers(0, 10**6),
    st.integers(3, 60),
    st.integers(3, 6),
    st.integers(1, 3),
    st.integers(1, 8),
)
def test_groups_lie_inside_each_other_and_hold_enough(seed, n, m, d, min_cell):
    """Rows dealt to sites at random: counts, sums, finer counts, finer sums."""
    rng = np.random.default_rng(seed)
    # Multiples of 1/64: sums are exact.
    X = np.round(rng.random((n, d)) * 64) / 64
    owner = rng.integers(0, m, n)
    sites = [X[owner == site] for site in range(m)]

    def ask(question):
        check_question(question, d, DefaultParams())
        return np.sum([numbers_for(question, site) for site in sites], axis=0)

    seeds = np.unique(np.round(rng.random((8, d)) * 64) / 64, axis=0)
    first = coarse(seeds)
    outer = joined(first, ask(Question(COUNT, (first,))), min_cell)
    about = Question(SUM, (outer,))
    moments = moments_from(about, ask(about))
    assert moments is not None
    assert moments.counts.min() >= min(min_cell, n)
    (fine,) = finer([moments], n, rng)
    counts = ask(Question(COUNT, (outer, fine)))
    inner = joined(fine, counts, min_cell)
    about = Question(SUM, (outer, inner))
    within = moments_from(about, ask(about))
    assert within is not None
    cells = within.cells
    assert cells.counts.min() >= min(min_cell, n)

    coarsely, finely = groups_of(X, (outer,)), groups_of(X, (outer, inner))
    inside = np.full(inner.n_groups, -1)
    inside[inner.groups] = inner.parents
    assert np.array_equal(inside[finely], coarsely)
    for g in range(outer.n_groups):
        mine = inside == g
        assert mine.any()
        assert cells.counts[mine].sum() == moments.counts[g]
        total = (cells.counts[mine, None] * cells.means[mine]).sum(axis=0)
        assert np.allclose(total, moments.counts[g] * moments.means[g], atol=1e-4)
    same_cells(cells, X, finely)
    parts = sub_cells(cells, inner, counts)
    assert parts.counts.sum() == n

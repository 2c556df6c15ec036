# SPDX-License-Identifier: Apache-2.0
"""The numbers that a member of a cohort answers with, before they are hidden."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core import cohort_answers
from afcl.core.cells import cells_of
from afcl.core.cohort_answers import (
    SeedSums,
    groups_of,
    numbers_for,
    numbers_of_many,
)
from afcl.core.messages import Cells, Level
from afcl.core.refine import coarse
from afcl.core.tasks import (
    COARSE,
    COUNT,
    FIELD,
    PRESENCE,
    SCORE,
    SUM,
    UNIT,
    Question,
    SeedPartition,
    Threshold,
)
from afcl.exceptions import InputError
from afcl.kernels import assign

#: Two seeds, and two finer ones inside the first of them.
OUTER = coarse(np.array([[0.0], [1.0]]))
INNER = SeedPartition(
    np.array([[0.0], [0.5], [1.0]]), np.array([0, 0, 1]), np.array([0, 1, 2])
)
#: Two clusters whose spreads are 1/16, of five rows each.
PAIR = Level(np.array([[0.0], [1.0]]), np.full(2, 1 / 16), np.full(2, 5.0), 0)


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def units(*values):
    """Return numbers as whole numbers of the unit."""
    return [round(value / UNIT) for value in values]


def single(X):
    return Cells(np.ones(X.shape[0], dtype=np.int64), X, np.zeros(X.shape[0]))


class Pieces:
    """Rows that are read a few at a time."""

    def __init__(self, X, step):
        self.X, self.step, self.shape = X, step, X.shape

    def map(self, work):
        for start in range(0, self.X.shape[0], self.step):
            yield work(self.X[start : start + self.step])

    def take(self, index):
        return self.X[index]

    def table(self):
        return self.X


def questions(seed, d):
    """Return one question of each kind and depth."""
    rng = np.random.default_rng(seed)
    outer = SeedPartition(
        rng.random((5, d)), np.zeros(5, int), np.array([0, 1, 1, 2, 0])
    )
    inner = SeedPartition(
        rng.random((7, d)),
        np.array([0, 0, 0, 1, 2, 2, 2]),
        np.array([0, 1, 0, 2, 3, 4, 4]),
    )
    levels = tuple(
        Level(rng.random((k, d)), rng.random(k), rng.uniform(1, 20, k), 0)
        for k in (2, 4)
    )
    return [
        Question(COUNT, (outer,)),
        Question(SUM, (outer,)),
        Question(COUNT, (outer, inner)),
        Question(SUM, (outer, inner)),
        Question(SCORE, levels=levels),
        Question(PRESENCE, (outer, inner)),
        Question(SUM, (outer, inner), opened=np.array([1, 0, 1, 0, 0])),
    ]


#: Rows and members by which some groups of these are opened, and some are not.
SOME = Threshold(3, 2)


# ------------------------------------------------------------------ however it is kept


@pytest.mark.parametrize("d", [1, 3, 21])
@pytest.mark.parametrize("which", range(7))
def test_rows_are_answered_for_alike_however_they_are_kept(seed, which, d):
    question = questions(seed, d)[which]
    rng = np.random.default_rng(seed + 1)
    X = np.round(rng.random((40, d)) * 64) / 64  # sums of these are exact
    numbers = numbers_for(question, X, SOME)
    assert numbers.dtype == np.int64
    assert numbers.shape == (question.width,)
    assert numbers_for(question, single(X), SOME).tolist() == numbers.tolist()
    for step in (1, 7, 40):
        pieces = Pieces(X, step)
        assert numbers_for(question, pieces, SOME).tolist() == numbers.tolist()


@pytest.mark.parametrize("d", [1, 3, 21])
@pytest.mark.parametrize("which", range(7))
def test_many_members_at_once_are_the_sum_of_each(seed, which, d):
    """Every member rounds by itself, one without rows too."""
    question = questions(seed, d)[which]
    X = np.random.default_rng(seed + 1).normal(0.5, 0.4, (61, d))
    sizes = np.array([7, 1, 30, 0, 23])
    ends = np.cumsum(sizes)[:-1]
    alone = [numbers_for(question, part, SOME) for part in np.split(X, ends)]
    wanted = np.sum(alone, axis=0)
    assert numbers_of_many(question, X, sizes, SOME).tolist() == wanted.tolist()
    if which > 4:
        return  # one member is not several
    together = numbers_for(question, X)
    counted = question.units == 1
    assert together[counted].tolist() == wanted[counted].tolist()
    assert np.abs(together - wanted).max() <= len(sizes)


# ------------------------------------------------------------------ by hand


def test_groups_lie_inside_groups():
    """.6 is nearest to the seed at 1, so its finer seed is there, though .5 is near."""
    X = column(0.1, 0.4, 0.6, 1.2)
    assert groups_of(X, (OUTER,)).tolist() == [0, 0, 1, 1]
    assert groups_of(X, (OUTER, INNER)).tolist() == [0, 1, 2, 2]
    assert groups_of(X[2:], (OUTER, INNER)).tolist() == [2, 2]
    assert groups_of(X[:0], (OUTER, INNER)).tolist() == []


def test_counts_by_hand():
    X = column(0.1, 0.4, 0.6, 1.2)
    assert numbers_for(Question(COUNT, (OUTER,)), X).tolist() == [2, 2]
    assert numbers_for(Question(COUNT, (OUTER, INNER)), X).tolist() == [1, 1, 2]
    cells = Cells(np.array([5, 7]), column(0.1, 0.9), np.array([3.0, 4.0]))
    assert numbers_for(Question(COUNT, (OUTER,)), cells).tolist() == [5, 7]


def test_presence_by_hand():
    """Two groups; a member says that it is there, and rows up to the cap of 2."""
    question = Question(PRESENCE, (OUTER,))
    X = column(0.0, 0.1, 0.1, 0.9, 0.9)
    assert numbers_for(Question(COUNT, (OUTER,)), X).tolist() == [3, 2]
    assert Threshold(5, 3).cap == 2
    assert numbers_for(question, X, Threshold(5, 3)).tolist() == [2 * FIELD + 1] * 2
    many = np.tile(X, (9, 1))
    assert numbers_for(question, many, Threshold(5, 3)).tolist() == [2 * FIELD + 1] * 2
    assert numbers_for(question, column(0.5), Threshold(5, 3)).tolist() in (
        [FIELD + 1, 0],
        [0, FIELD + 1],
    )


@pytest.mark.parametrize(
    ("holders", "rows", "opened"),
    [(3, 6, True), (3, 5, True), (3, 4, False), (2, 9, False), (9, 9, True)],
)
def test_a_group_is_opened_if_enough_members_hold_enough_rows(holders, rows, opened):
    presence = np.array([rows * FIELD + holders])
    assert Threshold(5, 3).opened(presence).tolist() == [opened]


def test_of_a_group_that_is_not_opened_only_who_has_enough_rows_tells():
    rows = np.concatenate([column(0.0, 0.0, 0.0), column(*[0.9] * 4)])
    bits = np.array([0, 0])
    for least, told in ((3, [3, 4]), (4, [0, 4]), (5, [0, 0])):
        question = Question(SUM, (OUTER,), opened=bits)
        numbers = numbers_for(question, rows, Threshold(least, 3)).reshape(2, -1)
        assert sorted(numbers[:, 0].tolist()) == sorted(told)
        assert not numbers[numbers[:, 0] == 0].any()
    question = Question(SUM, (OUTER,), opened=1 - bits)
    numbers = numbers_for(question, rows, Threshold(5, 3)).reshape(2, -1)
    assert sorted(numbers[:, 0].tolist()) == [3, 4]


def test_who_has_enough_rows_divides_a_group_only_without_a_rest():
    """Ten rows of a group that few hold: five and five are told, six and four not."""
    outer = coarse(np.array([[0.5]]))
    inner = SeedPartition(np.array([[0.0], [1.0]]), np.zeros(2, int), np.arange(2))
    question = Question(SUM, (outer, inner), opened=np.array([0]))
    for own, told in (((5, 5), [5, 5]), ((6, 4), [0, 0]), ((10, 0), [10, 0])):
        rows = np.repeat([[0.0], [1.0]], own, axis=0)
        numbers = numbers_for(question, rows, Threshold(5, 3)).reshape(2, -1)
        assert numbers[:, 0].tolist() == told


def test_coarse_sums_by_hand():
    """Around the first seed of a group: sums, and squares of every column."""
    one = SeedPartition(
        np.array([[0.0, 0.0], [1.0, 1.0]]), np.zeros(2, int), np.zeros(2, int)
    )
    question = Question(SUM, (one,))
    assert question.seconds == 2
    assert question.width == 5
    X = np.array([[0.5, 0.25], [1.0, 0.5]])
    wanted = [2, *units(1.5, 0.75, 1.25, 0.3125)]
    assert numbers_for(question, X).tolist() == wanted
    # Five rows whose scatter of 1 counts half in each column.
    cell = Cells(np.array([5]), np.array([[0.5, 0.25]]), np.array([1.0]))
    wanted = [5, *units(2.5, 1.25, 1.25 + 0.5, 0.3125 + 0.5)]
    assert numbers_for(question, cell).tolist() == wanted


def test_finer_sums_by_hand():
    """One scatter for all columns together, around each group's first seed."""
    question = Question(SUM, (OUTER, INNER))
    assert question.seconds == 1
    X = column(0.25, 0.5, 0.375, 1.25)
    # .25 is as near to 0 as to .5 and goes to the first; .375 is nearest to .5.
    wanted = [1, *units(0.25, 0.0625)]
    wanted += [2, *units(-0.125, 0.015625)]
    wanted += [1, *units(0.25, 0.0625)]
    assert numbers_for(question, X).tolist() == wanted
    cell = Cells(np.array([3]), column(1.25), np.array([2.0]))
    wanted = [0, 0, 0, 0, 0, 0, 3, *units(0.75, 0.1875 + 2.0)]
    assert numbers_for(question, cell).tolist() == wanted


def moment_silhouette(near, far, spread=1 / 16, size=5):
    """(b - a) / max(a, b) of a row so far from its own and from the other centre."""
    a = np.sqrt((near**2 + spread) * size / (size - 1))
    b = np.sqrt(far**2 + spread)
    return (b - a) / max(a, b)


def test_scores_by_hand():
    """Rows at 0, 1/4, 1/2 (the lower of two equals) and twice at 1.

    Squared distances 0 + 1/16 + 1/4 in units of 1/16 of the spread 1/16. On the way
    from 0 to 1 one row is in the middle, one at the own end, two at the other.
    """
    question = Question(SCORE, levels=(PAIR,))
    numbers = numbers_for(question, column(0.0, 0.25, 0.5, 1.0, 1.0))
    assert numbers[:5].tolist() == [3, 80, 1, 1, 2]
    assert numbers[5:10].tolist() == [2, 0, 1, 2, 1]
    pairs = [(0, 1), (0.25, 0.75), (0.5, 0.5), (0, 1), (0, 1)]
    simplified = sum(1 - near / far for near, far in pairs)
    moment = sum(moment_silhouette(near, far) for near, far in pairs)
    assert numbers[10:].tolist() == units(simplified, moment)
    assert np.isclose(simplified, 11 / 3)


def test_squared_distances_are_coarse():
    """(3/32)^2 is 2.25 units of 1/256: two of them are told."""
    question = Question(SCORE, levels=(PAIR,))
    assert question.units[1] == COARSE / 16
    assert numbers_for(question, column(3 / 32))[1] == 2
    # A cluster without any spread has the finest unit there is.
    still = Level(PAIR.centers, np.zeros(2), PAIR.counts, 0)
    question = Question(SCORE, levels=(still,))
    assert question.units[1] == UNIT
    assert numbers_for(question, column(3 / 32))[1] == round(9 / 1024 / UNIT)


def test_cells_are_scored_by_their_scatters_too():
    """Four rows around 0 with scatter 1/4: 1/16 each, for the distances as well."""
    cell = Cells(np.array([4]), column(0.0), np.array([0.25]))
    numbers = numbers_for(Question(SCORE, levels=(PAIR,)), cell)
    assert numbers[:10].tolist() == [4, 64, 0, 4, 0, 0, 0, 0, 0, 4]
    simplified = 1 - 0.25 / np.sqrt(1 + 1 / 16)
    moment = moment_silhouette(0.25, np.sqrt(1 + 1 / 16))
    assert numbers[10:].tolist() == units(4 * simplified, 4 * moment)


def test_clusterings_are_scored_one_after_the_other():
    other = Level(column(0.0, 0.5, 1.0), np.full(3, 0.01), np.full(3, 9.0), 2)
    X = column(0.0, 0.1, 0.6, 0.9)
    both = numbers_for(Question(SCORE, levels=(PAIR, other)), X)
    alone = [numbers_for(Question(SCORE, levels=(each,)), X) for each in (PAIR, other)]
    assert both.tolist() == np.concatenate(alone).tolist()


def test_cells_of_rows_have_the_sums_of_the_rows(seed):
    """Where every cell lies in one group: counts, sums and (finer) squares agree."""
    X = np.random.default_rng(seed).random((30, 1)) + 0.75
    labels = np.arange(30) // 6
    cells = cells_of(X, labels, 5)
    question = Question(SUM, (OUTER, INNER))
    gap = numbers_for(question, X) - numbers_for(question, cells)
    assert np.abs(gap).max() <= 1


# ------------------------------------------------------------------ what does not fit


@pytest.mark.parametrize("which", [1, 3, 4])
@pytest.mark.parametrize("far", [1e9, 1e200])
def test_sums_that_do_not_fit_are_refused(which, far):
    question = questions(0, 2)[which]
    X = np.full((3, 2), far)
    with np.errstate(all="ignore"):
        with pytest.raises(InputError, match="too large for fixed-point numbers"):
            numbers_for(question, X)
        with pytest.raises(InputError, match="bring the columns to a common scale"):
            numbers_of_many(question, X, np.array([1, 2]))


# ------------------------------------------------------------------ read once


class Counted(Pieces):
    """Rows that count how often they are read."""

    reads = 0

    def map(self, work):
        self.reads += 1
        return super().map(work)


def test_rows_are_read_once_for_all_that_is_asked_of_one_partition(seed):
    rng = np.random.default_rng(seed)
    X, seeds = rng.random((90, 2)), rng.random((6, 2))
    plain = coarse(seeds)
    joined = SeedPartition(seeds, plain.parents, np.array([0, 1, 1, 2, 0, 3]))
    other = SeedPartition(seeds, plain.parents, np.array([0, 1, 2, 3, 3, 3]))
    inner = SeedPartition(
        rng.random((5, 2)), np.array([0, 0, 1, 2, 3]), np.array([0, 1, 2, 3, 4])
    )
    asked = [
        (Question(COUNT, (plain,)), 1),
        (Question(PRESENCE, (joined,)), 1),
        (Question(SUM, (joined,)), 1),
        (Question(COUNT, (joined, inner)), 2),  # other seeds
        (Question(SUM, (joined, inner)), 2),
        (Question(COUNT, (other, inner)), 3),  # the same, inside other groups
        (Question(COUNT, (plain,)), 4),  # only the last are remembered
    ]
    rows, known = Counted(X, 40), SeedSums()
    for question, reads in asked:
        found = numbers_for(question, rows, known=known)
        assert found.tolist() == numbers_for(question, single(X)).tolist()
        assert rows.reads == reads


def test_one_group_divided_among_many_seeds(seed):
    rng = np.random.default_rng(seed)
    X, seeds = rng.random((50, 3)), rng.random((9, 3))
    whole = coarse(np.full((1, 3), 0.5))
    assert np.array_equal(
        groups_of(X, (whole, coarse(seeds))), groups_of(X, (coarse(seeds),))
    )


@pytest.mark.parametrize("k", [6, 300])
def test_wide_rows_in_memory_are_looked_for_once_among_the_first_seeds(
    k, seed, monkeypatch
):
    rng = np.random.default_rng(seed)
    X, seeds = rng.random((900, 9)), rng.random((k, 9))
    plain, moved = coarse(seeds), coarse(seeds + 0.01)
    inner = SeedPartition(
        rng.random((2 * k, 9)), np.arange(2 * k) // 2, np.arange(2 * k)
    )
    looked = []

    def counted(points, centers):
        looked.append(centers.shape)
        return assign(points, centers)

    monkeypatch.setattr(cohort_answers, "assign", counted)
    asked = [
        (Question(COUNT, (plain,)), 1),
        (Question(COUNT, (plain, inner)), 1),
        (Question(SUM, (plain, inner)), 1),
        (Question(COUNT, (moved, inner)), 2),
        (Question(COUNT, (moved,)), 2),
    ]
    known = SeedSums()
    for question, times in asked:
        found = numbers_for(question, X, known=known)
        assert len(looked) == times
        assert found.tolist() == numbers_for(question, single(X)).tolist()
        del looked[times:]  # of the cells

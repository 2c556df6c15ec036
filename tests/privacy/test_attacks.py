# SPDX-License-Identifier: Apache-2.0
"""Every attack finds a leak that was planted, and nothing where there is none."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core.cells import cells_of
from afcl.core.messages import (
    Addressed,
    Cells,
    Hello,
    Intensities,
    Level,
    LevelReply,
    Plan,
    Positions,
    Summary,
    Update,
    WeightedPositions,
)
from afcl.core.paper.pulls import Pulls, pulls
from afcl.core.params import DefaultParams, PaperParams
from afcl.core.tasks import (
    COUNT,
    OPENING,
    PRESENCE,
    SUM,
    UNIT,
    Evidence,
    Part,
    Question,
    SecureHello,
    SeedPartition,
    Task,
)
from afcl.core.terms import AskHello, AskRanges, AskStep, Terms
from afcl.privacy.attacks import (
    Exchange,
    Released,
    cohort_sums,
    find_shared,
    find_singletons,
    invert,
    match_first_message,
    releases,
    solve_pulls,
    width_of,
)
from afcl.privacy.attacks_sums import difference, difference_unions, subtract_hellos
from afcl.privacy.protection import protection
from afcl.scale import Box, Ranges


def terms(d: int = 2, **options: object) -> Terms:
    box = Box(np.zeros(d), np.ones(d))
    return Terms("run", "afcl", json.dumps(options), 0, 0, box, 10)


def answer(payload, said, client=0, d=2, **options):
    return Exchange(client, AskStep(terms(d, **options), 1, 1, payload), Update(said))


def greeting(said, client=0, d=2, rows=10):
    return Exchange(client, AskHello(terms(d)), Hello(rows, said))


def bag(X, labels, clients=(0,), step=0.0):
    labels = np.asarray(labels)
    return Released(clients, cells_of(X, labels, labels.max() + 1), step=step)


def found(candidates):
    """Points in a fixed order, rounded."""
    return sorted(np.round(candidates.points, 9).tolist())


# ------------------------------------------------------------------ inversion


def test_inversion_by_hand():
    seeds = Positions(np.array([[0.5, 0.5], [0.0, 0.0]]))
    said = Intensities(
        np.array([0, 1]),
        np.array([[0.01, -0.02], [0.1, 0.05]]),
        Cells(np.array([1, 1]), np.zeros((2, 2)), np.zeros(2)),
    )
    heard = [answer(seeds, said, learning_rate=0.1)]
    assert found(invert(heard)) == [[0.6, 0.3], [1.0, 0.5]]


def test_inversion_of_the_published_uploads():
    sent = WeightedPositions(np.array([[0.5, 0.5]]), np.array([0.1, 0.2]))
    cells = Cells(np.array([1]), np.zeros((1, 2)), np.zeros(1))
    said = Intensities(np.array([0]), np.array([[0.01, -0.02]]), cells)
    assert found(invert([answer(sent, said)])) == [[0.6, 0.4]]


def test_weights_of_zero_cannot_be_inverted():
    sent = WeightedPositions(np.array([[0.5, 0.5]]), np.array([0.1, 0.0]))
    cells = Cells(np.array([1]), np.zeros((1, 2)), np.zeros(1))
    said = Intensities(np.array([0]), np.array([[0.01, 0.0]]), cells)
    assert len(invert([answer(sent, said)])) == 0


def test_one_pull_is_a_row():
    said = Pulls(np.array([1, 9]), np.array([[0.03, 0.04], [0.2, 0.2]]), 0.5, 0.0)
    sent = Addressed(Positions(np.zeros((2, 2))), 0.5)
    heard = [answer(sent, said, learning_rate=0.2)]
    assert found(solve_pulls(heard)) == [[0.3, 0.4]]


def test_three_pulls_need_three_weights():
    rng = np.random.default_rng(0)
    X, params = rng.random((3, 2)), PaperParams(learning_rate=0.01)
    seeds = np.array([[0.5, 0.5]])
    heard = [
        answer(
            Addressed(Positions(seeds), weight),
            pulls(X, seeds, weight, params, rng),
            learning_rate=0.01,
        )
        for weight in (0.5, 0.7, 0.9)
    ]
    assert len(solve_pulls(heard[:2])) == 0
    solved = solve_pulls(heard).points
    np.testing.assert_allclose(np.sort(solved, 0), np.sort(X, 0), atol=1e-6)


# ------------------------------------------------------------------ single cells


def test_first_messages_that_are_rows():
    cells = Cells(
        np.array([1, 6]), np.array([[0.1, 0.2], [0.5, 0.5]]), np.array([0, 1.0])
    )
    heard = [
        greeting(Positions(np.array([[0.3, 0.4]]))),
        greeting(cells, client=1),
        greeting(SecureHello(cells, "00"), client=2),
        Exchange(0, AskRanges("run", True), Ranges(3, 2, np.zeros(2), np.ones(2))),
    ]
    assert width_of(heard) == 2
    assert found(match_first_message(heard)) == [[0.1, 0.2], [0.3, 0.4]]


def test_a_few_equal_rows_are_singled_out_and_many_are_shared():
    X = np.array([[0.1, 0.1]] * 2 + [[0.7, 0.2]] * 6 + [[0.4, 0.4], [0.5, 0.6]])
    seen = [bag(X, [0] * 2 + [1] * 6 + [2] * 2)]
    assert found(find_singletons(seen)) == [[0.1, 0.1]]
    assert find_singletons(seen).sizes.tolist() == [2]
    assert found(find_shared(seen)) == [[0.7, 0.2]]
    assert find_shared(seen).sizes.tolist() == [6]


def test_two_rows_in_one_dimension_are_told_by_mean_and_scatter():
    X = np.array([[0.2], [0.6], [0.9]])
    assert found(find_singletons([bag(X, [0, 0, 1])])) == [[0.2], [0.6], [0.9]]


def test_nothing_heard_is_nothing_found():
    assert releases([]) == []
    assert width_of([]) == 0
    assert len(find_singletons([])) == len(find_shared([])) == 0
    assert len(difference([])) == len(difference_unions([])) == 0
    assert len(invert([])) == len(solve_pulls([])) == len(match_first_message([])) == 0


# ------------------------------------------------------------------ differences


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 4))
def test_rows_that_change_cells_are_found(seed, d, equal):
    """A few equal rows go from one cell to another: both differences show them."""
    rng = np.random.default_rng(seed)
    X = rng.random((40, d))
    X[:equal] = X[0]
    before = np.repeat([0, 1, 2, 3], 10)
    after = before.copy()
    after[:equal] = 1
    candidates = difference([bag(X, before), bag(X, after)])
    assert found(candidates) == [np.round(X[0], 9).tolist()]
    assert candidates.sizes.tolist() == [equal]


def test_cells_of_different_clients_are_not_compared():
    X = np.random.default_rng(0).random((21, 2))
    pair = [bag(X[:20], [0] * 20, (0,)), bag(X, [0] * 21, (1,))]
    assert len(difference(pair)) == 0


def test_a_union_of_cells_hides_a_row_that_no_pair_of_cells_shows():
    """One level's cell is the union of two of the other level's, and one row more."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.random((10, 2)) * 0.1, 0.3 + rng.random((10, 2)) * 0.1])
    X = np.concatenate([X, 0.8 + rng.random((11, 2)) * 0.1])
    fine = [0] * 10 + [1] * 10 + [2] * 11
    coarse = [0] * 20 + [0] + [1] * 10
    seen = [bag(X, fine), bag(X, coarse)]
    assert found(difference_unions(seen)) == [np.round(X[20], 9).tolist()]
    middle = [0] * 10 + [1] * 10 + [1] + [2] * 10
    assert found(difference([bag(X, fine), bag(X, middle)])) == [
        np.round(X[20], 9).tolist()
    ]
    only = [
        Released((0,), _some(each.cells, chosen))
        for each, chosen in zip(seen, ([0, 1], [0]), strict=True)
    ]
    assert len(difference(only)) == 0
    assert found(difference_unions(only)) == [np.round(X[20], 9).tolist()]


def _some(cells, chosen):
    return Cells(cells.counts[chosen], cells.means[chosen], cells.scatters[chosen])


def test_a_difference_that_lies_elsewhere_is_no_row():
    """The row must be nearest to the centre whose cell it is said to be in."""
    X = np.random.default_rng(1).random((20, 2))
    centers = np.array([[0.5, 0.5], [5.0, 5.0]])
    all_of_them = cells_of(X, np.zeros(20, dtype=int), 1)
    but_one = cells_of(X[1:], np.zeros(19, dtype=int), 1)
    here, there = np.array([0]), np.array([1])
    right = [
        Released((0,), all_of_them, centers, here),
        Released((0,), but_one, centers, there),
    ]
    assert found(difference(right)) == [np.round(X[0], 9).tolist()]
    wrong = [
        Released((0,), all_of_them, centers, there),
        Released((0,), but_one, centers, there),
    ]
    assert len(difference(wrong)) == 0


@pytest.mark.parametrize("m", [2, 5])
def test_groups_of_rows_show_no_row(m, seed):
    """Cells that are unions of the same groups differ by groups or by nonsense."""
    rng = np.random.default_rng(seed)
    X = rng.random((200, 2))
    groups = np.arange(200) // m
    seen = []
    for _ in range(20):
        sorted_to = rng.integers(0, 12, 200 // m)
        seen.append(bag(X, np.unique(sorted_to[groups], return_inverse=True)[1]))
    assert len(difference(seen)) == 0
    assert len(difference_unions(seen)) == 0


# ------------------------------------------------------------------ what is released


def test_all_cells_of_a_message_are_released():
    cells = Cells(np.array([6]), np.full((1, 2), 0.5), np.ones(1))
    whose = np.array([0])
    level = Level(np.zeros((1, 2)), np.ones(1), np.ones(1), 0)
    reply = LevelReply(cells, whose, np.zeros(2), np.zeros((2, 3)), 0)
    plan = Plan(np.zeros((1, 2)), (level, level))
    heard = [greeting(cells), answer(plan, Summary(cells, whose, (reply, reply)))]
    assert len(releases(heard)) == 4


#: Two seeds on the diagonal, and two inside the groups of each.
TWO = SeedPartition(
    np.array([[0.25, 0.25], [0.75, 0.75]]), np.zeros(2, dtype=np.int64), np.arange(2)
)
FOUR = SeedPartition(
    np.array([[0.0, 0.5], [0.5, 0.0], [0.5, 1.0], [1.0, 0.5]]),
    np.array([0, 0, 1, 1]),
    np.arange(4),
)


def secure_exchange(tables, leave_out=()):
    """Return what a server hears of a cohort: hellos, and parts of nested sums."""
    params = DefaultParams(privacy="secure", cohort=3)
    working, heard = [], []
    for client, X in enumerate(tables):
        working.append(protection(params).view(X, np.random.default_rng(client)))
        said = protection(params).hello(working[-1], np.random.default_rng(client))
        heard.append(Exchange(client, AskHello(terms()), said))
    keys = tuple(each.reply.payload.key for each in heard)
    members = tuple(range(len(tables)))
    memories, protected = [None] * len(tables), protection(params)

    def ask(client, question, evidence=None):
        kind = question.kind
        task = Task(0, kind, members, keys, client, question, evidence=evidence)
        answered, memories[client] = protected.step(
            Addressed(None, task), working[client], memories[client]
        )
        return Exchange(client, AskStep(terms(), 1, 1, Addressed(None, task)), answered)

    there, before = sorted(set(members) - set(leave_out)), None
    for partitions in ((TWO,), (TWO, FOUR)):
        heard += [ask(client, Question(COUNT, partitions)) for client in there]
        shown = [ask(client, Question(PRESENCE, partitions)) for client in members]
        parts = np.stack([each.reply.payload.values for each in shown])
        tags = np.stack([each.reply.payload.tags for each in shown])
        total = parts.view(np.uint64).sum(axis=0, dtype=np.uint64).view(np.int64)
        opened = params.threshold.opened(total).astype(np.int64)
        before = opened if before is None else before
        about = Question(SUM, partitions, opened=before)
        groups = partitions[-1].groups
        heard += [ask(c, about, Evidence(groups, parts, tags[:, c])) for c in there]
    return heard


def test_a_cohort_is_read_when_it_is_complete():
    pytest.importorskip("cryptography")
    tables = list(np.random.default_rng(0).random((3, 20, 2)))
    read, finer = cohort_sums(secure_exchange(tables))
    rows = np.concatenate(tables)
    near = rows.sum(1) <= 1
    above = rows[:, 1] >= rows[:, 0]
    assert read.clients == finer.clients == (0, 1, 2)
    assert read.cells.counts.tolist() == [near.sum(), (~near).sum()]
    np.testing.assert_allclose(read.cells.means[0], rows[near].mean(0), atol=1e-4)
    quarters = [near & above, near & ~above, ~near & above, ~near & ~above]
    assert finer.cells.counts.tolist() == [each.sum() for each in quarters]
    for mean, quarter in zip(finer.cells.means, quarters, strict=True):
        np.testing.assert_allclose(mean, rows[quarter].mean(0), atol=1e-4)
    assert len(difference([read, finer])) == len(difference_unions([read, finer])) == 0
    assert cohort_sums(secure_exchange(tables, leave_out=(1,))) == []


def test_parts_alone_are_no_cells():
    pytest.importorskip("cryptography")
    tables = list(np.random.default_rng(0).random((3, 20, 2)))
    heard = secure_exchange(tables)
    parts = [each.reply.payload for each in heard if isinstance(each.request, AskStep)]
    assert all(isinstance(part, Part) for part in parts)
    seen = releases(heard)
    assert sorted(len(each.clients) for each in seen) == [1, 1, 1, 3, 3]
    assert all(each.step == 1 / 64 for each in seen if len(each.clients) == 1)


def test_a_cohort_less_exact_first_messages_shows_a_row():
    """What the grid of the first messages is for: without it, this finds a row."""
    X = np.random.default_rng(0).random((31, 2))
    own = [bag(X[10 * c : 10 * c + 10], [0] * 10, (c,)) for c in range(3)]
    cohort = bag(X, [0] * 31, (0, 1, 2), step=2.0**-16)
    assert found(subtract_hellos([*own, cohort])) == [np.round(X[30], 9).tolist()]
    assert len(subtract_hellos([cohort])) == 0


def test_opened_sums_are_read_as_they_are():
    """One group of 8 rows in the middle of the box; what is no sum is no release."""
    none = np.zeros(1, dtype=np.int64)
    one = SeedPartition(np.zeros((1, 2)), none, none)
    opening = OPENING[SUM]
    for partitions, sums, impossible in (
        ((one,), [8, 4, 4, 2.5, 2.5], [8, 4, 0, 0, 0]),
        ((one, one), [8, 4, 4, 5], [8, 4, 0, 0]),
    ):
        question = Question(SUM, partitions)
        task = Task(0, opening, (0, 1, 2), ("",) * 3, 0, question)
        heard = [
            answer(Addressed(None, task), Part(0, opening, values))
            for values in (
                (np.array(sums) / question.units).astype(np.int64),
                np.full(len(sums), -1),
                (np.array(impossible) / question.units).astype(np.int64),
            )
        ]
        (read,) = cohort_sums(heard)
        assert (read.clients, read.cells.counts.tolist()) == ((0, 1, 2), [8])
        assert read.cells.means.tolist() == [[0.5, 0.5]]
        assert read.cells.scatters.tolist() == [1.0]
        assert read.step == 3 * UNIT

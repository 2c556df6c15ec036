# SPDX-License-Identifier: Apache-2.0
"""The server under `secure`: cohorts are asked, refined, judged; no sum is wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.core import cohorts, rebuild
from afcl.core.cells import cells_of, concatenate
from afcl.core.checks import check_question
from afcl.core.cohort_answers import numbers_for
from afcl.core.cohort_state import SecureState
from afcl.core.messages import Batch, Cells, Hello, Left, Update, refuse_unless
from afcl.core.params import DefaultParams
from afcl.core.tasks import (
    COUNT,
    FIELD,
    KEY,
    OPENING,
    PER_CLUSTER,
    PRESENCE,
    SCORE,
    SUM,
    UNIT,
    Part,
    Parts,
    Proof,
    SecureHello,
    check_numbers,
)
from afcl.exceptions import RejectedMessage
from afcl.kernels import join_seeds

PARAMS = DefaultParams(min_cell=2, privacy="secure+grouped(5)")
FOURS = dataclasses.replace(PARAMS, cohort=4)
HEX = "ab" * 32
#: What a cohort is asked, one question after the other: kind and partitions.
STAGES = [
    *((kind, 1) for kind in (COUNT, PRESENCE, SUM)),
    *((kind, 2) for kind in (COUNT, PRESENCE, SUM)),
    (SCORE, 0),
]
EACH_STAGE = pytest.mark.parametrize(
    "stage", STAGES, ids=[f"{kind} {depth}" for kind, depth in STAGES]
)


def tables(n, rows=12, seed=0):
    """Every client holds a few rows of each of three clusters."""
    rng = np.random.default_rng(seed)
    spots = np.array([[0.1, 0.1], [0.5, 0.9], [0.9, 0.1]])
    return [
        np.clip(
            spots[rng.integers(3, size=rows)] + rng.normal(0, 0.02, (rows, 2)), 0, 1
        )
        for _ in range(n)
    ]


def cells_to_show(X):
    labels = np.arange(X.shape[0]) // 6
    return cells_of(X, labels, int(labels.max()) + 1)


def greeting(client, X):
    hello = SecureHello(cells_to_show(X), HEX)
    return Hello(X.shape[0], hello, client=client)


def greeted(state, rows, first=0):
    for client, X in enumerate(rows, first):
        state, _ = cohorts.absorb_hello(state, greeting(client, X))
    return cohorts.prepare(state)


def started(rows, params=PARAMS):
    return greeted(SecureState(params, 0), rows)


def asked(state: SecureState) -> Any:
    """Everybody's task."""
    return cohorts.broadcast(state).personal


def part_of(state, client, rows):
    """What an unmasked client would answer; masks cancel, so sums are the same."""
    task = asked(state)[client]
    check_question(task.question, rows[client].shape[1], DefaultParams())
    values = numbers_for(task.question, rows[client])
    return Update(Part(task.cohort, task.phase, values), state.version, client, 1)


def some_answer(state, rows, clients):
    for client in clients:
        state, _ = cohorts.absorb_update(state, part_of(state, client, rows))
    return state


def everybody(state, rows):
    return cohorts.prepare(some_answer(state, rows, sorted(asked(state))))


def stage_of(state, number=0):
    question = state.cohorts[number].question
    return question.kind, len(question.partitions)


def at(stage, state, rows, number=0):
    """Return the state in which this cohort is asked this."""
    while stage_of(state, number) != stage:
        state = everybody(state, rows)
    return state


def finished(state, rows):
    while not cohorts.done(state):
        state = everybody(state, rows)
    return state


def rows_known(state):
    return sum(int(cells.counts.sum()) for cells in state.answered.values())


def moments_of(cells):
    """Count, mean and scatter of all cells together."""
    n = cells.counts.sum()
    mean = (cells.counts[:, None] * cells.means).sum(axis=0) / n
    around = cells.counts * ((cells.means - mean) ** 2).sum(axis=1)
    return n, mean, cells.scatters.sum() + around.sum()


def same_sums(cells, X):
    """Assert that cells have the count, the mean and the scatter of these rows."""
    n, mean, scatter = moments_of(cells)
    assert n == X.shape[0]
    assert np.allclose(mean, X.mean(axis=0), atol=1e-4)
    assert np.isclose(scatter, ((X - X.mean(axis=0)) ** 2).sum(), atol=1e-2)


def spoilt(update, *changes):
    """Return an answer in which the numbers at these places are changed by so much."""
    values = update.payload.values.copy()
    for place, change in changes:
        values[place] += change
    part = dataclasses.replace(update.payload, values=values)
    return dataclasses.replace(update, payload=part)


# ------------------------------------------------------------------ who is asked what


def test_cohorts_are_asked_five_times_and_replace_the_hellos():
    rows = tables(4)
    state, stages = started(rows), []
    assert cohorts.broadcast(state).wanted == frozenset(asked(state)) == {0, 1, 2, 3}
    assert cohorts.waits_for(state) == {0, 1, 2, 3}
    while not cohorts.done(state):
        stages.append(stage_of(state))
        assert not state.spoken or stages[-1][0] == SCORE
        state = everybody(state, rows)
    assert stages == STAGES
    assert state.cohorts[0].asked == 5
    same_sums(state.answered[0], np.concatenate(rows))
    assert state.spoken == {0, 1, 2, 3}
    assert cohorts.waits_for(state) == frozenset()
    assert cohorts.broadcast(state).wanted == frozenset()
    found = cohorts.result(state)
    assert found.k == 3
    assert found.extra["summed"] == 4
    assert found.sizes.sum() == 48
    assert cohorts.progress(state)["cohorts"] == 1
    assert cohorts.progress(state)["k"] == 3


def test_all_cohorts_work_at_the_same_time():
    rows = tables(13)
    state = started(rows, dataclasses.replace(PARAMS, cohort=3))
    sizes = [len(cohort.members) for cohort in state.cohorts.values()]
    assert sizes == [3, 3, 3, 4]
    for stage in STAGES:
        assert [stage_of(state, number) for number in range(4)] == [stage] * 4
        assert set(asked(state)) == set(range(13))
        state = everybody(state, rows)
    assert cohorts.done(state)
    for number, cohort in state.cohorts.items():
        mine = np.concatenate([rows[client] for client in cohort.members])
        same_sums(state.answered[number], mine)


def test_cohorts_are_as_large_as_can_be():
    rows = tables(257, rows=6)
    state = started(rows)
    sizes = [len(cohort.members) for cohort in state.cohorts.values()]
    assert sizes == [128, 129]
    assert len(started(rows[:256]).cohorts) == 1


def test_what_is_asked_lies_inside_what_was_asked():
    rows = tables(6)
    state = at((SUM, 1), started(rows), rows)
    coarse = state.cohorts[0].question.partitions[0]
    state = at((COUNT, 2), state, rows)
    assert state.cohorts[0].question.partitions[0] is coarse
    state = at((SUM, 2), state, rows)
    first, second = state.cohorts[0].question.partitions
    assert first is coarse
    assert second.parents.max() + 1 == coarse.n_groups
    held = np.bincount(second.groups, state.cohorts[0].counts)
    assert held.min() >= PARAMS.min_cell


def test_with_passes_to_spare_candidates_are_judged_again():
    """A late client changes the candidates; six questions allow one more score."""
    rows = tables(6)
    state = finished(started(rows[:4]), rows)
    assert state.scores
    state = greeted(state, rows[4:5], first=4)
    assert stage_of(state) == (SCORE, 0)
    assert not state.scores
    state = finished(state, rows)
    assert state.cohorts[0].asked == 6
    assert cohorts.result(state).sizes.sum() == 60
    state = greeted(state, rows[5:], first=5)
    assert cohorts.done(state)
    assert not state.scores
    assert cohorts.result(state).sizes.sum() == 72


def test_fewer_than_a_cohort_stay_with_their_hellos():
    state = started(tables(2))
    assert cohorts.done(state)
    assert cohorts.result(state).sizes.sum() == 24
    state = started(tables(4), dataclasses.replace(PARAMS, cohort=5))
    assert cohorts.done(state)


def test_late_clients_count_by_their_hellos_until_there_is_a_cohort():
    rows = tables(6)
    state = finished(started(rows[:3]), rows)
    state, _ = cohorts.absorb_hello(state, greeting(3, rows[3]))
    assert not cohorts.done(state)
    state = finished(cohorts.prepare(state), rows)
    assert cohorts.result(state).sizes.sum() == 48
    state = greeted(state, rows[4:], first=4)
    assert set(asked(state)) == {3, 4, 5}
    state = finished(state, rows)
    assert state.spoken == set(range(6))
    assert rows_known(state) == 72


def test_a_late_cohort_is_first_told_apart_by_its_own_hellos():
    """Rows where nobody was before: seeds lie among them nevertheless."""
    rows = tables(3)
    far = [np.full((12, 2), 0.5) + np.arange(12)[:, None] / 1000 for _ in range(3)]
    state = greeted(finished(started(rows), rows), far, first=3)
    seeds = state.cohorts[1].question.partitions[0].seeds
    assert np.abs(seeds - 0.5055).max(axis=1).min() < 0.01


def test_the_result_can_be_had_before_the_end():
    rows = tables(4)
    state = SecureState(PARAMS, 0)
    for client, X in enumerate(rows):
        state, _ = cohorts.absorb_hello(state, greeting(client, X))
    assert cohorts.result(state).sizes.sum() == 48
    state = cohorts.prepare(state)
    for _ in STAGES:
        found = cohorts.result(state)
        assert found.sizes.sum() == 48
        assert found.extra["summed"] == len(state.spoken)
        state = everybody(state, rows)


def test_nothing_to_do_before_the_first_hello_and_when_nothing_is_new():
    empty = SecureState(PARAMS, 0)
    assert cohorts.prepare(empty) is empty
    assert not cohorts.done(empty)
    state = started(tables(3))
    assert cohorts.prepare(state) is state
    assert cohorts.announced(state, 0, np.zeros(2), np.ones(2)) is state


def test_rows_that_are_all_the_same_are_one_cluster_and_nothing_to_judge():
    rows = [np.full((12, 2), 0.25) for _ in range(3)]
    state = finished(started(rows), rows)
    assert not state.scores
    assert state.cohorts[0].asked == 4
    assert cohorts.result(state).k == 1


# ------------------------------------------------------------------ who drops out


@pytest.mark.no_cover
@EACH_STAGE
@pytest.mark.parametrize("answered", [0, 1, 2, 3])
def test_a_member_that_leaves_is_left_behind_and_no_sum_is_wrong(stage, answered):
    rows = tables(7)
    state = at(stage, started(rows, FOURS), rows)
    members = state.cohorts[0].members
    gone = members[-1]
    state = some_answer(state, rows, members[:answered])
    state, _ = cohorts.absorb_left(state, Left(gone))
    state = cohorts.prepare(state)
    while not cohorts.done(state):
        assert gone not in asked(state)
        state = everybody(state, rows)
    assert (gone in state.spoken) is (stage[1] != 1)
    mine = members if stage[1] != 1 else members[:-1]
    same_sums(state.answered[0], np.concatenate([rows[c] for c in mine]))
    assert rows_known(state) == 12 * len(state.spoken)
    # Who did not take part in the scores is made up for.
    assert cohorts.result(state).sizes.sum() == pytest.approx(7 * 12)


@EACH_STAGE
def test_of_a_cohort_of_three_nobody_can_leave(stage):
    rows = tables(3)
    state = at(stage, started(rows), rows)
    state, _ = cohorts.absorb_left(state, Left(1))
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    assert not state.scores
    if stage[1] == 1:
        assert not state.answered
        assert set(state.waiting) == {0, 1, 2}
    else:
        same_sums(state.answered[0], np.concatenate(rows))
    assert cohorts.result(state).sizes.sum() == 36


@pytest.mark.parametrize("stage", STAGES[:2])
def test_before_the_first_sums_the_rest_is_asked_from_the_beginning(stage):
    rows = tables(4)
    state = at(stage, started(rows), rows)
    before = state.cohorts[0]
    state, _ = cohorts.absorb_left(state, Left(2))
    cohort = state.cohorts[0]
    assert cohort.members == (0, 1, 3)
    assert stage_of(state) == (COUNT, 1)
    assert cohort.asked == before.asked + 1
    assert cohort.question is not None
    assert before.question is not None
    seeds = cohort.question.partitions[0].seeds
    same = np.array_equal(seeds, before.question.partitions[0].seeds)
    # Counts around the same seeds with and without a member could be subtracted.
    assert same is (stage[0] == COUNT)
    assert state.waiting == (2,)


@pytest.mark.parametrize("stage", STAGES[3:6])
def test_after_the_first_sums_a_cohort_ends_with_its_coarse_cells(stage):
    rows = tables(4)
    state = at(stage, started(rows), rows)
    coarse = state.cohorts[0].moments.cells
    state, _ = cohorts.absorb_left(state, Left(2))
    assert not state.cohorts
    assert np.array_equal(state.answered[0].means, coarse.means)
    assert np.array_equal(state.answered[0].counts, coarse.counts)


def test_at_the_score_the_rest_is_asked_about_the_same_candidates():
    rows = tables(4)
    state = at((SCORE, 0), started(rows), rows)
    question = state.cohorts[0].question
    state, _ = cohorts.absorb_left(state, Left(2))
    assert state.cohorts[0].question is question
    assert state.cohorts[0].members == (0, 1, 3)


def test_a_cohort_that_was_asked_too_often_is_not_asked_again():
    """Of eight members one leaves every time: five questions, and one recovery."""
    rows = tables(8)
    state = started(rows, dataclasses.replace(PARAMS, passes=5))
    for client in range(2):
        assert state.cohorts[0].asked == client + 1
        state, _ = cohorts.absorb_left(state, Left(client))
    assert state.cohorts[0].members == (2, 3, 4, 5, 6, 7)
    state, _ = cohorts.absorb_left(state, Left(2))
    assert not state.cohorts
    assert set(state.waiting) == set(range(8))
    state = at((SCORE, 0), started(rows, dataclasses.replace(PARAMS, passes=5)), rows)
    state, _ = cohorts.absorb_left(state, Left(0))
    assert state.cohorts[0].asked == 6
    state, _ = cohorts.absorb_left(state, Left(1))
    assert not state.cohorts
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    same_sums(state.answered[0], np.concatenate(rows))


def test_a_cohort_that_started_late_is_not_judged():
    """Six questions, two of them lost: its sums are known, no score is asked for."""
    rows = tables(5)
    state = at((SUM, 1), started(rows), rows)
    state, _ = cohorts.absorb_left(state, Left(0))
    state = finished(state, rows)
    assert state.cohorts[0].asked == 6
    assert not state.scores
    same_sums(state.answered[0], np.concatenate(rows[1:]))


@pytest.mark.parametrize("stage", STAGES[:6])
def test_who_left_after_its_answer_is_missed_at_the_next_question(stage):
    rows = tables(4)
    state = at(stage, started(rows), rows)
    state = some_answer(state, rows, [0])
    state, _ = cohorts.absorb_left(state, Left(0))
    assert stage_of(state) == stage
    assert state.cohorts[0].members == (0, 1, 2, 3)
    state = cohorts.prepare(some_answer(state, rows, [1, 2, 3]))
    assert 0 not in asked(state)
    assert 0 not in cohorts.waits_for(state)
    state = finished(state, rows)
    # Before there is any sum the others are asked again, without it.
    first = 1 if stage in ((COUNT, 1), (PRESENCE, 1)) else 0
    same_sums(state.answered[0], np.concatenate(rows[first:]))
    assert not state.scores or first


def test_who_comes_back_may_be_in_the_next_cohort():
    rows = tables(5)
    state = started(rows[:3])
    state, _ = cohorts.absorb_left(state, Left(0))
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    state, found = cohorts.absorb_hello(state, greeting(0, rows[0]))
    assert found["repeated"]
    state = greeted(state, rows[3:], first=3)
    assert set(asked(state)) == set(range(5))


def test_a_part_of_somebody_who_was_thought_gone_counts():
    rows = tables(3)
    state = started(rows)
    again = part_of(state, 0, rows)
    state = some_answer(state, rows, [0])
    state, _ = cohorts.absorb_left(state, Left(0))
    assert state.left == {0}
    state, _ = cohorts.absorb_update(state, again)
    assert not state.left
    state = finished(state, rows)
    assert state.spoken == {0, 1, 2}


@EACH_STAGE
def test_who_is_silent_is_not_waited_for_for_ever(stage):
    rows = tables(7)
    state = at(stage, started(rows, FOURS), rows)
    state = cohorts.prepare(some_answer(state, rows, range(1, 7)))
    patience = cohorts.PATIENCE if stage[1] == 1 else cohorts.LONGER_PATIENCE
    for _ in range(patience):
        state = cohorts.end_round(state)
        assert 0 in cohorts.waits_for(state)
    state = cohorts.end_round(state)
    assert state.silent == {0}
    while not cohorts.done(state):
        assert 0 not in asked(state)
        state = everybody(state, rows)
    assert (0 in state.spoken) is (stage[1] != 1)
    assert rows_known(state) == 12 * len(state.spoken)
    assert cohorts.end_round(state) is state
    state, _ = cohorts.absorb_hello(state, greeting(0, rows[0]))
    assert not state.silent


def test_the_slow_of_many_are_left_behind_and_the_others_parted_by_pace():
    rows = tables(40)
    soon, later = range(39, 19, -1), range(19, 5, -1)
    state = some_answer(started(rows), rows, [*soon, *later])
    state = cohorts.end_round(cohorts.end_round(state))
    assert state.silent == set(range(6))
    first, second = state.working.values()
    assert set(first.members) == set(range(23, 40))
    assert set(second.members) == set(range(6, 23))
    assert state.opened == 2
    while not cohorts.done(state):
        state = everybody(state, rows)
    assert state.spoken == set(range(6, 40))
    assert rows_known(state) == 12 * 34


def test_a_wanted_size_of_cohorts_is_kept():
    rows = tables(40)
    wanted = dataclasses.replace(PARAMS, cohort=40)
    state = some_answer(started(rows, wanted), rows, range(39, 5, -1))
    state = cohorts.end_round(cohorts.end_round(state))
    assert [cohort.members for cohort in state.working.values()] == [
        tuple(range(6, 40))
    ]


@pytest.mark.parametrize(("n", "answers"), [(11, 10), (30, 19)])
def test_few_members_or_few_answers_are_given_time(n, answers):
    rows = tables(n)
    state = some_answer(started(rows), rows, range(answers))
    for _ in range(cohorts.PATIENCE):
        state = cohorts.end_round(state)
        assert not state.silent
    assert cohorts.end_round(state).silent == set(range(answers, n))


def verdict_of(state: SecureState) -> str:
    trust = cohorts.result(state).trust
    assert trust is not None
    return trust.verdict


def test_that_no_clusters_are_seen_in_part_of_the_rows_shows_nothing():
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(60, 2)) for _ in range(5)]
    whole = finished(started(rows), rows)
    assert verdict_of(whole) == "none"
    state, _ = cohorts.absorb_left(started(rows), Left(0))
    part = finished(state, rows)
    assert part.spoken == {1, 2, 3, 4}
    assert verdict_of(part) != "none"


def test_a_round_with_a_part_in_it_is_not_an_idle_one():
    rows = tables(3)
    state = started(rows)
    for _ in range(5):
        state = cohorts.end_round(state)
    assert state.idle == 5
    state = some_answer(state, rows, [0])
    assert state.idle == 0
    assert cohorts.absorb_batch(cohorts.end_round(state), batch([]))[0].idle == 1


def test_once_there_are_sums_patience_is_longer():
    rows = tables(7)
    state = at((COUNT, 2), started(rows, FOURS), rows)
    for _ in range(cohorts.LONGER_PATIENCE):
        state = cohorts.end_round(state)
        assert state.working
    state = cohorts.end_round(state)
    assert state.silent == set(range(7))
    assert len(state.answered) == 1
    assert cohorts.done(state)


def test_a_late_part_to_an_older_question_is_refused():
    rows = tables(4)
    state = at((SUM, 1), started(rows), rows)
    late = part_of(state, 3, rows)
    state, _ = cohorts.absorb_left(state, Left(0))
    with pytest.raises(RejectedMessage, match="something else"):
        cohorts.absorb_update(state, late)
    state, _ = cohorts.absorb_left(state, Left(1))
    with pytest.raises(RejectedMessage, match="not at work"):
        cohorts.absorb_update(state, late)


@settings(max_examples=15)
@given(st.data())
def test_whoever_leaves_whenever_no_sum_is_wrong(data):
    """Members answer, leave and come back in any order."""
    rows = tables(6)
    state = started(rows)
    left: set[int] = set()
    for _ in range(40):
        if cohorts.done(state):
            break
        client = data.draw(st.sampled_from(range(6)), label="client")
        what = data.draw(st.sampled_from(["answer"] * 6 + ["leave", "return", "all"]))
        if what == "leave":
            left.add(client)
            state, _ = cohorts.absorb_left(state, Left(client))
        elif what == "return" and client in left:
            left.discard(client)
            state, _ = cohorts.absorb_hello(state, greeting(client, rows[client]))
        elif what == "all":
            state = some_answer(state, rows, sorted(set(asked(state)) - left))
        elif client in asked(state) and client not in left:
            state = some_answer(state, rows, [client])
        state = cohorts.prepare(state)
        assert not (cohorts.waits_for(state) & state.left)
    assert rows_known(state) == 12 * len(state.spoken)
    if len(state.answered) == 1:
        mine = np.concatenate([rows[client] for client in sorted(state.spoken)])
        same_sums(next(iter(state.answered.values())), mine)
    assert cohorts.result(state).sizes.sum() >= 12


# ------------------------------------------------------------------ what is believed


@EACH_STAGE
@pytest.mark.parametrize("change", [1, -100, 10**12])
def test_a_spoilt_sum_ends_the_cohort(stage, change):
    """Members stay with what is known of them: hellos, coarse cells, all cells."""
    rows = tables(3)
    state = at(stage, started(rows), rows)
    known = state.cohorts[0].moments
    state = some_answer(state, rows, [0, 2])
    state, _ = cohorts.absorb_update(
        state, spoilt(part_of(state, 1, rows), (0, change))
    )
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    assert not state.cohorts
    assert not state.scores
    assert cohorts.result(state).sizes.sum() == 36
    if stage[1] == 1:
        assert not state.answered
        assert not state.spoken
    elif stage[1] == 2:
        assert np.array_equal(state.answered[0].means, known.cells.means)
        assert state.spoken == {0, 1, 2}
    else:
        same_sums(state.answered[0], np.concatenate(rows))


@pytest.mark.parametrize("stage", [(PRESENCE, 1), (PRESENCE, 2)])
@pytest.mark.parametrize(
    "change",
    [
        1,  # more members than there are
        -1,  # rows of nobody
        FIELD * 100,  # more rows than the members count for
        -FIELD,  # fewer rows than members
    ],
)
def test_a_presence_that_cannot_be_is_not_believed(stage, change):
    rows = tables(3)
    state = at(stage, started(rows), rows)
    state = some_answer(state, rows, [0, 1])
    # The first group has a member and a row less already.
    part = part_of(state, 2, rows)
    state, _ = cohorts.absorb_update(state, spoilt(part, (0, change)))
    assert not state.cohorts


def test_groups_that_few_members_hold_are_not_opened():
    """Three clusters, each at one of three sites: nothing is held by three of them."""
    rng = np.random.default_rng(0)
    places = np.array([[0.1, 0.1], [0.5, 0.9], [0.9, 0.1]])
    rows = [place + 0.05 * rng.random((12, 2)) for place in places]
    state = at((SUM, 1), started(rows), rows)
    question = state.cohorts[0].question
    assert not question.opened.any()
    state = finished(state, rows)
    # Everybody has enough rows by itself.
    same_sums(state.answered[0], np.concatenate(rows))
    assert cohorts.result(state).k == 3
    shared = at((SUM, 1), started(tables(3)), tables(3))
    assert shared.cohorts[0].question.opened.any()


def test_everybody_is_shown_who_holds_the_groups_that_it_sums():
    rows = tables(4)
    state = at((PRESENCE, 1), started(rows), rows)
    shown = {}
    for client in range(4):
        assert asked(state)[client].evidence is None
        update = part_of(state, client, rows)
        tags = np.arange(8).reshape(4, 2) + 100 * client
        shown[client] = update.payload.values
        part = dataclasses.replace(update.payload, tags=tags)
        state, _ = cohorts.absorb_update(
            state, dataclasses.replace(update, payload=part)
        )
    for client, task in asked(cohorts.prepare(state)).items():
        assert task.phase == SUM
        assert np.array_equal(task.evidence.parts, np.stack(list(shown.values())))
        wanted = [
            [100 * other + 2 * client, 100 * other + 2 * client + 1]
            for other in range(4)
        ]
        assert task.evidence.tags.tolist() == wanted


@pytest.mark.parametrize("tags", [np.zeros((3, 2)), np.zeros((4, 2), int), "tags"])
def test_tags_are_two_numbers_for_every_member(tags):
    rows = tables(3)
    state = at((PRESENCE, 1), started(rows), rows)
    update = part_of(state, 0, rows)
    part = dataclasses.replace(update.payload, tags=tags)
    with pytest.raises(RejectedMessage, match="whole numbers"):
        cohorts.absorb_update(state, dataclasses.replace(update, payload=part))


def test_finer_counts_must_add_up_to_the_coarse_ones():
    """A row is counted in another group than the one it was summed in."""
    rows = tables(3)
    state = at((COUNT, 2), started(rows), rows)
    parents = state.cohorts[0].question.partitions[-1].parents
    first, last = 0, parents.shape[0] - 1
    assert parents[first] != parents[last]
    state = some_answer(state, rows, [0, 1])
    lie = spoilt(part_of(state, 2, rows), (first, 1), (last, -1))
    known = state.cohorts[0].counts
    assert known is not None
    state, _ = cohorts.absorb_update(state, lie)
    assert not state.cohorts
    assert state.spoken == {0, 1, 2}


def test_hellos_outside_the_box_are_refused():
    rows = tables(3)
    state = greeted(cohorts.agreed(SecureState(PARAMS, 0), 2, True), rows)
    with pytest.raises(RejectedMessage, match="outside the agreed box"):
        cohorts.absorb_hello(state, greeting(7, rows[0] + 5))


@pytest.mark.parametrize("stage", [(SUM, 1), (SUM, 2)])
@pytest.mark.parametrize("bounded", [True, False])
def test_sums_outside_the_box_are_not_believed(stage, bounded):
    """The first group's sum by 1000, its own squares by enough to go with it."""
    rows = tables(3)
    state = greeted(cohorts.agreed(SecureState(PARAMS, 0), 2, bounded), rows)
    state = at(stage, state, rows)
    places = [(1, round(1e3 / UNIT)), (3, round(1e6 / UNIT))]
    state = some_answer(state, rows, [0, 1])
    state, _ = cohorts.absorb_update(state, spoilt(part_of(state, 2, rows), *places))
    assert not state.cohorts
    assert bool(state.answered) is (stage[1] == 2)
    assert state.spoilt == {0, 1, 2}
    assert "could not be true" in cohorts.result(cohorts.prepare(state)).note


@pytest.mark.parametrize("stage", [(SUM, 1), (SUM, 2)])
def test_squares_that_are_too_small_are_not_believed(stage):
    """Sums of squares below what the mean alone demands."""
    rows = tables(3)
    state = at(stage, started(rows), rows)
    state = some_answer(state, rows, [0, 1])
    lie = spoilt(part_of(state, 2, rows), (3, -round(10 / UNIT)))
    state, _ = cohorts.absorb_update(state, lie)
    assert not state.cohorts
    assert bool(state.answered) is (stage[1] == 2)


@pytest.mark.parametrize("place", [1, 2, "simplified", "moment"])
@pytest.mark.parametrize("sign", [1, -1])
def test_scores_that_cannot_be_true_are_not_believed(place, sign):
    """Distances are positive, slabs hold no more than all rows, means are in [-1, 1].

    Squared distances have no bound above that is known here.
    """
    rows = tables(3)
    state = at((SCORE, 0), started(rows), rows)
    level = state.cohorts[0].question.levels[0]
    k = level.centers.shape[0]
    state = some_answer(state, rows, [0, 1])
    amount = 10**9 if place == 1 else 100
    if isinstance(place, str):
        place = PER_CLUSTER * k + (place == "moment")
        amount = round(100 / UNIT)
    lie = spoilt(part_of(state, 2, rows), (place, sign * amount))
    state, _ = cohorts.absorb_update(state, lie)
    assert bool(state.scores) is (place == 1 and sign > 0)
    assert state.answered


def test_the_best_possible_silhouettes_are_believed():
    """Two places, every row at its own: 36 silhouettes of 1, up to rounding."""
    spots = np.array([[0.0, 0.0], [1.0, 1.0]])
    rows = [np.repeat(spots, 6, axis=0) for _ in range(3)]
    state = finished(started(rows), rows)
    assert state.scores[0][2 * PER_CLUSTER :].tolist() == [36.0, 36.0]
    assert cohorts.result(state).k == 2


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    "said",
    [
        None,
        Cells(np.array([5]), np.zeros((1, 2)), np.zeros(1)),
        SecureHello(Cells(np.array([5]), np.zeros((1, 2)), np.zeros(1)), "short"),
        SecureHello(Cells(np.array([5]), np.zeros((1, 2)), np.zeros(1)), "zz" * 32),
        SecureHello(Cells(np.array([500]), np.zeros((1, 2)), np.zeros(1)), HEX),
        SecureHello(Cells(np.array([5]), np.zeros((1, 3)), np.zeros(1)), HEX),
    ],
)
def test_hellos_no_client_could_send_are_refused(said):
    state = started(tables(3))
    with pytest.raises(RejectedMessage):
        cohorts.absorb_hello(state, Hello(12, said, client=9))


def test_a_client_comes_back_as_itself_only():
    rows = tables(3)
    state = started(rows)
    back, found = cohorts.absorb_hello(state, greeting(0, rows[0]))
    assert found["repeated"]
    assert back == state
    other = greeting(0, rows[0])
    other = dataclasses.replace(
        other, payload=dataclasses.replace(other.payload, key="cd" * 32)
    )
    with pytest.raises(RejectedMessage, match="somebody else"):
        cohorts.absorb_hello(state, other)
    with pytest.raises(RejectedMessage, match="somebody else"):
        cohorts.absorb_hello(state, greeting(0, rows[0][:6]))


@pytest.mark.parametrize(
    "change",
    [
        {"cohort": 7},
        {"phase": SUM},
        {"phase": KEY},
        {"values": np.zeros(1, dtype=np.int64)},
        {"values": np.zeros(3)},
    ],
)
def test_parts_that_do_not_fit_are_refused(change):
    rows = tables(3)
    state = started(rows)
    update = part_of(state, 0, rows)
    part = dataclasses.replace(update.payload, **change)
    with pytest.raises(RejectedMessage):
        cohorts.absorb_update(state, dataclasses.replace(update, payload=part))
    with pytest.raises(RejectedMessage, match="masked part"):
        cohorts.absorb_update(state, dataclasses.replace(update, payload=None))
    with pytest.raises(RejectedMessage, match="hello"):
        cohorts.absorb_update(state, dataclasses.replace(update, client=9))


def test_a_part_counts_once_however_often_it_comes():
    rows = tables(3)
    state = started(rows)
    again = part_of(state, 0, rows)
    state = some_answer(state, rows, [0])
    state, found = cohorts.absorb_update(state, again)
    assert found == {"accepted": True, "cohort": 0, "phase": COUNT}
    state = finished(state, rows)
    same_sums(state.answered[0], np.concatenate(rows))


def test_a_client_of_another_cohort_is_refused():
    rows = tables(6)
    state = started(rows, dataclasses.replace(PARAMS, cohort=3))
    update = dataclasses.replace(part_of(state, 0, rows), client=5)
    with pytest.raises(RejectedMessage, match="another cohort"):
        cohorts.absorb_update(state, update)


def test_a_cohort_that_is_asked_nothing_is_not_at_work():
    rows = tables(6)
    state = started(rows, dataclasses.replace(PARAMS, cohort=3))
    last = part_of(state, 0, rows)
    state = at((SUM, 1), state, rows)
    state = some_answer(state, rows, [0, 1, 2])
    assert state.cohorts[0].phase == ""
    assert state.cohorts[0].owing == ()
    with pytest.raises(RejectedMessage, match="not at work"):
        cohorts.absorb_update(state, last)
    # Nobody minds who leaves while nothing is asked.
    state, _ = cohorts.absorb_left(state, Left(0))
    assert state.cohorts[0].moments is not None


# ------------------------------------------------------------------ joining seeds


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.integers(1, 12))
def test_seeds_are_joined_until_every_group_is_large_enough(counts, smallest):
    counts = np.array(counts, dtype=np.int64)
    if counts.sum() == 0:
        counts[0] = 1
    seeds = np.random.default_rng(0).random((counts.shape[0], 2))
    groups = join_seeds(counts, seeds, smallest)
    held = np.bincount(groups, weights=counts)
    assert set(groups) == set(range(held.shape[0]))
    assert held.min() >= min(smallest, counts.sum())


def test_joining_by_hand():
    """The lone row at 0 joins its neighbour; the empty seed at .9 joins the last."""
    seeds = np.array([[0.0], [0.2], [0.8], [0.9]])
    groups = join_seeds(np.array([1, 4, 6, 0]), seeds, 2)
    assert groups.tolist() == [0, 0, 1, 1]


# ------------------------------------------------------------------ a group of clients


def batch(given):
    return Batch(np.empty(0, dtype=np.int64), given)


def group_started(rows, params, first=10):
    """Return the server of a group of simulated clients that said hello together."""
    cells = concatenate([cells_to_show(X) for X in rows])
    sizes = np.array([X.shape[0] for X in rows])
    clients = np.arange(first, first + len(rows))
    state = SecureState(params, 0)
    state, found = cohorts.absorb_batch(state, Batch(clients, cells, sizes, 0, first))
    assert found["cells"].tolist() == cells.sizes.tolist()
    return cohorts.prepare(state)


def parts_of(state, rows, first=10, by=2):
    """Answer in parts of up to two members of a cohort each."""
    given = []
    for number, cohort in cohorts.broadcast(state).group.items():
        for start in range(0, len(cohort.owing), by):
            some = cohort.owing[start : start + by]
            values = [numbers_for(cohort.question, rows[c - first]) for c in some]
            given.append(Parts(number, some, np.sum(values, axis=0)))
    return given


def test_a_group_is_told_what_its_members_alone_are(seed):
    rows = tables(9, seed=seed)
    params = dataclasses.replace(PARAMS, cohort=4)
    state, alone = group_started(rows, params), started(rows, params)
    while not cohorts.done(alone):
        given = parts_of(state, rows)
        assert cohorts.broadcast(state).wanted == frozenset()
        phase = alone.cohorts[0].phase
        state, found = cohorts.absorb_batch(state, batch(given))
        assert found["cohort"].tolist() == [0] * 4 + [1] * 5
        assert found["phase"] == [phase] * 9
        state, alone = cohorts.prepare(state), everybody(alone, rows)
    assert cohorts.done(state)
    assert state.spoken == {client + 10 for client in alone.spoken}
    for number, cells in alone.answered.items():
        ours = state.answered[number]
        assert np.array_equal(ours.means, cells.means)
        assert np.array_equal(ours.scatters, cells.scatters)
        assert np.array_equal(state.scores[number], alone.scores[number])
    together, apart = cohorts.result(state), cohorts.result(alone)
    assert np.array_equal(together.sizes, apart.sizes)
    assert together.centers is not None
    assert apart.centers is not None
    assert np.array_equal(together.centers, apart.centers)


def test_of_a_group_too_who_leaves_stays_with_what_it_said():
    rows = tables(8)
    state = group_started(rows, FOURS)
    state, _ = cohorts.absorb_left(state, Left(10))
    while not cohorts.done(state):
        state, _ = cohorts.absorb_batch(state, batch(parts_of(state, rows)))
        state = cohorts.prepare(state)
    assert state.spoken == set(range(11, 18))
    assert rows_known(state) == 84
    assert cohorts.result(state).sizes.sum() == 96


# ------------------------------------------------------------------ with a key


class Shifted:
    """Stands in for encryption: the key is added to every number of every member."""

    keyed = True

    def check(self, phase, values, width, key):
        if phase == KEY:
            refuse_unless(values.shape == (1,), "no key")
        else:
            check_numbers(values, width)

    def add(self, parts, key):
        total = sum(parts)
        return None if (total == 0).all() else total


SECRET = 1000
#: What a cohort with a key is asked, one thing after the other.
PHASES = [(KEY, 1)] + [
    (phase, stage) for kind, stage in STAGES for phase in (kind, OPENING[kind])
]
EACH_PHASE = pytest.mark.parametrize(
    "phase", PHASES, ids=[f"{phase} {stage}" for phase, stage in PHASES]
)
OPENED = list(OPENING.values())


def keyed(rows, params=PARAMS):
    return greeted(SecureState(params, 0, scheme=Shifted()), rows)


def phase_of(state, number=0):
    cohort = state.cohorts[number]
    return cohort.phase, len(cohort.question.partitions)


def answer_of(state, client, rows):
    """What a client with the key of the stand-in answers."""
    task = asked(state)[client]
    if task.phase == KEY:
        values = np.array([SECRET])
    elif task.phase in OPENED:
        assert task.public is None
        values = task.total - len(task.members) * SECRET
    else:
        assert task.public.tolist() == [SECRET]
        assert task.total is None
        values = numbers_for(task.question, rows[client]) + SECRET
    return Update(Part(task.cohort, task.phase, values), state.version, client, 1)


def all_answer(state, rows):
    for client in sorted(asked(state)):
        state, _ = cohorts.absorb_update(state, answer_of(state, client, rows))
    return cohorts.prepare(state)


def in_phase(phase, state, rows):
    while phase_of(state) != phase:
        state = all_answer(state, rows)
    return state


def test_with_a_key_the_first_member_makes_it_and_opens_the_sums():
    rows = tables(4)
    state, questions, versions = keyed(rows), [], []
    while not cohorts.done(state):
        versions.append(state.version)
        questions.append((*phase_of(state), set(asked(state))))
        state = all_answer(state, rows)
    everyone = set(range(4))
    assert questions == [
        (phase, stage, {0} if phase == KEY or phase in OPENED else everyone)
        for phase, stage in PHASES
    ]
    assert versions == sorted(set(versions))
    plain = finished(started(rows), rows)
    assert np.array_equal(state.answered[0].means, plain.answered[0].means)
    assert np.array_equal(state.scores[0], plain.scores[0])
    assert cohorts.result(state).k == cohorts.result(plain).k == 3


@EACH_PHASE
@pytest.mark.parametrize("who", [0, -1])
@pytest.mark.parametrize("answered", [0, 2])
def test_with_a_key_who_leaves_never_makes_a_sum_wrong(phase, who, answered):
    rows = tables(7)
    state = in_phase(phase, keyed(rows, FOURS), rows)
    members = state.cohorts[0].members
    gone = members[who]
    if phase[0] in OPENING:
        for client in members[:answered]:
            state, _ = cohorts.absorb_update(state, answer_of(state, client, rows))
    state, _ = cohorts.absorb_left(state, Left(gone))
    # Who is not the holder has done all it is asked for once the sum is to be opened.
    needed_no_more = who == -1 and phase[0] in OPENED
    kept = 0 in state.cohorts and state.cohorts[0].members == members
    assert kept is needed_no_more
    state = cohorts.prepare(state)
    while not cohorts.done(state):
        assert gone not in asked(state)
        state = all_answer(state, rows)
    assert rows_known(state) == 12 * len(state.spoken)
    past = phase[1] != 1 or (needed_no_more and phase[0] == OPENING[SUM])
    assert (gone in state.spoken) is past
    mine = [rows[client] for client in members if past or client != gone]
    same_sums(state.answered[0], np.concatenate(mine))


def test_with_a_key_the_rest_of_a_cohort_has_a_new_holder():
    rows = tables(4)
    state = in_phase((SUM, 1), keyed(rows), rows)
    state, _ = cohorts.absorb_left(state, Left(0))
    assert phase_of(state) == (KEY, 1)
    assert set(asked(state)) == {1}


def test_with_a_key_who_is_elsewhere_breaks_nothing():
    rows = tables(6)
    state = keyed(rows, dataclasses.replace(PARAMS, cohort=3))
    after = cohorts.absorb_left(state, Left(5))[0]
    assert after.cohorts[0] is state.cohorts[0]
    assert 1 not in after.cohorts


def test_a_silent_holder_is_not_waited_for_for_ever():
    rows = tables(4)
    state = keyed(rows)
    for _ in range(cohorts.PATIENCE + 1):
        state = cohorts.end_round(state)
    assert state.silent == {0}
    assert set(asked(state)) == {1}
    while not cohorts.done(state):
        state = all_answer(state, rows)
    assert state.spoken == set(range(1, 4))


def test_only_the_holder_is_heard_while_the_holder_is_asked():
    rows = tables(4)
    state = keyed(rows)
    update = dataclasses.replace(answer_of(state, 0, rows), client=2)
    with pytest.raises(RejectedMessage, match="is not asked for key"):
        cohorts.absorb_update(state, update)
    late = answer_of(state, 0, rows)
    state = all_answer(state, rows)
    with pytest.raises(RejectedMessage, match="something else"):
        cohorts.absorb_update(state, late)


@EACH_STAGE
def test_with_a_key_parts_that_cannot_be_added_end_the_cohort(stage):
    rows = tables(3)
    state = in_phase(stage, keyed(rows), rows)
    for client in range(3):
        update = answer_of(state, client, rows)
        part = update.payload
        nothing = dataclasses.replace(part, values=np.zeros_like(part.values))
        update = dataclasses.replace(update, payload=nothing)
        state, _ = cohorts.absorb_update(state, update)
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    assert bool(state.answered) is (stage[1] != 1)
    assert not state.scores


@EACH_STAGE
def test_with_a_key_a_sum_that_cannot_be_true_ends_the_cohort(stage):
    kind, depth = stage
    rows = tables(3)
    state = in_phase((OPENING[kind], depth), keyed(rows), rows)
    update = answer_of(state, 0, rows)
    lie = dataclasses.replace(
        update.payload, values=np.full_like(update.payload.values, -1)
    )
    state, _ = cohorts.absorb_update(state, dataclasses.replace(update, payload=lie))
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    assert bool(state.answered) is (depth != 1)
    assert not state.scores
    assert cohorts.result(state).sizes.sum() == 36


# ------------------------------------------------------------------ late hellos


def told_late(*cells):
    """Return the bag after a cohort's sums and a late client's hello of these cells."""
    rows = tables(3)
    state = finished(started(rows), rows)
    counts, means, scatters = zip(*cells, strict=True)
    hello = Cells(np.array(counts), np.array(means), np.array(scatters))
    late = Hello(sum(counts), SecureHello(hello, HEX), client=3)
    state, _ = cohorts.absorb_hello(state, late)
    state = finished(cohorts.prepare(state), rows)
    assert state.inner is not None
    assert cohorts.result(state).sizes.sum() == pytest.approx(36 + sum(counts))
    return state.inner.bag()


def test_a_hello_that_mixes_what_sums_have_told_is_left_out():
    """In the middle of the three clusters, and so wide that it reaches them."""
    bag = told_late((6, (0.5, 0.4), 6 * 0.2))
    assert bag.counts.sum() == 36


def test_very_many_cells_are_condensed_before_they_are_compared(monkeypatch):
    monkeypatch.setattr(rebuild, "WORK", 1)
    bag = told_late((6, (0.5, 0.4), 6 * 0.001), (6, (0.5, 0.4), 6 * 0.3))
    assert bag.counts.sum() == 42


def test_a_hello_of_a_cluster_that_no_sum_knows_counts():
    bag = told_late((6, (0.5, 0.4), 6 * 0.001), (6, (0.5, 0.4), 6 * 0.3))
    assert bag.counts.sum() == 42


def test_a_task_says_whose_keys_they_are_if_all_members_say_so():
    state, rows = SecureState(PARAMS, 0), tables(4)
    for client, X in enumerate(rows):
        proof = Proof(f"site-{client}", "key", f"signature {client}")
        hello = greeting(client, X)
        said = dataclasses.replace(hello.payload, proof=proof)
        hello = dataclasses.replace(hello, payload=said)
        state, _ = cohorts.absorb_hello(state, hello)
    proofs = tuple(state.proofs[client] for client in range(4))
    state = cohorts.prepare(state)
    assert [task.proofs for task in asked(state).values()] == [proofs] * 4
    without = dataclasses.replace(state, proofs=state.proofs.set(2, None))
    assert [task.proofs for task in asked(without).values()] == [None] * 4

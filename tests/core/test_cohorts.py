# SPDX-License-Identifier: Apache-2.0
"""The server under `secure`: cohorts form, answer once, dissolve; no sum is wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.core import cohorts
from afcl.core.cells import cells_of
from afcl.core.cohort_state import SecureState
from afcl.core.cohort_sums import cells_from
from afcl.core.messages import Cells, Hello, Left, Update, refuse_unless
from afcl.core.params import DefaultParams
from afcl.core.tasks import (
    COUNT,
    KEY,
    OPEN_COUNT,
    OPEN_SUM,
    SUM,
    UNIT,
    Part,
    SecureHello,
    check_numbers,
)
from afcl.exceptions import RejectedMessage
from afcl.kernels import join_seeds
from afcl.privacy.masks import numbers_for

PARAMS = DefaultParams(cohort=3, min_cell=2, privacy="secure+grouped(5)")
HEX = "ab" * 32


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


def greeting(client, X):
    labels = np.arange(X.shape[0]) // 6
    cells = cells_of(X, labels, int(labels.max()) + 1)
    return Hello(X.shape[0], SecureHello(cells, HEX), client=client)


def started(rows, params=PARAMS):
    state = SecureState(params, 0)
    for client, X in enumerate(rows):
        state, _ = cohorts.absorb_hello(state, greeting(client, X))
    return cohorts.prepare(state)


def asked(state: SecureState) -> Any:
    """Everybody's task."""
    return cohorts.broadcast(state).personal


def part_of(state, client, rows):
    """What an unmasked client would answer; masks cancel, so sums are the same."""
    task = asked(state)[client]
    values = numbers_for(task, rows[client])
    return Update(Part(task.cohort, task.phase, values), state.version, client, 1)


def everybody(state, rows):
    for client in sorted(asked(state)):
        state, _ = cohorts.absorb_update(state, part_of(state, client, rows))
    return cohorts.prepare(state)


def test_cohorts_are_asked_twice_and_replace_the_hellos():
    rows = tables(4)
    state = started(rows)
    assert cohorts.broadcast(state).wanted == frozenset(asked(state)) == {0, 1, 2, 3}
    assert state.open[0].phase == COUNT
    state = everybody(state, rows)
    assert state.open[0].phase == SUM
    state = everybody(state, rows)
    assert cohorts.done(state)
    cells = state.answered[0]
    assert cells.counts.sum() == 48
    assert cells.counts.min() >= 2
    assert state.spoken == {0, 1, 2, 3}
    assert cohorts.result(state).k == 3
    assert cohorts.progress(state)["cohorts"] == 1


def test_nobody_is_asked_for_sums_twice():
    rows = tables(13)
    state = started(rows)
    summing = []
    while not cohorts.done(state):
        summing += [c for c, task in asked(state).items() if task.phase == SUM]
        state = everybody(state, rows)
    assert sorted(summing) == list(range(13))
    assert sum(cells.counts.sum() for cells in state.answered.values()) == 13 * 12


def test_few_cohorts_work_at_a_time_and_more_as_they_answer():
    rows = tables(48, rows=6)
    state = started(rows)
    most = []
    while not cohorts.done(state):
        most.append(len(state.open))
        assert len(state.open) <= max(1, len(state.answered) // cohorts.WAVE)
        state = everybody(state, rows)
    assert most[0] == 1
    assert max(most) > 1
    assert len(state.answered) == 16


def test_fewer_than_a_cohort_stay_with_their_hellos():
    rows = tables(2)
    state = started(rows)
    assert cohorts.done(state)
    assert cohorts.result(state).sizes.sum() == 24


def test_a_late_client_counts_by_its_hello_until_there_is_a_cohort():
    rows = tables(6)
    state = everybody(everybody(started(rows[:3]), rows), rows)
    assert cohorts.done(state)
    state, _ = cohorts.absorb_hello(state, greeting(3, rows[3]))
    assert not cohorts.done(state)
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    assert cohorts.result(state).sizes.sum() == 48
    for client in (4, 5):
        state, _ = cohorts.absorb_hello(state, greeting(client, rows[client]))
    state = cohorts.prepare(state)
    assert set(asked(state)) == {3, 4, 5}


@pytest.mark.parametrize("phase", [COUNT, SUM])
@pytest.mark.parametrize("answered", [0, 1, 2, 3])
def test_a_member_that_leaves_dissolves_its_cohort_and_no_sum_is_wrong(phase, answered):
    rows = tables(7)
    state = started(rows, dataclasses.replace(PARAMS, cohort=4))
    if phase == SUM:
        state = everybody(state, rows)
    members = state.open[0].members
    for client in members[:answered]:
        state, _ = cohorts.absorb_update(state, part_of(state, client, rows))
    state, _ = cohorts.absorb_left(state, Left(members[-1]))
    state = cohorts.prepare(state)
    assert 0 not in state.open or members[-1] not in asked(state)
    while not cohorts.done(state):
        state = everybody(state, rows)
    for cells in state.answered.values():
        assert cells.means.min() > 0
        assert cells.means.max() < 1
    total = sum(int(cells.counts.sum()) for cells in state.answered.values())
    assert total == sum(12 for client in state.spoken)
    assert members[-1] not in state.spoken


def test_a_member_that_left_between_the_phases_dissolves_the_cohort_too():
    rows = tables(3)
    state = started(rows)
    state, _ = cohorts.absorb_update(state, part_of(state, 0, rows))
    state, _ = cohorts.absorb_left(state, Left(0))
    assert 0 in state.open
    for client in (1, 2):
        state, _ = cohorts.absorb_update(state, part_of(state, client, rows))
    state = cohorts.prepare(state)
    assert not state.open
    assert set(state.waiting) == {0, 1, 2}
    state, _ = cohorts.absorb_hello(state, greeting(0, rows[0]))
    state = cohorts.prepare(dataclasses.replace(state, dirty=True))
    assert set(asked(state)) == {0, 1, 2}


def test_who_is_silent_is_not_waited_for_for_ever():
    rows = tables(7)
    state = started(rows, dataclasses.replace(PARAMS, cohort=4))
    members = state.open[0].members
    for client in members[1:]:
        state, _ = cohorts.absorb_update(state, part_of(state, client, rows))
    for _ in range(cohorts.PATIENCE):
        state = cohorts.end_round(state)
        assert 0 in state.open
    state = cohorts.end_round(state)
    assert state.silent == {members[0]}
    while not cohorts.done(state):
        assert members[0] not in asked(state)
        state = everybody(state, rows)
    assert members[0] not in state.spoken
    assert cohorts.result(state).sizes.sum() == 7 * 12
    assert cohorts.end_round(state) is state
    state, _ = cohorts.absorb_hello(state, greeting(members[0], rows[members[0]]))
    assert not state.silent


def test_a_late_part_of_a_dissolved_cohort_is_refused():
    rows = tables(4)
    state = started(rows)
    late = part_of(state, 3, rows)
    state, _ = cohorts.absorb_left(state, Left(0))
    state = cohorts.prepare(state)
    with pytest.raises(RejectedMessage, match="not at work"):
        cohorts.absorb_update(state, late)


@pytest.mark.parametrize("change", [1, -100, 10**12])
def test_a_spoilt_sum_ends_the_cohort_and_its_members_keep_their_hellos(change):
    rows = tables(3)
    for spoilt in (COUNT, SUM):
        state = started(rows)
        if spoilt == SUM:
            state = everybody(state, rows)
        for client in range(3):
            update = part_of(state, client, rows)
            if client == 1:
                values = update.payload.values.copy()
                values[0] += change
                part = dataclasses.replace(update.payload, values=values)
                update = dataclasses.replace(update, payload=part)
            state, _ = cohorts.absorb_update(state, update)
        state = cohorts.prepare(state)
        assert cohorts.done(state)
        assert not state.answered
        assert cohorts.result(state).sizes.sum() == 36


def test_hellos_and_sums_outside_the_box_are_refused():
    rows = tables(3)
    state = cohorts.agreed(SecureState(PARAMS, 0), 2, True)
    for client, X in enumerate(rows):
        state, _ = cohorts.absorb_hello(state, greeting(client, X))
    far = greeting(7, rows[0] + 5)
    with pytest.raises(RejectedMessage, match="outside the agreed box"):
        cohorts.absorb_hello(state, far)
    state = everybody(cohorts.prepare(state), rows)
    groups = state.open[0].n_groups
    for client in range(3):
        update = part_of(state, client, rows)
        values = update.payload.values.copy()
        if client == 0:  # the first group's sum and its sum of squares
            values[[groups, groups + 2]] += np.array([1e3 / UNIT, 1e6 / UNIT], int)
        part = dataclasses.replace(update.payload, values=values)
        update = dataclasses.replace(update, payload=part)
        state, _ = cohorts.absorb_update(state, update)
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    assert not state.answered


def test_scatters_below_nothing_are_no_cells():
    counts = np.array([4])
    honest = np.array([4, *np.rint(np.array([2.0, 1.0]) / UNIT)]).astype(np.int64)
    assert cells_from(honest, counts, 1) is not None
    lie = honest.copy()
    lie[2] = round(0.9 / UNIT)
    assert cells_from(lie, counts, 1) is None


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


@pytest.mark.parametrize(
    "change",
    [
        {"cohort": 7},
        {"phase": SUM},
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


def test_a_client_of_another_cohort_is_refused():
    rows = tables(6)
    state = started(rows)
    update = dataclasses.replace(part_of(state, 0, rows), client=5)
    with pytest.raises(RejectedMessage, match="another cohort"):
        cohorts.absorb_update(state, update)


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


def test_nothing_to_do_before_the_first_hello_and_when_nothing_is_new():
    empty = SecureState(PARAMS, 0)
    assert cohorts.prepare(empty) is empty
    assert not cohorts.done(empty)
    state = started(tables(3))
    assert cohorts.prepare(state) is state


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


def keyed(rows, params=PARAMS):
    state = SecureState(params, 0, scheme=Shifted())
    for client, X in enumerate(rows):
        state, _ = cohorts.absorb_hello(state, greeting(client, X))
    return cohorts.prepare(state)


def answer_of(state, client, rows):
    """What a client with the key of the stand-in answers."""
    task = asked(state)[client]
    if task.phase == KEY:
        values = np.array([SECRET])
    elif task.phase in (OPEN_COUNT, OPEN_SUM):
        assert task.public is None
        values = task.total - len(task.members) * SECRET
    else:
        assert task.public.tolist() == [SECRET]
        assert task.total is None
        values = numbers_for(task, rows[client]) + SECRET
    return Update(Part(task.cohort, task.phase, values), state.version, client, 1)


def all_answer(state, rows):
    for client in sorted(asked(state)):
        state, _ = cohorts.absorb_update(state, answer_of(state, client, rows))
    return cohorts.prepare(state)


def test_with_a_key_the_first_member_makes_it_and_opens_the_sums():
    rows = tables(4)
    state, questions, versions = keyed(rows), [], []
    while not cohorts.done(state):
        versions.append(state.version)
        questions.append((state.open[0].phase, set(asked(state))))
        state = all_answer(state, rows)
    everyone = set(range(4))
    assert questions == [
        (KEY, {0}),
        (COUNT, everyone),
        (OPEN_COUNT, {0}),
        (SUM, everyone),
        (OPEN_SUM, {0}),
    ]
    assert versions == sorted(set(versions))
    plain = everybody(everybody(started(rows), rows), rows)
    assert np.array_equal(state.answered[0].means, plain.answered[0].means)
    assert cohorts.result(state).k == cohorts.result(plain).k == 3


@pytest.mark.parametrize("phase", [KEY, COUNT, OPEN_COUNT, SUM, OPEN_SUM])
@pytest.mark.parametrize("who", [0, -1])
@pytest.mark.parametrize("answered", [0, 2])
def test_with_a_key_who_leaves_never_makes_a_sum_wrong(phase, who, answered):
    rows = tables(7)
    state = keyed(rows, dataclasses.replace(PARAMS, cohort=4))
    while state.open[0].phase != phase:
        state = all_answer(state, rows)
    members = state.open[0].members
    if phase in (COUNT, SUM):
        for client in members[:answered]:
            state, _ = cohorts.absorb_update(state, answer_of(state, client, rows))
    state, _ = cohorts.absorb_left(state, Left(members[who]))
    # Who is not the holder has done all it is asked for once the sum is to be opened.
    needed_no_more = who == -1 and phase in (OPEN_COUNT, OPEN_SUM)
    assert (0 in state.open) is needed_no_more
    state = cohorts.prepare(state)
    while not cohorts.done(state):
        assert members[who] not in asked(state)
        state = all_answer(state, rows)
    total = sum(int(cells.counts.sum()) for cells in state.answered.values())
    assert total == 12 * len(state.spoken)
    assert (members[who] in state.spoken) is (who == -1 and phase == OPEN_SUM)
    assert cohorts.result(state).sizes.sum() == 7 * 12


def test_with_a_key_who_is_elsewhere_breaks_nothing():
    rows = tables(6)
    state = keyed(rows)
    assert cohorts.absorb_left(state, Left(5))[0].open == state.open


def test_a_silent_holder_is_not_waited_for_for_ever():
    rows = tables(7)
    state = keyed(rows, dataclasses.replace(PARAMS, cohort=4))
    for _ in range(cohorts.PATIENCE + 1):
        state = cohorts.end_round(state)
    assert state.silent == {0}
    assert set(asked(state)) == {1}
    while not cohorts.done(state):
        state = all_answer(state, rows)
    assert state.spoken == set(range(1, 7))


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


@pytest.mark.parametrize("phase", [COUNT, SUM])
def test_with_a_key_parts_that_cannot_be_added_end_the_cohort(phase):
    rows = tables(3)
    state = keyed(rows)
    while state.open[0].phase != phase:
        state = all_answer(state, rows)
    for client in range(3):
        update = answer_of(state, client, rows)
        part = update.payload
        nothing = dataclasses.replace(part, values=np.zeros_like(part.values))
        update = dataclasses.replace(update, payload=nothing)
        state, _ = cohorts.absorb_update(state, update)
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    assert not state.answered


@pytest.mark.parametrize("phase", [OPEN_COUNT, OPEN_SUM])
def test_with_a_key_a_sum_that_cannot_be_true_ends_the_cohort(phase):
    rows = tables(3)
    state = keyed(rows)
    while state.open[0].phase != phase:
        state = all_answer(state, rows)
    update = answer_of(state, 0, rows)
    nothing = dataclasses.replace(
        update.payload, values=np.full_like(update.payload.values, -1)
    )
    state, _ = cohorts.absorb_update(
        state, dataclasses.replace(update, payload=nothing)
    )
    state = cohorts.prepare(state)
    assert cohorts.done(state)
    assert not state.answered
    assert cohorts.result(state).sizes.sum() == 36

# SPDX-License-Identifier: Apache-2.0
"""Pairwise masks: they cancel in the whole sum and nowhere else."""

from __future__ import annotations

import builtins
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.core import cohorts
from afcl.core.cells import cells_of
from afcl.core.cohort_answers import numbers_for
from afcl.core.messages import Addressed, Cells, Left, Level
from afcl.core.params import DefaultParams
from afcl.core.refine import moments_from, without_few
from afcl.core.tasks import (
    COUNT,
    OPENING,
    PRESENCE,
    SCORE,
    SUM,
    UNIT,
    Evidence,
    Question,
    SeedPartition,
    Task,
)
from afcl.exceptions import InputError, RejectedMessage
from afcl.kernels import assign
from afcl.methods import get_method
from afcl.privacy.masks import Asked, Sealed, answer, digest, mask, public_key
from afcl.privacy.protection import protection

PARAMS = DefaultParams(privacy="secure+summary")
GROUPS = np.array([0, 0, 1, 1, 2, 2])


def secrets(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.bytes(32) for _ in range(n)]


def added(parts):
    total = np.zeros(parts[0].shape, dtype=np.uint64)
    for part in parts:
        total += part.view(np.uint64)
    return total.view(np.int64)


def cohort(n=4, rows=30, d=2, seed=0):
    """Members with rows, and the task each of them gets."""
    rng = np.random.default_rng(seed)
    keys = secrets(n, seed)
    public = tuple(public_key(secret) for secret in keys)
    members = [
        Sealed(X, X, secret, key)
        for X, secret, key in zip(rng.random((n, rows, d)), keys, public, strict=True)
    ]

    def task(place, question, number=0):
        who = tuple(range(n))
        return Task(number, question.kind, who, public, place, question)

    return members, task


def all_answer(members, task, question, memories=None, number=0):
    """Let everybody answer a question, after one about who holds the rows of sums.

    Returns parts and memories.
    """
    memories = memories or [None] * len(members)
    tasks = [task(i, question, number) for i in range(len(members))]
    if question.kind == SUM and not members[0].plain:
        coarser = question.partitions[:-1]
        if coarser and memories[1] is None:
            before = Question(SUM, coarser)
            _, memories = all_answer(members, task, before, memories, number)
        about = Question(PRESENCE, question.partitions)
        shown, memories = all_answer(members, task, about, memories, number)
        tasks = with_evidence(tasks, shown, memories[1].opened)
    both = [
        answer(each, member, memory, PARAMS)
        for each, member, memory in zip(tasks, members, memories, strict=True)
    ]
    return [part for part, _ in both], [memory for _, memory in both]


def with_evidence(tasks, shown, before=None):
    """Return tasks of sums that show who holds the groups.

    `before` says which of the coarsest groups were opened, if these are finer ones.
    """
    parts = np.stack([part.values for part in shown])
    enough = PARAMS.threshold.opened(added(list(parts)))
    tags = np.stack([part.tags for part in shown])
    *coarser, last = tasks[0].question.partitions
    bits, nested = enough.astype(np.int64), (last,)
    if coarser:
        bits, nested = before, (*coarser, without_few(last, enough, before))
    about = Question(SUM, nested, opened=bits)
    return [
        dataclasses.replace(
            each, question=about, evidence=Evidence(last.groups, parts, tags[:, place])
        )
        for place, each in enumerate(tasks)
    ]


def first_answers(members, task, question, memory=None, number=0):
    """Let the first member answer, which has answered something before."""
    memories = [memory] + [None] * (len(members) - 1)
    parts, memories = all_answer(members, task, question, memories, number)
    return parts[0], memories[0]


def coarse(groups=GROUPS, d=2, seed=9):
    """Six seeds, joined to groups."""
    seeds = np.random.default_rng(seed).random((6, d))
    return SeedPartition(seeds, np.zeros(6, dtype=np.int64), groups)


def finer(d=2):
    """Two seeds inside each of three groups, on their own."""
    return SeedPartition(coarse(d=d).seeds, GROUPS, np.arange(6))


def level(k=3, d=2, revision=0):
    centers = np.random.default_rng(k).random((k, d))
    return Level(centers, np.full(k, 0.1), np.full(k, 40.0), revision)


def questions(d=2):
    """One of each kind, and of each depth."""
    return (
        Question(COUNT, (coarse(np.arange(6), d),)),
        Question(SUM, (coarse(d=d),)),
        Question(COUNT, (coarse(d=d), finer(d))),
        Question(SUM, (coarse(d=d), finer(d))),
        Question(SCORE, levels=(level(3, d), level(4, d))),
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(3, 7), st.integers(1, 40), st.integers(0, 2**32))
def test_masks_cancel_in_the_whole_sum_only(n, width, seed):
    keys = secrets(n, seed)
    public = [public_key(secret) for secret in keys]
    masks = [mask(keys[i], i, public, "purpose", width) for i in range(n)]
    assert not added(masks).any()
    for left_out in range(n):
        rest = [m for i, m in enumerate(masks) if i != left_out]
        assert added(rest).any()


def test_a_mask_looks_uniform_and_belongs_to_its_purpose():
    keys = secrets(3)
    public = [public_key(secret) for secret in keys]
    one = mask(keys[0], 0, public, "one", 4096)
    two = mask(keys[0], 0, public, "two", 4096)
    assert not np.any(one == two)
    bits = np.unpackbits(one.view(np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / bits.size**0.5
    assert np.array_equal(one, mask(keys[0], 0, public, "one", 4096))


def test_the_sum_of_parts_is_the_sum_of_plain_numbers_bit_for_bit():
    members, task = cohort(rows=300)
    for question in questions():
        parts = [each.values for each in all_answer(members, task, question)[0]]
        plain = [numbers_for(question, m.rows) for m in members]
        assert np.array_equal(added(parts), sum(plain))
        for part, own in zip(parts, plain, strict=True):
            assert part.shape == (question.width,)
            assert not np.any(part == own)


def test_plain_parts_add_up_to_what_masked_ones_do():
    members, task = cohort(rows=300)
    for question in questions():
        sums = []
        for plain in (False, True):
            sealed = [dataclasses.replace(m, plain=plain) for m in members]
            parts, memories = all_answer(sealed, task, question)
            sums.append(added([part.values for part in parts]))
            assert all(memory.tasks for memory in memories)
        assert np.array_equal(*sums)


def _cells(question, numbers):
    found = moments_from(question, numbers)
    assert found is not None
    return found.cells


@pytest.mark.parametrize("d", [1, 3, 25])
def test_a_cohorts_cells_are_those_of_its_pooled_rows(d):
    members, _ = cohort(n=5, rows=40, d=d, seed=1)
    rows = np.concatenate([m.rows for m in members])
    outer, inner = coarse(d=d), finer(d)
    groups = GROUPS[assign(rows, outer.seeds)[0]]
    far = np.where(inner.parents == groups[:, None], 0.0, np.inf)
    squares = ((rows[:, None] - inner.seeds) ** 2).sum(axis=2) + far
    for nested, labels in (
        ((outer,), groups),
        ((outer, inner), squares.argmin(axis=1)),
    ):
        question = Question(SUM, nested)
        total = np.sum([numbers_for(question, m.rows) for m in members], axis=0)
        held = np.unique(labels)
        full = total.reshape(nested[-1].n_groups, -1)
        assert np.array_equal(full[:, 0], np.bincount(labels, minlength=len(full)))
        if len(held) < len(full):
            assert not full[np.setdiff1d(np.arange(len(full)), held)].any()
            continue
        wanted = cells_of(rows, labels, len(held))
        found = _cells(question, total)
        assert np.abs(found.means - wanted.means).max() < 1e-4
        assert np.abs(found.scatters - wanted.scatters).max() < 1e-3
        assert np.array_equal(found.counts, wanted.counts)


def test_cells_count_like_the_rows_they_stand_for():
    X = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 1.0]])
    bag = Cells(np.array([3, 1, 2]), X, np.array([0.25, 0.0, 0.5]))
    none = np.zeros(1, dtype=np.int64)
    one = SeedPartition(np.zeros((1, 2)), none, none)
    counts, x, y, xx, yy = numbers_for(Question(SUM, (one,)), bag)
    assert counts == 6
    assert (x * UNIT, y * UNIT) == (2.5, 2.0)
    # A cell spreads alike in both directions.
    assert (xx * UNIT, yy * UNIT) == (2.25 + 0.375, 2.0 + 0.375)
    *first, squares = numbers_for(Question(SUM, (one, one)), bag)
    assert first == [counts, x, y]
    assert squares * UNIT == 4.25 + 0.75


class Streamed:
    """Rows that are read in three parts, every time."""

    def __init__(self, table):
        self._table = table
        self.shape = table.shape

    def map(self, work):
        return map(work, np.array_split(self._table, 3))

    def take(self, index):
        return self._table[index]

    def table(self):
        return self._table


def test_streamed_rows_give_the_numbers_of_the_table():
    """Whole numbers to the last; sums but for one unit of rounding."""
    members, task = cohort(rows=50)
    X = members[0].rows
    for question in questions():
        one, two = (numbers_for(question, rows) for rows in (X, Streamed(X)))
        assert np.abs(one - two).max() <= 1
        counted = question.units == 1.0
        assert np.array_equal(one[counted], two[counted])
    views = [protection(PARAMS).view(rows, _own()) for rows in (X, Streamed(X))]
    assert views[0].public == views[1].public
    for question in questions():
        if question.kind == SUM:
            continue  # who holds the rows is said in the same way
        keys = (views[0].public, *task(0, question).keys[1:])
        asked = dataclasses.replace(task(0, question), keys=keys)
        said = [
            protection(PARAMS).step(Addressed(None, asked), view, None)[0].payload
            for view in views
        ]
        gap = said[0].values.view(np.uint64) - said[1].values.view(np.uint64)
        assert np.abs(gap.view(np.int64)).max() <= 1


def _own():
    return np.random.default_rng(3)


def test_sums_that_do_not_fit_are_refused():
    members, task = cohort()
    far = dataclasses.replace(members[0], rows=members[0].rows + 1e12)
    with pytest.raises(InputError, match="common scale"):
        first_answers([far, *members[1:]], task, questions()[1])


# ------------------------------------------------------------------ what is refused


def test_a_client_answers_the_same_task_again_and_no_eighth():
    members, task = cohort()
    count = questions()[0]
    first, memory = answer(task(0, count), members[0], None, PARAMS)
    for number in range(1, PARAMS.passes + 1):
        _, memory = answer(task(0, count, number), members[0], memory, PARAMS)
    assert len(memory.tasks) == 7
    again, same = answer(task(0, count), members[0], memory, PARAMS)
    assert np.array_equal(again.values, first.values)
    assert same == memory
    for question in questions():
        with pytest.raises(RejectedMessage, match="too many"):
            first_answers(members, task, question, memory, 99)
    more = dataclasses.replace(PARAMS, passes=7)
    assert answer(task(0, count, 99), members[0], memory, more)
    assert isinstance(memory, Asked)


def test_all_questions_of_a_run_may_be_asked_in_their_order():
    members, task = cohort()
    memory = None
    for question in questions():
        _, memory = first_answers(members, task, question, memory)
    assert memory is not None
    assert len(memory.tasks) == 5
    assert len(memory.present) == 2


def test_who_holds_rows_is_said_twice_and_once_anew():
    members, task = cohort()
    about, memory = Question(PRESENCE, (coarse(),)), None
    for number in (0, 0, 1, 2):
        _, memory = answer(task(0, about, number), members[0], memory, PARAMS)
    with pytest.raises(RejectedMessage, match="too many"):
        answer(task(0, about, 3), members[0], memory, PARAMS)
    assert memory is not None
    assert len(memory.present) == 3
    assert memory.tasks == ()


@pytest.mark.parametrize(
    ("given", "then"),
    [
        ((coarse(),), (coarse(seed=8),)),
        ((coarse(),), (coarse(np.array([0, 0, 0, 1, 1, 2])),)),
        ((coarse(),), (coarse(seed=8), finer())),
        ((coarse(), finer()), (coarse(seed=8),)),
        (
            (coarse(), finer()),
            (coarse(), dataclasses.replace(finer(), groups=GROUPS)),
        ),
    ],
)
@pytest.mark.parametrize("kind", [COUNT, SUM])
def test_sums_that_are_not_nested_are_refused(given, then, kind):
    """The difference of two sums must be a sum of groups that were released."""
    members, task = cohort()
    _, memory = first_answers(members, task, Question(SUM, given))
    with pytest.raises(RejectedMessage, match="do not lie inside"):
        first_answers(members, task, Question(kind, then), memory)


def test_sums_that_were_read_are_not_asked_anew():
    """Who asks about finer groups has read the coarser ones: no other start then."""
    members, task = cohort()
    count, summed, counted, *_ = questions()
    memory = None
    for question in (count, summed, counted):
        _, memory = first_answers(members, task, question, memory)
    with pytest.raises(RejectedMessage, match="do not lie inside"):
        answer(task(0, count, 1), members[0], memory, PARAMS)


def test_sums_that_were_never_read_may_be_asked_anew_of_fewer():
    """A member is lost before the first sum is complete: the others start again."""
    state = get_method("afcl").init((), PARAMS, 0)
    protected, views, memories = protection(PARAMS), [], [None] * 5
    for client in range(5):
        rng = np.random.default_rng(client)
        views.append(protected.view(rng.random((40, 2)), rng))
        hello = protected.hello(views[-1], rng)
        state, _ = cohorts.absorb_hello(
            state, dataclasses.replace(hello, client=client)
        )
    state, phases = cohorts.prepare(state), []
    while not cohorts.done(state):
        for client, task in dict(cohorts.broadcast(state).personal or {}).items():
            phases.append((task.phase, len(task.members)))
            if client == 4 and task.phase == SUM:
                state, _ = cohorts.absorb_left(state, Left(4))
                break
            said, memories[client] = protected.step(
                Addressed(None, task), views[client], memories[client]
            )
            state, _ = cohorts.absorb_update(
                state, dataclasses.replace(said, client=client)
            )
        state = cohorts.prepare(state)
    assert phases[:5] == [(COUNT, 5)] * 5
    assert phases[15::4] == [(kind, 4) for kind in 2 * (COUNT, PRESENCE, SUM)]
    assert state.spoken == {0, 1, 2, 3}


def test_the_digest_tells_tasks_apart():
    _, task = cohort()
    told = task(0, questions()[3])
    outer, inner = told.question.partitions
    moved = dataclasses.replace(inner, seeds=inner.seeds + 1e-9)
    joined = dataclasses.replace(inner, groups=np.array([0, 0, 1, 2, 3, 4]))
    elsewhere = dataclasses.replace(inner, parents=np.array([0, 0, 0, 1, 2, 2]))
    others = [
        dataclasses.replace(told, cohort=1),
        dataclasses.replace(told, members=(0, 1, 2, 4)),
        dataclasses.replace(told, keys=told.keys[::-1]),
        dataclasses.replace(told, phase=OPENING[SUM]),
        *(
            dataclasses.replace(told, question=question)
            for question in (
                *questions()[:3],
                Question(PRESENCE, (outer, inner)),
                Question(SUM, (outer, inner), opened=np.ones(6, dtype=np.int64)),
                Question(SUM, (outer, inner), opened=np.zeros(6, dtype=np.int64)),
                Question(SUM, (outer, moved)),
                Question(SUM, (outer, joined)),
                Question(SUM, (outer, elsewhere)),
                Question(SCORE, levels=(level(3),)),
                Question(SCORE, levels=(level(4),)),
                Question(SCORE, levels=(level(3), level(4))),
                Question(
                    SCORE, levels=(dataclasses.replace(level(3), spreads=np.ones(3)),)
                ),
            )
        ),
    ]
    names = [digest(each) for each in (told, *others)]
    assert len(set(names)) == len(names)
    assert digest(task(2, told.question)) == names[0]


def test_two_tasks_of_one_cohort_never_share_a_mask():
    """Otherwise the difference of two answers would be in the clear."""
    members, task = cohort()
    count, summed, *_, score = questions()
    moved = dataclasses.replace(coarse(), seeds=coarse().seeds + 0.1)
    every = (
        count,
        Question(COUNT, (moved,)),
        # The same partition, counted and summed.
        Question(PRESENCE, count.partitions),
        Question(SUM, count.partitions),
        summed,
        score,
    )
    said = [
        first_answers(members, task, each)[0].values.view(np.uint64) for each in every
    ]
    for i, one in enumerate(said):
        for two in said[:i]:
            n = min(one.size, two.size)
            gaps = (one[:n] - two[:n]).view(np.int64)
            assert np.all(np.abs(gaps) > 2**30)


@pytest.mark.parametrize(
    "change",
    [
        {"members": (0, 1), "keys": 2},
        {"place": 4},
        {"place": -1},
        {"place": 1},
        {"phase": SUM},
        {"phase": "more"},
    ],
)
def test_tasks_of_a_lying_server_are_refused(change):
    members, task = cohort()
    told = task(0, questions()[0])
    if "keys" in change:
        change = {**change, "keys": told.keys[: change["keys"]]}
    with pytest.raises(RejectedMessage):
        answer(dataclasses.replace(told, **change), members[0], None, PARAMS)


# ------------------------------------------------------- who holds what is summed


FEW = DefaultParams(privacy="secure+summary", min_cell=5)


def held_by(*counts, d=2):
    """Members whose rows lie around three places, so many at each; and their tasks.

    The first of the three groups is around 0, the others are far from it.
    """
    rng = np.random.default_rng(5)
    members, task = cohort(len(counts))
    places = np.array([[0.1] * d, [0.5] * d, [0.9] * d])
    rows = [
        np.repeat(places, own, axis=0) + 0.01 * rng.random((sum(own), d))
        for own in counts
    ]
    sealed = [
        dataclasses.replace(m, rows=X, shown=X)
        for m, X in zip(members, rows, strict=True)
    ]
    none = np.zeros(3, dtype=np.int64)
    return sealed, task, SeedPartition(places, none, np.arange(3))


def presence(members, task, partition):
    return all_answer(members, task, Question(PRESENCE, (partition,)))


def test_presence_is_counted_and_nobody_counts_for_many():
    """Five rows need three members, as each counts for two rows at most."""
    members, task, groups = held_by((2000, 1, 0), (1, 1, 3), (0, 3, 0))
    parts, _ = presence(members, task, groups)
    total = added([part.values for part in parts])
    assert (total % 2**16).tolist() == [2, 3, 1]
    assert (total // 2**16).tolist() == [3, 4, 2]
    assert not FEW.threshold.opened(total).any()
    assert PARAMS.threshold.cap == 2
    members, task, groups = held_by((2, 5, 1), (2, 0, 1), (1, 0, 3))
    total = added([part.values for part in presence(members, task, groups)[0]])
    assert FEW.threshold.opened(total).tolist() == [True, False, False]


def test_a_group_that_few_hold_is_summed_without_who_holds_a_few_rows():
    """A cluster at one site stays to be found; a single row is never in the sum."""
    members, task, groups = held_by((40, 6, 2), (1, 6, 2), (0, 0, 1))
    parts, _ = all_answer(members, task, Question(SUM, (groups,)))
    table = added([part.values for part in parts]).reshape(3, -1)
    assert table[:, 0].tolist() == [40, 12, 5]


def lies(kind, tasks, shown):
    """Return the first member's task as a lying server has it."""
    told = tasks[0]
    parts, tags = told.evidence.parts.copy(), told.evidence.tags.copy()
    if kind == "opened":
        bits = np.ones(3, dtype=np.int64)
        return dataclasses.replace(
            told, question=dataclasses.replace(told.question, opened=bits)
        )
    if kind == "changed":
        parts[1, 0] += 2 + 2 * 2**16
    elif kind == "own changed":
        parts[0, 0] += 2 + 2 * 2**16
    elif kind == "tag of another":
        parts[1] += 1
        tags[1] = shown[1].tags[2]
    elif kind == "swapped":
        parts[[1, 2]], tags[[1, 2]] = parts[[2, 1]], tags[[2, 1]]
    elif kind == "narrow":
        parts = parts[:, :2]
    elif kind == "short":
        tags = tags[:2]
    evidence = Evidence(told.evidence.groups, parts, tags)
    changed = dataclasses.replace(told, evidence=evidence)
    if kind == "none":
        return dataclasses.replace(changed, evidence=None)
    if kind == "bits missing":
        question = dataclasses.replace(told.question, opened=None)
        return dataclasses.replace(changed, question=question)
    return changed


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("none", "shown to be held"),
        ("bits missing", "shown to be held"),
        ("opened", "fewer than 3 members"),
        ("changed", "changed on the way"),
        ("own changed", "changed on the way"),
        ("tag of another", "changed on the way"),
        ("swapped", "changed on the way"),
        ("narrow", "whole numbers"),
        ("short", "whole numbers"),
    ],
)
def test_a_server_cannot_make_up_who_holds_a_group(kind, text):
    members, task, groups = held_by((40, 6, 2), (1, 6, 2), (0, 0, 1))
    shown, memories = presence(members, task, groups)
    question = Question(SUM, (groups,))
    tasks = with_evidence([task(i, question) for i in range(3)], shown)
    with pytest.raises(RejectedMessage, match=text):
        answer(lies(kind, tasks, shown), members[0], memories[0], PARAMS)
    assert answer(tasks[0], members[0], memories[0], PARAMS)


def finer_sums(bits, groups=(0, 1, 2, 3)):
    """Three members' answers on two groups of two parts each, and tasks of sums.

    Enough members hold the first and the third part; the sums are of these `groups`.
    """
    counts = ((9, 3, 9, 0), (9, 0, 9, 0), (9, 0, 9, 9))
    places = np.array([[0.1], [0.3], [0.7], [0.9]])
    first = SeedPartition(
        np.array([[0.2], [0.8]]), np.zeros(2, dtype=np.int64), np.arange(2)
    )
    inner = SeedPartition(places, np.array([0, 0, 1, 1]), np.arange(4))
    members, task = cohort(3, d=1)
    members = [
        dataclasses.replace(m, rows=np.repeat(places, own, axis=0))
        for m, own in zip(members, counts, strict=True)
    ]
    _, memories = all_answer(members, task, Question(SUM, (first,)))
    about = Question(PRESENCE, (first, inner))
    shown, memories = all_answer(members, task, about, memories)
    parts = np.stack([part.values for part in shown])
    tags = np.stack([part.tags for part in shown])
    last = dataclasses.replace(inner, groups=np.array(groups))
    question = Question(SUM, (first, last), opened=np.array(bits))
    asked = dataclasses.replace(
        task(0, question), evidence=Evidence(inner.groups, parts, tags[:, 0])
    )
    return asked, members[0], memories[0]


@pytest.mark.parametrize(
    ("bits", "groups", "allowed"),
    [
        ((1, 1), (0, 0, 1, 1), True),  # what few hold is joined to the other part
        ((1, 1), (0, 1, 2, 2), False),  # one member alone holds the second part
        ((1, 1), (0, 1, 2, 3), False),
        ((0, 1), (0, 0, 1, 1), False),  # the first group was open before
        ((1, 0), (0, 0, 1, 1), False),
    ],
)
def test_finer_groups_are_divided_without_a_rest(bits, groups, allowed):
    """A coarse sum less its parts would be the few rows that are in none of them."""
    asked, member, memory = finer_sums(bits, groups)
    if allowed:
        assert answer(asked, member, memory, PARAMS)
    else:
        with pytest.raises(RejectedMessage, match="fewer than 3 members hold"):
            answer(asked, member, memory, PARAMS)


def test_finer_groups_are_unions_of_those_that_were_asked_for():
    asked, member, memory = finer_sums((1, 1), (0, 0, 1, 1))
    evidence = asked.evidence
    assert evidence is not None
    crossed = dataclasses.replace(evidence, groups=np.array([0, 0, 1, 2]))
    with pytest.raises(RejectedMessage, match="nobody was asked who holds"):
        answer(dataclasses.replace(asked, evidence=crossed), member, memory, PARAMS)


def test_sums_are_of_what_was_asked_who_holds():
    members, task, groups = held_by((40, 6, 2), (1, 6, 2), (0, 0, 1))
    shown, memories = presence(members, task, groups)
    moved = dataclasses.replace(groups, seeds=groups.seeds + 1e-6)
    tasks = with_evidence([task(i, Question(SUM, (moved,))) for i in range(3)], shown)
    with pytest.raises(RejectedMessage, match="nobody was asked who holds"):
        answer(tasks[0], members[0], memories[0], PARAMS)
    with pytest.raises(RejectedMessage, match="nobody was asked who holds"):
        answer(tasks[0], members[0], None, PARAMS)


SIX = np.zeros(6, dtype=np.int64)


@pytest.mark.parametrize(
    "partition",
    [
        {"groups": np.arange(5)},
        {"groups": np.full(6, 6)},
        {"groups": np.full(6, -1)},
        {"groups": np.zeros(6)},
        {"groups": np.array([0, 0, 0, 2, 2, 2])},
        {"parents": np.ones(6, dtype=np.int64)},
        {"parents": np.array([0, 0, 0, 1, 1, 1])},
        {"parents": SIX[:5]},
        {"seeds": np.zeros((6, 3))},
        {"seeds": np.zeros(6)},
        {"seeds": np.full((6, 2), np.nan)},
        {"seeds": np.zeros((6, 2), dtype=np.float32)},
        {"seeds": np.zeros((0, 2)), "parents": SIX[:0], "groups": SIX[:0]},
    ],
)
@pytest.mark.parametrize("kind", [COUNT, SUM])
def test_partitions_of_a_lying_server_are_refused(partition, kind):
    members, task = cohort()
    told = task(0, Question(kind, (dataclasses.replace(coarse(), **partition),)))
    with pytest.raises(RejectedMessage):
        answer(told, members[0], None, PARAMS)


@pytest.mark.parametrize(
    "question",
    [
        Question("more", (coarse(),)),
        Question(COUNT),
        Question(SCORE),
        Question(SCORE, (coarse(),)),
        Question(SUM, levels=(level(),)),
        Question(SUM, (coarse(),), (level(),)),
        Question(SUM, (coarse(), coarse())),
        Question(SUM, (coarse(), finer(), finer())),
        # Seeds of two parents in one group.
        Question(SUM, (coarse(), dataclasses.replace(finer(), groups=SIX))),
        Question(SCORE, levels=(level(d=3),)),
        Question(SCORE, levels=(dataclasses.replace(level(), spreads=SIX[:2] + 0.1),)),
        Question(SCORE, levels=(dataclasses.replace(level(), spreads=-np.ones(3)),)),
    ],
)
def test_questions_of_a_lying_server_are_refused(question):
    members, task = cohort()
    with pytest.raises(RejectedMessage):
        answer(task(0, question), members[0], None, PARAMS)


def test_keys_must_be_keys_and_different():
    members, task = cohort()
    told = task(0, questions()[0])
    twice = (told.keys[0], told.keys[1], told.keys[1], told.keys[3])
    weak = (told.keys[0], "00" * 32, told.keys[2], told.keys[3])
    for keys in (twice, weak):
        with pytest.raises(RejectedMessage):
            answer(dataclasses.replace(told, keys=keys), members[0], None, PARAMS)


def test_without_the_library_one_line_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r"afcl\[privacy\]"):
        public_key(bytes(range(32)))

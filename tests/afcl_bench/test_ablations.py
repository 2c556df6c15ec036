# SPDX-License-Identifier: Apache-2.0
"""The default preset step by step: what each one remembers, and the last is it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from afcl.core.messages import Cells, Hello, LevelReply, Summary, Update
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods import get_method
from afcl.methods.afcl import Afcl
from afcl.runtime.coordinator import Spec
from afcl.runtime.simulate import simulate
from afcl_bench.ablations import PREFIX, STEPS, Ablation, find_method
from afcl_bench.datasets import load
from afcl_bench.settings import owners, schedule


def cells(counts, means) -> Cells:
    places = np.asarray(means, dtype=np.float64).reshape(-1, 1)
    scatters = np.zeros(len(counts))
    return Cells(np.asarray(counts, dtype=np.int64), places, scatters)


def started(method, *hellos: Cells) -> Any:
    """A prepared server that has heard these hellos, clients counted from 0."""
    params = method.parameters(min_cell=1)
    said = [
        Hello(int(c.counts.sum()), c, client=client) for client, c in enumerate(hellos)
    ]
    return method.prepare(method.init(said, params, 0))


def answered(
    method, state, client: int, reply: Cells, version: int | None = None
) -> Any:
    """The server after a client's answer; its candidates are all alike to it.

    The answers are made up, so the server is made to forget what it has asked.
    """
    joined = np.full(len(reply), -1)
    levels = tuple(
        LevelReply(reply, joined, np.zeros(2), np.zeros((level.k, 3)), 0)
        for level in state.candidates
    )
    asked = state.version if version is None else version
    update = Update(Summary(reply, joined, levels), asked, client, 1)
    return method.absorb(replace(state, sent=()), update)[0]


def memory(state) -> dict[int, list[float]]:
    """Positions of the cells that are remembered of each client."""
    return {c: m.means[:, 0].tolist() for c, m in state.memory.items()}


HELLOS = (cells([5, 5], [0, 10]), cells([5, 5], [0, 20]), cells([5, 5], [10, 20]))
SECOND = {0: cells([5, 5], [1, 11]), 1: cells([5, 5], [2, 21])}
EMPTY: list[float] = []


@pytest.mark.parametrize(
    ("step", "first", "both"),
    [
        ("path", {0: [1, 11], 1: EMPTY, 2: EMPTY}, {0: EMPTY, 1: [2, 21], 2: EMPTY}),
        (
            "memory",
            {0: [1, 11], 1: EMPTY, 2: EMPTY},
            {0: [1, 11], 1: [2, 21], 2: EMPTY},
        ),
        *(
            (
                step,
                {0: [1, 11], 1: [0, 20], 2: [10, 20]},
                {0: [1, 11], 1: [2, 21], 2: [10, 20]},
            )
            for step in ("hello", "finer", "polish", "rule")
        ),
    ],
)
def test_who_is_remembered_after_one_answer_in_each_of_two_rounds(step, first, both):
    method = Ablation(step)
    state = started(method, *HELLOS)
    assert memory(state) == {0: [0, 10], 1: [0, 20], 2: [10, 20]}
    state = method.prepare(answered(method, state, 0, SECOND[0]))
    assert memory(state) == first
    assert method.result(state).sizes.sum() == 5 * sum(map(len, first.values()))
    state = method.prepare(answered(method, state, 1, SECOND[1]))
    assert memory(state) == both
    assert method.result(state).sizes.sum() == 5 * sum(map(len, both.values()))


def test_two_answers_in_one_round_are_both_remembered():
    method = Ablation("path")
    state = started(method, *HELLOS)
    state = answered(method, state, 0, SECOND[0])
    state = answered(method, state, 1, SECOND[1])
    assert memory(state) == {0: [1, 11], 1: [2, 21], 2: []}
    # In the next round only who answers there.
    state = answered(method, method.prepare(state), 2, cells([10], [3]))
    assert memory(state) == {0: [], 1: [], 2: [3]}


def test_forgotten_clients_stay_members():
    method = Ablation("path")
    first = answered(method, started(method, *HELLOS), 0, SECOND[0])
    state: Any = method.prepare(first)
    assert state.active() == [0, 1, 2]
    assert dict(state.rows) == {0: 10, 1: 10, 2: 10}
    assert dict(state.contacts) == {0: 2, 1: 1, 2: 1}
    assert method.broadcast(state).wanted == frozenset({0, 1, 2})
    state = method.prepare(answered(method, state, 2, HELLOS[2]))
    assert memory(state) == {0: [], 1: [], 2: [10, 20]}


@pytest.mark.parametrize("step", ["path", "memory", "hello"])
def test_a_coarser_reply_replaces_a_finer_one(step):
    method = Ablation(step)
    state = started(method, cells([2, 2, 2], [0, 1, 9]), HELLOS[1])
    state = answered(method, state, 0, cells([3, 3], [0, 9]))
    assert memory(state)[0] == [0, 9]
    assert memory(answered(method, state, 0, cells([6], [3])))[0] == [3]


@pytest.mark.parametrize("step", ["finer", "polish", "rule"])
def test_from_finer_on_it_does_not(step):
    method = Ablation(step)
    state = started(method, cells([2, 2, 2], [0, 1, 9]), HELLOS[1])
    state = answered(method, state, 0, cells([3, 3], [0, 9]))
    assert memory(state)[0] == [0, 1, 9]
    assert memory(answered(method, state, 0, cells([2, 2, 2], [5, 6, 7])))[0] == [
        5,
        6,
        7,
    ]


def test_from_polish_on_the_clients_move_the_candidates():
    for step in STEPS:
        method = Ablation(step)
        state = started(method, *HELLOS)
        after = answered(method, state, 0, HELLOS[0])
        assert after.stale == (step in ("polish", "rule"))
        prepared: Any = method.prepare(after)
        revisions = [c.revision for c in prepared.candidates]
        assert set(revisions) == {int(step in ("polish", "rule"))}


def test_only_the_last_step_has_the_rule():
    for step in STEPS:
        expected = "auto" if step == "rule" else "silhouette"
        assert Ablation(step).parameters().criterion == expected
        assert Ablation(step).parameters(criterion="ch").criterion == "ch"
        assert Ablation(step).parameters(min_cell=7).min_cell == 7


def test_hellos_and_departures_are_as_ever():
    method, default = Ablation("path"), Afcl()
    ours, theirs = started(method, *HELLOS), started(default, *HELLOS)
    assert memory(ours) == memory(theirs)
    assert ours.seeds is not None
    assert np.array_equal(ours.seeds, theirs.seeds)


@pytest.mark.parametrize("step", STEPS)
def test_a_message_that_is_refused_changes_nothing(step):
    method = Ablation(step)
    state = started(method, *HELLOS)
    with pytest.raises(RejectedMessage, match="has not said hello"):
        answered(method, state, 7, HELLOS[0])
    with pytest.raises(RejectedMessage, match="registered 10"):
        answered(method, state, 0, cells([11], [0]))
    assert memory(state) == {0: [0, 10], 1: [0, 20], 2: [10, 20]}


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("name", "split"), [("SD1", "kmeans:5"), ("iris", "kmeans:4"), ("iris", "iid:6")]
)
def test_with_all_steps_it_is_the_default(name, split, seed):
    for run in range(seed, seed + 3):
        data = load(name, seed=run)
        owner = owners(split, data, run)
        tables = [data.X[owner == g] for g in range(owner.max() + 1)]
        habits = schedule("random", len(tables), run)
        ours = simulate(Spec(Ablation("rule"), {}, run), tables, habits)
        theirs = simulate(Spec(Afcl(), {}, run), tables, habits)
        for one, other in zip(ours.labels, theirs.labels, strict=True):
            assert np.array_equal(one, other)
        assert ours.clustering.centers is not None
        assert theirs.clustering.centers is not None
        assert np.array_equal(ours.clustering.centers, theirs.clustering.centers)
        assert [p.k for p in ours.clustering.path] == [
            p.k for p in theirs.clustering.path
        ]
        assert ours.finished.trace.events == theirs.finished.trace.events


def test_every_step_runs_and_the_steps_differ(seed):
    data = load("iris")
    owner = owners("kmeans:5", data, seed)
    tables = [data.X[owner == g] for g in range(owner.max() + 1)]
    habits = schedule("p:0.4", len(tables), seed)
    counts = {}
    for step in STEPS:
        found = simulate(Spec(find_method(PREFIX + step), {}, seed), tables, habits)
        labels = np.concatenate(found.labels)
        assert labels.shape == (150,)
        counts[step] = found.finished.clustering.sizes.sum()
    # Who does not answer in the last round is not there at first.
    assert counts["path"] < 150
    assert counts["hello"] == counts["rule"] == 150


def test_methods_are_found_by_name():
    assert isinstance(find_method("ablation:path"), Ablation)
    assert find_method("ablation:path").name == "afcl"
    assert type(find_method("afcl")) is Afcl
    assert type(find_method("any-k:dk++")) is type(get_method("any-k:dk++"))
    assert STEPS[-1] == "rule"


@pytest.mark.parametrize("name", ["ablation:", "ablation:none", "ablation:Path"])
def test_an_unknown_step_is_refused(name):
    with pytest.raises(InputError, match="choose one of path, memory, hello, finer"):
        find_method(name)


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError, match="unknown method 'ablations'"):
        find_method("ablations")


def test_a_late_hello_does_not_keep_the_round_before():
    """A hello that arrives first makes the round's first answer no less the first."""
    method = Ablation("path")
    state = method.prepare(answered(method, started(method, *HELLOS), 0, SECOND[0]))
    late = Hello(10, cells([5, 5], [30, 40]), client=3)
    state = method.absorb(state, late)[0]
    state = answered(method, state, 1, SECOND[1], version=state.version)
    state = method.prepare(replace(state))
    assert memory(state)[0] == []
    assert memory(state)[1] == [2, 21]

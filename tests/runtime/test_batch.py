# SPDX-License-Identifier: Apache-2.0
"""Clients that are asked together give what they give one by one, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.runtime import batch
from afcl.runtime.batch import MOST_ROWS, fits
from afcl.runtime.schedule import EventClock, Replay, Rounds, Schedule
from afcl.runtime.simulate import TOGETHER, simulate, simulate_batch
from afcl.runtime.spec import Spec
from afcl.trace import Trace, check, each, read_trace

AFCL = get_method("afcl")


def people(seed, d=2, n_clients=14, least=5, most=30, kind="spread"):
    """Clients of very different sizes, four spots, and their offsets."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(least, most + 1, n_clients)
    spots = rng.permuted(np.tile(np.arange(4.0)[:, None], (1, d)), axis=0) * 5
    rows = spots[rng.integers(0, 4, sizes.sum())] + rng.normal(0, 1, (sizes.sum(), d))
    if kind == "duplicates":
        rows = np.round(rows)
    return rows, np.concatenate([[0], np.cumsum(sizes)])


def both(rows, offsets, seed, schedule=None, rounds=40, scale="minmax", **options):
    """The outcomes of clients asked one by one, and of the same asked together."""
    spec = Spec(AFCL, options, seed, scale, rounds)
    tables = np.split(rows, offsets[1:-1])
    ordinary = simulate(spec, tables, schedule)
    return ordinary, simulate_batch(spec, rows, offsets, schedule)


def same(ordinary, crowd):
    """Assert that two outcomes agree to the bit."""
    one, other = ordinary.clustering, crowd.clustering
    assert np.array_equal(one.centers, other.centers)
    assert np.array_equal(one.sizes, other.sizes)
    assert one.scores == other.scores
    assert [level.k for level in one.path] == [level.k for level in other.path]
    for level, twin in zip(one.path, other.path, strict=True):
        assert np.array_equal(level.centers, twin.centers)
    assert np.array_equal(ordinary.rank, crowd.rank)
    for labels, twins in zip(ordinary.labels, crowd.labels, strict=True):
        assert np.array_equal(labels, twins)
    left, right = ordinary.finished, crowd.finished
    assert left.rounds == right.rounds
    assert left.terms.options == right.terms.options
    assert np.array_equal(left.terms.box.span, right.terms.box.span)
    assert left.tallies == right.tallies
    assert events(left) == events(right)


def events(finished):
    """All events, one client at a time; failures at the end of their tick."""
    every = list(each(finished.trace))
    return sorted(every, key=lambda e: (e.get("tick", 0), e["event"] == "failure"))


SCHEDULES = {
    "everybody": None,
    "half": Rounds(probability=0.5),
    "each": Rounds(probability=np.linspace(0.1, 1.0, 14)),
    "random": Rounds(probability="random"),
}


@pytest.mark.parametrize("when", sorted(SCHEDULES))
@pytest.mark.parametrize(("d", "min_cell"), [(1, 1), (3, 1), (2, 5)])
def test_summary(seed, when, d, min_cell):
    rows, offsets = people(seed, d)
    same(*both(rows, offsets, seed, SCHEDULES[when], min_cell=min_cell, contacts=4))


@pytest.mark.parametrize("min_cell", [1, 5])
def test_summary_with_duplicates(seed, min_cell):
    rows, offsets = people(seed, 2, kind="duplicates")
    same(*both(rows, offsets, seed, min_cell=min_cell))


def test_summary_when_rounds_are_over(seed):
    rows, offsets = people(seed)
    halves = Rounds(probability=0.3)
    same(*both(rows, offsets, seed, halves, rounds=3, contacts=6))


@pytest.mark.parametrize("scale", [None, ((-5.0, -5.0), (25.0, 25.0))])
def test_summary_on_other_scales(seed, scale):
    rows, offsets = people(seed)
    same(*both(rows, offsets, seed, scale=scale))


@pytest.mark.parametrize("when", sorted(SCHEDULES))
@pytest.mark.parametrize(
    ("d", "privacy", "cohort"),
    [(2, "secure", 3), (3, "secure", 5), (2, "secure(plain)+summary", None)],
)
def test_secure(seed, when, d, privacy, cohort):
    rows, offsets = people(seed, d)
    level = {"privacy": privacy, "cohort": cohort}
    same(*both(rows, offsets, seed, SCHEDULES[when], **level))


def test_secure_with_duplicates_and_other_groups(seed):
    rows, offsets = people(seed, kind="duplicates")
    level = {"privacy": "secure+grouped(3)", "cohort": 3, "min_cell": 3}
    same(*both(rows, offsets, seed, **level))


def test_cohorts_stop_waiting_for_who_is_silent(seed):
    # Clients 2 and 3 never answer: the first cohort waits, is dissolved, and its other
    # members find new ones.
    chance = np.ones(14)
    chance[[2, 3]] = 0.0
    rows, offsets = people(seed)
    level = {"privacy": "secure", "cohort": 3}
    ordinary, crowd = both(rows, offsets, seed, Rounds(probability=chance), **level)
    same(ordinary, crowd)
    state = crowd.finished.state
    assert state.silent == {2, 3}


def test_cohorts_at_work_come_apart_in_their_order(seed):
    chance = np.full(14, 0.35)
    chance[[4, 9]] = 0.0
    rows, offsets = people(seed)
    level = {"privacy": "secure", "cohort": 3}
    rare = Rounds(probability=chance)
    same(*both(rows, offsets, seed, rare, rounds=160, **level))


def test_who_was_asked_too_often_answers_no_more():
    # Clients 0 and 1 are asked for counts again and again, because a third member that
    # hardly ever answers dissolves their cohort; at last they do not answer.
    chance = np.full(14, 0.08)
    chance[[0, 1]] = 1.0
    rows, offsets = people(0)
    level = {"privacy": "secure(plain)+summary", "cohort": 3, "passes": 5}
    rare = Rounds(probability=chance)
    ordinary, crowd = both(rows, offsets, 0, rare, rounds=300, **level)
    same(ordinary, crowd)
    assert len(crowd.finished.trace.of("failure")) > 0


def test_a_cohort_far_outside_the_box_is_not_believed():
    # One row in 39 lies far off: groups of 39 rows do not tell it, the box is small,
    # and the outliers of ten clients make a cell more than a width outside of it.
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 1e-3, (20 * 39, 2))
    rows[: 10 * 39 : 39, 0] += 1.0
    rows[10 * 39 :, 0] += 0.18
    offsets = np.arange(21) * 39
    level = {"privacy": "secure+grouped(20)", "cohort": 10}
    ordinary, crowd = both(rows, offsets, 0, **level)
    same(ordinary, crowd)
    state = crowd.finished.state
    assert state.spoken == set(range(10, 20))


# ------------------------------------------------------------------ the run itself


def test_the_result_does_not_depend_on_threads(seed, monkeypatch):
    rows, offsets = people(seed)
    spec = Spec(AFCL, {"min_cell": 2}, seed)
    one = simulate_batch(spec, rows, offsets)
    monkeypatch.setattr(batch, "PART", 3)
    monkeypatch.setenv("AFCL_THREADS", "4")
    other = simulate_batch(spec, rows, offsets)
    assert one.clustering.centers is not None
    assert other.clustering.centers is not None
    assert np.array_equal(one.clustering.centers, other.clustering.centers)


@pytest.mark.parametrize("privacy", ["summary", "secure"])
def test_the_trace_has_two_events_a_round(privacy, tmp_path):
    rows, offsets = people(0)
    trace, times = Trace(), iter(range(1000))
    options = {"privacy": privacy, "cohort": 5}
    outcome = simulate_batch(
        Spec(AFCL, options), rows, offsets, trace=trace, clock=lambda: next(times)
    )
    kinds = [event.get("of", event["event"]) for event in check(trace)]
    assert kinds[:5] == ["run", "ranges", "send", "hello", "prepare"]
    assert kinds[5:-1] == ["send", "update", "prepare"] * outcome.finished.rounds
    assert kinds[-1] == "end"
    assert [event["at"] for event in trace] == list(range(len(trace)))
    assert trace.of("end")[0]["messages"] == len(trace.of("hello", "update"))
    trace.write(tmp_path / "trace.jsonl")
    assert list(each(read_trace(tmp_path / "trace.jsonl"))) == list(each(trace))


# ------------------------------------------------------------------ however many


def crowd(n, seed=0):
    """Tables of n clients with six rows each, of three spots."""
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
    return list(rng.normal(spots[rng.integers(0, 3, (n, 6))], 1.0))


#: As many clients are a crowd in the tests: where a crowd begins is not the point.
CROWD = 60


@pytest.mark.parametrize(
    ("n", "privacy"),
    [
        (1, "summary"),
        (CROWD - 1, "summary"),
        (CROWD + 1, "summary"),
        (CROWD, "secure(plain)+summary"),
    ],
)
def test_the_number_of_clients_changes_nothing_but_the_speed(n, privacy, monkeypatch):
    """What one client fewer than a crowd is for a user, a crowd is: bytes, events,
    replay.
    """
    assert TOGETHER == 1000
    monkeypatch.setattr("afcl.runtime.simulate.TOGETHER", CROWD)
    tables = crowd(n)
    spec = Spec(AFCL, {"max_clusters": 9, "privacy": privacy}, 3, max_rounds=30)
    schedule = Rounds(probability=0.7)
    asked = simulate(spec, tables, schedule)
    batches = [e for e in asked.finished.trace if e["event"] == "batch"]
    assert bool(batches) is (n >= CROWD)
    monkeypatch.setattr("afcl.runtime.simulate.TOGETHER", 10**9)
    same(simulate(spec, tables, schedule), asked)
    replayed = simulate(spec, tables, Replay.of(asked.finished.trace))
    one, other = replayed.clustering.centers, asked.clustering.centers
    assert one is not None
    assert other is not None
    assert np.array_equal(one, other)
    assert replayed.finished.tallies == asked.finished.tallies


# ------------------------------------------------------------------ what it is not for


@pytest.mark.parametrize(
    "schedule",
    [
        EventClock(),
        Rounds(delay=2),
        Schedule(late={1: 2}),
        Rounds(silent={1}),
        Schedule(leaves={0: 1}),
        Schedule(answers={2: 1}),
    ],
)
def test_other_schedules_are_for_the_ordinary_simulator(schedule):
    rows, offsets = people(0)
    assert not fits(Spec(AFCL), rows, offsets, schedule)
    with pytest.raises(InputError, match="cannot be asked together"):
        simulate_batch(Spec(AFCL), rows, offsets, schedule)


@pytest.mark.parametrize(
    ("level", "suited"),
    [
        ("summary", True),
        ("secure", True),
        ("secure+grouped(5)", True),
        ("secure(plain)+summary", True),
        ("secure(plain)+dp(8)", False),
        ("grouped(5)", False),
        ("dp(8)", False),
        ("secure+dp(8)", False),
    ],
)
def test_levels(level, suited):
    rows, offsets = people(0)
    assert fits(Spec(AFCL, {"privacy": level}), rows, offsets) is suited


def test_other_methods_and_rows_are_for_the_ordinary_simulator():
    rows, offsets = people(0)
    assert not fits(Spec(get_method("k-fed"), {"n_clusters": 3}), rows, offsets)
    bounds = ((0.0, 0.0), (1.0, 1.0))
    assert not fits(Spec(AFCL, scale=bounds), rows, offsets)
    assert fits(Spec(AFCL, scale=None), rows, offsets)
    assert not fits(Spec(AFCL, scale=None), rows * 1e121, offsets)
    assert not fits(Spec(AFCL, scale="robust"), rows, offsets)
    assert not fits(Spec(AFCL), rows * np.nan, offsets)
    assert not fits(Spec(AFCL), rows, offsets[:1])
    assert not fits(Spec(AFCL), rows, np.array([0, 0, rows.shape[0]]))
    large = np.zeros((MOST_ROWS + 6, 2))
    assert not fits(Spec(AFCL), large, np.array([0, 5, MOST_ROWS + 6]))
    assert fits(Spec(AFCL), large, np.array([0, 6, MOST_ROWS + 6]))


def test_what_makes_no_sense_is_refused():
    rows, offsets = people(0)
    with pytest.raises(InputError, match="must begin with 0 and end with the number"):
        simulate_batch(Spec(AFCL), rows, offsets[:-1])
    with pytest.raises(InputError, match="bounds for 1 columns, the data have 2"):
        simulate_batch(Spec(AFCL, scale=([0.0], [1.0])), rows, offsets)


def test_participation_is_checked():
    rows, offsets = people(0)
    with pytest.raises(InputError, match="probabilities"):
        simulate_batch(Spec(AFCL), rows, offsets, Rounds(probability=[0.5, 0.5]))


def test_some_columns_have_bounds_of_their_own(seed):
    rows, offsets = people(seed, d=3)
    bounds = np.array([np.nan, 0.0, np.nan]), np.array([np.nan, 60.0, np.nan])
    spec = Spec(AFCL, seed=seed, bounds=bounds)
    tables = [rows[a:b] for a, b in zip(offsets, offsets[1:], strict=False)]
    crowd = simulate_batch(spec, rows, offsets)
    same(simulate(spec, tables), crowd)
    box = crowd.finished.terms.box
    assert (box.low[1], box.span[1]) == (0.0, 60.0)
    assert box.span[0] < 60.0


def test_clients_below_a_cell_are_not_asked_together():
    """They take no part, which is for the ordinary simulator to arrange."""
    rows, offsets = np.zeros((9, 2)), np.array([0, 6, 9])
    assert not fits(Spec(AFCL), rows, offsets)
    assert not fits(Spec(AFCL, {"min_cell": 4}), rows, offsets)
    assert fits(Spec(AFCL, {"min_cell": 3}), rows, offsets)


def test_too_few_clients_for_a_cohort():
    rows, offsets = people(0)
    spec = Spec(AFCL, {"privacy": "secure", "cohort": 15})
    with pytest.raises(InputError, match="cohorts of 15"):
        simulate_batch(spec, rows, offsets)


@pytest.mark.parametrize("privacy", ["summary", "secure+grouped(5)"])
def test_one_that_alone_stretches_a_column_is_named_and_has_no_say(seed, privacy):
    rng = np.random.default_rng(seed)
    rows, offsets = rng.random((140, 2)), np.arange(0, 141, 10)
    rows[:10, 1] *= 20
    ordinary, crowd = both(rows, offsets, seed, privacy=privacy)
    same(ordinary, crowd)
    assert crowd.finished.terms.box.walls
    (note,) = crowd.finished.trace.of("note")
    assert note["text"].startswith("client 0 alone stretches column 2 ")
    rows[:10, 1] *= 20  # so far that it is refused: one by one
    assert not fits(Spec(AFCL), rows, offsets)

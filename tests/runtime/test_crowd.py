# SPDX-License-Identifier: Apache-2.0
"""A crowd simulated in batches gives what the ordinary simulator gives, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core.crowd_cohorts import CohortState
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.runtime import crowd_levels
from afcl.runtime.coordinator import Spec
from afcl.runtime.crowd import MOST_ROWS, CrowdRun, simulate_crowd, suits
from afcl.runtime.crowd_levels import Threads
from afcl.runtime.schedule import EventClock, Rounds, Schedule
from afcl.runtime.simulate import simulate
from afcl.trace import Trace, check

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
    """The outcomes of the ordinary simulator and of the crowd's."""
    spec = Spec(AFCL, options, seed, scale, rounds)
    tables = np.split(rows, offsets[1:-1])
    ordinary = simulate(spec, tables, schedule)
    return ordinary, simulate_crowd(spec, rows, offsets, schedule)


def same(ordinary, crowd):
    """Assert that two outcomes agree to the bit."""
    one, other = ordinary.clustering, crowd.clustering
    assert np.array_equal(one.centers, other.centers)
    assert np.array_equal(one.sizes, other.sizes)
    assert one.scores == pytest.approx(other.scores, rel=1e-12)
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
    sent = [(t.rows, t.messages) for t in left.tallies.values()]
    assert sent == [(t.rows, t.messages) for t in right.tallies.values()]
    arrays = [
        sum(event.get("array_bytes", 0) for event in run.trace) for run in (left, right)
    ]
    assert arrays[0] == arrays[1] == sum(t.bytes for t in right.tallies.values())
    thought = [
        [event["k"] for event in run.trace.of("prepare")] for run in (left, right)
    ]
    assert thought[0] == thought[1]
    assert left.trace.of("end")[0]["reason"] == right.trace.of("end")[0]["reason"]


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
@pytest.mark.parametrize(("d", "cohort"), [(2, 3), (3, 5)])
def test_secure(seed, when, d, cohort):
    rows, offsets = people(seed, d)
    level = {"privacy": "secure", "cohort": cohort}
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
    assert isinstance(state, CohortState)
    assert np.flatnonzero(state.silent).tolist() == [2, 3]


def test_cohorts_at_work_come_apart_in_their_order(seed):
    chance = np.full(14, 0.35)
    chance[[4, 9]] = 0.0
    rows, offsets = people(seed)
    level = {"privacy": "secure", "cohort": 3}
    rare = Rounds(probability=chance)
    same(*both(rows, offsets, seed, rare, rounds=160, **level))


def test_who_was_asked_too_often_answers_no_more():
    # Clients 0 and 1 are asked for counts again and again, because a third member that
    # never answers dissolves their cohort; the ninth time they do not answer.
    chance = np.zeros(14)
    chance[[0, 1]] = 1.0
    rows, offsets = people(0)
    level = {"privacy": "secure", "cohort": 3}
    never = Rounds(probability=chance)
    ordinary, crowd = both(rows, offsets, 0, never, rounds=140, **level)
    same(ordinary, crowd)
    refused = [event.get("refused", 0) for event in crowd.finished.trace]
    assert sum(refused) == len(ordinary.finished.trace.of("failure")) > 0


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
    assert isinstance(state, CohortState)
    assert np.flatnonzero(state.spoken).tolist() == list(range(10, 20))


# ------------------------------------------------------------------ the run itself


def test_the_result_does_not_depend_on_threads(seed, monkeypatch):
    rows, offsets = people(seed)
    spec = Spec(AFCL, {"min_cell": 2}, seed)
    one = simulate_crowd(spec, rows, offsets)
    monkeypatch.setattr(crowd_levels, "PART", 3)
    monkeypatch.setenv("AFCL_THREADS", "4")
    other = simulate_crowd(spec, rows, offsets)
    assert one.clustering.centers is not None
    assert other.clustering.centers is not None
    assert np.array_equal(one.clustering.centers, other.clustering.centers)


@pytest.mark.parametrize("privacy", ["summary", "secure"])
def test_the_trace_has_one_event_a_round(privacy):
    rows, offsets = people(0)
    trace, times = Trace(), iter(range(1000))
    options = {"privacy": privacy, "cohort": 5}
    outcome = simulate_crowd(
        Spec(AFCL, options), rows, offsets, trace=trace, clock=lambda: next(times)
    )
    events = check(trace)
    kinds = [event["event"] for event in events]
    assert kinds[:3] == ["run", "hellos", "prepare"]
    assert kinds[3:-1] == ["updates", "prepare"] * outcome.finished.rounds
    assert kinds[-1] == "end"
    hellos = trace.of("hellos")[0]
    assert hellos["clients"] == 14
    assert hellos["rows"] == rows.shape[0]
    assert [event["at"] for event in events] == list(range(len(events)))
    sent = sum(event["clients"] for event in trace.of("hellos", "updates"))
    assert trace.of("end")[0]["messages"] == sent


def test_one_round_at_a_time():
    rows, offsets = people(0)
    with Threads(1) as threads:
        run = CrowdRun(Spec(AFCL), rows, offsets, Schedule(), threads)
        run.start()
        run.one_round()
        assert run.round == 1
        assert run.level.wanted().shape == (14,)


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
    assert not suits(Spec(AFCL), rows, offsets, schedule)
    with pytest.raises(InputError, match="ordinary simulator"):
        simulate_crowd(Spec(AFCL), rows, offsets, schedule)


@pytest.mark.parametrize(
    ("level", "fits"),
    [
        ("summary", True),
        ("secure", True),
        ("secure+grouped(7)", True),
        ("grouped(5)", False),
        ("dp(8)", False),
        ("secure+dp(8)", False),
    ],
)
def test_levels(level, fits):
    rows, offsets = people(0)
    assert suits(Spec(AFCL, {"privacy": level}), rows, offsets) is fits


def test_other_methods_and_rows_are_for_the_ordinary_simulator():
    rows, offsets = people(0)
    assert not suits(Spec(get_method("k-fed"), {"n_clusters": 3}), rows, offsets)
    bounds = ((0.0, 0.0), (1.0, 1.0))
    assert not suits(Spec(AFCL, scale=bounds), rows, offsets)
    assert suits(Spec(AFCL, scale=None), rows, offsets)
    assert not suits(Spec(AFCL, scale=None), rows * 1e121, offsets)
    assert not suits(Spec(AFCL, scale="robust"), rows, offsets)
    assert not suits(Spec(AFCL), rows * np.nan, offsets)
    assert not suits(Spec(AFCL), rows, offsets[:1])
    assert not suits(Spec(AFCL), rows, np.array([0, 0, rows.shape[0]]))
    large = np.zeros((MOST_ROWS + 6, 2))
    assert not suits(Spec(AFCL), large, np.array([0, 5, MOST_ROWS + 6]))
    assert suits(Spec(AFCL), large, np.array([0, 6, MOST_ROWS + 6]))


def test_what_makes_no_sense_is_refused():
    rows, offsets = people(0)
    with pytest.raises(InputError, match="must begin with 0 and end with the number"):
        simulate_crowd(Spec(AFCL), rows, offsets[:-1])
    with pytest.raises(InputError, match="bounds for 1 columns, the data have 2"):
        simulate_crowd(Spec(AFCL, scale=([0.0], [1.0])), rows, offsets)


def test_participation_is_checked():
    rows, offsets = people(0)
    with pytest.raises(InputError, match="probabilities"):
        simulate_crowd(Spec(AFCL), rows, offsets, Rounds(probability=[0.5, 0.5]))


def test_small_clients_are_named():
    rows = np.zeros((9, 2))
    offsets = np.array([0, 6, 9])
    with pytest.raises(InputError, match="client 1: this client has 3 rows, fewer"):
        simulate_crowd(Spec(AFCL), rows, offsets)
    named = Spec(AFCL, {"min_cell": 4}, names=("north", "south"))
    with pytest.raises(InputError, match="south: this client has 3 rows"):
        simulate_crowd(named, rows, offsets)
    alone = Spec(AFCL, {"min_cell": 2})
    with pytest.raises(InputError, match="client 0: this client has 1 row, fewer"):
        simulate_crowd(alone, rows[:4], np.array([0, 1, 4]))


def test_too_few_clients_for_a_cohort():
    rows, offsets = people(0)
    spec = Spec(AFCL, {"privacy": "secure", "cohort": 15})
    with pytest.raises(InputError, match="cohorts of 15"):
        simulate_crowd(spec, rows, offsets)

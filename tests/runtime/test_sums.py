# SPDX-License-Identifier: Apache-2.0
"""Sums over sites, the default: who is late, silent or gone never stops a run."""

from __future__ import annotations

import numpy as np
import pytest

from afcl import AFCL
from afcl.methods import get_method
from afcl.runtime.schedule import EventClock, Replay, Rounds, Schedule
from afcl.runtime.simulate import simulate
from afcl.runtime.spec import Spec

DEFAULT = {"privacy": "secure(plain)+summary"}


def mixed(n_clients, seed=0, size=40):
    """Tables with rows of three far spots each."""
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.0], [0.0, 20.0], [20.0, 0.0]])
    return list(rng.normal(spots[rng.integers(0, 3, (n_clients, size))], 1.0))


def run(tables, schedule, seed=0):
    """Run at the default level; whatever was run is replayed to the same bits."""
    spec = Spec(get_method("afcl"), DEFAULT, seed)
    outcome = simulate(spec, tables, schedule)
    again = simulate(spec, tables, Replay.of(outcome.finished.trace))
    one, other = again.clustering.centers, outcome.clustering.centers
    assert one is not None
    assert other is not None
    assert np.array_equal(one, other)
    assert again.clustering.note == outcome.clustering.note
    return outcome


def summed(outcome):
    """The clients whose rows are in sums."""
    return set(outcome.finished.state.spoken)


def reason(outcome):
    return outcome.finished.trace.of("end")[0]["reason"]


def test_everybody_answers_seven_questions(seed):
    outcome = run(mixed(5, seed), None, seed)
    assert outcome.clustering.k == 3
    assert outcome.clustering.note == ""
    assert summed(outcome) == set(range(5))
    assert {tally.messages for tally in outcome.finished.tallies.values()} == {8}


def test_replies_come_up_to_five_rounds_late(seed):
    outcome = run(mixed(5, seed), Rounds(delay=5), seed)
    assert outcome.clustering.k == 3
    assert summed(outcome) == set(range(5))
    assert outcome.clustering.note == ""
    assert reason(outcome) == "done"


def test_some_answers_are_lost(seed):
    clock = EventClock(latency_mean=2.0, loss=0.2)
    outcome = run(mixed(6, seed), clock, seed)
    assert outcome.clustering.k == 3
    assert reason(outcome) == "done"


def test_hellos_stand_where_nobody_answers_them(seed):
    outcome = run(mixed(5, seed, size=200), Schedule(silent={0, 1, 2, 3}), seed)
    assert reason(outcome) == "done"
    assert summed(outcome) == set()
    assert "No sum over sites came about" in outcome.clustering.note
    assert outcome.clustering.sizes.sum() == 1000  # of all five hellos
    assert {t.messages for t in outcome.finished.tallies.values()} == {1, 2}


@pytest.mark.parametrize("silent", [{0}, {2, 4}])
def test_three_answer_where_others_are_silent(seed, silent):
    outcome = run(mixed(5, seed, size=100), Schedule(silent=silent), seed)
    assert reason(outcome) == "done"
    assert outcome.clustering.k == 3
    assert summed(outcome) == set(range(5)) - silent
    left = 5 - len(silent)
    assert f"the rows of {left} of 5 sites" in outcome.clustering.note


#: Round in which one of ten is found gone, whose rows are summed then, and how many
#: questions are asked of who stays.
STAGES = [
    (1, False, 8),  # before the first count: the others are asked again
    (2, False, 9),  # before presence: the others are counted again
    (3, False, 9),  # before sums: so too
    (4, True, 4),  # before the finer count: the coarse sums are what there is
    (5, True, 5),  # before the finer presence: so too
    (6, True, 6),  # before the finer sums: so too
    (7, True, 8),  # before the scores: the others are asked without it
]


@pytest.mark.no_cover
@pytest.mark.parametrize(("round_", "is_summed", "asked"), STAGES)
def test_one_of_ten_leaves(seed, round_, is_summed, asked):
    outcome = run(mixed(10, seed), Schedule(leaves={4: round_}), seed)
    assert reason(outcome) == "done"
    assert outcome.clustering.k == 3
    assert (4 in summed(outcome)) is is_summed
    assert summed(outcome) | {4} == set(range(10))
    assert ("9 of 10" in outcome.clustering.note) is not is_summed
    assert outcome.finished.tallies[0].messages == 1 + asked


def test_the_hello_of_a_late_joiner_alone_counts(seed):
    # The fourth spot is its own: nobody else has rows there.
    tables = mixed(6, seed)
    rng = np.random.default_rng(seed)
    tables[5] = rng.normal([20.0, 20.0], 1.0, (100, 2))
    outcome = run(tables, Schedule(late={5: 9}), seed)
    assert outcome.clustering.k == 4
    assert summed(outcome) == set(range(5))
    assert "the other one only the first message" in outcome.clustering.note
    assert outcome.finished.tallies[5].messages == 1


def test_three_late_joiners_are_a_cohort_of_their_own(seed):
    late = Schedule(late={5: 9, 6: 9, 7: 9})
    outcome = run(mixed(8, seed), late, seed)
    assert outcome.clustering.k == 3
    assert summed(outcome) == set(range(8))
    assert outcome.clustering.note == ""
    updates = outcome.finished.trace.of("update")
    cohorts = {e["client"]: e["cohort"] for e in updates}
    assert {cohorts[client] for client in range(5)} == {0}
    assert {cohorts[client] for client in range(5, 8)} == {1}


def test_sites_that_answer_once(seed):
    """Hellos and one count each: there is no sum, and the run says so and ends."""
    once = Schedule(answers=dict.fromkeys(range(5), 1))
    outcome = run(mixed(5, seed, size=200), once, seed)
    assert reason(outcome) == "done"
    assert "No sum" in outcome.clustering.note
    assert outcome.clustering.sizes.sum() == 1000


def test_one_site_that_answers_once_does_not_cost_the_others_their_sums(seed):
    outcome = run(mixed(6, seed), Schedule(answers={2: 1}), seed)
    assert reason(outcome) == "done"
    assert outcome.clustering.k == 3
    assert summed(outcome) == {0, 1, 3, 4, 5}


def test_messages_that_are_asked_for_at_all():
    """One message a site: no question may follow, and none is asked."""
    tables = mixed(5, size=200)
    model = AFCL(contacts=1, random_state=0).fit_clients(tables)
    assert model.privacy_ == "summary"
    assert len(model.trace_.of("hello", "update")) == 5

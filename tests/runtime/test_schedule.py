# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from afcl.exceptions import InputError
from afcl.runtime.schedule import EventClock, Replay, Rounds, Schedule, as_schedule

N = 5


def part(schedule, rounds=range(1, 101), seed=0, n_clients=N):
    """Table (round, client): who takes part."""
    bound = schedule.bind(n_clients, seed)
    return np.array(
        [[bound.takes_part(c, r, 0) for c in range(n_clients)] for r in rounds]
    )


def latencies(schedule, contacts=range(1, 401), seed=0):
    """Table (contact, client): how long each answer takes."""
    bound = schedule.bind(N, seed)
    return np.array(
        [[schedule.latency(c, i, bound) for c in range(N)] for i in contacts]
    )


# ------------------------------------------------------------------ everybody, always


def test_everybody_always_at_once():
    schedule = Schedule()
    bound = schedule.bind(N, 0)

    assert part(schedule).all()
    assert (latencies(schedule) == 0).all()
    assert not any(schedule.loses(c, 1, bound) for c in range(N))
    assert [bound.joins(c) for c in range(N)] == [0] * N
    assert [bound.leaves(c) for c in range(N)] == [math.inf] * N
    assert schedule.order(3, 7) == (3, 7)


@pytest.mark.parametrize(("now", "then"), [(0.0, 1.0), (1.0, 2.0), (1.5, 2.0)])
def test_rounds_follow_each_other_whatever_is_under_way(now, then):
    for schedule in (Schedule(), Rounds(probability=0.5), Replay()):
        assert schedule.next_time(now, []) == then
        assert schedule.next_time(now, [now + 0.1]) == then


def test_silent_clients_are_never_asked():
    table = part(Schedule(silent=[1, 3]))

    assert table.any(axis=0).tolist() == [True, False, True, False, True]


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_silent_may_be_any_collection(kind):
    assert not part(Schedule(silent=kind([0])))[:, 0].any()


def test_answers_bound_how_often_a_client_is_asked():
    bound = Schedule(answers={0: 1, 1: 0}).bind(N, 0)

    assert [bound.takes_part(0, 9, answered) for answered in (0, 1, 2)] == [
        True,
        False,
        False,
    ]
    assert not bound.takes_part(1, 1, 0)
    assert bound.takes_part(2, 1, 10**6)


def test_late_and_leaving_clients():
    bound = Schedule(late={1: 4}, leaves={2: 7}).bind(N, 0)

    assert [bound.joins(c) for c in range(3)] == [0, 4, 0]
    assert [bound.leaves(c) for c in range(3)] == [math.inf, math.inf, 7.0]


@pytest.mark.parametrize("base", [Rounds, EventClock])
def test_the_other_schedules_know_these_fields_too(base):
    schedule = base(late={0: 2}, leaves={1: 3}, silent={2}, answers={3: 1})
    bound = schedule.bind(N, 0)

    assert bound.joins(0) == 2
    assert bound.leaves(1) == 3.0
    assert not bound.takes_part(2, 1, 0)
    assert not bound.takes_part(3, 1, 1)
    assert bound.takes_part(4, 1, 0)


# ------------------------------------------------------------------ draws


@pytest.mark.parametrize(
    "schedule",
    [
        Rounds(probability=0.4),
        Rounds(probability="random"),
        Rounds(probability=np.linspace(0.1, 0.9, N)),
    ],
    ids=["one", "random", "each"],
)
def test_participation_is_a_function_of_seed_client_and_round(schedule):
    table = part(schedule, range(1, 51))
    bound = schedule.bind(N, 0)
    keys = [(r, c) for r in range(1, 51) for c in range(N)]

    for r, c in np.random.default_rng(0).permutation(keys):
        assert bound.takes_part(int(c), int(r), 0) == table[r - 1, c]
    assert np.array_equal(part(schedule, range(1, 51)), table)
    assert not np.array_equal(part(schedule, range(1, 51), seed=1), table)


@pytest.mark.parametrize("schedule", [Rounds(delay=9), EventClock()])
def test_latencies_are_a_function_of_seed_client_and_contact(schedule):
    table = latencies(schedule, range(1, 21))
    bound = schedule.bind(N, 0)

    for c in reversed(range(N)):
        for i in reversed(range(1, 21)):
            assert schedule.latency(c, i, bound) == table[i - 1, c]
    assert not np.array_equal(latencies(schedule, range(1, 21), seed=1), table)


def test_draws_for_different_purposes_are_different():
    bound = Schedule().bind(N, 0)
    draws = [
        bound.draw(purpose, c, r)
        for purpose in range(4)
        for c in (0, 1)
        for r in (1, 2)
    ]

    assert len(set(draws)) == len(draws)
    assert all(0 <= draw < 1 for draw in draws)


def test_clients_and_rounds_are_drawn_independently():
    table = part(Rounds(probability=0.5), range(1, 1001)).astype(float)
    between_clients = np.corrcoef(table.T)[np.triu_indices(N, 1)]
    between_rounds = [np.corrcoef(c[1:], c[:-1])[0, 1] for c in table.T]

    # standard error 1 / sqrt(1000) = .03
    assert np.abs(between_clients).max() < 0.12
    assert np.abs(between_rounds).max() < 0.12


# ------------------------------------------------------------------ Bernoulli rounds


@pytest.mark.parametrize("probability", [0.0, 1.0, 0, 1, np.float64(1)])
def test_never_and_always(probability):
    assert part(Rounds(probability=probability)).all() == (probability == 1)
    assert part(Rounds(probability=probability)).any() == (probability == 1)


def test_probabilities_are_kept_in_the_mean():
    probability = np.array([0.0, 0.2, 0.5, 0.8, 1.0])

    share = part(Rounds(probability=probability), range(1, 1001)).mean(axis=0)

    # standard error at most sqrt(.25 / 1000) = .016
    assert np.abs(share - probability).max() < 0.05
    assert share[0] == 0
    assert share[-1] == 1


def test_one_probability_serves_everybody():
    share = part(Rounds(probability=0.3), range(1, 1001)).mean(axis=0)

    assert np.abs(share - 0.3).max() < 0.05


def test_a_list_of_probabilities_will_do():
    lists = Rounds(probability=[0.1, 0.2, 0.3, 0.4, 0.5])

    assert np.array_equal(
        part(lists), part(Rounds(probability=np.array([0.1, 0.2, 0.3, 0.4, 0.5])))
    )


def test_random_draws_one_probability_a_client_for_the_whole_run():
    table = part(Rounds(probability="random"), range(1, 201), n_clients=30)
    first, second = table[:100].mean(axis=0), table[100:].mean(axis=0)

    # the same probability in both halves (standard error of the difference .07) ...
    assert np.abs(first - second).max() < 0.25
    # ... and these are spread over (0, 1): mean .5, deviation .29 (standard error .05)
    share = table.mean(axis=0)
    assert abs(share.mean() - 0.5) < 0.2
    assert 0.2 < share.std() < 0.38


def test_random_draws_anew_for_another_seed():
    shares = [part(Rounds(probability="random"), seed=s).mean(axis=0) for s in (0, 1)]

    assert np.abs(shares[0] - shares[1]).max() > 0.1


def test_delays_are_whole_rounds_up_to_the_given_one():
    table = latencies(Rounds(delay=3))

    assert set(np.unique(table)) == {0, 1, 2, 3}
    # uniform: 2000 draws, standard error .01 a value
    assert (
        np.abs(np.bincount(table.astype(int).ravel()) / table.size - 0.25).max() < 0.05
    )


def test_no_delay_is_no_delay():
    assert (latencies(Rounds()) == 0).all()


# ------------------------------------------------------------------ the event clock


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_latencies_have_their_mean_at_any_spread(spread):
    table = latencies(EventClock(latency_mean=2.0, spread=spread))

    # standard error 2 * spread / sqrt(2000) = .045
    assert abs(table.mean() - 2.0) < 0.2
    assert table.min() >= 2.0 * (1 - spread)
    assert abs(table.std() - 2.0 * spread) < 0.2


def test_every_client_may_have_its_own_latency():
    means = np.array([0.0, 0.5, 1.0, 2.0, 8.0])

    table = latencies(EventClock(latency_mean=means))

    # standard error 1 / sqrt(400) = .05 of the mean
    assert np.abs(table.mean(axis=0) - means).max() <= 0.25 * means.max()
    assert (table[:, 0] == 0).all()
    assert np.all(np.diff(table.mean(axis=0)) > 0)


@pytest.mark.parametrize("loss", [0.0, 0.25, 1.0])
def test_answers_are_lost_as_often_as_said(loss):
    schedule = EventClock(loss=loss)
    bound = schedule.bind(N, 0)

    lost = [schedule.loses(c, i, bound) for c in range(N) for i in range(400)]

    # standard error .01
    assert abs(np.mean(lost) - loss) < 0.05
    assert lost == [schedule.loses(c, i, bound) for c in range(N) for i in range(400)]
    assert np.isfinite(latencies(schedule)).all()


def test_the_clock_goes_to_the_next_arrival_or_the_next_round():
    clock = EventClock()

    assert clock.next_time(1.5, [3.25, 1.75]) == 1.75
    assert clock.next_time(1.5, []) == 2.0
    assert clock.next_time(2.0, []) == 3.0


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize("field", ["late", "leaves", "answers"])
@pytest.mark.parametrize("client", [-1, N])
@pytest.mark.parametrize("kind", [Schedule, Rounds, EventClock])
def test_unknown_clients(kind, field, client):
    text = rf"{field} names client {client}, there are {N} \(counted from 0\)"
    with pytest.raises(InputError, match=text):
        kind(**{field: {0: 1, client: 1}}).bind(N, 0)


def test_unknown_silent_clients():
    with pytest.raises(InputError, match="silent names client 9, there are 5"):
        Schedule(silent=(0, 9)).bind(N, 0)


@pytest.mark.parametrize("word", ["always", "", "Random", "0.5"])
def test_unknown_words(word):
    text = f"participation '{word}' is unknown: give 'random', a probability, one per"
    with pytest.raises(InputError, match=text):
        Rounds(probability=word).bind(N, 0)


@pytest.mark.parametrize(
    ("probability", "size"), [([0.5], 1), ([0.5] * 4, 4), ([[0.5] * 5], 5), ([], 0)]
)
def test_a_wrong_number_of_probabilities(probability, size):
    text = f"participation has {size} probabilities for 5 clients"
    with pytest.raises(InputError, match=text):
        Rounds(probability=np.array(probability)).bind(N, 0)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_numbers_that_are_no_probabilities(value):
    for probability in (value, np.array([0.5, 0.5, value, 0.5, 0.5])):
        with pytest.raises(InputError, match=r"probabilities must lie in \[0, 1\]"):
            Rounds(probability=probability).bind(N, 0)


def test_a_negative_delay():
    with pytest.raises(InputError, match="delay must not be negative, not -1"):
        Rounds(delay=-1).bind(N, 0)


@pytest.mark.parametrize(
    ("means", "size"), [([1.0], 1), ([1.0] * 4, 4), ([[1.0] * 5], 5)]
)
def test_a_wrong_number_of_latencies(means, size):
    with pytest.raises(InputError, match=f"latency_mean has {size} numbers for 5"):
        EventClock(latency_mean=np.array(means)).bind(N, 0)


@pytest.mark.parametrize("mean", [-1.0, math.nan, math.inf])
def test_impossible_latencies(mean):
    with pytest.raises(
        InputError, match="latency_mean must be finite and not negative"
    ):
        EventClock(latency_mean=mean).bind(N, 0)


@pytest.mark.parametrize("field", ["spread", "loss"])
@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_impossible_spread_and_loss(field, value):
    with pytest.raises(InputError, match=rf"{field} must lie in \[0, 1\]"):
        EventClock(**{field: value}).bind(N, 0)


# ------------------------------------------------------------------ what users give


def test_nothing_is_everybody_always():
    assert as_schedule(None) == Schedule()


@pytest.mark.parametrize(
    "schedule", [Schedule(silent=(1,)), Rounds(), EventClock(), Replay()]
)
def test_a_schedule_is_itself(schedule):
    assert as_schedule(schedule) is schedule


def test_a_word_is_kept_for_the_check():
    assert as_schedule("random") == Rounds(probability="random")
    with pytest.raises(InputError, match="participation 'sometimes' is unknown"):
        as_schedule("sometimes").bind(N, 0)


@pytest.mark.parametrize("number", [0.3, 1, True, np.float32(0.5), np.array(0.25)])
def test_a_number_is_everybodys_probability(number):
    schedule = as_schedule(number)

    assert isinstance(schedule, Rounds)
    assert np.array_equal(part(schedule), part(Rounds(probability=float(number))))


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_several_numbers_are_one_each(kind):
    schedule = as_schedule(kind([0.0, 1.0, 0.0, 1.0, 0.0]))

    assert isinstance(schedule, Rounds)
    assert part(schedule).all(axis=0).tolist() == [False, True, False, True, False]


@pytest.mark.parametrize(
    "thing", [object(), {"a": 1}, ["a"], [[0.5], [0.5, 0.5]], 1j, b"random", print]
)
def test_other_things_are_refused(thing):
    with pytest.raises(InputError, match="is unknown: give 'random', a probability"):
        as_schedule(thing)


# ------------------------------------------------------------------ replay


def event(kind, tick, client=0, contact=0, **fields):
    return {"event": kind, "tick": tick, "client": client, "contact": contact, **fields}


TRACE = [
    {"event": "run", "tick": 0},
    event("ranges", 0, 0),
    event("send", 0, 0),
    event("send", 0, 1),
    event("hello", 0, 0),
    event("hello", 0, 1),
    {"event": "prepare", "tick": 0},
    event("send", 1, 0, 1),
    event("send", 1, 1, 1),
    event("send", 2, 2),
    event("hello", 2, 2),
    event("update", 3, 1, 1),
    event("update", 3, 0, 1),
    event("send", 4, 0, 2),
    event("failure", 5, 0, 2, reason="no answer"),
    event("send", 5, 1, 2),
    event("rejected", 6, 1, 2, reason="rubbish"),
    event("send", 6, 2, 1),
    event("left", 7, 0),
    {"event": "end", "tick": 9, "reason": "max_rounds"},
]


def test_replay_reads_the_comings_and_goings():
    replay = Replay.of(iter(TRACE))

    assert replay.sends == {(0, 1): 1, (1, 1): 1, (0, 2): 4, (1, 2): 5, (2, 1): 6}
    assert replay.late == {2: 2}
    assert replay.leaves == {0: 7}
    assert replay.failed == {(0, 2)}
    assert replay.present == {0, 1, 2}
    assert (replay.last, replay.settled) == (9, False)


def test_replay_asks_exactly_who_was_asked():
    table = part(Replay.of(TRACE), range(10), n_clients=3)

    asked = {(int(r), int(c)) for r, c in np.argwhere(table)}
    assert asked == {(1, 0), (1, 1), (4, 0), (5, 1), (6, 2)}


def test_replay_takes_as_long_as_it_took():
    replay = Replay.of(TRACE)
    bound = replay.bind(3, 0)

    assert replay.latency(0, 1, bound) == 2.0
    assert replay.latency(1, 1, bound) == 2.0
    assert replay.latency(0, 2, bound) == 1.0
    assert replay.latency(1, 2, bound) == 1.0
    assert replay.latency(2, 1, bound) == math.inf
    assert [replay.loses(c, i, bound) for c, i in [(0, 1), (0, 2), (1, 2)]] == [
        False,
        True,
        False,
    ]


def test_replay_keeps_the_order_of_arrival():
    replay = Replay.of(TRACE)

    assert replay.order(1, 1) < replay.order(0, 1)
    assert replay.order(0, 0) < replay.order(1, 0)


def test_replay_does_not_depend_on_the_seed():
    assert np.array_equal(
        part(Replay.of(TRACE), range(10), n_clients=3),
        part(Replay.of(TRACE), range(10), seed=5, n_clients=3),
    )


def test_clients_that_never_came_stay_away():
    bound = Replay.of(TRACE).bind(4, 0)

    assert bound.leaves(3) == 0
    assert bound.joins(3) == 10  # still awaited when the rounds were over
    settled = [*TRACE[:-1], {"event": "end", "tick": 9, "reason": "done"}]
    assert Replay.of(settled).bind(4, 0).joins(3) == 9  # given up at the end
    assert [bound.joins(c) for c in range(3)] == [0, 0, 2]


def test_replay_of_too_many_clients_is_refused():
    with pytest.raises(InputError, match="the trace names client 2, there are 2"):
        Replay.of(TRACE).bind(2, 0)


def test_replay_of_a_cut_trace_ends_where_it_was_cut():
    assert Replay.of(TRACE[:12]).last == 3
    assert Replay.of([]).last == 0

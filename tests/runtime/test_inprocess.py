# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from afcl.runtime.codec import decode, encode
from afcl.runtime.inprocess import InProcess
from afcl.runtime.journal import Entry
from afcl.runtime.schedule import EventClock, Rounds, Schedule
from afcl.runtime.site import Site
from afcl.runtime.transport import Failure, Reply


class Echo(Site):
    """Answers with what it was asked, and remembers how often that was."""

    def __init__(self, remembers: bool = False) -> None:
        super().__init__(np.zeros((1, 1)))
        self.asked: list[bytes] = []
        self._remembers = remembers

    def answer(self, request: bytes) -> bytes:
        self.asked.append(request)
        if self._remembers:
            self.memory = len(self.asked)
        return b"re: " + request


@dataclass(frozen=True)
class Timed(Schedule):
    """Latencies by (client, contact)."""

    times: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def latency(self, client, contact, bound):
        return self.times.get((client, contact), 0.0)


def transport(schedule=None, n_clients=3, **options):
    sites = [Echo() for _ in range(n_clients)]
    return InProcess(sites, (schedule or Schedule()).bind(n_clients, 0), **options)


def greet(wire, *clients):
    """Let clients say hello; return what came back."""
    for client in clients:
        wire.send(client, 0, b"hello?")
    return wire.poll()


def arrivals(wire):
    return [(answer.client, answer.ticket) for answer in wire.poll()]


# ------------------------------------------------------------------ asking


def test_everybody_is_here_at_the_start():
    wire = transport()

    assert wire.members() == [0, 1, 2]
    assert wire.round == 0
    assert not wire.expecting()
    assert wire.poll() == []


def test_an_answer_carries_its_ticket_and_client():
    wire = transport()

    tickets = [wire.send(2, 0, b"two"), wire.send(0, 0, b"nought")]

    assert len(set(tickets)) == 2
    assert wire.poll() == [
        Reply(tickets[1], 0, b"re: nought"),
        Reply(tickets[0], 2, b"re: two"),
    ]
    assert wire.poll() == []


def test_a_client_is_busy_until_its_answer_has_arrived():
    wire = transport(Timed(times={(1, 1): 2.0}))
    greet(wire, 0, 1, 2)
    wire.advance()

    wire.send(1, 1, b"step")

    seen = []
    for _ in range(3):
        seen.append((wire.members(), arrivals(wire)))
        wire.advance()
    assert seen == [([0, 2], []), ([0, 2], []), ([0, 2], [(1, 3)])]
    assert wire.members() == [0, 1, 2]


def test_agreement_and_hello_are_never_late_or_lost():
    wire = transport(EventClock(latency_mean=5.0, loss=1.0))

    for contact in (-1, 0):
        wire.send(0, contact, b"?")
        assert isinstance(wire.poll()[0], Reply)


def test_memory_travels_with_the_answer():
    site = Echo(remembers=True)
    wire = InProcess([site], Schedule().bind(1, 0))

    greet(wire, 0)
    wire.send(0, 1, b"step")

    assert wire.poll() == [Reply(1, 0, b"re: step", encode(2))]
    assert decode(encode(site.memory)) == 2


def test_known_answers_are_used_instead_of_asking():
    known = {
        (0, 0): Entry(0, 0, b"said before"),
        (0, 1): Entry(0, 1, b"said then", encode(("kept", 1))),
    }
    site = Echo(remembers=True)
    site.memory = "anything"
    wire = InProcess([site], Schedule().bind(1, 0), known)

    assert greet(wire, 0) == [Reply(0, 0, b"said before")]
    assert site.memory is None
    wire.send(0, 1, b"step")
    assert wire.poll() == [Reply(1, 0, b"said then", encode(("kept", 1)))]
    assert site.memory == ("kept", 1)
    assert site.asked == []

    wire.send(0, 2, b"next")
    assert wire.poll() == [Reply(2, 0, b"re: next", encode(1))]
    assert site.asked == [b"next"]


def test_known_answers_are_as_late_as_they_would_have_been():
    known = {(0, 1): Entry(0, 1, b"known")}
    wire = transport(Timed(times={(0, 1): 3.0}), known=known)
    greet(wire, 0)
    wire.send(0, 1, b"step")

    assert wire.poll() == []
    for _ in range(3):
        wire.advance()
    assert [answer.data for answer in wire.poll()] == [b"known"]


def test_closing_changes_nothing():
    wire = transport()
    wire.close()

    assert wire.members() == [0, 1, 2]


# ------------------------------------------------------------------ participation


def test_who_was_not_greeted_is_here_whatever_its_probability():
    wire = transport(Rounds(probability=0.0))

    assert wire.members() == [0, 1, 2]
    greet(wire, 0, 2)
    assert wire.members() == [1]


def test_participation_follows_the_schedule():
    schedule = Rounds(probability=0.5)
    wire = transport(schedule)
    greet(wire, 0, 1, 2)
    bound = schedule.bind(3, 0)

    for now in range(1, 20):
        wire.advance()
        assert wire.round == now
        assert wire.members() == [c for c in range(3) if bound.takes_part(c, now, 0)]


def test_silent_clients_say_hello_and_nothing_else():
    wire = transport(Schedule(silent={1}))

    assert wire.members() == [0, 1, 2]
    greet(wire, 0, 1, 2)
    wire.advance()
    assert wire.members() == [0, 2]


def test_one_shot_clients_answer_once_after_their_hello():
    wire = transport(Schedule(answers={0: 1}))
    greet(wire, 0, 1, 2)
    wire.advance()
    assert wire.members() == [0, 1, 2]

    wire.send(0, 1, b"step")
    wire.poll()
    wire.advance()
    assert wire.members() == [1, 2]


def test_late_clients_are_expected_and_come():
    wire = transport(Schedule(late={1: 2}))

    assert wire.members() == [0, 2]
    assert wire.expecting()
    wire.advance()
    assert wire.expecting()
    wire.advance()
    assert wire.members() == [0, 1, 2]
    assert not wire.expecting()


# ------------------------------------------------------------------ arriving


def test_answers_arrive_by_time_then_client():
    times = {(0, 1): 2.0, (1, 1): 1.0, (2, 1): 2.0}
    wire = transport(Timed(times=times))
    greet(wire, 2, 1, 0)
    for client in (2, 1, 0):
        wire.send(client, 1, b"step")

    wire.advance()
    wire.advance()

    assert [client for client, _ in arrivals(wire)] == [1, 0, 2]


def test_lost_answers_are_failures_after_the_site_did_its_work():
    wire = transport(EventClock(loss=1.0, spread=0.0))
    greet(wire, 0)

    ticket = wire.send(0, 1, b"step")

    assert wire.members() == [1, 2]
    assert wire.poll() == []
    wire.advance()
    assert wire.poll() == [Failure(ticket, 0, "no answer")]
    assert wire.members() == [0, 1, 2]
    assert wire.sites[0].asked == [b"hello?", b"step"]


def test_what_never_arrives_neither_comes_nor_frees_its_client():
    wire = transport(Timed(times={(0, 1): math.inf}))
    greet(wire, 0)
    wire.send(0, 1, b"step")

    for _ in range(5):
        wire.advance()
        assert wire.poll() == []
        assert wire.members() == [1, 2]


# ------------------------------------------------------------------ leaving


def test_who_leaves_is_told_once():
    wire = transport(Schedule(leaves={1: 2}))
    greet(wire, 0, 1, 2)
    wire.advance()
    assert wire.poll() == []
    assert wire.members() == [0, 1, 2]

    wire.advance()
    assert wire.members() == [0, 2]
    assert wire.poll() == [Failure(-1, 1, "left", gone=True)]
    wire.advance()
    assert wire.poll() == []
    assert wire.members() == [0, 2]


def test_who_leaves_before_the_start_is_never_seen():
    wire = transport(Schedule(leaves={1: 0}, late={2: 3}))
    greet(wire, 0)

    for _ in range(5):
        wire.advance()
        assert 1 not in wire.members()
        assert wire.poll() == []


def test_who_leaves_before_joining_is_never_seen():
    wire = transport(Schedule(late={1: 3}, leaves={1: 2}))

    assert wire.expecting()
    for _ in range(4):
        wire.advance()
        assert wire.members() == [0, 2]
        assert wire.poll() == []
    assert not wire.expecting()


def test_what_is_under_way_is_lost_with_its_client():
    wire = transport(Timed(leaves={0: 2}, times={(0, 1): 3.0, (1, 1): 3.0}))
    greet(wire, 0, 1, 2)
    wire.send(0, 1, b"step")
    wire.send(1, 1, b"step")

    came = []
    for _ in range(4):
        wire.advance()
        came.append([(answer.client, type(answer)) for answer in wire.poll()])

    assert came == [[], [(0, Failure)], [(1, Reply)], []]


def test_what_arrives_as_its_client_leaves_comes_before_the_leaving():
    wire = transport(Timed(leaves={0: 1}, times={(0, 1): 1.0}))
    greet(wire, 0)
    ticket = wire.send(0, 1, b"step")
    wire.advance()

    assert wire.poll() == [
        Reply(ticket, 0, b"re: step"),
        Failure(-1, 0, "left", gone=True),
    ]


# ------------------------------------------------------------------ the clock


def test_the_event_clock_goes_from_arrival_to_arrival():
    schedule = EventClock(latency_mean=np.array([0.5, 0.8, 3.0]), spread=0.0)
    wire = transport(schedule)
    greet(wire, 0, 1, 2)
    for client in range(3):
        wire.send(client, 1, b"step")

    came = []
    for _ in range(4):
        wire.advance()
        came.append((wire.round, [client for client, _ in arrivals(wire)]))

    # at .5, .8 and 3; with nothing under way, the next round
    assert came == [(0, [0]), (0, [1]), (3, [2]), (4, [])]


def test_the_event_clock_stops_for_a_joiner():
    wire = transport(EventClock(latency_mean=5.0, spread=0.0, late={1: 2, 2: 4}))
    greet(wire, 0)
    wire.send(0, 1, b"step")

    stops = []
    for _ in range(3):
        wire.advance()
        stops.append((wire.round, wire.members()))

    assert stops == [(2, [1]), (4, [1, 2]), (5, [1, 2])]
    assert [client for client, _ in arrivals(wire)] == [0]


@pytest.mark.parametrize("schedule", [Schedule(), Rounds(delay=2), EventClock()])
def test_time_only_goes_forward(schedule):
    wire = transport(schedule)
    greet(wire, 0, 1, 2)
    rounds, contact = [0], [0] * 3
    for _ in range(30):
        wire.advance()
        for client in wire.members():
            contact[client] += 1
            wire.send(client, contact[client], b"step")
        wire.poll()
        rounds.append(wire.round)

    assert all(a <= b for a, b in zip(rounds, rounds[1:], strict=False))
    assert rounds[-1] > 5
    assert min(contact) > 3

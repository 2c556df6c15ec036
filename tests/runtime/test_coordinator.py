# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from afcl.core.messages import Broadcast, Cells, Hello, Left, Positions, Update
from afcl.core.protocol import Clustering, Method, PathLevel
from afcl.core.terms import AskHello, AskRanges, AskStep
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods import get_method
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.inprocess import InProcess
from afcl.runtime.journal import Journal
from afcl.runtime.schedule import EventClock, Replay, Rounds, Schedule
from afcl.runtime.simulate import simulate
from afcl.runtime.site import Site
from afcl.runtime.spec import Spec
from afcl.runtime.transport import Failure, Reply
from afcl.scale import Ranges
from afcl.trace import EVENTS, SCHEMA, Trace, check

SPOTS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
NAMES = ("north", "east", "south", "west", "middle")


def blobs(n_clients=5, size=8, seed=0):
    """Three spots, everybody sees all of them."""
    rng = np.random.default_rng(seed)
    return [
        np.concatenate([rng.normal(spot, 0.3, (size, 2)) for spot in SPOTS])
        for _ in range(n_clients)
    ]


# ------------------------------------------------------------------ a method that notes


@dataclass(frozen=True)
class Notes:
    """What a server of the method below has heard."""

    params: Any
    seed: int
    heard: tuple[Any, ...] = ()
    rounds: int = 0
    prepared: int = 0
    positions: Mapping[int, Any] = field(default_factory=dict)
    answers: Mapping[int, int] = field(default_factory=dict)


class Diary(Method[Any, Notes]):
    """Writes down every message; each client is asked for `answers` of them.

    A client remembers how often it answered and says so together with a draw, its
    label depends on it: whatever goes wrong with memory or luck shows.
    """

    name = "diary"
    needs_k = False

    def parameters(self, **options):
        return {"answers": 2, "extra": 0, **options}

    def settle(self, params, n_rows):
        return {**params, "n_rows": n_rows}

    def hello(self, X, params, rng):
        return Hello(X.shape[0], Positions(X.mean(axis=0, keepdims=True)))

    def init(self, hellos, params, seed):
        return Notes(params, seed)

    def absorb(self, state, message):
        if isinstance(message, Left):
            return replace(state, heard=(*state.heard, ("left", message.client))), {}
        client, said = message.client, message.payload
        if isinstance(message, Hello):
            note: tuple[Any, ...] = ("hello", client, message.contact, message.n_rows)
            positions = {**state.positions, client: said.points}
            state = replace(state, positions=positions)
        else:
            if not isinstance(said, tuple):
                raise RejectedMessage("an update must carry a tuple")
            note = ("update", client, message.contact, message.version, said)
            answers = {**state.answers, client: state.answers.get(client, 0) + 1}
            state = replace(state, answers=answers)
        return replace(state, heard=(*state.heard, note)), {"noted": len(state.heard)}

    def end_round(self, state):
        return replace(state, rounds=state.rounds + 1)

    def prepare(self, state):
        return replace(state, prepared=len(state.heard))

    def _wanted(self, state):
        most = state.params["answers"]
        return frozenset(c for c in state.positions if state.answers.get(c, 0) < most)

    def broadcast(self, state):
        return Broadcast(state.prepared, float(state.prepared), self._wanted(state))

    def client_step(self, broadcast, X, memory, params, rng):
        memory = (memory or 0) + 1
        return Update((memory, float(rng.random()), broadcast.payload)), memory

    def done(self, state):
        return not self._wanted(state)

    def result(self, state):
        centers = np.concatenate([state.positions[c] for c in sorted(state.positions)])
        sizes = np.ones(centers.shape[0])
        level = PathLevel(centers.shape[0], centers, sizes, {"score": None})
        return Clustering(centers, sizes, {"score": None}, (level,))

    def progress(self, state):
        version = state.prepared
        k = len(state.positions)
        return {"k": k, "objective": None, "version": version, "movement": 0.0}

    def label(self, clustering, X, memory, client):
        return np.full(X.shape[0], (memory or 0) % clustering.k, dtype=np.int64)


@pytest.fixture(autouse=True)
def _diary_on_the_shelf(monkeypatch):
    def find(name):
        return Diary() if name == "diary" else get_method(name)

    monkeypatch.setattr("afcl.runtime.site.get_method", find)


@dataclass(frozen=True)
class Timed(Schedule):
    """Latencies by (client, contact)."""

    times: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def latency(self, client, contact, bound):
        return self.times.get((client, contact), 0.0)


class Wire(InProcess):
    """In-process, except that `faults` replaces answers, by (client, contact)."""

    def __init__(self, tables, schedule=None, faults=None, seed=0):
        bound = (schedule or Schedule()).bind(len(tables), seed)
        super().__init__([Site(table) for table in tables], bound)
        self.requests = []
        self.closed = False
        self._faults = faults or {}
        self._contacts = {}

    def send(self, client, contact, data):
        ticket = super().send(client, contact, data)
        self.requests.append(decode(data))
        self._contacts[ticket] = contact
        return ticket

    def poll(self):
        return [self._damaged(answer) for answer in super().poll()]

    def _damaged(self, answer):
        fault = self._faults.get((answer.client, self._contacts.get(answer.ticket)))
        return answer if fault is None else fault(answer)

    def close(self):
        self.closed = True


def lost(reply):
    return Failure(reply.ticket, reply.client, "the line is down")


def saying(message):
    return lambda reply: replace(reply, data=encode(message))


def run(wire, method=None, trace=None, clock=None, **options):
    spec = Spec(method or Diary(), **{"names": NAMES[: len(wire.sites)], **options})
    coordinator = Coordinator(spec, wire, trace=trace, clock=clock)
    return coordinator.run()


def same_centers(a, b):
    return np.array_equal(a.centers, b.centers)


def plain(trace, *without):
    """Events without the keys that may differ."""
    return [{k: v for k, v in e.items() if k not in without} for e in trace]


# ------------------------------------------------------------------ a whole run


def test_a_run_from_agreement_to_end():
    wire = Wire(blobs(2))

    finished = run(wire, options={"answers": 1}, seed=3, run="r1")

    assert [type(request) for request in wire.requests] == [
        AskRanges,
        AskRanges,
        AskHello,
        AskHello,
        AskStep,
        AskStep,
    ]
    assert [event["event"] for event in finished.trace] == [
        *["run", "ranges", "ranges"],
        *["send", "send", "hello", "hello", "prepare"],
        *["send", "send", "update", "update", "prepare", "end"],
    ]
    assert finished.rounds == 1
    assert [note[:3] for note in finished.state.heard] == [
        ("hello", 0, 0),
        ("hello", 1, 0),
        ("update", 0, 1),
        ("update", 1, 1),
    ]
    assert wire.closed


def test_the_first_event_introduces_the_run():
    options = {"answers": 1, "extra": 7}
    finished = run(Wire(blobs(2)), options=options, seed=3, run="r1")

    assert finished.trace.events[0] == {
        "event": "run",
        "tick": 0,
        "schema": SCHEMA,
        "run": "r1",
        "method": "diary",
        "parameters": options,
        "seed": 3,
        "clients": ["north", "east"],
    }


def test_every_request_says_everything_a_client_needs():
    wire = Wire(blobs(2))
    finished = run(wire, options={"answers": 1}, seed=3, run="r1")
    terms = finished.terms

    assert (terms.run, terms.method, terms.seed, terms.n_rows) == ("r1", "diary", 3, 48)
    assert terms.options == '{"answers": 1}'
    for request in wire.requests[2:]:
        assert encode(replace(request.terms, client=-1)) == encode(terms)
    assert [request.terms.client for request in wire.requests[2:]] == [0, 1, 0, 1]
    step = wire.requests[-1]
    assert (step.version, step.contact, step.payload) == (2, 1, 2.0)


def test_the_coordinator_stamps_who_and_when():
    heard = run(Wire(blobs(2)), options={"answers": 1}).state.heard

    assert heard[1][:3] == ("hello", 1, 0)
    assert heard[3][:4] == ("update", 1, 1, 2)


@pytest.mark.parametrize(
    "forged",
    [
        Hello(24, Positions(np.zeros((1, 2))), client=0),
        Hello(24, Positions(np.zeros((1, 2))), contact=9),
    ],
)
def test_a_hello_in_another_name_is_refused(forged):
    finished = run(Wire(blobs(2), faults={(1, 0): saying(forged)}))

    assert {note[1] for note in finished.state.heard} == {0}
    (event, *_) = finished.trace.of("rejected")
    assert (event["client"], event["contact"]) == (1, 0)
    assert event["reason"] == "a client does not say who it is or what it answers"


@pytest.mark.parametrize("stamp", [{"version": 2}, {"client": 0}, {"contact": 1}])
def test_an_answer_in_another_name_is_refused(stamp):
    forged = saying(Update((0, 0.0, 0.0), **stamp))
    finished = run(Wire(blobs(2), faults={(1, 1): forged}), options={"answers": 1})

    (event,) = finished.trace.of("rejected")
    assert (event["client"], event["contact"]) == (1, 1)
    assert [note[:3] for note in finished.state.heard][-1] == ("update", 1, 2)


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(),
        Rounds(probability="random", delay=2),
        EventClock(loss=0.3),
        Schedule(late={1: 3}, leaves={2: 2}, silent={3}),
    ],
    ids=["all", "rounds", "clock", "goings"],
)
def test_every_trace_keeps_the_schema(schedule):
    trace = run(Wire(blobs(), schedule), max_rounds=20).trace

    assert check(trace) == trace.events
    assert {event["event"] for event in trace} <= set(EVENTS)
    ticks = [event["tick"] for event in trace]
    assert ticks == sorted(ticks)
    assert all("at" not in event for event in trace)


def test_events_carry_the_time_if_there_is_a_clock():
    times = iter(range(100))
    trace = run(Wire(blobs(2)), clock=lambda: float(next(times))).trace

    assert [event["at"] for event in trace] == list(range(len(trace)))


def test_the_given_trace_hears_everything():
    heard: list[dict[str, Any]] = []
    trace = Trace(heard.append)

    finished = run(Wire(blobs(2)), trace=trace)

    assert finished.trace is trace
    assert heard == trace.events


def test_diagnostics_are_told_with_the_message():
    trace = run(Wire(blobs(2))).trace

    noted = [event["noted"] for event in trace.of("hello", "update")]
    assert noted == [0, 1, 2, 3, 4, 5]


# ------------------------------------------------------------------ stopping


def test_done_stops_the_run():
    finished = run(Wire(blobs()), options={"answers": 2})

    assert finished.rounds == 2
    assert finished.trace.events[-1]["reason"] == "done"
    assert finished.trace.events[-1]["k"] == 5


@pytest.mark.parametrize("max_rounds", [0, 1, 4])
def test_max_rounds_stops_the_run(max_rounds):
    finished = run(Wire(blobs()), options={"answers": 10**6}, max_rounds=max_rounds)

    assert finished.rounds == max_rounds
    assert finished.trace.events[-1]["reason"] == "max_rounds"
    assert all(tally.messages == 1 + max_rounds for tally in finished.tallies.values())


def test_done_wins_over_max_rounds():
    finished = run(Wire(blobs()), options={"answers": 2}, max_rounds=2)

    assert finished.trace.events[-1]["reason"] == "done"


def test_silence_ends_with_the_rounds():
    finished = run(Wire(blobs(), Schedule(silent=range(5))), max_rounds=7)

    assert finished.rounds == 7
    assert finished.trace.of("update") == []
    assert len(finished.trace.of("prepare")) == 1
    assert finished.state.rounds == 7


def test_a_run_waits_for_who_is_expected():
    finished = run(Wire(blobs(), Schedule(late={4: 6})), options={"answers": 1})

    joined = next(e for e in finished.trace.of("hello") if e["client"] == 4)
    assert joined["tick"] == 6
    assert finished.rounds == 7
    assert finished.trace.events[-1]["reason"] == "done"


def test_a_run_does_not_wait_beyond_its_rounds():
    finished = run(Wire(blobs(), Schedule(late={4: 60})), max_rounds=5)

    assert finished.rounds == 5
    assert finished.trace.events[-1]["reason"] == "max_rounds"
    assert 4 not in finished.tallies


def test_afcl_asks_for_three_messages_at_most():
    finished = run(Wire(blobs()), get_method("afcl"))

    assert {tally.messages for tally in finished.tallies.values()} <= {1, 2, 3}
    for client in range(5):
        sent = [e for e in finished.trace.of("send") if e["client"] == client]
        assert len(sent) <= 3
    assert finished.trace.events[-1]["reason"] == "done"


def test_afcl_asks_for_no_more_contacts_than_said():
    finished = run(Wire(blobs()), get_method("afcl"), options={"contacts": 2})

    assert {tally.messages for tally in finished.tallies.values()} == {2}


# ------------------------------------------------------------------ counting


def test_bytes_and_rows_are_tallied():
    finished = run(Wire(blobs(), Rounds(probability=0.5)), max_rounds=9)
    trace = finished.trace

    for client, tally in finished.tallies.items():
        events = [e for e in trace.of("hello", "update") if e["client"] == client]
        assert tally.messages == len(events)
        assert tally.bytes == sum(event["bytes"] for event in events) > 0
        assert tally.rows == 24
    end = trace.events[-1]
    assert end["bytes"] == sum(tally.bytes for tally in finished.tallies.values())
    assert end["messages"] == sum(t.messages for t in finished.tallies.values())


def test_sizes_are_those_on_the_wire():
    seen = {}

    class Weighing(Wire):
        def poll(self):
            answers = super().poll()
            for answer in answers:
                seen[answer.client, self._contacts[answer.ticket]] = answer.data
            return answers

    wire = Weighing(blobs(2))
    trace = run(wire, get_method("afcl")).trace

    for event in trace.of("hello", "update"):
        data = seen[event["client"], event["contact"]]
        assert event["bytes"] == len(data)
        assert 0 < event["array_bytes"] < event["bytes"]
    cells = decode(seen[0, 0]).payload
    assert isinstance(cells, Cells)
    nbytes = cells.counts.nbytes + cells.means.nbytes + cells.scatters.nbytes
    assert trace.of("hello")[0]["array_bytes"] == nbytes
    for event, request in zip(trace.of("send"), wire.requests[2:], strict=True):
        assert event["bytes"] == len(encode(request))
    assert [event["bytes"] for event in trace.of("ranges")] == [
        len(seen[client, -1]) for client in range(2)
    ]


def test_staleness_is_the_age_of_what_was_answered():
    # Client 0 answers version 3 (three hellos) two rounds later. Each round the others'
    # answers make the version grow: 3, 5, 7 are broadcast in rounds 1, 2 and 3.
    schedule = Timed(times={(0, 1): 2.0})
    trace = run(Wire(blobs(3), schedule), options={"answers": 3}).trace

    late = next(e for e in trace.of("update") if (e["client"], e["contact"]) == (0, 1))
    assert (late["tick"], late["version"], late["staleness"]) == (3, 3, 4)
    assert {e["staleness"] for e in trace.of("update") if e is not late} == {0}


# ------------------------------------------------------------------ what goes wrong

RUBBISH = {
    "cut": lambda reply: replace(reply, data=reply.data[:-1]),
    "empty": lambda reply: replace(reply, data=b""),
    "rubbish": lambda reply: replace(reply, data=b"rubbish" * 9),
    "type": saying(Ranges(1, 1, np.zeros(1), np.zeros(1))),
    "payload": saying(Update("text")),
    "hello": saying(Hello(24, Positions(np.zeros((1, 2))))),
    "scalar": lambda reply: replace(reply, data=encode(5)),
}


@pytest.mark.parametrize("kind", sorted(RUBBISH))
def test_a_rejected_message_changes_nothing_and_is_traced(kind):
    rejecting = run(Wire(blobs(3), faults={(1, 1): RUBBISH[kind]}))
    losing = run(Wire(blobs(3), faults={(1, 1): lost}))

    (event,) = rejecting.trace.of("rejected")
    assert (event["tick"], event["client"], event["contact"]) == (1, 1, 1)
    assert event["reason"]
    assert "\n" not in event["reason"]
    assert rejecting.state.heard == losing.state.heard
    others = [e for e in rejecting.trace if e["event"] != "rejected"]
    assert others == [e for e in losing.trace if e["event"] != "failure"]
    assert rejecting.tallies == losing.tallies
    # asked once more than the others, as the answer is still wanted
    assert [e["contact"] for e in rejecting.trace.of("send") if e["client"] == 1] == [
        *[0, 1, 2, 3]
    ]


def test_a_rejected_message_is_not_journalled(tmp_path):
    wire = Wire(blobs(3), faults={(1, 1): RUBBISH["cut"]})
    with Journal(tmp_path / "journal.bin", "run") as journal:
        Coordinator(Spec(Diary()), wire, journal=journal).run()

        assert (1, 1) not in journal.entries
        assert {(1, 0), (1, 2), (1, 3), (0, 1)} <= set(journal.entries)


@pytest.mark.parametrize(
    "wrong",
    [
        Hello(24, None),
        Hello(24, Positions(np.zeros((1, 2)))),
        Hello(0, Cells(np.array([5]), np.zeros((1, 2)), np.zeros(1))),
        Hello(24, Cells(np.array([99]), np.zeros((1, 2)), np.zeros(1))),
        Hello(24, Cells(np.array([24]), np.full((1, 2), np.nan), np.zeros(1))),
        Hello(24, Cells(np.array(24), np.zeros((1, 2)), np.zeros(1))),
        Hello(24, Cells(np.array([24.0]), np.zeros((1, 2)), np.zeros(1))),
        Update(None),
    ],
)
def test_afcl_goes_on_without_a_hello_it_rejects(wrong):
    finished = run(Wire(blobs(), faults={(4, 0): saying(wrong)}), get_method("afcl"))

    assert {e["client"] for e in finished.trace.of("rejected")} == {4}
    assert finished.clustering.k == 3
    assert 4 not in finished.tallies


def test_a_rejected_hello_is_asked_for_again():
    class Once(Wire):
        def _damaged(self, answer):
            if self._contacts.get(answer.ticket) == 0 and answer.client == 1:
                self._contacts[answer.ticket] = 9
                if self.round == 0:
                    return replace(answer, data=b"")
            return super()._damaged(answer)

    trace = run(Once(blobs(3))).trace

    told = [(e["event"], e["tick"]) for e in trace if e.get("client") == 1]
    assert told[:5] == [
        ("ranges", 0),
        ("send", 0),
        ("rejected", 0),
        ("send", 1),
        ("hello", 1),
    ]


def test_random_damage_to_headers_never_stops_a_run():
    rng = np.random.default_rng(0)

    def flip(reply):
        data = bytearray(reply.data)
        header = 9 + int.from_bytes(data[5:9], "little")
        data[rng.integers(header)] ^= rng.integers(1, 256)
        return replace(reply, data=bytes(data))

    faults = {(c, i): flip for c in range(5) for i in range(0, 40, 2) if c + i > 0}
    for seed in range(8):
        wire = Wire(blobs(seed=seed), Rounds(probability=0.7), faults, seed)
        finished = run(wire, get_method("afcl"), seed=seed, max_rounds=12)
        assert finished.clustering.k >= 1
        assert check(finished.trace)


def test_failures_are_traced_and_the_client_is_asked_again():
    finished = run(Wire(blobs(3), faults={(1, 1): lost}))

    assert finished.trace.of("failure") == [
        {
            "event": "failure",
            "tick": 1,
            "client": 1,
            "contact": 1,
            "reason": "the line is down",
        }
    ]
    assert finished.tallies[1].messages == 3
    assert finished.trace.events[-1]["reason"] == "done"


def test_failures_nobody_asked_for_are_traced():
    class Nervous(Wire):
        def poll(self):
            extra = [Failure(-1, 2, "hiccup")] if self.round == 1 else []
            return [*super().poll(), *extra]

    (event,) = run(Nervous(blobs(3))).trace.of("failure")
    assert (event["client"], event["contact"], event["reason"]) == (2, -1, "hiccup")


def test_an_answer_to_nothing_is_rejected():
    class Chatty(Wire):
        def poll(self):
            again = [Reply(10**6, 0, encode(Update((1,))))] if self.round == 1 else []
            return [*super().poll(), *again]

    finished = run(Chatty(blobs(3)))

    (event,) = finished.trace.of("rejected")
    assert event["reason"] == "answers nothing that this client was asked"
    assert (event["client"], event["contact"]) == (0, -1)
    assert finished.rejected == {0: 1}
    assert finished.state.heard == run(Wire(blobs(3))).state.heard


def test_an_answer_with_another_clients_ticket_is_refused():
    class Thief(Wire):
        """Client 2 answers what client 1 was asked in round 1, before 1 does."""

        def poll(self):
            answers = super().poll()
            if self.round != 1 or self._contacts.get(answers[0].ticket) != 1:
                return answers
            one = next(answer for answer in answers if answer.client == 1)
            two = next(answer for answer in answers if answer.client == 2)
            return [replace(two, ticket=one.ticket), *answers]

    finished = run(Thief(blobs(3)))

    (event,) = finished.trace.of("rejected")
    assert (event["client"], event["tick"]) == (2, 1)
    assert finished.state.heard == run(Wire(blobs(3))).state.heard


def test_an_answer_that_comes_twice_counts_once():
    class Echoing(Wire):
        def poll(self):
            return [answer for answer in super().poll() for _ in range(2)]

    finished = run(Echoing(blobs(3)))

    assert finished.state.heard == run(Wire(blobs(3))).state.heard
    assert {tally.messages for tally in finished.tallies.values()} == {3}
    assert finished.trace.of("rejected") == []
    assert len(finished.trace.of("duplicate")) == 3 * 4  # the ranges, too
    plainly = [e for e in finished.trace if e["event"] != "duplicate"]
    assert plainly == run(Wire(blobs(3))).trace.events


def test_who_is_refused_three_times_in_a_row_is_not_asked_again():
    bad = dict.fromkeys([(1, i) for i in (1, 2, 3)], RUBBISH["cut"])
    finished = run(Wire(blobs(3), faults=bad), options={"answers": 5})

    assert finished.trace.of("left") == [
        {
            "event": "left",
            "tick": 3,
            "client": 1,
            "reason": "3 messages in a row were refused",
        }
    ]
    assert finished.rejected == {1: 3}
    assert finished.state.heard.count(("left", 1)) == 1
    assert [e["contact"] for e in finished.trace.of("send") if e["client"] == 1] == [
        *[0, 1, 2, 3]
    ]
    assert finished.tallies[1].messages == 1
    assert finished.tallies[0].messages == 6


def test_a_sound_message_in_between_starts_the_count_again():
    bad = dict.fromkeys([(1, i) for i in (1, 2, 4, 5)], RUBBISH["cut"])
    finished = run(Wire(blobs(3), faults=bad), options={"answers": 3})

    assert finished.trace.of("left") == []
    assert finished.rejected == {1: 4}
    assert finished.tallies[1].messages == 4


@pytest.mark.parametrize("leaves", [{}, {1: 5}])
def test_who_never_says_a_sound_hello_is_shut_out_once(leaves):
    wire = Wire(blobs(3), Schedule(leaves=leaves), faults={(1, 0): RUBBISH["cut"]})
    finished = run(wire, options={"answers": 6})

    assert [e["client"] for e in finished.trace.of("left")] == [1]
    assert finished.rejected == {1: 3}
    assert 1 not in finished.tallies
    assert ("left", 1) not in finished.state.heard
    assert [e["tick"] for e in finished.trace.of("send") if e["client"] == 1] == [
        *[0, 1, 2]
    ]


def test_a_hello_must_be_of_the_rows_that_were_announced():
    more = saying(Hello(25, Positions(np.zeros((1, 2)))))
    finished = run(Wire(blobs(3), faults={(1, 0): more}))

    (event, *_) = finished.trace.of("rejected")
    assert event["reason"] == "a hello of 25 rows, 24 were announced"
    assert 1 not in finished.tallies


def test_who_joins_late_has_announced_nothing():
    finished = run(Wire(blobs(3), Schedule(late={1: 2})))

    assert finished.tallies[1].rows == 24


def test_a_long_reason_is_cut():
    class Wordy(Diary):
        def absorb(self, state, message):
            if isinstance(message, Update):
                raise RejectedMessage("x" * 10**6)
            return super().absorb(state, message)

    finished = run(Wire(blobs(2)), Wordy(), max_rounds=1)

    assert {len(e["reason"]) for e in finished.trace.of("rejected")} == {300}


def test_no_hello_says_why():
    bad = dict.fromkeys([(c, 0) for c in range(3)], saying(Update(None)))

    with pytest.raises(InputError, match="no client said hello: a Update does not"):
        run(Wire(blobs(3), faults=bad))


def test_afcl_refuses_rows_far_outside_the_bounds():
    # One width beyond the agreed box is allowed, more is not.
    tables = blobs(2)
    near, far = ([2.0, -5.0], [12.0, 15.0]), ([40.0, 0.0], [50.0, 10.0])

    assert run(Wire(tables), get_method("afcl"), scale=near).clustering.k == 3
    with pytest.raises(InputError, match="no client said hello: a mean lies more than"):
        run(Wire(tables), get_method("afcl"), scale=far)
    assert run(Wire(tables), get_method("afcl"), scale=None).clustering.k == 3


def test_the_first_hello_does_not_choose_the_columns():
    wide = saying(Hello(24, Cells(np.array([24]), np.zeros((1, 3)), np.zeros(1))))
    finished = run(Wire(blobs(3), faults={(0, 0): wide}), get_method("afcl"))

    assert {e["client"] for e in finished.trace.of("rejected")} == {0}
    assert set(finished.tallies) == {1, 2}
    assert finished.clustering.k == 3


def test_the_method_is_told_who_left():
    finished = run(Wire(blobs(3), Schedule(leaves={1: 2})), max_rounds=9)

    assert finished.trace.of("left") == [{"event": "left", "tick": 2, "client": 1}]
    assert finished.state.heard.count(("left", 1)) == 1
    assert finished.tallies[1].messages == 2


def test_afcl_ends_without_those_who_left():
    schedule = Schedule(leaves={0: 1, 1: 1})
    finished = run(Wire(blobs(), schedule), get_method("afcl"))

    assert finished.trace.events[-1]["reason"] == "done"
    assert finished.clustering.k == 3
    assert finished.tallies[0].messages == 1


# ------------------------------------------------------------------ no start


def test_nobody_at_the_start():
    wire = Wire(blobs(), Schedule(late=dict.fromkeys(range(5), 1)))

    with pytest.raises(InputError, match="no client is there at the start"):
        run(wire)
    assert wire.closed


def test_no_answer_to_the_agreement():
    wire = Wire(blobs(3), faults={(c, -1): lost for c in range(3)})
    trace = Trace()

    with pytest.raises(InputError, match="no client answered the agreement on scales"):
        run(wire, trace=trace)
    assert [e["client"] for e in trace.of("failure")] == [0, 1, 2]
    assert wire.closed


def test_no_hello():
    wire = Wire(blobs(3), faults={(c, 0): lost for c in range(3)})

    with pytest.raises(InputError, match="no client said hello"):
        run(wire)


@pytest.mark.parametrize(
    "fault",
    [
        lost,
        RUBBISH["cut"],
        RUBBISH["rubbish"],
        saying(Update(None)),
        saying(Ranges(24, 2, np.zeros(3), np.zeros(3))),
        saying(Ranges(24, 2, np.zeros(2), np.zeros((1, 2)))),
        saying(Ranges(-1, 2, np.zeros(2), np.ones(2))),
        saying(Ranges(24, 2, np.zeros(2), np.array([np.nan, 1.0]))),
        saying(Ranges(24, 2, np.full(2, -np.inf), np.zeros(2))),
    ],
)
def test_the_agreement_goes_on_without_who_does_not_answer_it(fault):
    tables = blobs(3)
    tables[2] = tables[2] + 100.0
    finished = run(Wire(tables, faults={(2, -1): fault}))

    assert finished.terms.n_rows == 48
    assert finished.terms.box.low.max() < 50
    (event,) = finished.trace.of("failure", "rejected")
    assert (event["client"], event["contact"], event["tick"]) == (2, -1, 0)
    assert finished.tallies[2].messages == 3


def test_different_numbers_of_columns():
    tables = [*blobs(2), np.ones((24, 3))]

    for scale in ("minmax", None):
        with pytest.raises(InputError, match=r"different numbers of columns, \[2, 3\]"):
            run(Wire(tables), scale=scale)


def test_a_client_that_cannot_answer_is_named():
    tables = [*blobs(2), np.ones((3, 2))]

    with pytest.raises(InputError, match="^south: this client has 3 rows"):
        run(Wire(tables), get_method("afcl"))


@pytest.mark.parametrize("names", [("only",), ()])
def test_an_only_client_needs_no_name(names):
    with pytest.raises(InputError, match="^this client has 3 rows"):
        run(Wire([np.ones((3, 2))]), get_method("afcl"), names=names)


def test_the_transport_is_closed_whatever_happens():
    class Breaking(Wire):
        def advance(self):
            raise RuntimeError("cable cut")

    wire = Breaking(blobs(2))
    with pytest.raises(RuntimeError, match="cable cut"):
        run(wire)
    assert wire.closed


# ------------------------------------------------------------------ scale


def test_minmax_is_over_all_clients_at_the_start():
    tables = blobs(3)
    tables[1] = tables[1] * [1.0, 9.0]
    wire = Wire(tables, Schedule(late={2: 2}))
    tables[2] += 500.0
    finished = run(wire)
    both = np.concatenate(tables[:2])

    assert np.array_equal(finished.terms.box.low, both.min(axis=0))
    assert np.array_equal(finished.terms.box.span, np.ptp(both, axis=0))
    assert finished.terms.n_rows == 48
    assert finished.clustering.centers[2].min() > 1  # outside the box, same map


def test_given_bounds_are_used_and_no_extremes_are_asked_for():
    wire = Wire(blobs(3))
    finished = run(wire, scale=([-5.0, -5.0], [15.0, 35.0]))

    assert finished.terms.box.low.tolist() == [-5.0, -5.0]
    assert finished.terms.box.span.tolist() == [20.0, 40.0]
    assert {r.extremes for r in wire.requests if isinstance(r, AskRanges)} == {False}


def test_no_scale_leaves_the_units():
    wire = Wire(blobs(3))
    finished = run(wire, scale=None)

    assert np.array_equal(finished.terms.box.scale(SPOTS), SPOTS)
    assert {r.extremes for r in wire.requests if isinstance(r, AskRanges)} == {False}
    assert np.allclose(finished.clustering.centers[0], wire.sites[0].rows.mean(axis=0))


def test_minmax_asks_for_extremes():
    wire = Wire(blobs(3))
    run(wire)

    assert {r.extremes for r in wire.requests if isinstance(r, AskRanges)} == {True}


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        ("standard", "scale 'standard' is unknown: give 'minmax', "),
        (3, "scale must be 'minmax', "),
        (([0, 0],), "scale must be 'minmax', "),
        ((1, 2, 3), "scale must be 'minmax', "),
        (([0, 0, 0], [1, 1, 1]), "has bounds for 3 columns, the data have 2"),
        ((0, 1), "needs two bounds for every column"),
        (([0, 0], [1]), "needs two bounds for every column"),
        (([0, 2], [1, 1]), "finite bounds with low <= high"),
        (([0, 0], [1, np.inf]), "finite bounds with low <= high"),
    ],
)
def test_bad_scales(scale, text):
    wire = Wire(blobs(2))

    with pytest.raises(InputError, match=text):
        run(wire, scale=scale)
    assert wire.closed


# ------------------------------------------------------------------ interrupted


class Interrupted(Exception):
    """Stands for a crash."""


class Faulty(Journal):
    """Keeps so many new records and then breaks."""

    def __init__(self, path, fingerprint, records):
        super().__init__(path, fingerprint)
        self._left = records

    def record(self, entry, sync=True):
        if self._left == 0:
            raise Interrupted
        self._left -= 1
        super().record(entry, sync)


SCHEDULES = {
    "everybody": Schedule(),
    "random": Rounds(probability="random"),
    "delays": Rounds(probability=0.6, delay=3),
    "clock": EventClock(loss=0.3),
    "late": Schedule(late={1: 2, 4: 5}),
    "leaves": Rounds(probability=0.7, delay=2, leaves={0: 2, 3: 4}),
    "silent": EventClock(silent={2}, answers={3: 1}, late={0: 3}, leaves={1: 2}),
    "never": Schedule(late={2: 80}, leaves={3: 0}),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", sorted(SCHEDULES))
def test_an_interrupted_run_goes_on_as_if_nothing_had_been(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda number: None)  # to be quick
    schedule = SCHEDULES[kind]
    spec = Spec(Diary(), {"answers": 3}, seed=5, max_rounds=12)
    asked: list[tuple[int, int]] = []
    answer = Site.answer

    def noting(site, request):
        said = decode(request)
        if isinstance(said, AskHello):
            asked.append((said.terms.client, 0))
        elif isinstance(said, AskStep):
            asked.append((said.terms.client, said.contact))
        return answer(site, request)

    monkeypatch.setattr(Site, "answer", noting)
    whole = simulate(spec, blobs(), schedule)
    once = set(asked)
    assert len(once) == len(asked)
    total = sum(tally.messages for tally in whole.finished.tallies.values())

    for records in range(total):
        path = tmp_path / f"{records}.bin"
        with Faulty(path, "run", records) as journal, pytest.raises(Interrupted):
            simulate(spec, blobs(), schedule, journal=journal)
        with Journal(path, "run") as journal:
            kept = set(journal.entries)
            assert len(kept) == records
            asked.clear()
            again = simulate(spec, blobs(), schedule, journal=journal)

        assert set(asked) == once - kept
        assert len(asked) == len(once - kept)
        assert again.finished.state.heard == whole.finished.state.heard
        assert same_centers(again.clustering, whole.clustering)
        assert again.finished.trace.events == whole.finished.trace.events
        for mine, theirs in zip(again.labels, whole.labels, strict=True):
            assert np.array_equal(mine, theirs)


def test_a_finished_journal_asks_nobody(tmp_path, monkeypatch):
    spec = Spec(Diary(), {"answers": 2})
    with Journal(tmp_path / "journal.bin", "run") as journal:
        whole = simulate(spec, blobs(), journal=journal)
    answer = Site.answer

    def only_ranges(site, request):
        assert isinstance(decode(request), AskRanges)
        return answer(site, request)

    monkeypatch.setattr(Site, "answer", only_ranges)
    with Journal(tmp_path / "journal.bin", "run") as journal:
        again = simulate(spec, blobs(), journal=journal)

    assert again.finished.trace.events == whole.finished.trace.events
    assert again.finished.state.heard == whole.finished.state.heard


# ------------------------------------------------------------------ replayed


@pytest.mark.parametrize("kind", sorted(SCHEDULES))
@pytest.mark.parametrize("answers", [1, 3, 100])
def test_a_recorded_run_replays(kind, answers):
    spec = Spec(Diary(), {"answers": answers}, seed=1, max_rounds=12)
    first = simulate(spec, blobs(), SCHEDULES[kind])

    again = simulate(spec, blobs(), Replay.of(first.finished.trace))

    assert again.finished.state.heard == first.finished.state.heard
    assert plain(again.finished.trace, "round") == plain(first.finished.trace, "round")
    for mine, theirs in zip(again.labels, first.labels, strict=True):
        assert np.array_equal(mine, theirs)


def test_a_replay_replays():
    spec = Spec(Diary(), {"answers": 4}, seed=1, max_rounds=12)
    first = simulate(spec, blobs(), SCHEDULES["silent"])
    second = simulate(spec, blobs(), Replay.of(first.finished.trace))
    third = simulate(spec, blobs(), Replay.of(second.finished.trace))

    assert third.finished.trace.events == second.finished.trace.events


def test_what_arrives_together_is_synced_together(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    tables = [np.random.default_rng(i).normal(size=(40, 2)) for i in range(6)]
    with Journal(tmp_path / "journal", "run") as journal:
        outcome = simulate(Spec(get_method("afcl")), tables, journal=journal)
        ticks = {entry.tick for entry in journal.log}
    assert sum(t.messages for t in outcome.finished.tallies.values()) == 18
    assert len(synced) == 2 + len(ticks) == 5  # the head's and the folder's too

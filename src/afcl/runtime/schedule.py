# SPDX-License-Identifier: Apache-2.0
"""Who takes part when: the simulated clients' comings and goings.

Schedules are frozen descriptions; every draw is a function of (seed, client, round),
so that a run can stop anywhere and go on with the same luck.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core.protocol import SCHEDULE
from afcl.exceptions import InputError
from afcl.trace import Event, each

# Purposes of a schedule's draws: one purpose must not move the draws of another.
#: How likely a client takes part.
PROBABILITY = 0
#: Whether it does in a round.
PART = 1
#: How long its answer takes.
_LATENCY = 2
#: Whether its answer is lost.
_LOSS = 3


def _uniform(seed: int, *key: int) -> float:
    sequence = np.random.SeedSequence(seed, spawn_key=(SCHEDULE, *key))
    return float(np.random.default_rng(sequence).random())


@dataclass(frozen=True)
class Schedule:
    """Everybody, always, at once; subclasses and fields change that.

    Attributes
    ----------
    late
        Round in which a client joins (says hello) instead of at the start.
    leaves
        Round from which on a client is gone; the method is told so.
    silent
        Clients that say hello and never answer anything.
    answers
        Most answers a client gives after its hello (1: one-shot clients).
    """

    late: Mapping[ClientId, int] = field(default_factory=dict)
    leaves: Mapping[ClientId, int] = field(default_factory=dict)
    silent: Collection[ClientId] = ()
    answers: Mapping[ClientId, int] = field(default_factory=dict)

    def bind(self, n_clients: int, seed: int) -> Bound:
        """Draw what is drawn once a run."""
        for name in ("late", "leaves", "answers"):
            _check_clients(name, getattr(self, name), n_clients)
        _check_clients("silent", self.silent, n_clients)
        return Bound(self, n_clients, seed)

    def takes_part(self, client: ClientId, round: int, bound: Bound) -> bool:
        """Whether a client that is here can be asked in this round."""
        return True

    def latency(self, client: ClientId, contact: int, bound: Bound) -> float:
        """Return the rounds until this answer arrives (0: within the round)."""
        return 0.0

    def loses(self, client: ClientId, contact: int, bound: Bound) -> bool:
        """Whether this answer is lost; a failure arrives in its place."""
        return False

    def order(self, client: ClientId, contact: int) -> tuple[int, ...]:
        """Break ties between answers that arrive together."""
        return (client, contact)

    def next_time(self, now: float, arrivals: list[float]) -> float:
        """Return where the clock goes next: the next round."""
        return math.floor(now) + 1.0


@dataclass(frozen=True)
class Bound:
    """A schedule for a given number of clients and seed."""

    schedule: Schedule
    n_clients: int
    seed: int

    def joins(self, client: ClientId) -> int:
        """Round in which the client says hello."""
        return int(self.schedule.late.get(client, 0))

    def leaves(self, client: ClientId) -> float:
        """Round from which on the client is gone."""
        return float(self.schedule.leaves.get(client, math.inf))

    def takes_part(self, client: ClientId, round: int, answered: int) -> bool:
        """Whether a client that has answered so often can be asked in this round."""
        if client in self.schedule.silent:
            return False
        if answered >= self.schedule.answers.get(client, math.inf):
            return False
        return self.schedule.takes_part(client, round, self)

    def draw(self, purpose: int, *key: int) -> float:
        """Return the run's own uniform number for this purpose and key."""
        return _uniform(self.seed, purpose, *key)


@dataclass(frozen=True)
class Rounds(Schedule):
    """Bernoulli rounds: each round a client takes part with its own probability.

    Attributes
    ----------
    probability
        One number, one per client, or `random`: the paper's protocol, a U(0, 1) draw
        per client, once a run.
    delay
        Answers come up to so many rounds late (uniform over 0..delay).
    """

    probability: float | Sequence[float] | Floats | str = 1.0
    delay: int = 0

    def bind(self, n_clients: int, seed: int) -> Bound:
        """Check the probabilities against the number of clients."""
        if isinstance(self.probability, str):
            if self.probability != "random":
                raise InputError(
                    f"participation {self.probability!r} is unknown: give 'random', a "
                    "probability, one per client, or a Schedule"
                )
        else:
            values = np.asarray(self.probability, dtype=float)
            if values.ndim > 1 or (values.ndim == 1 and values.shape[0] != n_clients):
                raise InputError(
                    f"participation has {values.size} probabilities "
                    f"for {n_clients} clients"
                )
            if not ((values >= 0) & (values <= 1)).all():
                raise InputError("participation probabilities must lie in [0, 1]")
        if self.delay < 0:
            raise InputError(f"delay must not be negative, not {self.delay}")
        return super().bind(n_clients, seed)

    def takes_part(self, client: ClientId, round: int, bound: Bound) -> bool:
        """Draw for this client and round."""
        if isinstance(self.probability, str):
            chance = bound.draw(PROBABILITY, client)
        else:
            chance = _of(self.probability, client)
        return chance >= 1.0 or bound.draw(PART, client, round) < chance

    def latency(self, client: ClientId, contact: int, bound: Bound) -> float:
        """Draw a whole number of rounds."""
        if self.delay == 0:
            return 0.0
        return math.floor(bound.draw(_LATENCY, client, contact) * (self.delay + 1))


def _of(values: float | Sequence[float] | Floats, client: ClientId) -> float:
    """Return a client's number: its own, or the one for all."""
    every = np.asarray(values, dtype=float).reshape(-1)
    return float(every[client % every.size])


@dataclass(frozen=True)
class EventClock(Schedule):
    """A continuous clock: a client that has answered is asked again at the next event.

    Attributes
    ----------
    latency_mean
        Mean time (in rounds) a client takes to answer; one number or one per client.
    spread
        0: always the mean; 1: exponential; in between, a mixture of the two.
    loss
        Probability that an answer is lost on its way.
    """

    latency_mean: float | Sequence[float] | Floats = 1.0
    spread: float = 1.0
    loss: float = 0.0

    def bind(self, n_clients: int, seed: int) -> Bound:
        """Check the latencies against the number of clients."""
        means = np.asarray(self.latency_mean, dtype=float)
        if means.ndim > 1 or (means.ndim == 1 and means.shape[0] != n_clients):
            raise InputError(
                f"latency_mean has {means.size} numbers for {n_clients} clients"
            )
        if not (np.isfinite(means) & (means >= 0)).all():
            raise InputError("latency_mean must be finite and not negative")
        for name in ("spread", "loss"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must lie in [0, 1]")
        return super().bind(n_clients, seed)

    def latency(self, client: ClientId, contact: int, bound: Bound) -> float:
        """Draw the time this answer takes."""
        wait = -math.log1p(-bound.draw(_LATENCY, client, contact))
        mean = _of(self.latency_mean, client)
        return mean * (1.0 - self.spread + self.spread * wait)

    def loses(self, client: ClientId, contact: int, bound: Bound) -> bool:
        """Draw whether this answer is lost."""
        return self.loss > 0 and bound.draw(_LOSS, client, contact) < self.loss

    def next_time(self, now: float, arrivals: list[float]) -> float:
        """Return the next arrival, or the next round when nothing is under way."""
        return min(arrivals, default=math.floor(now) + 1.0)


@dataclass(frozen=True)
class Replay(Schedule):
    """A recorded trace: the same sends and arrivals in the same order.

    Build it with :meth:`of`; ticks of the recorded run become rounds.
    """

    sends: Mapping[tuple[ClientId, int], int] = field(default_factory=dict)
    arrivals: Mapping[tuple[ClientId, int], tuple[int, int]] = field(
        default_factory=dict
    )
    failed: frozenset[tuple[ClientId, int]] = frozenset()
    present: frozenset[ClientId] = frozenset()
    last: int = 0
    settled: bool = False

    @classmethod
    def of(cls, events: Iterable[Event]) -> Replay:
        """Read the comings and goings out of a trace."""
        found: dict[str, Any] = {"sends": {}, "arrivals": {}, "late": {}, "leaves": {}}
        failed, present = set(), set()
        last, settled = 0, False
        for position, event in enumerate(each(events)):
            kind = event["event"]
            last = max(last, event.get("tick", 0))
            if kind == "send":
                present.add(event["client"])
                if event["contact"] > 0:
                    found["sends"][event["client"], event["contact"]] = event["tick"]
            elif kind in ("update", "hello", "failure", "rejected"):
                key = (event["client"], event["contact"])
                found["arrivals"][key] = (event["tick"], position)
                if kind == "hello" and event["tick"] > 0:
                    found["late"][event["client"]] = event["tick"]
                if kind == "failure":
                    failed.add(key)
            elif kind == "left":
                found["leaves"][event["client"]] = event["tick"]
            elif kind == "end":
                settled = event["reason"] == "done"
        found |= {"failed": frozenset(failed), "present": frozenset(present)}
        return cls(**found, last=last, settled=settled)

    def bind(self, n_clients: int, seed: int) -> Bound:
        """Keep away who never came; the run waits for them as long as it did."""
        _check_clients("the trace", self.present, n_clients)
        absent = set(range(n_clients)) - self.present
        awaited = self.last if self.settled else self.last + 1
        kept = replace(
            self,
            late={**self.late, **dict.fromkeys(absent, awaited)},
            leaves={**self.leaves, **dict.fromkeys(absent, 0)},
        )
        return Bound(kept, n_clients, seed)

    def takes_part(self, client: ClientId, round: int, bound: Bound) -> bool:
        """Ask exactly those who were asked."""
        return (client, round) in self._asked

    @cached_property
    def _asked(self) -> set[tuple[ClientId, int]]:
        return {(client, tick) for (client, _), tick in self.sends.items()}

    def latency(self, client: ClientId, contact: int, bound: Bound) -> float:
        """Return the recorded time from send to arrival."""
        arrived = self.arrivals.get((client, contact))
        if arrived is None:
            return math.inf
        return float(arrived[0] - self.sends.get((client, contact), arrived[0]))

    def loses(self, client: ClientId, contact: int, bound: Bound) -> bool:
        """Fail where the recorded run failed."""
        return (client, contact) in self.failed

    def order(self, client: ClientId, contact: int) -> tuple[int, ...]:
        """Return the recorded position."""
        return (self.arrivals.get((client, contact), (0, 0))[1], client)


def _check_clients(name: str, clients: Iterable[ClientId], n_clients: int) -> None:
    for client in clients:
        if not 0 <= client < n_clients:
            raise InputError(
                f"{name} names client {client}, there are {n_clients} (counted from 0)"
            )


def as_schedule(participation: Any) -> Schedule:
    """Turn the estimator's `participation` into a schedule."""
    if participation is None:
        return Schedule()
    if isinstance(participation, Schedule):
        return participation
    if isinstance(participation, str):
        return Rounds(probability=participation)
    try:
        return Rounds(probability=np.asarray(participation, dtype=float))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"participation {participation!r} is unknown: give 'random', a "
            "probability, one per client, or a Schedule"
        ) from error

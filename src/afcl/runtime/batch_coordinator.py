# SPDX-License-Identifier: Apache-2.0
"""The coordinator's loop over a batch of simulated sites instead of one site at a time.

The loop, the method, its server and its rules are the ordinary ones. What differs is
who is asked: everybody who is there at once (:class:`~afcl.runtime.batch.SiteBatch`).
The trace gets one event for many (see :func:`afcl.trace.each`), with the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import Bools, ClientId, Floats, Ints
from afcl.core.draws import uniforms
from afcl.core.messages import Broadcast, Hello
from afcl.core.protocol import SCHEDULE
from afcl.core.terms import AskHello, AskStep
from afcl.methods.afcl import Afcl
from afcl.runtime.agreement import Agreement, AgreementRequest, Say, notes_on
from afcl.runtime.batch import BatchAnswers, SiteBatch
from afcl.runtime.codec import encode
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.message_sizes import digits, task_sizes
from afcl.runtime.requirements import requirements
from afcl.runtime.schedule import PART, PROBABILITY, Bound, Rounds
from afcl.runtime.spec import Spec, Tally
from afcl.runtime.transport import Failure, Reply, Ticket
from afcl.scale import Ranges, with_bounds
from afcl.trace import Trace

#: Why a site does not answer, see :func:`privacy.masks.remember`.
TOO_MANY = "this client has been asked for too many different sums"


class BatchCoordinator(Coordinator):
    """Drives the default preset over sites that answer in batches.

    Parameters
    ----------
    spec
        What to run.
    sites
        Who is asked.
    bound
        The schedule, which must be one of plain rounds.
    trace, clock
        As for :class:`Coordinator`.
    """

    def __init__(
        self,
        spec: Spec,
        sites: SiteBatch,
        bound: Bound,
        *,
        trace: Trace | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        agreement = BatchRollCall(spec, sites, self._say_batch)
        super().__init__(
            spec, RoundClock(), trace=trace, clock=clock, agreement=agreement
        )
        self.sites = sites
        self._draws = _Draws(bound)
        self._contact = np.zeros(len(sites), dtype=np.int64)
        self._messages = np.zeros(len(sites), dtype=np.int64)
        self._bytes = np.zeros(len(sites), dtype=np.int64)
        self._arrived: BatchAnswers | None = None

    # -------------------------------------------------------------- the start

    def _greet(self, awaited: set[ClientId]) -> None:
        """Hear everybody's hello."""
        assert self._terms is not None
        self.sites.settle(self._terms.box)
        everybody = np.arange(len(self.sites))
        sample = len(encode(AskHello(replace(self._terms, client=0))))
        sizes = sample + digits(everybody) - 1
        self._say_batch("send", everybody, contact=0, version=0, bytes=sizes)
        self._arrived = self.sites.hellos()
        self._absorb_all()

    # -------------------------------------------------------------- rounds

    def _rounds(self) -> str:
        reason = super()._rounds()
        columns = (self.sites.sizes, self._messages, self._bytes)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self._tallies = {client: Tally(*row) for client, row in enumerate(rows)}
        return reason

    def _dispatch(self, broadcast: Broadcast) -> None:
        """Let whoever is there and wanted answer."""
        wanted = self.sites.wanted(broadcast.group)
        there = wanted[self._draws.take_part(wanted, self.transport.round)]
        if not there.size:
            return
        self._version = broadcast.version
        self._contact[there] += 1
        self._say_batch(
            "send",
            there,
            contact=self._contact[there],
            version=broadcast.version,
            bytes=self._request_sizes(broadcast, there),
        )
        about = (broadcast.version, broadcast.payload, broadcast.group)
        self._arrived = self.sites.answer(*about, there)

    def _request_sizes(self, broadcast: Broadcast, clients: Ints) -> Ints:
        """Return the bytes of what each of these clients is asked."""
        assert self._terms is not None
        terms = replace(self._terms, client=0)

        def sample(payload: Any) -> int:
            return len(encode(AskStep(terms, broadcast.version, 1, payload)))

        own = digits(clients) - 1 + digits(self._contact[clients]) - 1
        if isinstance(broadcast.group, Mapping):
            asked, tagged = broadcast.group, self.sites.tagged
            return own + task_sizes(asked, clients, sample, tagged)
        return own + sample(broadcast.payload)

    def _absorb_all(self) -> bool:
        """Absorb what has arrived; return whether anything had."""
        arrived, self._arrived = self._arrived, None
        if arrived is None:
            return False
        batch, sizes = arrived.batch, arrived.sizes
        clients = batch.clients
        method = self.spec.method
        assert isinstance(method, Afcl)  # `fits` has seen to it
        self._state, found = method.absorb_batch(self._state, batch)
        self._messages[clients] += 1
        self._bytes[clients] += sizes.bytes
        columns = {"bytes": sizes.bytes, "array_bytes": sizes.array_bytes, **found}
        contact = self._contact[clients]
        if batch.rows is not None:
            self._say_batch("hello", clients, contact=0, rows=batch.rows, **columns)
        elif clients.size:
            version = {"version": batch.version, "staleness": 0}
            self._say_batch("update", clients, contact=contact, **version, **columns)
        for client in arrived.refused.tolist():
            contacts = int(self._contact[client])
            self._say("failure", client=client, contact=contacts, reason=TOO_MANY)
        return True

    def _say_batch(self, event: str, clients: Ints, **columns: Any) -> None:
        stamp = {} if self._clock is None else {"at": self._clock()}
        self.trace.add_batch(event, clients, tick=self._tick, **columns, **stamp)


class BatchRollCall:
    """The agreement of sites that are asked together: what all say, taken together.

    `say_batch` records an event of many clients.
    """

    live = False

    def __init__(
        self, spec: Spec, sites: SiteBatch, say_batch: Callable[..., None]
    ) -> None:
        self._spec = spec
        self._sites = sites
        self._say_batch = say_batch

    def agree(self, say: Say) -> Agreement:
        """Hear everybody's ranges, and settle the box."""
        spec, sites = self._spec, self._sites
        requirements(spec.method, spec.parameters, spec.scale, len(sites))
        request = AgreementRequest(scale=spec.scale)
        settled, ranges = sites.agree(request.scale)
        sample = len(encode(replace(ranges, n_rows=1)))
        self._say_batch(
            "ranges",
            np.arange(len(sites)),
            rows=sites.sizes,
            bytes=sample + digits(sites.sizes) - 1,
        )
        for text in notes_on(settled.stretches, sites.sizes, self._name, spec.columns):
            say("note", text=text)
        box = with_bounds(settled.box, spec.bounds)
        return Agreement((), box, ranges.n_rows)

    def _name(self, client: ClientId) -> str:
        return self._spec.names[client] if self._spec.names else f"client {client}"

    def resume(self, say: Say) -> None:
        """Do nothing: a batch has no journal."""

    def ranges(self, client: ClientId) -> Ranges | None:
        """Return None: what a batch says is not held against its extremes."""
        return None

    def check_key(self, hello: Hello) -> None:
        """Do nothing: a batch has no keys."""


class RoundClock:
    """A transport that only counts rounds: whom to reach, a batch knows itself."""

    def __init__(self) -> None:
        self.round = 0

    def members(self) -> list[ClientId]:
        """Nobody is reached one by one."""
        return []

    def send(self, client: ClientId, contact: int, data: bytes) -> Ticket:
        """Nobody is reached one by one."""
        raise AssertionError("a batch is asked as a whole")

    def advance(self) -> None:
        """Go on to the next round."""
        self.round += 1

    def poll(self) -> list[Reply | Failure]:
        """Nothing comes one by one."""
        return []

    def expecting(self) -> bool:
        """Everybody is there from the start."""
        return False

    def close(self) -> None:
        """Nothing to let go of."""


class _Draws:
    """Who takes part in a round, drawn as the schedule draws it for each client."""

    def __init__(self, bound: Bound) -> None:
        self._seed = bound.seed
        self._chance: Floats = np.ones(bound.n_clients)
        schedule = bound.schedule
        if isinstance(schedule, Rounds):
            if isinstance(schedule.probability, str):
                everybody = np.arange(bound.n_clients)
                self._chance = self._draw(everybody, (PROBABILITY, everybody))
            else:
                self._chance[:] = schedule.probability

    def _draw(self, clients: Ints, key: tuple[int | Ints, ...]) -> Floats:
        once = np.ones(clients.shape[0], dtype=np.int64)
        return uniforms(self._seed, (SCHEDULE, *key), once)

    def take_part(self, clients: Ints, round: int) -> Bools:
        """Return which of these clients take part in this round."""
        chance = self._chance[clients]
        there: Bools = chance >= 1.0
        if not there.all():
            there |= self._draw(clients, (PART, clients, round)) < chance
        return there

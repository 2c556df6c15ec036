# SPDX-License-Identifier: Apache-2.0
"""The in-process transport: sites in this process, a virtual clock, a schedule.

Answers are computed when they are asked for and delivered when the schedule says.
Everything passes through the codec, so that what is simulated is what would be sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from afcl._typing import ClientId
from afcl.exceptions import RejectedMessage
from afcl.runtime.codec import decode, encode
from afcl.runtime.journal import Entry
from afcl.runtime.schedule import Bound
from afcl.runtime.site import Site
from afcl.runtime.transport import Failure, Reply, Ticket


class InProcess:
    """Simulated clients behind the transport protocol.

    Parameters
    ----------
    sites
        One per client.
    bound
        The schedule, bound to the number of sites.
    known
        Answers of an interrupted run: used instead of asking the site again.
    absent
        Clients that never take part.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        bound: Bound,
        known: Mapping[tuple[int, int], Entry] | None = None,
        absent: Iterable[ClientId] = (),
    ) -> None:
        self.sites = sites
        self._bound = bound
        self._known = known or {}
        self._now = 0.0
        self._tickets = 0
        self._flying: dict[Ticket, tuple[float, int, Reply | Failure]] = {}
        self._busy: set[ClientId] = set()
        self._greeted: set[ClientId] = set()
        self._answered: dict[ClientId, int] = {}
        self._gone: set[ClientId] = set(absent)

    @property
    def round(self) -> int:
        """Whole rounds since the start."""
        return math.floor(self._now)

    def members(self) -> list[ClientId]:
        """Clients that are here, idle, and (once greeted) take part in this round."""
        return [c for c in range(len(self.sites)) if self._is_here(c)]

    def _is_here(self, client: ClientId) -> bool:
        if client in self._busy or client in self._gone:
            return False
        if not self._bound.joins(client) <= self._now < self._bound.leaves(client):
            return False
        if client not in self._greeted:
            return True
        answered = self._answered.get(client, 0)
        return self._bound.takes_part(client, self.round, answered)

    def send(self, client: ClientId, contact: int, data: bytes) -> Ticket:
        """Let the site answer now; the answer arrives when the schedule says."""
        ticket = self._tickets
        self._tickets += 1
        schedule, bound = self._bound.schedule, self._bound
        arrival, lost = self._now, False
        if contact > 0:
            arrival += schedule.latency(client, contact, bound)
            lost = schedule.loses(client, contact, bound)
            self._answered[client] = self._answered.get(client, 0) + 1
        elif contact == 0:
            self._greeted.add(client)
        answer: Reply | Failure = self._ask(ticket, client, contact, data)
        if lost:
            answer = Failure(ticket, client, "no answer")
        self._busy.add(client)
        self._flying[ticket] = (arrival, contact, answer)
        return ticket

    def _ask(
        self, ticket: Ticket, client: ClientId, contact: int, data: bytes
    ) -> Reply | Failure:
        site = self.sites[client]
        entry = self._known.get((client, contact))
        if entry is not None:
            site.memory = decode(entry.memory) if entry.memory else None
            return Reply(ticket, client, entry.data, entry.memory)
        try:
            answer = site.answer(data)
        except RejectedMessage as error:
            return Failure(ticket, client, str(error))
        memory = b"" if site.memory is None else encode(site.memory)
        return Reply(ticket, client, answer, memory)

    def advance(self) -> None:
        """Move the clock to the next round, arrival or joiner."""
        arrivals = [arrival for arrival, _, _ in self._flying.values()]
        later = [time for time in arrivals if time > self._now]
        step = self._bound.schedule.next_time(self._now, later)
        joins = [t for t in self._joins() if self._now < t < step]
        self._now = min(joins, default=step)

    def _joins(self) -> list[int]:
        return [self._bound.joins(client) for client in range(len(self.sites))]

    def poll(self) -> list[Reply | Failure]:
        """Return the answers that have arrived, and the clients that have gone."""
        order = self._bound.schedule.order
        due = sorted(
            (arrival, order(answer.client, contact), ticket)
            for ticket, (arrival, contact, answer) in self._flying.items()
            if arrival <= self._now
        )
        out: list[Reply | Failure] = []
        for _, _, ticket in due:
            answer = self._flying.pop(ticket)[2]
            self._busy.discard(answer.client)
            out.append(answer)
        for client in sorted(self._greeted - self._gone):
            if self._bound.leaves(client) <= self._now:
                self._gone.add(client)
                self._busy.discard(client)
                out.append(Failure(-1, client, "left", gone=True))
        self._drop_flights_of_the_gone()
        return out

    def _drop_flights_of_the_gone(self) -> None:
        self._flying = {
            ticket: flight
            for ticket, flight in self._flying.items()
            if flight[2].client not in self._gone
        }

    def expecting(self) -> bool:
        """Whether somebody will still join."""
        return any(time > self._now for time in self._joins())

    def close(self) -> None:
        """Nothing to let go of."""

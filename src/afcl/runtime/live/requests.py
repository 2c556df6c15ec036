# SPDX-License-Identifier: Apache-2.0
"""The requests of a live run that are under way, each with a time of its own.

A request can be lost on its way, together with the site that worked on it, or with the
link that its answer came by. One that is not answered in time is sent again, word by
word: a site gives the same answer to the same request, so nothing is said twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from afcl._typing import ClientId
from afcl.runtime.live.engine import Engine
from afcl.runtime.transport import Failure, Reply, Ticket

#: Seconds after which an unanswered request is sent again, doubled every time.
AGAIN = 60.0
#: The longest that these seconds become.
SELDOM = 600.0
#: Seconds after which a request is sent again that the engine says it has lost.
SOON = 2.0


@dataclass
class Request:
    """What one client is asked, and when it is asked again."""

    client: ClientId
    contact: int
    data: bytes
    #: The ticket that whoever asked knows it by.
    ticket: Ticket
    #: Seconds to wait from the last time, and when they are over.
    wait: float
    due: float


class Requests:
    """What clients are being asked, at most one thing each.

    Parameters
    ----------
    engine
        What carries the messages.
    clock
        Returns the time, in seconds.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        self._engine, self._clock = engine, clock
        self._of: dict[ClientId, Request] = {}
        #: Every ticket that may still bring the answer, and what it belongs to.
        self._tickets: dict[Ticket, Request] = {}
        #: Tickets that have brought one.
        self._answered: dict[Ticket, ClientId] = {}

    @property
    def clients(self) -> Collection[ClientId]:
        """Who is being asked something."""
        return self._of.keys()

    def send(self, client: ClientId, contact: int, data: bytes, to: int) -> Ticket:
        """Ask a client at an address; return the ticket of the answer."""
        ticket = self._engine.send(to, data)
        due = self._clock() + AGAIN
        request = Request(client, contact, data, ticket, AGAIN, due)
        self._of[client] = self._tickets[ticket] = request
        return ticket

    def send_again(self, where: Mapping[ClientId, int], here: Collection[int]) -> None:
        """Send again what is overdue, to those who are here."""
        now = self._clock()
        for request in list(self._of.values()):
            address = where[request.client]
            if request.due <= now and address in here:
                # Twice as long each time: a site may compute for hours, and the
                # question is not small.
                request.wait = min(2 * request.wait, SELDOM)
                request.due = now + request.wait
                # The old ticket stays: either may bring the answer, and only the first
                # counts.
                self._tickets[self._engine.send(address, request.data)] = request

    def hurry(self, client: ClientId) -> None:
        """Do not wait until a client is asked again: it was away."""
        if client in self._of:
            self._of[client].due = self._clock()

    def drop(self, client: ClientId) -> None:
        """Expect no answer of a client."""
        request = self._of.pop(client, None)
        if request is not None:
            self._retire(request)

    def hear(self, answer: Reply | Failure) -> tuple[Reply | Failure, int] | None:
        """Return an answer as whoever asked knows it, and its contact.

        None if it brings nothing new: the engine has lost a request, or it was
        answered before.
        """
        request = self._tickets.pop(answer.ticket, None)
        if request is None:
            return None
        if isinstance(answer, Failure) and answer.lost:
            # The engine has lost it, not the site: asked again soon, but not in a loop.
            request.due = min(request.due, self._clock() + SOON)
            return None
        self._answered[answer.ticket] = request.client
        self._retire(request)
        del self._of[request.client]
        renamed = replace(answer, ticket=request.ticket, client=request.client)
        return renamed, request.contact

    def twice(self, ticket: Ticket) -> ClientId | None:
        """Return who has answered with a ticket before, None if nobody has."""
        return self._answered.get(ticket)

    def _retire(self, request: Request) -> None:
        """Ignore what other tickets of a request may still bring."""
        for ticket in [t for t, known in self._tickets.items() if known is request]:
            del self._tickets[ticket]

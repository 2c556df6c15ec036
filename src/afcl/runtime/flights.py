# SPDX-License-Identifier: Apache-2.0
"""What was asked of whom, and which message answers it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from afcl._typing import ClientId
from afcl.core.messages import UNSTAMPED, Hello, Update, refuse_unless
from afcl.core.protocol import Message
from afcl.exceptions import RejectedMessage
from afcl.runtime.journal import AGREEMENT
from afcl.runtime.transport import Failure, Reply, Ticket

#: Of an answer to nothing.
NOT_ASKED = "answers nothing that this client was asked"
#: Of a client that names itself.
PRETENDS = "a client does not say who it is or what it answers"


class Flight(NamedTuple):
    """A request: to whom, the how many-th, and of which version of the state."""

    client: ClientId
    contact: int
    version: int


#: Stands for the request of an answer that was given before.
DUPLICATE = Flight(-1, AGREEMENT, -1)


class Flights:
    """The requests under way, by ticket, and the tickets that have been answered."""

    def __init__(self) -> None:
        self.under_way: dict[Ticket, Flight] = {}
        self.answered: set[Ticket] = set()

    def of(self, answer: Reply | Failure) -> Flight:
        """Return what is answered, and expect no other answer to it.

        An answer that was given before is a :data:`DUPLICATE`; one to a question that
        nobody asked this client is refused. A failure may come unasked.
        """
        flight = self.under_way.get(answer.ticket)
        # Also unasked: an engine says that somebody is gone when it sees it.
        if isinstance(answer, Failure):
            self._close(answer.ticket)
            return flight or Flight(answer.client, AGREEMENT, 0)
        if answer.ticket in self.answered:
            return DUPLICATE
        # A site must not answer in another's place.
        if flight is None or flight.client != answer.client:
            raise RejectedMessage(NOT_ASKED)
        self._close(answer.ticket)
        return flight

    def drop(self, client: ClientId) -> None:
        """Expect no answer of this client."""
        for ticket in [t for t, f in self.under_way.items() if f.client == client]:
            self._close(ticket)

    def _close(self, ticket: Ticket) -> None:
        if self.under_way.pop(ticket, None) is not None:
            self.answered.add(ticket)

    def greeting(self) -> bool:
        """Whether a hello is still on its way."""
        return any(flight.contact == 0 for flight in self.under_way.values())


class Silence:
    """How long nothing has arrived, where that matters.

    Parameters
    ----------
    patience
        Seconds after which it is too long; never, if that is infinite.
    clock
        Returns the time.
    """

    def __init__(self, patience: float, clock: Callable[[], float] | None) -> None:
        self._patience = patience
        self._clock = None if math.isinf(patience) else clock
        self._since = math.inf

    def broken(self) -> None:
        """Note that something has arrived."""
        if self._clock is not None:
            self._since = self._clock()

    def too_long(self) -> bool:
        """Whether nothing has arrived for longer than is borne."""
        return self._clock is not None and self._clock() - self._since > self._patience


def stamped(payload: Any, flight: Flight) -> Message:
    """Stamp who, when and what; a hello answers contact 0, an update any other.

    A client that names itself, or says what it answers, pretends to be somebody.
    """
    client, contact, version = flight
    if contact == 0 and isinstance(payload, Hello):
        refuse_unless((payload.client, payload.contact) == (UNSTAMPED, 0), PRETENDS)
        return replace(payload, client=client, contact=0)
    if contact > 0 and isinstance(payload, Update):
        stamps = (payload.client, payload.contact, payload.version)
        refuse_unless(stamps == (UNSTAMPED,) * 3, PRETENDS)
        return replace(payload, client=client, contact=contact, version=version)
    kind = type(payload).__name__
    raise RejectedMessage(f"a {kind} does not answer contact {contact}")

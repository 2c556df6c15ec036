# SPDX-License-Identifier: Apache-2.0
"""What the coordinator needs of a network: who is there, send, see what arrived."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from afcl._typing import ClientId
from afcl.texts import plain

Ticket: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its bytes, and (in one process only) the client's new memory."""

    ticket: Ticket
    client: ClientId
    data: bytes
    memory: bytes = b""


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer came; `gone` means none will come again. Ticket -1: unasked.

    `lost` means that the network had a request and has it no more, whether or not the
    client ever saw it: it is not the client that failed.

    The reason may come from the other side: it is a plain line from the moment it is
    made, whatever engine makes it.
    """

    ticket: Ticket
    client: ClientId
    reason: str
    gone: bool = False
    lost: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", plain(self.reason))


class Transport(Protocol):
    """Carries requests to clients and answers back; knows nothing of methods.

    What the coordinator needs, tried by ``tests/runtime/test_transports.py``. A new
    network does not implement it: it is an :class:`~afcl.runtime.live.engine.Engine`,
    which :class:`~afcl.runtime.live.admission.Admission` makes a transport of.
    """

    def members(self) -> Sequence[ClientId]:
        """Return the clients that could be asked something right now."""
        ...

    def send(self, client: ClientId, contact: int, data: bytes) -> Ticket:
        """Send a request; the answer comes through :meth:`poll` with this ticket."""
        ...

    def advance(self) -> None:
        """Begin the next tick: a virtual clock moves, a real one needs nothing."""
        ...

    def poll(self) -> list[Reply | Failure]:
        """Return what has arrived, in order of arrival."""
        ...

    def expecting(self) -> bool:
        """Whether clients that are not here yet are known to come."""
        ...

    @property
    def round(self) -> int:
        """Number of the round that is under way, such as answers of every client."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class Departures(Protocol):
    """Where clients come and go by themselves: what can be done about those who go."""

    def missing(self) -> Collection[ClientId]:
        """Return clients that are away and still waited for."""
        ...

    def go_on_without(self, clients: Collection[ClientId]) -> None:
        """Note that these clients are not waited for any more."""
        ...

    def turn_away(self, client: ClientId, reason: str) -> None:
        """Leave out a client that is here, and tell it why."""
        ...

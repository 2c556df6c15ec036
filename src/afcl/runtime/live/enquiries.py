# SPDX-License-Identifier: Apache-2.0
"""Addresses of a live run that were asked who they are, and have not said it yet."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

from afcl.core.terms import AskAnnouncement
from afcl.runtime.agreement import AgreementRequest
from afcl.runtime.codec import encode
from afcl.runtime.live.engine import Engine
from afcl.runtime.transport import Ticket


@dataclass(frozen=True)
class Enquiry:
    """Who was asked to announce itself, and when."""

    address: int
    since: float


class Enquiries:
    """Asks addresses to announce themselves, each once.

    Parameters
    ----------
    engine
        What carries the messages.
    run
        Identity of the run.
    clock
        Returns the time, in seconds.
    """

    def __init__(self, engine: Engine, run: str, clock: Callable[[], float]) -> None:
        self._engine, self._run, self._clock = engine, run, clock
        self._open: dict[Ticket, Enquiry] = {}
        #: Addresses that were asked and are not waited for.
        self._given_up: set[int] = set()
        #: What they were asked to sign.
        self.challenges: dict[int, str] = {}

    @property
    def addresses(self) -> set[int]:
        """Everybody who was asked and has not answered."""
        return {enquiry.address for enquiry in self._open.values()}

    def ask(self, address: int, request: AgreementRequest, max_rows: int) -> None:
        """Ask who is at an address, and what of its rows the agreement needs.

        It is told how many rows it may have.
        """
        # New every time: an announcement that was signed for another run is worth
        # nothing.
        challenge = secrets.token_hex(16)
        about = (request.extremes, request.group, challenge)
        kinds = (request.categories, request.names)
        ask = encode(AskAnnouncement(self._run, *about, *kinds, max_rows))
        self.challenges[address] = challenge
        ticket = self._engine.send(address, ask)
        self._open[ticket] = Enquiry(address, self._clock())

    def answered(self, ticket: Ticket) -> int | None:
        """Return whose answer this is, None if it answers something else."""
        enquiry = self._open.pop(ticket, None)
        if enquiry is None:
            return None
        self._given_up.discard(enquiry.address)
        return enquiry.address

    def keep(self, here: Collection[int]) -> None:
        """Forget who is not here any more: it is asked again when it is back."""
        open_ = self._open.items()
        self._open = {ticket: each for ticket, each in open_ if each.address in here}
        # Who has answered or gone needs not be given up any more.
        self._given_up &= self.addresses

    def awaited(self, patience: float = 0.0) -> list[int]:
        """Return who is waited for, for so many seconds at least."""
        ago = self._clock() - patience
        return [
            each.address
            for each in self._open.values()
            if each.since <= ago and each.address not in self._given_up
        ]

    def give_up(self, address: int) -> None:
        """Wait for it no more; if it answers after all, it is heard."""
        self._given_up.add(address)

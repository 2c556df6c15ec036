# SPDX-License-Identifier: Apache-2.0
"""The door of a live run: who is there, who they are, whether they fit.

An engine knows addresses; the coordinator knows clients, numbered in the order in which
they first fitted. Between the two, every new address is asked to announce itself, and
is let in, refused with a reason, or recognised by its name as somebody who is back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from afcl._typing import ClientId
from afcl.core.scale import Ranges
from afcl.core.terms import AskAnnouncement, Noted, Refusal
from afcl.exceptions import RejectedMessage
from afcl.runtime.agreement import (
    Agreement,
    Announcement,
    Wishes,
    admit,
    check,
    select,
    settle,
)
from afcl.runtime.codec import decode, encode
from afcl.runtime.coordinator import AGREEMENT, SERVER, Agreed, Say
from afcl.runtime.journal import Entry, Journal
from afcl.runtime.transport import Failure, Reply, Ticket

#: Largest message accepted from a site.
LIMIT = 64 << 20


class Post(Protocol):
    """What an engine has to offer: who is reachable, send, see what came back.

    `client` of its replies and failures is an address. One request at a time is under
    way to an address.
    """

    def nodes(self) -> Sequence[int]:
        """Return the addresses that can be reached now."""
        ...

    def send(self, address: int, data: bytes) -> Ticket:
        """Send a request."""
        ...

    def poll(self) -> list[Reply | Failure]:
        """Return what has come back since the last time."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class Lobby:
    """A transport for the coordinator on top of an engine's post.

    Parameters
    ----------
    post
        The engine.
    run
        Identity of the run.
    wishes
        What the coordinator asks of the sites.
    min_clients
        Nothing begins before so many sites fit.
    journal
        Remembers who was let in.
    linger
        Seconds for which the run stays open for late joiners after it could end.
    pause
        Seconds between two looks at the post.
    """

    def __init__(
        self,
        post: Post,
        run: str,
        wishes: Wishes,
        min_clients: int,
        journal: Journal,
        *,
        patience: float = 600.0,
        linger: float = 0.0,
        pause: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.post = post
        self.run = run
        self.wishes = wishes
        self.min_clients = min_clients
        self.journal = journal
        self.patience, self.linger, self.pause = patience, linger, pause
        self.names: dict[ClientId, str] = {}
        self._clock, self._sleep = clock, sleep
        self._say: Say = _silent
        self._agreement: Agreement | None = None
        self._announced: dict[int, Announcement] = {}
        #: Every address under the names it announced; it may have another name now.
        self._called: dict[str, set[int]] = {}
        self._numbers: dict[str, ClientId] = {}
        self._heard: dict[int, bytes] = {}
        self._address: dict[ClientId, int] = {}
        self._refused: dict[int, str] = {}
        self._asked: dict[Ticket, int] = {}
        self._flights: dict[Ticket, ClientId] = {}
        self._delivered: dict[Ticket, ClientId] = {}
        self._greeted: set[ClientId] = set()
        self._here: set[int] = set()
        self._inbox: list[Reply | Failure] = []
        self._idle: set[ClientId] = set()
        self._round = 0
        self._idle_since = clock()
        #: Whose announcements the agreement was made from.
        self._first: list[Announcement] = []
        self._columns: tuple[str, ...] | None = None
        begun = False
        for entry in journal.log:
            if entry.contact == AGREEMENT and entry.client == SERVER:
                begun, self._columns = True, decode(entry.data).columns
            elif entry.contact == AGREEMENT:
                self._remember(entry, begun)

    def _remember(self, entry: Entry, begun: bool) -> None:
        """Know again who was let in; those before the beginning made the agreement."""
        said: Announcement = decode(entry.data)
        self.names[entry.client] = said.name
        self._numbers[said.name] = entry.client
        self._address[entry.client] = int.from_bytes(entry.memory, "little")
        self._announce(self._address[entry.client], said)
        self._greeted.add(entry.client)
        if not begun:
            self._first.append(said)

    # -------------------------------------------------------------- the agreement

    def listen(self, say: Say) -> None:
        """Tell events to this function from now on."""
        self._say = say

    def agree(self, say: Say) -> Agreed:
        """Wait until enough sites fit together, and settle what they work with."""
        self.listen(say)
        while True:
            self._look()
            waiting = [a for a in self._announced if a in self._here]
            if len(waiting) >= self.min_clients and not self._asked:
                agreement = self._settle(waiting)
                if agreement is not None:
                    return agreement
            self._sleep(self.pause)

    def _settle(self, waiting: list[int]) -> Agreed | None:
        """Let in who fits together; None while they are too few."""
        said = {address: self._announced[address] for address in waiting}
        agreement, refused, notes = settle(self.wishes, list(said.values()))
        fitting = [a for a in waiting if said[a].name not in refused]
        for address in waiting:
            if said[address].name in refused:
                self._refuse(address, refused[said[address].name])
        if agreement is None or len(fitting) < self.min_clients:
            return None
        for text in notes:
            self._say("note", text=text)
        self._agreement = agreement
        for address in fitting:
            self._let_in(address)
        rows = sum(said[address].n_rows for address in fitting)
        box = agreement.box
        self._say(
            "agreed",
            columns=list(agreement.columns),
            rows=rows,
            low=box.low,
            span=box.span,
        )
        return Agreed(box, rows, agreement.columns)

    def resume(self, say: Say) -> None:
        """Take the agreement of the first half of the run as it was.

        Who was refused then had a vote on the columns, so these are given now.
        """
        self.listen(say)
        same = replace(self.wishes, columns=self._columns)
        self._agreement, _, _ = settle(same, self._first)

    def ranges(self, client: ClientId) -> Ranges:
        """Return the rows and the extremes that a client has announced."""
        assert self._agreement is not None
        said = self._announced[self._address[client]]
        columns = self._agreement.columns
        places = select(columns if said.low.size else (), said.columns)
        return Ranges(said.n_rows, len(columns), said.low[places], said.high[places])

    # -------------------------------------------------------------- at the door

    def _look(self) -> None:
        """See who is here, hear what came back, ask who is new."""
        now = set(self.post.nodes())
        lost = self._here - now
        for client, address in self._address.items():
            if address in lost:
                self._inbox.append(Failure(-1, client, "is gone", gone=True))
                self._forget_flights(client)
        returned = now - self._here
        self._idle |= {c for c, address in self._address.items() if address in returned}
        self._here = now
        # Who was refused and went away may have mended what was wrong.
        self._refused = {a: why for a, why in self._refused.items() if a in now}
        for answer in self.post.poll():
            if answer.ticket in self._asked:
                self._introduced(self._asked.pop(answer.ticket), answer)
            elif answer.ticket in self._flights:
                self._deliver(answer)
            elif answer.ticket in self._delivered:
                self._say("duplicate", client=self._delivered[answer.ticket])
        busy = set(self._asked.values())
        for address in sorted(now - busy - set(self._announced) - set(self._refused)):
            wishes = self.wishes
            ask = encode(AskAnnouncement(self.run, wishes.extremes, wishes.group))
            self._asked[self.post.send(address, ask)] = address

    def _deliver(self, answer: Reply | Failure) -> None:
        client = self._flights.pop(answer.ticket)
        self._delivered[answer.ticket] = client
        if isinstance(answer, Reply):
            self._inbox.append(Reply(answer.ticket, client, answer.data))
        else:
            self._inbox.append(Failure(answer.ticket, client, answer.reason))

    def _forget_flights(self, client: ClientId) -> None:
        lost = [ticket for ticket, c in self._flights.items() if c == client]
        for ticket in lost:
            del self._flights[ticket]

    def _introduced(self, address: int, answer: Reply | Failure) -> None:
        """Hear an announcement; who cannot announce itself is not asked again."""
        if isinstance(answer, Failure):
            self._refused[address] = answer.reason
            self._say("refused", name=f"node {address}", reason=answer.reason)
            return
        try:
            said = check(decode(answer.data, LIMIT), self.wishes.extremes)
        except RejectedMessage as error:
            self._refuse(address, str(error), name=f"node {address}")
            return
        self._heard[address] = answer.data
        others = self._namesakes(said.name)
        if others & self._here:
            text = f"the name {said.name} is taken: choose another with --name"
            self._refuse(address, text, said.name)
            return
        for other in others:
            del self._announced[other]
        self._announce(address, said)
        if self._agreement is not None:
            self._late(address, said)

    def _announce(self, address: int, said: Announcement) -> None:
        self._announced[address] = said
        self._called.setdefault(said.name, set()).add(address)

    def _namesakes(self, name: str) -> set[int]:
        """Return the addresses that go by a name."""
        once = self._called.get(name, set()) & self._announced.keys()
        return {address for address in once if self._announced[address].name == name}

    def _late(self, address: int, said: Announcement) -> None:
        """Let in who comes after the agreement, or comes back."""
        assert self._agreement is not None
        reason, notes = admit(self._agreement, self.wishes, said)
        if reason is not None:
            self._refuse(address, reason, said.name)
            return
        for text in notes:
            self._say("note", text=text)
        self._let_in(address)

    def _let_in(self, address: int) -> None:
        said = self._announced[address]
        client = self._numbers.setdefault(said.name, len(self.names))
        self.names[client] = said.name
        self._address[client] = address
        self._idle.add(client)
        data = self._heard.get(address, encode(said))
        where = address.to_bytes(8, "little")
        self.journal.record(Entry(client, AGREEMENT, data, where))
        self._say(
            "ranges",
            client=client,
            name=said.name,
            rows=said.n_rows,
            bytes=len(data),
        )

    def _refuse(self, address: int, reason: str, name: str | None = None) -> None:
        """Tell a site why it is left out; it is not asked again."""
        known = self._announced.pop(address, None)
        self._refused[address] = reason
        self._say("refused", name=name or (known.name if known else ""), reason=reason)
        self.post.send(address, encode(Refusal(self.run, reason)))

    # -------------------------------------------------------------- the transport

    def members(self) -> list[ClientId]:
        """Clients that were let in, are here, and are not being asked something."""
        busy = set(self._flights.values()) | {answer.client for answer in self._inbox}
        return [
            client
            for client, address in sorted(self._address.items())
            if address in self._here and client not in busy
        ]

    def send(self, client: ClientId, contact: int, data: bytes) -> Ticket:
        """Send a request to where the client is now."""
        ticket = self.post.send(self._address[client], data)
        self._flights[ticket] = client
        self._idle.discard(client)
        if contact == 0:
            self._greeted.add(client)
        return ticket

    def advance(self) -> None:
        """Wait until something has come back, or somebody can be asked something."""
        self._round += 1
        until = self._clock() + self.patience
        while True:
            self._look()
            if self._inbox or self._idle:
                self._idle.clear()
                self._idle_since = self._clock()
                return
            if self._clock() >= until or self._lingered():
                return
            self._sleep(self.pause)

    def poll(self) -> list[Reply | Failure]:
        """Return what has come back."""
        arrived, self._inbox = self._inbox, []
        self._idle |= {answer.client for answer in arrived}
        return arrived

    def _lingered(self) -> bool:
        return not self._flights and not self.expecting()

    def expecting(self) -> bool:
        """Whether somebody stands at the door, or the run is kept open for them."""
        if self._asked or set(self.members()) - self._greeted:
            return True
        return self._clock() - self._idle_since < self.linger

    @property
    def round(self) -> int:
        """Number of times something was waited for."""
        return self._round

    def close(self) -> None:
        """Nothing to let go of: the post is still needed for the end."""

    # -------------------------------------------------------------- the end

    def tell(self, messages: Callable[[ClientId], bytes], grace: float) -> list[str]:
        """Tell everybody who is here how it ended; return who has noted it."""
        until = self._clock() + grace
        waiting: dict[Ticket, ClientId] = {}
        told: set[ClientId] = set()
        noted: list[str] = []
        while self._clock() < until:
            now = set(self.post.nodes())
            for client, address in sorted(self._address.items()):
                if address in now and client not in told:
                    told.add(client)
                    waiting[self.post.send(address, messages(client))] = client
            for answer in self.post.poll():
                client = waiting.pop(answer.ticket, -1)
                if client >= 0 and _is_noted(answer):
                    noted.append(self.names[client])
            if not waiting:
                break
            self._sleep(self.pause)
        return noted


def _is_noted(answer: Reply | Failure) -> bool:
    if isinstance(answer, Failure):
        return False
    try:
        return isinstance(decode(answer.data, LIMIT), Noted)
    except RejectedMessage:
        return False


def _silent(event: str, **fields: Any) -> None:
    """Hear nothing."""

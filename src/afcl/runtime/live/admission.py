# SPDX-License-Identifier: Apache-2.0
"""Admission to a live run: who is there, who they are, whether they fit.

An engine knows addresses; the coordinator knows clients, numbered in the order in which
they first fitted. Between the two, every new address is asked to announce itself, and
is let in, refused with a reason, or recognised by its name as somebody who is back. An
enrolled site's name belongs to its key: nobody else can take it over.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from afcl._typing import ClientId
from afcl.core.messages import Hello, refuse_unless
from afcl.core.tasks import SecureHello
from afcl.core.terms import AskAnnouncement, Noted, Refusal
from afcl.exceptions import RejectedMessage
from afcl.privacy.identity import mask_key, verify
from afcl.runtime.agreement import AgreementRequest, Say
from afcl.runtime.codec import decode, encode
from afcl.runtime.journal import Journal
from afcl.runtime.live.announcement import Announcement, check, check_owner
from afcl.runtime.live.door import Door
from afcl.runtime.live.engine import Engine
from afcl.runtime.live.notes import SiteAgreement
from afcl.runtime.live.roster import Roster
from afcl.runtime.live.settlement import admit, settle
from afcl.runtime.transport import Failure, Reply, Ticket
from afcl.scale import Ranges

#: Largest message accepted from a site, in bytes.
LARGEST_MESSAGE = 64 << 20


class Admission:
    """A transport for the coordinator on top of an engine, and how its sites agree.

    Parameters
    ----------
    engine
        What carries the messages.
    run
        Identity of the run.
    request
        What the coordinator asks of the sites.
    min_clients
        Nothing begins before so many sites fit.
    journal
        Remembers who was let in.
    patience
        Seconds for which anybody is waited for; a site that has not announced itself by
        then is not counted on any more, but still let in when it does.
    linger
        Seconds for which the run stays open for late joiners after it could end.
    pause
        Seconds between two looks at the engine.
    door
        Knows the keys that may join; None: nobody needs a key, and no name is bound.
    """

    live = True

    def __init__(
        self,
        engine: Engine,
        run: str,
        request: AgreementRequest,
        min_clients: int,
        journal: Journal,
        *,
        patience: float = 600.0,
        linger: float = 0.0,
        pause: float = 0.2,
        door: Door | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine = engine
        self.run = run
        self.request = request
        self.min_clients = min_clients
        self.journal = journal
        self.patience, self.linger, self.pause = patience, linger, pause
        self.roster = Roster()
        self._door = door
        self._clock, self._sleep = clock, sleep
        self._say: Say = _silent
        self._agreement: SiteAgreement | None = None
        #: Addresses that were turned away, and why, for as long as they stay.
        self._refused: dict[int, str] = {}
        #: Requests to announce itself, by ticket: the address that was asked, and when.
        self._asked: dict[Ticket, tuple[int, float]] = {}
        #: Addresses that were asked and are not waited for.
        self._given_up: set[int] = set()
        #: What they were asked to sign.
        self._challenges: dict[int, str] = {}
        #: The coordinator's requests that are under way, and those answered.
        self._flights: dict[Ticket, ClientId] = {}
        self._delivered: dict[Ticket, ClientId] = {}
        self._greeted: set[ClientId] = set()
        self._here: set[int] = set()
        #: Clients that the coordinator goes on without.
        self._counted_out: set[ClientId] = set()
        self._inbox: list[Reply | Failure] = []
        #: Clients that could be asked something since the last tick.
        self._idle: set[ClientId] = set()
        self._round = 0
        self._idle_since = clock()
        #: Whether the last wait was as long as can be.
        self._in_vain = False
        self.roster.restore(journal.log)
        self._greeted.update(self.roster.names)

    # -------------------------------------------------------------- the agreement

    def agree(self, say: Say) -> SiteAgreement:
        """Wait until enough sites fit together, and settle what they work with.

        Too few are waited for without end. Once they are enough, those who were asked
        and have not answered are waited for as long as the patience lasts, and no
        longer, however many of them there come.
        """
        self._say = say
        enough: float | None = None
        while True:
            self._look()
            waiting = [a for a in self.roster.announced if a in self._here]
            if len(waiting) < self.min_clients:
                enough = None
            else:
                enough = self._clock() if enough is None else enough
                late = self._awaited()
                if late and self._clock() - enough >= self.patience:
                    self._give_up(late)
                    late = []
                agreement = None if late else self._settle(waiting)
                if agreement is not None:
                    return agreement
            self._sleep(self.pause)

    def _awaited(self) -> list[int]:
        """Return who was asked to announce itself, and may yet do so."""
        asked = (address for address, _ in self._asked.values())
        return [address for address in asked if address not in self._given_up]

    def _give_up(self, addresses: Iterable[int]) -> None:
        """Wait for these no more; who answers after all is let in then."""
        for address in addresses:
            self._given_up.add(address)
            who = self._name(address)
            text = f"{who} does not say who it is: it is not waited for"
            self._say("note", text=text)

    def _settle(self, waiting: list[int]) -> SiteAgreement | None:
        """Let in who fits together; None while they are too few."""
        sites = {address: self.roster.announced[address] for address in waiting}
        agreement, refused, notes = settle(self.request, list(sites.values()))
        fitting = [a for a in waiting if sites[a].name not in refused]
        for address, site in sites.items():
            if site.name in refused:
                self._refuse(address, refused[site.name], site.name)
        if agreement is None or len(fitting) < self.min_clients:
            return None
        for text in notes:
            self._say("note", text=text)
        self._agreement = agreement
        for address in fitting:
            self._let_in(address)
        self._say(
            "agreed",
            columns=list(agreement.columns),
            rows=agreement.n_rows,
            low=agreement.box.low,
            span=agreement.box.span,
        )
        return agreement

    def resume(self, say: Say) -> None:
        """Take the agreement of the first half of the run as it was.

        Who was refused then had a vote on the columns, so these are given now.
        """
        self._say = say
        same = replace(self.request, columns=self.roster.columns)
        self._agreement, _, _ = settle(same, self.roster.founders)

    def ranges(self, client: ClientId) -> Ranges:
        """Return the rows and the extremes that a client has announced."""
        assert self._agreement is not None
        return self.roster.site(client).ranges(self._agreement.columns)

    def check_key(self, hello: Hello) -> None:
        """Refuse a mask key that the site has not signed, before others see it."""
        if not isinstance(hello.payload, SecureHello):
            return
        site, proof = self.roster.site(hello.client), hello.payload.proof
        if proof is None:
            signed = not site.identity
        else:
            about = (self.run, hello.client, site.name, hello.payload.key)
            own = (proof.name, proof.identity) == (site.name, site.identity)
            signed = own and verify(site.identity, mask_key(*about), proof.signature)
        refuse_unless(signed, f"the mask key of {site.name} is not signed by its key")

    # -------------------------------------------------------------- who is here

    def _look(self) -> None:
        """See who is here, hear what came back, ask who is new."""
        now = set(self.engine.nodes())
        lost, returned = self._here - now, now - self._here
        for client, address in self.roster.addresses.items():
            if address in lost and address not in self._refused:
                self._count_out(client)
            elif address in returned:
                self._idle.add(client)
        self._here = now
        # Who was refused and went away may have mended what was wrong.
        self._refused = {a: why for a, why in self._refused.items() if a in now}
        for answer in self.engine.poll():
            self._sort(answer)
        self._put_out_revoked()
        self._ask_who_is_new()

    def _ask_who_is_new(self) -> None:
        """Ask who is new, and forget who is gone: it is asked again when it is back."""
        here = {t: asked for t, asked in self._asked.items() if asked[0] in self._here}
        self._asked = here
        asked = {address for address, _ in here.values()}
        self._given_up &= asked
        ago = self._clock() - self.patience
        late = [address for address, since in here.values() if since <= ago]
        self._give_up(address for address in late if address not in self._given_up)
        known = self.roster.announced.keys() | self._refused.keys() | asked
        for address in sorted(self._here - known):
            request, challenge = self.request, secrets.token_hex(16)
            about = (request.extremes, request.group, challenge)
            ask = encode(AskAnnouncement(self.run, *about))
            self._challenges[address] = challenge
            self._asked[self.engine.send(address, ask)] = (address, self._clock())

    def _sort(self, answer: Reply | Failure) -> None:
        """Hear an announcement, or hand an answer on to the coordinator."""
        ticket = answer.ticket
        if ticket in self._asked:
            address, _ = self._asked.pop(ticket)
            self._given_up.discard(address)
            self._hear_announcement(address, answer)
        elif ticket in self._flights:
            client = self._flights.pop(ticket)
            self._delivered[ticket] = client
            self._inbox.append(replace(answer, client=client))
        elif ticket in self._delivered:
            self._say("duplicate", client=self._delivered[ticket])

    def _count_out(self, client: ClientId) -> None:
        """Have the coordinator go on without a client, until it is asked again."""
        self._counted_out.add(client)
        self._inbox.append(Failure(-1, client, "is gone", gone=True))
        kept = {ticket: c for ticket, c in self._flights.items() if c != client}
        self._flights = kept

    def _hear_announcement(self, address: int, answer: Reply | Failure) -> None:
        """Note who is there; who cannot announce itself is not asked again."""
        if isinstance(answer, Failure):
            self._refuse(address, answer.reason, self._name(address))
            return
        try:
            payload = decode(answer.data, LARGEST_MESSAGE)
            site = check(payload, self.request.extremes)
            self._check_owner(site, self._challenges[address])
        except RejectedMessage as error:
            self._refuse(address, str(error), self._name(address))
            return
        others = self.roster.namesakes(site.name)
        if others & self._here - self._refused.keys():
            text = f"the name {site.name} is taken: choose another with --name"
            self._refuse(address, text, site.name)
            return
        for other in others:
            del self.roster.announced[other]
        self.roster.announce(address, site, answer.data)
        if self._agreement is None:
            return
        reason, notes = admit(self._agreement, self.request, site)
        if reason is not None:
            self._refuse(address, reason, site.name)
            return
        for text in notes:
            self._say("note", text=text)
        self._let_in(address)

    def _check_owner(self, site: Announcement, challenge: str) -> None:
        """Refuse who is not enrolled, or comes under a name that is another's."""
        check_owner(site, self.run, challenge)
        if self._door is not None:
            self._door.check(site)
        owner = self.roster.owners.get(site.name, site.identity)
        refuse_unless(
            owner == site.identity or owner in self._revoked(),
            f"the name {site.name} belongs to another key: choose another with --name",
        )

    def _revoked(self) -> Mapping[str, str]:
        """Return the keys that were taken away, and a line on each."""
        return {} if self._door is None else self._door.revoked()

    def _put_out_revoked(self) -> None:
        """Put out who has come with a key that was revoked since."""
        revoked = self._revoked()
        if not revoked:
            return
        clients = {at: client for client, at in self.roster.addresses.items()}
        for address in self._here - self._refused.keys():
            site = self.roster.announced.get(address)
            if site is None or site.identity not in revoked:
                continue
            why, client = revoked[site.identity], clients.get(address)
            if client is None:
                self._refuse(address, why, site.name)
                continue
            self._tell_refused(address, why, site.name)
            if client not in self._counted_out:
                self._count_out(client)

    def _name(self, address: int) -> str:
        """Return what to call somebody who has not been let in."""
        known = None if self._door is None else self._door.name_at(address)
        return known or f"node {address}"

    def _let_in(self, address: int) -> None:
        """Let in who fits, whether it is new or back."""
        entry = self.roster.let_in(address)
        self._idle.add(entry.client)
        self.journal.record(entry)
        site = self.roster.announced[address]
        if self._door is not None:
            self._door.let_in(self.run, site, entry.client)
        self._say(
            "ranges",
            client=entry.client,
            name=site.name,
            rows=site.n_rows,
            bytes=len(entry.data),
        )

    def _refuse(self, address: int, reason: str, name: str) -> None:
        """Tell a site why it is left out; it is not asked again."""
        self.roster.announced.pop(address, None)
        self._tell_refused(address, reason, name)

    def _tell_refused(self, address: int, reason: str, name: str) -> None:
        self._refused[address] = reason
        self._say("refused", name=name, reason=reason)
        self.engine.send(address, encode(Refusal(self.run, reason)))

    # -------------------------------------------------------------- the transport

    def members(self) -> list[ClientId]:
        """Clients that were let in, are here, and are not being asked something."""
        busy = set(self._flights.values()) | {answer.client for answer in self._inbox}
        here = self._here - self._refused.keys()
        return [
            client
            for client, address in sorted(self.roster.addresses.items())
            if address in here and client not in busy
        ]

    def send(self, client: ClientId, contact: int, data: bytes) -> Ticket:
        """Send a request to where the client is now."""
        ticket = self.engine.send(self.roster.addresses[client], data)
        self._flights[ticket] = client
        self._counted_out.discard(client)
        self._idle.discard(client)
        if contact == 0:
            self._greeted.add(client)
        return ticket

    def advance(self) -> None:
        """Wait until something has come back, or somebody can be asked something.

        After a wait in vain there is none: the coordinator may have gone on without
        somebody, and then others are to be asked at once.
        """
        self._round += 1
        wait = 0.0 if self._in_vain else self.patience
        until, self._in_vain = self._clock() + wait, False
        while True:
            self._look()
            if self._inbox or self._idle:
                self._idle.clear()
                self._idle_since = self._clock()
                return
            over = not self._flights and not self.expecting()
            if self._clock() >= until or over:
                self._in_vain = wait > 0 and not over
                return
            self._sleep(self.pause)

    def poll(self) -> list[Reply | Failure]:
        """Return what has come back."""
        arrived, self._inbox = self._inbox, []
        self._idle |= {answer.client for answer in arrived}
        return arrived

    def expecting(self) -> bool:
        """Whether somebody waits to be let in, or the run is kept open for them."""
        if self._awaited() or set(self.members()) - self._greeted:
            return True
        return self._clock() - self._idle_since < self.linger

    @property
    def round(self) -> int:
        """Number of times something was waited for."""
        return self._round

    def close(self) -> None:
        """Nothing to let go of: the engine is still needed for the end."""

    # -------------------------------------------------------------- the end

    def announce_end(
        self, messages: Callable[[ClientId], bytes], grace: float
    ) -> list[str]:
        """Send everybody who is here how it ended; return who has noted it."""
        until = self._clock() + grace
        waiting: dict[Ticket, ClientId] = {}
        sent: set[ClientId] = set()
        noted: list[str] = []
        while self._clock() < until:
            now = set(self.engine.nodes()) - self._refused.keys()
            for client, address in sorted(self.roster.addresses.items()):
                if address in now and client not in sent:
                    sent.add(client)
                    waiting[self.engine.send(address, messages(client))] = client
            for answer in self.engine.poll():
                client = waiting.pop(answer.ticket, -1)
                if client >= 0 and _is_noted(answer):
                    noted.append(self.roster.names[client])
            if not waiting:
                break
            self._sleep(self.pause)
        return noted


def _is_noted(answer: Reply | Failure) -> bool:
    if isinstance(answer, Failure):
        return False
    try:
        return isinstance(decode(answer.data, LARGEST_MESSAGE), Noted)
    except RejectedMessage:
        return False


def _silent(event: str, **fields: Any) -> None:
    """Record nothing: no run is listening yet."""

# SPDX-License-Identifier: Apache-2.0
"""Who comes to a live run: asked who it is, then let in, refused, or back again.

An engine knows addresses; the coordinator knows clients, numbered in the order in which
they first fitted. Between the two, every new address is asked to announce itself, and
is let in, refused with a reason, or recognised by its name as somebody who is back. An
enrolled site's name belongs to its key: nobody else can take it over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from afcl._typing import ClientId
from afcl.core.terms import Refusal
from afcl.exceptions import RejectedMessage
from afcl.runtime.agreement import AgreementRequest, Say
from afcl.runtime.codec import decode, encode
from afcl.runtime.journal import Journal
from afcl.runtime.live.announcement import check
from afcl.runtime.live.aside import reason_aside
from afcl.runtime.live.door import KeyDoor
from afcl.runtime.live.engine import Engine
from afcl.runtime.live.enquiries import Enquiries
from afcl.runtime.live.notes import SiteAgreement
from afcl.runtime.live.ownership import Ownership
from afcl.runtime.live.requests import Requests
from afcl.runtime.live.roster import Roster
from afcl.runtime.live.settlement import admit
from afcl.runtime.transport import Failure, Reply

#: Largest message accepted from a site, in bytes.
LARGEST_MESSAGE = 64 << 20
#: Of a site that comes when all has been said.
OVER = "the run is over and this site took no part in it: wait for the next one"


class Reception:
    """What is known of everybody who can be reached.

    Parameters
    ----------
    engine, run, request, min_clients, journal, patience, door, unwelcome
        As in :class:`~afcl.runtime.live.admission.Admission`.
    roster
        Who is who.
    clock
        Returns the time, in seconds.
    """

    def __init__(
        self,
        engine: Engine,
        run: str,
        request: AgreementRequest,
        min_clients: int,
        journal: Journal,
        roster: Roster,
        patience: float,
        door: KeyDoor | None,
        unwelcome: Callable[[str], bool] | None,
        clock: Callable[[], float],
    ) -> None:
        self.engine = engine
        self.run = run
        self.request = request
        self.min_clients = min_clients
        self.journal = journal
        self.roster = roster
        self.patience = patience
        self._ownership = Ownership(run, roster, door, unwelcome)
        self._requests = Requests(engine, clock)
        self._enquiries = Enquiries(engine, run, clock)
        self._say: Say = _silent
        self._agreement: SiteAgreement | None = None
        #: Addresses that were turned away, and why, for as long as they stay.
        self._refused: dict[int, str] = {}
        #: Clients that take no part, and are told the end.
        self._aside: set[ClientId] = set()
        self._here: set[int] = set()
        self._inbox: list[Reply | Failure] = []
        #: Clients that went away and may come back, and those not waited for.
        self._lost: set[ClientId] = set()
        self._gone: set[ClientId] = set()
        #: Clients that could be asked something since the last tick.
        self._idle: set[ClientId] = set()
        #: Answers so far, first messages apart.
        self._answers = sum(entry.contact > 0 for entry in journal.log)
        #: Whether the run is over: only who took part is spoken with.
        self._over = False

    def _look(self) -> None:
        """See who is here, hear what came back, ask who is new."""
        now = set(self.engine.nodes())
        lost, returned = self._here - now, now - self._here
        self._here = now
        for client, address in self.roster.addresses.items():
            if address in lost and client not in self._gone:
                self._lost.add(client)
            # A key that was taken back must not come in again by the way of coming
            # back.
            elif address in returned and not self._ownership.is_revoked(address):
                self._is_back(client)
        self._part_with_lost()
        # Who was refused and went away may have mended what was wrong.
        self._refused = {a: why for a, why in self._refused.items() if a in now}
        for answer in self.engine.poll():
            self._sort(answer)
        self._put_out_revoked()
        # Engines lose messages when either side starts anew; sites know a question
        # again.
        self._requests.send_again(self.roster.addresses, self._here)
        self._ask_who_is_new()

    def _is_back(self, client: ClientId) -> None:
        """Ask who was away what it was being asked, or something new."""
        self._lost.discard(client)
        self._gone.discard(client)
        self._idle.add(client)
        self._requests.hurry(client)

    def _part_with_lost(self) -> None:
        """Count the lost as gone while enough others are here; else wait for them."""
        # With too few the run would go on to an answer that nobody wants.
        if not self._lost or len(self.present()) < self.min_clients:
            return
        for client in sorted(self._lost):
            self._go_on_without(client)
        self._lost.clear()

    def _go_on_without(self, client: ClientId) -> None:
        """Have the coordinator go on without a client, until it is back."""
        # As an answer, so that it is journaled and replayed in its place.
        self._inbox.append(Failure(-1, client, "is gone", gone=True))
        self._requests.drop(client)
        self._gone.add(client)

    def present(self) -> list[ClientId]:
        """Return the clients that were let in and are here."""
        here = self._here - self._refused.keys()
        return [
            client
            for client, address in sorted(self.roster.addresses.items())
            if address in here and address in self.roster.announced
        ]

    def _ask_who_is_new(self) -> None:
        """Ask who is new, and forget who is gone: it is asked again when it is back."""
        # An engine does not say that a question was lost with its addressee.
        self._enquiries.keep(self._here)
        self._give_up(self._enquiries.awaited(self.patience))
        known = self.roster.announced.keys() | self._refused.keys()
        for address in sorted(self._here - known - self._enquiries.addresses):
            most = self._ownership.most_rows(address, self.request.max_rows)
            self._enquiries.ask(address, self.request, most)

    def _sort(self, answer: Reply | Failure) -> None:
        """Hear an announcement, or hand an answer on to the coordinator."""
        address = self._enquiries.answered(answer.ticket)
        if address is not None:
            if not (isinstance(answer, Failure) and answer.lost):  # else asked again
                self._hear_announcement(address, answer)
            return
        client = self._requests.twice(answer.ticket)
        if client is not None:
            self._say("duplicate", client=client)
        received = self._requests.hear(answer)
        if received is None:
            return
        result, contact = received
        aside = reason_aside(result)
        if aside is not None:
            # To the coordinator it is a client that does not answer; it may later.
            result = Failure(result.ticket, result.client, aside)
        self._gone.discard(result.client)
        self._inbox.append(result)
        if aside is not None:
            self._aside.add(result.client)
            if contact > 0:
                self._go_on_without(result.client)
        if contact > 0 and isinstance(result, Reply):
            self._answers += 1

    def _hear_announcement(self, address: int, answer: Reply | Failure) -> None:
        """Note who is there; who cannot announce itself is not asked again."""
        if isinstance(answer, Failure):
            self._refuse(address, answer.reason, self._ownership.name_at(address))
            return
        try:
            # A stranger's bytes: nobody has shown a key yet.
            payload = decode(answer.data, LARGEST_MESSAGE)
            site = check(payload, self.request.extremes)
            self._ownership.check(site, self._enquiries.challenges[address])
        except RejectedMessage as error:
            self._refuse(address, str(error), self._ownership.name_at(address))
            return
        others = self.roster.namesakes(site.name)
        # Who is here keeps its name; without keys the first one has it.
        if others & self._here - self._refused.keys():
            text = f"the name {site.name} is taken: choose another with --name"
            self._refuse(address, text, site.name)
            return
        for other in others:
            # The same site at a new address, since its old one is gone.
            del self.roster.announced[other]
        if self._over and site.name not in self.roster.names.values():
            self._refuse(address, OVER, site.name)
            return
        self.roster.announce(address, site, answer.data)
        if self._over:
            self._let_in(address)
        if self._over or self._agreement is None:
            return
        # A latecomer fits what was agreed, or stays out: the box cannot change any
        # more.
        reason, notes = admit(self._agreement, self.request, site)
        if reason is not None:
            self._refuse(address, reason, site.name)
            return
        for text in notes:
            self._say("note", text=text)
        self._let_in(address)

    def _put_out_revoked(self) -> None:
        """Put out who has come with a key that was revoked since."""
        revoked = self._ownership.revoked()
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
            self._lost.discard(client)
            if client not in self._gone:
                self._go_on_without(client)

    def _let_in(self, address: int) -> None:
        """Let in who fits, whether it is new or back."""
        entry = self.roster.let_in(address)
        self._is_back(entry.client)
        self.journal.record(entry)
        site = self.roster.announced[address]
        self._ownership.let_in(site, entry.client)
        self._say(
            "ranges",
            client=entry.client,
            name=site.name,
            rows=site.n_rows,
            bytes=len(entry.data),
        )

    def _refuse(self, address: int, reason: str, name: str) -> None:
        """Tell a site why it is left out; it is not asked again."""
        # So that it has no say in what is settled, and may announce itself anew.
        self.roster.announced.pop(address, None)
        self._tell_refused(address, reason, name)

    def _tell_refused(self, address: int, reason: str, name: str) -> None:
        self._refused[address] = reason
        self._say("refused", name=name, reason=reason)
        self.engine.send(address, encode(Refusal(self.run, reason)))

    def _give_up(self, addresses: Iterable[int]) -> None:
        """Wait for these no more; who answers after all is let in then."""
        for address in addresses:
            self._enquiries.give_up(address)
            who = self._ownership.name_at(address)
            text = f"{who} does not say who it is: it is not waited for"
            self._say("note", text=text)


def _silent(event: str, **fields: Any) -> None:
    """Record nothing: no run is listening yet."""

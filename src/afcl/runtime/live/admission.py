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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from afcl._typing import ClientId
from afcl.core.messages import Hello, refuse_unless
from afcl.core.tasks import SecureHello
from afcl.core.terms import Aside, AskAnnouncement, Refusal
from afcl.data.features import Embedding
from afcl.exceptions import RejectedMessage
from afcl.privacy.identity import mask_key, verify
from afcl.runtime.agreement import AgreementRequest, Say
from afcl.runtime.codec import decode, encode
from afcl.runtime.journal import Journal
from afcl.runtime.live.announcement import Announcement, check, check_owner
from afcl.runtime.live.door import Door
from afcl.runtime.live.engine import Engine
from afcl.runtime.live.kinds import features_of
from afcl.runtime.live.notes import SiteAgreement
from afcl.runtime.live.requests import Requests
from afcl.runtime.live.roster import Roster
from afcl.runtime.live.settlement import admit, settle
from afcl.runtime.transport import Failure, Reply, Ticket
from afcl.scale import Ranges

#: Largest message accepted from a site, in bytes.
LARGEST_MESSAGE = 64 << 20
#: Longest message that says that a site takes no part, in bytes.
LONGEST_ASIDE = 1 << 12
#: What is written down of such a site.
ASIDE = "takes no part, for want of rows without gaps; they are labelled at the end"
#: Of a site that comes when all has been said.
OVER = "the run is over and this site took no part in it: wait for the next one"


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
    numbers
        Sites of earlier runs by the numbers that they keep; "" for one that is free to
        nobody.
    unwelcome
        Tells by its name whether a site is not let in any more.
    expected, absence
        Sites without which nothing begins, and for how many seconds.
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
        numbers: Sequence[str] = (),
        unwelcome: Callable[[str], bool] | None = None,
        expected: Sequence[str] = (),
        absence: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine = engine
        self.run = run
        self.request = request
        self.min_clients = min_clients
        self.journal = journal
        self.patience, self.linger, self.pause = patience, linger, pause
        self.roster = Roster(numbers)
        self._door, self._unwelcome = door, unwelcome
        self.expected, self.absence = expected, absence
        self._clock, self._sleep = clock, sleep
        self._requests = Requests(engine, lambda: self._clock())
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
        self._greeted: set[ClientId] = set()
        #: Clients that take no part, and are told the end.
        self._aside: set[ClientId] = set()
        self._here: set[int] = set()
        self._inbox: list[Reply | Failure] = []
        #: Clients that went away and may come back, and those not waited for.
        self._lost: set[ClientId] = set()
        self._gone: set[ClientId] = set()
        #: Clients that could be asked something since the last tick.
        self._idle: set[ClientId] = set()
        #: Answers so far, first messages apart, and the rounds they make.
        self._answers = sum(entry.contact > 0 for entry in journal.log)
        self._round = 0
        #: Whether the run is over: only who took part is spoken with.
        self._over = False
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
        begun, enough = self._clock(), None
        while True:
            self._look()
            waiting = [a for a in self.roster.announced if a in self._here]
            if len(waiting) < self.min_clients or self._misses(waiting, begun):
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

    def _misses(self, waiting: Iterable[int], begun: float) -> bool:
        """Whether somebody is not here who is waited for."""
        here = {self.roster.announced[address].name for address in waiting}
        late = self._clock() - begun >= self.absence
        return not late and not here.issuperset(self.expected)

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
        terms = self.roster.terms
        assert terms is not None
        categories = terms.categories or ()
        named = Embedding.of_names(terms.columns, features_of(categories)).columns
        same = replace(self.request, columns=named, categories=categories)
        self._agreement, _, _ = settle(same, self.roster.founders)

    def ranges(self, client: ClientId) -> Ranges:
        """Return the rows and the extremes that a client has announced."""
        assert self._agreement is not None
        embedding = self._agreement.embedding
        return self.roster.site(client).under(embedding.columns).ranges(embedding)

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
        self._here = now
        for client, address in self.roster.addresses.items():
            if address in lost and client not in self._gone:
                self._lost.add(client)
            elif address in returned and not self._is_revoked(address):
                self._is_back(client)
        self._part_with_lost()
        # Who was refused and went away may have mended what was wrong.
        self._refused = {a: why for a, why in self._refused.items() if a in now}
        for answer in self.engine.poll():
            self._sort(answer)
        self._put_out_revoked()
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
        if not self._lost or len(self.present()) < self.min_clients:
            return
        for client in sorted(self._lost):
            self._go_on_without(client)
        self._lost.clear()

    def _go_on_without(self, client: ClientId) -> None:
        """Have the coordinator go on without a client, until it is back."""
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
            kinds = (request.categories, request.names)
            ask = encode(AskAnnouncement(self.run, *about, *kinds))
            self._challenges[address] = challenge
            self._asked[self.engine.send(address, ask)] = (address, self._clock())

    def _sort(self, answer: Reply | Failure) -> None:
        """Hear an announcement, or hand an answer on to the coordinator."""
        ticket = answer.ticket
        if ticket in self._asked:
            address, _ = self._asked.pop(ticket)
            self._given_up.discard(address)
            if not (isinstance(answer, Failure) and answer.lost):  # else asked again
                self._hear_announcement(address, answer)
            return
        client = self._requests.twice(ticket)
        if client is not None:
            self._say("duplicate", client=client)
        heard = self._requests.hear(answer)
        if heard is not None:
            told, contact = heard
            aside = _aside_of(told)
            if aside is not None:
                told = Failure(told.ticket, told.client, aside.reason or ASIDE)
            self._gone.discard(told.client)
            self._inbox.append(told)
            if aside is not None:
                self._aside.add(told.client)
                if contact > 0:
                    self._go_on_without(told.client)
            self._answers += contact > 0 and isinstance(told, Reply)

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
        if self._over and site.name not in self.roster.names.values():
            self._refuse(address, OVER, site.name)
            return
        self.roster.announce(address, site, answer.data)
        if self._over:
            self._let_in(address)
        if self._over or self._agreement is None:
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
        refuse_unless(
            self._unwelcome is None or not self._unwelcome(site.name),
            f"{site.name} was forgotten here, as it was asked for: choose another name "
            "with --name to take part again",
        )
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
            self._lost.discard(client)
            if client not in self._gone:
                self._go_on_without(client)

    def _is_revoked(self, address: int) -> bool:
        site = self.roster.announced.get(address)
        return site is not None and site.identity in self._revoked()

    def _name(self, address: int) -> str:
        """Return what to call somebody who has not been let in."""
        known = None if self._door is None else self._door.name_at(address)
        return known or f"node {address}"

    def _let_in(self, address: int) -> None:
        """Let in who fits, whether it is new or back."""
        entry = self.roster.let_in(address)
        self._is_back(entry.client)
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
        busy = {*self._requests.clients, *(answer.client for answer in self._inbox)}
        if not self._over:
            busy |= self._aside
        return [client for client in self.present() if client not in busy]

    def send(self, client: ClientId, contact: int, data: bytes) -> Ticket:
        """Send a request to where the client is now."""
        where = self.roster.addresses[client]
        ticket = self._requests.send(client, contact, data, where)
        self._idle.discard(client)
        if contact == 0:
            self._greeted.add(client)
        return ticket

    def advance(self) -> None:
        """Wait until something has come back, or somebody can be asked something.

        That nobody is here is no reason not to wait. After a wait in vain there is
        none: the coordinator may have gone on without somebody, and then others are to
        be asked at once.
        """
        wait = 0.0 if self._in_vain else self.patience
        until, self._in_vain = self._clock() + wait, False
        expecting = self.expecting()
        while True:
            self._look()
            if self._inbox or self._idle:
                self._idle.clear()
                self._idle_since = self._clock()
                return
            if expecting and not self._requests.clients and not self.expecting():
                return  # whoever the run was kept open for has not come
            if self._clock() >= until:
                self._in_vain = wait > 0
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
        """Answers that a client has given, on average over all that were let in."""
        given = self._answers // max(1, len(self.roster.names))
        self._round = max(self._round, given)
        return self._round

    # -------------------------------------------------------------- who is away

    def missing(self) -> list[ClientId]:
        """Return the clients that are away and still waited for."""
        away = self.roster.addresses.keys() - self.present() - self._gone
        return sorted(away)

    def go_on_without(self, clients: Collection[ClientId]) -> None:
        """Wait for these no more, and say so where they are missed.

        Who is here and silent is not asked anything else: it has something to answer.
        """
        for client in set(clients) - {*self.present()}:
            self._requests.drop(client)
        self._gone |= set(clients)
        self._lost -= set(clients)
        left = len(self.roster.names) - len(self._gone)
        if left < self.min_clients:
            names = ", ".join(self.roster.names[client] for client in sorted(clients))
            self._say(
                "note",
                text=f"nothing came of {names} for {self.patience:g} s: the run goes "
                f"on with {left} of the {self.min_clients} sites it wants "
                "(--min-clients)",
            )

    def turn_away(self, client: ClientId, reason: str) -> None:
        """Leave out who is here, and tell it why; it may come back when that is mended.

        Then it is asked to announce itself as if it were new.
        """
        self._requests.drop(client)
        self._gone.add(client)
        name = self.roster.names[client]
        self._refuse(self.roster.addresses[client], reason, name)

    def close(self) -> None:
        """Nothing to let go of: the engine is still needed for the end."""

    # -------------------------------------------------------------- the end

    def to_be_told(self) -> list[str]:
        """Return the names of those let in, but for who was turned away since."""
        addresses = self.roster.addresses.items()
        known = [c for c, address in addresses if address in self.roster.announced]
        return [self.roster.names[client] for client in known]

    def close_doors(self, journal: Journal) -> None:
        """Speak with nobody from now on who has not taken part; remember it here."""
        self._over, self.journal = True, journal

    def busy(self) -> bool:
        """Whether somebody who is here is being asked something, or has answered."""
        asked = {*self._requests.clients} & {*self.present()}
        return bool(asked or self._inbox or self._awaited())

    def look(self) -> None:
        """Rest, and see what is new."""
        self._sleep(self.pause)
        self._look()


def _aside_of(answer: Reply | Failure) -> Aside | None:
    """Return that a site takes no part, if it says so; others are not looked at."""
    if isinstance(answer, Failure) or len(answer.data) > LONGEST_ASIDE:
        return None
    try:
        said = decode(answer.data)
    except RejectedMessage:
        return None
    return said if isinstance(said, Aside) else None


def _silent(event: str, **fields: Any) -> None:
    """Record nothing: no run is listening yet."""

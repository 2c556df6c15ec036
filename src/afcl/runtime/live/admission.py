# SPDX-License-Identifier: Apache-2.0
"""Admission to a live run: who is there, who they are, whether they fit.

Whom the :class:`~afcl.runtime.live.reception.Reception` hears of make the agreement
here; from then on they are the clients of a transport, which the coordinator asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from afcl._typing import ClientId
from afcl.core.messages import Hello
from afcl.data.features import Embedding
from afcl.runtime.agreement import AgreementRequest, Say
from afcl.runtime.journal import Journal
from afcl.runtime.live.door import KeyDoor
from afcl.runtime.live.engine import Engine
from afcl.runtime.live.kinds import features_of
from afcl.runtime.live.notes import SiteAgreement
from afcl.runtime.live.reception import Reception
from afcl.runtime.live.roster import Roster
from afcl.runtime.live.settlement import settle
from afcl.runtime.transport import Failure, Reply, Ticket
from afcl.scale import Ranges


class Admission(Reception):
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
        door: KeyDoor | None = None,
        numbers: Sequence[str] = (),
        unwelcome: Callable[[str], bool] | None = None,
        expected: Sequence[str] = (),
        absence: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        known = (engine, run, request, min_clients, journal, Roster(numbers))
        super().__init__(*known, patience, door, unwelcome, clock)
        self.linger, self.pause = linger, pause
        self.expected, self.absence = expected, absence
        self._clock, self._sleep = clock, sleep
        self._greeted: set[ClientId] = set()
        self._round = 0
        self._idle_since = clock()
        #: Whether the last wait was as long as can be.
        self._in_vain = False
        self.roster.restore(journal.log)
        # Who was let in before the interruption does not keep the run open as a
        # newcomer.
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
                # Counted anew: somebody may have gone while others were waited for.
                enough = None
            else:
                enough = self._clock() if enough is None else enough
                # Who is answering right now would have a say in the columns and the
                # box.
                late = self._enquiries.awaited()
                # From when they were enough: newcomers must not put the start off for
                # ever.
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
        # Those of the last answer are expected, but a site that is gone must not stop
        # all.
        late = self._clock() - begun >= self.absence
        return not late and not here.issuperset(self.expected)

    def _settle(self, waiting: list[int]) -> SiteAgreement | None:
        """Let in who fits together; None while they are too few."""
        sites = {address: self.roster.announced[address] for address in waiting}
        agreement, refused, notes = settle(self.request, list(sites.values()))
        fitting = [a for a in waiting if sites[a].name not in refused]
        for address, site in sites.items():
            if site.name in refused:
                self._refuse(address, refused[site.name], site.name)
        # The refused may mend their files and come back: nothing is settled yet.
        if agreement is None or len(fitting) < self.min_clients:
            return None
        for text in notes:
            self._say("note", text=text)
        self._agreement = agreement
        for address in fitting:
            # Only now, as it is written into the journal: who is let in stays a member.
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
        # Settling again without the refused could find other columns.
        same = replace(self.request, columns=named, categories=categories)
        self._agreement, _, _ = settle(same, self.roster.founders)

    def ranges(self, client: ClientId) -> Ranges:
        """Return the rows and the extremes that a client has announced."""
        assert self._agreement is not None
        embedding = self._agreement.embedding
        return self.roster.site(client).under(embedding.columns).ranges(embedding)

    def check_key(self, hello: Hello) -> None:
        """Refuse a mask key that the site has not signed, before others see it."""
        self._ownership.check_key(hello)

    # -------------------------------------------------------------- the transport

    def members(self) -> list[ClientId]:
        """Clients that were let in, are here, and are not being asked something."""
        # One thing at a time: an answer that waits here may change what is asked next.
        busy = {*self._requests.clients, *(answer.client for answer in self._inbox)}
        if not self._over:
            # They take no part, but get the end like all others.
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
        # Waiting as long again would let everybody wait twice for the one who is
        # silent.
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
            # Checked after looking: what came meanwhile counts.
            if self._clock() >= until:
                self._in_vain = wait > 0
                return
            self._sleep(self.pause)

    def poll(self) -> list[Reply | Failure]:
        """Return what has come back."""
        arrived, self._inbox = self._inbox, []
        # Who has answered can be asked again: there is no need to wait before.
        self._idle |= {answer.client for answer in arrived}
        return arrived

    def expecting(self) -> bool:
        """Whether somebody waits to be let in, or the run is kept open for them."""
        if self._enquiries.awaited() or set(self.members()) - self._greeted:
            return True
        return self._clock() - self._idle_since < self.linger

    @property
    def round(self) -> int:
        """Answers that a client has given, on average over all that were let in."""
        whole_rounds = self._answers // max(1, len(self.roster.names))
        # Newcomers lower the average, and rounds must not run backwards.
        self._round = max(self._round, whole_rounds)
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
        # Until they are back: then they are greeted as who they were.
        self._gone |= set(clients)
        self._lost -= set(clients)
        # A run below the wanted number goes on, but not without a word.
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
        # Who was turned away has been told why.
        return [self.roster.names[client] for client in known]

    def close_doors(self, journal: Journal) -> None:
        """Speak with nobody from now on who has not taken part; remember it here."""
        self._over, self.journal = True, journal

    def busy(self) -> bool:
        """Whether somebody who is here is being asked something, or has answered."""
        asked = {*self._requests.clients} & {*self.present()}
        return bool(asked or self._inbox or self._enquiries.awaited())

    def look(self) -> None:
        """Rest, and see what is new."""
        self._sleep(self.pause)
        self._look()

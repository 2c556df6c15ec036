# SPDX-License-Identifier: Apache-2.0
"""The coordinator: asks, absorbs, records, stops. Contains no algorithm, no engine.

A run is: agree on the scale (step 0), hear everybody's hello, then tick by tick send
the broadcast to whoever is there and wanted, absorb what has arrived, let the method
think, and stop when it is done or the rounds are over.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from afcl._typing import ClientId
from afcl.core.messages import Broadcast, Hello, Left, array_bytes
from afcl.core.terms import AskHello, AskStep, Terms
from afcl.exceptions import InputError, RejectedMessage
from afcl.runtime.agreement import Agreement, AgreementStep, check_rows
from afcl.runtime.announced import agreed_extremes, check_announced_rows, check_outside
from afcl.runtime.codec import decode, encode
from afcl.runtime.flights import DUPLICATE, Flight, Flights, Silence, stamped
from afcl.runtime.journal import AGREEMENT, COORDINATOR, LEFT, Entry, Journal
from afcl.runtime.refusals import MOST_IN_A_ROW, TOO_MANY, Refusals
from afcl.runtime.roll_call import RollCall
from afcl.runtime.spec import Finished as Finished
from afcl.runtime.spec import Spec as Spec
from afcl.runtime.spec import Tally, introduction, terms_of
from afcl.runtime.transport import Departures, Failure, Reply, Transport
from afcl.texts import plain
from afcl.trace import Trace


class Coordinator:
    """Drives one method over one transport, and writes down what happens.

    Parameters
    ----------
    spec
        What to run.
    transport
        How to reach the clients.
    journal
        Where absorbed messages are kept, if anywhere.
    trace
        Receives every event.
    clock
        Returns the wall-clock time stamped on events (None: no stamp).
    agreement
        How the clients agree. None: everybody who is there is asked once, which is what
        a simulation does.
    patience
        Seconds without any arrival after which a live run ends with what it has.
    door
        Knows who is away, in a live run.
    timer
        Returns the time that `patience` is measured by (None: `clock`), which nobody
        sets while the run goes on.
    """

    def __init__(
        self,
        spec: Spec,
        transport: Transport,
        *,
        journal: Journal | None = None,
        trace: Trace | None = None,
        clock: Callable[[], float] | None = None,
        agreement: AgreementStep | None = None,
        patience: float = math.inf,
        door: Departures | None = None,
        timer: Callable[[], float] | None = None,
    ) -> None:
        self.spec = spec
        self.transport = transport
        self.trace = trace if trace is not None else Trace()
        self._journal = journal
        self._clock = clock
        self._tick = 0
        self._tallies: dict[ClientId, Tally] = {}
        self._contacts: dict[ClientId, int] = {}
        self._flights = Flights()
        self._version = 0
        self._terms: Terms  # once agreed
        self._state: Any = None
        self._agreement = agreement or RollCall.of(spec, transport, self._flights)
        self._silence = Silence(patience, timer or clock)
        self._door = door
        self._gone: set[ClientId] = set()
        self._refusals = Refusals()
        #: Times in a row that a client could not answer.
        self._failures: Counter[ClientId] = Counter()
        #: Events that the trace of an interrupted run has: not written again.
        self._known: set[tuple[Any, ...]] | None = None

    # -------------------------------------------------------------- the run

    def run(self) -> Finished:
        """Run to the end and return the answer."""
        try:
            self._start()
            reason = self._rounds()
        finally:
            self.transport.close()
        clustering = self.spec.method.result(self._state)
        self._say(
            "end",
            round=self.transport.round,
            k=clustering.k,
            reason=reason,
            messages=sum(t.messages for t in self._tallies.values()),
            bytes=sum(t.bytes for t in self._tallies.values()),
        )
        rounds, rejected = self.transport.round, self._refusals.counts
        how = (rounds, self._tallies, self.trace, rejected)
        return Finished(clustering, self._state, self._terms, *how)

    def _rounds(self) -> str:
        method = self.spec.method
        self._prepare()
        while True:
            # A method may be done with those it knows while others are on their way.
            coming = self.transport.expecting() or self._flights.greeting()
            if method.done(self._state) and not coming:
                return "patience" if self._deserted() else "done"
            if self.transport.round >= self.spec.max_rounds:
                return "max_rounds"
            self._tick += 1
            self.transport.advance()
            self._dispatch(method.broadcast(self._state))
            changed = self._absorb_all()
            tired = not changed and self._silence.too_long()
            # Before the round ends, as what arrives: so it is replayed (`_restore`).
            changed = changed or (tired and self._given_up())
            self._state = method.end_round(self._state)
            if changed or self._silent_round():
                self._prepare()
            elif tired:
                return "patience"

    def _silent_round(self) -> bool:
        """Let a round pass to which nobody came; return if the method acted on it."""
        if self._agreement.live or self._flights.under_way:
            return False
        before = self._state
        self._state = self.spec.method.silent_round(before)
        return self._state is not before

    def _deserted(self) -> bool:
        """Whether everybody of a live run is gone: then nothing more can come."""
        return self._door is not None and self._gone >= self._tallies.keys()

    def _given_up(self) -> bool:
        """Go on without those who are waited for in vain; return if there are any."""
        silent = set(self.spec.method.waits_for(self._state))
        if self._door is not None:
            silent |= set(self._door.missing())
        # In order: the same run again must be the same.
        for client in sorted(silent):
            self._flights.drop(client)
            if client in self._tallies and client not in self._gone:
                self._leave(client)
        if silent:
            self._silence.broken()
            if self._door is not None:
                self._door.go_on_without(silent)
        return bool(silent)

    def _prepare(self) -> None:
        self._state = self.spec.method.prepare(self._state)
        progress = self.spec.method.progress(self._state)
        self._say("prepare", round=self.transport.round, **progress)

    # -------------------------------------------------------------- the start

    def _start(self) -> None:
        awaited = self._restore()
        if awaited is None:
            self._say("run", **introduction(self.spec))
            agreed = self._agreement.agree(self._say)
            self._refusals.recall(self.trace)
            self._open(self._settled(agreed))
            awaited = set(self.transport.members())
        self._greet(awaited)

    def _settled(self, agreed: Agreement) -> Terms:
        terms = terms_of(self.spec, agreed)
        if self._agreement.live:
            self._record(Entry(COORDINATOR, AGREEMENT, encode(terms)))
        return terms

    def _greet(self, awaited: set[ClientId]) -> None:
        """Hear the first hellos: of everybody who agreed, however long it takes."""
        asked: set[ClientId] = set()
        while True:
            known = asked | set(self._tallies)
            for client in self.transport.members():
                if client in awaited and client not in known:
                    asked.add(client)
                    self._send_hello(client)
            self._absorb_all()
            missing = awaited - asked - set(self._tallies)
            waiting = self._flights.greeting() or missing or not self._tallies
            if not (waiting and self._agreement.live):
                break
            if self._silence.too_long():
                self._given_up()
                break
            self.transport.advance()
        if not self._tallies:
            reasons = [event["reason"] for event in self.trace.of("rejected")]
            why = f": {reasons[-1]}" if reasons else ""
            raise InputError(f"no client said hello{why}")

    def _open(self, terms: Terms) -> None:
        """Begin with nothing absorbed, under these terms."""
        method = self.spec.method
        self._terms = terms
        params = method.settle(self.spec.parameters, terms.n_rows)
        state = method.init((), params, self.spec.seed)
        # Without a box nothing says how far out a mean may lie: it is not checked.
        bounded = self.spec.scale is not None
        self._state = method.agreed(state, terms.box.low.shape[0], bounded)
        self._silence.broken()

    def _restore(self) -> set[ClientId] | None:
        """Take up a live run from its journal, if there is one to take up.

        The methods are pure, so the messages absorbed tick by tick are the state. What
        the trace already tells is not told again. Returned is who agreed and had not
        said hello when the run was interrupted before its first round.
        """
        if self._journal is None or not self._agreement.live:
            return None
        past = self._journal.past()
        if past is None:
            return None
        self._open(decode(past.terms))
        self._agreement.resume(self._say)
        self._known = {_key(event) for event in self.trace.events}
        for tick, entries in enumerate(past.ticks):
            self._tick = tick
            for entry in entries:
                self._absorb_again(entry)
            if tick > 0:
                self._state = self.spec.method.end_round(self._state)
            # A run that was interrupted before its first round goes on greeting first.
            if entries and len(past.ticks) > 1:
                self._prepare()
        self._known = None
        self.trace.restored()
        self._refusals.recall(self.trace)
        self._say("resumed")
        return set() if self._tick > 0 else past.founders - set(self._tallies)

    def _absorb_again(self, entry: Entry) -> None:
        client, contact = entry.client, entry.contact
        if contact == LEFT:
            self._leave(client)
            return
        # So that staleness, and the next contact's number, are what they were.
        self._version = max(self._version, entry.version)
        self._contacts[client] = max(contact, self._contacts.get(client, 0))
        reply = Reply(-1, client, entry.data, entry.memory)
        self._take(reply, Flight(client, contact, entry.version))

    # -------------------------------------------------------------- sending

    def _dispatch(self, broadcast: Broadcast) -> None:
        """Greet who is new; send the broadcast to who is here and wanted."""
        self._version = broadcast.version
        for client in self.transport.members():
            if client in self._refusals.shut_out:
                continue
            # Who was gone is greeted again: its hello shows that it is who it was.
            if client not in self._tallies or client in self._gone:
                self._send_hello(client)
            elif broadcast.wanted is None or client in broadcast.wanted:
                self._send_step(client, broadcast)

    def _send_hello(self, client: ClientId) -> None:
        ask = AskHello(replace(self._terms, client=client))
        self._send(Flight(client, 0, 0), ask)

    def _send_step(self, client: ClientId, broadcast: Broadcast) -> None:
        contact = self._contacts.get(client, 0) + 1
        self._contacts[client] = contact
        terms = replace(self._terms, client=client)
        payload = broadcast.addressed_to(client)
        ask = AskStep(terms, broadcast.version, contact, payload)
        self._send(Flight(client, contact, broadcast.version), ask)

    def _send(self, flight: Flight, ask: AskHello | AskStep) -> None:
        data = encode(ask)
        try:
            ticket = self.transport.send(flight.client, flight.contact, data)
        except InputError as error:
            if len(self.spec.names) < 2:
                raise
            raise InputError(f"{self.spec.names[flight.client]}: {error}") from error
        self._flights.under_way[ticket] = flight
        self._say("send", **flight._asdict(), bytes=len(data))

    # -------------------------------------------------------------- absorbing

    def _absorb_all(self) -> bool:
        """Absorb what has arrived; return whether anything had."""
        news = False
        for answer in self.transport.poll():
            try:
                flight = self._flights.of(answer)
            except RejectedMessage as error:
                self._refuse(answer.client, AGREEMENT, error)
                continue
            if flight is DUPLICATE:
                self._say("duplicate", client=answer.client)
                continue
            news = True
            if isinstance(answer, Failure):
                self._fail(answer, flight.contact)
            else:
                self._take(answer, flight)
        if news:
            self._silence.broken()
            if self._journal is not None:
                self._journal.sync()  # before anybody is asked because of it
        return news

    def _fail(self, failure: Failure, contact: int) -> None:
        client = failure.client
        if failure.gone and client in self._refusals.shut_out:
            return  # it was said when it was shut out
        if failure.gone:
            self._flights.drop(client)
        if failure.gone and client in self._tallies:
            self._leave(client)
            return
        self._say("failure", client=client, contact=contact, reason=failure.reason)
        if not failure.gone:
            self._count_failure(client, failure.reason)

    def _count_failure(self, client: ClientId, reason: str) -> None:
        """Leave out a client of a live run that cannot answer, again and again."""
        self._failures[client] += 1
        if self._door is None or self._failures[client] < MOST_IN_A_ROW:
            return
        del self._failures[client]
        self._flights.drop(client)
        if client in self._tallies:
            self._leave(client)
        times = f"could not answer {MOST_IN_A_ROW} times in a row"
        self._door.turn_away(client, f"{times}: {reason}")

    def _leave(self, client: ClientId, **why: str) -> None:
        if self._agreement.live and self._known is None:
            self._record(Entry(client, LEFT, b"", tick=self._tick))
        self._gone.add(client)
        self._state, _ = self.spec.method.absorb(self._state, Left(client))
        self._say("left", client=client, **why)

    def _take(self, reply: Reply, flight: Flight) -> None:
        """Check, write down, absorb; a message that fails changes nothing."""
        client, contact, version = flight
        try:
            message = stamped(decode(reply.data), flight)
            state = self._state
            if isinstance(message, Hello):
                self._agreement.check_key(message)
                state = self._with_announced(message)
            state, found = self.spec.method.absorb(state, message)
            if isinstance(message, Hello):
                known = self._agreement.ranges(client)
                check_outside(message, known, self._terms)
        except RejectedMessage as error:
            # What was absorbed once and fits no more has lost what was before it in a
            # damaged journal: it is no fault of the client's, who is asked again.
            if self._known is None:
                self._refuse(client, contact, error)
            return
        where = (client, contact, reply.data, reply.memory, version, self._tick)
        # Before the state changes: what was absorbed must be in the journal.
        self._record(Entry(*where), sync=False)
        self._state = state
        self._gone.discard(client)
        self._refusals.forgive(client)
        self._failures.pop(client, None)
        tally = self._tallies.setdefault(client, Tally())
        tally.messages += 1
        tally.bytes += len(reply.data)
        sizes = {"bytes": len(reply.data), "array_bytes": array_bytes(message)}
        if isinstance(message, Hello):
            tally.rows = message.n_rows
            kind, about = "hello", {"rows": message.n_rows}
        else:
            staleness = self._version - version
            kind, about = "update", {"version": version, "staleness": staleness}
        self._say(kind, client=client, contact=contact, **about, **sizes, **found)

    def _with_announced(self, hello: Hello) -> Any:
        """Return the state that knows what a client announced before its hello.

        Refused is a hello of other rows, or of too many; what is taken from the
        journal was compared when it came.
        """
        client, known = hello.client, self._agreement.ranges(hello.client)
        check_rows(hello.n_rows, self.spec.max_rows)
        if known is None:
            return self._state
        if self._known is None:
            check_announced_rows(hello, known)
        extremes = agreed_extremes(known, self._terms.box)
        if extremes is None:
            return self._state
        return self.spec.method.announced(self._state, client, *extremes)

    def _refuse(self, client: ClientId, contact: int, error: RejectedMessage) -> None:
        """Write down a refusal; who earns too many in a row is not asked again."""
        reason = plain(str(error))
        self._say("rejected", client=client, contact=contact, reason=reason)
        self._refusals.add(client)
        if not self._refusals.shuts_out(client):
            return
        self._flights.drop(client)
        if client in self._tallies:
            self._leave(client, reason=TOO_MANY)
        else:
            self._say("left", client=client, reason=TOO_MANY)

    # -------------------------------------------------------------- recording

    def _record(self, entry: Entry, sync: bool = True) -> None:
        if self._journal is not None:
            self._journal.record(entry, sync)

    def _say(self, event: str, **fields: Any) -> None:
        """Write an event into the trace, unless that has it from before."""
        about = {"event": event, "tick": self._tick, **fields}
        if self._known is not None and _key(about) in self._known:
            return
        stamp = {} if self._clock is None else {"at": self._clock()}
        self.trace.add(event, tick=self._tick, **fields, **stamp)


def _key(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells an event of the past from all others."""
    return tuple(event.get(name) for name in ("event", "tick", "client", "contact"))

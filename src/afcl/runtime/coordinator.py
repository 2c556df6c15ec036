# SPDX-License-Identifier: Apache-2.0
"""The coordinator: asks, absorbs, records, stops. Contains no algorithm, no engine.

A run is: agree on the scale (step 0), hear everybody's hello, then tick by tick send
the broadcast to whoever is there and wanted, absorb what has arrived, let the method
think, and stop when it is done or the rounds are over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from afcl._typing import ClientId
from afcl.core.messages import (
    UNSTAMPED,
    Broadcast,
    Hello,
    Left,
    Update,
    array_bytes,
    refuse_unless,
)
from afcl.core.protocol import AnyMethod, Clustering, Message
from afcl.core.terms import AskHello, AskStep, Terms
from afcl.exceptions import InputError, RejectedMessage
from afcl.runtime.agreement import (
    LONGEST_REASON,
    NOT_ASKED,
    Agreement,
    AgreementStep,
    RollCall,
)
from afcl.runtime.codec import decode, encode
from afcl.runtime.journal import AGREEMENT, COORDINATOR, LEFT, Entry, Journal
from afcl.runtime.requirements import requirements
from afcl.runtime.transport import Failure, Reply, Ticket, Transport
from afcl.trace import SCHEMA, Trace

#: A client whose messages were refused so often in a row is not asked again.
REFUSALS = 3


@dataclass(frozen=True)
class Spec:
    """What is to be run, apart from the data."""

    method: AnyMethod
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    scale: Any = "minmax"
    max_rounds: int = 100
    run: str = "run"
    names: tuple[str, ...] = ()


@dataclass
class Tally:
    """Messages and bytes that came up from one client, the agreement apart."""

    rows: int = 0
    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Finished:
    """A run's answer and how it came about.

    `rejected` counts the refused messages of every client that had any.
    """

    clustering: Clustering
    state: Any
    terms: Terms
    rounds: int
    tallies: dict[ClientId, Tally]
    trace: Trace
    rejected: dict[ClientId, int] = field(default_factory=dict)


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
    ) -> None:
        self.spec = spec
        self.transport = transport
        self.trace = trace if trace is not None else Trace()
        self._journal = journal
        self._clock = clock
        self._tick = 0
        self._tallies: dict[ClientId, Tally] = {}
        self._contacts: dict[ClientId, int] = {}
        self._flights: dict[Ticket, tuple[ClientId, int, int]] = {}
        self._version = 0
        self._terms: Terms | None = None
        self._params: Any = None
        self._state: Any = None
        self._agreement = agreement or self._roll_call()
        self._patience = patience
        self._heard_at = -math.inf
        self._gone: set[ClientId] = set()
        self._answered: set[Ticket] = set()
        self._rejected: dict[ClientId, int] = {}
        self._in_a_row: dict[ClientId, int] = {}
        self._shut_out: set[ClientId] = set()
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
        assert self._terms is not None
        return Finished(
            clustering,
            self._state,
            self._terms,
            self.transport.round,
            self._tallies,
            self.trace,
            self._rejected,
        )

    def _rounds(self) -> str:
        method = self.spec.method
        self._prepare()
        while True:
            coming = self.transport.expecting() or self._greeting()
            if method.done(self._state) and not coming:
                return "done"
            if self.transport.round >= self.spec.max_rounds:
                return "max_rounds"
            self._tick += 1
            self.transport.advance()
            self._dispatch(method.broadcast(self._state))
            changed = self._absorb_all()
            self._state = method.end_round(self._state)
            if changed:
                self._prepare()
            elif self._silence() > self._patience:
                return "patience"

    def _prepare(self) -> None:
        self._state = self.spec.method.prepare(self._state)
        progress = self.spec.method.progress(self._state)
        self._say("prepare", round=self.transport.round, **progress)

    # -------------------------------------------------------------- the start

    def _start(self) -> None:
        awaited = self._restore()
        if awaited is None:
            self._introduce()
            agreed = self._agreement.agree(self._say)
            self._answered |= self._agreement.answered
            self._remember_refusals()
            self._open(self._settled(agreed))
            awaited = set(self.transport.members())
        self._greet(awaited)

    def _roll_call(self) -> RollCall:
        spec = self.spec
        group = requirements(spec.method, spec.options, spec.scale).group
        return RollCall(self.transport, spec.run, spec.scale, group)

    def _settled(self, agreed: Agreement) -> Terms:
        spec = self.spec
        terms = Terms(
            spec.run,
            spec.method.name,
            json.dumps(dict(spec.options), sort_keys=True),
            spec.seed,
            -1,
            agreed.box,
            agreed.n_rows,
            agreed.columns,
        )
        if self._agreement.live:
            self._record(Entry(COORDINATOR, AGREEMENT, encode(terms)))
        return terms

    def _greet(self, awaited: set[ClientId]) -> None:
        """Hear the first hellos: of everybody who agreed, however long it takes."""
        asked: set[ClientId] = set()
        while True:
            heard = asked | set(self._tallies)
            for client in self.transport.members():
                if client in awaited and client not in heard:
                    asked.add(client)
                    self._send_hello(client)
            self._absorb_all()
            missing = awaited - asked - set(self._tallies)
            waiting = self._greeting() or missing or not self._tallies
            if not (waiting and self._agreement.live):
                break
            if self._silence() > self._patience:
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
        parameters = method.parameters(**self.spec.options)
        self._params = method.settle(parameters, terms.n_rows)
        self._state = method.init((), self._params, self.spec.seed)
        bounded = self.spec.scale is not None
        width = terms.box.low.shape[0]
        self._state = method.agreed(self._state, width, bounded)
        self._heard_at = self._now()

    def _greeting(self) -> bool:
        """Whether a hello is still on its way."""
        return any(contact == 0 for _, contact, _ in self._flights.values())

    def _introduce(self) -> None:
        spec = self.spec
        self._say(
            "run",
            schema=SCHEMA,
            run=spec.run,
            method=spec.method.name,
            parameters=dict(spec.options),
            seed=spec.seed,
            clients=list(spec.names),
        )

    def _restore(self) -> set[ClientId] | None:
        """Take up a live run from its journal, if there is one to take up.

        The methods are pure, so the messages absorbed tick by tick are the state. What
        the trace already tells is not told again. Returned is who agreed and had not
        said hello when the run was interrupted before its first round.
        """
        if self._journal is None or not self._agreement.live:
            return None
        log = self._journal.log
        ours = [e for e in log if (e.client, e.contact) == (COORDINATOR, AGREEMENT)]
        if not ours:
            return None
        self._open(decode(ours[0].data))
        self._agreement.resume(self._say)
        self._known = {_key(event) for event in self.trace.events}
        said = [e for e in log if e.contact >= 0 or e.contact == LEFT]
        last = max((e.tick for e in said), default=0)
        for tick in range(last + 1):
            self._tick = tick
            now = [entry for entry in said if entry.tick == tick]
            for entry in now:
                self._absorb_again(entry)
            if tick > 0:
                self._state = self.spec.method.end_round(self._state)
            if now and last > 0:
                self._prepare()
        self._known = None
        self._remember_refusals()
        self._say("resumed")
        if self._tick > 0:
            return set()
        agreed = {entry.client for entry in log[: log.index(ours[0])]}
        return agreed - set(self._tallies)

    def _remember_refusals(self) -> None:
        """Know again whose messages were refused: the journal has only the others."""
        for event in self.trace.of("rejected", "hello", "update", "left"):
            client = event["client"]
            if event["event"] == "rejected":
                self._count_refusal(client)
            else:
                self._in_a_row.pop(client, None)
            if event["event"] == "left" and "reason" in event:
                self._shut_out.add(client)

    def _absorb_again(self, entry: Entry) -> None:
        if entry.contact == LEFT:
            self._leave(entry.client)
            return
        self._version = max(self._version, entry.version)
        self._contacts[entry.client] = max(
            entry.contact, self._contacts.get(entry.client, 0)
        )
        reply = Reply(-1, entry.client, entry.data, entry.memory)
        self._take(reply, entry.contact, entry.version)

    # -------------------------------------------------------------- sending

    def _dispatch(self, broadcast: Broadcast) -> None:
        """Greet who is new; send the broadcast to who is here and wanted."""
        self._version = broadcast.version
        for client in self.transport.members():
            if client in self._shut_out:
                continue
            if client not in self._tallies or client in self._gone:
                self._send_hello(client)
            elif broadcast.wanted is None or client in broadcast.wanted:
                self._send_step(client, broadcast)

    def _send_hello(self, client: ClientId) -> None:
        assert self._terms is not None
        self._send(client, 0, 0, AskHello(replace(self._terms, client=client)))

    def _send_step(self, client: ClientId, broadcast: Broadcast) -> None:
        assert self._terms is not None
        contact = self._contacts.get(client, 0) + 1
        self._contacts[client] = contact
        terms = replace(self._terms, client=client)
        said = broadcast.addressed_to(client)
        step = AskStep(terms, broadcast.version, contact, said)
        self._send(client, contact, broadcast.version, step)

    def _send(self, client: ClientId, contact: int, version: int, ask: Any) -> None:
        data = encode(ask)
        try:
            ticket = self.transport.send(client, contact, data)
        except InputError as error:
            if len(self.spec.names) < 2:
                raise
            raise InputError(f"{self.spec.names[client]}: {error}") from error
        self._flights[ticket] = (client, contact, version)
        self._say(
            "send", client=client, contact=contact, version=version, bytes=len(data)
        )

    # -------------------------------------------------------------- absorbing

    def _absorb_all(self) -> bool:
        """Absorb what has arrived; return whether anything had."""
        news = False
        for answer, contact, version in self._arrivals():
            news = True
            if isinstance(answer, Failure):
                self._fail(answer, contact)
            else:
                self._take(answer, contact, version)
        if news:
            self._heard_at = self._now()
            if self._journal is not None:
                self._journal.sync()  # before anything is said because of it
        return news

    def _arrivals(self) -> Iterator[tuple[Reply | Failure, int, int]]:
        """Yield what has arrived with the contact and the version it answers.

        An answer that was given before changes nothing; one to a question that nobody
        asked this client is refused.
        """
        for answer in self.transport.poll():
            flight = self._flights.get(answer.ticket)
            if isinstance(answer, Failure):
                self._close(answer.ticket)
                yield answer, AGREEMENT if flight is None else flight[1], 0
            elif answer.ticket in self._answered:
                self._say("duplicate", client=answer.client)
            elif flight is None or flight[0] != answer.client:
                error = RejectedMessage(NOT_ASKED)
                self._refuse(answer, AGREEMENT, error)
            else:
                self._close(answer.ticket)
                yield answer, flight[1], flight[2]

    def _close(self, ticket: Ticket) -> None:
        """Expect no other answer to this."""
        if self._flights.pop(ticket, None) is not None:
            self._answered.add(ticket)

    def _fail(self, failure: Failure, contact: int) -> None:
        if failure.gone and failure.client in self._shut_out:
            return
        if failure.gone:
            self._forget_flights(failure.client)
        if failure.gone and failure.client in self._tallies:
            self._record_left(failure.client)
            self._leave(failure.client)
        else:
            self._say_failure(failure, contact)

    def _forget_flights(self, client: ClientId) -> None:
        for ticket in [t for t, flight in self._flights.items() if flight[0] == client]:
            self._close(ticket)

    def _record_left(self, client: ClientId) -> None:
        if self._agreement.live:
            self._record(Entry(client, LEFT, b"", tick=self._tick))

    def _leave(self, client: ClientId, **why: str) -> None:
        self._gone.add(client)
        self._state, _ = self.spec.method.absorb(self._state, Left(client))
        self._say("left", client=client, **why)

    def _take(self, reply: Reply, contact: int, version: int) -> None:
        """Check, write down, absorb; a message that fails changes nothing."""
        client = reply.client
        try:
            message = stamped(decode(reply.data), client, contact, version)
            state = self._told(message) if isinstance(message, Hello) else self._state
            state, found = self.spec.method.absorb(state, message)
        except RejectedMessage as error:
            self._refuse(reply, contact, error)
            return
        where = (client, contact, reply.data, reply.memory, version, self._tick)
        self._record(Entry(*where), sync=False)
        self._state = state
        self._gone.discard(client)
        self._in_a_row.pop(client, None)
        tally = self._tallies.setdefault(client, Tally())
        tally.messages += 1
        tally.bytes += len(reply.data)
        sizes = {"bytes": len(reply.data), "array_bytes": array_bytes(message)}
        if isinstance(message, Hello):
            tally.rows = message.n_rows
            facts = {"rows": message.n_rows}
        else:
            facts = {"version": version, "staleness": self._version - version}
        kind = "hello" if isinstance(message, Hello) else "update"
        self._say(kind, client=client, contact=contact, **facts, **sizes, **found)

    def _told(self, hello: Hello) -> Any:
        """Return the state that knows what a client announced before its hello.

        Refused is a hello of other rows; what is taken from the journal was compared
        when it came.
        """
        client, known = hello.client, self._agreement.ranges(hello.client)
        if known is None:
            return self._state
        refuse_unless(
            known.n_rows == hello.n_rows or self._known is not None,
            f"a hello of {hello.n_rows} rows, {known.n_rows} were announced",
        )
        if not known.low.size:
            return self._state
        assert self._terms is not None
        box = self._terms.box
        low, high = box.scale(known.low), box.scale(known.high)
        return self.spec.method.announced(self._state, client, low, high)

    def _refuse(self, reply: Reply, contact: int, error: Exception) -> None:
        """Write down a refusal; who earns too many in a row is not asked again."""
        client = reply.client
        reason = str(error)[:LONGEST_REASON]
        self._say("rejected", client=client, contact=contact, reason=reason)
        self._count_refusal(client)
        if self._in_a_row[client] < REFUSALS or client in self._shut_out:
            return
        self._shut_out.add(client)
        self._forget_flights(client)
        why = f"{REFUSALS} messages in a row were refused"
        if client in self._tallies:
            self._record_left(client)
            self._leave(client, reason=why)
        else:
            self._say("left", client=client, reason=why)

    def _count_refusal(self, client: ClientId) -> None:
        self._rejected[client] = self._rejected.get(client, 0) + 1
        self._in_a_row[client] = self._in_a_row.get(client, 0) + 1

    # -------------------------------------------------------------- recording

    def _record(self, entry: Entry, sync: bool = True) -> None:
        if self._journal is not None:
            self._journal.record(entry, sync)

    def _now(self) -> float:
        if self._clock is None or math.isinf(self._patience):
            return 0.0
        return self._clock()

    def _silence(self) -> float:
        """Seconds since anything arrived."""
        return self._now() - self._heard_at

    def _say_failure(self, failure: Failure, contact: int) -> None:
        self._say(
            "failure", client=failure.client, contact=contact, reason=failure.reason
        )

    def _say(self, event: str, **fields: Any) -> None:
        said = {"event": event, "tick": self._tick, **fields}
        if self._known is not None and _key(said) in self._known:
            return
        stamp = {} if self._clock is None else {"at": self._clock()}
        self.trace.add(event, tick=self._tick, **fields, **stamp)


PRETENDS = "a client does not say who it is or what it answers"


def _key(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells an event of the past from all others."""
    return tuple(event.get(name) for name in ("event", "tick", "client", "contact"))


def stamped(said: Any, client: ClientId, contact: int, version: int) -> Message:
    """Stamp who, when and what; a hello answers contact 0, an update any other.

    A client that names itself, or says what it answers, pretends to be somebody.
    """
    if contact == 0 and isinstance(said, Hello):
        refuse_unless((said.client, said.contact) == (UNSTAMPED, 0), PRETENDS)
        return replace(said, client=client, contact=0)
    if contact > 0 and isinstance(said, Update):
        stamps = (said.client, said.contact, said.version)
        refuse_unless(stamps == (UNSTAMPED,) * 3, PRETENDS)
        return replace(said, client=client, contact=contact, version=version)
    raise RejectedMessage(f"a {type(said).__name__} does not answer contact {contact}")

# SPDX-License-Identifier: Apache-2.0
"""How simulated clients agree: everybody who is there is asked once.

In a live run :class:`~afcl.runtime.live.admission.Admission` stands in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core.messages import Hello
from afcl.core.terms import AskRanges
from afcl.exceptions import InputError, RejectedMessage
from afcl.runtime.agreement import (
    MAX_ROWS,
    Agreement,
    AgreementRequest,
    Say,
    Scale,
    agreed_box,
    check_ranges,
    check_rows,
    notes_on,
)
from afcl.runtime.codec import decode, encode
from afcl.runtime.flights import DUPLICATE, Flight, Flights
from afcl.runtime.journal import AGREEMENT
from afcl.runtime.requirements import requirements
from afcl.runtime.spec import Spec
from afcl.runtime.transport import Failure, Reply, Transport
from afcl.scale import Ranges, with_bounds
from afcl.texts import plain


class RollCall:
    """Ask everybody who is there, once; whoever does not answer is left out.

    Parameters
    ----------
    transport
        How to reach the clients.
    flights
        Knows what was asked of whom, and what has been answered.
    run
        Identity of the run.
    scale, group, max_rows
        What is asked for, as in :class:`AgreementRequest`; columns are not, as all
        clients have the same.
    names, columns
        What clients and columns are called, where they have names.
    typical
        What stands for a column that a client has no value of, if one has none.
    bounds
        Of columns that need no agreement (NaN: the others), such as categories.
    notes
        Lines for people that are known before.
    """

    live = False

    def __init__(
        self,
        transport: Transport,
        flights: Flights,
        run: str,
        scale: Scale,
        group: int,
        max_rows: int = MAX_ROWS,
        names: Sequence[str] = (),
        columns: Sequence[str] = (),
        typical: Floats | None = None,
        bounds: tuple[Floats, Floats] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._transport = transport
        self._flights = flights
        self._run = run
        self._asked = {"scale": scale, "group": group, "max_rows": max_rows}
        self._names = names
        self._columns = columns
        self._typical = typical
        self._bounds = bounds
        self._notes = notes
        self._ranges: dict[ClientId, Ranges] = {}

    @classmethod
    def of(cls, spec: Spec, transport: Transport, flights: Flights) -> RollCall:
        """Return the roll call of a run."""
        group = requirements(spec.method, spec.parameters, spec.scale).group
        asked = (spec.scale, group, spec.max_rows, spec.names, spec.columns)
        rest = (*asked, spec.typical, spec.bounds, spec.notes)
        return cls(transport, flights, spec.run, *rest)

    def agree(self, say: Say) -> Agreement:
        """Hear everybody's ranges, and settle the box."""
        members = list(self._transport.members())
        if not members:
            raise InputError("no client is there at the start")
        request = AgreementRequest(**self._asked)
        under_way = self._flights.under_way
        about = request.extremes, request.group, request.quantiles or None
        ask = encode(AskRanges(self._run, *about))
        for client in members:
            ticket = self._transport.send(client, AGREEMENT, ask)
            under_way[ticket] = Flight(client, AGREEMENT, 0)
        for answer in self._transport.poll():
            self._hear(answer, request, say)
        under_way.clear()  # who has not answered is left out
        if not self._ranges:
            raise InputError("no client answered the agreement on scales")
        ranges = list(self._ranges.values())
        settled = agreed_box(request.scale, ranges)
        clients, rows = list(self._ranges), [each.n_rows for each in ranges]

        def name(place: int) -> str:
            client = clients[place]
            return self._names[client] if self._names else f"client {client}"

        found = notes_on(settled.stretches, rows, name, self._columns)
        for text in (*self._notes, *found):
            say("note", text=text)
        box = with_bounds(settled.box, self._bounds)
        box = replace(box, typical=self._typical)
        return Agreement((), box, sum(rows))

    def _hear(
        self, answer: Reply | Failure, request: AgreementRequest, say: Say
    ) -> None:
        """Keep a client's ranges, or write down why there are none."""
        client = answer.client
        try:
            flight = self._flights.of(answer)
            if isinstance(answer, Failure):
                say("failure", client=client, contact=AGREEMENT, reason=answer.reason)
                return
            if flight is DUPLICATE:
                say("duplicate", client=client)
                return
            payload = decode(answer.data)
            ranges = check_ranges(payload, request.extremes, request.quantiles)
            check_rows(ranges.n_rows, request.max_rows)
            if self._typical is None and np.isnan(ranges.low).any():
                raise RejectedMessage("a column has no value, where nobody lacks one")
        except RejectedMessage as error:
            reason = plain(str(error))
            say("rejected", client=client, contact=AGREEMENT, reason=reason)
            return
        self._ranges[client] = ranges
        say("ranges", client=client, rows=ranges.n_rows, bytes=len(answer.data))

    def resume(self, say: Say) -> None:
        """Do nothing: a simulated run asks again, and is answered as before."""

    def ranges(self, client: ClientId) -> Ranges | None:
        """Return the rows and the extremes that a client has announced, if it has."""
        return self._ranges.get(client)

    def check_key(self, hello: Hello) -> None:
        """Believe it: simulated clients have no keys of their own."""

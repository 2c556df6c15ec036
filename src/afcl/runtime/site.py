# SPDX-License-Identifier: Apache-2.0
"""A client at work: rows on one side, requests and answers on the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from afcl._typing import Floats
from afcl.core.messages import Broadcast
from afcl.core.protocol import client_rng
from afcl.core.scale import ranges_of
from afcl.core.terms import AskHello, AskRanges, AskStep, Terms
from afcl.exceptions import RejectedMessage
from afcl.methods import get_method
from afcl.runtime.agreement import select
from afcl.runtime.codec import decode, encode


class Site:
    """Answers requests about its rows; remembers only what its method asks it to.

    Attributes
    ----------
    memory
        The method's memory of this client, None until it has one.
    """

    def __init__(self, rows: Floats, columns: Sequence[str] = ()) -> None:
        self.rows = rows
        self.columns = tuple(columns)
        self.memory: Any = None
        self._terms: Terms | None = None
        self._scaled: Floats | None = None

    def answer(self, request: bytes) -> bytes:
        """Answer one request."""
        asked = decode(request)
        if isinstance(asked, AskRanges):
            return encode(ranges_of(self.rows, asked.extremes))
        if isinstance(asked, AskHello):
            return self._hello(asked.terms)
        if isinstance(asked, AskStep):
            return self._step(asked)
        raise RejectedMessage(f"a site cannot answer a {type(asked).__name__}")

    def scaled(self, terms: Terms) -> Floats:
        """Return the rows in the agreed columns and units."""
        if self._scaled is None or self._terms is not terms:
            self._terms, self._scaled = terms, terms.box.scale(self._agreed(terms))
        return self._scaled

    def _agreed(self, terms: Terms) -> Floats:
        if not terms.columns:
            return self.rows
        return self.rows[:, select(terms.columns, self.columns)]

    def _hello(self, terms: Terms) -> bytes:
        method = get_method(terms.method)
        params = method.settle(
            method.parameters(**json.loads(terms.options)), terms.n_rows
        )
        rng = client_rng(terms.seed, terms.client, 0)
        return encode(method.hello(self.scaled(terms), params, rng))

    def _step(self, asked: AskStep) -> bytes:
        terms = asked.terms
        method = get_method(terms.method)
        params = method.settle(
            method.parameters(**json.loads(terms.options)), terms.n_rows
        )
        rng = client_rng(terms.seed, terms.client, asked.contact)
        update, self.memory = method.client_step(
            Broadcast(asked.version, asked.payload),
            self.scaled(terms),
            self.memory,
            params,
            rng,
        )
        return encode(update)

# SPDX-License-Identifier: Apache-2.0
"""A client at work: rows on one side, requests and answers on the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.checks import LARGEST
from afcl.core.messages import Broadcast, Hello, Update
from afcl.core.protocol import (
    AnyMethod,
    Keep,
    client_rng,
    keep_nothing,
    secret_rng,
    simulated_secret,
)
from afcl.core.rounding import coarse, squared_steps
from afcl.core.rows import Rows, Source, TableRows
from afcl.core.terms import AskHello, AskRanges, AskStep, Terms
from afcl.exceptions import AfclError, InputError, RejectedMessage
from afcl.methods import get_method
from afcl.privacy.grouping import group_rows
from afcl.runtime.agreement import select
from afcl.runtime.codec import decode, encode
from afcl.scale import Ranges, ranges_of

#: What a request from somebody hostile may run into.
ODD = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
NO_BOX = "the agreed box does not fit these rows"
#: Of what cannot be done part by part.
IN_MEMORY = "need all rows in memory: leave out --stream, or use level summary"


class Site:
    """Answers requests about its rows; remembers only what its method asks it to.

    Parameters
    ----------
    rows
        The client's table, or a source of rows that are kept elsewhere.
    columns
        Names of its columns, where the agreed ones are chosen by name.
    secret
        What nobody else knows, for levels that draw noise or masks. None: made from the
        run's seed, so that a simulation can be repeated.
    keep
        Keeps what is said of the rows beyond this run; raises to refuse.

    Attributes
    ----------
    memory
        The method's memory of this client, None until it has one.
    """

    def __init__(
        self,
        rows: Floats | Source,
        columns: Sequence[str] = (),
        secret: bytes | None = None,
        keep: Keep = keep_nothing,
    ) -> None:
        self.rows: Any = rows
        self.columns = tuple(columns)
        self.memory: Any = None
        self._secret = secret
        self._keep = keep
        self._extremes: Ranges | None = None
        self._agreed: tuple[Any, Rows] | None = None
        self._scaled: Floats | None = None
        self._view: Any = None

    def answer(self, request: bytes) -> bytes:
        """Answer one request; one that makes no sense is refused in one line."""
        asked = decode(request)
        try:
            if isinstance(asked, AskRanges):
                return encode(self._ranges(asked))
            if isinstance(asked, AskHello | AskStep):
                return self._work(asked)
        except AfclError:
            raise
        except ODD as error:
            raise RejectedMessage(
                f"this request cannot be answered: {error}"
            ) from error
        raise RejectedMessage(f"a site cannot answer a {type(asked).__name__}")

    def _ranges(self, asked: AskRanges) -> Ranges:
        if isinstance(self.rows, np.ndarray) and asked.group > 1:
            shown = shown_rows(self.rows, asked.group)
            return ranges_of(self.rows, asked.extremes, shown)
        if asked.group > 1:
            raise InputError(f"groups of rows {IN_MEMORY}")
        if asked.extremes:
            return self._reach()
        n, d = self.rows.shape
        return Ranges(n, d, np.empty(0), np.empty(0))

    def _reach(self) -> Ranges:
        """Return the extremes of the rows, which are looked for once."""
        if self._extremes is None:
            held = isinstance(self.rows, np.ndarray)
            self._extremes = ranges_of(self.rows) if held else self.rows.ranges()
        return self._extremes

    def agreed(self, terms: Terms) -> Rows:
        """Return the rows in the agreed columns and units, to be read part by part."""
        known = (terms.columns, terms.box.low.tobytes(), terms.box.span.tobytes())
        if self._agreed is None or self._agreed[0] != known:
            self._agreed, self._scaled = (known, self._in_box(terms)), None
        return self._agreed[1]

    def scaled(self, terms: Terms) -> Floats:
        """Return all rows in the agreed columns and units at once."""
        rows = self.agreed(terms)
        if self._scaled is None:
            self._scaled = rows.table()
        return self._scaled

    def _in_box(self, terms: Terms) -> Rows:
        """Return the rows in the units of the box, or refuse a box that is none."""
        places = select(terms.columns, self.columns) if terms.columns else None
        width = self.rows.shape[1]
        if places is not None and np.array_equal(places, np.arange(width)):
            places = None
        box, rows = terms.box, self.rows
        if not box.low.shape == box.span.shape == (_width(width, places),):
            raise RejectedMessage(NO_BOX)
        own = self._reach()
        extremes = np.stack([own.low, own.high])
        with np.errstate(all="ignore"):
            reach = TableRows(extremes, box, places).table()
        if not bool(np.all(np.abs(reach) <= LARGEST)):
            raise RejectedMessage(NO_BOX)
        if isinstance(rows, np.ndarray):
            return TableRows(rows, box, places)
        elsewhere: Rows = rows.within(box, places)
        return elsewhere

    def _work(self, asked: AskHello | AskStep) -> bytes:
        """Return the client's message."""
        terms, memory = asked.terms, self.memory
        contact = asked.contact if isinstance(asked, AskStep) else 0
        method, params = settled(terms)
        view = self._working(terms, method, params)
        rng = client_rng(terms.seed, terms.client, contact)
        message: Hello | Update
        if isinstance(asked, AskHello):
            message = method.hello(view, params, rng)
        else:
            broadcast = Broadcast(asked.version, asked.payload)
            message, memory = method.client_step(broadcast, view, memory, params, rng)
        self.memory = memory
        return encode(message)

    def _working(self, terms: Terms, method: AnyMethod, params: Any) -> Any:
        """Return what the method works on: the rows, or what its level makes of them.

        Made from the rows, the terms and the secret alone, it is the same at every
        contact; under other terms it is another one, with other noise and other masks.
        """
        rows = self.agreed(terms) if method.in_parts else self.scaled(terms)
        known = digest_of(terms)
        if self._view is None or self._view[0] != known:
            secret = self._secret or simulated_secret(terms.seed, terms.client)
            rng = secret_rng(secret, known)
            self._view = (known, method.view(rows, params, rng, self._keep))
        return self._view[1]


def digest_of(terms: Terms) -> str:
    """Return what is the same for the same terms, and for no others."""
    return hashlib.sha256(encode(terms)).hexdigest()


def _width(columns: int, places: Ints | None) -> int:
    return columns if places is None else places.shape[0]


def shown_rows(rows: Floats, group: int) -> Floats:
    """Return the table whose extremes may be told: the rows, or what groups say.

    A group says its mean and, to reach about as far as its rows do, the mean plus and
    minus one standard deviation.
    """
    if group <= 1 or not rows.shape[0]:
        return rows
    labels = group_rows(rows, group)
    size = np.bincount(labels)[:, None]
    means = _per_group(rows, labels) / size
    squares = _per_group((rows - means[labels]) ** 2, labels) / size
    around = np.sqrt(coarse(squares, squared_steps(rows)))
    return np.concatenate([means - around, means, means + around])


def _per_group(values: Floats, labels: Ints) -> Floats:
    columns = [np.bincount(labels, weights=column) for column in values.T]
    return np.stack(columns, axis=1)


def settled(terms: Terms) -> tuple[AnyMethod, Any]:
    """Return the method and its parameters as agreed, or refuse terms that are none."""
    try:
        method = get_method(terms.method)
        kind = type(method)
        params = _parameters(kind, terms.method, terms.options, terms.n_rows)
    except (ValueError, TypeError) as error:
        raise RejectedMessage(f"these terms cannot be met: {error}") from error
    return method, params


@lru_cache(maxsize=64)
def _parameters(kind: type[Any], name: str, options: str, n_rows: int) -> Any:
    """Read the options of a run (JSON) once, and not at every message.

    `kind` is the method's class, as a name may be given to another one.
    """
    method = get_method(name)
    return method.settle(method.parameters(**json.loads(options)), n_rows)

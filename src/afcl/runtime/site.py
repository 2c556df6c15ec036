# SPDX-License-Identifier: Apache-2.0
"""A client at work: rows on one side, requests and answers on the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cell_checks import LARGEST
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
from afcl.gaps import IMPUTE, completed, fill, has_gaps
from afcl.methods import get_method
from afcl.privacy.grouping import group_rows, without_rare
from afcl.privacy.levels import parse_level
from afcl.robust import quantiles_of
from afcl.runtime.agreement import select
from afcl.runtime.codec import decode, encode
from afcl.scale import MIDDLE, Box, Ranges, ends_of, given_box, no_box, ranges_of

#: What a request from somebody hostile may run into.
ODD = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
#: Numbers in the rows that quantiles are taken of, where these are kept elsewhere.
SAMPLED = 1 << 22
NO_BOX = "the agreed box does not fit these rows"
#: Of noise that would not cover what other rows say of a row with gaps.
NO_GAPS = (
    "at dp a gap cannot be filled from other rows, which would cost their privacy: "
    "leave such rows out (missing='drop')"
)
#: Of what cannot be done part by part.
IN_MEMORY = "need all rows in memory: leave out --stream, or use level summary"


@contextmanager
def odd_refused() -> Iterator[None]:
    """Refuse in one line a request that makes no sense; other errors are our own."""
    try:
        yield
    # What we raise ourselves is said as it is; its words were chosen.
    except AfclError:
        raise
    except ODD as error:
        raise RejectedMessage(f"this request cannot be answered: {error}") from error


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
    missing
        How gaps (NaN) in a table are dealt with, see :mod:`afcl.gaps`.

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
        missing: str = IMPUTE,
    ) -> None:
        self.rows: Any = rows
        self.columns = tuple(columns)
        self.memory: Any = None
        self._secret = secret
        self._keep = keep
        self._missing = missing
        self._extremes: Ranges | None = None
        #: Whether there are gaps in rows in memory.
        self.has_gaps = False
        if isinstance(rows, np.ndarray) and rows.size:
            ends = ends_of(rows)
            self.has_gaps = bool(np.isnan(ends[0]).any())
            if not self.has_gaps:
                n, d = rows.shape
                self._extremes = Ranges(n, d, *ends)
        self._agreed: tuple[Any, Rows] | None = None
        self._scaled: Floats | None = None
        self._view: Any = None
        #: Rows whose gaps cannot be filled well: they do not speak.
        self.set_aside = 0
        #: Cells of every column that were filled in rows that speak; None: none was.
        self.filled: Ints | None = None

    def answer(self, request: bytes) -> bytes:
        """Answer one request; one that makes no sense is refused in one line."""
        asked = decode(request)
        with odd_refused():
            if isinstance(asked, AskRanges):
                return encode(self._ranges(asked))
            if isinstance(asked, AskHello | AskStep):
                return self._work(asked)
        raise RejectedMessage(f"a site cannot answer a {type(asked).__name__}")

    def _ranges(self, asked: AskRanges) -> Ranges:
        ranges = self._plain_ranges(asked)
        if not (asked.quantiles and asked.extremes):
            return ranges
        return replace(ranges, quantiles=quantiles_of(self._sample(asked.group)))

    def _sample(self, group: int) -> Floats:
        """Return what quantiles are taken of: what extremes are, or many of the rows.

        Rows that are kept elsewhere are drawn with a fixed seed.
        """
        if isinstance(self.rows, np.ndarray):
            return shown_rows(self.rows, group)
        n, d = self.rows.shape
        wanted = min(n, max(1, SAMPLED // d))
        index = np.random.default_rng(0).choice(n, wanted, replace=False)
        rows: Rows = self.rows.within(no_box(d))
        return rows.take(np.sort(index))

    def _plain_ranges(self, asked: AskRanges) -> Ranges:
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
        # Terms are a stranger's: a box of another width would be broadcast silently.
        if not box.low.shape == box.span.shape == (_width(width, places),):
            raise RejectedMessage(NO_BOX)
        if rows.shape[0]:
            # A tiny box would blow the rows up until sums of them overflow.
            self._check_reach(box, places)
        if not isinstance(rows, np.ndarray):
            elsewhere: Rows = rows.within(box, places)
            return elsewhere
        table = TableRows(rows, box, places)
        return (
            TableRows(self._speaking(table.table(), terms)) if self.has_gaps else table
        )

    def to_label(self, terms: Terms, centers: Floats | None) -> Rows:
        """Return all rows in agreed units, those that did not speak among them.

        Gaps are those of the centre that is nearest in what a row has; without centres
        they are filled as well as they can be.
        """
        rows = self.agreed(terms)
        if not self.has_gaps:
            return rows
        places = select(terms.columns, self.columns) if terms.columns else None
        table = TableRows(self.rows, terms.box, places).table()
        if centers is not None:
            return TableRows(completed(table, centers))
        return TableRows(fill(table, _typical(terms.box), self._missing).rows)

    def _speaking(self, table: Floats, terms: Terms) -> Floats:
        """Return the rows that speak, without gaps."""
        method, params = settled(terms)
        level = method.disclosure(params).level
        # Values of other rows in a gap would be a second release of these rows.
        if level and parse_level(level).private:
            raise RejectedMessage(NO_GAPS)
        filled = fill(table, _typical(terms.box), self._missing)
        self.set_aside = int((~filled.speak).sum())
        self.filled = np.isnan(table[filled.speak]).sum(axis=0)
        return filled.rows[filled.speak]

    def _check_reach(self, box: Box, places: Ints | None) -> None:
        own = self._reach()
        extremes = np.stack([own.low, own.high])
        with np.errstate(all="ignore"):
            reach = TableRows(extremes, box, places).table()
        chosen = extremes if places is None else extremes[:, places]
        # A column without any value reaches nowhere.
        if not bool(np.all((np.abs(reach) <= LARGEST) | np.isnan(chosen))):
            raise RejectedMessage(NO_BOX)

    def _work(self, asked: AskHello | AskStep) -> bytes:
        """Return the client's message."""
        terms, memory = asked.terms, self.memory
        contact = asked.contact if isinstance(asked, AskStep) else 0
        method, params = settled(terms)
        view = self._working(terms, method, params)
        # By contact, so that a question that is asked again has the same answer.
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
        # Under other terms the same noise and masks would show their difference.
        known = digest_of(terms)
        if self._view is None or self._view[0] != known:
            # A simulation must be repeatable; nobody is there whom the seed must not
            # tell.
            secret = self._secret or simulated_secret(terms.seed, terms.client)
            rng = secret_rng(secret, known)
            self._view = (known, method.view(rows, params, rng, self._keep))
        return self._view[1]


def _typical(box: Box) -> Floats:
    """Return what stands for a value where there is none, in agreed units."""
    if box.typical is None:
        return np.full(box.low.shape, MIDDLE)
    return box.scale(box.typical)


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
    if has_gaps(rows):
        own = ranges_of(rows)
        box = given_box(np.nan_to_num(own.low), np.nan_to_num(own.high))
        filled = fill(box.scale(rows), np.full(box.low.shape, MIDDLE)).rows
        shown = shown_rows(box.unscale(filled), group)
        return np.where(np.isnan(own.low), np.nan, shown)
    # A rare value would show in the mean of its group.
    rows = without_rare(rows, group)
    labels = group_rows(rows, group)
    size = np.bincount(labels)[:, None]
    means = _per_group(rows, labels) / size
    squares = _per_group((rows - means[labels]) ** 2, labels) / size
    # Rounded: exact deviations of groups of whole numbers can be solved for the rows.
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

# SPDX-License-Identifier: Apache-2.0
"""Step 0 of every run: what everybody works with, agreed before the first hello.

Here is what simulated and live runs share: what is asked for, how answers are checked,
which box follows from them. All of it is pure. Two drivers use it:
:class:`~afcl.runtime.roll_call.RollCall` asks everybody who is there once, which is
what a simulation does; in a live run
:class:`~afcl.runtime.live.admission.Admission` waits for sites, matches their columns
by name and lets late ones in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from afcl._typing import ClientId, Ints
from afcl.core.messages import Hello
from afcl.core.terms import CLEAR, DECLARED, Category
from afcl.data.spelling import meant
from afcl.exceptions import InputError, RejectedMessage
from afcl.reliance import NO_SAY
from afcl.robust import ROBUST, SHARES, robust_box
from afcl.scale import (
    Box,
    Ranges,
    Stretch,
    given_box,
    no_box,
    supported_box,
)

#: Largest number that may bound a column.
LARGEST = 1e300
#: Names in one line before it is cut short.
SHOWN = 8
#: Most rows of a site, unless more are allowed.
MAX_ROWS = 10**8
#: A site with a larger share of all rows is named.
MOST_OF_ALL = 0.9
#: So many times are not told apart from more.
BEYOND = 1e6

#: "minmax", "robust", (low, high) or a mapping from column to (low, high), or None.
Scale: TypeAlias = Any
#: Records an event.
Say = Callable[..., None]


@dataclass(frozen=True)
class AgreementRequest:
    """What the coordinator asks for.

    Attributes
    ----------
    columns : tuple of str or None
        Exactly these, in this order; None settles them among the sites.
    scale : "minmax", "robust", bounds, or None
        Over the sites' extremes, by their quantiles, by public bounds, or not at all.
        Bounds are (low, high), two numbers a column each, or a mapping from column to
        (low, high).
    min_rows : int
        Fewest rows a site may have; without any row nobody takes part.
    group : int
        Extremes and medians are those of the means of groups of so many rows.
    max_rows : int
        Most rows a site may have: its weight is its number of rows.
    categories : tuple of Category
        Categories for everybody; one without levels has those that are found.
    names : str
        How names of other levels travel, see :class:`~afcl.core.terms.AskAnnouncement`.
    """

    columns: tuple[str, ...] | None = None
    scale: Scale = "minmax"
    min_rows: int = 1
    group: int = 1
    max_rows: int = MAX_ROWS
    categories: tuple[Category, ...] = ()
    names: str = CLEAR

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise InputError(f"max_rows is {self.max_rows}: allow at least one row")
        if self.columns is not None:
            _check_named(self.columns)
        if isinstance(self.scale, str) and self.scale not in ("minmax", ROBUST):
            raise InputError(
                f"scale {self.scale!r} is unknown: give 'minmax', 'robust', "
                "(low, high) or None"
            )
        if isinstance(self.scale, Mapping):
            for column, (low, high) in self.scale.items():
                if not -LARGEST <= low <= high <= LARGEST:
                    raise InputError(
                        f"the bounds of {column!r} are ({low}, {high}): "
                        "give two finite numbers, the lower one first"
                    )

    @property
    def extremes(self) -> bool:
        """Whether the sites must tell their extremes and medians."""
        return isinstance(self.scale, str)

    @property
    def quantiles(self) -> bool:
        """Whether the sites must tell quantiles as well."""
        return isinstance(self.scale, str) and self.scale == ROBUST

    @property
    def private(self) -> bool:
        """Whether rows must not tell which levels there are, nor fill each other."""
        return self.names == DECLARED


def _check_named(columns: Sequence[str]) -> None:
    if not columns:
        raise InputError("no columns named: name some, or leave it to the sites")
    twice = [column for column, n in Counter(columns).items() if n > 1]
    if twice:
        raise InputError(f"named twice: {quoted(twice)}: name each column once")


@dataclass(frozen=True)
class Agreement:
    """What everybody works with from here on, frozen once settled.

    Attributes
    ----------
    columns : tuple of str
        By name and in order; none: all columns, as they are.
    box : Box
        The scale of these columns.
    n_rows : int
        Rows of everybody who agreed.
    categories : tuple of Category
        Those among the columns, which have one for every level.
    """

    columns: tuple[str, ...]
    box: Box
    n_rows: int
    categories: tuple[Category, ...] = field(default=(), kw_only=True)


class Settled(NamedTuple):
    """The map that everybody uses, and who alone would have stretched it."""

    box: Box
    stretches: list[Stretch]


class AgreementStep(Protocol):
    """How the clients of a run come to an agreement.

    `live` says that clients come and go by themselves: first hellos are waited for, and
    the agreement and whoever leaves are journaled, so that the run can be taken up.
    """

    live: bool

    def agree(self, say: Say) -> Agreement:
        """Wait until enough clients fit together, and settle what they work with."""
        ...

    def resume(self, say: Say) -> None:
        """Take up the agreement of an interrupted run."""
        ...

    def ranges(self, client: ClientId) -> Ranges | None:
        """Return the rows and the extremes that a client has announced, if it has."""
        ...

    def check_key(self, hello: Hello) -> None:
        """Refuse a hello whose mask key is not shown to be the client's own."""
        ...


def check_ranges(payload: Any, extremes: bool, quantiles: bool = False) -> Ranges:
    """Return an answer to the agreement, or refuse what no honest client says."""
    if not isinstance(payload, Ranges):
        raise RejectedMessage(
            f"a {type(payload).__name__} does not answer the agreement"
        )
    width = (payload.n_features if extremes else 0,)
    # Shapes first: the sums over sites take them for granted.
    if payload.n_rows < 0 or payload.low.shape != width or payload.high.shape != width:
        raise RejectedMessage("ranges do not fit their number of columns")
    if np.isinf(payload.low).any() or np.isinf(payload.high).any():
        raise RejectedMessage("ranges are not finite")
    if not np.array_equal(np.isnan(payload.low), np.isnan(payload.high)):
        raise RejectedMessage("a column has one extreme only")
    if quantiles or payload.quantiles is not None:
        _check_quantiles(payload, quantiles)
    return payload


def _check_quantiles(ranges: Ranges, asked: bool) -> None:
    """Refuse quantiles that nobody asked for, or that cannot be."""
    quantiles = ranges.quantiles
    if not asked or quantiles is None:
        raise RejectedMessage("quantiles are told if, and only if, they are asked for")
    if (
        quantiles.shape != (len(SHARES), ranges.n_features)
        or quantiles.dtype != np.float64
    ):
        raise RejectedMessage("quantiles do not fit their number of columns")
    known = ~np.isnan(ranges.low)
    # Quantiles that do not rise, or leave the extremes, would make a box of anything.
    inside = np.vstack([ranges.low, quantiles, ranges.high])[:, known]
    if not (np.isnan(quantiles[:, ~known]).all() and (inside[1:] >= inside[:-1]).all()):
        raise RejectedMessage("quantiles do not rise from one extreme to the other")


def check_rows(n_rows: int, max_rows: int) -> None:
    """Refuse whoever has more rows than a site may have."""
    if type(n_rows) is int and n_rows > max_rows:
        raise RejectedMessage(too_many_rows("it", n_rows, max_rows))


def too_many_rows(who: str, n_rows: int, max_rows: int) -> str:
    """Return a line on how many rows a site may have."""
    return (
        f"{who} has {n_rows} rows, a site may have at most {max_rows}: "
        "allow more with --max-rows if that is true"
    )


def agreed_box(
    scale: Scale, ranges: Sequence[Ranges], columns: Sequence[str] = ()
) -> Settled:
    """Return the map that everybody uses, from what the clients said of their rows.

    `columns` are the names of the columns, where bounds are given by name.
    """
    n_features = ranges[0].n_features
    widths = sorted({each.n_features for each in ranges})
    if len(widths) > 1:
        raise InputError(
            f"the clients have different numbers of columns, {widths}: "
            "give every client the same columns"
        )
    if scale is None:
        return Settled(no_box(n_features), [])
    if isinstance(scale, str) and scale == ROBUST:
        return Settled(*robust_box(ranges))
    if isinstance(scale, str):
        lows = np.array([each.low for each in ranges])
        return Settled(*supported_box(lows, np.array([each.high for each in ranges])))
    if isinstance(scale, Mapping):
        return Settled(_box_by_name(scale, columns), [])
    try:
        low, high = scale
    except (TypeError, ValueError):
        raise InputError(
            "scale must be 'minmax', 'robust', (low, high) or None"
        ) from None
    box = given_box(low, high)
    if box.low.shape[0] != n_features:
        raise InputError(
            f"scale=(low, high) has bounds for {box.low.shape[0]} columns, "
            f"the data have {n_features}"
        )
    return Settled(box, [])


def notes_on(
    stretches: Sequence[Stretch],
    rows: Sequence[int] | Ints,
    name: Callable[[int], str],
    columns: Sequence[str] = (),
) -> list[str]:
    """Say who alone stretches columns, and who alone holds nearly all rows.

    Parameters
    ----------
    stretches
        What was found, see :func:`agreed_box`.
    rows
        How many each client has.
    name
        Returns what a client is called.
    columns
        Names of the columns; none: they are numbered, from 1.
    """
    by_whom: dict[tuple[int, ...], list[Stretch]] = {}
    for stretch in stretches:
        by_whom.setdefault(stretch.clients, []).append(stretch)
    notes = [
        _stretch_note([name(i) for i in clients], each, len(rows), columns)
        for clients, each in by_whom.items()
    ]
    share = max(rows) / max(1, sum(rows))
    if len(rows) > 1 and share > MOST_OF_ALL:
        biggest = name(int(np.argmax(rows)))
        notes.append(
            f"{biggest} alone holds {math.floor(100 * share)} % of all rows: "
            "the answer is mostly its own"
        )
    return notes


def takes_the_say(note: str) -> bool:
    """Whether a note says that somebody has no say in columns."""
    return NO_SAY in note


def _stretch_note(
    who: Sequence[str], each: Sequence[Stretch], n: int, columns: Sequence[str]
) -> str:
    places = [stretch.column for stretch in each]
    called = [repr(columns[i]) if columns else str(i + 1) for i in places]
    times = max(stretch.times for stretch in each)
    text = (
        f"{listed(who)} alone stretch{'es' if len(who) == 1 else ''} "
        f"column{'' if len(each) == 1 else 's'} {listed(called)} "
        f"{'' if len(each) == 1 else 'up to '}"
        f"{f'{times:.0f}' if times < BEYOND else 'over a million'} times as far as "
        f"{'the other one' if n == 2 else 'all others'} reach{'es' if n == 2 else ''}"
    )
    if n > 2:
        has = "it has" if len(who) == 1 else "they have"
        text += f": {has} {NO_SAY}, far rows count as just outside"
    return f"{text}; check units, or give --ranges"


def _box_by_name(
    bounds: Mapping[str, tuple[float, float]], columns: Sequence[str]
) -> Box:
    bounds = {meant(name, columns) or name: pair for name, pair in bounds.items()}
    missing = [column for column in columns if column not in bounds]
    if missing:
        raise InputError(
            f"no bounds are given for {quoted(missing)}: "
            "give them, or name the columns to use"
        )
    low, high = np.array([bounds[column] for column in columns], dtype=np.float64).T
    return given_box(low, high)


def select(agreement_columns: Sequence[str], own_columns: Sequence[str]) -> Ints:
    """Return where a site finds the agreed columns in its own table.

    Examples
    --------
    >>> select(["age", "height"], ["height", "zip", "age"]).tolist()
    [2, 0]
    """
    places = {column: place for place, column in enumerate(own_columns)}
    missing = [column for column in agreement_columns if column not in places]
    if missing:
        raise InputError(f"agreed, but not in this table: {quoted(missing)}")
    return np.array([places[c] for c in agreement_columns], dtype=np.int64)


def quoted(names: Sequence[str]) -> str:
    """Return names for people to read, a long list cut short."""
    return listed([repr(name) for name in names])


def listed(parts: Sequence[str], mark: str = ", ") -> str:
    """Join the parts of a line, and cut a long line short."""
    more = f"{mark}… ({len(parts)} in all)" if len(parts) > SHOWN else ""
    return mark.join(parts[:SHOWN]) + more

# SPDX-License-Identifier: Apache-2.0
"""What crosses the wire, and what it reveals.

Every message is a frozen dataclass. Envelopes (:class:`Hello`, :class:`Update`,
:class:`Broadcast`, :class:`Left`) are the same for all methods; what a method has to
say travels inside as a *payload*, a frozen dataclass of arrays, numbers, strings and
further payloads, declared with :func:`payload` so that the codec knows it by name.

A client never fills in who it is: `client`, `version` and `contact` are stamped by
the coordinator, which knows whom it asked what.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from afcl._typing import AnyArray, ClientId, Floats, Ints
from afcl.exceptions import RejectedMessage
from afcl.kernels import assign
from afcl.scale import Box, Ranges

UNSTAMPED: ClientId = -1

#: What may travel, by the name it has on the wire.
PAYLOADS: dict[str, type[Any]] = {}

#: Packages whose payloads go by their bare class name. Messages and journals have held
#: these names from the beginning; everybody else's are qualified by their module.
BARE_NAMED = ("afcl", "afcl_bench")

T = TypeVar("T")


def payload_name(kind: type[Any]) -> str:
    """Return the name a payload has on the wire: `Cells`, or `package.module:Cells`."""
    if kind.__module__.partition(".")[0] in BARE_NAMED:
        return kind.__name__
    return f"{kind.__module__}:{kind.__qualname__}"


def payload(kind: type[T]) -> type[T]:
    """Register a dataclass as something that may travel inside a message.

    The same class may come again, as it does when its module is reloaded.
    """
    name = payload_name(kind)
    known = PAYLOADS.get(name, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(
            f"two payloads are called {name!r}, in {known.__module__} and in "
            f"{kind.__module__}: rename one"
        )
    PAYLOADS[name] = kind
    return kind


# Made below this layer, where files can use them too; what they reveal stands there.
payload(Box)
payload(Ranges)


@payload
@dataclass(frozen=True, slots=True)
class Cells:
    """Groups of rows as (count, mean, scatter): o, b and z of Eqs. (6) and (7).

    Reveals, per cell, how many rows it holds, where their mean lies and how widely
    they spread; no single row unless a cell holds only one, which `min_cell` forbids.

    The cells of several clients lie one client after the other: client i's are those
    from ``offsets[i]`` up to ``offsets[i + 1]``. None: they are one client's, which is
    all that ever crosses a wire.
    """

    counts: Ints
    means: Floats
    scatters: Floats
    offsets: Ints | None = None

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    @property
    def sizes(self) -> Ints:
        """Number of cells of every client."""
        if self.offsets is None:
            return np.array([len(self)])
        return np.diff(self.offsets)


@payload
@dataclass(frozen=True, slots=True)
class Places:
    """Where clusters are that need not be round: a row is of the nearest one's.

    Reveals to every client positions and their clusters, no counts: means of at least
    `min_cell` rows of two clients or more, and seeds, which it knows already; see
    :func:`afcl.core.shapes.places_of`.
    """

    means: Floats
    labels: Ints

    def check(self, width: int, k: int) -> None:
        """Refuse what cannot be the places of k clusters in so many columns."""
        means, labels = self.means, self.labels
        refuse_unless(
            means.ndim == 2
            and means.shape[0] > 0
            and means.shape[1] == width
            and means.dtype == np.float64
            and bool(np.isfinite(means).all()),
            f"places must be finite points of {width} columns",
        )
        refuse_unless(
            labels.shape == means.shape[:1]
            and labels.dtype == np.int64
            and bool(np.all((labels >= 0) & (labels < k))),
            "places must be those of clusters",
        )

    def label(self, X: Floats) -> Ints:
        """Return the cluster of every row."""
        found: Ints = self.labels[assign(X, self.means)[0]]
        return found


@payload
@dataclass(frozen=True, slots=True)
class Level:
    """One level of the path as sent to clients: centres, V = Z/O and O.

    Reveals the global centres, spreads and sizes of one clustering to every client.
    """

    centers: Floats
    spreads: Floats
    counts: Floats
    revision: int


@payload
@dataclass(frozen=True, slots=True)
class Plan:
    """The default preset's broadcast: seeds M and the candidate levels.

    Reveals aggregate positions that come from all clients' cells.
    """

    seeds: Floats
    candidates: tuple[Level, ...]


@payload
@dataclass(frozen=True, slots=True)
class LevelReply:
    """A client's view of one candidate level.

    Reveals its cells of at least `min_cell` rows around the level's centres,
    `sums`, those of its rows' simplified and moment silhouettes, and `valleys`, (k, 3),
    how many of its rows lie in three slabs between each centre and the nearest other
    one: the middle, the own end, the other end. These counts may be smaller than
    `min_cell`. `owners` says whose a cell is: the number of its centre, -1 if rows of
    other centres were folded into it.
    """

    cells: Cells
    owners: Ints
    sums: Floats
    valleys: Floats
    revision: int


@payload
@dataclass(frozen=True, slots=True)
class Summary:
    """The default preset's answer to a :class:`Plan`.

    Reveals cells of at least `min_cell` rows around the seeds and around each
    candidate's centres; nothing per row. `owners` says whose a cell is: the number of
    its seed, -1 if rows of other seeds were folded into it.
    """

    cells: Cells
    owners: Ints
    levels: tuple[LevelReply, ...]


@payload
@dataclass(frozen=True, slots=True)
class Positions:
    """Bare points: the paper's seeds, up (a client's choice) or down (the global set).

    Upwards every point **is a row of the client**: k-means++ picks rows.
    """

    points: Floats


@payload
@dataclass(frozen=True, slots=True)
class WeightedPositions:
    """The published code's broadcast: seeds and the attribute weights W."""

    points: Floats
    weights: Floats


@payload
@dataclass(frozen=True, slots=True)
class Intensities:
    """The paper's upload: r = eta (x - m) of every row (Eq. 5), with its seed.

    **Reveals every row exactly**: x = m + r / eta, and the server knows m and eta.
    Rows come seed by seed, and in their order within a seed.
    """

    owners: Ints
    intensities: Floats
    cells: Cells


@payload
@dataclass(frozen=True, slots=True)
class Hello:
    """A client's first message: its number of rows and a first payload."""

    n_rows: int
    payload: Any
    client: ClientId = UNSTAMPED
    contact: int = 0


@payload
@dataclass(frozen=True, slots=True)
class Update:
    """A client's answer to the broadcast of `version`, its `contact`-th message."""

    payload: Any
    version: int = UNSTAMPED
    client: ClientId = UNSTAMPED
    contact: int = UNSTAMPED


@dataclass(frozen=True, slots=True)
class Left:
    """Nothing more will come from this client; what it said so far stays."""

    client: ClientId


@dataclass(frozen=True, slots=True)
class Batch:
    """What several clients of a group say at once: their hellos, or their updates.

    Only a simulation's own group of sites speaks so; a batch is no payload and cannot
    cross a wire. What a server does with one message it does with a batch of one, so
    this is the same message in columns: the payload's :class:`Cells` have offsets, its
    numbers are columns. Nothing in it is checked, because nobody else made it.

    Attributes
    ----------
    clients
        Who speaks, in increasing order.
    rows
        Rows of each, if these are hellos.
    version
        Of the broadcast that updates answer.
    first
        The first client of the group, by which the server knows the group.
    """

    clients: Ints
    payload: Any
    rows: Ints | None = None
    version: int = UNSTAMPED
    first: ClientId = 0


@payload
@dataclass(frozen=True, slots=True)
class Addressed:
    """A broadcast with a part for one client: what all get, and what only it gets."""

    common: Any
    own: Any


@dataclass(frozen=True, slots=True)
class Broadcast:
    """What a participating client gets.

    `wanted` names the clients whose answer would still help (None: anybody's); it
    tells the coordinator whom to ask and is not sent. `personal` holds what is meant
    for one client only; who is named there gets an :class:`Addressed` payload. Of the
    clients of a group (see :class:`Batch`) `group` holds what they are asked, in
    columns.
    """

    version: int
    payload: Any
    wanted: frozenset[ClientId] | None = None
    personal: Mapping[ClientId, Any] | None = None
    group: Any = None

    def addressed_to(self, client: ClientId) -> Any:
        """Return what this client is sent."""
        if self.personal is None:
            return self.payload
        return Addressed(self.payload, self.personal[client])


def arrays_in(value: Any) -> Iterator[AnyArray]:
    """Every array inside a message or payload, depth first."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from arrays_in(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from arrays_in(getattr(value, field.name))


def array_bytes(value: Any) -> int:
    """Bytes of all arrays inside a message or payload."""
    return sum(array.nbytes for array in arrays_in(value))


def refuse_unless(condition: bool, reason: str) -> None:
    """Raise :class:`RejectedMessage` with `reason` unless `condition` holds."""
    if not condition:
        raise RejectedMessage(reason)


def is_table(array: Any, n_features: int = -1) -> bool:
    """Whether this is a float64 table of at least one row (and of this width)."""
    return (
        isinstance(array, np.ndarray)
        and array.ndim == 2
        and array.dtype == np.float64
        and array.shape[0] >= 1
        and n_features in (-1, array.shape[1])
    )


def check_answer(update: Update, known: Container[ClientId], newest: int) -> None:
    """Refuse the answer of a stranger, and one to a version that was never sent."""
    refuse_unless(update.client in known, f"client {update.client} has not said hello")
    refuse_unless(
        0 <= update.version <= newest,
        f"version {update.version} was never sent, the newest is {newest}",
    )


def check_cells(cells: Any, n_features: int, n_rows: int, low: int = 1) -> None:
    """Refuse cells that no honest client could have sent."""
    check_form(cells, n_features, n_rows, low)
    check_finite(cells)


def check_form(cells: Any, n_features: int, n_rows: int, low: int = 1) -> None:
    """Refuse cells of the wrong types, shapes or counts."""
    refuse_unless(isinstance(cells, Cells), "expected cells (counts, means, scatters)")
    counts, means, scatters = cells.counts, cells.means, cells.scatters
    refuse_unless(cells.offsets is None, "a client sends the cells of one client")
    refuse_unless(
        all(isinstance(part, np.ndarray) for part in (counts, means, scatters)),
        "cells must be arrays",
    )
    r = counts.shape[0] if counts.ndim == 1 else -1
    refuse_unless(r >= 1, "expected at least one cell")
    refuse_unless(
        means.shape == (r, n_features) and scatters.shape == (r,),
        f"cells do not fit: {r} counts, means {means.shape}, scatters {scatters.shape}"
        f", {n_features} features agreed",
    )
    refuse_unless(
        counts.dtype == np.int64
        and means.dtype == np.float64
        and scatters.dtype == np.float64,
        "cells must be int64 counts with float64 means and scatters",
    )
    sizes = counts.tolist()
    refuse_unless(min(sizes) >= low, f"a cell holds fewer than {low} rows")
    total = sum(sizes)  # exact: a sum of int64 could wrap around
    refuse_unless(
        total <= n_rows, f"cells hold {total} rows, the client registered {n_rows}"
    )


def check_finite(cells: Cells) -> None:
    """Refuse means and scatters that are not finite, and negative scatters."""
    refuse_unless(
        bool(np.isfinite(cells.means).all() and np.isfinite(cells.scatters).all()),
        "cells hold numbers that are not finite",
    )
    refuse_unless(bool((cells.scatters >= 0).all()), "a cell's scatter is negative")

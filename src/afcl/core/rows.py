# SPDX-License-Identifier: Apache-2.0
"""A client's rows, wherever they are: read part by part, never all at once.

A client's work on its rows is a map-reduce: every part is summarised by itself, and the
summaries are added in the order of the parts. So it makes no difference to the code,
and hardly any to the result, whether the rows are in memory, in files that are larger
than memory, or spread over a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels import scaled, tally
from afcl.kernels.arrays import Nest
from afcl.kernels.reference import Tally
from afcl.kernels.threads import workers
from afcl.parts import rows_in_the_cache
from afcl.scale import Box, Ranges

T = TypeVar("T")
#: Sums over a part of the rows, several arrays.
Sums = TypeVar("Sums", bound=tuple[Floats, ...])


class Rows(Protocol):
    """A client's rows in agreed units."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features."""
        ...

    def map(self, work: Callable[[Floats], T]) -> Iterator[T]:
        """Yield what `work` makes of each part of the rows, in their order.

        Parts of whole blocks (:mod:`afcl.parts`), but the last, give the bits that a
        table in memory gives; others give the same but for rounding.
        """
        ...

    def take(self, index: Ints) -> Floats:
        """Return the rows at these increasing positions."""
        ...

    def table(self) -> Floats:
        """Return all rows at once, or raise `InputError` where they do not fit."""
        ...


@runtime_checkable
class RowsInOrder(Rows, Protocol):
    """Rows whose parts are worked on in this process, one after the other."""

    #: Says so.
    in_order: bool


@runtime_checkable
class RowsInPlace(Rows, Protocol):
    """Rows that answer by themselves what a client asks of them, where they are.

    Optional passes, all or none: rows without them are read by :meth:`Rows.map`. What
    they say differs from that by rounding in the precision that the rows have.
    """

    def placed(self, index: Ints, draws: Floats, iterations: int) -> Floats:
        """Return centres of the rows at these positions: k-means++, then Lloyd."""
        ...

    def tally(
        self,
        centers: Floats,
        bounds: Ints,
        scores: Ints,
        spreads: Floats,
        sizes: Floats,
    ) -> Tally:
        """Return what :func:`afcl.kernels.tally` makes of all rows."""
        ...

    def nested(self, nests: Sequence[Nest]) -> tuple[Floats, Floats, Floats]:
        """Return counts, sums of x - s and of its squares, by seed of the last nest."""
        ...

    def nearest(self, centers: Floats) -> tuple[Any, Ints]:
        """Return the nearest centre of every row, beside the rows, and their counts."""
        ...

    def renamed(self, labels: Any, names: Ints) -> Any:
        """Return such labels by other names."""
        ...

    def host_labels(self, labels: Any) -> Iterator[Ints]:
        """Yield such labels part by part, in main memory."""
        ...


class Source(Protocol):
    """A client's rows as they are kept: files, a cluster, anything but an array.

    `streamed` tells it from an array. Optional: `labels(function)`, which returns the
    labels of all rows as a collection of the source's own kind instead of part by part.
    """

    streamed: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        ...

    def ranges(self, extremes: bool = True) -> Ranges:
        """Return what the client says of its rows for the agreement."""
        ...

    def within(self, box: Box, places: Ints | None = None) -> Rows:
        """Return the rows in agreed columns (None: all) and units."""
        ...


class TableRows:
    """Rows of a table in memory, brought to agreed units part by part.

    Parameters
    ----------
    values
        The table, which is neither copied nor changed.
    box
        The agreed map; None: the table is in agreed units already.
    places
        Where the agreed columns are; None: they are the table's.
    """

    in_order = True

    def __init__(
        self, values: Floats, box: Box | None = None, places: Ints | None = None
    ) -> None:
        self._values = values
        self._box = box
        self._places = places

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features."""
        n, d = self._values.shape
        return n, d if self._places is None else self._places.shape[0]

    def map(self, work: Callable[[Floats], T]) -> Iterator[T]:
        """Yield what `work` makes of each part of the rows, in their order."""
        return map(work, self.parts(rows_in_the_cache(self.shape[1], workers())))

    def parts(self, step: int) -> Iterator[Floats]:
        """Yield so many rows at a time in agreed units, of none an empty part."""
        for start in range(0, max(self.shape[0], 1), step):
            yield self._agreed(self._values[start : start + step])

    def take(self, index: Ints) -> Floats:
        """Return the rows at these increasing positions."""
        return self._agreed(self._values[index])

    def table(self) -> Floats:
        """Return all rows at once."""
        return self._agreed(self._values)

    def _agreed(self, values: Floats) -> Floats:
        if self._places is not None:
            values = values[:, self._places]
        if self._box is None:
            return values
        if self._box.walls:
            return self._box.scale(values)
        return scaled(values, self._box.low, self._box.span)


def as_rows(X: Floats | Rows) -> Rows:
    """Return rows that are read part by part: a table's, or as they are."""
    return TableRows(X) if isinstance(X, np.ndarray) else X


def tallied(
    rows: Rows,
    centers: Floats,
    bounds: Ints,
    scores: Ints,
    spreads: Floats,
    sizes: Floats,
) -> Tally:
    """Read the rows once and return what :func:`afcl.kernels.tally` makes of them."""
    if isinstance(rows, RowsInPlace):
        return rows.tally(centers, bounds, scores, spreads, sizes)
    work = partial(
        tally,
        centers=centers,
        bounds=bounds,
        scores=scores,
        spreads=spreads,
        sizes=sizes,
    )
    return added_up(rows, work)


def added_up(rows: Rows, work: Callable[..., Sums]) -> Sums:
    """Return the sums over all rows.

    `work` returns those of a part, added to what it is given as `before`. Where parts
    are worked on in order, how rows are cut does not show.
    """
    if not isinstance(rows, RowsInOrder):
        parts = rows.map(work)
        whole = next(parts)
        for more in parts:
            for total, part in zip(whole, more, strict=True):
                total += part
        return whole
    so_far: Sums | None = None

    def add(part: Floats) -> None:
        nonlocal so_far
        so_far = work(part, before=so_far)

    for _ in rows.map(add):
        pass
    assert so_far is not None, "there is a part, if an empty one"
    return so_far

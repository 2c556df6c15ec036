# SPDX-License-Identifier: Apache-2.0
"""A streamed table as a client's rows: in agreed units, cut as in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.rows import rows_in_a_part
from afcl.core.scale import Box, Ranges
from afcl.data.stream import HeldTable, StreamedTable
from afcl.exceptions import InputError

T = TypeVar("T")


class StreamedRows:
    """The rows of a streamed table in agreed columns and units.

    The parts are cut where those of a table in memory are, which makes the sums over
    them equal bit by bit.

    Parameters
    ----------
    table
        The files.
    box
        The agreed map.
    places
        Where the agreed columns are; None: they are the table's.
    """

    def __init__(
        self, table: StreamedTable, box: Box, places: Ints | None = None
    ) -> None:
        self._table = table
        self._box = box
        self._places = places

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features."""
        return self._table.shape[0], self._box.low.shape[0]

    def map(self, work: Callable[[Floats], T]) -> Iterator[T]:
        """Yield what `work` makes of each part of the rows, in their order."""
        size = rows_in_a_part(self.shape[1])
        for part in self._table.parts(size, self._places):
            # In place, what the box does to a table.
            part -= self._box.low
            part /= self._box.span
            said = work(part)
            del part  # the next one is read before it would be forgotten
            yield said

    def take(self, index: Ints) -> Floats:
        """Return the rows at these increasing positions."""
        rows = self._table.take(index)
        return self._box.scale(rows if self._places is None else rows[:, self._places])

    def table(self) -> Floats:
        """Refuse to return all rows at once."""
        raise InputError(
            f"{self._table.path}: this needs all rows in memory: use --no-stream, or "
            "the default preset at privacy level summary"
        )


class StreamedSource:
    """A streamed table where a :class:`~afcl.runtime.site.Site` expects its rows."""

    streamed = True

    def __init__(self, table: StreamedTable) -> None:
        self._table = table

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self._table.shape

    def ranges(self, extremes: bool = True) -> Ranges:
        """Return what the client says of its rows for the agreement."""
        if not extremes:
            return Ranges(*self.shape, np.empty(0), np.empty(0))
        return Ranges(*self.shape, self._table.low, self._table.high)

    def within(self, box: Box, places: Ints | None = None) -> StreamedRows:
        """Return the rows in agreed columns and units."""
        return StreamedRows(self._table, box, places)


def rows_of(source: Any) -> Any:
    """Return what a site works on: a table, or the files that stand for it.

    What is neither (rows on a cluster) is a source already.
    """
    if isinstance(source, HeldTable):
        return source.table.values
    return StreamedSource(source) if isinstance(source, StreamedTable) else source


def in_input_order(
    source: HeldTable | StreamedTable, labels: Ints | Iterable[Ints]
) -> Ints | Iterable[Ints]:
    """Spread labels over all rows of the site's files; -1 for rows left out."""
    if isinstance(source, StreamedTable):
        return source.in_input_order(labels)
    assert isinstance(labels, np.ndarray), "a table in memory has an array of labels"
    return source.in_input_order(labels)

# SPDX-License-Identifier: Apache-2.0
"""The rows of a streamed table in agreed units, cut as those in memory are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from afcl._typing import Floats, Ints
from afcl.exceptions import InputError
from afcl.parts import rows_in_a_part
from afcl.scale import Box

T = TypeVar("T")


class Kept(Protocol):
    """Rows that are kept elsewhere, in their own columns and units."""

    shape: tuple[int, int]

    def take(self, index: Ints) -> Floats:
        """Return the rows at these increasing positions."""
        ...


class Files(Kept, Protocol):
    """What is read: a :class:`~afcl.data.stream.StreamedTable`."""

    path: Path

    def parts(self, size: int, places: Ints | None = None) -> Iterator[Floats]:
        """Yield the rows, `size` of them at a time and the rest at the end."""
        ...


K = TypeVar("K", bound=Kept)


class AgreedRows(Generic[K]):
    """Rows that are kept elsewhere, in agreed columns and units.

    Parameters
    ----------
    table
        Where they are.
    box
        The agreed map.
    places
        Where the agreed columns are; None: they are the table's.
    """

    def __init__(self, table: K, box: Box, places: Ints | None = None) -> None:
        self._table = table
        self._box = box
        self._places = places

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features."""
        return self._table.shape[0], self._box.low.shape[0]

    def take(self, index: Ints) -> Floats:
        """Return the rows at these increasing positions."""
        rows = self._table.take(index)
        return self._box.scale(rows if self._places is None else rows[:, self._places])


class StreamedRows(AgreedRows[Files]):
    """The rows of a streamed table.

    The parts are cut where those of a table in memory are, which makes the sums over
    them equal bit by bit.
    """

    def map(self, work: Callable[[Floats], T]) -> Iterator[T]:
        """Yield what `work` makes of each part of the rows, in their order."""
        size = rows_in_a_part(self.shape[1])
        for part in self._table.parts(size, self._places):
            # In place, what the box does to a table.
            part -= self._box.low
            part /= self._box.span
            made = work(part)
            del part  # the next one is read before it would be forgotten
            yield made

    def table(self) -> Floats:
        """Refuse to return all rows at once."""
        raise InputError(
            f"{self._table.path}: this needs all rows in memory: use --no-stream, or "
            "the default preset at privacy level summary"
        )

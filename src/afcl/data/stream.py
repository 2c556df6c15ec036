# SPDX-License-Identifier: Apache-2.0
"""Sites that are larger than memory should hold: their files are read again and again.

A first pass checks every row and learns what has to be known of all of them; every
later pass yields the same rows in the same order, so that nothing is ever kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.data.errors import PARQUET, ending, fail
from afcl.data.features import Embedding
from afcl.data.files import rows_in
from afcl.data.ids import StreamedIds
from afcl.data.parquet import memory_needed
from afcl.data.sources import SiteFiles, SiteReader
from afcl.data.tables import (
    add_to_digest,
    begin_digest,
    in_input_order,
    unordered,
)
from afcl.exceptions import InputError
from afcl.gaps import KEEPING
from afcl.parts import rows_in_a_part
from afcl.scale import Box, Ranges

#: Memory for open pages beyond which it is worth a note.
MUCH = 250_000_000
#: Rows whose median stands for that of all.
MEDIAN_ROWS = 131_072
#: Numbers that such a sample may hold; with many columns it has fewer rows.
MEDIAN_NUMBERS = 1 << 22

T = TypeVar("T")


class StreamedTable:
    """One site's rows, in files that are never held in memory at once.

    Parameters
    ----------
    name : str
        The site; safe as a file name.
    site : SiteFiles
        Where the rows are.
    columns : tuple of str
        Which of them count.
    missing : {"error", "drop"}
        What to do about rows with missing values.
    min_rows : int
        Fewest rows that a site may have.
    id_column : str, optional
        What rows are called by.

    Attributes
    ----------
    name, columns, path, ids
        As in :class:`~afcl.data.Table`.
    shape : tuple of int
        Numbers of rows that are complete, and of columns.
    notes : tuple of str
        What was left out and why.
    gaps : mapping from str to int
        Cells of the files' columns that have no value.

    Raises
    ------
    InputError
        As :func:`~afcl.data.read_sites` does.
    """

    streamed = True

    def __init__(
        self,
        name: str,
        site: SiteFiles,
        embedding: Embedding,
        missing: str = "error",
        min_rows: int = 1,
        id_column: str | None = None,
    ) -> None:
        if missing in KEEPING:
            raise fail(
                f"--missing {missing} needs all rows in memory; leave --stream out, or "
                "use --missing drop"
            )
        columns = embedding.names
        self.name, self.columns, self.path = name, columns, site.path
        self.ids = None if id_column is None else StreamedIds(id_column, site.files)
        self._site = site
        self._missing = missing
        self._stamps = _stamps(site)
        low, high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
        self._embedding = embedding
        reader = SiteReader(site, embedding, missing)
        guess = sum(rows_in(file) for file in site.files)
        digest = begin_digest((guess, len(columns)), columns)
        for values, kept in reader.parts(streamed=True):
            rows = values if kept.all() else values[kept]
            if rows.shape[0]:
                low = np.minimum(low, rows.min(axis=0))
                high = np.maximum(high, rows.max(axis=0))
                add_to_digest(digest, rows)
        reader.check(min_rows)
        self.gaps = reader.gaps()
        self.shape = (reader.n_kept, len(columns))
        self._ranges = Ranges(*self.shape, low, high)
        self._n_dropped = reader.n_rows - reader.n_kept
        self.notes = tuple(reader.notes() + _much(site, columns))
        # The shape comes first in the hash: rows that are left out spoil the guess.
        self._digest = digest.hexdigest() if guess == reader.n_kept else None

    def fingerprint(self) -> str:
        """Return a hash of the rows and names, equal to that of the table in memory."""
        if self._digest is None:
            digest = begin_digest(self.shape, self.columns)
            for values in self._kept():
                add_to_digest(digest, values)
            self._digest = str(digest.hexdigest())
        return str(self._digest)

    def unordered(self) -> str:
        """Return a hash of the rows and columns in whatever order they come."""
        return unordered(self._kept(), self.columns)

    @property
    def rows(self) -> StreamedTable:
        """What a client works on: the files themselves."""
        return self

    def ranges(self, extremes: bool = True) -> Ranges:
        """Return what the client says of its rows for the agreement."""
        return self._ranges if extremes else self._ranges.without_extremes()

    def within(self, box: Box, places: Ints | None = None) -> StreamedRows:
        """Return the rows in agreed columns (None: all) and units."""
        return StreamedRows(self, box, places)

    def parts(self, size: int, places: Ints | None = None) -> Iterator[Floats]:
        """Yield the rows, `size` of them at a time and the rest at the end.

        Parameters
        ----------
        size : int
            Rows in a part.
        places : ndarray of int, optional
            Which columns, and in which order; all by default.
        """
        n_columns = self.shape[1] if places is None else len(places)
        part, filled = np.empty((size, n_columns)), 0
        for values in self._kept():
            rows = values if places is None else values[:, places]
            while rows.shape[0]:
                fits = min(size - filled, rows.shape[0])
                part[filled : filled + fits] = rows[:fits]
                filled, rows = filled + fits, rows[fits:]
                if filled == size:
                    yield part
                    part, filled = np.empty((size, n_columns)), 0
        if filled:
            yield part[:filled]

    def take(self, index: Ints) -> Floats:
        """Return the rows at these increasing positions; stops reading at the last."""
        taken, filled, before = np.empty((len(index), self.shape[1])), 0, 0
        for values in self._kept():
            upto = int(np.searchsorted(index, before + values.shape[0]))
            taken[filled:upto] = values[index[filled:upto] - before]
            filled, before = upto, before + values.shape[0]
            if filled == len(index):
                break
        return taken

    def medians(self) -> Floats:
        """Return the median of every column, of a sample if there are many rows.

        The sample is drawn without replacement with a fixed seed: 131,072 rows, or as
        many as 32 MB of numbers hold. Good enough to see that units were mixed up.
        """
        n, d = self.shape
        wanted = min(n, MEDIAN_ROWS, max(1, MEDIAN_NUMBERS // d))
        rng = np.random.default_rng(0)
        index = np.sort(rng.choice(n, wanted, replace=False))
        middle: Floats = np.median(self.take(index), axis=0)
        return middle

    def in_input_order(self, labels: Iterable[Ints]) -> Iterator[Ints]:
        """Spread the labels of the kept rows over all rows of the files; -1 elsewhere.

        Parameters
        ----------
        labels : iterable of ndarray of int
            One label per kept row, in parts of any size.
        """
        if not self._n_dropped:
            yield from labels
            return
        waiting, source = np.empty(0, dtype=np.int64), iter(labels)
        for _, kept in self._read():
            count = int(kept.sum())
            while waiting.shape[0] < count:
                waiting = np.concatenate([waiting, next(source)])
            yield in_input_order(waiting[:count], kept)
            waiting = waiting[count:]

    def _kept(self) -> Iterator[Floats]:
        """Yield the rows that count; the same ones in every pass."""
        n_rows = 0
        for values, kept in self._read():
            rows = values if kept.all() else values[kept]
            n_rows += rows.shape[0]
            yield rows
        if n_rows != self.shape[0]:
            raise self._changed()

    def _read(self) -> Iterator[tuple[Floats, Bools]]:
        if _stamps(self._site) != self._stamps:
            raise self._changed()
        reader = SiteReader(self._site, self._embedding, self._missing)
        yield from reader.parts(streamed=True)

    def _changed(self) -> Exception:
        return fail(f"{self.path}: changed while it was read; start again")


def _stamps(site: SiteFiles) -> list[tuple[int, int]]:
    found = [os.stat(file.path) for file in site.files]
    return [(about.st_size, about.st_mtime_ns) for about in found]


def _much(site: SiteFiles, columns: Sequence[str]) -> list[str]:
    """Say so if a file needs much memory even when it is read in parts."""
    notes = []
    for file in site.files:
        own = [file.own.get(name, name) for name in columns]
        need = memory_needed(file.path, own) if ending(file.path) == PARQUET else 0
        if need > MUCH:
            notes.append(
                f"{file.path}: reading {len(columns)} columns side by side may take "
                f"{need / 1e9:.1f} GB; row groups of 8,192 rows would take less"
            )
    return notes


# ------------------------------------------------------------- in agreed units


class Kept(Protocol):
    """Rows that are kept elsewhere, in their own columns and units."""

    shape: tuple[int, int]

    def take(self, index: Ints) -> Floats:
        """Return the rows at these increasing positions."""
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


class StreamedRows(AgreedRows[StreamedTable]):
    """The rows of a streamed table, cut into whole blocks.

    So are those in memory, which makes the sums over them equal bit by bit.
    """

    in_order = True

    def map(self, work: Callable[[Floats], T]) -> Iterator[T]:
        """Yield what `work` makes of each part of the rows, in their order."""
        size = rows_in_a_part(self.shape[1])
        for part in self._table.parts(size, self._places):
            self._box.scale_in_place(part)
            made = work(part)
            del part  # the next one is read before it would be forgotten
            yield made

    def table(self) -> Floats:
        """Refuse to return all rows at once."""
        raise InputError(
            f"{self._table.path}: this needs all rows in memory: use --no-stream, or "
            "the default preset at privacy level summary"
        )

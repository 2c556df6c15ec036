# SPDX-License-Identifier: Apache-2.0
"""Rows and cells of many clients in columns, one client after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cells import nothing, union
from afcl.core.messages import Cells

T = TypeVar("T")


class Spread(Protocol):
    """Shares work out: calls it with parts of an index, returns what it gave."""

    def __call__(self, work: Callable[[Ints], T], index: Ints) -> list[T]:
        """Return the results in the order of the parts; at least one part."""
        ...


def at_once(work: Callable[[Ints], T], index: Ints) -> list[T]:
    """Do all the work in one call."""
    return [work(index)]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Rows of all clients, one client after the other, in agreed units.

    Client c owns the rows from ``offsets[c]`` up to ``offsets[c + 1]``.
    """

    rows: Floats
    offsets: Ints

    @property
    def sizes(self) -> Ints:
        """Number of rows of every client."""
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True)
class Batch:
    """Cells of several clients, one client after the other."""

    cells: Cells
    offsets: Ints

    @property
    def sizes(self) -> Ints:
        """Number of cells of every client."""
        return np.diff(self.offsets)

    def take(self, clients: Ints) -> Batch:
        """Return these clients' cells, in the order of `clients`."""
        sizes = self.sizes[clients]
        offsets = offsets_of(sizes)
        shift = np.repeat(self.offsets[clients] - offsets[:-1], sizes)
        index = np.arange(offsets[-1]) + shift
        cells = self.cells
        taken = Cells(cells.counts[index], cells.means[index], cells.scatters[index])
        return Batch(taken, offsets)


def no_cells(clients: int, n_features: int) -> Batch:
    """Return the batch of clients that have said nothing."""
    return Batch(nothing(n_features), np.zeros(clients + 1, dtype=np.int64))


def one_after_another(batches: Sequence[Batch]) -> Batch:
    """Return the clients of several batches, in their order."""
    if len(batches) == 1:
        return batches[0]
    sizes = np.concatenate([batch.sizes for batch in batches])
    return Batch(union(batch.cells for batch in batches), offsets_of(sizes))


def updated(old: Batch, new: Batch, where: Ints) -> Batch:
    """Return every client's cells, the new ones where there are any.

    `where` is a client's position in `new`, -1 if its old cells stay.
    """
    from afcl.kernels.crowds import interleave

    fresh = where >= 0
    if not fresh.any():
        return old
    if fresh.all() and np.array_equal(where, np.arange(new.sizes.shape[0])):
        return new
    sizes = old.sizes.copy()
    sizes[fresh] = new.sizes[where[fresh]]
    offsets = offsets_of(sizes)
    out = room(int(offsets[-1]), old.cells.means.shape[1])
    interleave(
        where,
        offsets[1:],
        old.offsets,
        *_columns(old),
        new.offsets,
        *_columns(new),
        *out,
    )
    return Batch(Cells(*out), offsets)


def _columns(batch: Batch) -> tuple[Ints, Floats, Floats]:
    return batch.cells.counts, batch.cells.means, batch.cells.scatters


def room(n: int, n_features: int) -> tuple[Ints, Floats, Floats]:
    """Return empty columns for n cells: counts, means, scatters."""
    return np.empty(n, dtype=np.int64), np.empty((n, n_features)), np.empty(n)


def offsets_of(sizes: Ints) -> Ints:
    """Return where each of several runs of these sizes begins, and the end."""
    offsets = np.zeros(sizes.shape[0] + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets

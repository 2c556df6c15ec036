# SPDX-License-Identifier: Apache-2.0
"""Some rows of every site, column by column, with the extremes of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from afcl._typing import Floats, Ints
from afcl.data.sites import SiteTable
from afcl.data.stream import StreamedTable
from afcl.data.tables import Table

#: Most rows of a site that are looked at.
LOOKED_AT = 20_000
#: Smallest and largest values of a table in memory that are known beside them.
EXTREMES = 4


@dataclass(frozen=True)
class ColumnSample:
    """One column at all sites, without gaps.

    Attributes
    ----------
    name : str
    sites : tuple of str
        Who has it.
    parts : tuple of ndarray
        Values of every site in the order of its rows, evenly from all of them.
    edges : tuple of ndarray
        The smallest and largest of all values of a site, where `parts` has not all.
    n_values : tuple of int
        How many values every site has in all, about.
    """

    name: str
    sites: tuple[str, ...]
    parts: tuple[Floats, ...]
    edges: tuple[Floats, ...]
    n_values: tuple[int, ...]

    @cached_property
    def pooled(self) -> Floats:
        """The values of all sites, and their extremes."""
        return np.concatenate([*self.parts, *self.edges])

    @cached_property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers."""
        return bool((self.pooled == np.rint(self.pooled)).all())

    @property
    def is_sampled(self) -> bool:
        """Whether there are more rows than are known."""
        return any(edge.size for edge in self.edges)

    def occurrences(self, value: float) -> tuple[int, str | None]:
        """Return how often a value is seen, and at which site if at one only."""
        pairs = zip(self.parts, self.edges, strict=True)
        times = [
            max(int((p == value).sum()), int((e == value).sum())) for p, e in pairs
        ]
        homes = [name for name, n in zip(self.sites, times, strict=True) if n]
        several = len(self.sites) > 1
        return sum(times), homes[0] if len(homes) == 1 and several else None

    def without(self, values: Sequence[float] | Floats) -> ColumnSample:
        """Return the column without these values."""
        if not len(values):
            return self
        kept = tuple(part[~np.isin(part, values)] for part in self.parts)
        edges = tuple(edge[~np.isin(edge, values)] for edge in self.edges)
        return replace(self, parts=kept, edges=edges)


def column_samples(
    tables: Sequence[SiteTable], columns: Sequence[str]
) -> list[ColumnSample]:
    """Read some rows of every site, once, and take them apart by column."""
    places = [tables[0].columns.index(name) for name in columns]
    taken = [_taken(table) for table in tables]
    names = tuple(table.name for table in tables)
    found = []
    for name, place in zip(columns, places, strict=True):
        parts, edges, sizes = [], [], []
        for table, rows in zip(tables, taken, strict=True):
            part = rows[:, place]
            part = part[~np.isnan(part)]
            share = table.shape[0] / max(1, rows.shape[0])
            parts.append(part)
            sizes.append(round(part.size * share))
            edges.append(_edges(table, place) if share > 1 else np.empty(0))
        found.append(
            ColumnSample(name, names, tuple(parts), tuple(edges), tuple(sizes))
        )
    return found


def evenly(n: int, most: int = LOOKED_AT) -> Ints:
    """Return at most so many positions in order, one from every stretch of the rows.

    Not always the same one of a stretch, lest every row looked at is a Monday.

    Examples
    --------
    >>> evenly(3, 5).tolist()
    [0, 1, 2]
    >>> [place // 4 for place in evenly(12, 3).tolist()]
    [0, 1, 2]
    """
    if n <= most:
        return np.arange(n, dtype=np.int64)
    within = np.random.default_rng(n).random(most)
    places: Ints = np.floor((np.arange(most) + within) * (n / most)).astype(np.int64)
    return np.minimum(places, n - 1)


def _taken(table: SiteTable) -> Floats:
    if isinstance(table, Table):
        whole = table.shape[0] <= LOOKED_AT
        return table.values if whole else table.values[evenly(table.shape[0])]
    return table.take(evenly(table.shape[0]))


def _edges(table: SiteTable, place: int) -> Floats:
    """Return the extremes of a column: several in memory, else two."""
    if isinstance(table, StreamedTable):
        ranges = table.ranges()
        return np.array([ranges.low[place], ranges.high[place]])
    values = table.values[:, place]
    values = values[~np.isnan(values)]
    if values.size <= 2 * EXTREMES:
        return values
    parted = np.partition(values, [EXTREMES - 1, values.size - EXTREMES])
    return np.concatenate([parted[:EXTREMES], parted[-EXTREMES:]])

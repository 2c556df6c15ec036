# SPDX-License-Identifier: Apache-2.0
"""Rows that are there more than once: at a site, or at two.

Rows are compared by a hash. Of many rows those with a small hash are looked at: of
equal rows that is all or none, wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.data.column_sample import LOOKED_AT
from afcl.data.sites import SiteTable
from afcl.data.tables import Table, Words, row_hashes

#: Fewest rows of a site that is looked at.
ENOUGH = 20
#: A site is noted if more than this part of its rows is there more than once,
REPEATED = 0.5
#: or if this part of its different rows is at another site too.
SAME = 0.9
#: Rows that would be twins by chance, as a part of all; above this nothing is said.
BY_CHANCE = 0.05
#: Rows of which the chance is estimated.
ESTIMATED = 2_000
#: Most sites that are compared with each other.
COMPARED = 200
_ALL = 1 << 64


@dataclass(frozen=True, slots=True)
class SeenRows:
    """The rows of a site that are looked at, by their hashes.

    Attributes
    ----------
    name : str
    different : ndarray of uint64
        Their hashes, in order.
    times : ndarray of int
        How often each occurs.
    below : int
        All rows with a smaller hash are there.
    """

    name: str
    different: Words
    times: Ints
    below: int


def mostly_repeated(sites: Sequence[SeenRows]) -> Iterator[tuple[str, float]]:
    """Yield sites most of whose rows are there more than once, and which part is."""
    for seen in sites:
        share = float(seen.times[seen.times > 1].sum() / seen.times.sum())
        if share > REPEATED:
            yield seen.name, share


def holding_the_same(
    sites: Sequence[SeenRows],
) -> Iterator[tuple[str, str, float]]:
    """Yield sites that hold (nearly) all rows of another one, and which part of them.

    The one that comes first is the other one.
    """
    named = set()
    for other, seen in combinations(sites[:COMPARED], 2):
        share = _shared(other, seen)
        if share >= SAME and seen.name not in named:
            named.add(seen.name)
            yield seen.name, other.name, share


def seen_rows(
    tables: Sequence[SiteTable], columns: Sequence[str]
) -> Iterator[SeenRows]:
    """Yield the rows of sites in memory, where they are hardly equal by chance.

    They may be where numbers have few values.
    """
    for table in tables:
        if isinstance(table, Table) and columns and table.shape[0] >= ENOUGH:
            places = [table.columns.index(name) for name in columns]
            if _by_chance(table.values[:, places]) <= BY_CHANCE:
                yield _seen(table)


def _seen(table: Table) -> SeenRows:
    hashes = row_hashes(table.values)
    below = min(_ALL, _ALL * LOOKED_AT // table.shape[0])
    if below < _ALL:
        hashes = hashes[hashes < np.uint64(below)]
    different, times = np.unique(hashes, return_counts=True)
    return SeenRows(table.name, different, times, below)


def _shared(a: SeenRows, b: SeenRows) -> float:
    """Return the part of the larger one's different rows that the other has too."""
    below = min(a.below, b.below)
    own, others = (
        x.different if below == x.below else x.different[x.different < np.uint64(below)]
        for x in (a, b)
    )
    both = np.intersect1d(own, others, assume_unique=True).size
    return both / max(1, own.size, others.size)


def _by_chance(values: Floats) -> float:
    """Return the part of rows that would have a twin by chance, at least.

    Were columns independent, two rows would be equal with the product of the columns'
    chances. They are not: the square root of it is taken. In a column the chance is
    how often two different rows agree, but never less than with all values between its
    extremes that it could have, going by the smallest gap.
    """
    step = -(-values.shape[0] // ESTIMATED)
    rows = np.unique(values[::step], axis=0)
    if rows.shape[0] < 2:
        return 1.0
    chances = [_agreement(column) for column in rows.T]
    return float(values.shape[0] * np.sqrt(np.prod(chances)))


def _agreement(column: Floats) -> float:
    """Return how often two values of a column are equal; gaps are, to each other."""
    values = column[~np.isnan(column)]
    different, times = np.unique(values, return_counts=True)
    if different.size < 2:
        return 1.0
    n = float(values.size)
    seen = float((times * (times - 1.0)).sum() / (n * (n - 1.0)))
    with np.errstate(over="ignore"):  # a range may be larger than any number
        possible = (different[-1] - different[0]) / np.diff(different).min() + 1.0
    held = n / column.size
    return held**2 * max(seen, 1.0 / float(possible)) + (1 - held) ** 2

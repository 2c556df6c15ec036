# SPDX-License-Identifier: Apache-2.0
"""Cells: groups of rows as (count, mean, scatter), how they are pooled and folded.

Cells of several clients carry offsets; what is done with many clients' at once stands
at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import Cells
from afcl.kernels import sums

#: A column in which so many of the rows lie in cells that tie has few values.
FEW_VALUES = 0.5


def cells_of(X: Floats, labels: Ints, k: int) -> Cells:
    """Return the non-empty cells of labelled rows (o, b, z of Eqs. 6 and 7)."""
    n = X.shape[0]
    rows = Cells(np.ones(n, dtype=np.int64), X, np.zeros(n))
    return pool_held(rows, labels, k)[0]


def pool_held(bag: Cells, labels: Ints, k: int) -> tuple[Cells, Ints]:
    """Return the non-empty groups of labelled cells, with the labels."""
    counts, means, scatters = pool(bag, labels, k)
    held = np.flatnonzero(counts)
    return Cells(counts[held].astype(np.int64), means[held], scatters[held]), held


def pool(bag: Cells, labels: Ints, k: int) -> tuple[Floats, Floats, Floats]:
    """Pool labelled cells into k groups: counts O, means B, scatters Z.

    A group's scatter is its cells' own plus that of their means around the group's;
    an empty group has count 0, mean 0 and scatter 0.
    """
    weights = bag.counts.astype(np.float64)
    mass, total = sums(bag.means, weights, labels, k)
    means = total / np.where(mass > 0, mass, 1.0)[:, None]
    residual = bag.means - means[labels]
    around = weights * (residual * residual).sum(axis=1)
    scatter = np.bincount(labels, weights=bag.scatters + around, minlength=k)
    return mass, means, scatter.astype(np.float64)


def without_gaps(labels: Ints, k: int) -> tuple[Ints, int]:
    """Return labels from 0 on of the groups that have cells, and how many these are."""
    held = np.bincount(labels, minlength=k) > 0
    return (np.cumsum(held) - 1)[labels], int(held.sum())


def has_few_values(bag: Cells, tied_by: float) -> bool:
    """Whether a column has few values, such as the levels of a category.

    Most rows then lie in cells that tie there, to such a share of the range.
    """
    order = np.argsort(bag.means, axis=0, kind="stable")
    sorted_means = np.take_along_axis(bag.means, order, axis=0)
    counts = bag.counts[order]
    steps = np.diff(sorted_means, axis=0)
    spans = sorted_means[-1] - sorted_means[0]
    close = (steps <= tied_by * spans) & (spans > 0)
    tied = np.zeros_like(counts, dtype=bool)
    tied[1:] |= close
    tied[:-1] |= close
    shares = (counts * tied).sum(axis=0) / bag.counts.sum()
    return bool((shares > FEW_VALUES).any())


def fold(cells: Cells, smallest: int) -> Cells:
    """Fold cells of fewer than `smallest` rows into the cell with the nearest mean.

    The smallest goes first (lowest index on ties); folding stops at one cell.
    """
    return fold_owned(cells, np.arange(len(cells)), smallest)[0]


def fold_owned(cells: Cells, owners: Ints, smallest: int) -> tuple[Cells, Ints]:
    """Fold, and return beside the cells whose each is: -1 where it took others in."""
    counts = cells.counts.copy()
    means = cells.means.copy()
    scatters = cells.scatters.copy()
    owners = owners.astype(np.int64)
    alive = np.ones(len(cells), dtype=bool)
    while alive.sum() > 1:
        size = np.where(alive, counts, np.iinfo(np.int64).max)
        i = int(size.argmin())
        if counts[i] >= smallest:
            break
        gap = ((means - means[i]) ** 2).sum(axis=1)
        gap[~alive] = np.inf
        gap[i] = np.inf
        j = int(gap.argmin())
        both = counts[i] + counts[j]
        scatters[j] += scatters[i] + counts[i] * counts[j] / both * gap[j]
        means[j] = (counts[i] * means[i] + counts[j] * means[j]) / both
        counts[j] = both
        owners[j] = -1
        alive[i] = False
    return Cells(counts[alive], means[alive], scatters[alive]), owners[alive]


def are_apart(points: Floats) -> bool:
    """Whether all points differ in their first coordinate, as they nearly always do."""
    return bool(np.unique(points[:, 0]).shape[0] == points.shape[0])


def join_coincident(cells: Cells, owners: Ints) -> tuple[Cells, Ints]:
    """Join cells with the very same mean, so that no two of a message's are equal.

    Only rounding or folding makes two cells of nearest centres meet; almost always the
    cells are returned as they are.
    """
    if are_apart(cells.means):
        return cells, owners
    _, first, group = np.unique(
        cells.means, axis=0, return_index=True, return_inverse=True
    )
    if first.shape[0] == len(cells):
        return cells, owners
    order = np.argsort(first)
    kept = first[order]
    place = np.empty_like(order)
    place[order] = np.arange(order.shape[0])
    labels = place[group.reshape(-1)]
    counts = np.zeros(kept.shape[0], dtype=np.int64)
    np.add.at(counts, labels, cells.counts)
    scatters = np.zeros(kept.shape[0])
    np.add.at(scatters, labels, cells.scatters)
    alone = np.bincount(labels) == 1
    joined = Cells(counts, cells.means[kept], scatters)
    return joined, np.where(alone, owners[kept], -1)


def nothing(n_features: int, clients: int | None = None) -> Cells:
    """Return no cells at all, or the cells of so many clients that have none."""
    offsets = None if clients is None else np.zeros(clients + 1, dtype=np.int64)
    return Cells(*empty_columns(0, n_features), offsets)


def empty_columns(n: int, n_features: int) -> tuple[Ints, Floats, Floats]:
    """Return columns for n cells, to be written: counts, means, scatters."""
    return np.empty(n, dtype=np.int64), np.empty((n, n_features)), np.empty(n)


def union(bags: Iterable[Cells]) -> Cells:
    """Join cells of several clients to one bag, in the order given."""
    every = list(bags)
    return Cells(
        np.concatenate([bag.counts for bag in every]),
        np.concatenate([bag.means for bag in every]),
        np.concatenate([bag.scatters for bag in every]),
    )


# ------------------------------------------------------------------ many clients


def offsets_of(sizes: Ints) -> Ints:
    """Return where each of several runs of these sizes begins, and the end."""
    offsets = np.zeros(sizes.shape[0] + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def places_of(offsets: Ints, some: Ints) -> tuple[Ints, Ints]:
    """Return the places of these clients' entries, and offsets for them alone."""
    sizes = np.diff(offsets)[some]
    taken = offsets_of(sizes)
    return np.arange(taken[-1]) + np.repeat(offsets[some] - taken[:-1], sizes), taken


def concatenate(parts: Sequence[Cells]) -> Cells:
    """Return the clients of several parts one after the other, with offsets."""
    if len(parts) == 1 and parts[0].offsets is not None:
        return parts[0]
    sizes = np.concatenate([part.sizes for part in parts])
    return replace(union(parts), offsets=offsets_of(sizes))


def take(cells: Cells, clients: Ints) -> Cells:
    """Return these clients' cells, in the order of `clients`."""
    assert cells.offsets is not None
    index, offsets = places_of(cells.offsets, clients)
    return Cells(
        cells.counts[index], cells.means[index], cells.scatters[index], offsets
    )


def exchange(old: Cells, new: Cells, where: Ints) -> Cells:
    """Return every client's cells, the new ones where there are any.

    `where` is a client's position in `new`, -1 if its old cells stay.
    """
    assert old.offsets is not None
    assert new.offsets is not None
    fresh = where >= 0
    if not fresh.any():
        return old
    n_new = new.offsets.shape[0] - 1
    if fresh.all() and np.array_equal(where, np.arange(n_new)):
        return new
    positions = np.where(fresh, where, 0)
    offsets = offsets_of(np.where(fresh, new.sizes[positions], old.sizes))
    out = empty_columns(int(offsets[-1]), old.means.shape[1])
    stay, go = np.flatnonzero(~fresh), np.flatnonzero(fresh)
    for source, clients, at in ((old, stay, stay), (new, go, where[go])):
        assert source.offsets is not None
        to, _ = places_of(offsets, clients)
        here, _ = places_of(source.offsets, at)
        columns = (source.counts, source.means, source.scatters)
        for column, column_in in zip(out, columns, strict=True):
            column[to] = column_in[here]
    return Cells(*out, offsets)

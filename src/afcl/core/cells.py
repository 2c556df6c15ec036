# SPDX-License-Identifier: Apache-2.0
"""Cells: groups of rows as (count, mean, scatter), how they are pooled and folded."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import Cells
from afcl.kernels import sums


def cells_of(X: Floats, labels: Ints, k: int) -> Cells:
    """Return the non-empty cells of labelled rows (o, b, z of Eqs. 6 and 7)."""
    mass, total = sums(X, np.ones(X.shape[0]), labels, k)
    held = np.flatnonzero(mass)
    means = np.zeros((k, X.shape[1]))
    means[held] = total[held] / mass[held, None]
    residual = X - means[labels]
    scatter = np.bincount(
        labels, weights=(residual * residual).sum(axis=1), minlength=k
    )
    return Cells(
        mass[held].astype(np.int64), means[held], scatter[held].astype(np.float64)
    )


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


def join_coincident(cells: Cells, owners: Ints) -> tuple[Cells, Ints]:
    """Join cells with the very same mean, so that no two of a message's are equal.

    Only rounding or folding makes two cells of nearest centres meet; almost always the
    cells are returned as they are.
    """
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


def nothing(n_features: int) -> Cells:
    """Return no cells at all."""
    empty = np.empty((0, n_features))
    return Cells(np.empty(0, dtype=np.int64), empty, np.empty(0))


def union(bags: Iterable[Cells]) -> Cells:
    """Join cells of several clients, in the order given."""
    every = list(bags)
    return Cells(
        np.concatenate([bag.counts for bag in every]),
        np.concatenate([bag.means for bag in every]),
        np.concatenate([bag.scatters for bag in every]),
    )

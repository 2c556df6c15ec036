# SPDX-License-Identifier: Apache-2.0
"""Kernels of partitions inside each other, in NumPy: whose a row is, what they hold."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.kernels.reference import assign, sums

#: By seed: counts (k,), sums of x - s and of its squares (k, d).
Around: TypeAlias = tuple[Floats, Floats, Floats]


def nearest_inside(X: Floats, parents: Ints, starts: Ints, seeds: Floats) -> Ints:
    """Return the nearest of the seeds that have the same parent as the row.

    The seeds of parent p are those from ``starts[p]`` up to ``starts[p + 1]``, at least
    one; of several as near the first is taken.
    """
    nearest = np.empty(X.shape[0], dtype=np.int64)
    for parent in np.unique(parents).tolist():
        rows = np.flatnonzero(parents == parent)
        first, last = starts[parent], starts[parent + 1]
        nearest[rows] = first + assign(X[rows], seeds[first:last])[0]
    return nearest


def sums_around(
    X: Floats, labels: Ints, seeds: Floats, before: Around | None = None
) -> Around:
    """Count (k,), sum of x - s and of its square (k, d) of every seed's rows.

    They are added to what the rows `before` gave, row by row.
    """
    k, d = seeds.shape
    if before is None:
        before = np.zeros(k), np.zeros((k, d)), np.zeros((k, d))
    counts, firsts, squares = (each.copy() for each in before)
    counts += np.bincount(labels, minlength=k)
    for feature in range(d):
        away = X[:, feature] - seeds[labels, feature]
        np.add.at(firsts[:, feature], labels, away)
        np.add.at(squares[:, feature], labels, away * away)
    return counts, firsts, squares


def halved(
    X: Floats, weights: Floats, labels: Ints, upper: Bools, max_iter: int
) -> Bools:
    """Return the half of every row after 2-means within every group of rows.

    It begins with the rows that are `upper`. A half without rows is at the origin.
    """
    k = int(labels.max()) + 1
    for _ in range(max_iter):
        mass, total = sums(X, weights, 2 * labels + upper, 2 * k)
        means = total / np.where(mass > 0, mass, 1.0)[:, None]
        below, above = np.zeros(X.shape[0]), np.zeros(X.shape[0])
        for feature in range(X.shape[1]):
            below += (X[:, feature] - means[2 * labels, feature]) ** 2
            above += (X[:, feature] - means[2 * labels + 1, feature]) ** 2
        now = above < below
        if np.array_equal(now, upper):
            break
        upper = now
    return upper

# SPDX-License-Identifier: Apache-2.0
"""Kernels of partitions inside each other, compiled; see :mod:`.reference_nests`."""

from __future__ import annotations

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.groups import add_up, apart
from afcl.kernels.passes import readable

_compiled = compiled(error_model="numpy")


def nearest_inside(X: Floats, parents: Ints, starts: Ints, seeds: Floats) -> Ints:
    """Return the nearest of the seeds that have the same parent as the row."""
    return _nearest_inside(readable(X), parents, starts, readable(seeds))


@_compiled
def _nearest_inside(X: Floats, parents: Ints, starts: Ints, seeds: Floats) -> Ints:
    nearest = np.empty(X.shape[0], dtype=np.int64)
    for row in range(X.shape[0]):
        parent = parents[row]
        found = starts[parent]
        best = np.inf
        for seed in range(starts[parent], starts[parent + 1]):
            distance = apart(X, row, seeds, seed)
            if distance < best:
                best = distance
                found = seed
        nearest[row] = found
    return nearest


def sums_around(
    X: Floats, labels: Ints, seeds: Floats
) -> tuple[Floats, Floats, Floats]:
    """Count (k,), sum of x - s and of its square (k, d) of every seed's rows."""
    return _sums_around(readable(X), labels, readable(seeds))


@_compiled
def _sums_around(
    X: Floats, labels: Ints, seeds: Floats
) -> tuple[Floats, Floats, Floats]:
    k, d = seeds.shape
    counts, firsts, squares = np.zeros(k), np.zeros((k, d)), np.zeros((k, d))
    for row in range(X.shape[0]):
        own = labels[row]
        counts[own] += 1.0
        for feature in range(d):
            # Around the seed: squares of coordinates far from the origin would cancel.
            away = X[row, feature] - seeds[own, feature]
            firsts[own, feature] += away
            squares[own, feature] += away * away
    return counts, firsts, squares


def halved(
    X: Floats, weights: Floats, labels: Ints, upper: Bools, max_iter: int
) -> Bools:
    """Return the half of every row after 2-means within every group of rows."""
    return _halved(readable(X), weights, labels, upper, max_iter)


@_compiled
def _halved(
    X: Floats, weights: Floats, labels: Ints, upper: Bools, max_iter: int
) -> Bools:
    k = labels.max() + 1
    mass, means = np.empty(2 * k), np.empty((2 * k, X.shape[1]))
    now = upper.copy()
    for _ in range(max_iter):
        add_up(X, weights, 2 * labels + now, 2 * k, mass, means)
        for half in range(2 * k):
            if mass[half] > 0:
                for feature in range(X.shape[1]):
                    means[half, feature] /= mass[half]
        changed = False
        for row in range(X.shape[0]):
            below = apart(X, row, means, 2 * labels[row])
            is_upper = apart(X, row, means, 2 * labels[row] + 1) < below
            changed |= is_upper != now[row]
            now[row] = is_upper
        if not changed:
            break
    return now

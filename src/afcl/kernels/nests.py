# SPDX-License-Identifier: Apache-2.0
"""Kernels of partitions inside each other, compiled; see :mod:`.reference_nests`."""

from __future__ import annotations

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.kernels.along import nearest_of_own
from afcl.kernels.compiling import compiled
from afcl.kernels.groups import add_up, apart
from afcl.kernels.passes import readable
from afcl.kernels.reference_nests import Around
from afcl.kernels.vectors import REGISTER

#: Numbers of 64 bits in a register.
LANES = REGISTER // 8

_compiled = compiled(error_model="numpy")


def nearest_inside(X: Floats, parents: Ints, starts: Ints, seeds: Floats) -> Ints:
    """Return the nearest of the seeds that have the same parent as the row."""
    return _nearest_inside(readable(X), parents, starts, readable(seeds))


@_compiled
def _nearest_inside(X: Floats, parents: Ints, starts: Ints, seeds: Floats) -> Ints:
    groups, firsts = _by_parent(starts, seeds)
    nearest = np.empty(X.shape[0], dtype=np.int64)
    nearest_of_own(X, parents, groups, firsts, nearest)
    for row in range(X.shape[0]):
        nearest[row] += starts[parents[row]]
    return nearest


@_compiled
def _by_parent(starts: Ints, seeds: Floats) -> tuple[Floats, Ints]:
    """Return the seeds of every parent as :data:`nearest_of_own` reads them."""
    number, d = starts.shape[0] - 1, seeds.shape[1]
    firsts = np.zeros(number + 1, dtype=np.int64)
    for parent in range(number):
        size = starts[parent + 1] - starts[parent]
        firsts[parent + 1] = firsts[parent] - (-size // LANES)
    groups = np.full((firsts[number], d, LANES), np.inf)
    for parent in range(number):
        for seed in range(starts[parent], starts[parent + 1]):
            inside = seed - starts[parent]
            group = groups[firsts[parent] + inside // LANES]
            for feature in range(d):
                group[feature, inside % LANES] = seeds[seed, feature]
    return groups, firsts


def sums_around(
    X: Floats, labels: Ints, seeds: Floats, before: Around | None = None
) -> Around:
    """Count (k,), sum of x - s and of its square (k, d) of every seed's rows."""
    k, d = seeds.shape
    if before is None:
        before = np.zeros(k), np.zeros((k, d)), np.zeros((k, d))
    counts, firsts, squares = (each.copy() for each in before)
    _add_around(readable(X), labels, readable(seeds), counts, firsts, squares)
    return counts, firsts, squares


@_compiled
def _add_around(
    X: Floats,
    labels: Ints,
    seeds: Floats,
    counts: Floats,
    firsts: Floats,
    squares: Floats,
) -> None:
    """Add rows, as seen from their seeds, to the sums of these (INOUT)."""
    for row in range(X.shape[0]):
        own = labels[row]
        counts[own] += 1.0
        for feature in range(seeds.shape[1]):
            # Around the seed: squares of coordinates far from the origin would cancel.
            away = X[row, feature] - seeds[own, feature]
            firsts[own, feature] += away
            squares[own, feature] += away * away


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

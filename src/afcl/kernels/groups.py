# SPDX-License-Identifier: Apache-2.0
"""Groups of points, compiled: pooled, folded, joined and formed anew."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled

#: Cells: counts (n,), means (n, d) and scatters (n,).
Columns: TypeAlias = tuple[Ints, Floats, Floats]

_compiled = compiled(error_model="numpy")


@_compiled
def squared(a: Floats, b: Floats) -> float:
    """Squared distance of two points."""
    total = 0.0
    for feature in range(a.shape[0]):
        difference = a[feature] - b[feature]
        total += difference * difference
    return total


@_compiled
def apart(A: Floats, i: int, B: Floats, j: int) -> float:
    """Squared distance of row i of A to row j of B."""
    total = 0.0
    for feature in range(A.shape[1]):
        difference = A[i, feature] - B[j, feature]
        total += difference * difference
    return total


@_compiled
def add_up(
    X: Floats, weights: Floats, labels: Ints, k: int, mass: Floats, total: Floats
) -> None:
    """Weight and weighted coordinate sum of every label (OUT)."""
    # Working memory comes as it was left.
    mass[:k] = 0.0
    total[:k] = 0.0
    for row in range(X.shape[0]):
        label = labels[row]
        mass[label] += weights[row]
        for feature in range(X.shape[1]):
            total[label, feature] += weights[row] * X[row, feature]


@_compiled
def pool(
    X: Floats,
    weights: Floats,
    scatters: Floats,
    labels: Ints,
    k: int,
    mass: Floats,
    means: Floats,
    radii: Floats,
) -> None:
    """Pool labelled cells into k groups: counts, means and scatters (OUT)."""
    add_up(X, weights, labels, k, mass, means)
    for group in range(k):
        radii[group] = 0.0
        if mass[group] > 0:
            for feature in range(X.shape[1]):
                means[group, feature] /= mass[group]
    for row in range(X.shape[0]):
        own = labels[row]
        radii[own] += scatters[row] + weights[row] * apart(X, row, means, own)


@_compiled
def fold(size: int, smallest: int, cells: Columns, into: Ints) -> None:
    """Fold cells below `smallest` into the nearest one; `cells` are INOUT.

    The smallest goes first, the lowest index on ties. `into` (OUT) is the cell that
    took a cell in: itself, if it stays.
    """
    counts, means, scatters = cells
    left = size
    for cell in range(size):
        into[cell] = cell
    while left > 1:
        i = -1
        for cell in range(size):
            if into[cell] == cell and (i < 0 or counts[cell] < counts[i]):
                i = cell
        # The smallest is large enough, hence all are.
        if counts[i] >= smallest:
            break
        j = -1
        gap = np.inf
        for cell in range(size):
            if cell != i and into[cell] == cell:
                distance = apart(means, cell, means, i)
                if j < 0 or distance < gap:
                    gap = distance
                    j = cell
        both = counts[i] + counts[j]
        scatters[j] += scatters[i] + counts[i] * counts[j] / both * gap
        for feature in range(means.shape[1]):
            means[j, feature] = (
                counts[i] * means[i, feature] + counts[j] * means[j, feature]
            ) / both
        counts[j] = both
        into[i] = j
        left -= 1


# ------------------------------------------------------------------ joined seeds


@_compiled
def join_seeds(counts: Ints, seeds: Floats, smallest: int) -> Ints:
    """Join seeds to groups of `smallest` rows; see :func:`reference.join_seeds`."""
    k = seeds.shape[0]
    held = np.flatnonzero(counts)
    into = np.empty(held.shape[0], dtype=np.int64)
    cells = (counts[held], seeds[held], np.zeros(held.shape[0]))
    fold(held.shape[0], smallest, cells, into)
    groups = np.arange(k)
    for place in range(held.shape[0]):
        last = place
        while into[last] != last:
            last = into[last]
        groups[held[place]] = held[last]
    for seed in range(k):
        if counts[seed] == 0:
            # An empty seed goes where rows near it would: others may have some at the
            # next count.
            groups[seed] = groups[_nearest_among(seeds, seed, counts)]
    without_gaps(groups, k)
    return groups


@_compiled
def _nearest_among(points: Floats, own: int, mass: Ints) -> int:
    """Return the nearest other point that has mass, the lowest on ties."""
    best = np.inf
    found = -1
    for index in range(points.shape[0]):
        if index != own and mass[index] > 0:
            distance = apart(points, index, points, own)
            if found < 0 or distance < best:
                best = distance
                found = index
    return found


@_compiled
def without_gaps(labels: Ints, k: int) -> int:
    """Renumber labels (INOUT) so that every number is used; return how many are."""
    used = np.zeros(k, dtype=np.int64)
    for label in labels:
        used[label] = 1
    found = 0
    for label in range(k):
        if used[label]:
            used[label] = found
            found += 1
    for row in range(labels.shape[0]):
        labels[row] = used[labels[row]]
    return found


# ------------------------------------------------------------------ MDAV


@_compiled
def _farthest(X: Floats, left: Ints, size: int, point: Floats) -> int:
    """Position among the first `size` of `left` of the row farthest from a point."""
    best = -1.0
    position = 0
    for index in range(size):
        distance = squared(X[left[index]], point)
        if distance > best:
            best = distance
            position = index
    return position


@_compiled
def _nearest(
    X: Floats, left: Ints, size: int, own: int, taken: Ints, gaps: Floats
) -> None:
    """Fill `taken` (OUT) with a row's position and those of the rows nearest to it."""
    filled = 0
    for index in range(size):
        distance = -1.0
        if index != own:
            distance = squared(X[left[index]], X[left[own]])
        place = filled
        while place > 0 and distance < gaps[place - 1]:
            place -= 1
        if place < taken.shape[0]:
            filled = min(filled + 1, taken.shape[0])
            for later in range(filled - 1, place, -1):
                gaps[later] = gaps[later - 1]
                taken[later] = taken[later - 1]
            gaps[place] = distance
            taken[place] = index


@_compiled
def microaggregate(X: Floats, smallest: int) -> Ints:
    """Group rows by MDAV: a label per row, every group of at least `smallest` rows."""
    labels = np.full(X.shape[0], -1, dtype=np.int64)
    left = np.arange(X.shape[0])
    size = X.shape[0]
    taken = np.empty(smallest, dtype=np.int64)
    gaps = np.empty(smallest)
    group = 0
    while size >= 2 * smallest:
        around = np.zeros(X.shape[1])
        for index in range(size):
            for feature in range(X.shape[1]):
                around[feature] += X[left[index], feature]
        around /= size
        # Two groups a round, at opposite ends; the rest must still be enough for one.
        for _ in range(2 if size >= 3 * smallest else 1):
            own = _farthest(X, left, size, around)
            # The second one begins farthest from the first (MDAV; Domingo-Ferrer and
            # Torra 2005).
            around = X[left[own]].copy()
            _nearest(X, left, size, own, taken, gaps)
            for position in taken:
                labels[left[position]] = group
            kept = 0
            for index in range(size):
                if labels[left[index]] < 0:
                    left[kept] = left[index]
                    kept += 1
            size = kept
            group += 1
    for index in range(size):
        labels[left[index]] = group
    return labels

# SPDX-License-Identifier: Apache-2.0
"""The kernels compiled by Numba; signatures and bits of :mod:`.reference`.

No fast-math: the order of every sum is the reference's, so that the choice between
the two never shows in a result. Compiled code is cached on disk.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from afcl._typing import Floats, Ints

_compiled = njit(cache=True, nogil=True)


@_compiled
def _squared(a: Floats, b: Floats) -> float:
    """Squared distance of two points."""
    total = 0.0
    for feature in range(a.shape[0]):
        difference = a[feature] - b[feature]
        total += difference * difference
    return total


@_compiled
def squared_distances(X: Floats, centers: Floats) -> Floats:
    """Squared Euclidean distance of every row to every centre, (n, k)."""
    out = np.empty((X.shape[0], centers.shape[0]))
    for row in range(X.shape[0]):
        for center in range(centers.shape[0]):
            out[row, center] = _squared(X[row], centers[center])
    return out


@_compiled
def assign(X: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Nearest centre of every row (lowest index on ties) and its squared distance."""
    labels = np.empty(X.shape[0], dtype=np.int64)
    nearest = np.empty(X.shape[0])
    for row in range(X.shape[0]):
        best = np.inf
        label = 0
        for center in range(centers.shape[0]):
            distance = _squared(X[row], centers[center])
            if distance < best:
                best = distance
                label = center
        labels[row] = label
        nearest[row] = best
    return labels, nearest


@_compiled
def sums(X: Floats, weights: Floats, labels: Ints, k: int) -> tuple[Floats, Floats]:
    """Weight (k,) and weighted coordinate sum (k, d) of every label."""
    mass = np.zeros(k)
    total = np.zeros((k, X.shape[1]))
    for row in range(X.shape[0]):
        label = labels[row]
        mass[label] += weights[row]
        for feature in range(X.shape[1]):
            total[label, feature] += weights[row] * X[row, feature]
    return mass, total


@_compiled
def lloyd(
    X: Floats, weights: Floats, centers: Floats, max_iter: int
) -> tuple[Floats, Ints]:
    """Weighted Lloyd from `centers`; a centre without mass stays where it is."""
    centers = centers.copy()
    labels, _ = assign(X, centers)
    for _ in range(max_iter):
        mass, total = sums(X, weights, labels, centers.shape[0])
        for center in range(centers.shape[0]):
            if mass[center] > 0:
                for feature in range(centers.shape[1]):
                    centers[center, feature] = total[center, feature] / mass[center]
        moved, _ = assign(X, centers)
        changed = False
        for row in range(X.shape[0]):
            if moved[row] != labels[row]:
                changed = True
                break
        if not changed:
            break
        labels = moved
    return centers, labels


@_compiled
def _contrast(inside: float, outside: float, size: float) -> float:
    """(b - a) / max(a, b), 0 for a cluster of one and where both are 0."""
    larger = max(inside, outside)
    if larger > 0 and size > 1:
        return (outside - inside) / larger
    return 0.0


@_compiled
def silhouettes(
    X: Floats, variances: Floats, centers: Floats, spreads: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Simplified, moment and squared moment silhouette of every row, (n,) each."""
    n = X.shape[0]
    k = centers.shape[0]
    simplified = np.zeros(n)
    moment = np.zeros(n)
    squared = np.zeros(n)
    distances = np.empty(k)
    for row in range(n):
        own = 0
        for center in range(k):
            distances[center] = _squared(X[row], centers[center]) + variances[row]
            if distances[center] < distances[own]:
                own = center
        second = np.inf
        outside = np.inf
        for center in range(k):
            if center != own:
                second = min(second, distances[center])
                outside = min(outside, distances[center] + spreads[center])
        if second > 0:
            simplified[row] = 1.0 - np.sqrt(distances[own]) / np.sqrt(second)
        size = counts[own]
        inside = (distances[own] + spreads[own]) * (
            size / (size - 1.0 if size > 1 else 1.0)
        )
        moment[row] = _contrast(np.sqrt(inside), np.sqrt(outside), size)
        squared[row] = _contrast(inside, outside, size)
    return simplified, moment, squared


@_compiled
def compete(X: Floats, seeds: Floats, conscience: bool) -> Ints:
    """Winner of every row in order, Eqs. (2)-(4)."""
    wins = np.ones(seeds.shape[0])
    winners = np.empty(X.shape[0], dtype=np.int64)
    for row in range(X.shape[0]):
        best = np.inf
        winner = 0
        for seed in range(seeds.shape[0]):
            cost = wins[seed] * _squared(X[row], seeds[seed])
            if cost < best:
                best = cost
                winner = seed
        if conscience:
            wins[winner] += 1.0
        winners[row] = winner
    return winners


@_compiled
def interact(
    seeds: Floats,
    sent: Floats,
    owners: Ints,
    intensities: Floats,
    weight: float,
    rate: float,
    current: bool,
) -> None:
    """One client's uploads pull the seeds, Eqs. (13)-(14); `seeds` is INOUT."""
    d = seeds.shape[1]
    anchor = np.empty(d)
    pull = np.empty(d)
    for index in range(owners.shape[0]):
        owner = owners[index]
        radius = 0.0
        for feature in range(d):
            anchor[feature] = seeds[owner, feature] if current else sent[owner, feature]
            pull[feature] = weight * intensities[index, feature]
            reach = pull[feature] / rate
            radius += reach * reach
        for seed in range(seeds.shape[0]):
            if seed == owner or _squared(seeds[seed], anchor) <= radius:
                for feature in range(d):
                    step = pull[feature] + (weight * rate) * (
                        anchor[feature] - seeds[seed, feature]
                    )
                    seeds[seed, feature] = seeds[seed, feature] + step


@_compiled
def interact_matlab(seeds: Floats, rows: Floats, steps: Floats, near: float) -> None:
    """All seeds compete for every rebuilt row, with conscience; `seeds` is INOUT."""
    k = seeds.shape[0]
    d = seeds.shape[1]
    each = np.broadcast_to(steps, rows.shape)
    wins = np.ones(k)
    distances = np.empty(k)
    held = np.empty(d)
    for index in range(rows.shape[0]):
        best = np.inf
        winner = 0
        for seed in range(k):
            distances[seed] = _squared(seeds[seed], rows[index])
            if wins[seed] * distances[seed] < best:
                best = wins[seed] * distances[seed]
                winner = seed
        wins[winner] += 1.0
        for feature in range(d):
            held[feature] = seeds[winner, feature]
        for seed in range(k):
            apart = _squared(seeds[seed], held)
            if apart <= distances[winner] or apart <= near:
                for feature in range(d):
                    gap = rows[index, feature] - seeds[seed, feature]
                    seeds[seed, feature] += each[index, feature] * gap


@_compiled
def _farthest(X: Floats, left: Ints, size: int, point: Floats) -> int:
    """Position among the first `size` of `left` of the row farthest from a point."""
    best = -1.0
    position = 0
    for index in range(size):
        distance = _squared(X[left[index]], point)
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
            distance = _squared(X[left[index]], X[left[own]])
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
        for _ in range(2 if size >= 3 * smallest else 1):
            own = _farthest(X, left, size, around)
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

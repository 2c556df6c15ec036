# SPDX-License-Identifier: Apache-2.0
"""The server's work, compiled: Ward's merges, polished levels, joined seeds."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.reference import CLOSEST
from afcl.kernels.tiles import lloyd, silhouettes, sums

_compiled = compiled()


@_compiled
def crowding(radii: Floats, means: Floats) -> float:
    """Add up every cluster's worst overlap; see :func:`reference.crowding`."""
    total = 0.0
    for i in range(means.shape[0]):
        worst = 0.0
        for j in range(means.shape[0]):
            if i != j:
                apart = 0.0
                for feature in range(means.shape[1]):
                    difference = means[i, feature] - means[j, feature]
                    apart += difference * difference
                ratio = (radii[i] + radii[j]) / max(np.sqrt(apart), CLOSEST)
                worst = max(worst, ratio)
        total += worst
    return total


@_compiled
def _cost(counts: Floats, means: Floats, i: int, j: int) -> float:
    """Return what joining two nodes adds to the scatter."""
    total = 0.0
    for feature in range(means.shape[1]):
        difference = means[i, feature] - means[j, feature]
        total += difference * difference
    share: float = counts[i] * counts[j] / (counts[i] + counts[j])
    return total * share


@_compiled
def _cheapest(cost: Floats, alive: Ints, i: int) -> int:
    """Find the later node that is cheapest to join to i (-1: none; lowest on ties)."""
    best = np.inf
    found = -1
    for j in range(i + 1, cost.shape[0]):
        if alive[j] and cost[i, j] < best:
            best = cost[i, j]
            found = j
    return found


@_compiled
def ward(counts: Floats, means: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """Join the cheapest pair until one node is left; see :func:`reference.ward`."""
    k = counts.shape[0]
    counts = counts.copy()
    means = means.copy()
    node = np.arange(k)
    alive = np.ones(k, dtype=np.int64)
    cost = np.full((k, k), np.inf)
    for i in range(k):
        for j in range(i + 1, k):
            cost[i, j] = _cost(counts, means, i, j)
    partner = np.empty(k, dtype=np.int64)
    for i in range(k):
        partner[i] = _cheapest(cost, alive, i)
    left = np.empty(k - 1, dtype=np.int64)
    right = np.empty(k - 1, dtype=np.int64)
    costs = np.empty(k - 1)
    sizes = np.empty(k - 1)
    for step in range(k - 1):
        i = -1
        lowest = np.inf
        for first in range(k):
            second = partner[first]
            if alive[first] and second >= 0 and cost[first, second] < lowest:
                lowest = cost[first, second]
                i = first
        j = partner[i]
        size = counts[i] + counts[j]
        left[step] = node[i]
        right[step] = node[j]
        costs[step] = lowest
        sizes[step] = size
        for feature in range(means.shape[1]):
            means[i, feature] = (
                counts[i] * means[i, feature] + counts[j] * means[j, feature]
            ) / size
        counts[i] = size
        node[i] = k + step
        alive[j] = 0
        for other in range(k):
            if alive[other] and other != i:
                cost[min(i, other), max(i, other)] = _cost(counts, means, other, i)
        for other in range(k):
            if not alive[other]:
                continue
            known = partner[other]
            stale = other == i or known == i or known == j
            if stale or (other < i and cost[other, i] <= cost[other, known]):
                partner[other] = _cheapest(cost, alive, other)
    return left, right, costs, sizes


@_compiled
def pooled(
    X: Floats, weights: Floats, scatters: Floats, labels: Ints, k: int
) -> tuple[Floats, Floats, Floats]:
    """Return counts, means and scatters of k groups of labelled cells."""
    mass, means = sums(X, weights, labels, k)
    for group in range(k):
        if mass[group] > 0:
            for feature in range(X.shape[1]):
                means[group, feature] /= mass[group]
    scatter = np.zeros(k)
    for row in range(X.shape[0]):
        label = labels[row]
        total = 0.0
        for feature in range(X.shape[1]):
            difference = X[row, feature] - means[label, feature]
            total += difference * difference
        scatter[label] += scatters[row] + weights[row] * total
    return mass, means, scatter


@_compiled
def _without_gaps(labels: Ints, k: int) -> int:
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


@_compiled
def levels(
    X: Floats,
    weights: Floats,
    scatters: Floats,
    centers: Floats,
    sizes: Floats,
    left: Ints,
    right: Ints,
    most: int,
    max_iter: int,
) -> tuple[Ints, Floats, Floats, Floats, Floats]:
    """Every level from `most` groups to 2; see :func:`reference.levels`.

    Returned are where each level begins, then counts, centres and scatters of all
    levels one after the other, and the two sums of silhouettes (levels, 2).
    """
    k, d = centers.shape
    room = 0
    for groups in range(2, min(k, most) + 1):
        room += groups
    depth = max(0, min(k, most) - 1)
    starts = np.zeros(depth + 1, dtype=np.int64)
    counts = np.empty(room)
    places = np.empty((room, d))
    spreads = np.empty(room)
    totals = np.zeros((depth, 2))
    group = np.arange(k)
    nothing = np.zeros(k)
    level = 0
    for step in range(k - 1):
        groups = k - step
        if 2 <= groups <= most:
            numbers = np.zeros(2 * k, dtype=np.int64)
            for seed in range(k):
                numbers[group[seed]] = 1
            found = 0
            for node in range(2 * k):
                if numbers[node]:
                    numbers[node] = found
                    found += 1
            _, start, _ = pooled(centers, sizes, nothing, numbers[group], groups)
            _, labels = lloyd(X, weights, start, max_iter)
            held = _without_gaps(labels, groups)
            begin = starts[level]
            end = begin + held
            mass, means, scatter = pooled(X, weights, scatters, labels, held)
            counts[begin:end] = mass
            places[begin:end] = means
            spreads[begin:end] = scatter
            if held > 1:
                simplified, moment, _ = silhouettes(
                    X, scatters / weights, means, scatter / mass, mass
                )
                for row in range(X.shape[0]):
                    totals[level, 0] += weights[row] * simplified[row]
                    totals[level, 1] += weights[row] * moment[row]
            level += 1
            starts[level] = end
        for seed in range(k):
            if group[seed] == left[step] or group[seed] == right[step]:
                group[seed] = k + step
    return starts, counts, places, spreads, totals


# ------------------------------------------------------------------ joined seeds


@_compiled
def join_seeds(counts: Ints, seeds: Floats, smallest: int) -> Ints:
    """Join seeds to groups of `smallest` rows; see :func:`reference.join_seeds`."""
    k, d = seeds.shape
    groups = np.arange(k)
    mass = counts.astype(np.float64)
    place = seeds.copy()
    left = (mass > 0).sum()
    while left > 1:
        i = -1
        for seed in range(k):
            if mass[seed] > 0 and (i < 0 or mass[seed] < mass[i]):
                i = seed
        if mass[i] >= smallest:
            break
        j = _nearest_among(place, i, mass)
        both = mass[i] + mass[j]
        for feature in range(d):
            place[j, feature] = (
                mass[i] * place[i, feature] + mass[j] * place[j, feature]
            ) / both
        mass[j] = both
        mass[i] = 0.0
        left -= 1
        for seed in range(k):
            if groups[seed] == i:
                groups[seed] = j
    mass = counts.astype(np.float64)
    for seed in range(k):
        if counts[seed] == 0:
            groups[seed] = groups[_nearest_among(seeds, seed, mass)]
    _without_gaps(groups, k)
    return groups


@_compiled
def _nearest_among(points: Floats, own: int, mass: Floats) -> int:
    """Return the nearest other point that has mass, the lowest on ties."""
    best = np.inf
    found = -1
    for index in range(points.shape[0]):
        if index != own and mass[index] > 0:
            distance = 0.0
            for feature in range(points.shape[1]):
                difference = points[index, feature] - points[own, feature]
                distance += difference * difference
            if found < 0 or distance < best:
                best = distance
                found = index
    return found

# SPDX-License-Identifier: Apache-2.0
"""The server's path, compiled: overlaps, Ward's merges, polished levels."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.groups import apart, pool, without_gaps
from afcl.kernels.passes import lloyd_rows, readable, silhouettes_of
from afcl.kernels.reference import CLOSEST, Bag, Merges, Scored, Seeds
from afcl.kernels.singles import turned
from afcl.kernels.threads import in_ranges

#: Shares of the levels for every thread.
SHARES = 4

_compiled = compiled()


@_compiled
def crowding(radii: Floats, means: Floats) -> float:
    """Add up every cluster's worst overlap; see :func:`reference.crowding`."""
    k = means.shape[0]
    worst = np.zeros(k)
    for i in range(k):
        for j in range(i + 1, k):
            gap = np.sqrt(apart(means, i, means, j))
            # Coinciding clusters overlap without bound; a number is wanted.
            ratio = (radii[i] + radii[j]) / max(gap, CLOSEST)
            worst[i] = max(worst[i], ratio)
            worst[j] = max(worst[j], ratio)
    total = 0.0
    for i in range(k):
        total += worst[i]
    return total


@_compiled
def _cost(counts: Floats, means: Floats, i: int, j: int) -> float:
    """Return what joining two nodes adds to the scatter."""
    share: float = counts[i] * counts[j] / (counts[i] + counts[j])
    return apart(means, i, means, j) * share


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
        # Remembered partners make a step cost k instead of k², as few become stale.
        partner[i] = _cheapest(cost, alive, i)
    left = np.empty(k - 1, dtype=np.int64)
    right = np.empty(k - 1, dtype=np.int64)
    costs = np.empty(k - 1)
    sizes = np.empty(k - 1)
    for step in range(k - 1):
        i = -1
        lowest = np.inf
        # In order, so that of equal costs the lowest pair is joined, as in the
        # reference.
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
        # The lower place holds the joined node: the order of ties stays that of the
        # reference.
        alive[j] = 0
        for other in range(k):
            if alive[other] and other != i:
                cost[min(i, other), max(i, other)] = _cost(counts, means, other, i)
        for other in range(k):
            if not alive[other]:
                continue
            known = partner[other]
            stale = other == i or known == i or known == j
            # A tie counts too: the lower node must win it, and `known` may be the
            # higher one.
            if stale or (other < i and cost[other, i] <= cost[other, known]):
                partner[other] = _cheapest(cost, alive, other)
    return left, right, costs, sizes


def levels(
    cells: Bag, seeds: Seeds, merges: Merges, most: int, max_iter: int
) -> list[Scored]:
    """Every level of a path, polished and scored; see :func:`reference.levels`."""
    X, weights, scatters = cells
    cells = (readable(X), weights, scatters)
    k, d = seeds[0].shape
    depth = max(0, min(k, most) - 1)
    groups = _groups(*merges, k, depth)
    # All levels in a few arrays, each with room for all its groups.
    starts = np.concatenate([[0], np.cumsum(np.arange(depth + 1, 1, -1))])
    room = int(starts[-1])
    out = (np.empty(room), np.empty((room, d)), np.empty(room))
    held, totals = np.zeros(depth, dtype=np.int64), np.zeros((depth, 2))

    def work(first: int, last: int) -> None:
        asked = (first, last, starts, max_iter)
        _levels(cells, seeds, groups, *asked, out, held, totals)

    # Levels know nothing of each other; the largest take longest, so small shares.
    in_ranges(work, depth, X.size * room * max_iter, SHARES)
    return [
        (*(array[start : start + size] for array in out), *total)
        for start, size, total in zip(starts, held, totals.tolist(), strict=False)
    ]


@_compiled
def _groups(left: Ints, right: Ints, k: int, depth: int) -> Ints:
    """Return every seed's group at each level, from depth + 1 groups to 2."""
    found = np.empty((depth, k), dtype=np.int64)
    group = np.arange(k)
    for step in range(k - 1):
        if k - step <= depth + 1:
            found[depth + 1 - k + step] = group
        for seed in range(k):
            if group[seed] == left[step] or group[seed] == right[step]:
                group[seed] = k + step
    return found


@_compiled
def _levels(
    cells: Bag,
    seeds: Seeds,
    groups: Ints,
    first: int,
    last: int,
    starts: Ints,
    max_iter: int,
    out: Bag,
    held: Ints,
    totals: Floats,
) -> None:
    """Polish and score the levels from `first` to `last` (OUT).

    Each has its place in `out`: counts, centres and scatters. `held` is how many
    groups hold any cell, `totals` are the sums of its two silhouettes.
    """
    X, weights, scatters = cells
    centers, sizes = seeds
    counts, places, spreads = out
    k, d = centers.shape
    start, mass, radii = np.empty((k, d)), np.empty(k), np.empty(k)
    nothing = np.zeros(k)
    known = turned(X, groups.shape[0] + 1)
    for level in range(first, last):
        numbers = groups[level].copy()
        size = without_gaps(numbers, 2 * k)
        pool(centers, sizes, nothing, numbers, size, mass, start, radii)
        _, labels = lloyd_rows(X, known, weights, start[:size], max_iter)
        # Lloyd may have emptied centres: a level has the clusters that hold cells.
        held[level] = without_gaps(labels, size)
        begin, end = starts[level], starts[level] + held[level]
        found = (counts[begin:end], places[begin:end], spreads[begin:end])
        pool(X, weights, scatters, labels, held[level], *found)
        # No silhouette is defined for one cluster.
        if held[level] > 1:
            _score(X, weights, scatters, found, totals[level])


@_compiled
def _score(
    X: Floats, weights: Floats, scatters: Floats, found: Bag, totals: Floats
) -> None:
    """Add up the simplified and the moment silhouette of a level's cells (INOUT)."""
    mass, means, scatter = found
    simplified, moment, _ = silhouettes_of(
        X, scatters / weights, means, scatter / mass, mass
    )
    for row in range(X.shape[0]):
        totals[0] += weights[row] * simplified[row]
        totals[1] += weights[row] * moment[row]

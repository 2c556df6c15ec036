# SPDX-License-Identifier: Apache-2.0
"""Kernels over distances between cells, compiled; see :mod:`.reference_ways`."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled

_compiled = compiled()


@_compiled
def _neighbours(steps: Floats) -> tuple[Ints, Ints]:
    """Return every node's neighbours one after the other, and where each's begin."""
    m = steps.shape[0]
    starts = np.zeros(m + 1, dtype=np.int64)
    for i in range(m):
        starts[i + 1] = starts[i]
        for j in range(m):
            if steps[i, j] < np.inf:
                starts[i + 1] += 1
    near = np.empty(starts[m], dtype=np.int64)
    at = 0
    for i in range(m):
        for j in range(m):
            if steps[i, j] < np.inf:
                near[at] = j
                at += 1
    return near, starts


@_compiled
def shortest_ways(steps: Floats) -> Floats:
    """Return the shortest ways between nodes; see :func:`reference_ways`."""
    m = steps.shape[0]
    near, starts = _neighbours(steps)
    found = np.full((m, m), np.inf)
    for source in range(m):
        length = found[source]
        length[source] = 0.0
        open_nodes = np.arange(m)
        for count in range(m, 0, -1):
            best = 0
            for place in range(1, count):
                if length[open_nodes[place]] < length[open_nodes[best]]:
                    best = place
            node = open_nodes[best]
            open_nodes[best] = open_nodes[count - 1]
            for at in range(starts[node], starts[node + 1]):
                way = length[node] + steps[node, near[at]]
                if way < length[near[at]]:
                    length[near[at]] = way
    for i in range(m):
        for j in range(i):
            shorter = min(found[i, j], found[j, i])
            found[i, j] = shorter
            found[j, i] = shorter
    return found


@_compiled
def _cost(counts: Floats, squares: Floats, i: int, j: int) -> float:
    """Return what joining two nodes costs."""
    share = counts[i] * counts[j] / (counts[i] + counts[j])
    cost: float = squares[i, j] * share
    return cost


@_compiled
def _cheapest(counts: Floats, squares: Floats, alive: Ints, i: int) -> int:
    """Find the later node that is cheapest to join to i (-1: none; lowest on ties)."""
    best = np.inf
    found = -1
    for j in range(i + 1, counts.shape[0]):
        if alive[j]:
            cost = _cost(counts, squares, i, j)
            if cost < best:
                best = cost
                found = j
    return found


@_compiled
def ward_of_distances(
    counts: Floats, squares: Floats
) -> tuple[Ints, Ints, Floats, Floats]:
    """Join nodes by Ward's costs of distances; see :func:`reference_ways`."""
    k = counts.shape[0]
    counts = counts.copy()
    squares = squares.copy()
    node = np.arange(k)
    alive = np.ones(k, dtype=np.int64)
    partner = np.empty(k, dtype=np.int64)
    for i in range(k):
        partner[i] = _cheapest(counts, squares, alive, i)
    left = np.empty(k - 1, dtype=np.int64)
    right = np.empty(k - 1, dtype=np.int64)
    costs = np.empty(k - 1)
    sizes = np.empty(k - 1)
    for step in range(k - 1):
        i = -1
        lowest = np.inf
        for first in range(k):
            if alive[first] and partner[first] >= 0:
                cost = _cost(counts, squares, first, partner[first])
                if cost < lowest:
                    lowest = cost
                    i = first
        j = partner[i]
        size = counts[i] + counts[j]
        left[step] = node[i]
        right[step] = node[j]
        costs[step] = lowest
        sizes[step] = size
        of_i = counts[i] / size
        of_j = counts[j] / size
        apart = squares[i, j]
        for other in range(k):
            fresh = of_i * squares[i, other] + of_j * squares[j, other]
            fresh -= of_i * of_j * apart
            squares[i, other] = fresh
        for other in range(k):
            squares[other, i] = squares[i, other]
        counts[i] = size
        node[i] = k + step
        alive[j] = 0
        for other in range(k):
            if not alive[other]:
                continue
            known = partner[other]
            stale = other == i or known == i or known == j
            if stale or (
                other < i
                and _cost(counts, squares, other, i)
                <= _cost(counts, squares, other, known)
            ):
                partner[other] = _cheapest(counts, squares, alive, other)
    return left, right, costs, sizes

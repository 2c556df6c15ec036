# SPDX-License-Identifier: Apache-2.0
"""Kernels over distances between cells, compiled; see :mod:`.reference_ways`."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled

#: Twice what a rounded number can be wrong by, as a share of it.
EPSILON = 2.0**-51

_compiled = compiled()


@_compiled
def _neighbours(steps: Floats) -> tuple[Ints, Floats, Ints]:
    """Return every node's neighbours, how far they are, and where each's begin."""
    m = steps.shape[0]
    starts = np.zeros(m + 1, dtype=np.int64)
    for i in range(m):
        starts[i + 1] = starts[i]
        for j in range(m):
            if steps[i, j] < np.inf:
                starts[i + 1] += 1
    near, lengths = np.empty(starts[m], dtype=np.int64), np.empty(starts[m])
    at = 0
    for i in range(m):
        for j in range(m):
            if steps[i, j] < np.inf:
                near[at] = j
                lengths[at] = steps[i, j]
                at += 1
    return near, lengths, starts


@_compiled
def _worth_a_step(steps: Floats) -> Floats:
    """Return the steps without those that are longer than two others together.

    By so much longer that no rounding of any way can make up for it: a way has fewer
    steps than there are nodes. So the shortest ways stay what they are, to the bit.
    """
    m = steps.shape[0]
    near, lengths, starts = _neighbours(steps)
    longest = 0.0
    for length in lengths:
        longest = max(longest, length)
    # A step that ties with a detour but for rounding must stay: to the bit (0002).
    rounding = EPSILON * m * longest
    kept = steps.copy()
    for i in range(m):
        for at in range(starts[i], starts[i + 1]):
            for by in range(starts[i], starts[i + 1]):
                round_way = lengths[by] + steps[near[by], near[at]]
                if round_way + rounding < lengths[at]:
                    kept[i, near[at]] = np.inf
                    break
    return kept


@_compiled
def _raise(heap: Ints, place: Ints, length: Floats, at: int) -> None:
    """Let the node at this place of the heap climb to where it belongs (INOUT)."""
    node = heap[at]
    while at > 0:
        above = (at - 1) // 2
        # Ties stay below: fewer moves, and the ways are the same.
        if length[heap[above]] <= length[node]:
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at] = node
    place[node] = at


@_compiled
def _take_nearest(heap: Ints, place: Ints, length: Floats, size: int) -> int:
    """Take the node with the shortest way out of a heap of this size (INOUT)."""
    nearest: int = heap[0]
    node = heap[size - 1]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size - 1:
            break
        if below + 1 < size - 1 and length[heap[below + 1]] < length[heap[below]]:
            below += 1
        if length[node] <= length[heap[below]]:
            break
        heap[at] = heap[below]
        place[heap[at]] = at
        at = below
    heap[at] = node
    place[node] = at
    return nearest


@_compiled
def shortest_ways(steps: Floats) -> Floats:
    """Return the shortest ways between nodes; see :func:`reference_ways`.

    Only nodes that were reached wait in a heap, the nearest on top. Which of several as
    near comes first makes no difference: no way becomes shorter by going on.
    """
    m = steps.shape[0]
    # Most steps are never on a shortest way, and Dijkstra's work grows with them.
    near, lengths, starts = _neighbours(_worth_a_step(steps))
    found = np.full((m, m), np.inf)
    heap, place = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    for source in range(m):
        length = found[source]
        length[source] = 0.0
        heap[0], place[source], size = source, 0, 1
        while size > 0:
            node = _take_nearest(heap, place, length, size)
            size -= 1
            for at in range(starts[node], starts[node + 1]):
                other = near[at]
                way = length[node] + lengths[at]
                if way < length[other]:
                    # Reached for the first time: only then it enters the heap.
                    if length[other] == np.inf:
                        heap[size], place[other] = other, size
                        size += 1
                    length[other] = way
                    _raise(heap, place, length, place[other])
    for i in range(m):
        for j in range(i):
            # Sums in the other order round differently; distances have to be symmetric.
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
            # Lance and Williams' recurrence: no coordinates are needed, and there are
            # none.
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

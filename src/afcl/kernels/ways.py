# SPDX-License-Identifier: Apache-2.0
"""Kernels over distances between cells, compiled; see :mod:`.reference_ways`."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled

#: Twice what a rounded number can be wrong by, as a share of it.
EPSILON = 2.0**-51
#: Nodes whose ways are found together: what is known of them stays in the cache.
TOGETHER = 64

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
def _go_on(theirs: Floats, own: Floats, step: float) -> bool:
    """Shorten the ways to a node (INOUT) by those over another; whether any was."""
    shorter = 0
    for source in range(own.shape[0]):
        way = theirs[source] + step
        known = own[source]
        shorter |= way < known
        own[source] = way if way < known else known
    return shorter > 0


@_compiled
def _ways_from(
    first: int, order: Ints, near: Ints, lengths: Floats, starts: Ints, ways: Floats
) -> None:
    """Find the ways (OUT, node by source) from as many nodes as there is room for.

    Nodes are gone through forth and back, and each looks at its neighbours whose ways
    have become shorter since it did so last, until none has.
    """
    m = order.shape[0]
    ways[:] = np.inf
    shortened, looked = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    for source in range(ways.shape[1]):
        ways[first + source, source] = 0.0
        shortened[first + source] = 1
    now, forth, changed = 1, True, True
    while changed:
        changed = False
        for place in range(m):
            node = order[place if forth else m - 1 - place]
            now += 1
            shorter = False
            for at in range(starts[node], starts[node + 1]):
                if shortened[near[at]] > looked[node]:
                    shorter |= _go_on(ways[near[at]], ways[node], lengths[at])
            looked[node] = now
            if shorter:
                shortened[node] = now
                changed = True
        forth = not forth


@_compiled
def shortest_ways(steps: Floats) -> Floats:
    """Return the shortest ways between nodes; see :func:`reference_ways`.

    From many nodes at once, by going on over every step until no way becomes shorter: a
    length is then the least over all ways of sums rounded in the same order, which is
    what settling the nearest node first finds too, since no way becomes shorter by
    going on.
    """
    m = steps.shape[0]
    # Most steps are never on a shortest way, and the work grows with them.
    near, lengths, starts = _neighbours(_worth_a_step(steps))
    order = np.arange(m)
    from_first = np.empty((m, min(1, m)))
    _ways_from(0, order, near, lengths, starts, from_first)
    # Outwards from any node is an order in which most ways are found at once.
    order = np.argsort(from_first.ravel())
    found = np.empty((m, m))
    for first in range(0, m, TOGETHER):
        behind = min(m, first + TOGETHER)
        ways = np.empty((m, behind - first))
        _ways_from(first, order, near, lengths, starts, ways)
        found[:, first:behind] = ways
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

# SPDX-License-Identifier: Apache-2.0
"""Kernels over distances between cells, in NumPy: ways, and what joins along them."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints


def shortest_ways(steps: Floats) -> Floats:
    """Return how long the shortest way is between every two nodes of a graph.

    `steps` is symmetric, infinite where there is no edge. From every node at once: the
    nearest that is not settled is, and its neighbours are reached through it. Of both
    directions, which may round differently, the shorter is taken.
    """
    m = steps.shape[0]
    every = np.arange(m)
    found = np.where(np.eye(m, dtype=bool), 0.0, np.inf)
    settled = np.zeros((m, m), dtype=bool)
    for _ in range(m):
        near = np.where(settled, np.inf, found).argmin(axis=1)
        settled[every, near] = True
        found = np.minimum(found, found[every, near][:, None] + steps[near])
    return np.minimum(found, found.T)


def ward_of_distances(
    counts: Floats, squares: Floats
) -> tuple[Ints, Ints, Floats, Floats]:
    """Join the cheapest pair of nodes until one is left; lowest index pair on ties.

    The cost of joining i and j is o_i o_j / (o_i + o_j) times their squared distance;
    that of a joined node to others follows from those of its two (Lance and Williams'
    formula for means). `squares` need not be of points in any space. Returned is what
    :func:`reference.ward` returns.
    """
    k = counts.shape[0]
    counts, squares = counts.copy(), squares.copy()
    node = np.arange(k)
    left, right = np.empty(k - 1, dtype=np.int64), np.empty(k - 1, dtype=np.int64)
    costs, sizes = np.empty(k - 1), np.empty(k - 1)
    cost = squares * (counts[:, None] * counts / (counts[:, None] + counts))
    cost[np.tril_indices(k)] = np.inf
    for step in range(k - 1):
        i, j = divmod(int(cost.argmin()), k)
        size = counts[i] + counts[j]
        left[step], right[step] = node[i], node[j]
        costs[step], sizes[step] = cost[i, j], size
        of_i, of_j = counts[i] / size, counts[j] / size
        fresh = of_i * squares[i] + of_j * squares[j] - of_i * of_j * squares[i, j]
        squares[i], squares[:, i] = fresh, fresh
        counts[i], node[i], node[j] = size, k + step, -1
        cost[j], cost[:, j] = np.inf, np.inf
        others = np.flatnonzero((node >= 0) & (np.arange(k) != i))
        share = counts[others] * size / (counts[others] + size)
        cost[np.minimum(i, others), np.maximum(i, others)] = fresh[others] * share
    return left, right, costs, sizes

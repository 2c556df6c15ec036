# SPDX-License-Identifier: Apache-2.0
"""Clusters that need not be round: cells that hang together.

The server has cells; rows of a cluster lie in cells that are near each other, whatever
the cluster looks like. Cells are joined along the shortest ways between them (Genie:
single linkage that takes small clusters first as soon as sizes become too unequal), and
every level of that tree is scored by a silhouette over paths of short steps, the convex
answer by the same. See docs/decisions/0043-connected-clusters.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.condense import condense_cells
from afcl.core.messages import Cells
from afcl.core.params import DefaultParams
from afcl.core.protocol import Merge, PathLevel
from afcl.kernels import assign, squared_distances
from afcl.registry import CONNECTED, CONVEX

#: Cells that are worked on, at most,
MOST = 1000
#: and at least.
FEWEST = 4
#: Inequality of cluster sizes (Gini) above which the smallest is joined next.
UNEQUAL = 0.3
#: Cells that stand for rows: how much of their radii is taken off distances, the least
#: share of a distance that is left, and how much of their spreads is added.
REACH, LEAST, BLUR = 0.8, 0.05, 0.18
#: The same for the paths: what is added there.
PATH_BLUR = 0.5
#: Neighbours a path can go to.
NEIGHBOURS = 15
#: Powers of steps: the higher, the less short ones cost.
POWERS = (3, 4)
#: What e times as many clusters are worth.
PER_FOLD = 0.02
#: By how much connected clusters must be better than convex ones.
BETTER = 0.1
#: Levels that are looked at: so many, or so many times the convex answer's.
LEVELS, TIMES = 30, 1.25
#: A cell is sparse if it takes so many times the room a row of its cluster's usual one.
SPARSE = 3.0


@dataclass(frozen=True, slots=True)
class ConnectedLevel:
    """One level of the tree.

    Attributes
    ----------
    k
        Number of clusters.
    labels
        (m,) of the cells; clusters numbered by rows, largest first.
    sizes
        (k,), rows.
    score
        The index the choice rests on, higher is better.
    """

    k: int
    labels: Ints
    sizes: Floats
    score: float


@dataclass(frozen=True, slots=True)
class Connected:
    """An answer whose clusters need not be round.

    Attributes
    ----------
    cells
        At most :data:`MOST`, in agreed units.
    labels
        (m,), the cluster of every cell.
    levels
        In increasing k, from 2.
    merges
        The tree over the cells, which are its leaves; costs are distances.
    sparse
        (m,), cells much sparser than their own cluster: rows there may be outliers.
    reason
        Why this shape was chosen, a plain sentence.
    """

    cells: Cells
    labels: Ints
    levels: tuple[ConnectedLevel, ...]
    merges: tuple[Merge, ...]
    sparse: Bools
    reason: str


def connected(
    bag: Cells, convex: PathLevel | None, params: DefaultParams
) -> Connected | None:
    """Return connected clusters, None where the convex answer stays.

    `convex` is that answer, None if no clusters were found. ``shape="connected"`` takes
    what hangs together in any case, if there are :data:`FEWEST` cells.
    """
    if params.shape == CONVEX or (params.shape != CONNECTED and convex is None):
        return None
    cells = condense_cells(bag, MOST)
    m = len(cells)
    if m < FEWEST:
        return None
    squares = squared_distances(cells.means, cells.means)
    spreads = cells.scatters / np.maximum(cells.counts - 1.0, 1.0)
    merges = _genie(_apart(squares, spreads, cells.means.shape[1]), cells.counts)
    wanted = LEVELS if convex is None else max(LEVELS, math.ceil(TIMES * convex.k))
    most = max(2, min(m // 3, wanted, params.max_clusters or wanted))
    paths = _paths(squares, spreads)
    levels = tuple(
        _level(_labels(merges, m, k), k, cells.counts, paths)
        for k in range(2, most + 1)
    )
    best = max(levels, key=lambda level: (_worth(level.score, level.k), -level.k))
    reason = "connected clusters were asked for"
    if params.shape != CONNECTED:
        assert convex is not None
        labels, _ = assign(cells.means, convex.centers)
        round_score = _silhouette(labels, convex.k, cells.counts, paths)
        gain = _worth(best.score, best.k) - _worth(round_score, convex.k)
        if gain <= BETTER:
            return None
        reason = (
            f"{best.k} clusters that hang together explain the cells better than "
            f"{convex.k} round ones ({best.score:.2f} against {round_score:.2f})"
        )
    sparse = _sparse(squares, spreads, cells, best.labels)
    return Connected(cells, best.labels, levels, merges, sparse, reason)


def _worth(score: float, k: int) -> float:
    return score + PER_FOLD * math.log(k)


def _apart(squares: Floats, spreads: Floats, d: int) -> Floats:
    """Return how far cells are from each other, for the tree: edges, not middles."""
    distances, radii = np.sqrt(squares), np.sqrt(spreads)
    reach = REACH * (radii[:, None] + radii) / math.sqrt(d)
    edges = np.maximum(distances - reach, LEAST * distances)
    apart: Floats = np.sqrt(edges**2 + BLUR * (spreads[:, None] + spreads))
    return apart


# ------------------------------------------------------------------ the tree


def _spanning(distances: Floats) -> list[tuple[float, int, int]]:
    """Return the edges of the shortest tree over all cells, shortest first (Prim)."""
    m = distances.shape[0]
    best, origin = distances[0].copy(), np.zeros(m, dtype=np.int64)
    inside = np.zeros(m, dtype=bool)
    inside[0], edges = True, []
    for _ in range(m - 1):
        new = int(np.where(inside, np.inf, best).argmin())
        edges.append((float(best[new]), int(origin[new]), new))
        inside[new] = True
        nearer = distances[new] < best
        best[nearer], origin[nearer] = distances[new][nearer], new
    return sorted(edges)


def _genie(distances: Floats, counts: Ints) -> tuple[Merge, ...]:
    """Join clusters along the shortest tree, small ones first if sizes are unequal."""
    m, edges = counts.shape[0], _spanning(distances)
    node = np.arange(m)  # of every cell: the node of the tree it is in now
    sizes = dict(enumerate(counts.astype(np.float64).tolist()))
    merges = []
    for new in range(m, 2 * m - 1):
        at = 0
        if _gini(np.array(list(sizes.values()))) > UNEQUAL:
            least = min(sizes.values())
            at = next(
                i
                for i, (_, a, b) in enumerate(edges)
                if min(sizes[int(node[a])], sizes[int(node[b])]) == least
            )
        cost, a, b = edges.pop(at)
        left, right = sorted((int(node[a]), int(node[b])))
        sizes[new] = sizes.pop(left) + sizes.pop(right)
        node[(node == left) | (node == right)] = new
        merges.append(Merge(left, right, cost, sizes[new]))
    return tuple(merges)


def _gini(sizes: Floats) -> float:
    """Return the inequality of sizes, 0 (all alike) to 1."""
    n = sizes.shape[0]
    ranks = 2 * np.arange(1, n + 1) - n - 1
    return float((ranks * np.sort(sizes)).sum() / ((n - 1) * sizes.sum()))


def _labels(merges: tuple[Merge, ...], m: int, k: int) -> Ints:
    """Return the node of every cell when k are left."""
    node = np.arange(m)
    for i, merge in enumerate(merges[: m - k]):
        node[(node == merge.left) | (node == merge.right)] = m + i
    return np.unique(node, return_inverse=True)[1].astype(np.int64)


def _level(labels: Ints, k: int, counts: Ints, paths: list[Floats]) -> ConnectedLevel:
    """Return a scored level, clusters by rows."""
    sizes = np.bincount(labels, counts, minlength=k).astype(np.float64)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(k)
    numbered = rank[labels].astype(np.int64)
    score = _silhouette(numbered, k, counts, paths)
    return ConnectedLevel(k, numbered, sizes[order], score)


# ------------------------------------------------------------------ the index


def _paths(squares: Floats, spreads: Floats) -> list[Floats]:
    """Return, for every power, the shortest ways between cells by short steps."""
    m = squares.shape[0]
    steps = np.sqrt(squares + PATH_BLUR * (spreads[:, None] + spreads))
    near = np.zeros((m, m), dtype=bool)
    order = np.argsort(squares, axis=1, kind="stable")[:, : NEIGHBOURS + 1]
    near[np.arange(m)[:, None], order] = True
    for _, a, b in _spanning(np.sqrt(squares)):
        near[a, b] = True
    near |= near.T
    found = []
    for power in POWERS:
        ways = np.where(near, steps**power, np.inf)
        np.fill_diagonal(ways, 0.0)
        via = np.empty_like(ways)
        for middle in range(m):
            np.add(ways[:, middle, None], ways[middle], out=via)
            np.minimum(ways, via, out=ways)
        np.fill_diagonal(ways, spreads ** (power / 2))
        found.append(ways)
    return found


def _silhouette(labels: Ints, k: int, counts: Ints, paths: list[Floats]) -> float:
    """Return the silhouette of labelled cells over paths, the mean over powers."""
    member = np.zeros((labels.shape[0], k))
    member[np.arange(labels.shape[0]), labels] = counts
    sizes, every = member.sum(axis=0), np.arange(labels.shape[0])
    if k < 2 or not sizes.all():
        return -1.0
    values = []
    for ways in paths:
        sums = ways @ member
        own = sums[every, labels] - np.diag(ways)
        inside = own / np.maximum(sizes[labels] - 1.0, 1.0)
        means = sums / sizes
        means[every, labels] = np.inf
        outside = means.min(axis=1)
        larger = np.maximum(np.maximum(inside, outside), np.finfo(float).tiny)
        values.append(float(counts @ ((outside - inside) / larger)) / counts.sum())
    return float(np.mean(values))


def _sparse(squares: Floats, spreads: Floats, cells: Cells, labels: Ints) -> Bools:
    """Return which cells take much more room for a row than others of their cluster."""
    d = cells.means.shape[1]
    own = np.where(labels[:, None] == labels, squares, np.inf)
    np.fill_diagonal(own, np.inf)
    near = own.min(axis=1)
    room = np.sqrt(np.where(np.isfinite(near), near, 0.0) + spreads)
    room = room / cells.counts ** (1 / d)
    usual = np.zeros(int(labels.max()) + 1)
    for cluster in range(usual.shape[0]):
        usual[cluster] = np.median(room[labels == cluster])
    found: Bools = room > SPARSE * usual[labels]
    return found

# SPDX-License-Identifier: Apache-2.0
"""How cells hang together: steps between them, the ways these make, and their tree.

A step between two cells is as long as the gap that their rows leave between them. The
way between any two is the one with the shortest steps, each counted by its cube: many
short steps through rows are nothing beside one over a gap. On ways instead of squared
distances, Ward's rule joins what hangs together, as it joins what is round elsewhere
(:mod:`core.path`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afcl import kernels
from afcl._typing import Bools, Floats, Ints
from afcl.core.messages import Cells
from afcl.core.protocol import Merge
from afcl.kernels import squared_distances

#: How far the rows of a cell reach, in its radius: between those of a ball that is
#: filled evenly (1.4 in two columns) and of one whose rows lie along other directions.
REACH = 1.2
#: A cell and its nearest, whose radii make its own: that of a few rows is half chance.
POOLED = 4
#: A step inside is so many times as long as rows would be apart if they lay evenly.
SPACED = 1.5
#: Power that a step counts by.
POWER = 3
#: Cells that a way can go on to from each.
NEIGHBOURS = 15


@dataclass(frozen=True, slots=True)
class Chains:
    """Cells, how far they are from each other, and the tree that joins them.

    Attributes
    ----------
    cells
        What hangs together, or not.
    squares
        Squared distances of their means.
    radii
        Root mean square distance of a cell's rows from their mean.
    spacings
        About how far a row of a cell is from the next, the longest step being 1, by
        the radii of the cell and those around it.
    ways
        Between every two cells, in cubes of that.
    merges
        The tree over the cells; a cost is what Ward's objective grows by.
    """

    cells: Cells
    squares: Floats
    radii: Floats
    spacings: Floats
    ways: Floats
    merges: tuple[Merge, ...]

    @classmethod
    def of(cls, cells: Cells) -> Chains:
        """Find the ways between cells, and join these."""
        d, counts = cells.means.shape[1], cells.counts.astype(np.float64)
        squares = squared_distances(cells.means, cells.means)
        radii = np.sqrt(cells.scatters / np.maximum(counts - 1.0, 1.0))
        around = np.sqrt((radii[nearest(squares, POOLED)] ** 2).mean(axis=1))
        # So many rows in a ball with this root mean square radius.
        spacings = around * np.sqrt((d + 2) / d) * counts ** (-1 / d)
        reach = REACH * (around[:, None] + around)
        # Between the edges of cells: wide cells touch although their means are far
        # apart.
        gaps = np.maximum(np.sqrt(squares) - reach, 0.0)
        lengths = gaps + SPACED * (spacings[:, None] + spacings) / 2
        longest = max(float(lengths.max()), np.finfo(float).tiny)
        spacings = spacings / longest
        # Over neighbours only: a long step, cubed, is hardly ever the shortest way.
        linked = neighbours(squares, NEIGHBOURS)
        steps = np.full_like(lengths, np.inf)
        steps[linked] = (lengths[linked] / longest) ** POWER  # of few, powers are slow
        ways = kernels.shortest_ways(steps)
        tree = kernels.ward_of_distances(counts, ways)
        merges = (part.tolist() for part in tree)
        joined = tuple(Merge(*step) for step in zip(*merges, strict=True))
        return cls(cells, squares, radii, spacings, ways, joined)

    def labels(self, k: int) -> Ints:
        """Return the cluster of every cell when k are left, numbered by rows."""
        m, counts = len(self.cells), self.cells.counts
        node = np.arange(2 * m - 1)
        for i in range(m - k - 1, -1, -1):  # from the last merge down to the leaves
            merge = self.merges[i]
            node[merge.left] = node[merge.right] = node[m + i]
        used, labels = np.unique(node[:m], return_inverse=True)
        sizes = np.bincount(labels, counts, minlength=used.shape[0])
        rank = np.empty(used.shape[0], dtype=np.int64)
        rank[np.argsort(-sizes, kind="stable")] = np.arange(used.shape[0])
        return rank[labels]

    def parting(self, k: int) -> float:
        """Return by how much more it costs to join further than k, as a logarithm.

        That is how many times more the next merge costs than the one before.
        """
        at = len(self.cells) - k
        tiny = np.finfo(float).tiny
        after = max(self.merges[at].cost, tiny)
        # Coinciding cells are joined for nothing, and a logarithm needs something.
        before = max(self.merges[at - 1].cost, tiny)
        return float(np.log(after) - np.log(before))

    def silhouette(self, labels: Ints) -> float:
        """Return the silhouette of labelled cells, with ways for distances."""
        k, counts = int(labels.max()) + 1, self.cells.counts.astype(np.float64)
        every = np.arange(labels.shape[0])
        member = np.zeros((labels.shape[0], k))
        member[every, labels] = counts
        sizes, sums = member.sum(axis=0), self.ways @ member
        # Rows of the same cell are about a spacing apart.
        own = sums[every, labels] + self.spacings**POWER * (counts - 1.0)
        inside = own / np.maximum(sizes[labels] - 1.0, 1.0)
        means = sums / sizes
        means[every, labels] = np.inf
        outside = means.min(axis=1)
        larger = np.maximum(np.maximum(inside, outside), np.finfo(float).tiny)
        return float(counts @ ((outside - inside) / larger) / counts.sum())


def nearest(squares: Floats, most: int) -> Ints:
    """Return the cells nearest to each, itself among them, at most so many."""
    m = squares.shape[0]
    few = min(most, m)
    # All of them in order would be sorted for nothing: these few are found first.
    places = np.nonzero(_nearest(squares, few))[1].reshape(m, few)
    near = np.take_along_axis(squares, places, axis=1)
    order = np.argsort(near, axis=1, kind="stable")
    found: Ints = np.take_along_axis(places, order, axis=1)
    return found


def neighbours(squares: Floats, most: int) -> Bools:
    """Return which cells are linked: the nearest to each, and a tree over all."""
    m = squares.shape[0]
    linked = _nearest(squares, min(most + 1, m))
    # Without a tree over all, groups far from everything would have no way out.
    for a, b in _spanning(squares):
        linked[a, b] = True
    found: Bools = (linked | linked.T) & ~np.eye(m, dtype=bool)
    return found


def _nearest(squares: Floats, number: int) -> Bools:
    """Return so many of the nearest to each; of several as far, the first ones."""
    farthest = np.partition(squares, number - 1, axis=1)[:, number - 1, None]
    found: Bools = squares <= farthest
    for cell in np.flatnonzero(np.count_nonzero(found, axis=1) > number):
        as_far = np.flatnonzero(squares[cell] == farthest[cell])
        found[cell, as_far[number - np.count_nonzero(found[cell]) :]] = False
    return found


def _spanning(squares: Floats) -> list[tuple[int, int]]:
    """Return the edges of the shortest tree over all cells (Prim)."""
    m = squares.shape[0]
    best, origin = squares[0].copy(), np.zeros(m, dtype=np.int64)
    best[0], edges = np.inf, []
    inside = np.zeros(m, dtype=bool)
    inside[0] = True
    for _ in range(m - 1):
        new = int(best.argmin())
        edges.append((int(origin[new]), new))
        inside[new] = True
        nearer = squares[new] < best
        best[nearer], origin[nearer] = squares[new][nearer], new
        # Prim's: what is in the tree is not joined again.
        best[inside] = np.inf
    return edges

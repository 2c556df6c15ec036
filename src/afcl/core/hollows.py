# SPDX-License-Identifier: Apache-2.0
"""How deep the hollows between labelled cells are: how few rows lie on the way.

Every cell is taken as a Gaussian, wide enough to meet its neighbours. A hollow between
two clusters is as deep as the logarithm of the density inside them lies above that of
the best pass from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.chains import Chains, neighbours

#: Cells whose spreads make a Gaussian's width,
AROUND = 7
#: and how much wider than these it is, in variances.
WIDER = 1.5
#: Cells that a pass can lead to from each.
PASSES = 8
#: Where the density is looked at between two cells.
BETWEEN = (0.25, 0.5, 0.75)
#: Share of a cluster's rows that lie where it is less dense than what counts as inside.
INSIDE = 0.75
#: A hollow that nothing leads through is this deep.
DEEPEST = 4.0
#: No Gaussian is narrower, so that its square is a number.
NARROWEST = 1e-150
#: Numbers that are looked at together.
BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class Hollows:
    """Passes between cells, of which each is as high as its lowest point.

    Attributes
    ----------
    chains
        The cells.
    density
        (m,), its logarithm at every cell, but for a constant.
    ends
        Two cells of every pass.
    heights
        The lowest logarithm of density on every pass.
    """

    chains: Chains
    density: Floats
    ends: tuple[Ints, Ints]
    heights: Floats

    @classmethod
    def of(cls, chains: Chains) -> Hollows:
        """Look how dense rows lie between neighbouring cells."""
        means, widths = chains.cells.means, _widths(chains)
        density = _log_density(chains, widths, means)
        a, b = np.nonzero(np.triu(neighbours(chains.squares, PASSES)))
        heights = np.minimum(density[a], density[b])
        # A pass is as high as its lowest point, which lies between its ends.
        for share in BETWEEN:
            on_the_way = (1 - share) * means[a] + share * means[b]
            heights = np.minimum(heights, _log_density(chains, widths, on_the_way))
        return cls(chains, density, (a, b), heights)

    def least(self, labels: Ints) -> float:
        """Return how deep the shallowest hollow between labelled clusters is."""
        k = int(labels.max()) + 1
        one, other = (labels[end] for end in self.ends)
        # Clusters that no pass joins are as deep apart as can be.
        passes = np.full((k, k), -np.inf)
        np.maximum.at(passes, (one, other), self.heights)
        passes = np.maximum(passes, passes.T)
        inside = np.array([self._inside(labels == c) for c in range(k)])
        depths = np.minimum(inside[:, None], inside) - passes
        # The shallowest: one pair that hangs together makes the level wrong.
        return min(DEEPEST, float(depths[~np.eye(k, dtype=bool)].min()))

    def _inside(self, own: Bools) -> float:
        """Return the density that counts as the inside of a cluster."""
        order = np.argsort(self.density[own], kind="stable")
        rows = np.cumsum(self.chains.cells.counts[own][order])
        # Not the densest cell: one dense spot would make everything around it a hollow.
        at = int(np.searchsorted(rows, INSIDE * rows[-1]))
        return float(self.density[own][order][at])


def _widths(chains: Chains) -> Floats:
    """Return how wide the Gaussian of every cell is in a direction."""
    d = chains.cells.means.shape[1]
    near = np.argsort(chains.squares, axis=1, kind="stable")[:, :AROUND]
    # Over neighbours: a cell of few rows does not know its own width.
    spreads = np.median(chains.radii[near] ** 2, axis=1)
    usual = float(np.median(np.sqrt(chains.squares)))
    # Cells of identical rows would be infinitely dense.
    least = max(1e-3 * usual, NARROWEST)
    found: Floats = np.maximum(np.sqrt(WIDER * spreads / d), least)
    return found


def _log_density(chains: Chains, widths: Floats, points: Floats) -> Floats:
    """Return the logarithm of the rows' density at points, but for a constant."""
    cells = chains.cells
    m, d = cells.means.shape
    heights = np.log(cells.counts) - d * np.log(widths)
    found = np.empty(points.shape[0])
    # In blocks: all points times all cells would not fit into memory.
    size = max(1, BLOCK // m)
    for start in range(0, points.shape[0], size):
        part = slice(start, start + size)
        apart = ((points[part, None] - cells.means) ** 2).sum(axis=2)
        each = heights - apart / (2 * widths**2)
        # Before the exponential, which underflows far from every cell.
        highest = each.max(axis=1, keepdims=True)
        found[part] = highest[:, 0] + np.log(np.exp(each - highest).sum(axis=1))
    return found

# SPDX-License-Identifier: Apache-2.0
"""How deep the hollows between labelled cells are: how few rows lie on the way.

Every cell is taken as a Gaussian, half as wide as its surroundings: a narrower one
would see a hollow between any two cells. A hollow between two clusters is as deep as
the logarithm of the density inside them lies above that of the passes from one to the
other, but for the highest quarter of these: a cell or two at the border may be on the
wrong side of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.chains import Chains, nearest, neighbours
from afcl.kernels import squared_distances

#: Cells around one whose variance makes that of its Gaussian,
AROUND = 24
#: and which share of it.
SHARE = 0.25
#: Cells that a pass can lead to from each.
PASSES = 8
#: Where the density is looked at between two cells.
BETWEEN = (0.25, 0.5, 0.75)
#: Share of a cluster's rows that lie where it is less dense than what counts as inside.
INSIDE = 0.75
#: Share of the passes between two clusters that a hollow lies above.
PASSED = 0.75
#: A hollow that nothing to speak of leads through is this deep.
DEEPEST = 4.0
#: No Gaussian is narrower, so that its square is a number.
NARROWEST = 1e-150
#: Numbers that are looked at together.
BLOCK = 1 << 17


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
        for share in BETWEEN:
            on_the_way = (1 - share) * means[a] + share * means[b]
            heights = np.minimum(heights, _log_density(chains, widths, on_the_way))
        return cls(chains, density, (a, b), heights)

    def least(self, labels: Ints) -> float:
        """Return how deep the shallowest hollow between labelled clusters is."""
        k = int(labels.max()) + 1
        one, other = (labels[end] for end in self.ends)
        pair = np.minimum(one, other) * k + np.maximum(one, other)
        between = one != other  # somewhere: passes are a tree over all cells, and more
        pair, heights = pair[between], self.heights[between]
        order = np.lexsort((heights, pair))
        pairs, starts, sizes = np.unique(
            pair[order], return_index=True, return_counts=True
        )
        at = PASSED * (sizes - 1)
        low = starts + np.floor(at).astype(np.int64)
        high, rest = starts + np.ceil(at).astype(np.int64), at % 1
        passes = (1 - rest) * heights[order[low]] + rest * heights[order[high]]
        inside = np.array([self._inside(labels == c) for c in range(k)])
        depths = np.minimum(inside[pairs // k], inside[pairs % k]) - passes
        return min(DEEPEST, float(depths.min()))

    def _inside(self, own: Bools) -> float:
        """Return the density that counts as the inside of a cluster."""
        order = np.argsort(self.density[own], kind="stable")
        rows = np.cumsum(self.chains.cells.counts[own][order])
        at = int(np.searchsorted(rows, INSIDE * rows[-1]))
        return float(self.density[own][order][at])


def _widths(chains: Chains) -> Floats:
    """Return how wide the Gaussian of every cell is in a direction."""
    cells = chains.cells
    near = nearest(chains.squares, AROUND)
    counts = cells.counts[near].astype(np.float64)
    rows = counts.sum(axis=1)
    centers = (counts[:, :, None] * cells.means[near]).sum(axis=1) / rows[:, None]
    squares = ((cells.means[near] - centers[:, None]) ** 2).sum(axis=2)
    scatters = (counts * squares).sum(axis=1) + cells.scatters[near].sum(axis=1)
    found: Floats = np.sqrt(SHARE * scatters / (rows * cells.means.shape[1]))
    return np.maximum(found, NARROWEST)


def _log_density(chains: Chains, widths: Floats, points: Floats) -> Floats:
    """Return the logarithm of the rows' density at points, but for a constant."""
    cells = chains.cells
    m, d = cells.means.shape
    heights = np.log(cells.counts) - d * np.log(widths)
    found = np.empty(points.shape[0])
    size = max(1, BLOCK // m)
    for start in range(0, points.shape[0], size):
        part = slice(start, start + size)
        each = squared_distances(points[part], cells.means)
        # In place: nothing else is done with so many numbers.
        each /= -2 * widths**2
        each += heights
        highest = each.max(axis=1, keepdims=True)
        each -= highest
        np.exp(each, out=each)
        found[part] = highest[:, 0] + np.log(each.sum(axis=1))
    return found

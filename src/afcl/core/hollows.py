# SPDX-License-Identifier: Apache-2.0
"""How deep the hollows between labelled cells are: how few rows lie on the way.

Every cell is taken as a Gaussian, wide enough to meet its neighbours. A hollow between
two clusters is as deep as the logarithm of the density inside them lies above that of
the best pass from one to the other.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.chains import Chains, neighbours

#: Cells whose spreads make a Gaussian's width, and how much wider it is.
AROUND, WIDER = 7, 1.5
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


def least_hollow(chains: Chains, labels: Ints) -> float:
    """Return how deep the shallowest hollow between labelled clusters is."""
    cells, k = chains.cells, int(labels.max()) + 1
    widths = _widths(chains)
    density = _log_density(chains, widths, cells.means)
    linked = np.triu(neighbours(chains.squares, PASSES))
    a, b = np.nonzero(linked & (labels[:, None] != labels))
    lowest = np.minimum(density[a], density[b])
    for share in BETWEEN:
        on_the_way = (1 - share) * cells.means[a] + share * cells.means[b]
        lowest = np.minimum(lowest, _log_density(chains, widths, on_the_way))
    passes = np.full((k, k), -np.inf)
    np.maximum.at(passes, (labels[a], labels[b]), lowest)
    passes = np.maximum(passes, passes.T)
    inside = np.array([_inside(chains, density, labels == c) for c in range(k)])
    depths = np.minimum(inside[:, None], inside) - passes
    return min(DEEPEST, float(depths[~np.eye(k, dtype=bool)].min()))


def _widths(chains: Chains) -> Floats:
    """Return how wide the Gaussian of every cell is in a direction."""
    d = chains.cells.means.shape[1]
    near = np.argsort(chains.squares, axis=1, kind="stable")[:, :AROUND]
    spreads = np.median(chains.radii[near] ** 2, axis=1)
    usual = float(np.median(np.sqrt(chains.squares)))
    least = max(1e-3 * usual, NARROWEST)
    found: Floats = np.maximum(np.sqrt(WIDER * spreads / d), least)
    return found


def _log_density(chains: Chains, widths: Floats, points: Floats) -> Floats:
    """Return the logarithm of the rows' density at points, but for a constant."""
    cells = chains.cells
    m, d = cells.means.shape
    heights = np.log(cells.counts) - d * np.log(widths)
    found = np.empty(points.shape[0])
    size = max(1, BLOCK // m)
    for start in range(0, points.shape[0], size):
        part = slice(start, start + size)
        apart = ((points[part, None] - cells.means) ** 2).sum(axis=2)
        each = heights - apart / (2 * widths**2)
        highest = each.max(axis=1, keepdims=True)
        found[part] = highest[:, 0] + np.log(np.exp(each - highest).sum(axis=1))
    return found


def _inside(chains: Chains, density: Floats, own: Ints) -> float:
    """Return the density that counts as the inside of a cluster."""
    order = np.argsort(density[own], kind="stable")
    rows = np.cumsum(chains.cells.counts[own][order])
    at = int(np.searchsorted(rows, INSIDE * rows[-1]))
    return float(density[own][order][at])

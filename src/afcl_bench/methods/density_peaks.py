# SPDX-License-Identifier: Apache-2.0
"""Density peaks on the counted cells of a grid, as HFDPC's server needs it.

Distances are in cells, which are distinct points of whole numbers; the number of
distances grows with the square of the number of cells, the memory does not.
"""

from __future__ import annotations

import math

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels import squared_distances

#: Share of the count in a cell's density; the rest is its neighbours' nearness.
COUNT = 0.3
#: A cluster grows through cells of more than this share of its centre's density ...
SIMILAR = 0.7
#: ... that lie closer than 2: at a distance of sqrt(3) or less.
REACH = 1.8
#: Cells whose distances to all others are held at a time.
BLOCK = 512


def density_peaks(cells: Floats, counts: Ints, k: int) -> Ints:
    """Return the cluster of every cell; fewer than k where growth leaves no more.

    Parameters
    ----------
    cells : ndarray of shape (m, d)
        Distinct cells.
    counts : ndarray of shape (m,)
        Rows in each.
    k : int
        Most clusters.

    Returns
    -------
    labels : ndarray of shape (m,)
        In the order in which the clusters' centres were found.
    """
    density = densities(cells, counts)
    order = np.argsort(-density, kind="stable")
    leaders, gaps = nearest_denser(cells[order])
    labels = grown(cells[order], density[order], density[order] * gaps, k)
    for i in np.flatnonzero(labels < 0):
        labels[i] = labels[leaders[i]]  # denser, so it has its label by now
    found = np.empty_like(labels)
    found[order] = labels
    return found


def densities(cells: Floats, counts: Ints) -> Floats:
    """Return 0.3 count + 0.7 exp(-mean distance to the nearest cells), max-normed."""
    m = cells.shape[0]
    near = min(math.isqrt(m - 1) + 1, m - 1)  # ceil(sqrt(m)), if there are so many
    mean = np.zeros(m)
    for first in range(0, m if near else 0, BLOCK):
        block = squared_distances(cells[first : first + BLOCK], cells)
        closest = np.sqrt(np.partition(block, near, axis=1)[:, : near + 1])
        mean[first : first + BLOCK] = closest.sum(axis=1) / near  # itself at 0
    nearness = np.exp(mean.min() - mean)
    density: Floats = COUNT * counts / counts.max() + (1 - COUNT) * nearness
    return density


def nearest_denser(cells: Floats) -> tuple[Ints, Floats]:
    """Return, for cells by falling density, the nearest earlier one and how far it is.

    The first has none: it follows itself, at its distance to the farthest cell.
    """
    m = cells.shape[0]
    leaders, gaps = np.zeros(m, dtype=np.int64), np.empty(m)
    gaps[0] = squared_distances(cells[:1], cells).max()
    for first in range(1, m, BLOCK):
        rows = np.arange(first, min(first + BLOCK, m))
        block = squared_distances(cells[rows], cells[: rows[-1]])
        block[np.arange(rows[-1])[None, :] >= rows[:, None]] = np.inf
        leaders[rows] = block.argmin(axis=1)
        gaps[rows] = block.min(axis=1)
    return leaders, np.sqrt(gaps)


def grown(cells: Floats, density: Floats, prominence: Floats, k: int) -> Ints:
    """Grow up to k clusters, most prominent centre first; -1 marks what is left."""
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import radius_neighbors_graph

    labels = np.full(cells.shape[0], -1, dtype=np.int64)
    adjoining = radius_neighbors_graph(cells, REACH)
    for cluster in range(k):
        free = np.where(labels < 0, prominence, -1.0)
        centre = int(free.argmax())
        if free[centre] < 0:
            break
        similar = (labels < 0) & (density > SIMILAR * density[centre])
        members = np.flatnonzero(similar)
        _, parts = connected_components(adjoining[members][:, members], False)
        chain = parts == parts[members.searchsorted(centre)]
        labels[members[chain]] = cluster
    return labels

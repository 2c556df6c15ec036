# SPDX-License-Identifier: Apache-2.0
"""Placing seeds (k-means++, weighted k-means) and joining the ones that coincide."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from afcl import kernels
from afcl._typing import Floats, Ints
from afcl.kernels import assign, lloyd

#: Lloyd iterations that count as "to convergence" on a bag of cells.
CONVERGED = 300


class Uniform(Protocol):
    """Anything that draws uniform numbers from [0, 1) one at a time."""

    def random(self) -> float:
        """Return the next number."""
        ...


def plus_plus(X: Floats, k: int, rng: Uniform, weights: Floats | None = None) -> Ints:
    """Pick up to k rows by (weighted) k-means++; returns their indices.

    One trial a step, which is scikit-learn's `kmeans_plusplus` with
    `n_local_trials=1`. Ends early when every row coincides with a pick.
    """
    mass = np.ones(X.shape[0]) if weights is None else weights
    return kernels.plus_plus(np.ascontiguousarray(X), mass, drawn(k, rng))


def drawn(k: int, rng: Uniform) -> Floats:
    """Return the numbers that k picks are drawn by."""
    return np.array([rng.random() for _ in range(k)])


def weighted_kmeans(
    X: Floats,
    weights: Floats,
    k: int,
    rng: np.random.Generator,
    restarts: int,
    start: Floats | None = None,
) -> Floats:
    """Return the best of `restarts` weighted k-means runs, and one from `start`."""
    starts = [X[plus_plus(X, k, rng, weights)] for _ in range(restarts)]
    if start is not None:
        starts.append(start)
    best, best_cost = starts[0], np.inf
    for centers in starts:
        moved, _ = lloyd(X, weights, centers, CONVERGED)
        cost = float((weights * assign(X, moved)[1]).sum())
        if cost < best_cost:
            best, best_cost = moved, cost
    return best


def distinct(points: Floats) -> int:
    """Return the number of different rows."""
    return int(np.unique(points, axis=0).shape[0])


def coincident(points: Floats, width: float) -> Ints:
    """Return for every point the first of the group of points it coincides with.

    Two points coincide when all their coordinates differ by less than `width`; groups
    are the connected sets of such pairs.
    """
    group = np.full(points.shape[0], -1)
    for first in range(points.shape[0]):
        if group[first] >= 0:
            continue
        frontier = [first]
        group[first] = first
        while frontier:
            near = np.all(np.abs(points - points[frontier.pop()]) < width, axis=1)
            reached = np.flatnonzero(near & (group < 0))
            group[reached] = first
            frontier.extend(int(i) for i in reached)
    return group


def merge_coincident(seeds: Floats, width: float) -> Floats:
    """Keep the first of every group of seeds that coincide."""
    return seeds[np.unique(coincident(seeds, width))]

# SPDX-License-Identifier: Apache-2.0
"""The path: seeds merged by Ward from k0 down to 2, every level polished on the bag."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from afcl import kernels
from afcl._typing import Floats
from afcl.core.cells import pool, without_gaps
from afcl.core.indices import INDICES, Partition, scores_of
from afcl.core.messages import Cells
from afcl.core.protocol import Merge, PathLevel
from afcl.kernels import assign, lloyd, silhouettes

#: Lloyd iterations a level gets on the bag.
POLISH = 20


def ward(counts: Floats, means: Floats) -> tuple[Merge, ...]:
    """Join the cheapest pair until one node is left; lowest index pair on ties.

    The cost of joining i and j is o_i o_j / (o_i + o_j) |b_i - b_j|^2.
    """
    steps = (part.tolist() for part in kernels.ward(counts, means))
    return tuple(Merge(*step) for step in zip(*steps, strict=True))


def joined_seeds(bag: Cells, seeds: Floats) -> tuple[Cells, tuple[Merge, ...]]:
    """Return the seeds that hold cells, each with its rows, and the tree of them."""
    labels, _ = assign(bag.means, seeds)
    # Seeds that hold no cell have no mean to be joined by.
    counts, means, scatters = pool(bag, *without_gaps(labels, seeds.shape[0]))
    return Cells(counts.astype(np.int64), means, scatters), ward(counts, means)


def polish(bag: Cells, centers: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (O, B, Z) after weighted Lloyd on the bag, empty centres dropped."""
    weights = bag.counts.astype(np.float64)
    moved, labels = lloyd(bag.means, weights, centers, POLISH)
    return pool(bag, *without_gaps(labels, moved.shape[0]))


def summary_silhouettes(bag: Cells, level: PathLevel) -> tuple[Floats, Floats]:
    """Simplified and moment silhouette of every cell, taken as a blurred object."""
    simplified, moment, _ = silhouettes(
        bag.means,
        bag.scatters / bag.counts,
        level.centers,
        level.spreads,
        level.sizes,
    )
    return simplified, moment


def scored(
    level: PathLevel,
    silhouette: float,
    simplified: float,
    names: Collection[str] = INDICES,
) -> PathLevel:
    """Return the level with these indices, given the means of the two silhouettes."""
    known = Partition(
        level.sizes, level.centers, level.scatters, silhouette, simplified
    )
    return replace(level, scores=scores_of(known, names))


def level_around(
    bag: Cells, centers: Floats, names: Collection[str] = INDICES
) -> PathLevel | None:
    """Return the level around centres, polished and scored by these indices.

    None where all cells end in one cluster, which no index knows.
    """
    counts, means, scatters = polish(bag, centers)
    if len(counts) < 2:
        return None
    bare = PathLevel(len(counts), means, counts, {}, scatters)
    simplified, moment = summary_silhouettes(bag, bare)
    weights = bag.counts / bag.counts.sum()
    return scored(bare, float(weights @ moment), float(weights @ simplified), names)


def build_path(
    bag: Cells,
    seeds: Cells,
    merges: tuple[Merge, ...],
    max_clusters: int,
    iterations: int = POLISH,
    names: Collection[str] = INDICES,
) -> tuple[PathLevel, ...]:
    """Return every level from 2 to `max_clusters`, in increasing k, with these indices.

    A level starts from the pooled means of its groups of seeds. Levels that end with
    the same k after dropping empty centres: the higher moment silhouette stays.
    """
    found = kernels.levels(
        (bag.means, bag.counts.astype(np.float64), bag.scatters),
        (seeds.means, seeds.counts.astype(np.float64)),
        (
            np.array([merge.left for merge in merges], dtype=np.int64),
            np.array([merge.right for merge in merges], dtype=np.int64),
        ),
        max_clusters,
        iterations,
    )
    n = float(bag.counts.sum())
    levels: dict[int, PathLevel] = {}
    for counts, centers, scatters, simplified, moment in found:
        k = counts.shape[0]
        # Every index compares clusters: there is nothing to score at one.
        if k < 2:
            continue
        bare = PathLevel(k, centers, counts, {}, scatters)
        level = scored(bare, moment / n, simplified / n, names)
        # A larger level that lost centres may be better than the one cut at this k.
        if k not in levels or _silhouette(level) > _silhouette(levels[k]):
            levels[k] = level
    return tuple(levels[k] for k in sorted(levels))


def _silhouette(level: PathLevel) -> float:
    value = level.scores["silhouette"]
    assert value is not None
    return value

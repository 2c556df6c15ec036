# SPDX-License-Identifier: Apache-2.0
"""The path: seeds merged by Ward from k0 down to 2, every level polished on the bag."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from afcl import kernels
from afcl._typing import Floats
from afcl.core.cells import pool
from afcl.core.indices import Partition, scores_of
from afcl.core.messages import Cells
from afcl.core.protocol import Merge, Scores
from afcl.kernels import lloyd, silhouettes

#: Lloyd iterations a level gets on the bag.
POLISH = 20


@dataclass(frozen=True, slots=True)
class Built:
    """A level of the path: centres B, counts O, scatters Z and server-only scores."""

    centers: Floats
    counts: Floats
    scatters: Floats
    scores: Scores

    @property
    def k(self) -> int:
        """Number of clusters."""
        return int(self.counts.shape[0])

    @property
    def spreads(self) -> Floats:
        """V = Z/O."""
        return self.scatters / self.counts


def ward(counts: Floats, means: Floats) -> tuple[Merge, ...]:
    """Join the cheapest pair until one node is left; lowest index pair on ties.

    The cost of joining i and j is o_i o_j / (o_i + o_j) |b_i - b_j|^2.
    """
    steps = (part.tolist() for part in kernels.ward(counts, means))
    return tuple(Merge(*step) for step in zip(*steps, strict=True))


def polish(bag: Cells, centers: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (O, B, Z) after weighted Lloyd on the bag, empty centres dropped."""
    weights = bag.counts.astype(np.float64)
    moved, labels = lloyd(bag.means, weights, centers, POLISH)
    held = np.bincount(labels, minlength=moved.shape[0]) > 0
    numbers = np.cumsum(held) - 1
    return pool(bag, numbers[labels], int(held.sum()))


def summary_silhouettes(bag: Cells, level: Built) -> tuple[Floats, Floats]:
    """Simplified and moment silhouette of every cell, taken as a blurred object."""
    simplified, moment, _ = silhouettes(
        bag.means,
        bag.scatters / bag.counts,
        level.centers,
        level.spreads,
        level.counts,
    )
    return simplified, moment


def scored(level: Built, silhouette: float, simplified: float) -> Built:
    """Return the level with its indices, given the means of the two silhouettes."""
    known = Partition(
        level.counts, level.centers, level.scatters, silhouette, simplified
    )
    return replace(level, scores=scores_of(known))


def build_path(
    bag: Cells, seeds: Cells, merges: tuple[Merge, ...], max_clusters: int
) -> tuple[Built, ...]:
    """Return every level from 2 to `max_clusters`, in increasing k.

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
        POLISH,
    )
    n = float(bag.counts.sum())
    levels: dict[int, Built] = {}
    for counts, centers, scatters, simplified, moment in found:
        if counts.shape[0] < 2:
            continue
        bare = Built(centers, counts, scatters, {})
        level = scored(bare, moment / n, simplified / n)
        rival = levels.get(level.k)
        if rival is None or _silhouette(level) > _silhouette(rival):
            levels[level.k] = level
    return tuple(levels[k] for k in sorted(levels))


def _silhouette(level: Built) -> float:
    value = level.scores["silhouette"]
    assert value is not None
    return value

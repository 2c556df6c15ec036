# SPDX-License-Identifier: Apache-2.0
"""The path: seeds merged by Ward from k0 down to 2, every level polished on the bag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cells import pool
from afcl.core.indices import bic, calinski_harabasz, davies_bouldin
from afcl.core.messages import Cells
from afcl.core.protocol import Merge, Scores
from afcl.kernels import lloyd, silhouettes, squared_distances

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
    k = counts.shape[0]
    counts, means = counts.copy(), means.copy()
    node = np.arange(k)
    cost = squared_distances(means, means) * _harmonic(counts[:, None], counts[None, :])
    cost[np.tril_indices(k)] = np.inf
    merges = []
    for step in range(k - 1):
        i, j = divmod(int(cost.argmin()), k)
        size = counts[i] + counts[j]
        merges.append(Merge(int(node[i]), int(node[j]), float(cost[i, j]), float(size)))
        means[i] = (counts[i] * means[i] + counts[j] * means[j]) / size
        counts[i] = size
        node[i], node[j] = k + step, -1
        cost[j, :] = np.inf
        cost[:, j] = np.inf
        others = np.flatnonzero((node >= 0) & (np.arange(k) != i))
        fresh = squared_distances(means[others], means[i][None, :])[:, 0]
        fresh *= _harmonic(counts[others], counts[i])
        cost[np.minimum(i, others), np.maximum(i, others)] = fresh
    return tuple(merges)


def _harmonic(a: Floats, b: Floats) -> Floats:
    product: Floats = a * b / (a + b)
    return product


def groups_along(merges: tuple[Merge, ...], k: int) -> Iterator[tuple[int, Ints]]:
    """Yield (number of groups, group of every seed), from k groups down to one."""
    group = np.arange(k)
    yield k, group.copy()
    for step, merge in enumerate(merges):
        group[(group == merge.left) | (group == merge.right)] = k + step
        yield k - step - 1, np.unique(group, return_inverse=True)[1].astype(np.int64)


def polish(bag: Cells, centers: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (O, B, Z) after weighted Lloyd on the bag, empty centres dropped."""
    weights = bag.counts.astype(np.float64)
    moved, labels = lloyd(bag.means, weights, centers, POLISH)
    used, labels = np.unique(labels, return_inverse=True)
    return pool(bag, labels.astype(np.int64), used.shape[0])


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


def summary_scores(level: Built) -> Scores:
    """Return the indices that follow from (O, B, Z) alone."""
    return {
        "ch": calinski_harabasz(level.counts, level.centers, level.scatters),
        "db": davies_bouldin(level.counts, level.centers, level.scatters),
        "bic": bic(level.counts, level.scatters, level.centers.shape[1]),
    }


def _scored(bag: Cells, counts: Floats, centers: Floats, scatters: Floats) -> Built:
    bare = Built(centers, counts, scatters, {})
    simplified, moment = summary_silhouettes(bag, bare)
    weights = bag.counts / bag.counts.sum()
    scores: Scores = {
        "silhouette": float((weights * moment).sum()),
        "simplified": float((weights * simplified).sum()),
        **summary_scores(bare),
    }
    return Built(centers, counts, scatters, scores)


def build_path(
    bag: Cells, seeds: Cells, merges: tuple[Merge, ...], max_clusters: int
) -> tuple[Built, ...]:
    """Return every level from 2 to `max_clusters`, in increasing k.

    A level starts from the pooled means of its groups of seeds. Levels that end with
    the same k after dropping empty centres: the higher moment silhouette stays.
    """
    levels: dict[int, Built] = {}
    for k, groups in groups_along(merges, len(seeds)):
        if not 2 <= k <= max_clusters:
            continue
        start = pool(seeds, groups, k)[1]
        counts, centers, scatters = polish(bag, start)
        if counts.shape[0] < 2:
            continue
        level = _scored(bag, counts, centers, scatters)
        rival = levels.get(level.k)
        if rival is None or _silhouette(level) > _silhouette(rival):
            levels[level.k] = level
    return tuple(levels[k] for k in sorted(levels))


def _silhouette(level: Built) -> float:
    value = level.scores["silhouette"]
    assert value is not None
    return value

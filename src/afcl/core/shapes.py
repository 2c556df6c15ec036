# SPDX-License-Identifier: Apache-2.0
"""What becomes of connected cells in an answer: its path, its trust, and its places.

Places are what rows are labelled by, at the sites as well. They are coarser than the
cells, which are secrets of the sites they come from: see :func:`places_of` and
docs/privacy.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cells import pool
from afcl.core.connected import (
    Connected,
    ConnectedLevel,
    chosen,
    levels_of,
)
from afcl.core.doubt import Again, Doubt, resamples
from afcl.core.indices import Partition, scores_of
from afcl.core.messages import Cells, Places
from afcl.core.params import DefaultParams
from afcl.core.protocol import Clustering, PathLevel, Trust
from afcl.kernels import assign, squared_distances
from afcl.registry import CONNECTED, CONVEX
from afcl.reliance import CLUSTERS, NO_CLUSTERS

#: Stands for the owner of a cell that tells of several sites.
SEVERAL = -1
#: Cells of a resample.
CELLS = 256


def path_of(found: Connected) -> tuple[PathLevel, ...]:
    """Return the levels of the tree as every other path has them, scores included."""
    return tuple(_as_level(found.cells, level) for level in found.levels)


def _as_level(cells: Cells, level: ConnectedLevel) -> PathLevel:
    counts, means, scatters = pool(cells, level.labels, level.k)
    found = cell_silhouettes(cells, level.labels, counts, means, scatters)
    weights = cells.counts / cells.counts.sum()
    moment, simplified = (float(weights @ values) for values in found)
    scores = scores_of(Partition(counts, means, scatters, moment, simplified))
    scores[CONNECTED] = level.score
    return PathLevel(level.k, means, counts, scores)


def cell_silhouettes(
    cells: Cells, labels: Ints, counts: Floats, means: Floats, scatters: Floats
) -> tuple[Floats, Floats]:
    """Return moment and simplified silhouette of every cell, clusters as labelled."""
    every, own = np.arange(len(cells)), labels
    spreads, variances = scatters / counts, cells.scatters / cells.counts
    squares = squared_distances(cells.means, means)
    near = squares[every, own] + variances
    inside = np.sqrt((near + spreads[own]) * counts[own] / np.maximum(counts[own], 2))
    squares[every, own] = np.inf
    outside = np.sqrt((squares + spreads).min(axis=1) + variances)
    farther = np.sqrt(squares.min(axis=1) + variances)
    return _contrast(inside, outside), _contrast(np.sqrt(near), farther)


def _contrast(inside: Floats, outside: Floats) -> Floats:
    larger = np.maximum(np.maximum(inside, outside), np.finfo(float).tiny)
    found: Floats = (outside - inside) / larger
    return found


def described(clustering: Clustering, asked: str | None) -> dict[str, str] | None:
    """Say what clusters look like, and why; `asked` is what was asked for.

    None where nothing was, and clusters are round.
    """
    if clustering.connected is not None:
        return {"name": CONNECTED, "reason": clustering.connected.reason}
    if asked is None:
        return None
    reason = {
        CONVEX: "round clusters were asked for",
        CONNECTED: "there are too few cells to see what hangs together",
    }.get(
        asked, "nothing that hangs together was seen to be better than round clusters"
    )
    if clustering.k == 1 and asked != CONVEX:
        reason = "nothing parts the rows"
    return {"name": CONVEX, "reason": reason}


def renamed(found: Connected, rank: Ints, sizes: Floats) -> Connected:
    """Return the same with other numbers of the answer's clusters, of these sizes."""
    k, levels = rank.shape[0], []
    for level in found.levels:
        if level.k == k:
            level = replace(level, labels=rank[level.labels], sizes=sizes)
        levels.append(level)
    return replace(found, labels=rank[found.labels], levels=tuple(levels))


# ------------------------------------------------------------------ trust


def believed(
    trust: Trust,
    found: Connected,
    params: DefaultParams,
    rng: np.random.Generator,
) -> Trust:
    """Return how far connected clusters can be believed.

    How often their number comes out when the cells are resampled, and how much of every
    cluster comes back. The verdict stays, unless what hangs together was seen although
    no round clusters were: then there are clusters, and what these would gain is not
    known. Who asked for connected clusters has them whatever the verdict.
    """
    unseen = trust.verdict == NO_CLUSTERS
    if unseen and found.seen:
        trust = replace(trust, verdict=CLUSTERS, gain=None)
    k, ks = int(found.labels.max()) + 1, []
    drawn = list(resamples(found.cells, CELLS, rng))
    again = Again(found.cells, drawn)
    labels = {level.k: level.labels for level in found.levels}
    # What comes back where there are so many clusters is that of the whole.
    back = cache(lambda k: again.of(labels[k]) if k in labels else np.zeros(1))
    for chains in drawn:
        if chains is None:
            ks.append(1)
            continue
        levels = levels_of(chains, None, params)
        ks.append(chosen(levels, Doubt(chains, back), unseen, found.settled).k)
    counted = Counter(ks)
    shares = tuple((each, counted[each] / len(ks)) for each in sorted(counted))
    stabilities = again.of(found.labels)
    return Trust(
        trust.verdict,
        trust.gain,
        counted[k] / len(ks),
        shares,
        tuple(stabilities.tolist()),
        (k,),
    )


# ------------------------------------------------------------------ places


def places_of(
    bag: Cells, owners: Ints, found: Connected, seeds: Floats, smallest: int
) -> Places:
    """Return what rows are labelled by: where the clusters are, by seeds.

    The cells of one cluster that are nearest to one seed are a group. If a group holds
    enough rows, of two sites at least, its mean is a place. Otherwise the seed itself
    is, which every site knows already, if the cluster is the largest there; smaller
    groups are not told. A cluster of which nothing could be told has its centre.

    Parameters
    ----------
    bag, owners
        All cells, and whose each is (:data:`SEVERAL`: not that of one site).
    found
        The clusters.
    seeds
        What the sites were asked about.
    smallest
        Rows of a group, at least.
    """
    labels = found.labels[assign(bag.means, found.cells.means)[0]]
    k = int(found.labels.max()) + 1
    at, _ = assign(bag.means, seeds)
    pairs, group = np.unique(at * k + labels, return_inverse=True)
    counts, means, _ = pool(bag, group.astype(np.int64), pairs.shape[0])
    at, labels = pairs // k, pairs % k
    shared = (counts >= smallest) & _is_shared(owners, group, pairs.shape[0])
    largest = np.zeros(seeds.shape[0])
    np.maximum.at(largest, at, counts)
    shown = shared | (counts == largest[at])
    points = np.where(shared[:, None], means, seeds[at])[shown]
    labels = labels[shown]
    untold = np.setdiff1d(np.arange(k), labels)
    _, centers, _ = pool(found.cells, found.labels, k)
    return Places(
        np.concatenate([points, centers[untold]]), np.concatenate([labels, untold])
    )


def _is_shared(owners: Ints, group: Ints, k: int) -> Ints:
    """Return which groups of cells tell of several sites."""
    lowest, highest = np.full(k, np.iinfo(np.int64).max), np.full(k, SEVERAL)
    np.minimum.at(lowest, group, owners)
    np.maximum.at(highest, group, owners)
    several: Ints = (lowest != highest) | (lowest == SEVERAL)
    return several


def other_labels(found: Connected, places: Places, labels: Ints) -> Ints:
    """Return the labels of places at another level, of which the cells' are given.

    A place is where its cluster has a cell nearest to it.
    """
    squares = squared_distances(places.means, found.cells.means)
    squares[places.labels[:, None] != found.labels] = np.inf
    nearest: Ints = labels[squares.argmin(axis=1)]
    return nearest

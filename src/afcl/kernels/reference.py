# SPDX-License-Identifier: Apache-2.0
"""The kernels in NumPy, written to be read: the oracle of :mod:`.native`.

The paper's own are in :mod:`.reference_paper`.

Every sum runs in one fixed order (features from first to last, rows from first to
last), which is the order of the compiled twin's loops. The two therefore agree
bit for bit, and which of them ran never shows in a result; large passes over wide
tables agree to rounding (:mod:`.tiles`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.parts import BLOCK

#: What a pass over the rows adds up: counts, firsts, seconds, totals, slabs.
Tally: TypeAlias = tuple[Floats, Floats, Floats, Floats, Floats]
#: Cells: means (n, d), counts and scatters (n,).
Bag: TypeAlias = tuple[Floats, Floats, Floats]
#: Seeds: their places (k, d) and the rows that each of them has.
Seeds: TypeAlias = tuple[Floats, Floats]
#: The two nodes of every step of :func:`ward`.
Merges: TypeAlias = tuple[Ints, Ints]
#: A level: counts, means and scatters, and sums of two silhouettes over all rows.
Scored: TypeAlias = tuple[Floats, Floats, Floats, float, float]

#: Least distance of two means in :func:`crowding`.
CLOSEST = 1e-12
#: Where the slabs of :func:`valleys` lie between two centres: middle, own, other end.
PLACES = (0.5, 0.0, 1.0)
#: How far a slab reaches to each side of its place.
SLAB = 0.1


def scaled(X: Floats, low: Floats, span: Floats) -> Floats:
    """Map every column's `low` to 0 and what is a `span` above it to 1."""
    found: Floats = (X - low) / span
    return found


def squared_distances(X: Floats, centers: Floats) -> Floats:
    """Squared Euclidean distance of every row to every centre, (n, k)."""
    total = np.zeros((X.shape[0], centers.shape[0]))
    for feature in range(X.shape[1]):
        difference = X[:, feature, None] - centers[None, :, feature]
        total += difference * difference
    return total


def assign(X: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Nearest centre of every row (lowest index on ties) and its squared distance."""
    distances = squared_distances(X, centers)
    labels = distances.argmin(axis=1).astype(np.int64)
    return labels, distances[np.arange(X.shape[0]), labels]


def sums(X: Floats, weights: Floats, labels: Ints, k: int) -> tuple[Floats, Floats]:
    """Weight (k,) and weighted coordinate sum (k, d) of every label."""
    mass = np.zeros(k)  # np.bincount of no rows at all would be integers
    mass += np.bincount(labels, weights=weights, minlength=k)
    total = np.empty((k, X.shape[1]))
    for feature in range(X.shape[1]):
        total[:, feature] = np.bincount(
            labels, weights=weights * X[:, feature], minlength=k
        )
    return mass, total


def lloyd(
    X: Floats, weights: Floats, centers: Floats, max_iter: int
) -> tuple[Floats, Ints]:
    """Weighted Lloyd from `centers`; a centre without mass stays where it is.

    Stops when no row changes its centre, or after `max_iter` moves. The labels
    returned belong to the centres returned.
    """
    centers = centers.copy()
    labels, _ = assign(X, centers)
    for _ in range(max_iter):
        mass, total = sums(X, weights, labels, centers.shape[0])
        held = mass > 0
        centers[held] = total[held] / mass[held, None]
        moved, _ = assign(X, centers)
        if np.array_equal(moved, labels):
            break
        labels = moved
    return centers, labels


def tally(
    X: Floats,
    centers: Floats,
    bounds: Ints,
    scores: Ints,
    spreads: Floats,
    sizes: Floats,
    before: Tally | None = None,
) -> Tally:
    """One pass over the rows for several sets of centres: all a client has to know.

    Parameters
    ----------
    X
        (n, d), float64 or float32; everything is added up in float64.
    centers
        (K, d), the sets one after the other.
    bounds
        (sets + 1,), where each set begins and ends.
    scores
        (sets,), 0: no silhouette, 1: the simplified one, 2: the moment silhouette and
        the slabs too (then the set has at least two centres).
    spreads, sizes
        (K,), V = Z/O and O of every cluster, read where the moment silhouette is asked.
    before
        What the rows before these gave, whole blocks of them; these are added to it.

    Returns
    -------
    counts : (K,), rows whose nearest centre of the set it is.
    firsts : (K, d), the sum of x - c over these rows.
    seconds : (K,), the sum of |x - c|^2.
    totals : (sets, 2), the sums of the two silhouettes over all rows.
    slabs : (K, 3), rows on the way to the nearest centre of the set, as in
        :func:`valleys`; zeros where nobody asked.

    Notes
    -----
    Sums are formed over blocks of :data:`BLOCK` rows, and blocks are added in order.
    """
    parts = []
    for start in range(0, max(1, X.shape[0]), BLOCK):
        rows = X[start : start + BLOCK].astype(np.float64)
        each = []
        totals = np.zeros((scores.shape[0], 2))
        for place in range(scores.shape[0]):
            own = slice(bounds[place], bounds[place + 1])
            about = (centers[own], spreads[own], sizes[own])
            *sums_of_set, totals[place], between = _tally_set(
                rows, *about, scores[place]
            )
            each.append((*sums_of_set, between))
        *whole, slabs = (np.concatenate(part) for part in zip(*each, strict=True))
        parts.append((*whole, totals, slabs))
    out = (np.array(part) for part in zip(*parts, strict=True))
    return in_order(out, before)


def in_order(blocks: Iterable[Floats], before: Tally | None) -> Tally:
    """Add blocks to what was there before, from first to last."""
    known = [None] * 5 if before is None else before
    totals = []
    for parts, so_far in zip(blocks, known, strict=True):
        total = np.zeros(parts.shape[1:]) if so_far is None else so_far.copy()
        for part in parts:
            total += part
        totals.append(total)
    counts, firsts, seconds, scores, slabs = totals
    return counts, firsts, seconds, scores, slabs


def _tally_set(
    rows: Floats, centers: Floats, spreads: Floats, sizes: Floats, score: int
) -> Tally:
    """Return counts, firsts, seconds, both totals and slabs of one block and set."""
    k = centers.shape[0]
    every = np.arange(rows.shape[0])
    distances = squared_distances(rows, centers)
    own = distances.argmin(axis=1).astype(np.int64)
    near = distances[every, own]
    ones = np.ones(rows.shape[0])
    counts, firsts = sums(rows - centers[own], ones, own, k)
    seconds = np.zeros(k) + np.bincount(own, weights=near, minlength=k)
    totals, slabs = np.zeros(2), np.zeros((k, len(PLACES)))
    if score > 1:
        slabs = _slabs(distances, own, ones, centers)
    if score > 0:
        distances[every, own] = np.inf
        second = distances.min(axis=1)
        apart = np.where(second > 0, second, 1.0)
        simplified = np.where(second > 0, 1.0 - np.sqrt(near / apart), 0.0)
        totals[0] = _added_up(simplified)
    if score > 1:
        size = sizes[own]
        inside = (near + spreads[own]) * (size / np.where(size > 1, size - 1.0, 1.0))
        outside = (distances + spreads[None, :]).min(axis=1)
        larger = np.maximum(inside, outside)
        usable = (larger > 0) & (size > 1)
        root = np.sqrt(np.minimum(inside, outside) / np.where(usable, larger, 1.0))
        contrast = np.where(outside >= inside, 1.0 - root, root - 1.0)
        totals[1] = _added_up(np.where(usable, contrast, 0.0))
    return counts, firsts, seconds, totals, slabs


def _added_up(values: Floats) -> float:
    """Add numbers from first to last (np.sum has an order of its own)."""
    return float(np.cumsum(values)[-1]) if values.size else 0.0


def silhouettes(
    X: Floats, variances: Floats, centers: Floats, spreads: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Simplified, moment and squared moment silhouette of every row, (n,) each.

    `variances` is the mean squared radius of what a row stands for (0 for an object,
    z/o for a cell), `spreads` is V = Z/O and `counts` is O of every cluster. A row's
    own cluster is the nearest centre. Needs at least two centres.
    """
    rows = np.arange(X.shape[0])
    distances = squared_distances(X, centers)
    own = distances.argmin(axis=1)
    near = distances[rows, own] + variances
    distances[rows, own] = np.inf
    second = distances.min(axis=1) + variances
    farther = np.sqrt(second)
    simplified = np.where(
        second > 0, 1.0 - np.sqrt(near) / np.where(second > 0, farther, 1.0), 0.0
    )
    size = counts[own]
    inside = (near + spreads[own]) * (size / np.where(size > 1, size - 1.0, 1.0))
    outside = (distances + spreads[None, :]).min(axis=1) + variances
    moment = _contrast(np.sqrt(inside), np.sqrt(outside), size)
    squared = _contrast(inside, outside, size)
    return simplified, moment, squared


def _contrast(inside: Floats, outside: Floats, size: Floats) -> Floats:
    """(b - a) / max(a, b), 0 for a cluster of one and where both are 0."""
    larger = np.maximum(inside, outside)
    usable = (larger > 0) & (size > 1)
    return np.where(usable, (outside - inside) / np.where(usable, larger, 1.0), 0.0)


def valleys(X: Floats, weights: Floats, centers: Floats) -> Floats:
    """Weight of the rows in three slabs between every centre and its nearest, (k, 3).

    A row x whose nearest centre is A, or the centre B that is nearest to A, lies at
    t = (x - A)(B - A) / |B - A|^2 on the axis from A to B. Counted for A are the rows
    within :data:`SLAB` of t = 1/2, of t = 0 and of t = 1. Nothing is counted where
    there is one centre only, or where A and B coincide.
    """
    distances = squared_distances(X.astype(np.float64), centers)
    return _slabs(distances, distances.argmin(axis=1), weights, centers)


def _slabs(distances: Floats, labels: Ints, weights: Floats, centers: Floats) -> Floats:
    """Do it for rows whose distances to all centres are known.

    By the law of cosines 2 t |B - A|^2 = |x - A|^2 - |x - B|^2 + |B - A|^2.
    """
    k = centers.shape[0]
    every = np.arange(k)
    apart = squared_distances(centers, centers)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argmin(axis=1)
    lengths = apart[every, nearest]
    lengths[(lengths == 0) | (lengths == np.inf)] = np.nan  # nothing is near to that
    row, own = np.nonzero(
        (labels[:, None] == every) | (labels[:, None] == nearest[None, :])
    )
    length = lengths[own]
    farther = distances[row, own] - distances[row, nearest[own]]
    counts = np.empty((k, len(PLACES)))
    for column, place in enumerate(PLACES):
        off = np.abs(farther + (1.0 - 2.0 * place) * length)
        inside = off <= 2.0 * SLAB * length
        counts[:, column] = np.bincount(own[inside], weights[row[inside]], k)
    return counts


def crowding(radii: Floats, means: Floats) -> float:
    """Add up, over clusters, the largest (r_i + r_j) / |b_i - b_j| to another one."""
    apart = np.sqrt(squared_distances(means, means))
    ratios = (radii[:, None] + radii[None, :]) / np.maximum(apart, CLOSEST)
    np.fill_diagonal(ratios, 0.0)
    return _added_up(ratios.max(axis=1))


def ward(counts: Floats, means: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """Join the cheapest pair until one node is left; lowest index pair on ties.

    The cost of joining i and j is o_i o_j / (o_i + o_j) |b_i - b_j|^2. Returned are,
    for every step, the two nodes (leaves are 0 to k - 1, the i-th step makes node
    k + i), the cost and the size of the new node.
    """
    k = counts.shape[0]
    counts, means = counts.copy(), means.copy()
    node = np.arange(k)
    cost = squared_distances(means, means) * _harmonic(counts[:, None], counts[None, :])
    cost[np.tril_indices(k)] = np.inf
    left, right = np.empty(k - 1, dtype=np.int64), np.empty(k - 1, dtype=np.int64)
    costs, sizes = np.empty(k - 1), np.empty(k - 1)
    for step in range(k - 1):
        i, j = divmod(int(cost.argmin()), k)
        size = counts[i] + counts[j]
        left[step], right[step] = node[i], node[j]
        costs[step], sizes[step] = cost[i, j], size
        means[i] = (counts[i] * means[i] + counts[j] * means[j]) / size
        counts[i] = size
        node[i], node[j] = k + step, -1
        cost[j, :] = np.inf
        cost[:, j] = np.inf
        others = np.flatnonzero((node >= 0) & (np.arange(k) != i))
        fresh = squared_distances(means[others], means[i][None, :])[:, 0]
        fresh *= _harmonic(counts[others], counts[i])
        cost[np.minimum(i, others), np.maximum(i, others)] = fresh
    return left, right, costs, sizes


def _harmonic(a: Floats, b: Floats) -> Floats:
    product: Floats = a * b / (a + b)
    return product


def _pooled(
    X: Floats, weights: Floats, scatters: Floats, labels: Ints, k: int
) -> tuple[Floats, Floats, Floats]:
    """Return counts, means and scatters of k groups of labelled cells."""
    mass, total = sums(X, weights, labels, k)
    means = total / np.where(mass > 0, mass, 1.0)[:, None]
    around = np.zeros(X.shape[0])
    for feature in range(X.shape[1]):
        residual = X[:, feature] - means[labels, feature]
        around += residual * residual
    scatter = np.zeros(k)
    scatter += np.bincount(labels, weights=scatters + weights * around, minlength=k)
    return mass, means, scatter


def levels(
    cells: Bag, seeds: Seeds, merges: Merges, most: int, max_iter: int
) -> list[Scored]:
    """Every level of a path from `most` groups of seeds to 2, polished and scored.

    Parameters
    ----------
    cells
        Means, counts and scatters.
    seeds, merges
        The seeds with their rows, and their merges, as :func:`ward` returns them.
    most, max_iter
        Largest level; Lloyd iterations from the means of its groups of seeds.

    Returns
    -------
    A level each: counts, means and scatters of the groups that hold any cell, and the
    sums over all rows of the simplified and the moment silhouette (0 for one group).
    """
    X, weights, scatters = cells
    centers, sizes = seeds
    k = centers.shape[0]
    group = np.arange(k)
    found = []
    for step, pair in enumerate(zip(*merges, strict=True)):
        if 2 <= k - step <= most:
            numbers = np.unique(group, return_inverse=True)[1].astype(np.int64)
            start = _pooled(centers, sizes, np.zeros(k), numbers, k - step)[1]
            labels = lloyd(X, weights, start, max_iter)[1]
            used, labels = np.unique(labels, return_inverse=True)
            counts, means, scatter = _pooled(
                X, weights, scatters, labels.astype(np.int64), used.shape[0]
            )
            simplified = moment = np.zeros(X.shape[0])
            if used.shape[0] > 1:
                about = (means, scatter / counts, counts)
                simplified, moment, _ = silhouettes(X, scatters / weights, *about)
            totals = (_added_up(weights * simplified), _added_up(weights * moment))
            found.append((counts, means, scatter, *totals))
        group[np.isin(group, pair)] = k + step
    return found


def join_seeds(counts: Ints, seeds: Floats, smallest: int) -> Ints:
    """Return every seed's group, so that each group holds at least `smallest` rows.

    The smallest group joins the nearest one (by the mean of its seeds, weighted with
    their rows; lowest index on ties); seeds without rows join the nearest at the end.
    """
    group = np.arange(counts.shape[0])
    mass = counts.astype(np.float64)
    place = seeds.copy()
    alive = mass > 0
    while alive.sum() > 1:
        size = np.where(alive, mass, np.inf)
        i = int(size.argmin())
        if mass[i] >= smallest:
            break
        j = _nearest(place, place[i], alive & (np.arange(mass.shape[0]) != i))
        place[j] = (mass[i] * place[i] + mass[j] * place[j]) / (mass[i] + mass[j])
        mass[j] += mass[i]
        alive[i] = False
        group[group == i] = j
    for empty in np.flatnonzero(counts == 0):
        group[empty] = group[_nearest(seeds, seeds[empty], counts > 0)]
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _nearest(points: Floats, point: Floats, among: Bools) -> int:
    gaps = squared_distances(points, point[None])[:, 0]
    return int(np.where(among, gaps, np.inf).argmin())


def microaggregate(X: Floats, smallest: int) -> Ints:
    """Group rows by MDAV: a label per row, every group of at least `smallest` rows.

    The row farthest from the mean of what is left takes its nearest rows with it, then
    the row farthest from that one does; the last group takes what remains and so holds
    fewer than twice `smallest`. The lowest index wins every tie. Rows fewer than
    `smallest` are one group.
    """
    labels = np.zeros(X.shape[0], dtype=np.int64)
    left = np.arange(X.shape[0])
    group = 0
    while left.size >= 2 * smallest:
        around = _mean_of(X[left])
        for _ in range(2 if left.size >= 3 * smallest else 1):
            far = left[squared_distances(X[left], around[None, :])[:, 0].argmax()]
            around = X[far]
            distances = squared_distances(X[left], around[None, :])[:, 0]
            distances[left == far] = -1.0
            taken = np.argsort(distances, kind="stable")[:smallest]
            labels[left[taken]] = group
            left = np.delete(left, taken)
            group += 1
    labels[left] = group
    return labels


def _mean_of(X: Floats) -> Floats:
    """Mean of the rows, summed from first to last."""
    mass, total = sums(X, np.ones(X.shape[0]), np.zeros(X.shape[0], dtype=np.int64), 1)
    mean: Floats = total[0] / mass[0]
    return mean

# SPDX-License-Identifier: Apache-2.0
"""The kernels in NumPy, written to be read: the oracle of :mod:`.native`.

Every sum runs in one fixed order (features from first to last, rows from first to
last), which is the order of the compiled twin's loops. The two therefore agree
bit for bit, and which of them ran never shows in a result.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints


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


def silhouettes(
    X: Floats, variances: Floats, centers: Floats, spreads: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Simplified, moment and squared moment silhouette of every row, (n,) each.

    `variances` is the mean squared radius of what a row stands for (0 for an object,
    z/o for a cell), `spreads` is V = Z/O and `counts` is O of every cluster. A row's
    own cluster is the nearest centre. Needs at least two centres.
    """
    rows = np.arange(X.shape[0])
    distances = squared_distances(X, centers) + variances[:, None]
    own = distances.argmin(axis=1)
    near = distances[rows, own]
    distances[rows, own] = np.inf
    second = distances.min(axis=1)
    farther = np.sqrt(second)
    simplified = np.where(
        second > 0, 1.0 - np.sqrt(near) / np.where(second > 0, farther, 1.0), 0.0
    )
    size = counts[own]
    inside = (near + spreads[own]) * (size / np.where(size > 1, size - 1.0, 1.0))
    outside = (distances + spreads[None, :]).min(axis=1)
    moment = _contrast(np.sqrt(inside), np.sqrt(outside), size)
    squared = _contrast(inside, outside, size)
    return simplified, moment, squared


def _contrast(inside: Floats, outside: Floats, size: Floats) -> Floats:
    """(b - a) / max(a, b), 0 for a cluster of one and where both are 0."""
    larger = np.maximum(inside, outside)
    usable = (larger > 0) & (size > 1)
    return np.where(usable, (outside - inside) / np.where(usable, larger, 1.0), 0.0)


def compete(X: Floats, seeds: Floats, conscience: bool) -> Ints:
    """Winner of every row in order, Eqs. (2)-(4): argmin_r gamma_r |x - m_r|^2.

    gamma_r is proportional to the wins s_r, which start at 1; dividing by their
    sum does not change the winner. Without `conscience` the nearest seed wins.
    """
    distances = squared_distances(X, seeds)
    if not conscience:
        nearest: Ints = distances.argmin(axis=1).astype(np.int64)
        return nearest
    wins = np.ones(seeds.shape[0])
    winners = np.empty(X.shape[0], dtype=np.int64)
    for row in range(X.shape[0]):
        winner = int((wins * distances[row]).argmin())
        wins[winner] += 1.0
        winners[row] = winner
    return winners


def interact(
    seeds: Floats,
    sent: Floats,
    owners: Ints,
    intensities: Floats,
    weight: float,
    rate: float,
    current: bool,
) -> None:
    """One client's uploads pull the seeds, Eqs. (13)-(14); `seeds` is INOUT.

    `owners` (IN) names the seed r an intensity was computed for, `sent` (IN) holds
    the seeds as that client received them. With `current` the anchor m_r is the
    seed's present position instead.
    """
    for index in range(owners.shape[0]):
        owner = owners[index]
        anchor = (seeds[owner] if current else sent[owner]).copy()
        pull = weight * intensities[index]
        reach = pull / rate
        radius = 0.0
        for feature in range(reach.shape[0]):
            radius += reach[feature] * reach[feature]
        distances = squared_distances(seeds, anchor[None, :])[:, 0]
        joined = distances <= radius
        joined[owner] = True
        step = pull + (weight * rate) * (anchor - seeds[joined])
        seeds[joined] = seeds[joined] + step


def interact_matlab(seeds: Floats, rows: Floats, steps: Floats, near: float) -> None:
    """All seeds compete for every rebuilt row, with conscience; `seeds` is INOUT.

    `rows` (IN) are the objects as the server rebuilds them, `steps` (IN) is W*w per
    attribute, (d,) for all rows or (n, d) for each. The cooperating set holds the
    seeds no farther from the winner than the row is, and those within `near`
    (squared) of the winner.
    """
    steps = np.broadcast_to(steps, rows.shape)
    wins = np.ones(seeds.shape[0])
    for index in range(rows.shape[0]):
        row = rows[index]
        distances = squared_distances(seeds, row[None, :])[:, 0]
        winner = int((wins * distances).argmin())
        wins[winner] += 1.0
        apart = squared_distances(seeds, seeds[winner][None, :])[:, 0]
        joined = (apart <= distances[winner]) | (apart <= near)
        seeds[joined] = seeds[joined] + steps[index] * (row - seeds[joined])


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

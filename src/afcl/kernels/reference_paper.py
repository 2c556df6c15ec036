# SPDX-License-Identifier: Apache-2.0
"""The paper's sequential passes in NumPy: the oracle of :mod:`.paper`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.kernels.reference import squared_distances, sums

#: The seeds that intensities were computed for (n,), and the intensities (n, d).
Pulls: TypeAlias = tuple[Ints, Floats]


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


def intensities(
    X: Floats, seeds: Floats, winners: Ints, rates: Floats, pulls: Floats
) -> tuple[Ints, Ints, Floats, Floats]:
    """Every row's pull on its winner, seed by seed, and o, b, z; `pulls` is OUT.

    Eqs. (5)-(7). `pulls` (n, d) is filled with one rate per attribute. Returns their
    owners (n,) in increasing order, and for every seed the number of its rows, their
    mean (0 if it has none) and their scatter.
    """
    k = seeds.shape[0]
    order = np.argsort(winners, kind="stable")
    owners = winners[order]
    mass, means = sums(X, np.ones(X.shape[0]), winners, k)
    means[mass > 0] /= mass[mass > 0, None]
    scatters = np.zeros(k)
    for feature in range(X.shape[1]):
        residual = X[:, feature] - means[winners, feature]
        scatters += np.bincount(winners, weights=residual * residual, minlength=k)
    pulls[:] = rates * (X[order] - seeds[owners])
    return owners, mass.astype(np.int64), means, scatters


def interact(
    seeds: Floats, sent: Floats, pulls: Pulls, weight: float, rate: float, current: bool
) -> None:
    """One client's uploads pull the seeds, Eqs. (13)-(14); `seeds` is INOUT.

    `pulls` (IN) are the seed r an intensity was computed for and the intensity, `sent`
    (IN) holds the seeds as that client received them. With `current` the anchor m_r is
    the seed's present position instead.
    """
    for owner, intensity in zip(*pulls, strict=True):
        anchor = (seeds[owner] if current else sent[owner]).copy()
        pull = weight * intensity
        joined = _joined(seeds, anchor, pull / rate)
        joined[owner] = True
        step = pull + (weight * rate) * (anchor - seeds[joined])
        seeds[joined] = seeds[joined] + step


def interact_affine(
    seeds: Floats, owners: Ints, intensities: Floats, weight: float, rate: float
) -> tuple[Ints, Floats]:
    """How often every seed is pulled, and where the pulls alone would put it.

    The interaction of :func:`interact` on a copy of the seeds, which are also those
    that were sent. Returns N (k,) and beta (k, d), see :mod:`afcl.core.paper.pulls`.
    """
    moved = seeds.copy()
    counts = np.zeros(seeds.shape[0], dtype=np.int64)
    places = np.zeros(seeds.shape)
    step = weight * rate
    for index in range(owners.shape[0]):
        owner = owners[index]
        anchor = seeds[owner]
        pull = weight * intensities[index]
        joined = _joined(moved, anchor, pull / rate)
        joined[owner] = True
        moved[joined] = moved[joined] + (pull + step * (anchor - moved[joined]))
        counts[joined] += 1
        row = anchor + intensities[index] / rate
        places[joined] = (1 - step) * places[joined] + step * row
    return counts, places


def _joined(seeds: Floats, anchor: Floats, reach: Floats) -> Bools:
    """Return which seeds are no farther from the anchor than the pull reaches."""
    radius = 0.0
    for part in reach.tolist():
        radius += part * part
    joined: Bools = squared_distances(seeds, anchor[None, :])[:, 0] <= radius
    return joined


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

# SPDX-License-Identifier: Apache-2.0
"""The objective Z a round is judged by, Eqs. (9) and (10): a Davies-Bouldin index.

Nothing here guides the seeds: Z decides when to stop. In the paper's Z only cells that
hold rows enter; the published code's (:func:`published_objective`) is another index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.paper.balance import Contribution
from afcl.core.seeding import coincident
from afcl.kernels import squared_distances

#: Smallest squared distance of two centres; keeps Z finite where centres coincide.
FLOOR = 1e-12


def aggregate(contributions: Sequence[Contribution]) -> tuple[Floats, Floats]:
    """Return centres b (m, d) and contributions z (m,) of the occupied cells, Eq. (9).

    Both are sums of w o times the clients' b and z, over the *unweighted* sum of the
    counts o: weights below 1 shrink centres towards the origin, as the equation says.
    """
    k, d = contributions[0].sent.shape
    counts, centers, scatters = np.zeros(k), np.zeros((k, d)), np.zeros(k)
    for part in contributions:
        held, cells = part.held, part.upload.cells
        weighted = part.weight * cells.counts
        counts[held] += cells.counts
        centers[held] += weighted[:, None] * cells.means
        scatters[held] += weighted * cells.scatters
    occupied = counts > 0
    mass = counts[occupied]
    return centers[occupied] / mass[:, None], scatters[occupied] / mass


def objective(contributions: Sequence[Contribution]) -> float:
    """Return Z(B, z) of one round's contributions, Eq. (10).

    Z is the mean over cells l of max over r != l of (z_l + z_r) / |b_l - b_r|^2, and 0
    with fewer than two occupied cells.
    """
    centers, scatters = aggregate(contributions)
    if centers.shape[0] < 2:
        return 0.0
    gaps = np.maximum(squared_distances(centers, centers), FLOOR)
    ratios = (scatters[:, None] + scatters[None, :]) / gaps
    np.fill_diagonal(ratios, -np.inf)
    return float(ratios.max(axis=1).mean())


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the published code sees a client when it computes Z.

    Attributes
    ----------
    version, anchor
        The seeds the client is anchored at: which of the run's, and (k, d).
    counts
        (k,), rows that each seed won by its newest upload; zeros if there is none.
    part
        What it contributes to this round; None if it is neither there nor replayed.
    """

    version: int
    anchor: Floats
    counts: Floats
    part: Contribution | None


def published_objective(clients: Sequence[Standing], merge: float) -> float | None:
    """Return Z as the published code has it; None where it is 0 or no number.

    A place is a set of coinciding anchors of at least two (client, seed) pairs. With
    f the share of a client's rows among all rows of a place, the centre of a place is
    the sum of f w b, its scatter the sum of w z and of f w z, over those who act.
    Everything else (a place where nobody acts, an anchor that coincides with no other)
    counts as one more centre each, in the origin and without scatter. Z is the mean of
    max (z_l + z_r) / |b_l - b_r|; 0 / 0 counts as 0.
    """
    place, members = _places(clients, merge)
    n, d = members.size, clients[0].anchor.shape[1]
    rows, touched = np.zeros(n), np.zeros(n, dtype=bool)
    for client in clients:
        np.add.at(rows, place[client.version], client.counts)
        if client.part is not None:
            touched[place[client.version]] = True
    centers, scatters = np.zeros((n, d)), np.zeros(n)
    for client in clients:
        if client.part is not None:
            held, weight = client.part.held, client.part.weight
            cells = client.part.upload.cells
            at = place[client.version][held]
            share = client.counts[held] / rows[at]
            np.add.at(centers, at, (weight * share)[:, None] * cells.means)
            np.add.at(scatters, at, weight * (1 + share) * cells.scatters)
    real = touched & (members > 1) & (rows > 0)
    origin = int((~touched | (members == 1)).sum())
    value = _mean_of_largest(centers[real], scatters[real], origin, n)
    return value if 0 < value < np.inf else None


def _places(clients: Sequence[Standing], merge: float) -> tuple[dict[int, Ints], Ints]:
    """Return the place of every version's seeds, and the anchors at every place."""
    anchors = {client.version: client.anchor for client in clients}
    versions = sorted(anchors)
    group = coincident(np.concatenate([anchors[v] for v in versions]), merge)
    number = np.unique(group, return_inverse=True)[1].astype(np.int64)
    parts = np.split(number, len(versions))
    place = dict(zip(versions, parts, strict=True))
    members = np.zeros(number.max() + 1, dtype=np.int64)
    for client in clients:
        np.add.at(members, place[client.version], 1)
    return place, members


def _mean_of_largest(
    centers: Floats, scatters: Floats, origin: int, n_places: int
) -> float:
    """Return the mean over all places of their largest ratio.

    `origin` places lie in the origin without scatter; they are all alike, so one of
    them stands for all. What is left of `n_places` has ratio 0.
    """
    if origin:
        centers = np.concatenate([centers, np.zeros((1, centers.shape[1]))])
        scatters = np.append(scatters, 0.0)
    sums = scatters[:, None] + scatters[None, :]
    gaps = np.sqrt(squared_distances(centers, centers))
    ratios = np.full(sums.shape, np.inf)
    np.divide(sums, gaps, out=ratios, where=gaps > 0)
    ratios[(gaps == 0) & (sums == 0)] = 0.0
    np.fill_diagonal(ratios, 0.0)
    largest = ratios.max(axis=1, initial=0.0)
    repeated = (origin - 1) * largest[-1] if origin else 0.0
    return float((largest.sum() + repeated) / n_places)

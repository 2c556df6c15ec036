# SPDX-License-Identifier: Apache-2.0
"""The mathematics of FedGEM: EM steps at a client, meeting balls at the server.

See :mod:`.fedgem` for the method, its source and where we depart from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.cells import cells_of
from afcl.core.messages import Cells, payload
from afcl.core.seeding import merge_coincident, weighted_kmeans
from afcl.kernels import assign, silhouettes, squared_distances

#: Restarts of the local k-means.
RESTARTS = 5
#: The least variance, where all rows sit on their means.
LEAST = 1e-12
#: Means that differ by less are one.
SAME = 1e-6


@payload
@dataclass(frozen=True, slots=True)
class MixtureStep:
    """A client's components after an EM step: means M, radii, masses sum_i gamma.

    Reveals k_g weighted means of a client's rows, how far they moved, and how many
    rows each stands for; with as many components as rows, the rows themselves.
    """

    means: Floats
    radii: Floats
    masses: Floats


#: The components of every client, in the order of their ids.
Parts: TypeAlias = dict[ClientId, MixtureStep]


# ------------------------------------------------ at a client


def local_start(X: Floats, k: int) -> Cells:
    """Return the cells of k-means, always the same for the same rows."""
    rng = np.random.default_rng(0)
    centers = weighted_kmeans(X, np.ones(X.shape[0]), k, rng, RESTARTS)
    return cells_of(X, assign(X, centers)[0], centers.shape[0])


def em_step(X: Floats, theta: Floats, variance: float) -> MixtureStep:
    """Return M, |M - theta| and the masses of one EM step from `theta`."""
    gaps = squared_distances(X, theta)
    odds = np.exp((gaps.min(axis=1, keepdims=True) - gaps) / (2.0 * variance))
    shares = odds / odds.sum(axis=1, keepdims=True)
    masses = shares.sum(axis=0)
    held = masses > 0
    means = theta.copy()
    means[held] = (shares.T @ X)[held] / masses[held, None]
    return MixtureStep(means, np.sqrt(((means - theta) ** 2).sum(axis=1)), masses)


def fit_of(X: Floats, centers: Floats) -> float:
    """Return the sum of simplified silhouettes; 0 for a single centre."""
    k = centers.shape[0]
    if k < 2:
        return 0.0
    rows, nothing = np.zeros(X.shape[0]), np.zeros(k)
    return float(silhouettes(X, rows, centers, nothing, np.ones(k))[0].sum())


# ------------------------------------------------ at the server


def first_part(cells: Cells) -> MixtureStep:
    """Return a client's components before its first step."""
    counts = cells.counts.astype(np.float64)
    return MixtureStep(cells.means, np.zeros(len(cells)), counts)


def super_clusters(owners: Ints, gaps: Floats, radii: Floats) -> Ints:
    """Join components of different owners whose balls meet, the closest first.

    `gaps` are the distances between them. Two of one owner never join, not even
    through others. Returns the number of each one's super-cluster.
    """
    c = owners.shape[0]
    i, j = np.triu_indices(c, 1)
    near = (gaps[i, j] <= radii[i] + radii[j]) & (owners[i] != owners[j])
    i, j = i[near], j[near]
    label = np.arange(c)
    members = {int(one): {int(owners[one])} for one in range(c)}
    for pair in np.argsort(gaps[i, j], kind="stable"):
        a, b = int(label[i[pair]]), int(label[j[pair]])
        if a != b and not members[a] & members[b]:
            members[a] |= members.pop(b)
            label[label == b] = a
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def _owners(parts: Parts) -> Ints:
    sizes = [part.means.shape[0] for part in parts.values()]
    return np.repeat(np.array(list(parts), dtype=np.int64), sizes)


def attract(parts: Parts) -> Floats:
    """Move each component to the mean of its M and its partners' projections."""
    owners = _owners(parts)
    means = np.concatenate([part.means for part in parts.values()])
    radii = np.concatenate([part.radii for part in parts.values()])
    gaps = np.sqrt(squared_distances(means, means))
    label = super_clusters(owners, gaps, radii)
    partner = (label[:, None] == label) & (gaps <= radii[:, None] + radii)
    np.fill_diagonal(partner, False)
    reach = np.minimum(1.0, radii[:, None] / np.where(gaps > 0, gaps, 1.0)) * partner
    steps = reach @ means - reach.sum(axis=1, keepdims=True) * means
    moved: Floats = means + steps / (1 + partner.sum(axis=1, keepdims=True))
    return moved


def levels(
    parts: Parts, centers: Floats, rows: dict[ClientId, int], grid: tuple[float, ...]
) -> tuple[tuple[Floats, Floats], ...]:
    """Return the different clusterings (centres, sizes) that values of v lead to."""
    owners = _owners(parts)
    masses = np.concatenate([part.masses for part in parts.values()])
    gaps = np.sqrt(squared_distances(centers, centers))
    unit = final_radii(owners, gaps, rows)
    found: dict[bytes, tuple[Floats, Floats]] = {}
    for v in grid:
        label = super_clusters(owners, gaps, np.sqrt(v) * unit)
        found.setdefault(label.tobytes(), _level(centers, masses, label))
    return tuple(found.values())


def final_radii(owners: Ints, gaps: Floats, rows: dict[ClientId, int]) -> Floats:
    """Return sqrt(R_g k_g / sqrt(n_g)) of every component."""
    apart = {}
    for client in np.unique(owners):
        own = owners == client
        if own.sum() > 1:
            i, j = np.triu_indices(int(own.sum()), 1)
            apart[int(client)] = float(gaps[np.ix_(own, own)][i, j].min())
    other = float(np.mean(list(apart.values()))) if apart else float(gaps.max())
    squares = [
        apart.get(client, other) * int((owners == client).sum()) / np.sqrt(rows[client])
        for client in owners.tolist()
    ]
    radii: Floats = np.sqrt(np.array(squares, dtype=np.float64))
    return radii


def _level(centers: Floats, masses: Floats, label: Ints) -> tuple[Floats, Floats]:
    """Return the super-clusters' means, weighted by mass, and their masses."""
    k = int(label.max()) + 1
    weights = np.maximum(masses, LEAST)
    sizes = np.bincount(label, weights, minlength=k)
    means = np.zeros((k, centers.shape[1]))
    np.add.at(means, label, weights[:, None] * centers)
    means /= sizes[:, None]
    kept = merge_coincident(means, SAME)
    joined = np.bincount(assign(means, kept)[0], sizes, minlength=len(kept))
    return kept, joined.astype(np.float64)

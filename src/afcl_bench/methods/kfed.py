# SPDX-License-Identifier: Apache-2.0
"""k-FED: clients cluster on their own, the server clusters their centres, once.

Every client runs Awasthi and Sheffet's spectral k'-means and uploads its k' centres;
the server spreads k seeds over them, farthest first, and makes one round of Lloyd. A
row belongs where the local centre it follows was put (`labels="induced"`, the paper's
definition), or to the nearest global centre (`labels="nearest"`).

Dennis, Li and Smith, "Heterogeneity for the win: one-shot federated clustering",
ICML 2021. What the paper leaves open: k' is ceil(sqrt(k)) unless `local_clusters` says
otherwise (the theory wants k' <= sqrt(k); k' = k lets the first client's centres decide
everything); the server starts from the client of the lowest id; the local
constant-factor clustering is k-means++. Where we depart from it: the projection is
clipped to the rank of the client's rows, and an empty core S_r is represented by its
seed, since either would make the paper's formulas undefined; local centres that end up
without rows are not uploaded. A local centre is put where the nearest of the *moved*
seeds is, which is what an implementation with one iteration of k-means does, and scores
far better than the text's nearest seed before the move. Rows that are new, or whose
client was never heard, go to the nearest global centre.

Uploaded, once: at most k' centres, without counts. A client of at most k' rows uploads
these rows themselves, as in the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import payload
from afcl.core.protocol import Clustering
from afcl.core.seeding import CONVERGED, plus_plus
from afcl.exceptions import InputError
from afcl.kernels import assign, lloyd, squared_distances
from afcl.methods.one_shot import OneShot
from afcl.methods.rival import (
    KnownK,
    RivalState,
    expect,
    is_table,
    simple_clustering,
)

LABELS = ("induced", "nearest")


@dataclass(frozen=True, slots=True, kw_only=True)
class KFedParams(KnownK):
    """`local_clusters` is k' (None: ceil(sqrt(k))); `labels` is one of LABELS."""

    local_clusters: int | None = None
    labels: str = "induced"

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        local = self.local_clusters
        if local is not None and not (isinstance(local, int) and 1 <= local <= self.k):
            raise InputError(
                f"local_clusters must be a whole number from 1 to n_clusters "
                f"({self.k}), not {local!r}"
            )
        if self.labels not in LABELS:
            raise InputError(f"labels must be one of {LABELS}, not {self.labels!r}")

    @property
    def per_client(self) -> int:
        """The number of clusters k' a client looks for."""
        return self.local_clusters or 1 + math.isqrt(self.k - 1)


@payload
@dataclass(frozen=True, slots=True)
class KFedCenters:
    """A client's local centres.

    Reveals the means of at most k' groups of its rows, not how many rows they hold; a
    group of one row, and every group of a client of at most k' rows, **is that row**.
    """

    centers: Floats


@dataclass(frozen=True, slots=True)
class KFedModel:
    """Global centres; all local ones with their owners and global clusters (tau)."""

    centers: Floats
    local: Floats
    owners: Ints
    tau: Ints


class KFed(OneShot):
    """One-shot clustering of local centres."""

    name = "k-fed"
    Params = KFedParams

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> KFedCenters:
        """Send the centres of the client's own clustering."""
        return KFedCenters(local_centers(X, params.per_client, rng))

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect at most k' centres, and no more than rows."""
        most = min(state.params.per_client, n_rows)
        expect(
            isinstance(hello, KFedCenters)
            and is_table(hello.centers)
            and hello.centers.shape[0] <= most,
            f"a table of at most {most} local centres",
        )
        return int(hello.centers.shape[1])

    def start(self, state: RivalState) -> KFedModel:
        """Cluster the local centres, clients by id."""
        clients = sorted(state.hellos)
        tables = [state.hellos[client].centers for client in clients]
        local = np.concatenate(tables)
        owners = np.repeat(clients, [len(table) for table in tables])
        seeds = farthest_first(local, tables[0].shape[0], state.params.k)
        centers, tau = lloyd(local, np.ones(len(local)), local[seeds], 1)
        held, tau = np.unique(tau, return_inverse=True)
        return KFedModel(
            centers[held], local, owners.astype(np.int64), tau.astype(np.int64)
        )

    def cluster(self, state: RivalState) -> Clustering:
        """Return the global centres, and what the induced labels need."""
        model: KFedModel = state.model
        clustering = simple_clustering(model.centers)
        if state.params.labels == "nearest":
            return clustering
        known = {"local": model.local, "owners": model.owners, "tau": model.tau}
        return replace(clustering, extra=known)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Follow the client's local centres, where it has any; else nearest centre."""
        if client is not None and clustering.extra:
            own = clustering.extra["owners"] == client
            if own.any():
                near, _ = assign(X, clustering.extra["local"][own])
                followed: Ints = clustering.extra["tau"][own][near]
                return followed
        return super().label(clustering, X, memory, client)


def local_centers(X: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Return at most k centres of a client's rows, after Awasthi and Sheffet."""
    if X.shape[0] <= k:
        rows: Floats = np.unique(X, axis=0)
        return rows
    basis = leading_directions(X, k)
    projected = X @ basis
    seeds = projected[plus_plus(projected, k, rng)]
    centers, labels = lloyd(
        X, np.ones(len(X)), cores(X, projected, seeds, basis), CONVERGED
    )
    return centers[np.unique(labels)]


def leading_directions(X: Floats, k: int) -> Floats:
    """Return the top right singular vectors of uncentred rows, (d, min(k, rank))."""
    _, values, rows = np.linalg.svd(X, full_matrices=False)
    noise = values[0] * max(X.shape) * np.finfo(np.float64).eps
    rank = int((values > noise).sum())
    directions: Floats = np.ascontiguousarray(rows[: max(1, min(k, rank))].T)
    return directions


def cores(X: Floats, projected: Floats, seeds: Floats, basis: Floats) -> Floats:
    """Average, per seed, the rows three times closer to it than to any other.

    A seed without such rows stands for itself, lifted back by the basis.
    """
    distances = np.sqrt(squared_distances(projected, seeds))
    means: Floats = seeds @ basis.T
    for r in range(seeds.shape[0]):
        others = np.delete(distances, r, axis=1).min(axis=1, initial=np.inf)
        core = distances[:, r] <= others / 3
        if core.any():
            means[r] = X[core].mean(axis=0)
    return means


def farthest_first(points: Floats, start: int, k: int) -> Ints:
    """Pick the first `start` points, then k in all, each farthest from those before.

    Ends early when every point coincides with a pick; points that tie go by index.
    """
    picks = list(range(start))
    distances = assign(points, points[:start])[1]
    while len(picks) < k and distances.max() > 0:
        picks.append(int(distances.argmax()))
        gap = ((points - points[picks[-1]]) ** 2).sum(axis=1)
        distances = np.minimum(distances, gap)
    return np.array(picks, dtype=np.int64)

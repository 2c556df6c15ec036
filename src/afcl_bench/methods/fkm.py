# SPDX-License-Identifier: Apache-2.0
"""FKM: clients send local means with counts, the server clusters them, and again.

Garst and Reinders, "Federated k-means clustering", ADMA 2024. A client starts with
k-means++ on its own rows and drops local clusters of a single row; the server runs
weighted k-means over everybody's means. Of the global means it gets, a client keeps
those that win a row, does one Lloyd step, and uploads means and counts.

Where the text is open or we depart from it:

* The server remembers each client's last means (its hello's, until it has answered),
  so that the clusters of an absent client do not vanish.
* The server's k-means takes the better of `restarts` runs from k-means++ and one from
  the centres it has; its movement is measured to the nearest old centre, since runs
  number clusters differently.
* A client whose local clusters all hold one row sends the mean of its rows instead.
* Over when the centres move by at most `tolerance` and every active client has
  answered since they moved farther, or when each has answered `rounds` times.

Uploaded: at most k (d + 1) numbers a round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import Positions, payload
from afcl.core.protocol import Clustering, server_rng
from afcl.core.seeding import plus_plus, weighted_kmeans
from afcl.exceptions import InputError
from afcl.kernels import assign, sums
from afcl.methods.rival import (
    KnownK,
    Rival,
    RivalState,
    check_at_least,
    expect,
    is_table,
    simple_clustering,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FkmParams(KnownK):
    """`local_steps` of Lloyd per answer; the rest as the module's docstring says."""

    local_steps: int = 1
    rounds: int = 20
    restarts: int = 10
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        check_at_least(self, 1, "local_steps", "rounds", "restarts")
        if not self.tolerance >= 0:
            raise InputError(f"tolerance must not be negative, not {self.tolerance}")


@payload
@dataclass(frozen=True, slots=True)
class FkmMeans:
    """Means of a client's rows around the centres that won any, with counts.

    Reveals local means; in answers, a cluster of one row is that row (the hello
    leaves such clusters out).
    """

    counts: Ints
    means: Floats


@dataclass(frozen=True, slots=True)
class FkmModel:
    """Global centres, what everybody said last, and who has seen these centres.

    `resting` is the version since which the centres have not moved beyond the
    tolerance; `answered` says who has answered it or a later one.
    """

    centers: Floats
    sizes: Floats
    latest: dict[ClientId, FkmMeans]
    movement: float = 0.0
    resting: int = 0
    answered: frozenset[ClientId] = frozenset()


class FKM(Rival):
    """Federated k-means over local means."""

    name = "fkm"
    Params = FkmParams

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> FkmMeans:
        """Send the means around k-means++ picks, without clusters of one row."""
        local = _local_means(X, X[plus_plus(X, params.k, rng)])
        kept = local.counts > 1
        if not kept.any():
            return _local_means(X, X[:1])
        return FkmMeans(local.counts[kept], local.means[kept])

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect means and counts."""
        _check_means(hello, n_rows, state.params.k)
        return int(hello.means.shape[1])

    def start(self, state: RivalState) -> FkmModel:
        """Cluster the means of all hellos."""
        return _clustered(state, dict(state.hellos), None)

    def on_join(self, state: RivalState) -> FkmModel:
        """Cluster again, with the newcomer's means."""
        model: FkmModel = state.model
        joined = _clustered(state, {**state.hellos, **model.latest}, model)
        return replace(joined, resting=state.version + 1)

    def message(self, state: RivalState) -> Positions:
        """Send the global means."""
        return Positions(state.model.centers)

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[FkmMeans, None]:
        """Keep the means that win a row, and move them."""
        local = _local_means(X, broadcast.points)
        for _ in range(params.local_steps - 1):
            local = _local_means(X, local.means)
        return local, None

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect means and counts of all rows."""
        _check_means(reply, n_rows, state.params.k, state.n_features)
        expect(sum(reply.counts.tolist()) == n_rows, f"counts of all {n_rows} rows")

    def combine(self, state: RivalState) -> tuple[FkmModel, bool]:
        """Cluster everybody's last means."""
        old: FkmModel = state.model
        news = {update.client: update.payload for update in state.pending}
        model = _clustered(state, {**old.latest, **news}, old)
        if model.movement > state.params.tolerance:
            return replace(model, resting=state.version + 1), False
        fresh = [u.client for u in state.pending if u.version >= old.resting]
        seen = old.answered.union(fresh)
        return replace(model, resting=old.resting, answered=seen), False

    def wanted(self, state: RivalState) -> frozenset[ClientId]:
        """Want whoever has not seen these centres and may still be asked."""
        asked = frozenset(
            client
            for client in state.active()
            if state.answers.get(client, 0) < state.params.rounds
        )
        model: FkmModel = state.model
        return asked - model.answered

    def done(self, state: RivalState) -> bool:
        """Whether nobody's answer would help."""
        return state.model is not None and not state.joined and not self.wanted(state)

    def cluster(self, state: RivalState) -> Clustering:
        """Leave out centres without rows."""
        held = state.model.sizes > 0
        return simple_clustering(state.model.centers[held], state.model.sizes[held])


def _local_means(X: Floats, centers: Floats) -> FkmMeans:
    """Return means and counts of the rows around the centres that win any."""
    labels, _ = assign(X, centers)
    mass, total = sums(X, np.ones(X.shape[0]), labels, centers.shape[0])
    held = mass > 0
    return FkmMeans(mass[held].astype(np.int64), total[held] / mass[held, None])


def _check_means(reply: Any, n_rows: int, k: int, n_features: int = -1) -> None:
    """Refuse means and counts that no honest client could have sent."""
    expect(
        isinstance(reply, FkmMeans)
        and is_table(reply.means, n_features)
        and reply.means.shape[0] <= k,
        f"a table of at most {k} means",
    )
    expect(
        isinstance(reply.counts, np.ndarray)
        and reply.counts.dtype == np.int64
        and reply.counts.shape == reply.means.shape[:1]
        and bool(np.all(reply.counts >= 1))
        and sum(reply.counts.tolist()) <= n_rows,
        f"one count per mean, of at most {n_rows} rows in all",
    )


def _clustered(
    state: RivalState, replies: dict[ClientId, FkmMeans], old: FkmModel | None
) -> FkmModel:
    """Run weighted k-means over what everybody said."""
    clients = sorted(replies)
    means = np.concatenate([replies[client].means for client in clients])
    mass = np.concatenate([replies[client].counts for client in clients]).astype(float)
    centers = weighted_kmeans(
        means,
        mass,
        state.params.k,
        server_rng(state.seed, 0, state.version),
        state.params.restarts,
        None if old is None else old.centers,
    )
    labels, _ = assign(means, centers)
    sizes = np.bincount(labels, mass, minlength=centers.shape[0]).astype(np.float64)
    moved = 0.0 if old is None else _movement(centers, old.centers)
    return FkmModel(centers, sizes, replies, moved)


def _movement(centers: Floats, old: Floats) -> float:
    """Root of the summed squared ways to the nearest old centre, or back."""
    ahead, back = assign(centers, old)[1], assign(old, centers)[1]
    return float(np.sqrt(max(ahead.sum(), back.sum())))

# SPDX-License-Identifier: Apache-2.0
"""RFF kernel k-means: federated Lloyd on random Fourier features of a Gaussian kernel.

All clients map their rows with the same random features, drawn from a shared seed, and
make Lloyd's rounds on them: counts and feature sums go up, centres come down. The
server keeps each client's last answer and averages over all of them, so that a round
without a client does not forget its rows; a client's hello stands in for it until then.

A practical stand-in for FedKKM (Zhou and Wang, "Memory and communication efficient
federated kernel k-means"), and **not FedKKM**: random features (Rahimi and Recht, 2007)
are common to both, but FedKKM's distributed proximal gradient, low-rank solution and
Lanczos compression are not here, since only its abstract was at hand. The kernel is
exp(-gamma |x - y|^2) with 1 / gamma = 2 s2 and s2 = 2 tr(Cov), the mean squared
distance of two rows, from all clients' moments. The first centres are those of k-means
on the features of the clients' own cells; a late joiner makes the run start again from
everybody's cells. There are no centres in the space of the data.

Uploaded: once, counts, means and scatters of at most 2k local cells; then, every round,
k counts and k sums of `n_components` features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.cells import cells_of, pool, union
from afcl.core.messages import Cells, check_cells, payload
from afcl.core.protocol import Clustering, server_rng
from afcl.core.seeding import weighted_kmeans
from afcl.exceptions import InputError
from afcl.kernels import assign, sums
from afcl.methods.rival import KnownK, Rival, RivalState, expect, is_table

#: Runs of k-means on the cells' features, of which the best gives the first centres.
RESTARTS = 10
# Purposes of the server's draws.
SEEDS = 0
FEATURES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParams(KnownK):
    """Parameters of RFF kernel k-means.

    Attributes
    ----------
    n_components
        Number of random features.
    gamma
        Of the kernel exp(-gamma |x - y|^2); None follows the data's spread.
    local_clusters
        Most cells in a client's hello; None is 2k.
    tolerance
        The run stops when the centres move by no more than this in feature space.
    """

    n_components: int = 100
    gamma: float | None = None
    local_clusters: int | None = None
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        for name in ("n_components", "local_clusters"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= 1):
                raise InputError(
                    f"{name} must be a whole number of at least 1, not {value!r}"
                )
        gamma, tolerance = self.gamma, self.tolerance
        if gamma is not None and not (
            isinstance(gamma, int | float) and 0 < gamma < math.inf
        ):
            raise InputError(f"gamma must be a positive number, not {gamma!r}")
        if not (isinstance(tolerance, int | float) and tolerance >= 0):
            raise InputError(f"tolerance must not be negative, not {tolerance!r}")

    @property
    def per_client(self) -> int:
        """The most cells a client may say hello with."""
        return self.local_clusters or 2 * self.k


@payload
@dataclass(frozen=True, slots=True)
class FeatureCenters:
    """The broadcast: seed and gamma of the random features, centres on them.

    Reveals averages over all clients' rows.
    """

    seed: int
    gamma: float
    centers: Floats


@payload
@dataclass(frozen=True, slots=True)
class FeatureSums:
    """A client's rows around every centre: how many, and the sum of their features.

    The server knows the features, so a centre's mean can be traced back to where its
    rows lie in the data; a centre of one row reveals **that row**.
    """

    counts: Ints
    sums: Floats


@dataclass(frozen=True, slots=True)
class KernelModel:
    """Centres in feature space.

    Attributes
    ----------
    gamma
        Of the kernel.
    centers, counts
        Always n_clusters rows; those without rows of their own count 0.
    since
        Answers to older versions belong to another start.
    anchor, settled
        Centres at their last move beyond the tolerance, and the version they had.
    """

    gamma: float
    centers: Floats
    counts: Floats
    since: int
    anchor: Floats
    settled: int


class FedKernelKMeans(Rival):
    """Federated Lloyd on random Fourier features."""

    name = "fed-kernel-kmeans"
    Params = KernelParams

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> Cells:
        """Send cells of the client's own k-means."""
        centers = weighted_kmeans(X, np.ones(len(X)), params.per_client, rng, 1)
        return cells_of(X, assign(X, centers)[0], centers.shape[0])

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect a few cells that hold all of the client's rows."""
        expect(isinstance(hello, Cells) and is_table(hello.means), "a client's cells")
        width = int(hello.means.shape[1])
        check_cells(hello, width, n_rows)
        expect(
            len(hello) <= state.params.per_client
            and sum(hello.counts.tolist()) == n_rows,
            f"at most {state.params.per_client} cells of all {n_rows} rows",
        )
        return width

    def start(self, state: RivalState) -> KernelModel:
        """Settle gamma, and place the centres on the cells' features."""
        return self._started(state, 0)

    def on_join(self, state: RivalState) -> KernelModel:
        """Start again, with the late joiner."""
        return self._started(state, state.version + 1)

    def _started(self, state: RivalState, version: int) -> KernelModel:
        params: KernelParams = state.params
        bag = union([state.hellos[client] for client in sorted(state.hellos)])
        gamma = params.gamma or gamma_of(bag)
        weights = bag.counts.astype(np.float64)
        mapped = features(bag.means, *self._basis(state, gamma))
        rng = server_rng(state.seed, SEEDS, version)
        seeds = weighted_kmeans(mapped, weights, params.k, rng, RESTARTS)
        centers = np.vstack([seeds, np.repeat(seeds[-1:], params.k - len(seeds), 0)])
        counts, _ = sums(mapped, weights, assign(mapped, centers)[0], params.k)
        return KernelModel(gamma, centers, counts, version, centers, version)

    def prepare(self, state: RivalState) -> RivalState:
        """Start, or start again when somebody has joined."""
        fresh = super().prepare(state)
        return fresh if fresh is state else replace(fresh, finished=False)

    def message(self, state: RivalState) -> FeatureCenters:
        """Send the centres, and how to draw the features."""
        return FeatureCenters(state.seed, state.model.gamma, state.model.centers)

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[FeatureSums, Any]:
        """Map the rows, assign them, count and add."""
        basis = draw_features(
            broadcast.seed, broadcast.gamma, X.shape[1], params.n_components
        )
        mapped = features(X, *basis)
        labels, _ = assign(mapped, broadcast.centers)
        counts, total = sums(mapped, np.ones(len(X)), labels, params.k)
        return FeatureSums(counts.astype(np.int64), total), None

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect counts of all rows, and sums within the features' bounds."""
        params: KernelParams = state.params
        expect(
            isinstance(reply, FeatureSums)
            and is_table(reply.sums, params.n_components)
            and isinstance(reply.counts, np.ndarray)
            and reply.counts.dtype == np.int64
            and reply.counts.shape == (params.k,) == reply.sums.shape[:1],
            f"{params.k} counts and sums of {params.n_components} features",
        )
        expect(
            bool(np.all(reply.counts >= 0)) and sum(reply.counts.tolist()) == n_rows,
            f"counts of all {n_rows} rows",
        )
        most = reply.counts[:, None] * math.sqrt(2 / params.n_components)
        expect(
            bool(np.all(np.abs(reply.sums) <= most * (1 + 1e-9))),
            "sums no larger than the features allow",
        )

    def combine(self, state: RivalState) -> tuple[KernelModel, bool]:
        """Average what every client said last; stop when the centres have settled."""
        model: KernelModel = state.model
        updates = {c: u for c, u in state.latest.items() if u.version >= model.since}
        counts, total = self._unheard(state, set(updates))
        for client in sorted(updates):
            counts += updates[client].payload.counts
            total += updates[client].payload.sums
        centers = model.centers.copy()
        held = counts > 0
        centers[held] = total[held] / counts[held, None]
        anchor, settled = model.anchor, model.settled
        if np.linalg.norm(centers - anchor) > state.params.tolerance:
            anchor, settled = centers, state.version + 1
        finished = all(
            client in updates and updates[client].version >= settled
            for client in state.active()
        )
        return KernelModel(
            model.gamma, centers, counts, model.since, anchor, settled
        ), finished

    def _unheard(
        self, state: RivalState, clients: set[ClientId]
    ) -> tuple[Floats, Floats]:
        """Count and add the cells of clients that have not answered this start."""
        model: KernelModel = state.model
        cells = [state.hellos[c] for c in sorted(state.hellos) if c not in clients]
        if not cells:
            return np.zeros_like(model.counts), np.zeros_like(model.centers)
        bag = union(cells)
        mapped = features(bag.means, *self._basis(state, model.gamma))
        labels, _ = assign(mapped, model.centers)
        return sums(mapped, bag.counts.astype(np.float64), labels, state.params.k)

    def _basis(self, state: RivalState, gamma: float) -> tuple[Floats, Floats]:
        return draw_features(
            state.seed, gamma, state.n_features, state.params.n_components
        )

    def cluster(self, state: RivalState) -> Clustering:
        """Return the clusters that hold rows, and how to map new ones."""
        model: KernelModel = state.model
        order = np.argsort(-model.counts, kind="stable")
        order = order[model.counts[order] > 0]
        frequencies, phases = self._basis(state, model.gamma)
        extra = {
            "frequencies": frequencies,
            "phases": phases,
            "centers": model.centers[order],
        }
        return Clustering(None, model.counts[order], {}, extra=extra)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Nearest centre in feature space."""
        extra = clustering.extra
        mapped = features(X, extra["frequencies"], extra["phases"])
        return assign(mapped, extra["centers"])[0]


def gamma_of(bag: Cells) -> float:
    """Return 1 / (2 s2), s2 = 2 tr(Cov), of all rows in the cells; 1 if they are one.

    Counts, means and scatters carry the first two moments exactly.
    """
    mass, _, scatter = pool(bag, np.zeros(len(bag), dtype=np.int64), 1)
    spread = 4 * float(scatter[0] / mass[0])
    return 1 / spread if spread > np.finfo(np.float64).tiny else 1.0


def draw_features(
    seed: int, gamma: float, n_features: int, n_components: int
) -> tuple[Floats, Floats]:
    """Draw frequencies (d, D) and phases (D,); a run's seed always gives the same."""
    rng = server_rng(seed, FEATURES, 0)
    frequencies = rng.standard_normal((n_features, n_components))
    phases = rng.uniform(0, 2 * np.pi, n_components)
    return math.sqrt(2 * gamma) * frequencies, phases


def features(X: Floats, frequencies: Floats, phases: Floats) -> Floats:
    """Map rows to features whose inner products approximate the kernel."""
    scale = math.sqrt(2 / phases.shape[0])
    mapped: Floats = scale * np.cos(X @ frequencies + phases)
    return mapped

# SPDX-License-Identifier: Apache-2.0
"""Fed-SC: clients find subspaces, the server clusters one sample of each, once.

Every client expresses each of its rows sparsely by the others (sparse subspace
clustering, SSC), cuts the graph of the coefficients into local clusters, and uploads
one random direction out of the subspace that each local cluster spans. The server
clusters these samples, and a row belongs where the sample of its local cluster was put.

Xie et al., "Fed-SC: one-shot federated subspace clustering over high-dimensional data",
ICDE 2023. What the paper leaves open, and where we depart from it:

* Rows are scaled to unit length first: subspaces go through the origin, and min-max
  scaling has moved that. All sizes are clipped to what the data allow (the published
  constants need more than 15 features and 60 rows), and no client looks for more local
  clusters than there are clusters in all.
* The lasso of SSC is solved by least-angle regression. Its penalty is so small that
  coordinate descent has not arrived after a thousand sweeps; LARS is exact in about as
  many steps as there are features.
* Rows (and samples) on one line are one node of a graph: copies would only express
  each other.
* A client of more than `max_rows` rows runs SSC on a drawn sample of these; its other
  rows go to the local subspace that leaves the smallest residual.
* Rows that are new, or whose client was never heard, go with the sample of the largest
  absolute cosine: the server knows no subspaces, only samples.
* Rows of length 0 lie in every subspace and go to the first local cluster.

It assumes linear subspaces; with few features every row is a combination of any few
others and the graph says little.

Uploaded, once: one direction per local cluster, and a random receipt by which the
client finds its samples in the result. No row, and no size of a local cluster, is sent;
the server's sizes count a client's rows as spread evenly over its samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import payload
from afcl.core.protocol import Clustering, server_rng
from afcl.exceptions import InputError
from afcl.methods.rival import (
    KnownK,
    Nothing,
    Rival,
    RivalState,
    check_at_least,
    expect,
    is_table,
)
from afcl_bench.methods.spectral import unit_rows
from afcl_bench.methods.subspace import (
    closest_subspace,
    cosine_clusters,
    draw_direction,
    span,
    sparse_clusters,
)

SOLVERS = ("ssc", "tsc")


@dataclass(frozen=True, slots=True, kw_only=True)
class FedSubspaceParams(KnownK):
    """Constants of Fed-SC.

    Attributes
    ----------
    solver
        How the server clusters the samples: `ssc` as the clients do, or `tsc`, which
        connects a sample to its `neighbours` with the largest absolute cosines.
    local_clusters, dimension
        Clusters per client and dimension of a subspace; None: the largest drop among
        the singular values of the graph, or of the cluster's rows.
    gamma
        How many times weaker the penalty is than the one that leaves no coefficient.
    max_rows
        Rows of a client that take part in SSC.
    """

    solver: str = "ssc"
    local_clusters: int | None = None
    dimension: int | None = None
    neighbours: int = 6
    gamma: float = 500.0
    max_rows: int = 500

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        if self.solver not in SOLVERS:
            raise InputError(f"solver must be one of {SOLVERS}, not {self.solver!r}")
        check_at_least(self, 1, "local_clusters", "dimension", "neighbours", "max_rows")
        if not self.gamma > 1:
            raise InputError(f"gamma must be above 1, not {self.gamma}")


@payload
@dataclass(frozen=True, slots=True)
class SubspaceWidth:
    """How many features a client's rows have; reveals nothing else."""

    n_features: int


@payload
@dataclass(frozen=True, slots=True)
class SubspaceSamples:
    """One random direction out of the subspace of each local cluster.

    Reveals how many local clusters there are, and of each a direction near which (or,
    from a subspace of one dimension, along which) its rows lie; a cluster of one row
    reveals that row's direction, up to its sign. The receipt is a random number.
    """

    samples: Floats
    receipt: int


@payload
@dataclass(frozen=True, slots=True)
class SubspaceMemory:
    """A client's own: local clusters of its rows, and what it uploaded."""

    labels: Ints
    answer: SubspaceSamples


@dataclass(frozen=True, slots=True)
class SubspaceModel:
    """All samples, the receipts and rows they stand for, and their clusters."""

    samples: Floats
    receipts: Ints
    mass: Floats
    labels: Ints


class FedSubspace(Rival):
    """One-shot subspace clustering."""

    name = "fed-sc"
    Params = FedSubspaceParams

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> SubspaceWidth:
        """Send the number of features."""
        return SubspaceWidth(X.shape[1])

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect a number of features."""
        expect(
            isinstance(hello, SubspaceWidth)
            and type(hello.n_features) is int
            and hello.n_features >= 1,
            "a number of features",
        )
        return int(hello.n_features)

    def start(self, state: RivalState) -> SubspaceModel:
        """Know no sample yet."""
        return SubspaceModel(
            np.zeros((0, state.n_features)),
            np.zeros(0, dtype=np.int64),
            np.zeros(0),
            np.zeros(0, dtype=np.int64),
        )

    def message(self, state: RivalState) -> Nothing:
        """Send nothing: to be asked is enough."""
        return Nothing()

    def wanted(self, state: RivalState) -> frozenset[ClientId]:
        """Want whoever has not answered."""
        return frozenset(c for c in state.active() if c not in state.answers)

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[SubspaceSamples, SubspaceMemory]:
        """Find subspaces and sample them; asked again, repeat the answer."""
        if memory is None:
            labels, samples = find_subspaces(X, params, rng)
            receipt = int(rng.integers(2**62))
            memory = SubspaceMemory(labels, SubspaceSamples(samples, receipt))
        return memory.answer, memory

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect unit directions (or zero), at most one a row and k in all."""
        k = state.params.k
        most = min(n_rows, k, state.params.local_clusters or k)
        expect(
            isinstance(reply, SubspaceSamples)
            and type(reply.receipt) is int
            and 0 <= reply.receipt < 2**62
            and is_table(reply.samples, state.n_features)
            and reply.samples.shape[0] <= most,
            f"at most {most} directions of {state.n_features} features",
        )
        lengths = np.linalg.norm(reply.samples, axis=1)
        unit = np.abs(lengths - 1.0) < 1e-9
        expect(bool(np.all(unit | (lengths == 0))), "directions of length 1")

    def combine(self, state: RivalState) -> tuple[SubspaceModel, bool]:
        """Cluster the samples of everybody who has answered, clients by id."""
        clients = sorted(state.latest)
        replies = [state.latest[client].payload for client in clients]
        counts = [len(answer.samples) for answer in replies]
        shares = [state.rows[c] / m for c, m in zip(clients, counts, strict=True)]
        receipts = np.array([answer.receipt for answer in replies], dtype=np.int64)
        samples = np.concatenate([answer.samples for answer in replies])
        labels = sample_labels(samples, state.params, server_rng(state.seed, 0, 0))
        model = SubspaceModel(
            samples, np.repeat(receipts, counts), np.repeat(shares, counts), labels
        )
        return model, False

    def done(self, state: RivalState) -> bool:
        """Whether everybody who is here has answered."""
        return (
            state.model is not None and not state.joined and state.everybody_answered()
        )

    def cluster(self, state: RivalState) -> Clustering:
        """Return the samples' clusters, largest first; one cluster before any."""
        model: SubspaceModel = state.model
        if not model.labels.size:
            rows = float(sum(state.rows.values()))
            return Clustering(None, np.array([rows]), {})
        sizes = np.bincount(model.labels, weights=model.mass).astype(np.float64)
        order = np.argsort(-sizes, kind="stable")
        rank = np.argsort(order, kind="stable")
        known = {
            "samples": model.samples,
            "receipts": model.receipts,
            "clusters": rank[model.labels].astype(np.int64),
        }
        return Clustering(None, sizes[order], {}, extra=known)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Follow the client's own samples if they arrived; else the closest sample."""
        if not clustering.extra:
            return np.zeros(X.shape[0], dtype=np.int64)
        clusters: Ints = clustering.extra["clusters"]
        if memory is not None and memory.labels.shape[0] == X.shape[0]:
            own = clustering.extra["receipts"] == memory.answer.receipt
            if own.any():
                followed: Ints = clusters[own][memory.labels]
                return followed
        cosines = np.abs(unit_rows(X) @ clustering.extra["samples"].T)
        closest: Ints = clusters[cosines.argmax(axis=1)]
        return closest


def find_subspaces(
    X: Floats, params: FedSubspaceParams, rng: np.random.Generator
) -> tuple[Ints, Floats]:
    """Return the local cluster of every row, and a sample of each cluster's subspace.

    Rows beyond `max_rows` follow the subspaces of a drawn sample of the rows.
    """
    rows = unit_rows(X)
    drawn = np.arange(rows.shape[0])
    if rows.shape[0] > params.max_rows:
        drawn = np.sort(rng.permutation(rows.shape[0])[: params.max_rows])
    found = sparse_clusters(
        rows[drawn], params.local_clusters, params.k, params.gamma, rng
    )
    groups = range(int(found.max()) + 1)
    bases = [span(rows[drawn[found == g]], params.dimension) for g in groups]
    samples = np.array([draw_direction(basis, rng) for basis in bases])
    labels = closest_subspace(rows, bases)
    labels[drawn] = found
    return labels, samples


def sample_labels(
    samples: Floats, params: FedSubspaceParams, rng: np.random.Generator
) -> Ints:
    """Cluster the samples of all clients by SSC or TSC."""
    if params.solver == "ssc":
        return sparse_clusters(samples, params.k, params.k, params.gamma, rng)
    return cosine_clusters(samples, params.k, params.neighbours, rng)

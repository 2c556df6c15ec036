# SPDX-License-Identifier: Apache-2.0
"""Pooled references: what is possible if every row is sent, and nothing is private.

**Not federated methods**: the hello carries all rows of a client, the server fits
scikit-learn's clusterers to the union. They stand beside the rivals in a comparison
and say what the federation costs.

* ``pooled-kmeans``: k-means with k given, the best of `n_init` starts, carried on to
  the exact fixed point.
* ``pooled-kmeans-sweep``: the same for every k from 2 to `max_clusters`, by default
  as far as AFCL looks; the largest silhouette chooses (Euclidean; on a seeded sample
  of 2500 rows where there are more).
* ``pooled-hdbscan``: HDBSCAN (Campello, Moulavi and Sander, PAKDD 2013) with clusters
  of at least max(5, n/100) rows; noise joins the cluster of the nearest row that is
  not noise, and so do new rows. All noise makes one cluster.
* ``pooled-bgmm`` and ``pooled-ccl``: see :mod:`.pooled_bgmm` and :mod:`.pooled_ccl`.
* ``pooled-gmm-bic``, ``pooled-ward`` and ``pooled-genie``: see :mod:`.pooled_trees` and
  :mod:`.pooled_gmm`.

Uploaded: n_g d numbers, once. A late joiner's rows are fitted together with all others.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import payload
from afcl.core.protocol import Clustering, PathLevel, server_rng
from afcl.core.seeding import CONVERGED, distinct
from afcl.kernels import lloyd
from afcl.methods.one_shot import OneShot
from afcl.methods.rival import (
    KnownK,
    RivalState,
    check_at_least,
    expect,
    is_table,
    simple_clustering,
)
from afcl.metrics import COLLAPSED, silhouette
from afcl_bench.methods.fedgengmm import range_of_k

#: Rows that the sweep's silhouette is taken over, at most.
SAMPLE = 2500


@payload
@dataclass(frozen=True, slots=True)
class PooledRows:
    """All rows of a client, in order: **reveals everything**."""

    rows: Floats


class Pooled(OneShot):
    """A clusterer that is given everybody's rows; subclasses say which."""

    needs_k = False

    @abstractmethod
    def fit(self, X: Floats, params: Any, rng: np.random.Generator) -> Clustering:
        """Cluster the rows of all clients."""

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> PooledRows:
        """Send every row."""
        return PooledRows(X)

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect as many rows as were registered."""
        expect(
            isinstance(hello, PooledRows)
            and is_table(hello.rows)
            and hello.rows.shape[0] == n_rows,
            f"a table of {n_rows} rows",
        )
        return int(hello.rows.shape[1])

    def start(self, state: RivalState) -> Clustering:
        """Fit the union, clients by id."""
        X = np.concatenate([state.hellos[c].rows for c in sorted(state.hellos)])
        return self.fit(X, state.params, server_rng(state.seed, 0, 0))

    def cluster(self, state: RivalState) -> Clustering:
        """Return what was fitted."""
        clustering: Clustering = state.model
        return clustering


@contextmanager
def calmly() -> Iterator[None]:
    """Let scikit-learn work on one thread, without warnings that it stopped early.

    One thread adds up in one order: the same bits every time.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def seed_of(rng: np.random.Generator) -> int:
    """Draw a seed for scikit-learn."""
    return int(rng.integers(2**31))


def by_size(labels: Ints) -> tuple[Ints, Ints]:
    """Return labels numbered by size, largest first, and the old numbers."""
    names, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    return np.argsort(order, kind="stable")[inverse].astype(np.int64), names[order]


# ---------------------------------------------------------------------- k-means


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledKMeansParams(KnownK):
    """`n_init` starts, of which the best is taken."""

    n_init: int = 10

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        check_at_least(self, 1, "n_init")


def _kmeans(X: Floats, k: int, n_init: int, seed: int) -> tuple[Floats, Ints]:
    """Return the centres that hold rows, and every row's."""
    from sklearn.cluster import KMeans

    with calmly():
        model = KMeans(k, n_init=n_init, random_state=seed).fit(X)
    start = model.cluster_centers_
    centers, labels = lloyd(X, np.ones(X.shape[0]), start, CONVERGED)
    labels, names = by_size(labels)
    return centers[names], labels


class PooledKMeans(Pooled):
    """k-means on everybody's rows: **pooled, nothing is private**."""

    name = "pooled-kmeans"
    needs_k = True
    Params = PooledKMeansParams

    def fit(self, X: Floats, params: Any, rng: np.random.Generator) -> Clustering:
        """Run k-means."""
        k = min(params.k, distinct(X))
        centers, labels = _kmeans(X, k, params.n_init, seed_of(rng))
        return simple_clustering(centers, np.bincount(labels))


@dataclass(frozen=True, slots=True)
class PooledSweepParams:
    """`n_init` starts for every k up to `max_clusters`; None: as far as AFCL looks."""

    max_clusters: int | None = None
    n_init: int = 10

    def __post_init__(self) -> None:
        check_at_least(self, 2, "max_clusters")
        check_at_least(self, 1, "n_init")


class PooledKMeansSweep(Pooled):
    """k-means for every k on everybody's rows: **pooled, nothing is private**."""

    name = "pooled-kmeans-sweep"
    Params = PooledSweepParams

    def fit(self, X: Floats, params: Any, rng: np.random.Generator) -> Clustering:
        """Run k-means for every k and take the largest silhouette, then smallest k."""
        most = min(range_of_k(X.shape[0], params.max_clusters), distinct(X))
        seed = seed_of(rng)
        levels = [
            _level(X, k, params.n_init, seed) for k in range(min(2, most), most + 1)
        ]
        best = max(levels, key=_score)
        path = tuple({level.k: level for level in levels}.values())
        return Clustering(best.centers, best.sizes, best.scores, path)


def _level(X: Floats, k: int, n_init: int, seed: int) -> PathLevel:
    """Cluster and score one k."""
    centers, labels = _kmeans(X, k, n_init, seed)
    score = silhouette(X, labels, sample=SAMPLE, random_state=seed)
    sizes = np.bincount(labels).astype(np.float64)
    defined = None if score == COLLAPSED else score
    return PathLevel(centers.shape[0], centers, sizes, {"silhouette": defined})


def _score(level: PathLevel) -> float:
    score = level.scores["silhouette"]
    return COLLAPSED if score is None else score


# ---------------------------------------------------------------------- HDBSCAN


@dataclass(frozen=True, slots=True)
class PooledHDBSCANParams:
    """`min_cluster_size`: fewest rows of a cluster; None is max(5, n/100)."""

    min_cluster_size: int | None = None

    def __post_init__(self) -> None:
        check_at_least(self, 2, "min_cluster_size")


class ByRows(Pooled):
    """A clusterer whose answer is the clusters of rows; the nearest one labels others.

    The clustering's `extra` holds the rows that are not noise, to label others by.
    """

    @abstractmethod
    def partition(self, X: Floats, params: Any) -> Ints:
        """Return the cluster of every row, -1 for noise; not all may be noise."""

    def fit(self, X: Floats, params: Any, rng: np.random.Generator) -> Clustering:
        """Let noise join its nearest row's cluster."""
        found = self.partition(X, params)
        core = found >= 0
        rows, known = X[core], found[core]
        labels, names = by_size(known[_nearest(X, rows)])
        k = names.shape[0]
        centers = np.stack([X[labels == j].mean(axis=0) for j in range(k)])
        sizes = np.bincount(labels).astype(np.float64)
        level = PathLevel(k, centers, sizes, {})
        extra = {"rows": rows, "labels": labels[core]}
        return Clustering(centers, sizes, {}, (level,), extra=extra)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Give every row the cluster of the nearest row that is not noise."""
        labels: Ints = clustering.extra["labels"]
        return labels[_nearest(X, clustering.extra["rows"])]


class PooledHDBSCAN(ByRows):
    """HDBSCAN on everybody's rows: **pooled, nothing is private**."""

    name = "pooled-hdbscan"
    Params = PooledHDBSCANParams

    def partition(self, X: Floats, params: Any) -> Ints:
        """Run HDBSCAN."""
        return _hdbscan(X, params.min_cluster_size or max(5, X.shape[0] // 100))


def _hdbscan(X: Floats, smallest: int) -> Ints:
    """Return HDBSCAN's labels, -1 for noise; one cluster where it finds none."""
    from sklearn.cluster import HDBSCAN

    labels = np.zeros(X.shape[0], dtype=np.int64)
    if X.shape[0] >= 2 * smallest and distinct(X) > 1:
        with calmly():
            found = HDBSCAN(min_cluster_size=smallest, copy=True).fit(X).labels_
        if found.max() >= 0:
            labels[:] = found
    return labels


def _nearest(X: Floats, rows: Floats) -> Ints:
    """Return the nearest of `rows` for every row of X."""
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=1).fit(rows).kneighbors(X)[1]
    nearest: Ints = index[:, 0].astype(np.int64)
    return nearest

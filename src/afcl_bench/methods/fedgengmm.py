# SPDX-License-Identifier: Apache-2.0
"""FedGenGMM: clients send Gaussian mixtures, the server redraws rows and fits one.

Pettersson et al. (2025), arXiv 2506.01780. A client fits mixtures of one to `max_local`
Gaussians and keeps the one of least BIC; the server mixes them with shares n_g / n,
draws N = min(5000, 100 sum_g k_g) synthetic rows, and fits a mixture to these.

Departures. *k*: unless `n_clusters` is given, the server takes the k in
1..`max_clusters` (by default as far as AFCL looks) of least BIC on the synthetic rows;
it ends when BIC has not fallen for :data:`PATIENCE` k. *Covariances*: diagonal at the
clients, which keeps the upload linear in the number of features and needs few rows;
full at the server. *Small components*: at the client every component of a mixture of
several must stand for at least :data:`LEAST_ROWS` rows. *Empty components*: what is
most likely for no synthetic row is left out.

One shot: all is in the hello. A late joiner makes the server draw and fit anew.

Uploaded: weights, means and variances of the client's mixture. A label is the
component of largest responsibility.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import payload
from afcl.core.params import DefaultParams
from afcl.core.protocol import Clustering, PathLevel, Scores, server_rng
from afcl.core.seeding import distinct
from afcl.exceptions import InputError
from afcl.methods.one_shot import OneShot
from afcl.methods.rival import RivalState, expect, is_table

#: Rows that a component of several must stand for at a client.
LEAST_ROWS = 5
#: Synthetic rows at most.
MOST_SYNTHETIC = 5000
#: Synthetic rows per uploaded component.
PER_COMPONENT = 100
#: Starts of a fit; the likeliest counts.
STARTS = 3
#: Values of k without a smaller BIC after which larger ones are not tried.
PATIENCE = 8
#: Added to variances, as a share of each feature's own.
RIDGE = 1e-6
#: Standard deviations up to this share of the mean are rounding.
CONSTANT = 1e-12


@dataclass(frozen=True, slots=True)
class FedGenGMMParams:
    """Clusters wanted (None: by BIC up to `max_clusters`), components per client.

    `max_clusters` is, if None, what AFCL's is for as many rows.
    """

    n_clusters: int | None = None
    max_clusters: int | None = None
    max_local: int = 5

    def __post_init__(self) -> None:
        for name in ("n_clusters", "max_clusters", "max_local"):
            value = getattr(self, name)
            if name != "max_local" and value is None:
                continue
            if not (isinstance(value, int) and value >= 1):
                raise InputError(
                    f"{name} must be a whole number of at least 1, not {value!r}"
                )


@payload
@dataclass(frozen=True, slots=True)
class DiagonalMixture:
    """A client's mixture: weights, means and variances of its components.

    Reveals where groups of a client's rows lie, how widely they spread along every
    feature, and their shares. A component of several stands for at least five rows;
    a client of one row sends that row.
    """

    weights: Floats
    means: Floats
    variances: Floats


@dataclass(frozen=True, slots=True)
class FullMixture:
    """A fitted mixture: weights (k,), means (k, d), covariances (k, d, d), its BIC."""

    weights: Floats
    means: Floats
    covariances: Floats
    bic: float


@dataclass(frozen=True, slots=True)
class FedGenGMMModel:
    """The mixture of every k that was tried, which one is the answer, and its sizes."""

    tried: tuple[FullMixture, ...]
    best: FullMixture
    sizes: Floats


class FedGenGMM(OneShot):
    """Generative replay of the clients' mixtures."""

    name = "fedgengmm"
    needs_k = False
    Params = FedGenGMMParams

    def first(
        self, X: Floats, params: Any, rng: np.random.Generator
    ) -> DiagonalMixture:
        """Send the mixture of least BIC."""
        return local_mixture(X, params.max_local, rng)

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect shares that sum to one, and a mean and positive variances for each."""
        most = min(state.params.max_local, n_rows)
        expect(
            isinstance(hello, DiagonalMixture)
            and is_table(hello.means)
            and hello.means.shape[0] <= most,
            f"a mixture of at most {most} components",
        )
        expect(
            isinstance(hello.weights, np.ndarray)
            and hello.weights.dtype == np.float64
            and hello.weights.shape == hello.means.shape[:1]
            and bool(np.all(hello.weights >= 0))
            and abs(float(hello.weights.sum()) - 1.0) < 1e-6,
            "a weight per component, summing to 1",
        )
        expect(
            is_table(hello.variances)
            and hello.variances.shape == hello.means.shape
            and bool(np.all(hello.variances > 0)),
            "positive variances, one per mean",
        )
        return int(hello.means.shape[1])

    def start(self, state: RivalState) -> FedGenGMMModel:
        """Draw synthetic rows and fit mixtures to them."""
        params, clients = state.params, sorted(state.hellos)
        rng = server_rng(state.seed, 0, len(clients))
        shares = np.array([state.rows[client] for client in clients], dtype=np.float64)
        rows = redraw([state.hellos[client] for client in clients], shares, rng)
        most = distinct(rows)
        widest = range_of_k(int(shares.sum()), params.max_clusters)
        top = min(params.n_clusters or widest, most)
        wanted = range(1 if params.n_clusters is None else top, top + 1)
        tried = sweep(rows, wanted, "full", int(rng.integers(2**31)))
        best = min(tried, key=lambda mixture: mixture.bic)
        owned = np.bincount(most_likely(rows, best), minlength=best.weights.shape[0])
        sizes = owned / rows.shape[0] * shares.sum()
        return FedGenGMMModel(tried, best, sizes)

    def cluster(self, state: RivalState) -> Clustering:
        """Return the components that own synthetic rows, and every k that was tried."""
        model: FedGenGMMModel = state.model
        order = np.argsort(-model.sizes, kind="stable")
        order = order[model.sizes[order] > 0]
        best, n = model.best, sum(state.rows.values())
        path = {
            mixture.weights.shape[0]: _path_level(mixture, n) for mixture in model.tried
        }
        scores: Scores = {"bic": best.bic}
        top = PathLevel(len(order), best.means[order], model.sizes[order], scores)
        path[top.k] = top
        extra = {
            "weights": best.weights[order],
            "means": best.means[order],
            "covariances": best.covariances[order],
        }
        levels = tuple(path[k] for k in sorted(path))
        return Clustering(top.centers, top.sizes, scores, levels, extra=extra)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Component of largest responsibility."""
        extra = clustering.extra
        mixture = FullMixture(
            extra["weights"], extra["means"], extra["covariances"], 0.0
        )
        return most_likely(X, mixture)


def _path_level(mixture: FullMixture, n_rows: int) -> PathLevel:
    order = np.argsort(-mixture.weights, kind="stable")
    return PathLevel(
        order.shape[0],
        mixture.means[order],
        mixture.weights[order] * n_rows,
        {"bic": mixture.bic},
    )


def local_mixture(X: Floats, most: int, rng: np.random.Generator) -> DiagonalMixture:
    """Return the diagonal mixture of least BIC with rows enough per component."""
    top = min(most, X.shape[0] // LEAST_ROWS, distinct(X))
    ks = range(1, max(1, top) + 1)
    tried = fit_mixtures(X, ks, "diag", int(rng.integers(2**31)))
    fair = [m for m in tried[1:] if m.weights.min() * X.shape[0] >= LEAST_ROWS]
    best = min((tried[0], *fair), key=lambda mixture: mixture.bic)
    variances = np.diagonal(best.covariances, axis1=1, axis2=2).copy()
    return DiagonalMixture(best.weights, best.means, variances)


def redraw(
    mixtures: list[DiagonalMixture], shares: Floats, rng: np.random.Generator
) -> Floats:
    """Draw synthetic rows from the mixtures, in proportion to the clients' shares."""
    weights = np.concatenate(
        [s * m.weights for s, m in zip(shares, mixtures, strict=True)]
    )
    means = np.concatenate([mixture.means for mixture in mixtures])
    variances = np.concatenate([mixture.variances for mixture in mixtures])
    n = min(MOST_SYNTHETIC, PER_COMPONENT * weights.shape[0])
    counts = rng.multinomial(n, weights / weights.sum())
    origin = np.repeat(np.arange(weights.shape[0]), counts)
    noise = rng.standard_normal((n, means.shape[1]))
    rows: Floats = means[origin] + np.sqrt(variances[origin]) * noise
    return rows


def range_of_k(n_rows: int, asked: int | None) -> int:
    """Return the largest k of a sweep: what was asked for, or where AFCL stops."""
    return asked or DefaultParams().clusters_for(n_rows, n_rows)


def sweep(X: Floats, ks: range, covariance: str, seed: int) -> tuple[FullMixture, ...]:
    """Fit mixtures of more and more components until BIC only rises."""
    tried: list[FullMixture] = []
    for k in ks:
        tried += fit_mixtures(X, range(k, k + 1), covariance, seed)
        since = min(range(len(tried)), key=lambda i: tried[i].bic)
        if len(tried) - 1 - since >= PATIENCE:
            break
    return tuple(tried)


def fit_mixtures(
    X: Floats, ks: range, covariance: str, seed: int
) -> tuple[FullMixture, ...]:
    """Fit k Gaussians (`diag` or `full`) for every k, in each feature's own units."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    middle, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale <= CONSTANT * (1.0 + np.abs(middle))] = 1.0
    rows = (X - middle) / scale
    if rows.shape[0] == 1:
        rows = np.repeat(rows, 2, axis=0)  # scikit-learn wants two
    # One thread: the tables are small, and sums then do not depend on the machine.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = [_fit(rows, k, covariance, seed) for k in ks]
    return tuple(
        FullMixture(
            mixture.weights / mixture.weights.sum(),
            mixture.means * scale + middle,
            mixture.covariances * scale[:, None] * scale,
            mixture.bic,
        )
        for mixture in fitted
    )


def _fit(rows: Floats, k: int, covariance: str, seed: int) -> FullMixture:
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        k,
        covariance_type=covariance,
        reg_covar=RIDGE,
        n_init=STARTS,
        random_state=seed,
    ).fit(rows)
    spread = model.covariances_
    if covariance == "diag":
        spread = spread[:, :, None] * np.eye(rows.shape[1])
    return FullMixture(model.weights_, model.means_, spread, float(model.bic(rows)))


def most_likely(X: Floats, mixture: FullMixture) -> Ints:
    """Return the component of largest responsibility of every row."""
    scores = np.empty((X.shape[0], mixture.weights.shape[0]))
    for j, covariance in enumerate(mixture.covariances):
        lower = np.linalg.cholesky(covariance)
        gaps = np.linalg.solve(lower, (X - mixture.means[j]).T)
        spread = np.log(np.diagonal(lower)).sum()
        weight = np.log(mixture.weights[j])
        scores[:, j] = weight - spread - 0.5 * (gaps * gaps).sum(axis=0)
    labels: Ints = scores.argmax(axis=1).astype(np.int64)
    return labels

# SPDX-License-Identifier: Apache-2.0
"""Pooled reference, nothing private: a Dirichlet process mixture of all rows.

Variational inference for Dirichlet process mixtures (Blei and Jordan, Bayesian
Analysis 2006) as scikit-learn has it, truncated at `max_clusters` components: full
covariances, diagonal ones above 10 features. Components that win no row are dropped.

We depart from scikit-learn's defaults in the weight concentration (1e-3: few
components) and in the covariance prior, which is the rows' covariance with 1e-6 added
to the variances, so that constant columns do no harm.

Uploaded: n_g d numbers, once: all rows, nothing is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import AnyArray, ClientId, Floats, Ints
from afcl.core.protocol import Clustering, PathLevel
from afcl.core.seeding import distinct
from afcl.exceptions import InputError
from afcl.methods.rival import check_at_least
from afcl_bench.methods.pooled import Pooled, by_size, calmly, seed_of

#: Features above which covariances are diagonal.
DIAGONAL = 10
#: Added to the variances of the prior.
RIDGE = 1e-6


@dataclass(frozen=True, slots=True)
class PooledBGMMParams:
    """Truncation, concentration of the weights' prior, and steps of inference."""

    max_clusters: int = 40
    concentration: float = 1e-3
    max_iter: int = 500

    def __post_init__(self) -> None:
        check_at_least(self, 1, "max_clusters", "max_iter")
        if not self.concentration > 0:
            raise InputError(
                f"concentration must be positive, not {self.concentration}"
            )


class PooledBGMM(Pooled):
    """A mixture fitted to everybody's rows: **pooled, nothing is private**.

    A row belongs to the component j with the largest c_j - |F_j (x - m_j)|^2 / 2; the
    clustering's `extra` holds `offsets` c and `factors` F (vectors where covariances
    are diagonal), its centres are m.
    """

    name = "pooled-bgmm"
    Params = PooledBGMMParams

    def fit(self, X: Floats, params: Any, rng: np.random.Generator) -> Clustering:
        """Infer the mixture, and drop components that win no row."""
        if distinct(X) < 2:
            means, factors, offsets = X[:1], np.ones((1, X.shape[1])), np.zeros(1)
        else:
            means, factors, offsets = _mixture(X, params, seed_of(rng))
        labels, names = by_size(_most_likely(X, means, factors, offsets))
        sizes = np.bincount(labels).astype(np.float64)
        level = PathLevel(names.shape[0], means[names], sizes, {})
        extra = {"factors": factors[names], "offsets": offsets[names]}
        return Clustering(level.centers, sizes, {}, (level,), extra=extra)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Give every row its most likely component."""
        assert clustering.centers is not None
        extra = clustering.extra
        return _most_likely(X, clustering.centers, extra["factors"], extra["offsets"])


def _mixture(X: Floats, params: Any, seed: int) -> tuple[Floats, AnyArray, Floats]:
    """Return means, factors of the precisions, and offsets of all components."""
    from sklearn.mixture import BayesianGaussianMixture

    diagonal = X.shape[1] > DIAGONAL
    model = BayesianGaussianMixture(
        n_components=min(params.max_clusters, distinct(X)),
        covariance_type="diag" if diagonal else "full",
        weight_concentration_prior=params.concentration,
        covariance_prior=_prior(X, diagonal),
        max_iter=params.max_iter,
        random_state=seed,
    )
    with calmly():
        model.fit(X)
    return model.means_, model.precisions_cholesky_, _offsets(model)


def _prior(X: Floats, diagonal: bool) -> Floats:
    if diagonal:
        return np.asarray(X.var(axis=0, ddof=1) + RIDGE)
    return np.atleast_2d(np.cov(X.T)) + RIDGE * np.eye(X.shape[1])


def _offsets(model: Any) -> Floats:
    """Return c_j: the expected log weight and log density at the mean, up to a sum.

    Stick breaking with Beta(a, b): E[log v] = psi(a) - psi(a + b) and likewise for
    1 - v. A Wishart with scale F F^T / nu and nu degrees of freedom:
    E[log det] = d log 2 + sum_i psi((nu - i) / 2) + 2 log det F - d log nu.
    """
    from scipy.special import digamma

    a, b = model.weight_concentration_
    stopped = digamma(b) - digamma(a + b)
    weight = digamma(a) - digamma(a + b) + np.append(0.0, np.cumsum(stopped)[:-1])
    factors, nu = model.precisions_cholesky_, model.degrees_of_freedom_
    d = factors.shape[1]
    roots = np.diagonal(factors, axis1=1, axis2=2) if factors.ndim == 3 else factors
    spread = digamma((nu - np.arange(d)[:, None]) / 2).sum(axis=0)
    spread = spread + d * (np.log(2) - np.log(nu)) - d / model.mean_precision_
    offsets: Floats = weight + np.log(roots).sum(axis=1) + spread / 2
    return offsets


def _most_likely(X: Floats, means: Floats, factors: AnyArray, offsets: Floats) -> Ints:
    """Return the component of every row."""
    scores = np.empty((X.shape[0], means.shape[0]))
    for j, (mean, factor) in enumerate(zip(means, factors, strict=True)):
        gaps = (X - mean) * factor if factor.ndim == 1 else (X - mean) @ factor
        scores[:, j] = offsets[j] - (gaps * gaps).sum(axis=1) / 2
    best: Ints = scores.argmax(axis=1).astype(np.int64)
    return best

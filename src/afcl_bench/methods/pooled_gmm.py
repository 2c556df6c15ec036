# SPDX-License-Identifier: Apache-2.0
"""Pooled reference, nothing private: Gaussian mixtures of all rows, k by BIC.

A mixture with full covariances (diagonal ones above 10 features) is fitted for every k
from 1 to `max_clusters`, by default as far as AFCL looks, or until BIC has not fallen
for eight k; the least BIC chooses (Fraley and Raftery, JASA 2002). Components that win
no row are dropped.

Uploaded: n_g d numbers, once: all rows, nothing is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.protocol import Clustering, PathLevel, Scores
from afcl.core.seeding import distinct
from afcl.methods.rival import check_at_least
from afcl_bench.methods.fedgengmm import FullMixture, most_likely, range_of_k, sweep
from afcl_bench.methods.pooled import Pooled, by_size, seed_of

#: Features above which covariances are diagonal.
DIAGONAL = 10


@dataclass(frozen=True, slots=True)
class PooledGMMParams:
    """Largest k of the sweep; None: as far as AFCL looks."""

    max_clusters: int | None = None

    def __post_init__(self) -> None:
        check_at_least(self, 1, "max_clusters")


class PooledGMM(Pooled):
    """Mixtures fitted to everybody's rows: **pooled, nothing is private**."""

    name = "pooled-gmm-bic"
    Params = PooledGMMParams

    def fit(self, X: Floats, params: Any, rng: np.random.Generator) -> Clustering:
        """Fit a mixture for every k and take the one of least BIC."""
        most = min(range_of_k(X.shape[0], params.max_clusters), distinct(X))
        covariance = "diag" if X.shape[1] > DIAGONAL else "full"
        tried = sweep(X, range(1, most + 1), covariance, seed_of(rng))
        best = min(tried, key=lambda mixture: mixture.bic)
        labels, names = by_size(most_likely(X, best))
        sizes = np.bincount(labels).astype(np.float64)
        scores: Scores = {"bic": best.bic}
        level = PathLevel(names.shape[0], best.means[names], sizes, scores)
        extra = {
            "weights": best.weights[names],
            "covariances": best.covariances[names],
        }
        return Clustering(level.centers, sizes, scores, (level,), extra=extra)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Give every row its most likely component."""
        assert clustering.centers is not None
        extra = clustering.extra
        known = (extra["weights"], clustering.centers, extra["covariances"])
        return most_likely(X, FullMixture(*known, 0.0))

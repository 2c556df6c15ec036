# SPDX-License-Identifier: Apache-2.0
"""Pooled references, nothing private: trees of all rows.

* ``pooled-ward``: Ward's tree (Ward, JASA 1963) cut at every k from 2 to
  `max_clusters`, by default as far as AFCL looks; the largest silhouette chooses
  (Euclidean; on a seeded sample of 2500 rows where there are more).
* ``pooled-genie``: Genie (Gagolewski, Bartoszuk and Cena, Information Sciences 2016)
  with k given, an upper reference: it is told k and sees every row. Needs the package
  ``genieclust``, which nothing else here does.

Rows keep the cluster of the tree; others join that of the nearest row. Uploaded:
n_g d numbers, once: all rows, nothing is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.seeding import distinct
from afcl.exceptions import InputError
from afcl.methods.rival import KnownK, check_at_least
from afcl.metrics import silhouette
from afcl_bench.methods.fedgengmm import range_of_k
from afcl_bench.methods.pooled import SAMPLE, ByRows, calmly

#: Seed of the rows that the silhouette of large tables is taken over.
SAMPLED = 0


@dataclass(frozen=True, slots=True)
class PooledWardParams:
    """Largest k of the sweep; None: as far as AFCL looks."""

    max_clusters: int | None = None

    def __post_init__(self) -> None:
        check_at_least(self, 2, "max_clusters")


class PooledWard(ByRows):
    """Ward's tree on everybody's rows: **pooled, nothing is private**."""

    name = "pooled-ward"
    Params = PooledWardParams

    def partition(self, X: Floats, params: Any) -> Ints:
        """Cut the tree at the k of the largest silhouette, then the smallest k."""
        from scipy.cluster.hierarchy import fcluster, linkage

        most = min(range_of_k(X.shape[0], params.max_clusters), distinct(X))
        labels: Ints = np.zeros(X.shape[0], dtype=np.int64)
        if most < 2:
            return labels
        tree, best = linkage(X, "ward"), -np.inf
        for k in range(2, most + 1):
            cut = fcluster(tree, k, "maxclust").astype(np.int64) - 1
            score = silhouette(X, cut, sample=SAMPLE, random_state=SAMPLED)
            if score > best:
                labels, best = cut, score
        return labels


class PooledGenie(ByRows):
    """Genie on everybody's rows, told k: **pooled, nothing is private**."""

    name = "pooled-genie"
    needs_k = True
    Params = KnownK

    def partition(self, X: Floats, params: Any) -> Ints:
        """Run Genie."""
        k = min(params.k, distinct(X))
        if k < 2:
            return np.zeros(X.shape[0], dtype=np.int64)
        if k == X.shape[0]:  # every row its own, which Genie refuses
            return np.arange(k, dtype=np.int64)
        # It refuses a single column, too.
        rows = np.column_stack([X, np.zeros(X.shape[0])]) if X.shape[1] == 1 else X
        with calmly():
            found = _genie(k).fit_predict(np.ascontiguousarray(rows))
        labels: Ints = np.asarray(found, dtype=np.int64)
        return labels


def _genie(k: int) -> Any:
    """Return Genie for so many clusters, or say what is missing."""
    try:
        module = import_module("genieclust")
    except ImportError:
        raise InputError(
            "pooled-genie needs the package genieclust: pip install genieclust"
        ) from None
    return module.Genie(n_clusters=k)

# SPDX-License-Identifier: Apache-2.0
"""Scores of a labelling, pooled and federated.

Light to import: scikit-learn and SciPy are loaded by the functions that need them.
Tests over many scores (Friedman, Bonferroni-Dunn, Wilcoxon) and the
critical-difference diagram are in ``afcl_bench.significance`` and
``afcl_bench.diagram``, which come with ``pip install afcl-bench``; then their names
work here too.
"""

from __future__ import annotations

from typing import Any

from afcl._addon import from_bench
from afcl.metrics._rows import COLLAPSED
from afcl.metrics.federated import (
    DistanceSums,
    SilhouetteSums,
    client_davies_bouldin,
    client_simplified_silhouette,
    client_squared_silhouette,
    combine_calinski_harabasz,
    combine_davies_bouldin,
    combine_simplified_silhouette,
    combine_squared_silhouette,
)
from afcl.metrics.moments import Moments, client_moments, combine_moments
from afcl.metrics.pooled import (
    adjusted_rand,
    calinski_harabasz,
    davies_bouldin,
    error_in_k,
    normalized_mutual_info,
    silhouette,
    simplified_silhouette,
)

__all__ = [
    "COLLAPSED",
    "DistanceSums",
    "Moments",
    "SilhouetteSums",
    "adjusted_rand",
    "calinski_harabasz",
    "client_davies_bouldin",
    "client_moments",
    "client_simplified_silhouette",
    "client_squared_silhouette",
    "combine_calinski_harabasz",
    "combine_davies_bouldin",
    "combine_moments",
    "combine_simplified_silhouette",
    "combine_squared_silhouette",
    "davies_bouldin",
    "error_in_k",
    "normalized_mutual_info",
    "silhouette",
    "simplified_silhouette",
]

#: Name -> module of afcl_bench, where it moved.
_MOVED = {
    "Comparison": "significance",
    "CriticalDifference": "significance",
    "Friedman": "significance",
    "average_ranks": "significance",
    "bonferroni_dunn": "significance",
    "cd_diagram": "diagram",
    "critical_difference": "significance",
    "friedman": "significance",
    "wilcoxon_holm": "significance",
}


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module 'afcl.metrics' has no attribute {name!r}")
    return getattr(from_bench(_MOVED[name], f"{name} is in afcl-bench"), name)

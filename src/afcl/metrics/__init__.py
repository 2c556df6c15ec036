# SPDX-License-Identifier: Apache-2.0
"""Scores of a labelling, pooled and federated, and tests over many of them.

Light to import: scikit-learn, SciPy and Matplotlib are loaded by the functions that
need them.
"""

from __future__ import annotations

from afcl.metrics._rows import COLLAPSED
from afcl.metrics.diagram import cd_diagram
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
from afcl.metrics.significance import (
    Comparison,
    CriticalDifference,
    Friedman,
    average_ranks,
    bonferroni_dunn,
    critical_difference,
    friedman,
    wilcoxon_holm,
)

__all__ = [
    "COLLAPSED",
    "Comparison",
    "CriticalDifference",
    "DistanceSums",
    "Friedman",
    "Moments",
    "SilhouetteSums",
    "adjusted_rand",
    "average_ranks",
    "bonferroni_dunn",
    "calinski_harabasz",
    "cd_diagram",
    "client_davies_bouldin",
    "client_moments",
    "client_simplified_silhouette",
    "client_squared_silhouette",
    "combine_calinski_harabasz",
    "combine_davies_bouldin",
    "combine_moments",
    "combine_simplified_silhouette",
    "combine_squared_silhouette",
    "critical_difference",
    "davies_bouldin",
    "error_in_k",
    "friedman",
    "normalized_mutual_info",
    "silhouette",
    "simplified_silhouette",
    "wilcoxon_holm",
]

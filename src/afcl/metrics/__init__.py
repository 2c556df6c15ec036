# SPDX-License-Identifier: Apache-2.0
"""Scores of a labelling; scikit-learn does the work where it can.

A labelling with fewer than two clusters has no silhouette: it scores -1 here, so that
collapsed runs are counted and never left out of a mean.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints

__all__ = ["COLLAPSED", "adjusted_rand", "silhouette"]

COLLAPSED = -1.0


def adjusted_rand(truth: Ints, labels: Ints) -> float:
    """Return the adjusted Rand index of two labellings."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(truth, labels))


def silhouette(
    X: Floats,
    labels: Ints,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: int = 0,
) -> float:
    """Return the mean silhouette, `euclidean` or `sqeuclidean` (MATLAB's default).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows in the units in which distances are meant.
    labels : ndarray of shape (n_samples,)
        Their clusters.
    metric : {"euclidean", "sqeuclidean"}
        Which convention; published figures mix the two.
    sample : int, optional
        Score a seeded sample of so many rows when there are more.
    random_state : int
        Seed of the sample.

    Returns
    -------
    float
        -1 when fewer than two clusters are left, or every row is its own.
    """
    from sklearn.metrics import silhouette_score

    if sample is not None and X.shape[0] > sample:
        chosen = np.random.default_rng(random_state).permutation(X.shape[0])[:sample]
        X, labels = X[chosen], labels[chosen]
    if not 2 <= np.unique(labels).shape[0] < X.shape[0]:
        return COLLAPSED
    return float(silhouette_score(X, labels, metric=metric))

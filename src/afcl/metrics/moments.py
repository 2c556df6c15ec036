# SPDX-License-Identifier: Apache-2.0
"""Moments: count, mean and scatter of every cluster, and what follows from them.

Scatters are taken about means, never as a difference of sums of squares, so nothing is
lost when the data lie far from the origin. With V = scatter / count, the mean squared
distance of a row x to the members of a cluster is |x - mean|^2 + V; that gives the
silhouette under squared distances exactly, in time proportional to rows times clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats, Ints
from afcl.exceptions import InputError
from afcl.metrics._rows import (
    as_indices,
    as_rows,
    blocks,
    check_alike,
    group_means,
    is_collapsed,
    silhouettes_of,
    sizes,
    squared_distances,
)

#: Residuals below so many units in the last place are rounding, not scatter.
ULPS = 4.0


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean and scatter of every cluster, of one client or of all together.

    Reveals how many of a client's rows each cluster holds, where their mean lies and
    how widely they spread. **A cluster that holds one row of a client reveals that
    row**, and two of them how far apart they are: score only labellings whose clusters
    are large enough at every site.

    Attributes
    ----------
    counts : ndarray of shape (n_clusters,)
        Rows, as integers; 0 for a cluster without rows.
    means : ndarray of shape (n_clusters, n_features)
        Mean of the rows; 0 for a cluster without rows.
    scatters : ndarray of shape (n_clusters,)
        Sum of squared distances of the rows to their mean.
    """

    counts: Ints
    means: Floats
    scatters: Floats


def client_moments(X: Floats, labels: Ints, n_clusters: int) -> Moments:
    """Summarise a client's labelled rows as count, mean and scatter per cluster.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The client's rows; none at all will do.
    labels : ndarray of shape (n_samples,)
        Their clusters, numbered from 0 in the same way at every client.
    n_clusters : int
        Clusters over all clients, also those without a row here.

    Returns
    -------
    Moments
        What it reveals is said there.

    Examples
    --------
    >>> import numpy as np
    >>> own = client_moments(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 1]), 3)
    >>> own.counts.tolist(), own.means.ravel().tolist(), own.scatters.tolist()
    ([2, 1, 0], [1.0, 9.0, 0.0], [2.0, 0.0, 0.0])
    """
    rows = as_rows(X)
    own = as_indices(labels, rows.shape[0], n_clusters)
    counts = sizes(own, n_clusters)
    means = group_means(rows, np.ones(rows.shape[0]), own, n_clusters)
    scatters = np.zeros(n_clusters)
    for part in blocks(*rows.shape):
        residual = rows[part] - means[own[part]]
        squares = (residual * residual).sum(axis=1)
        scatters += np.bincount(own[part], weights=squares, minlength=n_clusters)
    return Moments(counts, means, scatters)


def combine_moments(summaries: Sequence[Moments]) -> Moments:
    """Pool the moments of several clients into those of all their rows.

    Parameters
    ----------
    summaries : sequence of Moments
        One per client, of the same clusters and columns.

    Returns
    -------
    Moments
        As if computed from the pooled rows. Sent back to the clients, it is what
        :func:`~afcl.metrics.client_squared_silhouette` needs.
    """
    check_alike([summary.means.shape for summary in summaries])
    k = summaries[0].counts.shape[0]
    counts = np.concatenate([summary.counts for summary in summaries])
    held = np.flatnonzero(counts)
    own = np.tile(np.arange(k), len(summaries))[held]
    points = np.concatenate([summary.means for summary in summaries])[held]
    inner = np.concatenate([summary.scatters for summary in summaries])[held]

    weights = counts[held].astype(np.float64)
    means = group_means(points, weights, own, k)
    residual = points - means[own]
    around = weights * (residual * residual).sum(axis=1)
    scatters = np.zeros(k)
    scatters += np.bincount(own, weights=inner + around, minlength=k)
    total = np.sum([summary.counts for summary in summaries], axis=0)
    return Moments(total, means, scatters)


def calinski_harabasz_of(moments: Moments) -> float | None:
    """Return Calinski-Harabasz from moments; None where it is not defined.

    One where no cluster has any scatter, as in scikit-learn.
    """
    if is_collapsed(moments.counts):
        return None
    held = np.flatnonzero(moments.counts)
    counts, means = moments.counts[held].astype(np.float64), moments.means[held]
    n, k = counts.sum(), held.size
    within = moments.scatters[held].sum()
    if within <= n * _rounding(means):
        return 1.0
    middle = group_means(means, counts, np.zeros(k, dtype=np.int64), 1)
    between = (counts * ((means - middle) ** 2).sum(axis=1)).sum()
    return float(between * (n - k) / (within * (k - 1.0)))


def squared_silhouettes(X: Floats, labels: Ints, moments: Moments) -> Floats:
    """Return the silhouette of every row under squared distances, from moments.

    `moments` must cover the rows: a row's own cluster counts it in. Rows alone in
    their cluster score 0, as in scikit-learn; so do all rows of a single cluster.
    """
    held = np.flatnonzero(moments.counts)
    if np.any(moments.counts[labels] == 0):
        raise InputError(
            "a row's cluster is empty in the moments; combine the moments of every "
            "client that is scored"
        )
    values = np.zeros(X.shape[0])
    if held.size < 2:
        return values
    position = np.zeros(moments.counts.shape[0], dtype=np.int64)
    position[held] = np.arange(held.size)
    own = position[labels]
    size, means = moments.counts[held].astype(np.float64), moments.means[held]
    spread, nothing = moments.scatters[held] / size, _rounding(means)
    for part in blocks(X.shape[0], held.size):
        mean_square = squared_distances(X[part], means) + spread
        mean_square[mean_square <= nothing] = 0.0
        values[part] = silhouettes_of(mean_square, own[part], size)
    return values


def _rounding(means: Floats) -> float:
    """Squared distance to a mean that rounding alone can make."""
    ulp = ULPS * float(np.finfo(np.float64).eps) * float(np.abs(means).max())
    return float(means.shape[1] * ulp * ulp)

# SPDX-License-Identifier: Apache-2.0
"""Scores of a labelling from the rows themselves.

All but the Euclidean silhouette are what :mod:`afcl.metrics.federated` computes, for a
single client that has all rows.

What has no value is said so: the silhouettes of a collapsed labelling (fewer than two
clusters, or every row its own) are -1, so that collapsed runs are counted and never
left out of a mean; Calinski-Harabasz and Davies-Bouldin are None there.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.exceptions import InputError
from afcl.metrics._rows import (
    COLLAPSED,
    around_centers,
    as_codes,
    as_labels,
    as_rows,
    silhouettes_of,
)
from afcl.metrics.federated import (
    client_davies_bouldin,
    client_simplified_silhouette,
    client_squared_silhouette,
    combine_davies_bouldin,
    combine_simplified_silhouette,
    combine_squared_silhouette,
)
from afcl.metrics.moments import calinski_harabasz_of, client_moments

#: MiB of pairwise distances held at a time.
WORKING_MEMORY = 64

#: Up to so many features, distances from differences are faster, and exact.
FEW_FEATURES = 30


def silhouette(
    X: Floats,
    labels: Ints,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: int = 0,
    working_memory: int = WORKING_MEMORY,
) -> float:
    """Return the mean silhouette, `euclidean` or `sqeuclidean` (MATLAB's default).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows in the units in which distances are meant.
    labels : ndarray of shape (n_samples,)
        Their clusters, any integers.
    metric : {"euclidean", "sqeuclidean"}
        Which convention; published figures mix the two.
    sample : int, optional
        Score a seeded sample of so many rows when there are more. A cluster none of
        whose rows is drawn is not there.
    random_state : int
        Seed of the sample.
    working_memory : int
        MiB of distances held at a time (`euclidean`); the value does not depend on it.

    Returns
    -------
    float
        -1 when fewer than two clusters are left, or every row is its own.

    Notes
    -----
    `euclidean` takes time n^2 in bounded memory; `sqeuclidean` comes from the clusters'
    moments in time n k, exactly.

    Examples
    --------
    >>> import numpy as np
    >>> X, labels = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> round(silhouette(X, labels), 4), round(silhouette(X, labels, "sqeuclidean"), 4)
    (0.746, 0.9356)
    """
    rows = as_rows(X)
    if metric not in ("euclidean", "sqeuclidean"):
        raise InputError(f"metric {metric!r}; choose euclidean or sqeuclidean")
    labels = as_labels(labels, rows.shape[0])
    if sample is not None and rows.shape[0] > sample:
        chosen = np.random.default_rng(random_state).permutation(rows.shape[0])[:sample]
        rows, labels = rows[chosen], labels[chosen]
    codes, k = as_codes(labels, rows.shape[0])
    if not 2 <= k < rows.shape[0]:
        return COLLAPSED
    if metric == "sqeuclidean":
        moments = client_moments(rows, codes, k)
        sums = client_squared_silhouette(rows, codes, moments)
        return combine_squared_silhouette([sums])
    return _euclidean(rows, codes, working_memory)


def simplified_silhouette(
    X: Floats, labels: Ints, centers: Floats | None = None
) -> float:
    """Return the mean of (b - a) / max(a, b) with distances to centres only.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
        Clusters; positions in `centers` where these are given.
    centers : ndarray of shape (n_clusters, n_features), optional
        The clusters' means by default. A centre without rows counts as a neighbour.

    Returns
    -------
    float
        a is the distance to the centre of a row's label, b that to the nearest other
        one; -1 when fewer than two clusters hold rows, or every row is its own.

    Examples
    --------
    >>> import numpy as np
    >>> X, labels = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> round(simplified_silhouette(X, labels), 4)  # (1 - .5/4.5 + 1 - .5/3.5) / 2
    0.873
    """
    around = _around_means_or(X, labels, centers)
    return combine_simplified_silhouette([client_simplified_silhouette(*around)])


def calinski_harabasz(X: Floats, labels: Ints) -> float | None:
    """Return the Calinski-Harabasz index; None where it is not defined.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)

    Returns
    -------
    float or None
        More is better. None with fewer than two clusters or as many as rows; 1 if no
        cluster has any scatter, as in scikit-learn.
    """
    rows = as_rows(X)
    codes, k = as_codes(labels, rows.shape[0])
    return calinski_harabasz_of(client_moments(rows, codes, k))


def davies_bouldin(
    X: Floats, labels: Ints, centers: Floats | None = None
) -> float | None:
    """Return the Davies-Bouldin index; None where it is not defined.

    Parameters
    ----------
    X, labels
        As in :func:`simplified_silhouette`.
    centers : ndarray of shape (n_clusters, n_features), optional
        The clusters' means by default, which is scikit-learn's index. Centres without
        rows are left out.

    Returns
    -------
    float or None
        Less is better. None with fewer than two clusters or as many as rows.

    Notes
    -----
    Two clusters with the very same centre do not count as a pair, as in scikit-learn.
    """
    around = _around_means_or(X, labels, centers)
    return combine_davies_bouldin([client_davies_bouldin(*around)], around[2])


def adjusted_rand(truth: Ints, labels: Ints) -> float:
    """Return the adjusted Rand index of two labellings.

    Parameters
    ----------
    truth, labels : ndarray of shape (n_samples,)

    Returns
    -------
    float
        1 for the same partition, 0 in the mean over random ones.
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(truth, labels))


def normalized_mutual_info(truth: Ints, labels: Ints) -> float:
    """Return the mutual information of two labellings over their mean entropy.

    Parameters
    ----------
    truth, labels
        As in :func:`adjusted_rand`.

    Returns
    -------
    float
        1 for the same partition (also of two single clusters), 0 for independent ones.
    """
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(truth, labels))


def error_in_k(truth: AnyArray, labels: AnyArray) -> int:
    """Return how many clusters were found too many, or (negative) too few.

    Parameters
    ----------
    truth : ndarray of shape (n_samples,)
        The classes of the rows.
    labels : ndarray of shape (n_samples,)
        The clusters that were found.

    Returns
    -------
    int
        k' - k*: distinct labels minus distinct classes.

    Examples
    --------
    >>> import numpy as np
    >>> error_in_k(np.array([1, 1, 2, 5]), np.array([0, 0, 1, 1]))
    -1
    """
    return int(np.unique(labels).shape[0]) - int(np.unique(truth).shape[0])


def _around_means_or(
    X: Floats, labels: Ints, centers: Floats | None
) -> tuple[Floats, Ints, Floats]:
    """Return checked rows, positions and centres: those given, or the means."""
    if centers is not None:
        return around_centers(X, labels, centers)
    rows = as_rows(X)
    own, k = as_codes(labels, rows.shape[0])
    return rows, own, client_moments(rows, own, k).means


def _euclidean(rows: Floats, codes: Ints, working_memory: int) -> float:
    """Mean silhouette from all pairs of rows, some rows' distances at a time.

    Rows are sorted, so that a cluster's distances lie side by side.
    """
    order = np.argsort(codes, kind="stable")
    rows, codes = rows[order] - rows.mean(axis=0), codes[order]
    counts = np.bincount(codes)
    starts, size = np.cumsum(counts) - counts, counts.astype(np.float64)
    values = np.empty(rows.shape[0])
    step = max(1, int(working_memory * 2**20) // (8 * rows.shape[0]))
    for first in range(0, rows.shape[0], step):
        part = slice(first, first + step)
        means = np.add.reduceat(_distances(rows, part), starts, axis=1) / size
        values[part] = silhouettes_of(means, codes[part], size)
    return float(values.mean())


def _distances(rows: Floats, part: slice) -> Floats:
    """Distances of some rows to all; by dot products where that is faster."""
    from scipy.spatial.distance import cdist
    from sklearn.metrics import euclidean_distances

    if rows.shape[1] <= FEW_FEATURES:
        return np.asarray(cdist(rows[part], rows), dtype=np.float64)
    distances = np.asarray(euclidean_distances(rows[part], rows), dtype=np.float64)
    itself = np.arange(distances.shape[0])
    distances[itself, part.start + itself] = 0.0
    return distances

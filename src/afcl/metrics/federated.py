# SPDX-License-Identifier: Apache-2.0
"""The internal indices without pooling rows: a client's part and the server's part.

Every pair ``client_*`` / ``combine_*`` gives the value of the pooled index, whatever
rows are at which client. A client without rows may answer too. What a summary reveals
stands at its class; none is noised or folded here.

============================ ============================ ==========================
index                        a client sends               rounds
============================ ============================ ==========================
Calinski-Harabasz            :class:`Moments`             one
Davies-Bouldin               :class:`DistanceSums`        one, given the centres
simplified silhouette        :class:`SilhouetteSums`      one, given the centres
silhouette, squared          Moments, SilhouetteSums      two: moments, then sums
============================ ============================ ==========================

The Euclidean silhouette has no such twin: it needs distances between rows of different
clients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats, Ints
from afcl.exceptions import InputError
from afcl.metrics._rows import (
    COLLAPSED,
    around_centers,
    as_rows,
    blocks,
    check_alike,
    contrast,
    is_collapsed,
    sizes,
    squared_distances,
)
from afcl.metrics.moments import (
    Moments,
    calinski_harabasz_of,
    combine_moments,
    squared_silhouettes,
)


@dataclass(frozen=True, slots=True)
class DistanceSums:
    """Rows of every cluster and the sum of their distances to its centre.

    Reveals cluster sizes and mean distances at a client, no direction. A cluster that
    holds one row of a client reveals how far it lies from the centre; asked about
    more than n_features different centres, it can be located.

    Attributes
    ----------
    counts : ndarray of shape (n_clusters,)
    sums : ndarray of shape (n_clusters,)
    """

    counts: Ints
    sums: Floats


@dataclass(frozen=True, slots=True)
class SilhouetteSums:
    """Rows of every cluster and the sum of all the rows' silhouettes.

    Reveals cluster sizes at a client and one number between -n and n about how well
    its rows fit. A client with one row reveals that row's silhouette.

    Attributes
    ----------
    counts : ndarray of shape (n_clusters,)
    total : float
    """

    counts: Ints
    total: float


def combine_calinski_harabasz(summaries: Sequence[Moments]) -> float | None:
    """Return the pooled Calinski-Harabasz index from the clients' moments.

    Parameters
    ----------
    summaries : sequence of Moments
        From :func:`~afcl.metrics.client_moments`, one per client.

    Returns
    -------
    float or None
        As :func:`~afcl.metrics.calinski_harabasz`.

    Examples
    --------
    >>> import numpy as np
    >>> from afcl.metrics import client_moments
    >>> here = client_moments(np.array([[0.0], [2.0]]), np.array([0, 0]), 2)
    >>> there = client_moments(np.array([[9.0], [11.0]]), np.array([1, 1]), 2)
    >>> combine_calinski_harabasz([here, there])
    40.5
    """
    return calinski_harabasz_of(combine_moments(summaries))


def client_davies_bouldin(X: Floats, labels: Ints, centers: Floats) -> DistanceSums:
    """Sum a client's distances to the centres of its rows' clusters.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
        Positions in `centers`.
    centers : ndarray of shape (n_clusters, n_features)
        The same at every client.

    Returns
    -------
    DistanceSums
        What it reveals is said there.
    """
    rows, own, points = around_centers(X, labels, centers)
    sums = np.zeros(points.shape[0])
    for part in blocks(*rows.shape):
        residual = rows[part] - points[own[part]]
        distances = np.sqrt((residual * residual).sum(axis=1))
        sums += np.bincount(own[part], weights=distances, minlength=sums.shape[0])
    return DistanceSums(sizes(own, points.shape[0]), sums)


def combine_davies_bouldin(
    summaries: Sequence[DistanceSums], centers: Floats
) -> float | None:
    """Return the pooled Davies-Bouldin index with these centres.

    Parameters
    ----------
    summaries : sequence of DistanceSums
        One per client.
    centers : ndarray of shape (n_clusters, n_features)
        Those the clients were asked about. With the means of the clusters (see
        :func:`~afcl.metrics.combine_moments`) the index is scikit-learn's.

    Returns
    -------
    float or None
        As :func:`~afcl.metrics.davies_bouldin`.
    """
    counts = _total_counts([summary.counts for summary in summaries])
    points = as_rows(centers)
    if counts.shape[0] != points.shape[0]:
        raise InputError(
            f"summaries of {counts.shape[0]} clusters and {points.shape[0]} centres; "
            "give the centres the clients were asked about"
        )
    if is_collapsed(counts):
        return None
    held = np.flatnonzero(counts)
    radii = np.sum([summary.sums for summary in summaries], axis=0)[held] / counts[held]
    apart = np.sqrt(squared_distances(points[held], points[held]))
    apart[apart == 0] = np.inf
    ratios = (radii[:, None] + radii[None, :]) / apart
    return float(ratios.max(axis=1).mean())


def client_simplified_silhouette(
    X: Floats, labels: Ints, centers: Floats
) -> SilhouetteSums:
    """Sum the simplified silhouettes of a client's rows.

    Parameters
    ----------
    X, labels, centers
        As in :func:`client_davies_bouldin`.

    Returns
    -------
    SilhouetteSums
        What it reveals is said there.
    """
    rows, own, points = around_centers(X, labels, centers)
    values = _simplified_silhouettes(rows, own, points)
    return SilhouetteSums(sizes(own, points.shape[0]), float(values.sum()))


def combine_simplified_silhouette(summaries: Sequence[SilhouetteSums]) -> float:
    """Return the pooled simplified silhouette from the clients' sums.

    Parameters
    ----------
    summaries : sequence of SilhouetteSums
        From :func:`client_simplified_silhouette`, one per client.

    Returns
    -------
    float
        As :func:`~afcl.metrics.simplified_silhouette`, -1 for a collapsed labelling.
    """
    return _mean_of(summaries)


def client_squared_silhouette(
    X: Floats, labels: Ints, moments: Moments
) -> SilhouetteSums:
    """Sum the silhouettes of a client's rows under squared distances.

    The second step of two: `moments` are those of *all* clients, this one included.

    Parameters
    ----------
    X, labels
        Rows and clusters as in the first step.
    moments : Moments
        From :func:`~afcl.metrics.combine_moments`.

    Returns
    -------
    SilhouetteSums
        What it reveals is said there.
    """
    rows, own, means = around_centers(X, labels, moments.means)
    values = squared_silhouettes(rows, own, moments)
    return SilhouetteSums(sizes(own, means.shape[0]), float(values.sum()))


def combine_squared_silhouette(summaries: Sequence[SilhouetteSums]) -> float:
    """Return the pooled silhouette under squared distances from the clients' sums.

    Parameters
    ----------
    summaries : sequence of SilhouetteSums
        From :func:`client_squared_silhouette`, one per client.

    Returns
    -------
    float
        As :func:`~afcl.metrics.silhouette` with `metric="sqeuclidean"`, -1 for a
        collapsed labelling.
    """
    return _mean_of(summaries)


def _simplified_silhouettes(X: Floats, labels: Ints, centers: Floats) -> Floats:
    """Return (b - a) / max(a, b) of every row; 0 where there is one centre only."""
    values = np.zeros(X.shape[0])
    if centers.shape[0] < 2:
        return values
    for part in blocks(X.shape[0], centers.shape[0]):
        distances = np.sqrt(squared_distances(X[part], centers))
        rows, own = np.arange(distances.shape[0]), labels[part]
        inside = distances[rows, own]
        distances[rows, own] = np.inf
        values[part] = contrast(inside, distances.min(axis=1))
    return values


def _total_counts(counts: Sequence[Ints]) -> Ints:
    """Add up the clients' cluster sizes, or say why they cannot be."""
    check_alike([part.shape for part in counts])
    total: Ints = np.sum(counts, axis=0)
    return total


def _mean_of(summaries: Sequence[SilhouetteSums]) -> float:
    """Mean silhouette of all rows; the order of the clients does not matter."""
    counts = _total_counts([summary.counts for summary in summaries])
    if is_collapsed(counts):
        return COLLAPSED
    return math.fsum(summary.total for summary in summaries) / float(counts.sum())

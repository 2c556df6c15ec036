# SPDX-License-Identifier: Apache-2.0
"""Spectral clustering of a graph, after Ng, Jordan and Weiss (2002)."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.seeding import weighted_kmeans
from afcl.kernels import assign

#: Nodes up to which a component's eigenvectors are found without iteration.
DENSE = 500


def spectral_labels(
    affinity: Floats, k: int, rng: np.random.Generator, restarts: int
) -> Ints:
    """Label the nodes of a graph by k-means on its leading eigenvectors.

    Parameters
    ----------
    affinity : ndarray of shape (n, n)
        Symmetric, not negative.
    k : int
        Clusters wanted; fewer come back where the nodes do not allow as many.
    rng : Generator
        Draws the starts of k-means.
    restarts : int
        Runs of k-means.

    Returns
    -------
    labels : ndarray of shape (n,)
        From 0, without gaps.
    """
    n = affinity.shape[0]
    k = min(k, n)
    if k == 1:
        return np.zeros(n, dtype=np.int64)
    rows = unit_rows(_leading_vectors(normalised(affinity), k, rng))
    centers = weighted_kmeans(rows, np.ones(n), k, rng, restarts)
    return without_gaps(assign(rows, centers)[0])


def normalised(affinity: Floats) -> Floats:
    """Return D^-1/2 W D^-1/2; a node without edges has none afterwards either."""
    degree = affinity.sum(axis=1)
    scale = np.where(degree > 0, 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0)), 0.0)
    balanced: Floats = scale[:, None] * affinity * scale[None, :]
    return balanced


def _leading_vectors(matrix: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Return eigenvectors of the k largest eigenvalues, (n, k).

    Found component by component: 1 is an eigenvalue of every one of them, and solvers
    miss or mix equal eigenvalues. Of equal ones the larger component's come first.
    """
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(matrix)
    found: list[tuple[float, int, Ints, Floats]] = []
    for c in range(int(component.max()) + 1):
        nodes = np.flatnonzero(component == c)
        values, vectors = _largest(matrix[np.ix_(nodes, nodes)], k, rng)
        for value, vector in zip(values, vectors.T, strict=True):
            found.append((-round(float(value), 9), -nodes.shape[0], nodes, vector))
    found.sort(key=lambda pair: pair[:2])
    leading = np.zeros((matrix.shape[0], k))
    for column, (_, _, nodes, vector) in enumerate(found[:k]):
        leading[nodes, column] = vector
    return leading


def _largest(matrix: Floats, k: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return at most k largest eigenvalues of a connected graph and their vectors."""
    from scipy.linalg import eigh
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    n = matrix.shape[0]
    k = min(k, n)
    if n > DENSE and 4 * k < n:
        start = rng.standard_normal(n)
        try:
            values, vectors = eigsh(
                csr_array(matrix), k, which="LA", v0=start, ncv=max(40, 2 * k + 1)
            )
            return values[::-1], vectors[:, ::-1]
        except ArpackNoConvergence:  # pragma: no cover - not seen, but documented
            pass
    values, vectors = eigh(matrix, subset_by_index=[n - k, n - 1])
    return values[::-1], vectors[:, ::-1]


def unit_rows(X: Floats) -> Floats:
    """Scale every row to length 1; rows of length 0 stay as they are."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    scaled: Floats = X / np.where(lengths > 0, lengths, 1.0)
    return scaled


def without_gaps(labels: Ints) -> Ints:
    """Renumber labels from 0, in sorted order."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)

# SPDX-License-Identifier: Apache-2.0
"""Subspace clustering of unit rows: the graphs of SSC and TSC, and subspaces.

Sparse subspace clustering: Elhamifar and Vidal, TPAMI 2013. Thresholding based subspace
clustering: Heckel and Bölcskei, IEEE Trans. Inf. Theory 2015.
"""

from __future__ import annotations

import warnings

import numpy as np

from afcl._typing import Floats, Ints
from afcl_bench.methods.spectral import spectral_labels, unit_rows

#: Largest number of coefficients a row may keep.
COEFFICIENTS = 50
#: Largest number of steps to find them.
STEPS = 100
#: Singular values that are looked at for the number of clusters.
VALUES = 60
#: Largest dimension of a subspace that is estimated.
DIMENSION = 15
#: Runs of k-means in a spectral clustering.
RESTARTS = 20


def sparse_affinity(X: Floats, gamma: float) -> Floats:
    """Return the graph of SSC: who takes part in expressing whom.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of unit length (or of length 0, which express nothing).
    gamma : float
        A row's penalty is its largest absolute product with another row over gamma.

    Returns
    -------
    affinity : ndarray of shape (n, n)
        (|C| + |C|^T) / 2 with rows of the coefficients C scaled to unit length.
    """
    products = np.abs(X @ X.T)
    np.fill_diagonal(products, 0.0)
    penalties = products.max(axis=1) / gamma
    coefficients = np.zeros_like(products)
    for i in np.flatnonzero(penalties > 0):
        others = np.delete(np.arange(X.shape[0]), i)
        coefficients[i, others] = _lasso(X[others], X[i], float(penalties[i]))
    sizes = unit_rows(np.abs(coefficients))
    affinity: Floats = (sizes + sizes.T) / 2.0
    return affinity


def _lasso(atoms: Floats, row: Floats, penalty: float) -> Floats:
    """Minimise |row - atoms^T c|^2 / 2 + penalty |c|_1; keep the largest entries."""
    from sklearn.linear_model import lars_path

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal atoms: LARS drops one and says so
        _, _, found = lars_path(
            atoms.T,
            row,
            method="lasso",
            alpha_min=penalty / row.shape[0],  # its loss is a mean over features
            max_iter=STEPS,
            return_path=False,
        )
    coefficients: Floats = np.nan_to_num(found, posinf=0.0, neginf=0.0)
    smallest = np.argsort(-np.abs(coefficients), kind="stable")[COEFFICIENTS:]
    coefficients[smallest] = 0.0
    return coefficients


def cosine_affinity(X: Floats, neighbours: int) -> Floats:
    """Return the graph of TSC: exp(-2 arccos |cos|) to the closest `neighbours`.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of unit length.
    neighbours : int
        Edges every row asks for, at most n - 1; an edge that either end asked for
        counts half, one that both did counts whole.

    Returns
    -------
    affinity : ndarray of shape (n, n)
    """
    n = X.shape[0]
    cosines = np.minimum(np.abs(X @ X.T), 1.0)
    np.fill_diagonal(cosines, -1.0)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, : min(neighbours, n - 1)]
    rows = np.arange(n)[:, None]
    edges = np.zeros((n, n))
    edges[rows, nearest] = np.exp(-2.0 * np.arccos(cosines[rows, nearest]))
    affinity: Floats = (edges + edges.T) / 2.0
    return affinity


def largest_drop(values: Floats) -> int:
    """Return how many values come before the largest drop of a falling sequence."""
    if values.shape[0] < 2:
        return 1
    return int(np.argmax(values[:-1] - values[1:])) + 1


def count_clusters(affinity: Floats, most: int) -> int:
    """Guess the number of clusters of a graph, at most `most`."""
    values = np.linalg.svd(affinity, compute_uv=False, hermitian=True)[:VALUES]
    return min(most, largest_drop(np.asarray(values, dtype=np.float64)))


def span(X: Floats, dimension: int | None) -> Floats:
    """Return an orthonormal basis of the subspace near uncentred rows, (r, d).

    Parameters
    ----------
    X : ndarray of shape (n, d)
    dimension : int or None
        r, at most the rank; None: before the largest drop of the singular values.

    Returns
    -------
    basis : ndarray of shape (r, d)
        Without rows where all of X is 0.
    """
    _, values, directions = np.linalg.svd(X, full_matrices=False)
    rank = int((values > values[0] * max(X.shape) * np.finfo(np.float64).eps).sum())
    wanted = dimension or largest_drop(values[: DIMENSION + 1])
    basis: Floats = directions[: min(wanted, rank)]
    return basis


def draw_direction(basis: Floats, rng: np.random.Generator) -> Floats:
    """Draw a unit vector of a subspace; the zero vector where there is none."""
    weights = rng.standard_normal(basis.shape[0])
    direction: Floats = unit_rows((weights @ basis)[None, :])[0]
    return direction


def closest_subspace(X: Floats, bases: list[Floats]) -> Ints:
    """Return the subspace that leaves the smallest residual of every row."""
    kept = np.column_stack([((X @ basis.T) ** 2).sum(axis=1) for basis in bases])
    largest: Ints = kept.argmax(axis=1).astype(np.int64)
    return largest


def one_per_line(X: Floats) -> tuple[Floats, Ints]:
    """Return one row of every line through the origin, and the line of every row."""
    first = np.argmax(np.abs(X) > 1e-9, axis=1)
    signs = np.sign(X[np.arange(X.shape[0]), first])
    _, kept, line = np.unique(
        np.round(X * signs[:, None], 9) + 0.0,
        axis=0,
        return_index=True,
        return_inverse=True,
    )
    return X[kept], line.astype(np.int64)


def sparse_clusters(
    X: Floats, k: int | None, most: int, gamma: float, rng: np.random.Generator
) -> Ints:
    """Label unit rows by SSC, with k clusters or as many as the graph suggests.

    Rows on one line are one node: a row needs no other to be expressed by its copy,
    so that copies would keep to themselves.
    """
    nodes, line = one_per_line(X)
    if nodes.shape[0] == 1:
        return line
    affinity = sparse_affinity(nodes, gamma)
    wanted = k if k is not None else count_clusters(affinity, most)
    labels: Ints = spectral_labels(affinity, min(wanted, most), rng, RESTARTS)[line]
    return labels


def cosine_clusters(
    X: Floats, k: int, neighbours: int, rng: np.random.Generator
) -> Ints:
    """Label unit rows by TSC; rows on one line are one node."""
    nodes, line = one_per_line(X)
    affinity = cosine_affinity(nodes, neighbours)
    labels: Ints = spectral_labels(affinity, k, rng, RESTARTS)[line]
    return labels

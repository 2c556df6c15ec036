# SPDX-License-Identifier: Apache-2.0
"""Rows, labels and distances as every index needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.exceptions import InputError

#: Score of a labelling that has no silhouette: one cluster, or every row its own.
COLLAPSED = -1.0

#: Numbers in one block of distances: 8 MiB.
BLOCK = 2**20


def as_rows(X: Floats) -> Floats:
    """Return X as finite float64 rows, or say what is wrong with it."""
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise InputError(
            f"X has the shape {rows.shape}; give a table, one row per object"
        )
    if not np.isfinite(rows).all():
        raise InputError("X holds numbers that are not finite; drop or fill them")
    return rows


def as_labels(labels: AnyArray, n_rows: int) -> AnyArray:
    """Return the labels as a column of `n_rows` entries, or say what is wrong."""
    column = np.asarray(labels)
    if column.shape != (n_rows,):
        raise InputError(
            f"{n_rows} rows and labels of shape {column.shape}; give one label per row"
        )
    return column


def as_codes(labels: AnyArray, n_rows: int) -> tuple[Ints, int]:
    """Renumber any labels from 0 in sorted order; return them and how many occur."""
    found, codes = np.unique(as_labels(labels, n_rows), return_inverse=True)
    return codes.astype(np.int64), int(found.shape[0])


def as_indices(labels: Ints, n_rows: int, n_clusters: int) -> Ints:
    """Return labels that are positions below `n_clusters`, or say what is wrong."""
    column = as_labels(labels, n_rows)
    if column.size == 0:
        return np.zeros(0, dtype=np.int64)
    if not np.issubdtype(column.dtype, np.integer):
        raise InputError(f"labels are {column.dtype}; number the clusters from 0")
    if column.min() < 0 or column.max() >= n_clusters:
        raise InputError(
            f"labels run from {column.min()} to {column.max()} but there are "
            f"{n_clusters} clusters; number them from 0 to {n_clusters - 1}"
        )
    return column.astype(np.int64)


def as_centers(centers: Floats, n_features: int) -> Floats:
    """Return the centres as finite float64 rows of `n_features` columns."""
    points = as_rows(centers)
    if points.shape[1] != n_features:
        raise InputError(
            f"rows have {n_features} columns and centres {points.shape[1]}; "
            "use the same columns for both"
        )
    return points


def around_centers(
    X: Floats, labels: Ints, centers: Floats
) -> tuple[Floats, Ints, Floats]:
    """Return rows, positions and centres that fit one another, or say why not."""
    rows = as_rows(X)
    points = as_centers(centers, rows.shape[1])
    return rows, as_indices(labels, rows.shape[0], points.shape[0]), points


def check_alike(shapes: Sequence[tuple[int, ...]]) -> None:
    """Refuse clients' summaries, of these shapes, that cannot be added up."""
    if not shapes:
        raise InputError("no summaries to combine; at least one client must answer")
    if len(set(shapes)) > 1:
        raise InputError(
            f"summaries of different clusters or columns {sorted(set(shapes))}; "
            "ask every client about the same clustering"
        )


def sizes(labels: Ints, n_clusters: int) -> Ints:
    """Count the rows of every cluster."""
    return np.bincount(labels, minlength=n_clusters).astype(np.int64)


def is_collapsed(counts: Ints) -> bool:
    """Say whether fewer than two clusters hold rows, or every row is its own."""
    return not 2 <= np.count_nonzero(counts) < counts.sum()


def blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Cut rows into slices whose distances to `width` points fit one block."""
    step = max(1, BLOCK // max(1, width))
    for start in range(0, n_rows, step):
        yield slice(start, start + step)


def squared_distances(X: Floats, centers: Floats) -> Floats:
    """Squared distances from differences, (n, k): exact also far from the origin."""
    total = np.zeros((X.shape[0], centers.shape[0]))
    for column in range(X.shape[1]):
        difference = X[:, column, None] - centers[None, :, column]
        total += difference * difference
    return total


def contrast(inside: Floats, outside: Floats) -> Floats:
    """Return (b - a) / max(a, b), and 0 where both are 0."""
    larger = np.maximum(inside, outside)
    usable = larger > 0
    return np.where(usable, (outside - inside) / np.where(usable, larger, 1.0), 0.0)


def silhouettes_of(distances: Floats, labels: Ints, counts: Floats) -> Floats:
    """Turn mean distances to the members of every cluster, (n, k), into silhouettes.

    A row counts among the members of its own cluster, at distance 0; alone in it, it
    scores 0. `distances` is overwritten.
    """
    rows, size = np.arange(labels.shape[0]), counts[labels]
    inside = distances[rows, labels] * size / np.maximum(size - 1.0, 1.0)
    distances[rows, labels] = np.inf
    values = contrast(inside, distances.min(axis=1))
    return np.where(size > 1, values, 0.0)


def group_means(X: Floats, weights: Floats, labels: Ints, n_clusters: int) -> Floats:
    """Weighted mean of every cluster's rows, (k, d); 0 where there are none.

    The mean of the residuals is added once: what is left of rounding does not grow
    with the number of rows or the distance to the origin.
    """
    mass = np.bincount(labels, weights=weights, minlength=n_clusters)
    shares = weights / mass[labels]
    means = _group_sums(X, shares, labels, n_clusters)
    means += _group_sums(X - means[labels], shares, labels, n_clusters)
    return means


def _group_sums(X: Floats, weights: Floats, labels: Ints, n_clusters: int) -> Floats:
    """Weighted sum of every cluster's rows, (k, d)."""
    total = np.zeros((n_clusters, X.shape[1]))
    for column in range(X.shape[1]):
        total[:, column] += np.bincount(
            labels, weights=weights * X[:, column], minlength=n_clusters
        )
    return total

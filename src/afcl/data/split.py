# SPDX-License-Identifier: Apache-2.0
"""Who owns which row: ways of spreading one table over clients.

Each returns the owner of every row, numbered from 0, and leaves no client empty.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from afcl._typing import Floats, Ints
from afcl.data.synthetic import Seed
from afcl.exceptions import InputError
from afcl.scale import minmax_box, ranges_of

#: Draws of Dirichlet shares before empty clients are given a row each.
REDRAWS = 10


def kmeans_split(
    X: Floats, n_clients: int, random_state: Seed, min_rows: int = 1
) -> Ints:
    """Give each client one k-means cluster: no two clients overlap.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    n_clients : int
        Fewer come back if X has fewer distinct rows, or if small ones are merged.
    random_state : int, SeedSequence, Generator or None
    min_rows : int
        Clients with fewer rows are merged into the one with the nearest mean.

    Returns
    -------
    owners : ndarray of shape (n_samples,)
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    _check_clients(n_clients, X.shape[0])
    seed = int(np.random.default_rng(random_state).integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows
        found = KMeans(n_clients, n_init=1, random_state=seed).fit(X).labels_
    return merge_small(X, column_split(found), min_rows)


def iid_split(n_samples: int, n_clients: int, random_state: Seed) -> Ints:
    """Deal the rows out at random, in equal numbers (give or take one).

    Parameters
    ----------
    n_samples, n_clients : int
    random_state : int, SeedSequence, Generator or None

    Returns
    -------
    owners : ndarray of shape (n_samples,)
    """
    _check_clients(n_clients, n_samples)
    rng = np.random.default_rng(random_state)
    return rng.permutation(np.arange(n_samples, dtype=np.int64) % n_clients)


def dirichlet_split(
    y: ArrayLike, n_clients: int, alpha: float, random_state: Seed
) -> Ints:
    """Spread each class over the clients by shares drawn from a Dirichlet law.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        The class of each row.
    n_clients : int
    alpha : float
        Small: each class at few clients. Large: every client sees the same mixture.
    random_state : int, SeedSequence, Generator or None

    Returns
    -------
    owners : ndarray of shape (n_samples,)

    Notes
    -----
    Shares are drawn anew, up to 10 times, while a client is empty; what is still empty
    then gets one row of the client with the most.
    """
    classes = column_split(y)
    _check_clients(n_clients, classes.size)
    if not alpha > 0:
        raise InputError(f"alpha is {alpha}; use a number above 0")
    rng = np.random.default_rng(random_state)
    for _ in range(REDRAWS):
        owners = _draw_owners(classes, n_clients, alpha, rng)
        if np.unique(owners).size == n_clients:
            break
    return _fill_empty(owners, n_clients)


def column_split(values: ArrayLike) -> Ints:
    """Give each distinct value of a column its own client, in sorted order.

    Parameters
    ----------
    values : array-like of shape (n_samples,)
        Numbers or names.

    Returns
    -------
    owners : ndarray of shape (n_samples,)

    Examples
    --------
    >>> column_split(["north", "east", "north"]).tolist()
    [1, 0, 1]
    """
    column = np.asarray(values)
    if column.ndim != 1 or column.size == 0:
        raise InputError("a split by column needs one value per row, and a row")
    if any(value is None or value != value for value in column.tolist()):
        raise InputError("the column to split by has missing values; fill them in")
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def paper_leak_split(
    X: Floats, y: ArrayLike, n_clients: int, random_state: Seed
) -> Ints:
    """Split by k-means on the features and the class column, as the published code.

    For reproduction only. Features are min-max scaled first, the class is not: it
    decides nearly alone who owns what.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Numbers enter as they are, names as 1, 2, … in sorted order.
    n_clients : int
    random_state : int, SeedSequence, Generator or None

    Returns
    -------
    owners : ndarray of shape (n_samples,)
    """
    column = np.asarray(y)
    if column.dtype.kind not in "biuf":
        column = column_split(column) + 1
    scaled = minmax_box([ranges_of(X)]).scale(X)
    return kmeans_split(np.column_stack((scaled, column)), n_clients, random_state)


def merge_small(X: Floats, owners: Ints, min_rows: int) -> Ints:
    """Merge clients below `min_rows`, smallest first, into the one with nearest mean.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    owners : ndarray of shape (n_samples,)
        No client may be empty.
    min_rows : int

    Returns
    -------
    owners : ndarray of shape (n_samples,)
        Numbered anew from 0, in the old order.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [6.0], [9.0], [10.0]])
    >>> merge_small(X, np.array([0, 0, 1, 2, 2]), 2).tolist()
    [0, 0, 1, 1, 1]
    """
    if X.shape[0] < min_rows:
        raise InputError(f"{X.shape[0]} rows cannot make a client of {min_rows}")
    target = np.arange(owners.max() + 1)
    counts = np.bincount(owners).astype(np.float64)
    sums = np.stack([np.bincount(owners, column) for column in X.T], axis=1)
    means: Floats = sums / counts[:, None]
    while counts.min() < min_rows:
        small = int(counts.argmin())
        gaps = ((means - means[small]) ** 2).sum(axis=1)
        gaps[small] = np.inf
        near = int(gaps.argmin())
        total = counts[small] + counts[near]
        means[near] += (means[small] - means[near]) * counts[small] / total
        counts[near], counts[small], means[small] = total, np.inf, np.inf
        target[target == small] = near
    return column_split(target[owners])


def _draw_owners(
    classes: Ints, n_clients: int, alpha: float, rng: np.random.Generator
) -> Ints:
    """Cut each class, in random order, at shares drawn for it."""
    owners = np.empty(classes.size, dtype=np.int64)
    for c in range(classes.max() + 1):
        rows = rng.permutation(np.flatnonzero(classes == c))
        shares = rng.dirichlet(np.full(n_clients, float(alpha)))
        cuts = np.rint(np.cumsum(shares)[:-1] * rows.size).astype(np.int64)
        owners[rows] = np.searchsorted(cuts, np.arange(rows.size), side="right")
    return owners


def _fill_empty(owners: Ints, n_clients: int) -> Ints:
    """Give every empty client one row of the client that has most."""
    counts = np.bincount(owners, minlength=n_clients)
    for empty in np.flatnonzero(counts == 0):
        largest = int(counts.argmax())
        owners[np.flatnonzero(owners == largest)[0]] = empty
        counts[largest] -= 1
        counts[empty] = 1
    return owners


def _check_clients(n_clients: int, n_samples: int) -> None:
    if not 1 <= n_clients <= n_samples:
        raise InputError(
            f"n_clients is {n_clients}; use a number between 1 and the {n_samples} rows"
        )

# SPDX-License-Identifier: Apache-2.0
"""Rows with gaps: filled from rows like them, set aside where these do not agree.

A site fills its gaps by itself, before it says anything: with the mean of the five rows
that are nearest in the columns both have. Where these five disagree, a filled row would
lie between clusters, where no row is. Such a row does not speak: others decide which
clusters there are, and at the end it gets the label of the centre that is nearest in
the columns it has. See docs/decisions/0033-gaps.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from afcl._typing import Bools, Floats, Ints

#: Rows that a gap is filled from.
DONORS = 5
#: Rows that are looked at for them, about, evenly taken from all.
LOOKED_AT = 4096
#: A row speaks if what its donors leave open is less than this share of the spread of
#: a whole row, both as lengths.
OPEN = 0.4
#: Rows that are filled together.
TOGETHER = 256

# Ways to deal with gaps that keep rows which have some.
#: Rows whose gaps can be filled well speak.
IMPUTE = "impute"
#: Only rows without gaps speak.
AVAILABLE = "available"
#: The same, and what each leaves open.
KEEPING = {IMPUTE: OPEN, AVAILABLE: 0.0}


class Filled(NamedTuple):
    """Rows without gaps, and which of them speak."""

    rows: Floats
    speak: Bools


def has_gaps(X: Floats) -> bool:
    """Whether a table has a gap; the least value is NaN if any is."""
    return bool(X.size and np.isnan(X.min()))


def fill(X: Floats, typical: Floats, how: str = IMPUTE) -> Filled:
    """Fill the gaps of one site's rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows in agreed units, NaN where there is no value.
    typical : ndarray of shape (d,)
        Stands where fewer than five rows have a value.
    how : {"impute", "available"}
        Which rows with gaps speak: those that can be filled well, or none.

    Returns
    -------
    Filled
        At least a few rows speak: if fewer than :data:`DONORS` would, all do.

    Examples
    --------
    >>> X = np.array([[0.0, 0.1], [0.0, 0.1], [1.0, 0.9], [0.0, np.nan]] * 5)
    >>> fill(X, np.zeros(2)).rows[3].round(2)
    array([0. , 0.1])
    """
    rows, speak = _speak(X, typical, how)
    if int(speak.sum()) < DONORS:
        speak[:] = True
    return Filled(rows, speak)


def _speak(X: Floats, typical: Floats, how: str) -> tuple[Floats, Bools]:
    """Return filled rows, and which of them are filled well."""
    rows, gaps = X.copy(), np.isnan(X)
    incomplete = np.flatnonzero(gaps.any(axis=1))
    speak = np.ones(X.shape[0], dtype=np.bool_)
    looked_at = _looked_at(X.shape[0])
    spread = _spread(X)
    for start in range(0, incomplete.shape[0], TOGETHER):
        some = incomplete[start : start + TOGETHER]
        values, left_open = _from_donors(X, some, looked_at, typical, spread)
        rows[some] = np.where(gaps[some], values, X[some])
        share = np.where(gaps[some], left_open, 0.0).sum(axis=1) / spread.sum()
        speak[some] = share < KEEPING[how] ** 2
    return rows, speak


def speaking(
    X: Floats, how: str = IMPUTE, bounds: tuple[Floats, Floats] | None = None
) -> int:
    """Return how many rows would speak by the site's own scale, before one is agreed.

    `bounds` are those of columns that need no agreement (NaN: the others).

    Examples
    --------
    >>> speaking(np.array([[0.0, np.nan], [1.0, np.nan], [5.0, np.nan]]))
    0
    """
    if not has_gaps(X):
        return int(X.shape[0])
    known = ~np.isnan(X)
    low = np.where(known, X, np.inf).min(axis=0)
    high = np.where(known, X, -np.inf).max(axis=0)
    if bounds is not None:
        low = np.where(np.isnan(bounds[0]), low, bounds[0])
        high = np.where(np.isnan(bounds[1]), high, bounds[1])
    span = np.where(high > low, high - low, 1.0)
    scaled = (X - np.where(np.isfinite(low), low, 0.0)) / span
    return int(_speak(scaled, np.full(X.shape[1], 0.5), how)[1].sum())


def _looked_at(n: int) -> Ints:
    """Return who may be a donor, in an order that has nothing to do with the rows'.

    Files are often sorted: of equally near rows the first would all be of one kind.
    """
    step = max(1, n // LOOKED_AT)
    mixed: Ints = np.random.default_rng(n).permutation(np.arange(0, n, step))
    return mixed


def _spread(X: Floats) -> Floats:
    """Return the variance of every column; a usual one where there are few values."""
    held = ~np.isnan(X)
    count = held.sum(axis=0)
    mean = np.where(held, X, 0.0).sum(axis=0) / np.maximum(1, count)
    variance = (np.where(held, X - mean, 0.0) ** 2).sum(axis=0) / np.maximum(1, count)
    known = count > DONORS
    usual = np.median(variance[known]) if known.any() else 1.0
    spread: Floats = np.where(known, variance, usual)
    return spread if spread.sum() > 0 else np.ones_like(spread)


def _from_donors(
    X: Floats, some: Ints, looked_at: Ints, typical: Floats, spread: Floats
) -> tuple[Floats, Floats]:
    """Return what donors say of every column, and their variance: what is open."""
    donors = X[looked_at]
    squares = _squares(X[some], donors)
    squares[some[:, None] == looked_at] = np.inf  # nobody is its own donor
    values = np.tile(typical, (some.shape[0], 1))
    left_open = np.tile(spread, (some.shape[0], 1))
    for column in np.flatnonzero(np.isnan(X[some]).any(axis=0)):
        held = np.flatnonzero(~np.isnan(donors[:, column]))
        if held.shape[0] <= DONORS:
            continue
        # Of equally near ones the first, which is a random one.
        nearest = np.argsort(squares[:, held], axis=1, kind="stable")[:, :DONORS]
        known = np.isfinite(np.take_along_axis(squares[:, held], nearest, axis=1))
        values_of_donors = donors[held, column][nearest]
        enough = known.all(axis=1)
        values[enough, column] = values_of_donors[enough].mean(axis=1)
        variance = values_of_donors[enough].var(axis=1, ddof=1)
        left_open[enough, column] = np.minimum(spread[column], variance)
    return values, left_open


def _squares(A: Floats, B: Floats) -> Floats:
    """Return mean squared differences over columns that both have; inf: there is none.

    Examples
    --------
    >>> _squares(np.array([[1.0, np.nan]]), np.array([[3.0, 9.0], [np.nan, 1.0]]))
    array([[ 4., inf]])
    """
    a, b = ~np.isnan(A), ~np.isnan(B)
    u, v = np.where(a, A, 0.0), np.where(b, B, 0.0)
    both = a.astype(np.float64) @ b.T.astype(np.float64)
    squares = (u * u) @ b.T + a @ (v * v).T - 2 * (u @ v.T)
    mean: Floats = np.where(both > 0, squares / np.maximum(both, 1), np.inf)
    return mean


def completed(X: Floats, centers: Floats) -> Floats:
    """Return rows whose gaps are those of the centre nearest in what they have.

    Whoever then looks for the nearest centre finds this one.

    Examples
    --------
    >>> completed(np.array([[0.9, np.nan]]), np.array([[0.0, 0.2], [1.0, 0.7]]))
    array([[0.9, 0.7]])
    """
    gaps = np.isnan(X)
    incomplete = np.flatnonzero(gaps.any(axis=1))
    rows = X.copy()
    for start in range(0, incomplete.shape[0], TOGETHER):
        some = incomplete[start : start + TOGETHER]
        nearest = _squares(X[some], centers).argmin(axis=1)
        rows[some] = np.where(gaps[some], centers[nearest], X[some])
    return rows

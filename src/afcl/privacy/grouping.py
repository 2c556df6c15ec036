# SPDX-License-Identifier: Apache-2.0
"""Groups of at least m rows that are formed once and stand for their rows ever after.

MDAV: Domingo-Ferrer and Mateo-Sanz (2002), Practical data-oriented microaggregation for
statistical disclosure control, IEEE TKDE 14(1). Whatever is computed from the groups'
counts, means and scatters tells no more about a row than they do, in any number of
messages; forming groups anew for a message would undo that.

A group of equal rows has their place as its mean and no scatter: m-anonymity hides who
a row belongs to, not a value that m rows share.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cells import cells_of
from afcl.core.messages import Cells
from afcl.core.rounding import MOST_OF_REACH
from afcl.exceptions import InputError
from afcl.kernels import microaggregate

#: Rows up to which MDAV sees all of them at once; its work grows with their square.
EXACT = 4096
#: Beyond that it works in parts of at most so many rows, cut at medians.
PART = 2048


def group_rows(X: Floats, smallest: int) -> Ints:
    """Group similar rows, at least `smallest` and at most twice that less one.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    smallest : int

    Returns
    -------
    labels : ndarray of shape (n,)
        0 … g - 1; the same rows in the same order get the same labels.

    Notes
    -----
    Columns are compared in units of their standard deviation at this client. More than
    :data:`EXACT` rows are first cut at medians, each time of the widest column.

    Examples
    --------
    >>> group_rows(np.array([[0.0], [9.0], [1.0], [8.0]]), 2).tolist()
    [0, 1, 0, 1]
    """
    n = X.shape[0]
    if smallest < 1:
        raise InputError(f"groups of {smallest} rows cannot be: ask for at least 1")
    if n < smallest:
        raise InputError(
            f"this client has {n} {'row' if n == 1 else 'rows'}, too few for a group "
            f"of {smallest}: merge it with another client or ask for smaller groups"
        )
    if not np.isfinite(X).all():
        raise InputError(
            "rows with missing or infinite values cannot be grouped: drop them"
        )
    standard = _standardised(np.ascontiguousarray(X))  # sums in one order
    # The work of MDAV grows with the square of the rows.
    if n <= EXACT:
        return microaggregate(standard, smallest)
    labels = np.empty(n, dtype=np.int64)
    groups = 0
    # At least two groups fit into a part, however large groups are.
    for part in _parts(standard, max(PART, 2 * smallest)):
        inside = microaggregate(standard[part], smallest)
        labels[part] = inside + groups
        groups += int(inside.max()) + 1
    return labels


def without_rare(X: Floats, smallest: int) -> Floats:
    """Return rows in which no few rows share a value, in columns of few values.

    Where a column has few values, the mean of a group tells how many of its rows have
    which: a rare level of a category, the one who said yes. So values that fewer than
    `smallest` rows have become the nearest one that more have. A column of many values
    stays as it is, unless all but so few rows have the same.

    Examples
    --------
    >>> X = np.array([[0.0, 1.5], [0.0, 2.5], [1.0, 3.5], [0.0, 4.5]])
    >>> without_rare(X, 2)[:, 0].tolist()
    [0.0, 0.0, 0.0, 0.0]
    >>> without_rare(np.array([[1.0, 1, 2, 2, 2, 4]]).T, 2).ravel().tolist()
    [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    kept = X
    for feature, column in enumerate(X.T):
        values, places, counts = np.unique(
            column, return_inverse=True, return_counts=True
        )
        # Rare is counted at this site: it does not know the others.
        common = values[counts >= smallest]
        rare = column.shape[0] - counts.max() < smallest
        if not common.size or counts.min() >= smallest or not (rare or _few(values)):
            continue
        # The rows themselves are the caller's.
        if kept is X:
            kept = X.copy()
        nearest = np.abs(values[:, None] - common).argmin(axis=1)
        kept[:, feature] = common[nearest][places.reshape(-1)]
    return kept


def _few(values: Floats) -> bool:
    """Whether values are so few that rounding by their steps would not hide them."""
    gaps = np.diff(values)
    return bool(gaps.size and gaps.min() > MOST_OF_REACH * gaps.sum())


def grouped_cells(X: Floats, labels: Ints) -> Cells:
    """Return count, mean and scatter of every group."""
    return cells_of(X, labels, int(labels.max()) + 1)


def _standardised(X: Floats) -> Floats:
    """Columns with deviation 1; a constant one is 0. Halves cannot overflow."""
    low = X.min(axis=0)
    shifted = X / 2 - low / 2
    span = shifted.max(axis=0)
    # A span of rounding errors would be blown up to as much as a true column.
    flat = ~(span > np.maximum(np.abs(low) * 1e-15, np.finfo(np.float64).tiny))
    unit = np.where(flat, 0.0, shifted / np.where(flat, 1.0, span))
    deviation = unit.std(axis=0)
    return np.ascontiguousarray(unit / np.where(deviation > 0, deviation, 1.0))


def _parts(X: Floats, largest: int) -> list[Ints]:
    """Cut rows into halves, along the widest column, until no part is too large."""
    parts: list[Ints] = []
    waiting: list[Ints] = [np.arange(X.shape[0])]
    while waiting:
        part = waiting.pop()
        if part.size <= largest:
            # In the order of the rows, so that labels do not depend on how they were
            # cut.
            parts.append(np.sort(part))
            continue
        inside = X[part]
        widest = int((inside.max(axis=0) - inside.min(axis=0)).argmax())
        order = part[np.argsort(inside[:, widest], kind="stable")]
        waiting.extend((order[: part.size // 2], order[part.size // 2 :]))
    return parts

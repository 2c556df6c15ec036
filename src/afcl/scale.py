# SPDX-License-Identifier: Apache-2.0
"""The agreed box: one map of the columns that every client uses, frozen before hello.

Min-max scaling needs each client's column minima and maxima and nothing else. A late
joiner's rows use the same map, also outside the box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats
from afcl.exceptions import InputError

#: Up to so many features, columns are gone through one by one.
NARROW = 8


@dataclass(frozen=True, slots=True)
class Ranges:
    """A client's rows and column extremes: what it says before the first hello.

    Reveals the exact minimum and maximum of every column at this client (from the
    level `grouped` up: what its groups say of them), and its number of rows. Given
    bounds make the extremes unnecessary: `low` and `high` are empty then.
    """

    n_rows: int
    n_features: int
    low: Floats
    high: Floats

    def without_extremes(self) -> Ranges:
        """Return the same, saying nothing of the columns."""
        return Ranges(self.n_rows, self.n_features, np.empty(0), np.empty(0))


@dataclass(frozen=True, slots=True)
class Box:
    """The map x -> (x - low) / span per column; a constant column maps to 0."""

    low: Floats
    span: Floats

    def scale(self, X: Floats) -> Floats:
        """Map rows into the agreed units, as contiguous float64."""
        if X.ndim == 1 or X.shape[1] > NARROW:
            scaled: Floats = np.subtract(X, self.low, dtype=np.float64, order="C")
            scaled /= self.span
            return scaled
        scaled = np.empty(X.shape)
        for feature in range(X.shape[1]):  # long loops, where rows are short
            np.subtract(X[:, feature], self.low[feature], out=scaled[:, feature])
            scaled[:, feature] /= self.span[feature]
        return scaled

    def unscale(self, X: Floats) -> Floats:
        """Map points back into the units of the data."""
        original: Floats = X * self.span + self.low
        return original


def ranges_of(X: Floats, extremes: bool = True, shown: Floats | None = None) -> Ranges:
    """Return what a client says of its rows for the agreement.

    `shown` stands for the rows where extremes are those of groups' means.
    """
    n, d = X.shape
    if not extremes:
        return Ranges(n, d, np.empty(0), np.empty(0))
    shown = X if shown is None else shown
    if d > NARROW:
        return Ranges(n, d, shown.min(axis=0), shown.max(axis=0))
    low = np.array([column.min() for column in shown.T], dtype=shown.dtype)
    high = np.array([column.max() for column in shown.T], dtype=shown.dtype)
    return Ranges(n, d, low, high)


def _box(low: Floats, high: Floats) -> Box:
    # A span too small to divide by (constant, or subnormal) maps its column to 0.
    with np.errstate(over="ignore"):
        span = high - low
    if not np.isfinite(span).all():
        raise InputError("a column's range is too wide for 64-bit numbers")
    flat = ~(span > np.maximum(np.abs(low) * 1e-15, np.finfo(np.float64).tiny))
    return Box(low.astype(np.float64), np.where(flat, 1.0, span).astype(np.float64))


def minmax_box(ranges: Sequence[Ranges]) -> Box:
    """Return the min-max map over all clients."""
    low = np.min([r.low for r in ranges], axis=0)
    high = np.max([r.high for r in ranges], axis=0)
    return _box(low, high)


def given_box(low: Floats, high: Floats) -> Box:
    """Return the map of publicly given bounds per column."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    if low.ndim != 1 or low.shape != high.shape:
        raise InputError("scale=(low, high) needs two bounds for every column")
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (high >= low).all()):
        raise InputError("scale=(low, high) needs finite bounds with low <= high")
    return _box(low, high)


def no_box(n_features: int) -> Box:
    """Return the identity."""
    return Box(np.zeros(n_features), np.ones(n_features))

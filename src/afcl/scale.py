# SPDX-License-Identifier: Apache-2.0
"""The agreed box: one map of the columns that every client uses, frozen before hello.

Min-max scaling needs each client's column minima and maxima and nothing else. A late
joiner's rows use the same map, also outside the box.

No few clients set the box alone: where so few of them that they may be wrong, or lie,
stretch a column to many times what all others span, the box is that of the others, and
gets walls: rows behind them count as just outside, values beyond all measure not at
all. See docs/decisions/0028-hostile-sites.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.exceptions import InputError

#: Up to so many features, columns are gone through one by one.
NARROW = 8
#: Numbers that are compared, or mapped, in one go.
LINE = 1024
#: Numbers of a part whose extremes are found together.
PART = 1 << 16
#: The middle of the box, in agreed units.
MIDDLE = 0.5
#: How far from the middle the walls are of a box that has some: a quarter of a width
#: outside it. So near, because k is chosen by gaps, and a wall far out would be the
#: widest of all.
RADIUS = 0.75
#: Where that is.
WALLS = (MIDDLE - RADIUS, MIDDLE + RADIUS)
#: Beyond so many widths a value says nothing: behind walls it counts as the middle.
FAR_OUT = 60.0
#: The box is without a few clients that stretch a column by so many times what all the
#: others span.
FAR = 6.0
#: One client of so many may be wrong or lie, two of twice as many, ...
ONE_OF = 4
#: up to so many.
MOST_WRONG = 8


@dataclass(frozen=True, slots=True)
class Ranges:
    """A client's rows and column extremes: what it says before the first hello.

    Reveals the exact minimum and maximum of every column at this client (from the
    level `grouped` up: what its groups say of them), and its number of rows. Given
    bounds make the extremes unnecessary: `low` and `high` are empty then. The scale
    `robust` asks for quantiles too (:mod:`afcl.robust`), a line for each; else there
    are none.
    """

    n_rows: int
    n_features: int
    low: Floats
    high: Floats
    quantiles: Floats | None = None

    def without_extremes(self) -> Ranges:
        """Return the same, saying nothing of the columns."""
        return Ranges(self.n_rows, self.n_features, np.empty(0), np.empty(0))


@dataclass(frozen=True, slots=True)
class Box:
    """The map x -> (x - low) / span per column; a constant column maps to 0.

    `walls` says that there are :data:`WALLS`; None, and no field in a message, where
    there are none. A row that lies behind them in m columns is mapped to a place that
    is :data:`RADIUS` / sqrt(m) from the middle in each of these: on a wall for one, and
    no further from the middle for many (the corners of many walls are far from
    everything, and far apart). Beyond :data:`FAR_OUT` widths a value is mapped to the
    middle.

    `typical` are values that stand where a client has none at all in a column, in the
    units of the data; None where nobody needs them.
    """

    low: Floats
    span: Floats
    walls: bool | None = None
    typical: Floats | None = None

    def scale(self, X: Floats) -> Floats:
        """Map rows into the agreed units, as contiguous float64."""
        with self._bounded():
            if X.ndim == 1:
                return self._within_walls((X - self.low) / self.span)
            scaled: Floats = np.empty(X.shape)
            if X.shape[1] > NARROW:
                times = max(1, LINE // X.shape[1])
                whole = X.shape[0] // times * times if X.flags.c_contiguous else 0
                for rows, m in ((slice(whole), times), (slice(whole, None), 1)):
                    long = scaled[rows].reshape(-1, m * X.shape[1])
                    values = X[rows].reshape(long.shape)
                    np.subtract(values, np.tile(self.low, m), out=long)
                    long /= np.tile(self.span, m)
                return self._within_walls(scaled)
            for feature in range(X.shape[1]):  # long loops, where rows are short
                np.subtract(X[:, feature], self.low[feature], out=scaled[:, feature])
                scaled[:, feature] /= self.span[feature]
            return self._within_walls(scaled)

    def scale_in_place(self, X: Floats) -> None:
        """Map rows that nobody else needs, with the bits of :meth:`scale`."""
        with self._bounded():
            X -= self.low
            X /= self.span
            self._within_walls(X)

    def _bounded(self) -> AbstractContextManager[None]:
        """Let numbers overflow where a wall stops them."""
        return np.errstate(over="ignore") if self.walls else nullcontext()

    def _within_walls(self, scaled: Floats) -> Floats:
        if not self.walls:
            return scaled
        away = np.abs(scaled - MIDDLE)
        nothing, behind = away - MIDDLE >= FAR_OUT, away > RADIUS
        behind &= ~nothing
        share = RADIUS / np.sqrt(np.maximum(1, behind.sum(axis=-1, keepdims=True)))
        np.copyto(scaled, MIDDLE + np.copysign(share, scaled - MIDDLE), where=behind)
        scaled[nothing] = MIDDLE
        return scaled

    def reach(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return, in agreed units, between what rows with such extremes lie."""
        if not self.walls:
            return self.scale(low), self.scale(high)
        with np.errstate(over="ignore"):
            low, high = (low - self.low) / self.span, (high - self.low) / self.span
        behind = (low < WALLS[0]) | (high > WALLS[1])
        low[behind] = np.clip(low[behind], WALLS[0], MIDDLE)
        high[behind] = np.clip(high[behind], MIDDLE, WALLS[1])
        return low, high

    def far_out(self, low: Floats, high: Floats) -> Bools:
        """Return the columns in which such extremes lie beyond all measure."""
        with np.errstate(over="ignore"):
            above, below = high - self.low - self.span, self.low - low
            far: Bools = np.maximum(above, below) / self.span >= FAR_OUT
        return far

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
    low, high = ends_of(shown) if shown.size else (shown.min(axis=0), shown.max(axis=0))
    if np.isnan(low).any():
        low, high = _known_extremes(shown)
    return Ranges(n, d, low, high)


def ends_of(X: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest of every column; NaN where there is a gap."""
    parts = [each for _, *each in ends_by_part(X)]
    lows, highs = zip(*parts, strict=True)
    return np.minimum.reduce(lows), np.maximum.reduce(highs)


def ends_by_part(X: Floats) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield where parts of a table begin, and the ends of every column there.

    Parts stay in the cache, so that a table is read once for both.
    """
    step = max(1, PART // X.shape[1])
    for start in range(0, X.shape[0], step):
        part = X[start : start + step]
        yield start, _along_lines(part, np.minimum), _along_lines(part, np.maximum)


def _along_lines(X: Floats, extreme: np.ufunc) -> Floats:
    """Return an extreme of every column: `numpy.minimum` or `numpy.maximum`.

    Rows are put together to long lines first: NumPy goes through these much faster.
    """
    n, d = X.shape
    together = max(1, LINE // d)
    lines = n // together
    if lines > 1 and X.flags.c_contiguous:
        long = X[: lines * together].reshape(lines, together * d)
        few = extreme.reduce(long, axis=0).reshape(together, d)
        X = np.concatenate([few, X[lines * together :]])
    found: Floats = extreme.reduce(X, axis=0)
    return found


def _known_extremes(X: Floats) -> tuple[Floats, Floats]:
    """Return the extremes of columns with gaps; NaN of those that have no value."""
    gaps = np.isnan(X)
    low, high = np.where(gaps, np.inf, X), np.where(gaps, -np.inf, X)
    none = gaps.all(axis=0)
    return (
        np.where(none, np.nan, low.min(axis=0)),
        np.where(none, np.nan, high.max(axis=0)),
    )


def is_flat(low: Floats, span: Floats) -> Bools:
    """Whether a span is too small to divide by: constant, or subnormal."""
    flat: Bools = ~(span > np.maximum(np.abs(low) * 1e-15, np.finfo(np.float64).tiny))
    return flat


def box_of_ends(low: Floats, high: Floats) -> Box:
    """Return the map of what lies between two ends of every column to 0 ... 1."""
    with np.errstate(over="ignore"):
        span = high - low
    if not np.isfinite(span).all():
        raise InputError("a column's range is too wide for 64-bit numbers")
    span = np.where(is_flat(low, span), 1.0, span)
    return Box(low.astype(np.float64), span.astype(np.float64))


def minmax_box(ranges: Sequence[Ranges]) -> Box:
    """Return the min-max map over all clients."""
    low = np.min([r.low for r in ranges], axis=0)
    high = np.max([r.high for r in ranges], axis=0)
    return box_of_ends(low, high)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Few clients that alone stretch a column, in multiples of what the others span."""

    column: int
    clients: tuple[int, ...]
    times: float


def supported_box(lows: Floats, highs: Floats) -> tuple[Box, list[Stretch]]:
    """Return the min-max map over all clients but those that alone stretch a column.

    Parameters
    ----------
    lows, highs : ndarray of shape (n_clients, n_features)
        Everybody's extremes; NaN where a client has no value in a column.

    Returns
    -------
    box : Box
        With walls where it is without somebody.
    stretches : list of Stretch
        Who alone stretches which column. Of two clients nobody can say which one is
        wrong: the box is both's.

    Examples
    --------
    >>> highs = np.array([[1.0], [0.9], [1.0], [700.0]])
    >>> box, found = supported_box(np.zeros((4, 1)), highs)
    >>> box.scale(np.array([[0.5], [1.2], [40.0], [600.0]])).ravel().tolist()
    [0.5, 1.2, 1.25, 0.5]
    >>> found
    [Stretch(column=0, clients=(3,), times=699.0)]
    """
    lows, highs = lows.astype(np.float64), highs.astype(np.float64)
    nothing = np.isnan(lows) | np.isnan(highs)
    if nothing.all(axis=0).any():
        column = int(np.argmax(nothing.all(axis=0)))
        raise InputError(f"column {column + 1} has no value anywhere: leave it out")
    lows[nothing], highs[nothing] = np.inf, -np.inf
    found = [
        stretch
        for column in _suspicious(lows, highs)
        for stretch in _stretches(int(column), lows[:, column], highs[:, column])
    ]
    stretches = found if lows.shape[0] > 2 else []
    for stretch in stretches:
        lows[stretch.clients, stretch.column] = np.inf
        highs[stretch.clients, stretch.column] = -np.inf
    box = box_of_ends(lows.min(axis=0), highs.max(axis=0))
    return replace(box, walls=True if stretches else None), found


def _most_wrong(n: int) -> int:
    """Return how many of so many clients may be wrong."""
    return min(n - 1, max(1, n // ONE_OF), MOST_WRONG)


def _suspicious(lows: Floats, highs: Floats) -> Ints:
    """Return the columns that few clients might stretch.

    In all others so many clients span a good part of the whole by themselves that, who
    ever is left out, one of them stays.
    """
    n = lows.shape[0]
    with np.errstate(over="ignore"):
        whole = highs.max(axis=0) - lows.min(axis=0)
        own = np.sort(highs - lows, axis=0)[n - 1 - _most_wrong(n)]
        return np.flatnonzero((whole > 0) & (whole >= (1 + FAR) * own))


def _stretches(column: int, low: Floats, high: Floats) -> Iterator[Stretch]:
    """Yield who stretches one column: the fewest clients first, then of the others."""
    most = _most_wrong(low.shape[0])
    # Whoever is left out, of these somebody stays who reaches as far as anybody does.
    lowest = np.argsort(low, kind="stable")[: most + 1]
    highest = np.argsort(-high, kind="stable")[: most + 1]
    here = np.union1d(lowest, highest)
    while most > 0:
        found = _fewest(low[here], high[here], most)
        if found is None:
            return
        gone, times = found
        yield Stretch(column, tuple(sorted(here[gone].tolist())), times)
        here = np.delete(here, gone)
        most -= gone.shape[0]


def _fewest(low: Floats, high: Floats, most: int) -> tuple[Ints, float] | None:
    """Return the fewest clients without whom a column is far narrower, and how far."""
    with np.errstate(over="ignore"):
        whole = high.max() - low.min()
        for number in range(1, most + 1):
            spans = []
            for lowest in range(number + 1):
                gone = _outermost(low, high, lowest, number)
                rest = np.delete(low, gone).min()
                spans.append((np.delete(high, gone).max() - rest, gone, rest))
            span, gone, rest = min(spans, key=lambda each: each[0])
            if not is_flat(rest, span) and whole - span >= FAR * span:
                return gone, float(whole / span - 1)
    return None


def _outermost(low: Floats, high: Floats, lowest: int, number: int) -> Ints:
    """Return who reaches lowest, and of the others who reaches highest."""
    order = np.argsort(low, kind="stable")
    rest = order[lowest:]
    top = rest[np.argsort(-high[rest], kind="stable")[: number - lowest]]
    return np.concatenate([order[:lowest], top])


def with_bounds(box: Box, bounds: tuple[Floats, Floats] | None) -> Box:
    """Return the box with bounds of its own for some columns; NaN: those it has.

    Examples
    --------
    >>> box = given_box(np.array([0.0, 5.0]), np.array([2.0, 9.0]))
    >>> with_bounds(box, (np.array([np.nan, 0.0]), np.array([np.nan, 8.0]))).span
    array([2., 8.])
    """
    if bounds is None:
        return box
    low, high = bounds
    own = np.isnan(low)
    return replace(
        box,
        low=np.where(own, box.low, low),
        span=np.where(own, box.span, high - low),
    )


def given_box(low: Floats, high: Floats) -> Box:
    """Return the map of publicly given bounds per column."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    if low.ndim != 1 or low.shape != high.shape:
        raise InputError("scale=(low, high) needs two bounds for every column")
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (high >= low).all()):
        raise InputError("scale=(low, high) needs finite bounds with low <= high")
    return box_of_ends(low, high)


def no_box(n_features: int) -> Box:
    """Return the identity."""
    return Box(np.zeros(n_features), np.ones(n_features))

# SPDX-License-Identifier: Apache-2.0
"""The nearest of many centres, compiled: in 32 bits where these leave no doubt.

A matrix product in 32 bits takes half the time of one in 64. What rounding can do to it
is bounded: where the second nearest centre is farther than the nearest by more than
that, the nearest is known; of the few other rows all distances are computed anew, from
differences in 64 bits. The distance to the nearest is computed so of every row.

Only large passes over wide tables do this (:mod:`.tiles`), and only where clusters are
not so small beside the whole that most rows would be in doubt.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.tiles import TILE, apart_in_any_order, is_wide

#: What a number of 32 bits can be wrong by, as a share of it.
ROUNDING = 2.0**-24
#: Roundings of a term of a product beside those of its additions.
MORE_ROUNDINGS = 4
#: Distances that are remembered between steps of Lloyd: they stay in the cache.
REMEMBERED = 1 << 20
#: Rows that are tried first, evenly taken from all.
TRIED = 64
#: More of them in doubt than one of so many: 64 bits are quicker.
ONE_OF = 8

_compiled = compiled(error_model="numpy")

#: Numbers of 32 bits.
Singles = npt.NDArray[np.float32]


class Single(NamedTuple):
    """Centres in 32 bits, and working memory for a tile of rows.

    `middle` is the centres', `farthest` how far from it one of them is at most.
    `factors` are -2 c' and |c'|^2, as seen from there (none: nothing is to be done in
    32 bits), and the last line of `columns` is 1.
    """

    middle: Floats
    farthest: float
    factors: Singles
    columns: Singles
    distances: Singles
    label: npt.NDArray[np.int32]
    best: Singles
    second: Singles


@_compiled
def single_for(X: Floats, centers: Floats, rows: int) -> Single:
    """Return what finds the nearest of these centres, so many rows at a time."""
    k, d = centers.shape
    size = k if is_wide(X.shape[0], d, k) and d <= k else 0
    middle = np.zeros(d)
    for center in range(size):
        for feature in range(d):
            middle[feature] += centers[center, feature] / k
    factors, farthest = _factors(centers[:size], middle)
    return Single(
        middle,
        farthest,
        factors,
        np.ones((d + 1, rows), dtype=np.float32),
        np.zeros((size, rows), dtype=np.float32),
        np.zeros(rows, dtype=np.int32),
        np.zeros(rows, dtype=np.float32),
        np.zeros(rows, dtype=np.float32),
    )


@_compiled
def _factors(centers: Floats, middle: Floats) -> tuple[Singles, float]:
    """Return -2 c' and |c'|^2 of all centres, and how far one is out at most."""
    k, d = centers.shape
    factors, farthest = np.empty((k, d + 1), dtype=np.float32), 0.0
    for center in range(k):
        square = 0.0
        for feature in range(d):
            value = centers[center, feature] - middle[feature]
            factors[center, feature] = -2.0 * value
            square += value * value
        factors[center, d] = square
        farthest = max(farthest, np.sqrt(square))
    return factors, farthest


@_compiled
def _anew(row: Floats, centers: Floats, own: int, least: float) -> tuple[int, float]:
    """Return the nearest centre by differences, of several the first, and how far."""
    for center in range(centers.shape[0]):
        value = apart_in_any_order(row, centers[center])
        if value < least or (value == least and center < own):
            least = value
            own = center
    return own, least


@_compiled
def is_of_use(X: Floats, centers: Floats, single: Single) -> bool:
    """Whether few of some rows, evenly taken from all, are in doubt."""
    rows = single.best.shape[0]
    if not single.factors.shape[0]:
        return False
    tried = min(TRIED, rows, X.shape[0])
    some = np.empty((tried, X.shape[1]))
    for place in range(tried):
        some[place] = X[place * X.shape[0] // tried]
    _measure(some, 0, tried, single)
    doubts = 0
    for place in range(tried):
        least = apart_in_any_order(some[place], centers[single.label[place]])
        doubts += _in_doubt(single, place, least)
    is_clear: bool = doubts * ONE_OF <= tried
    return is_clear


@_compiled
def _measure(X: Floats, start: int, stop: int, single: Single) -> None:
    """Find the two least distances of a tile, but for a number per row (OUT)."""
    d, columns = X.shape[1], single.columns
    for row in range(stop - start):
        for feature in range(d):
            columns[feature, row] = X[start + row, feature] - single.middle[feature]
    np.dot(single.factors, columns, single.distances)
    _two_least(single.distances, single.label, single.best, single.second)


@_compiled
def _two_least(
    distances: Singles, label: npt.NDArray[np.int32], best: Singles, second: Singles
) -> None:
    """Nearest centre of every row, and the two least distances (OUT).

    Two centres a turn, so that what is known of a row stays in registers.
    """
    k, rows = distances.shape
    for row in range(rows):
        best[row] = np.inf
        second[row] = np.inf
        label[row] = 0
    for center in range(0, k, 2):
        follower = min(center + 1, k - 1)
        for row in range(rows):
            value = distances[center, row]
            low = best[row]
            nearer = value < low
            next_low = min(second[row], max(value, low))
            own = np.int32(center) if nearer else label[row]
            low = value if nearer else low
            value = np.float32(np.inf)
            if follower != center:
                value = distances[follower, row]
            nearer = value < low
            second[row] = min(next_low, max(value, low))
            label[row] = np.int32(follower) if nearer else own
            best[row] = value if nearer else low


@_compiled
def _in_doubt(single: Single, place: int, least: float) -> bool:
    """Whether rounding may have made another centre the nearest.

    A value is a sum of d + 1 products, which add up to no more, all taken as positive,
    than |c'|^2 + 2 |x'| |c'|; and x' is no longer than the way by its own centre, of
    which `least` is the squared distance.
    """
    terms, farthest = single.columns.shape[0], single.farthest
    most = farthest * (3.0 * farthest + 2.0 * np.sqrt(least))
    gap = single.second[place] - single.best[place]
    return not gap > 2.0 * ROUNDING * (terms + MORE_ROUNDINGS) * most


@_compiled
def nearest_by_single(
    X: Floats,
    start: int,
    stop: int,
    centers: Floats,
    single: Single,
    label: Ints,
    best: Floats,
) -> None:
    """Nearest centre of rows and the squared distance to it (OUT)."""
    _measure(X, start, stop, single)
    for place in range(stop - start):
        row = X[start + place]
        own = int(single.label[place])
        least = apart_in_any_order(row, centers[own])
        if _in_doubt(single, place, least):
            own, least = _anew(row, centers, own, least)
        label[place] = own
        best[place] = least


# ------------------------------------------------------------------ again and again


class Turned(NamedTuple):
    """Rows in 32 bits, tile by tile with features first, for centres that move.

    As seen from their `middle`, `longest` being how far from it one is at most; the
    last line of every tile is 1. There are no tiles where nothing is done in 32 bits.
    """

    middle: Floats
    longest: float
    tiles: Singles


@_compiled
def turned(X: Floats, k: int) -> Turned:
    """Return the rows for at most k centres."""
    n, d = X.shape
    number = -(-n // TILE) if is_wide(n, d, k) and d <= k else 0
    middle, longest = np.zeros(d), 0.0
    tiles = np.zeros((number, d + 1, TILE), dtype=np.float32)
    for row in range(min(n, number * TILE)):
        for feature in range(d):
            middle[feature] += X[row, feature] / n
    for tile in range(number):
        columns = tiles[tile]
        for place in range(TILE):
            columns[d, place] = 1.0
        for place in range(min(TILE, n - tile * TILE)):
            row = X[tile * TILE + place]
            for feature in range(d):
                columns[feature, place] = row[feature] - middle[feature]
            longest = max(longest, np.sqrt(apart_in_any_order(row, middle)))
    return Turned(middle, longest, tiles)


@_compiled
def remembered_for(known: Turned, k: int) -> Singles:
    """Return room for the distances of all tiles, or of one where they are too many."""
    number = known.tiles.shape[0]
    few = number * k * TILE <= REMEMBERED
    return np.empty((number if few else min(1, number), k, TILE), dtype=np.float32)


@_compiled
def label_turned(
    X: Floats,
    known: Turned,
    centers: Floats,
    moved: Ints,
    distances: Singles,
    labels: Ints,
) -> bool:
    """Find the nearest centre (OUT) of all rows; whether few of them were in doubt.

    `distances` (INOUT) are remembered from the last time, if there is room for all:
    then those to centres that have not `moved` since stay.
    """
    (k, d), n = centers.shape, X.shape[0]
    factors, farthest = _factors(centers, known.middle)
    label = np.zeros(TILE, dtype=np.int32)
    best, second = np.zeros(TILE, dtype=np.float32), np.zeros(TILE, dtype=np.float32)
    most = farthest * (farthest + 2.0 * known.longest)
    reach = 2.0 * ROUNDING * (d + 1 + MORE_ROUNDINGS) * most
    stay = moved.shape[0] < k and distances.shape[0] == known.tiles.shape[0]
    others = factors[moved]
    part = np.empty((moved.shape[0], TILE), dtype=np.float32)
    doubts = 0
    for tile in range(known.tiles.shape[0]):
        here = distances[tile if distances.shape[0] > 1 else 0]
        if stay:
            np.dot(others, known.tiles[tile], part)
            for place in range(moved.shape[0]):
                here[moved[place]] = part[place]
        else:
            np.dot(factors, known.tiles[tile], here)
        _two_least(here, label, best, second)
        start = tile * TILE
        for place in range(min(TILE, n - start)):
            labels[start + place] = label[place]
            if not second[place] - best[place] > reach:
                doubts += 1
                least = apart_in_any_order(X[start + place], centers[label[place]])
                own, _ = _anew(X[start + place], centers, int(label[place]), least)
                labels[start + place] = own
    few: bool = doubts * ONE_OF <= n
    return few

# SPDX-License-Identifier: Apache-2.0
"""The nearest of many centres, compiled: in 32 bits where these leave no doubt.

A register holds twice as many numbers of 32 bits as of 64, and a product takes one
instruction where a squared difference takes three. What rounding can do to products is
bounded: where the second nearest centre is farther than the nearest by more than that,
the nearest is known; of the few other rows all distances are computed anew, from
differences in 64 bits. The distance to the nearest is computed so of every row.

Only large passes over wide tables do this (:mod:`.tiles`), and only where clusters are
not so small beside the whole that most rows would be in doubt.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from afcl._typing import Floats, Ints
from afcl.kernels.along import apart_from_own
from afcl.kernels.compiling import compiled
from afcl.kernels.lanes import TOGETHER, Nearest, in_fours, one_each, two_by_products
from afcl.kernels.tiles import apart_in_any_order, is_wide, rows_of_tile

#: What a number of 32 bits can be wrong by, as a share of it.
ROUNDING = 2.0**-24
#: Roundings of a term of a product beside those of its additions.
MORE_ROUNDINGS = 4
#: Fewer centres than this: 64 bits are as quick, which give the distance as well.
FEW = 16
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
    `factors` are -2 c' and `norms` |c'|^2, as seen from there, as centres go by (none:
    nothing is to be done in 32 bits).
    """

    middle: Floats
    farthest: float
    factors: Singles
    norms: Singles
    columns: Singles
    found: Nearest


@_compiled
def found_in_short(rows: int) -> Nearest:
    """Return room for what is found of so many rows in 32 bits."""
    best, second = np.zeros(rows, dtype=np.float32), np.zeros(rows, dtype=np.float32)
    return Nearest(np.zeros(rows, dtype=np.int64), best, second, best)


@_compiled
def single_for(X: Floats, centers: Floats, rows: int) -> Single:
    """Return what finds the nearest of these centres, so many rows at a time."""
    k, d = centers.shape
    size = k if is_wide(X.shape[0], d, k) and k >= FEW else 0
    middle = np.zeros(d)
    for center in range(size):
        for feature in range(d):
            middle[feature] += centers[center, feature] / k
    factors, norms, farthest = _factors(centers[:size], middle)
    columns = np.zeros((d, rows), dtype=np.float32)
    return Single(middle, farthest, factors, norms, columns, found_in_short(rows))


@_compiled
def _factors(centers: Floats, middle: Floats) -> tuple[Singles, Singles, float]:
    """Return -2 c' and |c'|^2 of all centres, and how far one is out at most."""
    k, d = centers.shape
    factors, norms = np.empty((k, d), np.float32), np.empty(k, np.float32)
    farthest = 0.0
    for center in range(k):
        square = 0.0
        for feature in range(d):
            value = centers[center, feature] - middle[feature]
            factors[center, feature] = -2.0 * value
            square += value * value
        norms[center] = square
        farthest = max(farthest, np.sqrt(square))
    groups = in_fours(factors)
    # Nothing is infinitely far by its norm alone.
    for center in range(k, TOGETHER * groups.shape[0]):
        groups[center // TOGETHER, :, center % TOGETHER] = 0.0
    return groups, one_each(norms), farthest


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
    rows = single.columns.shape[1]
    if not single.factors.shape[0]:
        return False
    tried = min(TRIED, rows, X.shape[0])
    some = np.zeros((X.shape[1], rows))
    for place in range(tried):
        some[:, place] = X[place * X.shape[0] // tried]
    _measure(some, single)
    doubts = 0
    for place in range(tried):
        row = X[place * X.shape[0] // tried]
        least = apart_in_any_order(row, centers[single.found.label[place]])
        doubts += _in_doubt(single, place, least)
    is_clear: bool = doubts * ONE_OF <= tried
    return is_clear


@_compiled
def _measure(columns: Floats, single: Single) -> None:
    """Find the two least distances of a tile, but for a number per row (OUT)."""
    for feature in range(columns.shape[0]):
        middle = single.middle[feature]
        for row in range(columns.shape[1]):
            single.columns[feature, row] = columns[feature, row] - middle
    two_by_products(single.columns, single.factors, single.norms, single.found)


@_compiled
def _in_doubt(single: Single, place: int, least: float) -> bool:
    """Whether rounding may have made another centre the nearest.

    A value is a sum of d products and |c'|^2, which add up to no more, all taken as
    positive, than |c'|^2 + 2 |x'| |c'|; and x' is no longer than the way by its own
    centre, of which `least` is the squared distance.
    """
    terms, farthest = 1 + single.columns.shape[0], single.farthest
    most = farthest * (3.0 * farthest + 2.0 * np.sqrt(least))
    gap = single.found.second[place] - single.found.best[place]
    return not gap > 2.0 * ROUNDING * (terms + MORE_ROUNDINGS) * most


@_compiled
def nearest_by_single(
    columns: Floats, rows: Floats, centers: Floats, single: Single, found: Nearest
) -> None:
    """Nearest centre of a tile's rows and the squared distance to it (OUT)."""
    _measure(columns, single)
    found.label[:] = single.found.label
    apart_from_own(rows, centers, found.label, found.best)
    for place in range(rows.shape[0]):
        own, least = found.label[place], found.best[place]
        if _in_doubt(single, place, least):
            own, least = _anew(rows[place], centers, int(own), least)
            found.label[place] = own
            found.best[place] = least


# ------------------------------------------------------------------ again and again


class Turned(NamedTuple):
    """Rows in 32 bits, tile by tile with features first, for centres that move.

    As seen from their `middle`, `longest` being how far from it one is at most. There
    are no tiles where nothing is done in 32 bits.
    """

    middle: Floats
    longest: float
    tiles: Singles


@_compiled
def turned(X: Floats, k: int) -> Turned:
    """Return the rows for at most k centres."""
    n, d = X.shape
    rows = rows_of_tile(d)
    number = -(-n // rows) if is_wide(n, d, k) and k >= FEW else 0
    middle, share, longest = np.zeros(d), 1.0 / max(1, n), 0.0
    tiles = np.zeros((number, d, rows), dtype=np.float32)
    for row in range(min(n, number * rows)):
        for feature in range(d):
            middle[feature] += X[row, feature] * share
    for tile in range(number):
        columns = tiles[tile]
        for place in range(min(rows, n - tile * rows)):
            row = X[tile * rows + place]
            for feature in range(d):
                columns[feature, place] = row[feature] - middle[feature]
            longest = max(longest, np.sqrt(apart_in_any_order(row, middle)))
    return Turned(middle, longest, tiles)


@_compiled
def label_turned(X: Floats, known: Turned, centers: Floats, labels: Ints) -> bool:
    """Find the nearest centre (OUT) of all rows; whether few of them were in doubt."""
    d, n = centers.shape[1], X.shape[0]
    rows = known.tiles.shape[2]
    factors, norms, farthest = _factors(centers, known.middle)
    found = found_in_short(rows)
    label, best, second = found.label, found.best, found.second
    most = farthest * (farthest + 2.0 * known.longest)
    reach = 2.0 * ROUNDING * (d + 1 + MORE_ROUNDINGS) * most
    doubts = 0
    for tile in range(known.tiles.shape[0]):
        two_by_products(known.tiles[tile], factors, norms, found)
        start = tile * rows
        for place in range(min(rows, n - start)):
            labels[start + place] = label[place]
            if not second[place] - best[place] > reach:
                doubts += 1
                least = apart_in_any_order(X[start + place], centers[label[place]])
                own, _ = _anew(X[start + place], centers, int(label[place]), least)
                labels[start + place] = own
    few: bool = doubts * ONE_OF <= n
    return few

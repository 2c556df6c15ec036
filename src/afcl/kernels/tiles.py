# SPDX-License-Identifier: Apache-2.0
"""One tile of rows, compiled: its distances to all centres, and what follows of them.

Distances of a tile are laid out centre by centre, so that one instruction works on
several rows; nothing of size n x k exists. Two ways to get them:

- *narrow* tables (at most :data:`NARROW` features) and small ones: differences,
  squared and added in the reference's order. Same bits as :mod:`.reference`.
- large *wide* ones: a matrix product says which centre is nearest, and how much farther
  the others are (as seen from the centres' middle, so that data far from the origin
  lose little); the distance to the nearest is then computed from differences. Bits are
  those of this machine's matrix product; they agree with the reference to rounding.

See docs/decisions/0020-fused-client-step.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled

#: Most features of a narrow table.
NARROW = 8
#: Multiply-adds from which a pass over a wide table is done by matrix products: what
#: small problems give is the reference's to the bit.
SMALL_WIDE = 1 << 20
#: Rows of a tile.
TILE = 128
#: More features than this: half as many, so that they stay in the cache.
VERY_WIDE = 512

_compiled = compiled(error_model="numpy")
#: Handing a :class:`Tile` on costs time for every tile: not where it is inlined.
_inlined = compiled(error_model="numpy", inline="always")
_reordered = compiled(fastmath={"reassoc", "contract", "nsz"})


@_compiled
def is_wide(n: int, d: int, k: int) -> bool:
    """Whether a matrix product is worth its bits."""
    # Products round differently from differences: only where they save much (0020).
    return d > NARROW and n * d * k >= SMALL_WIDE


@_compiled
def fill_columns(X: Floats, start: int, stop: int, out: Floats) -> None:
    """Copy a tile feature by feature (OUT); places behind the last row get 0."""
    for row in range(stop - start):
        for feature in range(X.shape[1]):
            out[feature, row] = X[start + row, feature]
    # Loops of a fixed length are vectorised; what is behind the last row is not read.
    for row in range(stop - start, out.shape[1]):
        for feature in range(X.shape[1]):
            out[feature, row] = 0.0


@_compiled
def differences(columns: Floats, centers: Floats, out: Floats) -> None:
    """Squared distances (OUT, centre by row) of a narrow tile, features in order."""
    d = centers.shape[1]
    rows = out.shape[1]
    for center in range(centers.shape[0]):
        if d >= 2:
            first = centers[center, 0]
            second = centers[center, 1]
            for row in range(rows):
                a = columns[0, row] - first
                b = columns[1, row] - second
                out[center, row] = a * a + b * b
        else:
            first = centers[center, 0]
            for row in range(rows):
                a = columns[0, row] - first
                out[center, row] = a * a
        feature = 2
        while feature + 2 <= d:
            first = centers[center, feature]
            second = centers[center, feature + 1]
            for row in range(rows):
                a = columns[feature, row] - first
                b = columns[feature + 1, row] - second
                # Two features a turn, in the reference's order of additions: equal bits
                # (0002).
                out[center, row] = (out[center, row] + a * a) + b * b
            feature += 2
        if feature < d:
            first = centers[center, feature]
            for row in range(rows):
                a = columns[feature, row] - first
                out[center, row] += a * a


@_compiled
def _seen_from_middle(centers: Floats) -> tuple[Floats, Floats]:
    """Return -2 c' (k, d) and |c'|^2 + 2 m c' (k,), where c' = c - m and m their mean.

    |x - c|^2 is |x - m|^2 + (|c'|^2 + 2 m c') - 2 x c', of which only the last two
    terms differ from centre to centre: their sum is all it takes to find the nearest.
    """
    k, d = centers.shape
    # Far from the origin |x|² - 2xc + |c|² cancels; seen from the middle it does less.
    middle = np.zeros(d)
    for center in range(k):
        for feature in range(d):
            middle[feature] += centers[center, feature] / k
    factors = np.empty((k, d))
    norms = np.zeros(k)
    for center in range(k):
        for feature in range(d):
            value = centers[center, feature] - middle[feature]
            factors[center, feature] = -2.0 * value
            norms[center] += value * (value + 2.0 * middle[feature])
    return factors, norms


@_compiled
def _product_of_columns(
    columns: Floats, factors: Floats, norms: Floats, out: Floats
) -> None:
    """Distances but for a number per row (OUT, centre by row)."""
    np.dot(factors, columns, out)
    for center in range(norms.shape[0]):
        norm = norms[center]
        for row in range(out.shape[1]):
            out[center, row] += norm


class Tile(NamedTuple):
    """A tile of rows, its distances, and what these are computed from.

    `columns` has room for its rows, features first; whole wide tiles do without.
    """

    wide: bool
    columns: Floats
    factors: Floats
    norms: Floats
    distances: Floats


@_compiled
def tile_for(n: int, centers: Floats) -> Tile:
    """Return the working memory of a pass over n rows."""
    k, d = centers.shape
    wide = is_wide(n, d, k)
    rows = TILE // 2 if wide and d > VERY_WIDE else TILE
    factors, norms = _seen_from_middle(centers)
    return Tile(wide, np.zeros((d, rows)), factors, norms, np.zeros((k, rows)))


@_compiled
def kept_in_plane(tile: Tile, k: int) -> int:
    """Return k if the table is narrow and has two features, else 0.

    Distances to that many centres are found on the fly (:func:`nearest_in_plane`).
    """
    return k if not tile.wide and tile.columns.shape[0] == 2 else 0


@_inlined
def measure(
    tile: Tile, X: Floats, start: int, stop: int, centers: Floats, kept: int
) -> None:
    """Fill the tile with these rows' distances; those to `kept` centres may be left."""
    asked = (tile.factors[kept:], tile.norms[kept:], tile.distances[kept:])
    if not tile.wide:
        fill_columns(X, start, stop, tile.columns)
        differences(tile.columns, centers[kept:], tile.distances[kept:])
    elif kept == centers.shape[0]:
        return
    elif stop - start == tile.distances.shape[1]:
        _product_of_columns(X[start:stop].T, *asked)
    else:
        fill_columns(X, start, stop, tile.columns)
        _product_of_columns(tile.columns, *asked)


class Nearest(NamedTuple):
    """What is known of every row of a tile.

    Its nearest centre, the two least distances, the least distance plus spread of the
    other centres, and two silhouettes.
    """

    label: Ints
    best: Floats
    second: Floats
    outside: Floats
    simplified: Floats
    moment: Floats


@_compiled
def nearest_for(rows: int) -> Nearest:
    """Return working memory for so many rows."""
    return Nearest(
        np.zeros(rows, dtype=np.int64),
        np.zeros(rows),
        np.zeros(rows),
        np.zeros(rows),
        np.zeros(rows),
        np.zeros(rows),
    )


@_inlined
def rank(
    distances: Floats, begin: int, end: int, score: int, spreads: Floats, near: Nearest
) -> None:
    """Find the nearest of these centres, and what the score asks for besides (OUT)."""
    if score > 0:
        _two_least(distances, begin, end, near.label, near.best, near.second)
    else:
        nearest(distances, begin, end, near.label, near.best)
    if score > 1:
        _nearest_other(distances, begin, end, near.label, spreads, near.outside)


@_compiled
def _begin(begin: int, label: Ints, best: Floats) -> None:
    """Start a search (OUT): nothing is near yet."""
    for row in range(best.shape[0]):
        best[row] = np.inf
        label[row] = begin


@_compiled
def _two_least(
    distances: Floats, begin: int, end: int, label: Ints, best: Floats, second: Floats
) -> None:
    """Nearest centre of every row of a tile, and the two least distances (OUT).

    Two centres a turn, so that what is known of a row stays in registers.
    """
    _begin(begin, label, best)
    rows = distances.shape[1]
    for row in range(rows):
        second[row] = np.inf
    for center in range(begin, end, 2):
        follower = min(center + 1, end - 1)
        for row in range(rows):
            value = distances[center, row]
            low = best[row]
            nearest = value < low
            next_low = min(second[row], max(value, low))
            own = center if nearest else label[row]
            low = value if nearest else low
            # An odd number of centres: the last one must not be its own second.
            value = np.inf if follower == center else distances[follower, row]
            nearest = value < low
            second[row] = min(next_low, max(value, low))
            label[row] = follower if nearest else own
            best[row] = value if nearest else low


@_compiled
def nearest(distances: Floats, begin: int, end: int, label: Ints, best: Floats) -> None:
    """Nearest centre of every row of a tile (OUT)."""
    _begin(begin, label, best)
    for center in range(begin, end, 2):
        follower = min(center + 1, end - 1)
        for row in range(distances.shape[1]):
            value = distances[center, row]
            nearer = value < best[row]
            own = center if nearer else label[row]
            low = value if nearer else best[row]
            value = distances[follower, row]
            nearer = value < low
            label[row] = follower if nearer else own
            best[row] = value if nearer else low


@_compiled
def nearest_in_plane(
    columns: Floats, centers: Floats, begin: int, end: int, label: Ints, best: Floats
) -> None:
    """Nearest centre (OUT) of every row of a tile of two features, distances unkept."""
    _begin(begin, label, best)
    for center in range(begin, end, 2):
        follower = min(center + 1, end - 1)
        x, y = centers[center, 0], centers[center, 1]
        next_x, next_y = centers[follower, 0], centers[follower, 1]
        for row in range(best.shape[0]):
            a = columns[0, row] - x
            b = columns[1, row] - y
            value = a * a + b * b
            nearer = value < best[row]
            own = center if nearer else label[row]
            low = value if nearer else best[row]
            a = columns[0, row] - next_x
            b = columns[1, row] - next_y
            value = a * a + b * b
            nearer = value < low
            label[row] = follower if nearer else own
            best[row] = value if nearer else low


@_compiled
def _nearest_other(
    distances: Floats,
    begin: int,
    end: int,
    label: Ints,
    spreads: Floats,
    outside: Floats,
) -> None:
    """Least distance plus spread (OUT) of the centres that are not the nearest."""
    rows = distances.shape[1]
    for row in range(rows):
        outside[row] = np.inf
    for center in range(begin, end):
        spread = spreads[center]
        for row in range(rows):
            value = distances[center, row] + spread
            value = np.inf if label[row] == center else value
            outside[row] = value if value < outside[row] else outside[row]


@_reordered
def apart_in_any_order(row: Floats, center: Floats) -> float:
    """Squared distance of a row to a centre, features in any order."""
    total = 0.0
    for feature in range(row.shape[0]):
        difference = row[feature] - center[feature]
        total += difference * difference
    return total


@_compiled
def score_rows(
    near: Nearest, held: int, spreads: Floats, sizes: Floats, both: bool
) -> None:
    """Silhouettes of the first `held` rows of a tile (OUT)."""
    label, best, outside = near.label, near.best, near.outside
    for row in range(held):
        far = near.second[row]
        # Divided by one and thrown away: a branch would stop the loop from being
        # vectorised.
        ratio = best[row] / (far if far > 0 else 1.0)
        near.simplified[row] = 1.0 - np.sqrt(ratio) if far > 0 else 0.0
    if not both:
        return
    for row in range(held):
        size = sizes[label[row]]
        inside = (best[row] + spreads[label[row]]) * (
            # A row is not compared with itself.
            size / (size - 1.0 if size > 1 else 1.0)
        )
        larger = max(inside, outside[row])
        smaller = min(inside, outside[row])
        usable = larger > 0 and size > 1
        root = np.sqrt(smaller / (larger if usable else 1.0))
        contrast = 1.0 - root if outside[row] >= inside else root - 1.0
        near.moment[row] = contrast if usable else 0.0

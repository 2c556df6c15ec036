# SPDX-License-Identifier: Apache-2.0
"""One tile of rows, compiled: rows features first, and what its distances say.

A tile and its distances stay in the cache; nothing of size n x k exists. Distances are
sums of squared differences in the reference's order (:mod:`.lanes`), or, where only the
nearest of many centres is asked for in a large table of more than :data:`NARROW`
features, numbers of 32 bits where these leave no doubt (:mod:`.singles`).

See docs/decisions/0020-fused-client-step.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.along import turn
from afcl.kernels.compiling import compiled
from afcl.kernels.lanes import TOGETHER, Nearest, in_fours, one_each

#: Most features of a narrow table.
NARROW = 8
#: Multiply-adds from which a pass over a wide table may use 32 bits: what small
#: problems give is the reference's to the bit.
SMALL_WIDE = 1 << 20
#: Rows of a tile: a whole number of what is worked on together.
TILE = 128
#: More features than this: half as many, so that features' lines stay in the cache.
MANY_LINES = 32

_compiled = compiled(error_model="numpy")
_reordered = compiled(fastmath={"reassoc", "contract", "nsz"})


@_compiled
def is_wide(n: int, d: int, k: int) -> bool:
    """Whether a pass may use 32 bits, and add up in another order."""
    # Rounded differently than by the reference: only where it saves much (0020).
    return d > NARROW and n * d * k >= SMALL_WIDE


@_compiled
def rows_of_tile(d: int) -> int:
    """Return the rows of a tile with so many features."""
    return TILE // 2 if d > MANY_LINES else TILE


@_compiled
def fill_columns(X: Floats, start: int, stop: int, out: Floats) -> None:
    """Copy a tile feature by feature (OUT); places behind the last row get 0."""
    turn(X[start:stop], out)
    # Loops of a fixed length are vectorised; what is behind the last row is not read.
    for row in range(stop - start, out.shape[1]):
        for feature in range(X.shape[1]):
            out[feature, row] = 0.0


class Sets(NamedTuple):
    """Several sets of centres as they go by, and the spreads of each.

    The groups of four of set s are those from ``starts[s]`` up to ``starts[s + 1]``.
    """

    groups: Floats
    spreads: Floats
    starts: Ints


@_compiled
def sets_of(centers: Floats, bounds: Ints, spreads: Floats) -> Sets:
    """Return sets of centres, the last of each group of four filled up."""
    number, d = bounds.shape[0] - 1, centers.shape[1]
    starts = np.zeros(number + 1, dtype=np.int64)
    for each in range(number):
        size = bounds[each + 1] - bounds[each]
        starts[each + 1] = starts[each] - (-size // TOGETHER)
    groups = np.empty((starts[number], d, TOGETHER))
    blur = np.empty(starts[number] * TOGETHER)
    for each in range(number):
        begin, end = bounds[each], bounds[each + 1]
        first, behind = starts[each], starts[each + 1]
        groups[first:behind] = in_fours(centers[begin:end])
        blur[first * TOGETHER : behind * TOGETHER] = one_each(spreads[begin:end])
    return Sets(groups, blur, starts)


class Scores(NamedTuple):
    """Two silhouettes of every row of a tile, and what its own cluster is like."""

    simplified: Floats
    moment: Floats
    size: Floats
    spread: Floats


@_compiled
def scores_for(rows: int) -> Scores:
    """Return room for so many rows."""
    return Scores(np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows))


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
    found: Nearest,
    held: int,
    spreads: Floats,
    sizes: Floats,
    both: bool,
    scores: Scores,
) -> None:
    """Silhouettes of the first `held` rows of a tile (OUT); centres are of one set."""
    best, second, outside = found.best, found.second, found.outside
    simplified, moment, own_size, own_spread = scores
    # Divided by one and thrown away: a branch would stop the loops from being
    # vectorised.
    for row in range(held):
        far = second[row]
        ratio = best[row] / (far if far > 0 else 1.0)
        simplified[row] = 1.0 - np.sqrt(ratio) if far > 0 else 0.0
    if not both:
        return
    for row in range(held):
        own_size[row] = sizes[found.label[row]]
        own_spread[row] = spreads[found.label[row]]
    for row in range(held):
        size = own_size[row]
        # A row is not compared with itself.
        inside = (best[row] + own_spread[row]) * (
            size / (size - 1.0 if size > 1 else 1.0)
        )
        larger = max(inside, outside[row])
        smaller = min(inside, outside[row])
        usable = (larger > 0) & (size > 1)
        root = np.sqrt(smaller / (larger if usable else 1.0))
        contrast = 1.0 - root if outside[row] >= inside else root - 1.0
        moment[row] = contrast if usable else 0.0

# SPDX-License-Identifier: Apache-2.0
"""k-means++, compiled: rows that are drawn by how far they are from those before.

Of many rows nearly all are farther from a new pick than from the nearest before. A
distance in 32 bits tells so, with what rounding can do to it allowed for; only of the
others it is computed in 64, as the reference does. The picks are the reference's.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.groups import apart
from afcl.parts import BLOCK

#: What a number of 32 bits can be wrong by, as a share of it.
ROUNDING = 2.0**-24
#: What a distance may seem longer by, as a share of it, at the least.
SHARE = 2.0**-10
#: Rows whose distances stay in the nearest cache.
SHORT = 1024

_compiled = compiled(error_model="numpy")
_reordered = compiled(error_model="numpy", fastmath={"contract", "nsz"})


@_compiled
def plus_plus(X: Floats, weights: Floats, draws: Floats) -> Ints:
    """Pick rows by weighted k-means++, one draw each; see the reference."""
    n, d = X.shape
    picks = np.empty(draws.shape[0], dtype=np.int64)
    if n > BLOCK:
        found = _pick_of_many(X, weights, draws, picks)
    else:
        work = (np.empty((d, n)), np.empty((4, n)))
        found = pick_rows(X, weights, draws, *work, picks)
    return picks[:found]


@_compiled
def pick_rows(
    X: Floats, mass: Floats, draws: Floats, columns: Floats, work: Floats, picks: Ints
) -> int:
    """Pick rows (OUT) by weighted k-means++, one draw each; return how many.

    There are not more than a block of them.

    `columns` (d numbers a row, or more) and `work` (four) are working memory.
    """
    n, d = X.shape
    nearest, distance, potential, cumulated = work[0], work[1], work[2], work[3]
    for row in range(n):
        for feature in range(d):
            columns[feature, row] = X[row, feature]
        nearest[row] = np.inf
        potential[row] = mass[row]
    found = 0
    for draw in draws:
        total = 0.0
        for row in range(n):
            total += potential[row]
            cumulated[row] = total
        if not total > 0:
            break
        end = np.searchsorted(cumulated[:n], draw * total, side="right")
        if end >= n:
            end = n - 1
        # Rounding may point behind the last row that can be drawn.
        while potential[end] == 0:
            end -= 1
        picks[found] = end
        found += 1
        for row in range(n):
            distance[row] = 0.0
        for feature in range(d):
            place = columns[feature, end]
            for row in range(n):
                difference = columns[feature, row] - place
                distance[row] += difference * difference
        for row in range(n):
            value = distance[row] if distance[row] < nearest[row] else nearest[row]
            nearest[row] = value
            potential[row] = mass[row] * value
    return found


@_compiled
def _pick_of_many(X: Floats, mass: Floats, draws: Floats, picks: Ints) -> int:
    """Pick some of many rows (OUT) by weighted k-means++; return how many."""
    n, d = X.shape
    middle, share = np.zeros(d), 1.0 / n
    for row in range(n):
        for feature in range(d):
            middle[feature] += X[row, feature] * share
    short, most = _shortened(X, middle)
    # By so much, squared, can the way between two rows be wrong in 32 bits: four
    # roundings of every number.
    wrong = d * (4.0 * ROUNDING * most) ** 2
    # (a + b)^2 <= (1 + s) a^2 + (1 + 1 / s) b^2; additions are rounded, too.
    room = (1.0 + SHARE) * (1.0 + 4.0 * (d + 2) * ROUNDING)
    wrong *= 2.0 / SHARE
    nearest, bound = np.full(n, np.inf), np.full(n, np.inf, dtype=np.float32)
    potential, distance = mass.copy(), np.empty(SHORT, dtype=np.float32)
    place, near = np.empty(d, dtype=np.float32), np.empty(SHORT, dtype=np.int64)
    found = 0
    for draw in draws:
        own = _drawn(potential, draw)
        if own < 0:
            break
        picks[found] = own
        found += 1
        for feature in range(d):
            place[feature] = X[own, feature] - middle[feature]
        for tile in range(short.shape[0]):
            _apart_in_short(short[tile], place, distance)
            start = tile * SHORT
            perhaps = 0
            for row in range(min(SHORT, n - start)):
                near[perhaps] = start + row
                # Where numbers are too large for 32 bits nothing is greater.
                perhaps += not distance[row] > bound[start + row]
            for row in near[:perhaps]:
                value = apart(X, row, X, own)
                if value < nearest[row]:
                    nearest[row] = value
                    potential[row] = mass[row] * value
                    bound[row] = room * value + wrong
    return found


@_compiled
def _shortened(X: Floats, middle: Floats) -> tuple[AnyArray, float]:
    """Return rows in 32 bits, tile by tile and features first, and the largest number.

    All as seen from the middle.
    """
    n, d = X.shape
    short = np.zeros((-(-n // SHORT), d, SHORT), dtype=np.float32)
    most = 0.0
    for row in range(n):
        columns = short[row // SHORT]
        for feature in range(d):
            value = X[row, feature] - middle[feature]
            columns[feature, row % SHORT] = value
            most = max(most, abs(value))
    return short, most


@_reordered
def _apart_in_short(columns: AnyArray, place: AnyArray, distance: AnyArray) -> None:
    """Squared distances (OUT) of a tile to one place."""
    distance[:] = np.float32(0.0)
    for feature in range(columns.shape[0]):
        here = place[feature]
        for row in range(columns.shape[1]):
            away = columns[feature, row] - here
            distance[row] += away * away


@_compiled
def _drawn(potential: Floats, draw: float) -> int:
    """Return the row that a number draws, -1 where there is nothing to draw from.

    As the reference does it, block by block; four of them are added up side by side.
    """
    n = potential.shape[0]
    blocks = -(-n // BLOCK)
    sums = np.zeros(blocks)
    whole = n // (4 * BLOCK) * 4
    for block in range(0, whole, 4):
        at = block * BLOCK
        one = two = three = four = 0.0
        for row in range(at, at + BLOCK):
            one += potential[row]
            two += potential[row + BLOCK]
            three += potential[row + 2 * BLOCK]
            four += potential[row + 3 * BLOCK]
        sums[block : block + 4] = one, two, three, four
    for block in range(whole, blocks):
        for row in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
            sums[block] += potential[row]
    total = 0.0
    for block in range(blocks):
        total += sums[block]
    if not total > 0:
        return -1
    wanted, before, block = draw * total, 0.0, 0
    while block < blocks - 1 and before + sums[block] <= wanted:
        before += sums[block]
        block += 1
    inside, own = 0.0, block * BLOCK
    while own < n - 1 and before + (inside + potential[own]) <= wanted:
        inside += potential[own]
        own += 1
    # Rounding may point behind the last row that can be drawn.
    while potential[own] == 0:
        own -= 1
    return own

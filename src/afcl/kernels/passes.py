# SPDX-License-Identifier: Apache-2.0
"""Passes over many rows, compiled: a tile at a time (:mod:`.tiles`), on many threads.

Sums are formed block by block and the blocks are added in their order, so results do
not depend on the number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.along import add_around
from afcl.kernels.compiling import compiled
from afcl.kernels.groups import add_up, squared
from afcl.kernels.lanes import (
    TOGETHER,
    Nearest,
    found_for,
    in_fours,
    nearest,
    one_each,
    ranked,
    two_nearest,
)
from afcl.kernels.reference import Tally, in_order
from afcl.kernels.singles import (
    Turned,
    is_of_use,
    label_turned,
    nearest_by_single,
    single_for,
    turned,
)
from afcl.kernels.slabs import Axes, axes_between, count_rows, mirror, slabs_of_rows
from afcl.kernels.threads import in_ranges
from afcl.kernels.tiles import (
    TILE,
    Scores,
    fill_columns,
    is_wide,
    rows_of_tile,
    score_rows,
    scores_for,
    sets_of,
)
from afcl.parts import BLOCK

#: Numbers of 64 bits in a line of the cache.
LANES = 8
#: Numbers that are scaled in one go.
LINE = 1024

_compiled = compiled(error_model="numpy")


def readable(X: Floats) -> Floats:
    """Return rows as the tiles read them: one after the other, numbers of 64 bits."""
    return np.ascontiguousarray(X, dtype=np.float64)


def aligned(*shape: int) -> Floats:
    """Return zeros that begin where a line of the cache does."""
    size = math.prod(shape)
    room = np.zeros(size + LANES)
    start = -(room.ctypes.data // room.itemsize) % LANES
    return room[start : start + size].reshape(shape)


def scaled(X: Floats, low: Floats, span: Floats) -> Floats:
    """Map every column's `low` to 0 and what is a `span` above it to 1."""
    X = readable(X)
    if not X.size:
        return np.zeros(X.shape)
    # Loops over rows would be short: several go together.
    together = max(1, min(LINE // X.shape[1], X.shape[0]))
    out = aligned(*X.shape)
    _scale(X.ravel(), np.tile(low, together), np.tile(span, together), out.ravel())
    return out


@_compiled
def _scale(values: Floats, low: Floats, span: Floats, out: Floats) -> None:
    """Scale numbers (OUT) line by line; the last line may be shorter."""
    length = low.shape[0]
    for start in range(0, values.shape[0], length):
        here, there = values[start : start + length], out[start : start + length]
        for place in range(here.shape[0]):
            there[place] = (here[place] - low[place]) / span[place]


@_compiled
def squared_distances(X: Floats, centers: Floats) -> Floats:
    """Squared Euclidean distance of every row to every centre, (n, k)."""
    out = np.empty((X.shape[0], centers.shape[0]))
    for row in range(X.shape[0]):
        for center in range(centers.shape[0]):
            out[row, center] = squared(X[row], centers[center])
    return out


# ------------------------------------------------------------------ tally


def tally(
    X: Floats,
    centers: Floats,
    bounds: Ints,
    scores: Ints,
    spreads: Floats,
    sizes: Floats,
    before: Tally | None = None,
) -> Tally:
    """One pass for several sets of centres; see :func:`reference.tally`."""
    X = readable(X)
    k, d = centers.shape
    # Blocks of fixed size, added in order: the sums do not depend on the threads
    # (0002).
    blocks = max(1, -(-X.shape[0] // BLOCK))
    out = (
        np.zeros((blocks, k)),
        aligned(blocks, k, d),
        np.zeros((blocks, k)),
        np.zeros((blocks, scores.shape[0], 2)),
        np.zeros((blocks, k, 3)),
    )
    own = aligned(k, d)
    own[:] = centers
    asked = (own, bounds, scores, spreads, sizes)
    axes = axes_between(centers, bounds, scores)

    def work(first: int, last: int) -> None:
        _tally_blocks(X, first, last, BLOCK, *asked, axes, out)

    in_ranges(work, blocks, X.size * k)
    # Counts, so that it does not matter that all blocks' are added up first.
    slabs = out[4].sum(axis=0)
    mirror(axes, slabs)
    return in_order((*out[:4], slabs[None]), before)


@_compiled
def _tally_blocks(
    X: Floats,
    first: int,
    last: int,
    block: int,
    centers: Floats,
    bounds: Ints,
    scores: Ints,
    spreads: Floats,
    sizes: Floats,
    axes: Axes,
    out: Tally,
) -> None:
    """Add up blocks `first` to `last`; every block has its own place in `out` (INOUT).

    See :func:`reference.tally`.
    """
    d = X.shape[1]
    rows = rows_of_tile(d)
    sets = sets_of(centers, bounds, spreads)
    columns, found, scored = np.zeros((d, rows)), found_for(rows), scores_for(rows)
    distances = np.empty((TOGETHER * np.diff(sets.starts).max(), rows))
    # Of the first set the nearest may be all that is asked.
    single = single_for(X, centers[: bounds[1] if scores[0] == 0 else 0], rows)
    in_short = is_of_use(X, centers, single)
    counts, firsts, seconds, totals, slabs = out
    for place in range(first, last):
        behind = min(X.shape[0], (place + 1) * block)
        for start in range(place * block, behind, rows):
            stop = min(behind, start + rows)
            here, held = X[start:stop], stop - start
            fill_columns(X, start, stop, columns)
            for each in range(scores.shape[0]):
                begin, end = bounds[each], bounds[each + 1]
                own, score = centers[begin:end], scores[each]
                groups = sets.groups[sets.starts[each] : sets.starts[each + 1]]
                if score > 1:
                    size = TOGETHER * groups.shape[0]
                    blur = sets.spreads[TOGETHER * sets.starts[each] :][:size]
                    ranked(columns, groups, blur, distances[:size], found)
                    between = (distances, begin, end, found.label, held, axes)
                    count_rows(*between, slabs[place])
                elif score > 0:
                    two_nearest(columns, groups, found)
                elif each == 0 and in_short:
                    nearest_by_single(columns, here, own, single, found)
                else:
                    nearest(columns, groups, found)
                sums = (counts[place, begin:end], firsts[place, begin:end])
                about = (found.label, found.best, *sums, seconds[place, begin:end])
                add_around(here, own, *about)
                if score > 0:
                    of_set = (spreads[begin:end], sizes[begin:end])
                    score_rows(found, held, *of_set, score > 1, scored)
                    _add_scores(scored, held, score > 1, totals[place, each])


@_compiled
def _add_scores(scored: Scores, held: int, both: bool, totals: Floats) -> None:
    """Add the silhouettes of a tile to their sums (INOUT)."""
    simplified, moment = totals[0], totals[1]
    for row in range(held):
        simplified += scored.simplified[row]
        if both:
            moment += scored.moment[row]
    totals[0] = simplified
    totals[1] = moment


# ------------------------------------------------------------------ nearest centres


def assign(X: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Nearest centre of every row (lowest index on ties) and its squared distance."""
    X, centers = readable(X), readable(centers)
    labels, gaps = np.empty(X.shape[0], dtype=np.int64), np.empty(X.shape[0])

    def work(first: int, last: int) -> None:
        _assign_rows(X, first, last, centers, labels, gaps)

    in_ranges(work, X.shape[0], X.size * centers.shape[0])
    return labels, gaps


@_compiled
def _assign_rows(
    X: Floats, first: int, last: int, centers: Floats, labels: Ints, gaps: Floats
) -> None:
    """Nearest centre and squared distance (OUT) of rows `first` to `last`."""
    rows = rows_of_tile(X.shape[1])
    columns, found = np.zeros((X.shape[1], rows)), found_for(rows)
    single = single_for(X, centers, rows)
    in_short = is_of_use(X, centers, single)
    groups = in_fours(centers)
    for start in range(first, last, rows):
        stop = min(last, start + rows)
        fill_columns(X, start, stop, columns)
        if in_short:
            nearest_by_single(columns, X[start:stop], centers, single, found)
        else:
            nearest(columns, groups, found)
        for row in range(stop - start):
            labels[start + row] = found.label[row]
            gaps[start + row] = found.best[row]


def silhouettes(
    X: Floats, variances: Floats, centers: Floats, spreads: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Simplified, moment and squared moment silhouette of every row, (n,) each."""
    return silhouettes_of(readable(X), variances, readable(centers), spreads, counts)


@_compiled
def silhouettes_of(
    X: Floats, variances: Floats, centers: Floats, spreads: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Score rows that lie one after the other."""
    n, d = X.shape
    simplified, moment, squared = np.empty(n), np.empty(n), np.empty(n)
    columns, found = np.zeros((d, TILE)), found_for(TILE)
    own_size, own_spread = np.empty(TILE), np.empty(TILE)
    groups, blurs = in_fours(centers), one_each(spreads)
    distances = np.zeros((blurs.shape[0], TILE))
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        fill_columns(X, start, stop, columns)
        ranked(columns, groups, blurs, distances, found)
        held = stop - start
        blur, size, spread = variances[start:stop], own_size[:held], own_spread[:held]
        for row in range(held):
            size[row] = counts[found.label[row]]
            spread[row] = spreads[found.label[row]]
        of_tile = (simplified[start:stop], moment[start:stop], squared[start:stop])
        _score_blurred(found, blur, size, spread, *of_tile)
    return simplified, moment, squared


@_compiled
def _score_blurred(
    found: Nearest,
    blur: Floats,
    size: Floats,
    spread: Floats,
    simplified: Floats,
    moment: Floats,
    squared: Floats,
) -> None:
    """Silhouettes of a tile's cells (OUT), which have variances, sizes and spreads.

    (b - a) / max(a, b), 0 for a cluster of one and where both are 0. There are no
    branches, so that several are computed at once.
    """
    for row in range(blur.shape[0]):
        near, far = found.best[row] + blur[row], found.second[row] + blur[row]
        ratio = np.sqrt(near) / np.sqrt(far if far > 0 else 1.0)
        simplified[row] = 1.0 - ratio if far > 0 else 0.0
        alone = not size[row] > 1
        inside = (near + spread[row]) * (size[row] / (1.0 if alone else size[row] - 1))
        beyond = found.outside[row] + blur[row]
        larger = max(inside, beyond)
        nothing = alone or not larger > 0
        contrast = (beyond - inside) / (1.0 if nothing else larger)
        squared[row] = 0.0 if nothing else contrast
        a, b = np.sqrt(inside), np.sqrt(beyond)
        larger = max(a, b)
        nothing = alone or not larger > 0
        contrast = (b - a) / (1.0 if nothing else larger)
        moment[row] = 0.0 if nothing else contrast


# ------------------------------------------------------------------ valleys


def valleys(X: Floats, weights: Floats, centers: Floats) -> Floats:
    """Weight of the rows in three slabs between every centre and its nearest, (k, 3).

    See :func:`reference.valleys`.
    """
    return slabs_of_rows(readable(X), weights, *assign(X, centers), centers)


# ------------------------------------------------------------------ k-means


@_compiled
def sums(X: Floats, weights: Floats, labels: Ints, k: int) -> tuple[Floats, Floats]:
    """Weight (k,) and weighted coordinate sum (k, d) of every label."""
    mass, total = np.empty(k), np.empty((k, X.shape[1]))
    add_up(X, weights, labels, k, mass, total)
    return mass, total


def lloyd(
    X: Floats, weights: Floats, centers: Floats, max_iter: int
) -> tuple[Floats, Ints]:
    """Weighted Lloyd from `centers`; a centre without mass stays where it is."""
    X = readable(X)
    return lloyd_rows(X, turned(X, centers.shape[0]), weights, centers, max_iter)


@_compiled
def lloyd_rows(
    X: Floats, known: Turned, weights: Floats, centers: Floats, max_iter: int
) -> tuple[Floats, Ints]:
    """Do it in one thread; `known` are the rows for as many centres or more."""
    n, k = X.shape[0], centers.shape[0]
    centers = centers.copy()
    labels, moved = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    mass, total, gaps = np.empty(k), np.empty(centers.shape), np.empty(n)
    in_short = known.tiles.shape[0] > 0 and is_wide(n, centers.shape[1], k)
    if in_short:
        in_short = label_turned(X, known, centers, labels)
    else:
        _assign_rows(X, 0, n, centers, labels, gaps)
    for _ in range(max_iter):
        move(X, weights, labels, k, centers, mass, total)
        if in_short:
            in_short = label_turned(X, known, centers, moved)
        else:
            _assign_rows(X, 0, n, centers, moved, gaps)
        changed = False
        for row in range(n):
            if moved[row] != labels[row]:
                changed = True
                break
        if not changed:
            break
        labels, moved = moved, labels
    return centers, labels


@_compiled
def move(
    X: Floats,
    weights: Floats,
    labels: Ints,
    k: int,
    centers: Floats,
    mass: Floats,
    total: Floats,
) -> None:
    """Move every centre that holds mass to its rows' mean; the last three are INOUT."""
    add_up(X, weights, labels, k, mass, total)
    for center in range(k):
        # A centre without rows stays where it is: it may win some later.
        if mass[center] > 0:
            for feature in range(centers.shape[1]):
                centers[center, feature] = total[center, feature] / mass[center]

# SPDX-License-Identifier: Apache-2.0
"""Passes over many rows, compiled: a tile at a time (:mod:`.tiles`), on many threads.

Sums are formed block by block and the blocks are added in their order, so results do
not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.groups import add_up, squared
from afcl.kernels.reference import Tally, in_order
from afcl.kernels.singles import (
    Turned,
    is_of_use,
    label_turned,
    nearest_by_single,
    remembered_for,
    single_for,
    turned,
)
from afcl.kernels.slabs import Axes, axes_between, count_rows, mirror, slabs_of_rows
from afcl.kernels.threads import in_ranges, matrix_products
from afcl.kernels.tiles import (
    TILE,
    Nearest,
    apart_in_any_order,
    differences,
    fill_columns,
    is_wide,
    kept_in_plane,
    measure,
    nearest,
    nearest_for,
    nearest_in_plane,
    rank,
    score_rows,
    tile_for,
)
from afcl.parts import BLOCK

_compiled = compiled(error_model="numpy")


def readable(X: Floats) -> Floats:
    """Return rows as the tiles read them: one after the other, numbers of 64 bits."""
    return np.ascontiguousarray(X, dtype=np.float64)


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
) -> Tally:
    """One pass for several sets of centres; see :func:`reference.tally`."""
    X = readable(X)
    k, d = centers.shape
    # Blocks of fixed size, added in order: the sums do not depend on the threads
    # (0002).
    blocks = max(1, -(-X.shape[0] // BLOCK))
    out = (
        np.zeros((blocks, k)),
        np.zeros((blocks, k, d)),
        np.zeros((blocks, k)),
        np.zeros((blocks, scores.shape[0], 2)),
        np.zeros((blocks, k, 3)),
    )
    asked = (centers, bounds, scores, spreads, sizes)
    axes = axes_between(centers, bounds, scores)

    def work(first: int, last: int) -> None:
        _tally_blocks(X, first, last, BLOCK, *asked, axes, out)

    # Threads of the library inside our own threads would only get in each other's way.
    with matrix_products(is_wide(*X.shape, k)):
        in_ranges(work, blocks, X.size * k)
    counts, firsts, seconds, totals, slabs = (in_order(parts) for parts in out)
    mirror(axes, slabs)
    return counts, firsts, seconds, totals, slabs


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
    tile = tile_for(X.shape[0], centers)
    rows = tile.distances.shape[1]
    near = nearest_for(rows)
    alone = bounds[1] if scores[0] == 0 else 0  # of these the nearest is asked only
    single = single_for(X, centers[:alone], rows)
    kept = kept_in_plane(tile, alone)
    if is_of_use(X, centers, single):
        kept = alone
    counts, firsts, seconds, totals, slabs = out
    for place in range(first, last):
        behind = min(X.shape[0], (place + 1) * block)
        sums_of_block = (counts[place], firsts[place], seconds[place])
        for start in range(place * block, behind, rows):
            stop = min(behind, start + rows)
            here, held = X[start:stop], stop - start
            measure(tile, X, start, stop, centers, kept)
            for segment in range(scores.shape[0]):
                begin, end = bounds[segment], bounds[segment + 1]
                score = scores[segment]
                if begin < kept and tile.wide:
                    about = (single, near.label, near.best)
                    nearest_by_single(X, start, stop, centers[:kept], *about)
                elif begin < kept:
                    nearest_in_plane(
                        tile.columns, centers, begin, end, near.label, near.best
                    )
                else:
                    rank(tile.distances, begin, end, score, spreads, near)
                if tile.wide and begin >= kept:
                    _refine(here, centers, near)
                _add_rows(here, centers, near.label, near.best, *sums_of_block)
                if score > 0:
                    score_rows(near, held, spreads, sizes, score > 1)
                    _add_scores(near, held, score > 1, totals[place, segment])
                if score > 1:
                    count_rows(
                        tile.distances, begin, end, near.label, held, axes, slabs[place]
                    )


@_compiled
def _refine(rows: Floats, centers: Floats, near: Nearest) -> None:
    """Turn what a matrix product says of a tile into distances (INOUT)."""
    best, second, outside = near.best, near.second, near.outside
    for row in range(rows.shape[0]):
        apart = apart_in_any_order(rows[row], centers[near.label[row]])
        second[row] = apart + (second[row] - best[row])
        outside[row] = apart + (outside[row] - best[row])
        best[row] = apart


@_compiled
def _add_rows(
    rows: Floats,
    centers: Floats,
    label: Ints,
    best: Floats,
    counts: Floats,
    firsts: Floats,
    seconds: Floats,
) -> None:
    """Add the rows of a tile, as seen from their centres, to the sums (INOUT)."""
    for row in range(rows.shape[0]):
        own = label[row]
        counts[own] += 1.0
        seconds[own] += best[row]
        for feature in range(rows.shape[1]):
            firsts[own, feature] += rows[row, feature] - centers[own, feature]


@_compiled
def _add_scores(near: Nearest, held: int, both: bool, totals: Floats) -> None:
    """Add the silhouettes of a tile to their sums (INOUT)."""
    simplified, moment = totals[0], totals[1]
    for row in range(held):
        simplified += near.simplified[row]
        if both:
            moment += near.moment[row]
    totals[0] = simplified
    totals[1] = moment


# ------------------------------------------------------------------ nearest centres


def assign(X: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Nearest centre of every row (lowest index on ties) and its squared distance."""
    X = readable(X)
    labels, gaps = np.empty(X.shape[0], dtype=np.int64), np.empty(X.shape[0])

    def work(first: int, last: int) -> None:
        _assign_rows(X, first, last, centers, labels, gaps)

    with matrix_products(is_wide(*X.shape, centers.shape[0])):
        in_ranges(work, X.shape[0], X.size * centers.shape[0])
    return labels, gaps


@_compiled
def _assign_rows(
    X: Floats, first: int, last: int, centers: Floats, labels: Ints, gaps: Floats
) -> None:
    """Nearest centre and squared distance (OUT) of rows `first` to `last`."""
    k = centers.shape[0]
    single = single_for(X, centers, TILE)
    if is_of_use(X, centers, single):
        for start in range(first, last, TILE):
            stop = min(last, start + TILE)
            here = (labels[start:stop], gaps[start:stop])
            nearest_by_single(X, start, stop, centers, single, *here)
        return
    tile = tile_for(X.shape[0], centers)
    rows = tile.distances.shape[1]
    own, best = np.zeros(rows, dtype=np.int64), np.zeros(rows)
    kept = kept_in_plane(tile, k)
    for start in range(first, last, rows):
        stop = min(last, start + rows)
        measure(tile, X, start, stop, centers, kept)
        if kept > 0:
            nearest_in_plane(tile.columns, centers, 0, k, own, best)
        else:
            nearest(tile.distances, 0, k, own, best)
        for row in range(stop - start):
            labels[start + row] = own[row]
            if tile.wide:
                gaps[start + row] = apart_in_any_order(
                    X[start + row], centers[own[row]]
                )
            else:
                gaps[start + row] = best[row]


@_compiled
def silhouettes(
    X: Floats, variances: Floats, centers: Floats, spreads: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Simplified, moment and squared moment silhouette of every row, (n,) each."""
    n, (k, d) = X.shape[0], centers.shape
    simplified, moment, squared = np.empty(n), np.empty(n), np.empty(n)
    columns, distances = np.zeros((d, TILE)), np.zeros((k, TILE))
    seen = nearest_for(TILE)
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        fill_columns(X, start, stop, columns)
        differences(columns, centers, distances)
        rank(distances, 0, k, 2, spreads, seen)
        for row in range(stop - start):
            blur = variances[start + row]
            near = seen.best[row] + blur
            far = seen.second[row] + blur
            simplified[start + row] = (
                1.0 - np.sqrt(near) / np.sqrt(far) if far > 0 else 0.0
            )
            own = seen.label[row]
            size = counts[own]
            inside = (near + spreads[own]) * (size / (size - 1.0 if size > 1 else 1.0))
            beyond = seen.outside[row] + blur
            moment[start + row] = _contrast(np.sqrt(inside), np.sqrt(beyond), size)
            squared[start + row] = _contrast(inside, beyond, size)
    return simplified, moment, squared


@_compiled
def _contrast(inside: float, outside: float, size: float) -> float:
    """(b - a) / max(a, b), 0 for a cluster of one and where both are 0."""
    larger = max(inside, outside)
    if larger > 0 and size > 1:
        return (outside - inside) / larger
    return 0.0


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
    with matrix_products(is_wide(*X.shape, centers.shape[0])):
        X = readable(X)
        known = turned(X, centers.shape[0])
        return lloyd_rows(X, known, weights, centers, max_iter)


@_compiled
def lloyd_rows(
    X: Floats, known: Turned, weights: Floats, centers: Floats, max_iter: int
) -> tuple[Floats, Ints]:
    """Do it in one thread; `known` are the rows for as many centres or more."""
    n, k = X.shape[0], centers.shape[0]
    centers = centers.copy()
    labels, moved = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    mass, total, gaps = np.empty(k), np.empty(centers.shape), np.empty(n)
    by_single = known.tiles.shape[0] > 0 and is_wide(n, centers.shape[1], k)
    distances = remembered_for(known, k if by_single else 0)
    before = np.full(centers.shape, np.nan)  # of none there is a distance yet
    _assign_rows(X, 0, n, centers, labels, gaps)
    for _ in range(max_iter):
        move(X, weights, labels, k, centers, mass, total)
        if by_single:
            other = other_rows(centers, before)
            before[:] = centers
            by_single = label_turned(X, known, centers, other, distances, moved)
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
def other_rows(new: Floats, old: Floats) -> Ints:
    """Return which rows of one table are not those of the other."""
    found, number = np.empty(new.shape[0], dtype=np.int64), 0
    for row in range(new.shape[0]):
        for column in range(new.shape[1]):
            if new[row, column] != old[row, column]:
                found[number] = row
                number += 1
                break
    return found[:number]


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


@_compiled
def plus_plus(X: Floats, weights: Floats, draws: Floats) -> Ints:
    """Pick rows by weighted k-means++, one draw each; see the reference."""
    n, d = X.shape
    picks = np.empty(draws.shape[0], dtype=np.int64)
    found = pick_rows(X, weights, draws, np.empty((d, n)), np.empty((4, n)), picks)
    return picks[:found]


@_compiled
def pick_rows(
    X: Floats, mass: Floats, draws: Floats, columns: Floats, work: Floats, picks: Ints
) -> int:
    """Pick rows (OUT) by weighted k-means++, one draw each; return how many.

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

# SPDX-License-Identifier: Apache-2.0
"""The kernels compiled by Numba; signatures and bits of :mod:`.reference`.

The order of every sum is the reference's, so that the choice between the two never
shows in a result; but large passes over wide tables go through a matrix product and
agree with the reference to rounding (:mod:`.tiles`). Compiled code is cached on disk.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.paths import crowding, join_seeds, ward
from afcl.kernels.paths import levels as _levels
from afcl.kernels.reference import in_order
from afcl.kernels.threads import in_ranges, matrix_products
from afcl.kernels.tiles import (
    assign_rows,
    is_wide,
    plus_plus,
    silhouettes,
    sums,
    tally_blocks,
)
from afcl.kernels.tiles import lloyd as _lloyd
from afcl.parts import BLOCK

__all__ = ["crowding", "join_seeds", "plus_plus", "silhouettes", "sums", "ward"]

_compiled = compiled()


@_compiled
def _squared(a: Floats, b: Floats) -> float:
    """Squared distance of two points."""
    total = 0.0
    for feature in range(a.shape[0]):
        difference = a[feature] - b[feature]
        total += difference * difference
    return total


@_compiled
def squared_distances(X: Floats, centers: Floats) -> Floats:
    """Squared Euclidean distance of every row to every centre, (n, k)."""
    out = np.empty((X.shape[0], centers.shape[0]))
    for row in range(X.shape[0]):
        for center in range(centers.shape[0]):
            out[row, center] = _squared(X[row], centers[center])
    return out


def assign(X: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Nearest centre of every row (lowest index on ties) and its squared distance."""
    X = _readable(X)
    labels = np.empty(X.shape[0], dtype=np.int64)
    nearest = np.empty(X.shape[0])

    def work(first: int, last: int) -> None:
        assign_rows(X, first, last, centers, labels, nearest)

    with matrix_products(is_wide(*X.shape, centers.shape[0])):
        in_ranges(work, X.shape[0], X.size * centers.shape[0])
    return labels, nearest


def lloyd(
    X: Floats, weights: Floats, centers: Floats, max_iter: int
) -> tuple[Floats, Ints]:
    """Weighted Lloyd from `centers`; a centre without mass stays where it is."""
    with matrix_products(is_wide(*X.shape, centers.shape[0])):
        moved: tuple[Floats, Ints] = _lloyd(_readable(X), weights, centers, max_iter)
    return moved


def tally(
    X: Floats,
    centers: Floats,
    bounds: Ints,
    scores: Ints,
    spreads: Floats,
    sizes: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """One pass for several sets of centres; see :func:`reference.tally`."""
    X = _readable(X)
    k, d = centers.shape
    blocks = max(1, -(-X.shape[0] // BLOCK))
    counts = np.zeros((blocks, k))
    firsts = np.zeros((blocks, k, d))
    seconds = np.zeros((blocks, k))
    totals = np.zeros((blocks, scores.shape[0], 2))

    def work(first: int, last: int) -> None:
        tally_blocks(
            X,
            first,
            last,
            BLOCK,
            centers,
            bounds,
            scores,
            spreads,
            sizes,
            counts,
            firsts,
            seconds,
            totals,
        )

    with matrix_products(is_wide(*X.shape, k)):
        in_ranges(work, blocks, X.size * k)
    return in_order(counts), in_order(firsts), in_order(seconds), in_order(totals)


def levels(
    X: Floats,
    weights: Floats,
    scatters: Floats,
    centers: Floats,
    sizes: Floats,
    left: Ints,
    right: Ints,
    most: int,
    max_iter: int,
) -> list[tuple[Floats, Floats, Floats, float, float]]:
    """Every level of a path, polished and scored; see :func:`reference.levels`."""
    with matrix_products(is_wide(*X.shape, most)):
        starts, *arrays, totals = _levels(
            _readable(X),
            weights,
            scatters,
            centers,
            sizes,
            left,
            right,
            most,
            max_iter,
        )
    return [
        (*(array[a:b] for array in arrays), *total)
        for a, b, total in zip(starts[:-1], starts[1:], totals.tolist(), strict=True)
    ]


def _readable(X: Floats) -> Floats:
    """Return rows as the tiles read them: one after the other, numbers of 64 bits."""
    return np.ascontiguousarray(X, dtype=np.float64)


@_compiled
def _apart(turned: Floats, point: Floats, gaps: Floats) -> None:
    """Squared distance of every seed to a point; `turned` is (d, k), `gaps` is OUT.

    Seeds next to each other in memory let the processor take several at a time, each
    with its own sum over the features from first to last.
    """
    for seed in range(turned.shape[1]):
        gaps[seed] = 0.0
    for feature in range(turned.shape[0]):
        place = point[feature]
        for seed in range(turned.shape[1]):
            difference = turned[feature, seed] - place
            gaps[seed] += difference * difference


@_compiled
def _winner(wins: Floats, gaps: Floats) -> int:
    """Return argmin of wins times distance, the lowest index on ties."""
    best = np.inf
    winner = 0
    for seed in range(gaps.shape[0]):
        cost = wins[seed] * gaps[seed]
        if cost < best:
            best = cost
            winner = seed
    return winner


@_compiled
def compete(X: Floats, seeds: Floats, conscience: bool) -> Ints:
    """Winner of every row in order, Eqs. (2)-(4)."""
    turned = np.ascontiguousarray(seeds.T)
    gaps = np.empty(seeds.shape[0])
    wins = np.ones(seeds.shape[0])
    winners = np.empty(X.shape[0], dtype=np.int64)
    for row in range(X.shape[0]):
        _apart(turned, X[row], gaps)
        winner = _winner(wins, gaps)
        if conscience:
            wins[winner] += 1.0
        winners[row] = winner
    return winners


@_compiled
def intensities(
    X: Floats, seeds: Floats, winners: Ints, rates: Floats, pulls: Floats
) -> tuple[Ints, Ints, Floats, Floats]:
    """Every row's pull on its winner, seed by seed, and o, b, z; `pulls` is OUT."""
    n, d = X.shape
    k = seeds.shape[0]
    counts = np.zeros(k, dtype=np.int64)
    means = np.zeros((k, d))
    for row in range(n):
        winner = winners[row]
        counts[winner] += 1
        for feature in range(d):
            means[winner, feature] += X[row, feature]
    place = np.zeros(k, dtype=np.int64)
    for seed in range(k):
        if counts[seed] > 0:
            for feature in range(d):
                means[seed, feature] /= counts[seed]
        if seed > 0:
            place[seed] = place[seed - 1] + counts[seed - 1]
    owners = np.empty(n, dtype=np.int64)
    squares = np.zeros((k, d))
    for row in range(n):
        winner = winners[row]
        index = place[winner]
        place[winner] += 1
        owners[index] = winner
        for feature in range(d):
            pulls[index, feature] = rates[feature] * (
                X[row, feature] - seeds[winner, feature]
            )
        for feature in range(d):
            residual = X[row, feature] - means[winner, feature]
            squares[winner, feature] += residual * residual
    scatters = np.zeros(k)
    for feature in range(d):
        for seed in range(k):
            scatters[seed] += squares[seed, feature]
    return owners, counts, means, scatters


@_compiled
def _weighed(
    intensity: Floats, weight: float, rate: float, pull: Floats, squares: Floats
) -> float:
    """Return the squared reach of a weighed intensity; `pull`, `squares` are OUT."""
    for feature in range(pull.shape[0]):
        pull[feature] = weight * intensity[feature]
        reach = pull[feature] / rate
        squares[feature] = reach * reach
    radius = 0.0
    for feature in range(pull.shape[0]):
        radius += squares[feature]
    return radius


@_compiled
def _renew(seeds: Floats, who: Ints, anchor: Floats, gaps: Floats) -> None:
    """Squared distance of the seeds `who` to the anchor; `gaps` is OUT.

    A sum waits for each of its terms, so four sums run side by side; the last seed
    fills up.
    """
    last = who.shape[0] - 1
    for start in range(0, who.shape[0], 4):
        one, two = who[start], who[min(start + 1, last)]
        three, four = who[min(start + 2, last)], who[min(start + 3, last)]
        first = second = third = fourth = 0.0
        for feature in range(anchor.shape[0]):
            place = anchor[feature]
            difference = seeds[one, feature] - place
            first += difference * difference
            difference = seeds[two, feature] - place
            second += difference * difference
            difference = seeds[three, feature] - place
            third += difference * difference
            difference = seeds[four, feature] - place
            fourth += difference * difference
        gaps[one] = first
        gaps[two] = second
        gaps[three] = third
        gaps[four] = fourth


@_compiled
def interact(
    seeds: Floats,
    sent: Floats,
    owners: Ints,
    intensities: Floats,
    weight: float,
    rate: float,
    current: bool,
) -> None:
    """One client's uploads pull the seeds, Eqs. (13)-(14); `seeds` is INOUT.

    Distances to an anchor that stays are kept, and renewed for the seeds that move.
    The owner joins at any distance, so its own is never asked for.
    """
    k, d = seeds.shape
    anchor = np.empty(d)
    pull = np.empty(d)
    squares = np.empty(d)
    gaps = np.empty(k)
    others = np.empty(k, dtype=np.int64)
    step = weight * rate
    anchored = -1
    for index in range(owners.shape[0]):
        owner = owners[index]
        if current or owner != anchored:
            anchored = owner
            for feature in range(d):
                place = seeds[owner, feature] if current else sent[owner, feature]
                anchor[feature] = place
            for seed in range(k):
                gaps[seed] = _squared(seeds[seed], anchor)
        radius = _weighed(intensities[index], weight, rate, pull, squares)
        n_others = 0
        for seed in range(k):
            if seed == owner or gaps[seed] <= radius:
                for feature in range(d):
                    seeds[seed, feature] = seeds[seed, feature] + (
                        pull[feature] + step * (anchor[feature] - seeds[seed, feature])
                    )
                if seed != owner:
                    others[n_others] = seed
                    n_others += 1
        if not current:
            _renew(seeds, others[:n_others], anchor, gaps)


@_compiled
def interact_affine(
    seeds: Floats, owners: Ints, intensities: Floats, weight: float, rate: float
) -> tuple[Ints, Floats]:
    """How often every seed is pulled, and where the pulls alone would put it."""
    k, d = seeds.shape
    moved = seeds.copy()
    counts = np.zeros(k, dtype=np.int64)
    places = np.zeros((k, d))
    pull = np.empty(d)
    squares = np.empty(d)
    gaps = np.empty(k)
    others = np.empty(k, dtype=np.int64)
    step = weight * rate
    anchored = -1
    for index in range(owners.shape[0]):
        owner = owners[index]
        anchor = seeds[owner]
        if owner != anchored:
            anchored = owner
            for seed in range(k):
                gaps[seed] = _squared(moved[seed], anchor)
        radius = _weighed(intensities[index], weight, rate, pull, squares)
        n_others = 0
        for seed in range(k):
            if seed == owner or gaps[seed] <= radius:
                counts[seed] += 1
                for feature in range(d):
                    moved[seed, feature] = moved[seed, feature] + (
                        pull[feature] + step * (anchor[feature] - moved[seed, feature])
                    )
                    row = anchor[feature] + intensities[index, feature] / rate
                    places[seed, feature] = (1 - step) * places[
                        seed, feature
                    ] + step * row
                if seed != owner:
                    others[n_others] = seed
                    n_others += 1
        _renew(moved, others[:n_others], anchor, gaps)
    return counts, places


@_compiled
def interact_matlab(seeds: Floats, rows: Floats, steps: Floats, near: float) -> None:
    """All seeds compete for every rebuilt row, with conscience; `seeds` is INOUT."""
    k, d = seeds.shape
    each = np.broadcast_to(steps, rows.shape)
    turned = seeds.T.copy()
    wins = np.ones(k)
    distances = np.empty(k)
    gaps = np.empty(k)
    for index in range(rows.shape[0]):
        _apart(turned, rows[index], distances)
        winner = _winner(wins, distances)
        wins[winner] += 1.0
        _apart(turned, turned[:, winner].copy(), gaps)
        for seed in range(k):
            if gaps[seed] <= distances[winner] or gaps[seed] <= near:
                for feature in range(d):
                    gap = rows[index, feature] - turned[feature, seed]
                    turned[feature, seed] += each[index, feature] * gap
    for seed in range(k):
        for feature in range(d):
            seeds[seed, feature] = turned[feature, seed]


@_compiled
def _farthest(X: Floats, left: Ints, size: int, point: Floats) -> int:
    """Position among the first `size` of `left` of the row farthest from a point."""
    best = -1.0
    position = 0
    for index in range(size):
        distance = _squared(X[left[index]], point)
        if distance > best:
            best = distance
            position = index
    return position


@_compiled
def _nearest(
    X: Floats, left: Ints, size: int, own: int, taken: Ints, gaps: Floats
) -> None:
    """Fill `taken` (OUT) with a row's position and those of the rows nearest to it."""
    filled = 0
    for index in range(size):
        distance = -1.0
        if index != own:
            distance = _squared(X[left[index]], X[left[own]])
        place = filled
        while place > 0 and distance < gaps[place - 1]:
            place -= 1
        if place < taken.shape[0]:
            filled = min(filled + 1, taken.shape[0])
            for later in range(filled - 1, place, -1):
                gaps[later] = gaps[later - 1]
                taken[later] = taken[later - 1]
            gaps[place] = distance
            taken[place] = index


@_compiled
def microaggregate(X: Floats, smallest: int) -> Ints:
    """Group rows by MDAV: a label per row, every group of at least `smallest` rows."""
    labels = np.full(X.shape[0], -1, dtype=np.int64)
    left = np.arange(X.shape[0])
    size = X.shape[0]
    taken = np.empty(smallest, dtype=np.int64)
    gaps = np.empty(smallest)
    group = 0
    while size >= 2 * smallest:
        around = np.zeros(X.shape[1])
        for index in range(size):
            for feature in range(X.shape[1]):
                around[feature] += X[left[index], feature]
        around /= size
        for _ in range(2 if size >= 3 * smallest else 1):
            own = _farthest(X, left, size, around)
            around = X[left[own]].copy()
            _nearest(X, left, size, own, taken, gaps)
            for position in taken:
                labels[left[position]] = group
            kept = 0
            for index in range(size):
                if labels[left[index]] < 0:
                    left[kept] = left[index]
                    kept += 1
            size = kept
            group += 1
    for index in range(size):
        labels[left[index]] = group
    return labels

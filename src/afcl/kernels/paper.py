# SPDX-License-Identifier: Apache-2.0
"""The paper's sequential passes, compiled; the oracle is :mod:`.reference_paper`."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.groups import squared
from afcl.kernels.reference_paper import Pulls

_compiled = compiled()


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
    seeds: Floats, sent: Floats, pulls: Pulls, weight: float, rate: float, current: bool
) -> None:
    """One client's uploads pull the seeds, Eqs. (13)-(14); `seeds` is INOUT.

    Distances to an anchor that stays are kept, and renewed for the seeds that move.
    The owner joins at any distance, so its own is never asked for.
    """
    k, d = seeds.shape
    owners, intensities = pulls
    anchor, pull, squares = np.empty(d), np.empty(d), np.empty(d)
    gaps, joined = np.empty(k), np.empty(k, dtype=np.int64)
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
                gaps[seed] = squared(seeds[seed], anchor)
        radius = _weighed(intensities[index], weight, rate, pull, squares)
        others = 0
        for seed in range(k):
            if seed == owner or gaps[seed] <= radius:
                for feature in range(d):
                    seeds[seed, feature] = seeds[seed, feature] + (
                        pull[feature] + step * (anchor[feature] - seeds[seed, feature])
                    )
                if seed != owner:
                    joined[others] = seed
                    others += 1
        if not current:
            _renew(seeds, joined[:others], anchor, gaps)


@_compiled
def interact_affine(
    seeds: Floats, owners: Ints, intensities: Floats, weight: float, rate: float
) -> tuple[Ints, Floats]:
    """How often every seed is pulled, and where the pulls alone would put it."""
    k, d = seeds.shape
    moved = seeds.copy()
    counts, places = np.zeros(k, dtype=np.int64), np.zeros((k, d))
    pull, squares = np.empty(d), np.empty(d)
    gaps, joined = np.empty(k), np.empty(k, dtype=np.int64)
    step = weight * rate
    anchored = -1
    for index in range(owners.shape[0]):
        owner = owners[index]
        anchor = seeds[owner]
        if owner != anchored:
            anchored = owner
            for seed in range(k):
                gaps[seed] = squared(moved[seed], anchor)
        radius = _weighed(intensities[index], weight, rate, pull, squares)
        others = 0
        for seed in range(k):
            if seed == owner or gaps[seed] <= radius:
                counts[seed] += 1
                for feature in range(d):
                    moved[seed, feature] = moved[seed, feature] + (
                        pull[feature] + step * (anchor[feature] - moved[seed, feature])
                    )
                    row = anchor[feature] + intensities[index, feature] / rate
                    kept = (1 - step) * places[seed, feature]
                    places[seed, feature] = kept + step * row
                if seed != owner:
                    joined[others] = seed
                    others += 1
        _renew(moved, joined[:others], anchor, gaps)
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

# SPDX-License-Identifier: Apache-2.0
"""Groups of rows and sums over cohorts, for many clients in one call, compiled.

Rows lie one after the other as in :mod:`.crowds`. The oracles are
:mod:`privacy.grouping`, :mod:`privacy.masks` (before anything is masked) and
:mod:`core.cohorts`, in a loop.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels import native
from afcl.kernels.compiling import compiled
from afcl.kernels.crowds import apart, look, rows_of

_compiled = compiled(error_model="numpy")
#: Spans that are not larger than this cannot be divided by.
_TINY = float(np.finfo(np.float64).tiny)


@_compiled
def group(rows: Floats, offsets: Ints, clients: Ints, smallest: int) -> Ints:
    """Group every client's rows by MDAV on standardised columns.

    Returned are labels for the rows of `clients`, one client after the other; groups
    are numbered on from client to client.
    """
    total = 0
    for client in clients:
        total += offsets[client + 1] - offsets[client]
    labels = np.empty(total, dtype=np.int64)
    at = 0
    groups = 0
    for client in clients:
        standard = _standardised(rows[offsets[client] : offsets[client + 1]])
        mine = native.microaggregate(standard, smallest)
        most = 0
        for row in range(mine.shape[0]):
            labels[at] = groups + mine[row]
            most = max(most, mine[row])
            at += 1
        groups += most + 1
    return labels


@_compiled
def _standardised(X: Floats) -> Floats:
    """Columns with deviation 1; a constant one is 0. Halves cannot overflow."""
    n, d = X.shape
    unit = np.zeros((n, d))
    for feature in range(d):
        low = np.inf
        for row in range(n):
            low = min(low, X[row, feature])
        span = -np.inf
        for row in range(n):
            span = max(span, X[row, feature] / 2 - low / 2)
        if not span > max(abs(low) * 1e-15, _TINY):
            continue
        mean = 0.0
        for row in range(n):
            unit[row, feature] = (X[row, feature] / 2 - low / 2) / span
            mean += unit[row, feature]
        mean /= n
        squares = 0.0
        for row in range(n):
            gap = unit[row, feature] - mean
            squares += gap * gap
        deviation = np.sqrt(squares / n)
        for row in range(n):
            unit[row, feature] /= deviation
    return unit


@_compiled
def count(
    rows: Floats, offsets: Ints, members: Ints, cohorts: Ints, seeds: Floats
) -> Ints:
    """Rows of every cohort nearest to each seed, (cohorts, k).

    Cohort i has the members ``members[cohorts[i]:cohorts[i + 1]]``.
    """
    n = cohorts.shape[0] - 1
    numbers = rows_of(offsets, members)
    labels = _labels(rows, numbers, seeds)
    counts = np.zeros((n, seeds.shape[0]), dtype=np.int64)
    at = 0
    for cohort in range(n):
        for member in range(cohorts[cohort], cohorts[cohort + 1]):
            client = members[member]
            for _ in range(offsets[client], offsets[client + 1]):
                counts[cohort, labels[at]] += 1
                at += 1
    return counts


@_compiled
def _labels(rows: Floats, numbers: Ints, seeds: Floats) -> Ints:
    """Return the nearest seed of these rows."""
    labels = np.empty(numbers.shape[0], dtype=np.int64)
    none = np.empty(0)
    gaps = np.empty(numbers.shape[0])
    look(rows, numbers, seeds, none, none, labels, gaps, none, none)
    return labels


@_compiled
def join(counts: Ints, seeds: Floats, smallest: int) -> tuple[Ints, Ints]:
    """Join seeds until every cohort's groups hold `smallest` of its rows.

    Returned are each seed's group, (cohorts, k), and the number of groups.
    """
    n, k = counts.shape
    d = seeds.shape[1]
    groups = np.empty((n, k), dtype=np.int64)
    sizes = np.empty(n, dtype=np.int64)
    mass = np.empty(k)
    place = np.empty((k, d))
    number = np.empty(k, dtype=np.int64)
    for cohort in range(n):
        mine = groups[cohort]
        left = 0
        for seed in range(k):
            mine[seed] = seed
            mass[seed] = counts[cohort, seed]
            for feature in range(d):
                place[seed, feature] = seeds[seed, feature]
            left += mass[seed] > 0
        while left > 1:
            i = -1
            for seed in range(k):
                if mass[seed] > 0 and (i < 0 or mass[seed] < mass[i]):
                    i = seed
            if mass[i] >= smallest:
                break
            j = _nearest_among(place, i, mass)
            both = mass[i] + mass[j]
            for feature in range(d):
                place[j, feature] = (
                    mass[i] * place[i, feature] + mass[j] * place[j, feature]
                ) / both
            mass[j] = both
            mass[i] = 0.0
            left -= 1
            for seed in range(k):
                if mine[seed] == i:
                    mine[seed] = j
        for seed in range(k):
            mass[seed] = counts[cohort, seed]
        for seed in range(k):
            if counts[cohort, seed] == 0:
                mine[seed] = mine[_nearest_among(seeds, seed, mass)]
        sizes[cohort] = _numbered(mine, number)
    return groups, sizes


@_compiled
def _nearest_among(points: Floats, own: int, mass: Floats) -> int:
    """Return the nearest other point that has mass, the lowest on ties."""
    best = np.inf
    found = -1
    for index in range(points.shape[0]):
        if index != own and mass[index] > 0:
            distance = apart(points, index, points, own)
            if found < 0 or distance < best:
                best = distance
                found = index
    return found


@_compiled
def _numbered(groups: Ints, number: Ints) -> int:
    """Give groups numbers from 0 on, in the order of their values; return how many."""
    for value in range(number.shape[0]):
        number[value] = -1
    for value in groups:
        number[value] = 0
    size = 0
    for value in range(number.shape[0]):
        if number[value] == 0:
            number[value] = size
            size += 1
    for index in range(groups.shape[0]):
        groups[index] = number[groups[index]]
    return size


@_compiled
def add(
    rows: Floats,
    offsets: Ints,
    members: Ints,
    cohorts: Ints,
    seeds: Floats,
    groups: Ints,
    places: Ints,
    per_unit: float,
) -> tuple[Ints, Ints]:
    """Add up every cohort's rows: per group the rows, and d + 1 fixed-point sums.

    The groups of cohort i are written from ``places[i]`` on. Each member rounds its own
    sums (of rows, then of squared norms) to units, `per_unit` of which are 1.
    """
    d = seeds.shape[1]
    n = cohorts.shape[0] - 1
    numbers = rows_of(offsets, members)
    labels = _labels(rows, numbers, seeds)
    counts = np.zeros(places[n], dtype=np.int64)
    totals = np.zeros((places[n], d + 1), dtype=np.int64)
    sums = np.empty((seeds.shape[0], d + 1))
    at = 0
    for cohort in range(n):
        first = places[cohort]
        size = places[cohort + 1] - first
        for member in range(cohorts[cohort], cohorts[cohort + 1]):
            client = members[member]
            for mine in range(size):
                for column in range(d + 1):
                    sums[mine, column] = 0.0
            for row in range(offsets[client], offsets[client + 1]):
                mine = groups[cohort, labels[at]]
                at += 1
                counts[first + mine] += 1
                square = 0.0
                for feature in range(d):
                    value = rows[row, feature]
                    sums[mine, feature] += value
                    square += value * value
                sums[mine, d] += square
            for mine in range(size):
                for column in range(d + 1):
                    totals[first + mine, column] += np.int64(
                        np.rint(sums[mine, column] * per_unit)
                    )
    return counts, totals

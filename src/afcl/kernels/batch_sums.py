# SPDX-License-Identifier: Apache-2.0
"""Groups of rows and sums over cohorts, for many clients in one call, compiled.

Rows lie one after the other as in :mod:`.batches`. The oracles are
:mod:`privacy.grouping`, :mod:`privacy.masks` (before anything is masked) and
:mod:`core.cohorts`, in a loop.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels import native
from afcl.kernels.batches import look, rows_of
from afcl.kernels.compiling import compiled

_compiled = compiled(error_model="numpy")
#: Spans that are not larger than this cannot be divided by.
_TINY = float(np.finfo(np.float64).tiny)


@_compiled
def group(
    rows: Floats, offsets: Ints, clients: Ints, smallest: int
) -> tuple[Ints, Ints]:
    """Group every client's rows by MDAV on standardised columns.

    Returned are labels for the rows of `clients`, one client after the other; groups
    are numbered on from client to client; and the number of each client's first group.
    """
    total = 0
    for client in clients:
        total += offsets[client + 1] - offsets[client]
    labels = np.empty(total, dtype=np.int64)
    firsts = np.empty(clients.shape[0], dtype=np.int64)
    at = 0
    groups = 0
    for index in range(clients.shape[0]):
        client = clients[index]
        firsts[index] = groups
        standard = _standardised(rows[offsets[client] : offsets[client + 1]])
        mine = native.microaggregate(standard, smallest)
        most = 0
        for row in range(mine.shape[0]):
            labels[at] = groups + mine[row]
            most = max(most, mine[row])
            at += 1
        groups += most + 1
    return labels, firsts


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

# SPDX-License-Identifier: Apache-2.0
"""The work of many clients in one call, compiled: rows one after the other, offsets.

Client c owns the rows from ``offsets[c]`` up to ``offsets[c + 1]``. A call works for
the clients it is told, one after the other, each by itself: it does not matter how
clients are shared out between calls or threads. What client i of them sends is written
from ``places[i]`` on, as many cells as ``held[i]`` says; :func:`pack` moves them
together.

The oracle of every function is the code of one client, in a loop: :mod:`core.client`,
:mod:`core.seeding`, :mod:`core.cells`.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.tiles import (
    TILE,
    _differences,
    _nearest,
    _nearest_other,
    _score,
    _two_least,
)

_compiled = compiled(error_model="numpy")


# ------------------------------------------------------------------ small parts


@_compiled
def apart(A: Floats, i: int, B: Floats, j: int) -> float:
    """Squared distance of row i of A to row j of B."""
    total = 0.0
    for feature in range(A.shape[1]):
        difference = A[i, feature] - B[j, feature]
        total += difference * difference
    return total


@_compiled
def rows_of(offsets: Ints, clients: Ints) -> Ints:
    """Return the numbers of these clients' rows, one client after the other."""
    total = 0
    for client in clients:
        total += offsets[client + 1] - offsets[client]
    numbers = np.empty(total, dtype=np.int64)
    at = 0
    for client in clients:
        for row in range(offsets[client], offsets[client + 1]):
            numbers[at] = row
            at += 1
    return numbers


@_compiled
def look(
    rows: Floats,
    numbers: Ints,
    centers: Floats,
    spreads: Floats,
    sizes: Floats,
    labels: Ints,
    gaps: Floats,
    simplified: Floats,
    moment: Floats,
) -> None:
    """Find the nearest centre of these rows, its squared distance, and silhouettes.

    Rows are taken a tile at a time, whosever they are. Without `spreads` (IN, empty)
    there are no silhouettes; the last four are OUT.
    """
    n = numbers.shape[0]
    k, d = centers.shape
    columns = np.zeros((d, TILE))
    distances = np.empty((k, TILE))
    label = np.empty(TILE, dtype=np.int64)
    best, second, outside = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    simple, full = np.empty(TILE), np.empty(TILE)
    scored = spreads.shape[0] > 0
    for start in range(0, n, TILE):
        held = min(TILE, n - start)
        for place in range(held):
            for feature in range(d):
                columns[feature, place] = rows[numbers[start + place], feature]
        _differences(columns, centers, distances)
        if scored:
            _two_least(distances, 0, k, label, best, second)
            _nearest_other(distances, 0, k, label, spreads, outside)
            _score(best, second, outside, label, spreads, sizes, True, simple, full)
            for place in range(held):
                simplified[start + place] = simple[place]
                moment[start + place] = full[place]
        else:
            _nearest(distances, 0, k, label, best)
        for place in range(held):
            labels[start + place] = label[place]
            gaps[start + place] = best[place]


@_compiled
def fold(
    size: int, smallest: int, counts: Ints, means: Floats, scatters: Floats, dead: Ints
) -> None:
    """Fold cells below `smallest` into the nearest one; all arrays are INOUT."""
    d = means.shape[1]
    left = size
    for cell in range(size):
        dead[cell] = 0
    while left > 1:
        i = -1
        for cell in range(size):
            if not dead[cell] and (i < 0 or counts[cell] < counts[i]):
                i = cell
        if counts[i] >= smallest:
            break
        j = -1
        gap = np.inf
        for cell in range(size):
            if cell != i and not dead[cell]:
                distance = apart(means, cell, means, i)
                if j < 0 or distance < gap:
                    gap = distance
                    j = cell
        both = counts[i] + counts[j]
        scatters[j] += scatters[i] + counts[i] * counts[j] / both * gap
        for feature in range(d):
            means[j, feature] = (
                counts[i] * means[i, feature] + counts[j] * means[j, feature]
            ) / both
        counts[j] = both
        dead[i] = 1
        left -= 1


@_compiled
def send(
    size: int,
    counts: Ints,
    means: Floats,
    scatters: Floats,
    dead: Ints,
    place: int,
    out_counts: Ints,
    out_means: Floats,
    out_scatters: Floats,
) -> int:
    """Write the living cells from `place` on, equal means joined; return how many."""
    d = means.shape[1]
    sent = 0
    for cell in range(size):
        if dead[cell]:
            continue
        twin = -1
        for other in range(place, place + sent):
            feature = 0
            while feature < d and out_means[other, feature] == means[cell, feature]:
                feature += 1
            if feature == d:
                twin = other
                break
        if twin < 0:
            twin = place + sent
            sent += 1
            out_counts[twin] = 0
            out_scatters[twin] = 0.0
            for feature in range(d):
                out_means[twin, feature] = means[cell, feature]
        out_counts[twin] += counts[cell]
        out_scatters[twin] += scatters[cell]
    return sent


@_compiled
def pack(
    places: Ints, held: Ints, counts: Ints, means: Floats, scatters: Floats
) -> int:
    """Move every client's cells to the front; arrays are INOUT; return how many."""
    end = 0
    for index in range(places.shape[0]):
        for cell in range(places[index], places[index] + held[index]):
            if end < cell:
                counts[end] = counts[cell]
                scatters[end] = scatters[cell]
                for feature in range(means.shape[1]):
                    means[end, feature] = means[cell, feature]
            end += 1
    return end


# ------------------------------------------------------------------ cells


@_compiled
def clear(k: int, counts: Ints, means: Floats, radii: Floats) -> None:
    """Set the first k of each (OUT) to 0."""
    for center in range(k):
        counts[center] = 0
        radii[center] = 0.0
        for feature in range(means.shape[1]):
            means[center, feature] = 0.0


@_compiled
def add_row(
    X: Floats,
    row: int,
    centers: Floats,
    own: int,
    gap: float,
    counts: Ints,
    sums: Floats,
    squares: Floats,
) -> None:
    """Add a row to the sums around its centre, which are INOUT."""
    counts[own] += 1
    squares[own] += gap
    for feature in range(X.shape[1]):
        sums[own, feature] += X[row, feature] - centers[own, feature]


@_compiled
def finish(
    center: int, cell: int, counts: Ints, means: Floats, radii: Floats, centers: Floats
) -> None:
    """Turn sums around a centre into a cell: count, mean, scatter; arrays are INOUT."""
    size = counts[center]
    square = 0.0
    for feature in range(means.shape[1]):
        shift = means[center, feature] / size
        square += shift * shift
        means[cell, feature] = centers[center, feature] + shift
    radii[cell] = max(0.0, radii[center] - size * square)
    counts[cell] = size


# ------------------------------------------------------------------ replies


@_compiled
def around(
    rows: Floats,
    offsets: Ints,
    clients: Ints,
    centers: Floats,
    spreads: Floats,
    sizes: Floats,
    min_cell: int,
    places: Ints,
    held: Ints,
    out_counts: Ints,
    out_means: Floats,
    out_scatters: Floats,
    sums: Floats,
) -> None:
    """Form every client's cells around the same centres, and its silhouettes' sums.

    Without `spreads` (IN, empty) there are no silhouettes; otherwise `sums` (OUT) are
    those of the simplified and the moment silhouette over each client's rows.
    """
    k, d = centers.shape
    numbers = rows_of(offsets, clients)
    n = numbers.shape[0]
    scored = spreads.shape[0] > 0
    labels, gaps = np.empty(n, dtype=np.int64), np.empty(n)
    simple, full = np.empty(n if scored else 0), np.empty(n if scored else 0)
    look(rows, numbers, centers, spreads, sizes, labels, gaps, simple, full)
    counts = np.empty(k, dtype=np.int64)
    means = np.empty((k, d))
    radii = np.empty(k)
    dead = np.empty(k, dtype=np.int64)
    at = 0
    for index in range(clients.shape[0]):
        clear(k, counts, means, radii)
        simple_sum = 0.0
        moment_sum = 0.0
        end = at + offsets[clients[index] + 1] - offsets[clients[index]]
        for row in range(at, end):
            own = labels[row]
            add_row(rows, numbers[row], centers, own, gaps[row], counts, means, radii)
            if scored:
                simple_sum += simple[row]
                moment_sum += full[row]
        at = end
        sums[index, 0] = simple_sum
        sums[index, 1] = moment_sum
        size = 0
        for center in range(k):
            if counts[center] > 0:
                finish(center, size, counts, means, radii, centers)
                size += 1
        fold(size, min_cell, counts, means, radii, dead)
        held[index] = send(
            size,
            counts,
            means,
            radii,
            dead,
            places[index],
            out_counts,
            out_means,
            out_scatters,
        )

# SPDX-License-Identifier: Apache-2.0
"""The work of many clients in one call, compiled: rows one after the other, offsets.

Client c owns the rows from ``offsets[c]`` up to ``offsets[c + 1]``. A call works for
the clients it is given, one after the other, each by itself: it does not matter how
clients are shared out between calls or threads. What client i of them sends is written
from ``places[i]`` on, as many cells as ``held[i]`` says; :func:`pack` moves them
together.

The oracle of every function is the code of one client, in a loop: :mod:`core.client`,
:mod:`core.seeding`, :mod:`core.cells`.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.groups import Columns, apart, fold, pool
from afcl.kernels.lanes import found_for, in_fours, nearest, one_each, ranked
from afcl.kernels.passes import move
from afcl.kernels.picks import pick_rows
from afcl.kernels.slabs import axes_of, count_row
from afcl.kernels.tiles import TILE, score_rows, scores_for

_compiled = compiled(error_model="numpy")


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
    n, d = numbers.shape[0], centers.shape[1]
    columns, found, scores = np.zeros((d, TILE)), found_for(TILE), scores_for(TILE)
    scored = spreads.shape[0] > 0
    groups, blurs = in_fours(centers), one_each(spreads)
    distances = np.empty((blurs.shape[0], TILE))
    for start in range(0, n, TILE):
        held = min(TILE, n - start)
        for place in range(held):
            for feature in range(d):
                columns[feature, place] = rows[numbers[start + place], feature]
        if scored:
            ranked(columns, groups, blurs, distances, found)
            score_rows(found, held, spreads, sizes, True, scores)
            for place in range(held):
                simplified[start + place] = scores.simplified[place]
                moment[start + place] = scores.moment[place]
        else:
            nearest(columns, groups, found)
        for place in range(held):
            labels[start + place] = found.label[place]
            gaps[start + place] = found.best[place]


# ------------------------------------------------------------------ cells


@_compiled
def cells_for(k: int, d: int) -> tuple[Columns, Ints]:
    """Return working memory for k cells, and for what they are folded into."""
    cells = (np.empty(k, dtype=np.int64), np.empty((k, d)), np.empty(k))
    return cells, np.empty(k, dtype=np.int64)


@_compiled
def clear(k: int, cells: Columns) -> None:
    """Set the first k cells (OUT) to 0."""
    counts, means, radii = cells
    for center in range(k):
        counts[center] = 0
        radii[center] = 0.0
        for feature in range(means.shape[1]):
            means[center, feature] = 0.0


@_compiled
def add_row(
    X: Floats, row: int, centers: Floats, own: int, gap: float, cells: Columns
) -> None:
    """Add a row to the sums around its centre, which are INOUT."""
    counts, sums, squares = cells
    counts[own] += 1
    squares[own] += gap
    for feature in range(X.shape[1]):
        sums[own, feature] += X[row, feature] - centers[own, feature]


@_compiled
def finish(k: int, cells: Columns, centers: Floats) -> int:
    """Turn sums around k centres into cells: count, mean, scatter; return how many.

    The cells are INOUT; centres without rows give none.
    """
    counts, means, radii = cells
    cell = 0
    for center in range(k):
        size = counts[center]
        if size == 0:
            continue
        square = 0.0
        for feature in range(means.shape[1]):
            shift = means[center, feature] / size
            square += shift * shift
            means[cell, feature] = centers[center, feature] + shift
        radii[cell] = max(0.0, radii[center] - size * square)
        counts[cell] = size
        cell += 1
    return cell


@_compiled
def send(
    size: int, smallest: int, cells: Columns, into: Ints, place: int, out: Columns
) -> int:
    """Write cells of at least `smallest` rows from `place` on; return how many.

    Smaller ones are folded (`cells` and `into` are INOUT), those with equal means
    joined.
    """
    fold(size, smallest, cells, into)
    counts, means, scatters = cells
    out_counts, out_means, out_scatters = out
    d = means.shape[1]
    sent = 0
    for cell in range(size):
        if into[cell] != cell:
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
def pack(places: Ints, held: Ints, cells: Columns) -> int:
    """Move every client's cells (INOUT) to the front; return how many."""
    counts, means, scatters = cells
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


# ------------------------------------------------------------------ hellos


@_compiled
def condense(
    points: Floats,
    weights: Floats,
    scatters: Floats,
    offsets: Ints,
    clients: Ints,
    wanted: Ints,
    uniforms: Floats,
    iterations: int,
    min_cell: int,
    places: Ints,
    held: Ints,
    out: Columns,
) -> None:
    """Condense every client's points to cells of at least `min_cell` rows.

    A point stands for `weights` rows that scatter around it by `scatters`; without them
    (IN, empty) it is a row, and `weights` are as many ones as a client has rows. Client
    i of `clients` forms up to ``wanted[i]`` cells by as many of the `uniforms` (IN).
    """
    d = points.shape[1]
    most = longest = 1
    for index in range(clients.shape[0]):
        client = clients[index]
        most = max(most, wanted[index])
        longest = max(longest, offsets[client + 1] - offsets[client])
    columns, work = np.empty((d, longest)), np.empty((4, longest))
    picks, labels = np.empty(most, dtype=np.int64), np.empty(longest, dtype=np.int64)
    centers, mass, total = np.empty((most, d)), np.empty(most), np.empty((most, d))
    cells, into = cells_for(most, d)
    stand = scatters.shape[0] > 0
    drawn = 0
    for index in range(clients.shape[0]):
        first, last = offsets[clients[index]], offsets[clients[index] + 1]
        X = points[first:last]
        rows = weights[first:last] if stand else weights[: last - first]
        draws = uniforms[drawn : drawn + wanted[index]]
        drawn += wanted[index]
        k = pick_rows(X, rows, draws, columns, work, picks)
        for center in range(k):
            for feature in range(d):
                centers[center, feature] = X[picks[center], feature]
        _lloyd(X, rows, k, iterations, labels, centers, mass, total)
        clear(k, cells)
        if stand:
            inside = scatters[first:last]
            pool(X, rows, inside, labels, k, mass, centers, cells[2])
            for center in range(k):
                cells[0][center] = np.int64(mass[center])
        else:
            for row in range(X.shape[0]):
                own = labels[row]
                add_row(X, row, centers, own, apart(X, row, centers, own), cells)
        size = finish(k, cells, centers)
        held[index] = send(size, min_cell, cells, into, places[index], out)


@_compiled
def _lloyd(
    X: Floats,
    weights: Floats,
    k: int,
    iterations: int,
    labels: Ints,
    centers: Floats,
    mass: Floats,
    total: Floats,
) -> None:
    """Lloyd for a few rows; the last four are INOUT, of more than k centres perhaps.

    :func:`passes.lloyd` would fill a tile for them, and takes memory of its own.
    """
    n = X.shape[0]
    for row in range(n):
        labels[row] = _nearest_of(X, row, centers, k)
    for _ in range(iterations):
        move(X, weights, labels, k, centers, mass, total)
        changed = False
        for row in range(n):
            label = _nearest_of(X, row, centers, k)
            if label != labels[row]:
                labels[row] = label
                changed = True
        if not changed:
            break


@_compiled
def _nearest_of(X: Floats, row: int, centers: Floats, k: int) -> int:
    """Return the nearest of the first k centres, the lowest on ties."""
    best = np.inf
    nearest = 0
    for center in range(k):
        distance = apart(X, row, centers, center)
        if distance < best:
            best = distance
            nearest = center
    return nearest


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
    out: Columns,
    sums: Floats,
    valleys: AnyArray,
) -> None:
    """Form every client's cells around the same centres, and its silhouettes' sums.

    Without `spreads` (IN, empty) there are no silhouettes and no valleys; otherwise
    `sums` (OUT) are those of the simplified and the moment silhouette over each
    client's rows, and `valleys` (INOUT, zeros) its counts of rows between centres.
    """
    k, d = centers.shape
    numbers = rows_of(offsets, clients)
    n = numbers.shape[0]
    scored = spreads.shape[0] > 0
    labels, gaps = np.empty(n, dtype=np.int64), np.empty(n)
    simple, full = np.empty(n if scored else 0), np.empty(n if scored else 0)
    look(rows, numbers, centers, spreads, sizes, labels, gaps, simple, full)
    cells, into = cells_for(k, d)
    axes = axes_of(centers[: k if scored else 0])
    at = 0
    for index in range(clients.shape[0]):
        clear(k, cells)
        sums[index, 0] = 0.0
        sums[index, 1] = 0.0
        end = at + offsets[clients[index] + 1] - offsets[clients[index]]
        for row in range(at, end):
            add_row(rows, numbers[row], centers, labels[row], gaps[row], cells)
            if scored:
                sums[index, 0] += simple[row]
                sums[index, 1] += full[row]
                about = (labels[row], gaps[row], centers, axes)
                count_row(rows, numbers[row], 1, *about, valleys[index])
        at = end
        size = finish(k, cells, centers)
        held[index] = send(size, min_cell, cells, into, places[index], out)

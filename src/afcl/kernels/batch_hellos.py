# SPDX-License-Identifier: Apache-2.0
"""The hellos of many clients in one call, compiled; see :mod:`.batches`."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.batches import add_row, apart, clear, finish, fold, send
from afcl.kernels.compiling import compiled

_compiled = compiled(error_model="numpy")


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
    out_counts: Ints,
    out_means: Floats,
    out_scatters: Floats,
) -> None:
    """Condense every client's points to cells of at least `min_cell` rows.

    A point stands for `weights` rows that scatter around it by `scatters`; without them
    (IN, empty) it is a row, and `weights` are as many ones as a client has rows. Client
    i of `clients` forms up to ``wanted[i]`` cells by as many of the `uniforms` (IN).
    """
    d = points.shape[1]
    most = 1
    longest = 1
    for index in range(clients.shape[0]):
        client = clients[index]
        most = max(most, wanted[index])
        longest = max(longest, offsets[client + 1] - offsets[client])
    centers = np.empty((most, d))
    labels = np.empty(longest, dtype=np.int64)
    work = np.empty((3, max(longest, most)))
    counts = np.empty(most, dtype=np.int64)
    means = np.empty((most, d))
    radii = np.empty(most)
    dead = np.empty(most, dtype=np.int64)
    drawn = 0
    for index in range(clients.shape[0]):
        first = offsets[clients[index]]
        last = offsets[clients[index] + 1]
        X = points[first:last]
        cells = scatters.shape[0] > 0
        mass = weights[first:last] if cells else weights[: last - first]
        inside = scatters[first:last] if cells else scatters
        k = _seed_and_move(
            X,
            mass,
            wanted[index],
            uniforms[drawn : drawn + wanted[index]],
            iterations,
            centers,
            labels,
            work,
        )
        drawn += wanted[index]
        size = _pooled(X, mass, inside, labels, k, centers, counts, means, radii)
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


@_compiled
def _seed_and_move(
    X: Floats,
    mass: Floats,
    wanted: int,
    uniforms: Floats,
    iterations: int,
    centers: Floats,
    labels: Ints,
    work: Floats,
) -> int:
    """k-means++ by these draws, then Lloyd; return the number of centres.

    `centers` and `labels` are OUT; `work` holds three numbers a row, or more.
    """
    n, d = X.shape
    gaps, potential, cumulated = work[0], work[1], work[2]
    picked = 0
    for row in range(n):
        potential[row] = mass[row]
    while picked < wanted:
        pick = _draw(potential, n, uniforms[picked], cumulated)
        if picked > 0 and not cumulated[n - 1] > 0:
            break
        for feature in range(d):
            centers[picked, feature] = X[pick, feature]
        for row in range(n):
            distance = apart(X, row, X, pick)
            if picked == 0 or distance < gaps[row]:
                gaps[row] = distance
            potential[row] = mass[row] * gaps[row]
        picked += 1
    for row in range(n):
        labels[row] = _nearest_of(X, row, centers, picked)
    for _ in range(iterations):
        _move(X, mass, labels, picked, centers, cumulated)
        changed = False
        for row in range(n):
            label = _nearest_of(X, row, centers, picked)
            if label != labels[row]:
                labels[row] = label
                changed = True
        if not changed:
            break
    return picked


@_compiled
def _draw(mass: Floats, n: int, uniform: float, cumulated: Floats) -> int:
    """Draw an index in proportion to its mass; `cumulated` is OUT."""
    total = 0.0
    last = 0
    for row in range(n):
        total += mass[row]
        cumulated[row] = total
        if mass[row] > 0:
            last = row
    aim = uniform * total
    for row in range(last):
        if cumulated[row] > aim:
            return row
    return last


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


@_compiled
def _move(
    X: Floats, mass: Floats, labels: Ints, k: int, centers: Floats, held: Floats
) -> None:
    """Move every centre that holds mass to the mean of what it holds."""
    n, d = X.shape
    for center in range(k):
        held[center] = 0.0
    for row in range(n):
        held[labels[row]] += mass[row]
    for feature in range(d):
        for center in range(k):
            if held[center] > 0:
                centers[center, feature] = 0.0
        for row in range(n):
            centers[labels[row], feature] += mass[row] * X[row, feature]
        for center in range(k):
            if held[center] > 0:
                centers[center, feature] /= held[center]


@_compiled
def _pooled(
    X: Floats,
    mass: Floats,
    scatters: Floats,
    labels: Ints,
    k: int,
    centers: Floats,
    counts: Ints,
    means: Floats,
    radii: Floats,
) -> int:
    """Pool labelled points to the cells that hold any; return how many.

    Without `scatters` (IN, empty) points are rows, summed around their centres.
    """
    rows = scatters.shape[0] == 0
    if not rows:
        _move(X, mass, labels, k, centers, radii)
    clear(k, counts, means, radii)
    for row in range(X.shape[0]):
        own = labels[row]
        gap = apart(X, row, centers, own)
        if rows:
            add_row(X, row, centers, own, gap, counts, means, radii)
        else:
            counts[own] += np.int64(mass[row])
            radii[own] += scatters[row] + mass[row] * gap
    size = 0
    for center in range(k):
        if counts[center] > 0:
            finish(center, size, counts, means, radii, centers)
            size += 1
    return size

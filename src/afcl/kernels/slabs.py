# SPDX-License-Identifier: Apache-2.0
"""Rows in slabs between centres, compiled; the oracle is :func:`reference.valleys`.

A row is nearer to its own centre than to the other end of an axis, so that it can lie
in two of the three slabs only: in the middle, or at the end where its centre is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.kernels.compiling import compiled
from afcl.kernels.groups import apart
from afcl.kernels.reference import SLAB

#: How far a slab reaches, in differences of squared distances per squared length.
REACH = 2.0 * SLAB

_compiled = compiled(error_model="numpy")


class Axes(NamedTuple):
    """From every centre to the nearest of its set: which it is, and how far squared.

    The length is nan where nothing is counted. The centres whose nearest is c are the
    ``pointers`` from ``starts[c]`` up to ``starts[c + 1]``.
    """

    nearest: Ints
    lengths: Floats
    starts: Ints
    pointers: Ints


@_compiled
def axes_between(centers: Floats, bounds: Ints, scores: Ints) -> Axes:
    """Return the axes inside the sets of centres of which slabs are asked."""
    k = centers.shape[0]
    nearest, lengths = np.arange(k), np.full(k, np.nan)
    starts, pointers = np.zeros(k + 1, dtype=np.int64), np.empty(k, dtype=np.int64)
    found = 0
    for segment in range(scores.shape[0]):
        begin, end = bounds[segment], bounds[segment + 1]
        # Slabs were not asked of this set: it has no axes.
        behind = end if scores[segment] > 1 else begin
        _fill_axes(centers, begin, behind, nearest, lengths)
        for center in range(begin, end):
            for own in range(begin, behind):
                if nearest[own] == center and lengths[own] > 0:
                    pointers[found] = own
                    found += 1
            starts[center + 1] = found
    return Axes(nearest, lengths, starts, pointers)


@_compiled
def axes_of(centers: Floats) -> Axes:
    """Return the axes between all centres."""
    return axes_between(centers, np.array([0, centers.shape[0]]), np.array([2]))


@_compiled
def _fill_axes(
    centers: Floats, begin: int, end: int, nearest: Ints, lengths: Floats
) -> None:
    """Find the nearest other centre (the lowest on ties) and how far it is (OUT)."""
    for own in range(begin, end):
        best = np.inf
        for other in range(begin, end):
            length = apart(centers, own, centers, other)
            if other != own and length < best:
                best = length
                nearest[own] = other
        # Coinciding centres have no axis, and a centre that is alone has nobody to
        # point to.
        if 0.0 < best < np.inf:
            lengths[own] = best


@_compiled
def _count(
    farther: float, length: float, weight: float, own: int, end: int, slabs: AnyArray
) -> None:
    """Count a row (INOUT) for one axis if it lies in the middle or at this end.

    `farther` is how much farther (squared) the other end is. There are no branches:
    nothing could be foretold about the next row.
    """
    reach = REACH * length
    slabs[own, 0] += weight * (farther <= reach)
    slabs[own, end] += weight * (abs(farther - length) <= reach)


@_compiled
def count_rows(
    distances: Floats,
    begin: int,
    end: int,
    label: Ints,
    held: int,
    axes: Axes,
    slabs: Floats,
) -> None:
    """Count the first `held` rows of a tile (INOUT), its distances being known.

    The centres are a set of them, from `begin` up to `end`; `label` and the lines of
    `distances` count from its first. Where two centres are each other's nearest, only
    the rows of its own are counted for each: :func:`mirror` adds the other's.
    """
    nearest, lengths = axes.nearest, axes.lengths
    for row in range(held):
        own = begin + label[row]
        farther = distances[nearest[own] - begin, row] - distances[label[row], row]
        _count(farther, lengths[own], 1.0, own, 1, slabs)
    for own in range(begin, end):
        other = nearest[own]
        # Each is the other's nearest: the rows at the far end are counted there.
        if nearest[other] == own:
            continue
        length = lengths[own]
        reach = REACH * length
        middle = 0
        far = 0
        for row in range(held):
            farther = distances[own - begin, row] - distances[other - begin, row]
            belongs = label[row] == other - begin
            middle += belongs & (farther <= reach)
            far += belongs & (abs(farther - length) <= reach)
        slabs[own, 0] += middle
        slabs[own, 2] += far


@_compiled
def mirror(axes: Axes, slabs: Floats) -> None:
    """Complete (INOUT) what :func:`count_rows` counted, all rows being counted.

    A slab from A to B is one from B to A.
    """
    for own in range(slabs.shape[0]):
        other = axes.nearest[own]
        # Every pair once.
        if own < other and axes.nearest[other] == own:
            middle = slabs[own, 0] + slabs[other, 0]
            slabs[own, 0] = middle
            slabs[other, 0] = middle
            slabs[own, 2] = slabs[other, 1]
            slabs[other, 2] = slabs[own, 1]


@_compiled
def count_row(
    X: Floats,
    row: int,
    weight: float,
    own: int,
    near: float,
    centers: Floats,
    axes: Axes,
    slabs: AnyArray,
) -> None:
    """Count one row (INOUT), which has the squared distance `near` to its centre."""
    nearest, lengths, starts, pointers = axes
    farther = apart(X, row, centers, nearest[own]) - near
    _count(farther, lengths[own], weight, own, 1, slabs)
    for place in range(starts[own], starts[own + 1]):
        other = pointers[place]
        farther = apart(X, row, centers, other) - near
        _count(farther, lengths[other], weight, other, 2, slabs)


@_compiled
def slabs_of_rows(
    X: Floats, weights: Floats, labels: Ints, gaps: Floats, centers: Floats
) -> Floats:
    """Count weighted rows whose nearest centres, and squared distances, are known."""
    axes = axes_of(centers)
    slabs = np.zeros((centers.shape[0], 3))
    for row in range(X.shape[0]):
        about = (labels[row], gaps[row], centers, axes)
        count_row(X, row, weights[row], *about, slabs)
    return slabs

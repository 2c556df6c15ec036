# SPDX-License-Identifier: Apache-2.0
"""HFDPC's grid: its messages, how fine it is, principal components, rows to cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload
from afcl_bench.methods.mufc import whole

#: Columns from which on principal components are taken, and at most how many.
WIDE = 10
#: Decimals of a row on the components.
DIGITS = 12
#: Share of the variance the components make up.
VARIANCE = 0.95


@payload
@dataclass(frozen=True, slots=True)
class GridSurvey:
    """Sums over a client's rows, and how many cells they occupy for L = 2, 3, ....

    Reveals the mean of the rows (of one row, **the row**) and how they spread; beyond
    ten columns their second moments (d, d) too, and no cells yet, which are counted
    once the principal components are known.
    """

    total: Floats
    moments: Floats
    occupied: Ints


@payload
@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many cells a client's rows occupy for L = 2, 3, ...; reveals their spread."""

    occupied: Ints


@payload
@dataclass(frozen=True, slots=True)
class Grid:
    """The broadcast: L (0: not settled), and the components (none: 0 columns).

    Reveals the mean and main directions of all clients' rows, where they are used.
    """

    size: int
    origin: Floats
    basis: Floats


def scores(X: Floats, grid: Grid) -> Floats:
    """Return rows on the components, or as they are."""
    if grid.basis.size == 0:
        return X
    projected = (X - grid.origin) @ grid.basis
    return np.round(projected, DIGITS)  # what is 0 but for rounding is 0


def cells_at(X: Floats, grid: Grid) -> Ints:
    """Return every row's cell, ceil(L x)."""
    return whole(np.ceil(grid.size * scores(X, grid)))


def occupancy(X: Floats, max_grid: int) -> Ints:
    """Return the numbers of occupied cells for L = 2, 3, ....

    Ends when every distinct row has its own cell, or at `max_grid`.
    """
    most = np.unique(X, axis=0).shape[0]
    numbers: list[int] = []
    for size in range(2, max_grid + 1):
        numbers.append(n_distinct(whole(np.ceil(size * X))))
        if numbers[-1] >= most:
            break
    return np.array(numbers, dtype=np.int64)


def n_distinct(cells: Ints) -> int:
    """Return the number of different cells."""
    low = cells.min(axis=0)
    shape = (cells.max(axis=0) - low + 1).tolist()
    if math.prod(shape) >= 2**62:  # too many to be numbered
        return int(np.unique(cells, axis=0).shape[0])
    return int(np.unique(np.ravel_multi_index(tuple((cells - low).T), shape)).size)


def settled_grid(occupied: list[Ints], rows: list[int], fill: float) -> int:
    """Return the first L with `fill` cells to a row, or else with most cells."""
    length = max(numbers.shape[0] for numbers in occupied)
    total = np.zeros(length, dtype=np.int64)
    for numbers in occupied:
        total += numbers[np.minimum(np.arange(length), numbers.shape[0] - 1)]
    enough = total >= fill * sum(rows)
    return 2 + int((enough if enough.any() else total).argmax())


def components(covariance: Floats) -> Floats:
    """Return the leading directions, (d, r); the largest entry of each is positive."""
    values, vectors = np.linalg.eigh(covariance)
    share = np.cumsum(values[::-1].clip(0)) / max(values.clip(0).sum(), 1e-300)
    n_kept = min(WIDE, 1 + int((share < VARIANCE).sum()))
    basis = vectors[:, ::-1][:, :n_kept]
    largest = basis[np.abs(basis).argmax(axis=0), np.arange(n_kept)]
    return np.ascontiguousarray(basis * np.where(largest < 0, -1.0, 1.0))


def are_moments(reply: GridSurvey, n_rows: int) -> bool:
    """Whether sums and second moments can be those of so many rows."""
    width = reply.total.shape[0]
    least = reply.total**2 / n_rows
    return (
        reply.moments.shape == (width, width)
        and reply.occupied.shape == (0,)
        and np.allclose(reply.moments, reply.moments.T)
        and bool(np.all(np.diag(reply.moments) >= least * (1 - 1e-9) - 1e-12))
    )


def middles(cells: Ints, grid: Grid) -> Floats:
    """Return the middles of cells in the space of the data.

    On scaled columns only 0 itself lies in a cell 0, which is its own middle.
    """
    inside: Floats = (cells - 0.5) / grid.size
    if grid.basis.size == 0:
        return np.where(cells == 0, 0.0, inside)
    lifted: Floats = grid.origin + inside @ grid.basis.T
    return lifted

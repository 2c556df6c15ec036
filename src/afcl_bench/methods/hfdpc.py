# SPDX-License-Identifier: Apache-2.0
"""HFDPC: clients count their rows on a common grid, the server finds density peaks.

The grid is as fine as it must be for seven cells to ten rows (`fill`; clusters that are
compact in many columns want more). Cells take the place of rows in density peaks
clustering: a cluster's centre is dense and far from anything denser, grows through
adjoining cells of similar density, and every other cell follows its nearest denser one.

Ding et al., horizontal federated density peaks clustering (IEEE TNNLS). A cell's
density is 0.3 count + 0.7 exp(-mean distance to its ceil(sqrt(#cells)) nearest cells),
each over its maximum; distances are in cells. More than ten columns are reduced by
principal components from the clients' summed second moments: as many as make up 95 % of
the variance, ten at most (the paper's number was not at hand).

Where we depart from it: the search for the grid, L = 2, 3, ..., counts a cell once for
every client that holds it, so that one exchange settles L (the same L where clients do
not overlap); it ends where no new cells appear, or at `max_grid`. Nothing is scrambled:
the paper's scrambling uses constants known to all and hides nothing. A row in a cell
that nobody held goes with the nearest cell. A late joiner that changes the grid makes
everybody count again.

Uploaded: sums of rows and numbers of occupied cells per L (beyond ten columns, second
moments, and the numbers in an answer of their own), then, once, the cell of every row.
The server's work grows with the square of the number of cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.protocol import Clustering
from afcl.exceptions import InputError
from afcl.kernels import assign, sums
from afcl.methods.rival import KnownK, Rival, RivalState, expect, simple_clustering
from afcl_bench.methods.density_peaks import density_peaks
from afcl_bench.methods.hfdpc_grid import (
    WIDE,
    Grid,
    GridSurvey,
    Occupancy,
    are_moments,
    cells_at,
    components,
    middles,
    occupancy,
    scores,
    settled_grid,
)
from afcl_bench.methods.mufc import Histogram, is_histogram, summed


@dataclass(frozen=True, slots=True, kw_only=True)
class HfdpcParams(KnownK):
    """`fill` is the number of cells to a row that makes the grid fine enough.

    `max_grid` is the largest number L of cells to a unit of length.
    """

    fill: float = 0.7
    max_grid: int = 200

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        if not (isinstance(self.fill, int | float) and 0 < self.fill <= 1):
            raise InputError(f"fill must lie between 0 and 1, not {self.fill!r}")
        if not (isinstance(self.max_grid, int) and self.max_grid >= 2):
            raise InputError(
                f"max_grid must be a whole number of at least 2, not {self.max_grid!r}"
            )


@dataclass(frozen=True, slots=True)
class HfdpcModel:
    """The grid, the cells heard of with their clusters, and these clusters' centres.

    Answers to versions before `since` belong to another grid.
    """

    since: int
    grid: Grid
    cells: Histogram
    labels: Ints
    centers: Floats
    sizes: Floats


class HFDPC(Rival):
    """Density peaks on the occupied cells of a federated grid."""

    name = "hfdpc"
    Params = HfdpcParams

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> GridSurvey:
        """Send sums, and numbers of cells or second moments."""
        if X.shape[1] > WIDE:
            return GridSurvey(X.sum(axis=0), X.T @ X, np.empty(0, dtype=np.int64))
        return GridSurvey(
            X.sum(axis=0), np.empty((0, 0)), occupancy(X, params.max_grid)
        )

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect sums that fit each other and the number of rows."""
        expect(
            isinstance(hello, GridSurvey)
            and all(
                isinstance(part, np.ndarray)
                for part in (hello.total, hello.moments, hello.occupied)
            )
            and hello.total.dtype == hello.moments.dtype == np.float64
            and hello.total.ndim == 1
            and hello.total.shape[0] >= 1,
            "sums over a client's rows",
        )
        width = int(hello.total.shape[0])
        if width > WIDE:
            expect(are_moments(hello, n_rows), "second moments that fit the sums")
        else:
            expect(hello.moments.size == 0, f"no moments of {width} columns")
            self._check_occupied(state, hello.occupied, n_rows)
        return width

    def _check_occupied(self, state: RivalState, occupied: Any, n_rows: int) -> None:
        expect(
            isinstance(occupied, np.ndarray)
            and occupied.dtype == np.int64
            and occupied.ndim == 1
            and 1 <= occupied.shape[0] < state.params.max_grid
            and bool(np.all((occupied >= 1) & (occupied <= n_rows))),
            f"numbers of cells that {n_rows} rows can occupy",
        )

    def start(self, state: RivalState) -> HfdpcModel:
        """Settle the grid, or the components to look for it on."""
        return self._started(state, 0)

    def on_join(self, state: RivalState) -> HfdpcModel:
        """Start again, unless the grid stays as it is."""
        new = self._started(state, state.version + 1)
        same = new.grid.basis.size == 0 and new.grid.size == state.model.grid.size
        return state.model if same and replies_of(state, Histogram) else new

    def _started(self, state: RivalState, version: int) -> HfdpcModel:
        clients = sorted(state.hellos)
        replies = [state.hellos[client] for client in clients]
        n_rows = sum(state.rows.values())
        mean = np.sum([hello.total for hello in replies], axis=0) / n_rows
        if state.n_features > WIDE:
            second = np.sum([hello.moments for hello in replies], axis=0) / n_rows
            basis = components(second - np.outer(mean, mean))
            return unheard(version, Grid(0, mean, basis), mean, n_rows)
        rows = [state.rows[client] for client in clients]
        occupied = [hello.occupied for hello in replies]
        size = settled_grid(occupied, rows, state.params.fill)
        grid = Grid(size, np.empty(0), np.empty((0, 0)))
        return unheard(version, grid, mean, n_rows)

    def message(self, state: RivalState) -> Grid:
        """Send the grid."""
        grid: Grid = state.model.grid
        return grid

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[Occupancy | Histogram, Any]:
        """Count the rows in the cells, or first the cells for every L."""
        if broadcast.size == 0:
            return Occupancy(occupancy(scores(X, broadcast), params.max_grid)), None
        ones = np.ones(X.shape[0], dtype=np.int64)
        return summed(cells_at(X, broadcast), ones), None

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect what was asked for, now or before the grid was settled."""
        basis = state.model.grid.basis
        if isinstance(reply, Occupancy) and basis.size > 0:
            self._check_occupied(state, reply.occupied, n_rows)
            return
        width = basis.shape[1] if basis.size > 0 else state.n_features
        expect(
            state.model.grid.size > 0
            and is_histogram(reply, n_rows, n_rows)
            and reply.bins.shape[1] == width,
            f"the cells of {n_rows} rows, in {width} dimensions",
        )

    def combine(self, state: RivalState) -> tuple[HfdpcModel, bool]:
        """Settle the grid, then cluster the cells heard of."""
        model: HfdpcModel = state.model
        if model.grid.size == 0:
            replies = replies_of(state, Occupancy)
            if not replies:
                return model, False
            rows = [state.rows[client] for client in replies]
            occupied = [part.occupied for part in replies.values()]
            size = settled_grid(occupied, rows, state.params.fill)
            grid, n_rows = replace(model.grid, size=size), sum(state.rows.values())
            return unheard(model.since, grid, grid.origin, n_rows), False
        held = replies_of(state, Histogram).values()
        if not held:
            return model, False
        cells = summed(
            np.concatenate([part.bins for part in held]),
            np.concatenate([part.counts for part in held]),
        )
        return clustered(model.since, model.grid, cells, state.params.k), False

    def wanted(self, state: RivalState) -> frozenset[ClientId]:
        """Ask everybody whose cells are not known."""
        return frozenset(state.active()) - frozenset(replies_of(state, Histogram))

    def done(self, state: RivalState) -> bool:
        """Whether everybody's cells are known."""
        return state.model is not None and not state.joined and not self.wanted(state)

    def cluster(self, state: RivalState) -> Clustering:
        """Return the centres, and every cell's cluster."""
        model: HfdpcModel = state.model
        order = np.argsort(-model.sizes, kind="stable")
        rank = np.argsort(order)
        extra = {
            "cells": model.cells.bins,
            "labels": rank[model.labels].astype(np.int64),
            "size": model.grid.size,
            "origin": model.grid.origin,
            "basis": model.grid.basis,
        }
        return replace(simple_clustering(model.centers, model.sizes), extra=extra)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Look up the row's cell, or the nearest that is known."""
        extra = clustering.extra
        grid = Grid(extra["size"], extra["origin"], extra["basis"])
        known = {cell.tobytes(): i for i, cell in enumerate(extra["cells"])}
        cells = cells_at(X, grid)
        index = np.array([known.get(cell.tobytes(), -1) for cell in cells])
        lost = index < 0
        if lost.any():
            places = extra["cells"].astype(np.float64)
            index[lost] = assign(cells[lost].astype(np.float64), places)[0]
        labels: Ints = extra["labels"][index]
        return labels


def replies_of(state: RivalState, kind: type[Any]) -> dict[ClientId, Any]:
    """Return the last answers of this kind to the grid in use, clients by id."""
    latest = {client: state.latest[client] for client in sorted(state.latest)}
    return {
        client: update.payload
        for client, update in latest.items()
        if update.version >= state.model.since and isinstance(update.payload, kind)
    }


def unheard(since: int, grid: Grid, mean: Floats, n_rows: int) -> HfdpcModel:
    """Return one cluster of everything: nobody's cells are known."""
    cell = Histogram(cells_at(mean[None], grid), np.array([n_rows], dtype=np.int64))
    labels = np.zeros(1, dtype=np.int64)
    return HfdpcModel(since, grid, cell, labels, mean[None], np.array([float(n_rows)]))


def clustered(since: int, grid: Grid, cells: Histogram, k: int) -> HfdpcModel:
    """Return the density peaks of the cells; centres are means of cells' middles."""
    labels = density_peaks(cells.bins.astype(np.float64), cells.counts, k)
    weights = cells.counts.astype(np.float64)
    sizes, total = sums(middles(cells.bins, grid), weights, labels, labels.max() + 1)
    return HfdpcModel(since, grid, cells, labels, total / sizes[:, None], sizes)

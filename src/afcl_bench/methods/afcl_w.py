# SPDX-License-Identifier: Apache-2.0
"""AFCL-W, the ablation of the paper's appendix: AFCL without the seeds' interaction.

Participating clients assign their rows to the broadcast seeds and upload counts and
means; a seed moves to the mean of what was assigned to it, weighted by counts, and
stays where nothing was. That is federated Lloyd with partial participation; clusters
vanish only where seeds coincide or own no row.

Zhang et al. (2025), appendix; no code was published. The text weighs by the number of
objects only, so the balance weight w is not used here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core.cells import cells_of
from afcl.core.messages import Cells, Positions, check_cells, payload
from afcl.core.protocol import Clustering, server_rng
from afcl.core.seeding import merge_coincident, plus_plus
from afcl.exceptions import InputError
from afcl.kernels import assign
from afcl.methods.rival import Rival, RivalState, expect, is_table, simple_clustering


@dataclass(frozen=True, slots=True)
class AfclWParams:
    """`n_seeds` as in the paper preset; `tolerance` on the seeds' squared movement."""

    n_seeds: int | None = None
    tolerance: float = 1e-4
    merge: float = 1e-3

    def __post_init__(self) -> None:
        if self.n_seeds is not None and self.n_seeds < 1:
            raise InputError(f"n_seeds must be at least 1, not {self.n_seeds}")

    def k(self, n_rows: int) -> int:
        """Return the number of seeds for so many rows in all."""
        return self.n_seeds or min(64, max(2, n_rows // 32))


@payload
@dataclass(frozen=True, slots=True)
class SeedCells:
    """Cells around the broadcast seeds, and which seed each belongs to.

    Reveals counts and means of a client's rows around every seed; a cell of one row
    is that row.
    """

    seeds: Any
    cells: Cells


@dataclass(frozen=True, slots=True)
class AfclWModel:
    """Seeds and the rows they held when last counted."""

    seeds: Floats
    counts: Floats
    movement: float = np.inf


class AfclW(Rival):
    """Federated Lloyd on over-many seeds."""

    name = "afcl-w"
    needs_k = False
    Params = AfclWParams

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> Any:
        """Send up to k rows drawn by k-means++, as the paper does."""
        k = params.k(X.shape[0])
        picks = np.arange(len(X)) if len(X) <= k else plus_plus(X, k, rng)
        return Positions(X[picks])

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect a table of seeds."""
        expect(
            isinstance(hello, Positions) and is_table(hello.points), "a table of seeds"
        )
        return int(hello.points.shape[1])

    def start(self, state: RivalState) -> AfclWModel:
        """Draw the global seeds from the union, clients by id."""
        union = np.concatenate([state.hellos[c].points for c in sorted(state.hellos)])
        k = state.params.k(sum(state.rows.values()))
        seeds = union[plus_plus(union, k, server_rng(state.seed, 0, 0))]
        return AfclWModel(seeds, np.zeros(seeds.shape[0]))

    def message(self, state: RivalState) -> Positions:
        """Send the seeds."""
        return Positions(state.model.seeds)

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[SeedCells, Any]:
        """Assign, count, average."""
        seeds = broadcast.points
        labels, _ = assign(X, seeds)
        cells = cells_of(X, labels, seeds.shape[0])
        return SeedCells(np.unique(labels).astype(np.int64), cells), None

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect one cell per named seed."""
        expect(isinstance(reply, SeedCells), "cells around the seeds")
        check_cells(reply.cells, state.n_features, n_rows)
        k = state.model.seeds.shape[0]
        expect(
            isinstance(reply.seeds, np.ndarray)
            and reply.seeds.dtype == np.int64
            and reply.seeds.shape == reply.cells.counts.shape
            and bool(np.all((reply.seeds >= 0) & (reply.seeds < k))),
            f"one seed of 0..{k - 1} per cell",
        )

    def combine(self, state: RivalState) -> tuple[AfclWModel, bool]:
        """Move every seed to the weighted mean of its cells, if it has any."""
        model: AfclWModel = state.model
        counts = np.zeros(model.seeds.shape[0])
        total = np.zeros_like(model.seeds)
        for update in state.pending:
            reply = update.payload
            np.add.at(counts, reply.seeds, reply.cells.counts)
            weighted = reply.cells.counts[:, None] * reply.cells.means
            np.add.at(total, reply.seeds, weighted)
        held = counts > 0
        seeds = model.seeds.copy()
        seeds[held] = total[held] / counts[held, None]
        movement = float(((seeds - model.seeds) ** 2).sum())
        return AfclWModel(seeds, counts, movement), movement <= state.params.tolerance

    def cluster(self, state: RivalState) -> Clustering:
        """Drop seeds that held nothing when last counted, join those that coincide."""
        model: AfclWModel = state.model
        used = (
            model.counts > 0 if model.counts.any() else np.ones(len(model.seeds), bool)
        )
        centers = merge_coincident(model.seeds[used], state.params.merge)
        labels, _ = assign(model.seeds[used], centers)
        sizes = np.bincount(labels, model.counts[used], minlength=len(centers))
        return simple_clustering(centers, sizes)

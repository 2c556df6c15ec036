# SPDX-License-Identifier: Apache-2.0
"""What a client of the default preset computes: its hello and its replies.

A client works on its rows, or (at the privacy levels that form groups or a synopsis
once and for all) on a bag of cells that stands for them.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cells import cells_of, fold, fold_owned, join_coincident, pool
from afcl.core.checks import check_plan
from afcl.core.messages import Cells, Level, LevelReply, Plan, Summary
from afcl.core.params import DefaultParams
from afcl.core.seeding import plus_plus
from afcl.exceptions import InputError
from afcl.kernels import assign, lloyd, silhouettes

#: What a client works on: its rows, or cells that stand for them.
View: TypeAlias = Floats | Cells

#: Lloyd iterations behind the hello's cells.
HELLO_ITERATIONS = 5
#: Rows beyond which the hello's cells are placed on a seeded sample of this size.
SEEDING_SAMPLE = 32_768


def rows_in(view: View) -> int:
    """Return the number of rows a view stands for."""
    return int(view.counts.sum()) if isinstance(view, Cells) else view.shape[0]


def condense(X: View, params: DefaultParams, rng: np.random.Generator) -> Cells:
    """Condense rows to a few dozen cells of at least `min_cell` rows (the hello)."""
    n = rows_in(X)
    if n < params.min_cell:
        raise InputError(
            f"this client has {n} {'row' if n == 1 else 'rows'} (n_samples = {n}), "
            f"fewer than min_cell = {params.min_cell}: "
            "merge it with another client or lower min_cell"
        )
    if isinstance(X, Cells):
        weights = X.counts.astype(np.float64)
        picks = plus_plus(X.means, params.cells_for(n), rng, weights)
        centers, labels = lloyd(X.means, weights, X.means[picks], HELLO_ITERATIONS)
        return _folded(_grouped(X, labels, centers.shape[0]), params.min_cell)
    sample = X
    if n > SEEDING_SAMPLE:
        sample = X[np.sort(rng.choice(n, SEEDING_SAMPLE, replace=False))]
    start = sample[plus_plus(sample, params.cells_for(n), rng)]
    centers, labels = lloyd(sample, np.ones(sample.shape[0]), start, HELLO_ITERATIONS)
    if n > SEEDING_SAMPLE:
        labels, _ = assign(X, centers)
    return _folded(cells_of(X, labels, centers.shape[0]), params.min_cell)


def _folded(cells: Cells, min_cell: int) -> Cells:
    folded = fold(cells, min_cell)
    return join_coincident(folded, np.arange(len(folded)))[0]


def cells_around(X: View, centers: Floats, min_cell: int) -> tuple[Cells, Ints]:
    """Return the client's cells by nearest centre, of at least `min_cell` rows.

    Beside them stands whose each is: the number of its centre, -1 where rows of several
    were folded together.
    """
    labels, _ = assign(X.means if isinstance(X, Cells) else X, centers)
    cells = _grouped(X, labels, centers.shape[0])
    return join_coincident(*fold_owned(cells, np.unique(labels), min_cell))


def _grouped(X: View, labels: Ints, k: int) -> Cells:
    """Return the non-empty cells of labelled rows, or of cells that stand for rows."""
    if not isinstance(X, Cells):
        return cells_of(X, labels, k)
    counts, means, scatters = pool(X, labels, k)
    held = np.flatnonzero(counts)
    return Cells(counts[held].astype(np.int64), means[held], scatters[held])


def reply(X: View, plan: Plan, params: DefaultParams) -> Summary:
    """Answer a broadcast: cells around the seeds, and a view of each candidate."""
    check_plan(plan, (X.means if isinstance(X, Cells) else X).shape[1])
    cells, owners = cells_around(X, plan.seeds, params.min_cell)
    return Summary(
        cells,
        owners,
        tuple(_view(X, level, params.min_cell) for level in plan.candidates),
    )


def _view(X: View, level: Level, min_cell: int) -> LevelReply:
    simplified, moment = _silhouette_sums(X, level)
    cells, owners = cells_around(X, level.centers, min_cell)
    return LevelReply(cells, owners, simplified, moment, level.revision)


def _silhouette_sums(X: View, level: Level) -> tuple[float, float]:
    """Return the sums over all rows; a cell counts as often as it holds rows."""
    about = (level.centers, level.spreads, level.counts)
    if isinstance(X, Cells):
        simplified, moment, _ = silhouettes(X.means, X.scatters / X.counts, *about)
        return float((X.counts * simplified).sum()), float((X.counts * moment).sum())
    simplified, moment, _ = silhouettes(X, np.zeros(X.shape[0]), *about)
    return float(simplified.sum()), float(moment.sum())

# SPDX-License-Identifier: Apache-2.0
"""What a client of the default preset computes: its hello and its replies."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats
from afcl.core.cells import cells_of, fold
from afcl.core.messages import Cells, Level, LevelReply, Plan, Summary
from afcl.core.params import DefaultParams
from afcl.core.seeding import plus_plus
from afcl.exceptions import InputError
from afcl.kernels import assign, lloyd, silhouettes

#: Lloyd iterations behind the hello's cells.
HELLO_ITERATIONS = 5
#: Rows beyond which the hello's cells are placed on a seeded sample of this size.
SEEDING_SAMPLE = 32_768


def condense(X: Floats, params: DefaultParams, rng: np.random.Generator) -> Cells:
    """Condense rows to a few dozen cells of at least `min_cell` rows (the hello)."""
    n = X.shape[0]
    if n < params.min_cell:
        raise InputError(
            f"this client has {n} {'row' if n == 1 else 'rows'} (n_samples = {n}), "
            f"fewer than min_cell = {params.min_cell}: "
            "merge it with another client or lower min_cell"
        )
    sample = X
    if n > SEEDING_SAMPLE:
        sample = X[np.sort(rng.choice(n, SEEDING_SAMPLE, replace=False))]
    start = sample[plus_plus(sample, params.cells_for(n), rng)]
    centers, labels = lloyd(sample, np.ones(sample.shape[0]), start, HELLO_ITERATIONS)
    if n > SEEDING_SAMPLE:
        labels, _ = assign(X, centers)
    return fold(cells_of(X, labels, centers.shape[0]), params.min_cell)


def cells_around(X: Floats, centers: Floats, min_cell: int) -> Cells:
    """Return the client's cells by nearest centre, of at least `min_cell` rows."""
    labels, _ = assign(X, centers)
    return fold(cells_of(X, labels, centers.shape[0]), min_cell)


def reply(X: Floats, plan: Plan, params: DefaultParams) -> Summary:
    """Answer a broadcast: cells around the seeds, and a view of each candidate."""
    return Summary(
        cells_around(X, plan.seeds, params.min_cell),
        tuple(_view(X, level, params.min_cell) for level in plan.candidates),
    )


def _view(X: Floats, level: Level, min_cell: int) -> LevelReply:
    simplified, moment, _ = silhouettes(
        X, np.zeros(X.shape[0]), level.centers, level.spreads, level.counts
    )
    return LevelReply(
        cells_around(X, level.centers, min_cell),
        float(simplified.sum()),
        float(moment.sum()),
        level.revision,
    )

# SPDX-License-Identifier: Apache-2.0
"""What a client of the default preset computes: its hello and its replies.

A client works on its rows, which it reads part by part and once a message, or (at the
privacy levels that form groups or a synopsis once and for all) on a bag of cells that
stands for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cells import fold_owned, join_coincident, pool_held
from afcl.core.checks import check_plan
from afcl.core.messages import Cells, Level, LevelReply, Plan, Summary
from afcl.core.params import DefaultParams
from afcl.core.rows import Rows, RowsInPlace, as_rows, tallied
from afcl.core.seeding import drawn, plus_plus
from afcl.exceptions import InputError
from afcl.kernels import assign, lloyd, silhouettes, valleys

#: What a client works on: its rows, or cells that stand for them.
View: TypeAlias = Floats | Rows | Cells

#: Lloyd iterations behind the hello's cells.
HELLO_ITERATIONS = 5
#: Rows beyond which the hello's cells are placed on a seeded sample of this size.
SEEDING_SAMPLE = 4096
#: Tables with more features than this are wide: distances say less there.
WIDE = 8
#: How many times as large the sample is in wide tables.
WIDE_SAMPLE = 8


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
        _, labels = lloyd(X.means, weights, X.means[picks], HELLO_ITERATIONS)
        return _released(*pool_held(X, labels, picks.shape[0]), params.min_cell)[0]
    rows = as_rows(X)
    size = SEEDING_SAMPLE * (WIDE_SAMPLE if rows.shape[1] > WIDE else 1)
    many = n > size
    index = np.sort(rng.choice(n, size, replace=False)) if many else np.arange(n)
    if isinstance(rows, RowsInPlace):
        draws = drawn(params.cells_for(n), rng)
        centers = rows.placed(index, draws, HELLO_ITERATIONS)
    else:
        sample = rows.take(index)
        start = sample[plus_plus(sample, params.cells_for(n), rng)]
        centers, _ = lloyd(sample, np.ones(sample.shape[0]), start, HELLO_ITERATIONS)
    around, *_ = _summaries(rows, [centers])[0]
    return _released(*around, params.min_cell)[0]


def reply(X: View, plan: Plan, params: DefaultParams) -> Summary:
    """Answer a broadcast: cells around the seeds, and a view of each candidate."""
    if isinstance(X, Cells):
        check_plan(plan, X.means.shape[1], params)
        seen = [(_around(X, plan.seeds), np.zeros(2), np.empty((0, 3)))]
        weights = X.counts.astype(np.float64)
        for level in plan.candidates:
            counted = valleys(X.means, weights, level.centers)
            seen.append((_around(X, level.centers), _scored(X, level), counted))
    else:
        check_plan(plan, X.shape[1], params)
        sets = [plan.seeds, *(level.centers for level in plan.candidates)]
        seen = _summaries(as_rows(X), sets, plan.candidates)
    cells, owners = _released(*seen[0][0], params.min_cell)
    levels = []
    for level, (around, sums, between) in zip(plan.candidates, seen[1:], strict=True):
        cells_around, whose = _released(*around, params.min_cell)
        levels.append(LevelReply(cells_around, whose, sums, between, level.revision))
    return Summary(cells, owners, tuple(levels))


def _released(cells: Cells, owners: Ints, min_cell: int) -> tuple[Cells, Ints]:
    """Return cells of at least `min_cell` rows, no two with the same mean.

    Beside them stands whose each is: the number of its centre, -1 where rows of several
    were folded together.
    """
    return join_coincident(*fold_owned(cells, owners, min_cell))


# ------------------------------------------------------------------ of rows


def _summaries(
    rows: Rows, sets: Sequence[Floats], levels: Sequence[Level] = ()
) -> list[tuple[tuple[Cells, Ints], Floats, Floats]]:
    """Read the rows once and return what each set of centres makes of them.

    That is the non-empty cells by nearest centre with the centres' numbers, the sums of
    the simplified and the moment silhouette, and the counts of rows between centres.
    The last sets are the `levels`; of others both are zeros.
    """
    plain = len(sets) - len(levels)
    nothing = np.zeros(sum(centers.shape[0] for centers in sets[:plain]))
    edges = np.cumsum([0, *(centers.shape[0] for centers in sets)])
    counts, firsts, seconds, totals, between = tallied(
        rows,
        centers=np.concatenate(sets),
        bounds=edges,
        scores=np.array([0] * plain + [2] * len(levels)),
        spreads=np.concatenate([nothing, *(level.spreads for level in levels)]),
        sizes=np.concatenate([nothing, *(level.counts for level in levels)]),
    )
    return [
        (_cells(centers, counts[a:b], firsts[a:b], seconds[a:b]), total, between[a:b])
        for centers, a, b, total in zip(
            sets, edges[:-1], edges[1:], totals, strict=True
        )
    ]


def _cells(
    centers: Floats, counts: Floats, firsts: Floats, seconds: Floats
) -> tuple[Cells, Ints]:
    """Return the non-empty cells from the sums around their centres.

    With s = sum of x - c, the mean is c + s/o and the scatter sum |x - c|^2 - |s|^2/o.
    """
    held = np.flatnonzero(counts)
    mass = counts[held]
    shifts = firsts[held] / mass[:, None]
    scatters = seconds[held] - mass * (shifts * shifts).sum(axis=1)
    cells = Cells(
        mass.astype(np.int64), centers[held] + shifts, np.maximum(scatters, 0.0)
    )
    return cells, held


# ------------------------------------------------------------------ of cells


def _around(X: Cells, centers: Floats) -> tuple[Cells, Ints]:
    labels, _ = assign(X.means, centers)
    return pool_held(X, labels, centers.shape[0])


def _scored(X: Cells, level: Level) -> Floats:
    """Return the sums over all rows; a cell counts as often as it holds rows."""
    about = (level.centers, level.spreads, level.counts)
    simplified, moment, _ = silhouettes(X.means, X.scatters / X.counts, *about)
    return np.array([(X.counts * simplified).sum(), (X.counts * moment).sum()])

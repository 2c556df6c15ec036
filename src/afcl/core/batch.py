# SPDX-License-Identifier: Apache-2.0
"""Many small clients at once: what :mod:`core.client` computes, for a batch of them.

A client's work here is that of the client by itself, to the bit, and does not depend on
whose work is done beside it. Rows lie one client after the other, so that one call of a
compiled kernel works for a thousand clients; calls may be shared out to threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.core.cells import concatenate, empty_columns, offsets_of
from afcl.core.client import HELLO_ITERATIONS
from afcl.core.cohort import Cohort
from afcl.core.cohort_answers import numbers_of_many
from afcl.core.draws import uniforms
from afcl.core.messages import Cells, LevelReply, Plan, Summary
from afcl.core.params import DefaultParams
from afcl.core.protocol import CLIENT
from afcl.core.tasks import ANYBODY, Threshold

T = TypeVar("T")


class Spread(Protocol):
    """Shares work out: calls it with parts of an index, returns what it gave."""

    def __call__(self, work: Callable[[Ints], T], index: Ints) -> list[T]:
        """Return the results in the order of the parts; at least one part."""
        ...


def at_once(work: Callable[[Ints], T], index: Ints) -> list[T]:
    """Do all the work in one call."""
    return [work(index)]


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of many clients, one client after the other, in agreed units.

    Client c owns the rows from ``offsets[c]`` up to ``offsets[c + 1]``.
    """

    rows: Floats
    offsets: Ints

    @property
    def sizes(self) -> Ints:
        """Number of rows of every client."""
        return np.diff(self.offsets)


# ------------------------------------------------------------------ hellos


def condense(
    tables: Tables,
    clients: Ints,
    params: DefaultParams,
    seed: int,
    stands: Cells | None = None,
) -> Cells:
    """Return the cells of these clients' hellos; see :func:`client.condense`.

    With `stands`, the tables' rows are the means of these cells, which stand for the
    clients' own.
    """
    from afcl.kernels.batches import condense as kernel

    sizes = tables.sizes[clients]
    weights, scatters = np.ones(int(sizes.max(initial=0))), np.empty(0)
    if stands is not None:
        weights, scatters = stands.counts.astype(np.float64), stands.scatters
        rows = np.add.reduceat(stands.counts, tables.offsets[:-1])
        sizes = rows[clients]
    known, inverse = np.unique(sizes, return_inverse=True)
    wanted = np.array([params.cells_for(n) for n in known.tolist()])[inverse]
    drawn = uniforms(seed, (CLIENT, clients, 0), wanted)
    places = offsets_of(wanted)
    held = np.zeros(clients.shape[0], dtype=np.int64)
    out = empty_columns(int(places[-1]), tables.rows.shape[1])
    kernel(
        tables.rows,
        weights,
        scatters,
        tables.offsets,
        clients,
        wanted,
        drawn,
        HELLO_ITERATIONS,
        params.min_cell,
        places,
        held,
        out,
    )
    return _packed(places, held, out)


# ------------------------------------------------------------------ replies


def reply(
    tables: Tables,
    clients: Ints,
    plan: Plan,
    params: DefaultParams,
    spread: Spread = at_once,
) -> Summary:
    """Return these clients' answers to a plan, in columns; see :func:`client.reply`.

    Whose a cell is (`owners`) is not sent: only a server that doubts an answer asks.
    """

    def asked(
        centers: Floats, spreads: Floats, sizes: Floats
    ) -> tuple[Cells, Floats, AnyArray]:
        about = (np.ascontiguousarray(centers), spreads, sizes, params.min_cell)
        parts = spread(lambda some: _around(tables, some, *about), clients)
        cells = concatenate([cells for cells, *_ in parts])
        sums = np.concatenate([sums for _, sums, _ in parts])
        return cells, sums, np.concatenate([valleys for *_, valleys in parts])

    none, nobody = np.empty(0), np.empty(0, dtype=np.int64)
    cells, *_ = asked(plan.seeds, none, none)
    levels = []
    for level in plan.candidates:
        around, sums, valleys = asked(level.centers, level.spreads, level.counts)
        levels.append(LevelReply(around, nobody, sums, valleys, level.revision))
    return Summary(cells, nobody, tuple(levels))


def _around(
    tables: Tables,
    clients: Ints,
    centers: Floats,
    spreads: Floats,
    sizes: Floats,
    min_cell: int,
) -> tuple[Cells, Floats, AnyArray]:
    """Return clients' cells around centres, sums of silhouettes, counts between."""
    from afcl.kernels.batches import around

    most = np.maximum(1, tables.sizes[clients] // min_cell)
    places = offsets_of(np.minimum(most, centers.shape[0]))
    n = clients.shape[0]
    held = np.zeros(n, dtype=np.int64)
    sums = np.empty((n, 2))
    # Very many counts, and no site of a batch has as many rows as fit in here.
    valleys = np.zeros((n, spreads.shape[0], 3), dtype=np.uint16)
    out = empty_columns(int(places[-1]), tables.rows.shape[1])
    around(
        tables.rows,
        tables.offsets,
        clients,
        centers,
        spreads,
        sizes,
        min_cell,
        places,
        held,
        out,
        sums,
        valleys,
    )
    return _packed(places, held, out), sums, valleys


def _packed(places: Ints, held: Ints, out: tuple[Ints, Floats, Floats]) -> Cells:
    from afcl.kernels.batches import pack

    n = pack(places[:-1], held, out)
    counts, means, scatters = out
    return Cells(counts[:n], means[:n], scatters[:n], offsets_of(held))


# ------------------------------------------------------------------ sums of cohorts


def cohort_sums(
    tables: Tables,
    asked: Sequence[tuple[Cohort, Ints]],
    spread: Spread = at_once,
    threshold: Threshold = ANYBODY,
) -> list[Ints]:
    """Return the sum of these members' parts, before masking, for every cohort.

    `asked` are cohorts with the members that answer.
    """

    def some(index: Ints) -> list[Ints]:
        chosen = [asked[i] for i in index.tolist()]
        return [_cohort_sum(tables, c, members, threshold) for c, members in chosen]

    parts = spread(some, np.arange(len(asked)))
    return [values for part in parts for values in part]


def _cohort_sum(
    tables: Tables, cohort: Cohort, members: Ints, threshold: Threshold
) -> Ints:
    assert cohort.question is not None
    sizes = tables.sizes[members]
    firsts = tables.offsets[members] - offsets_of(sizes)[:-1]
    rows = np.arange(int(sizes.sum())) + np.repeat(firsts, sizes)
    return numbers_of_many(cohort.question, tables.rows[rows], sizes, threshold)

# SPDX-License-Identifier: Apache-2.0
"""What becomes of the parts of a cohort: kept, added up when complete, read, believed.

A sum that cannot be true is forgotten together with its cohort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Ints
from afcl.core.checks import HIGH, LOW
from afcl.core.cohort_state import SecureState
from afcl.core.messages import Cells
from afcl.core.tasks import KEY, UNIT, Cohort, Parts
from afcl.kernels import join_seeds


def keep_parts(state: SecureState, given: Sequence[Parts]) -> SecureState:
    """Keep parts; cohorts in which nobody owes one go on, in the order given."""
    work = _Work(state)
    for parts in given:
        cohort = work.open[parts.cohort].having(parts.members, parts.values)
        work.open[parts.cohort] = cohort
        if not cohort.owing:
            work.complete(parts.cohort, cohort)
    return work.state(idle=0 if given else state.idle)


class _Work:
    """Cohorts while parts are absorbed: one copy of each table, however many come."""

    def __init__(self, state: SecureState) -> None:
        self.open = dict(state.open)
        self._before = state
        self._answered = dict(state.answered)
        self._spoken: list[ClientId] = []
        self._freed: list[ClientId] = []
        self._version = state.version
        self._dirty = state.dirty

    def state(self, **changes: Any) -> SecureState:
        """Return the state after it all."""
        before = self._before
        return replace(
            before,
            open=self.open,
            answered=self._answered,
            spoken=before.spoken.union(self._spoken),
            waiting=(*self._freed, *before.waiting),
            version=self._version,
            dirty=self._dirty,
            **changes,
        )

    def complete(self, number: int, cohort: Cohort) -> None:
        """Go on when everybody who was asked has answered."""
        parts = list(cohort.parts.values())
        if cohort.phase == KEY:
            self._go_on(number, cohort.asked_next(key=parts[0]))
            return
        if cohort.total is not None:
            self._read(number, cohort, parts[0])
            return
        summed = self._before.scheme.add(parts, cohort.key)
        if cohort.keyed and summed is not None:
            self._go_on(number, cohort.asked_next(total=summed))
        else:
            self._read(number, cohort, summed)

    def _go_on(self, number: int, cohort: Cohort) -> None:
        """Ask a cohort for the next thing; nothing new is known for the seeds."""
        self.open[number] = cohort
        self._version += 1

    def _read(self, number: int, cohort: Cohort, numbers: Ints | None) -> None:
        """Read a complete sum; one that cannot be true ends the cohort.

        Who spoilt it cannot be told: its members stay with their hellos.
        """
        state = self._before
        self._dirty = True
        del self.open[number]
        if cohort.counts is not None:
            self._remember(number, cohort, numbers)
            return
        if numbers is None or not _is_count(numbers, state.rows_of(cohort.members)):
            return
        if not state.left.isdisjoint(cohort.members):
            self._freed = [*cohort.members, *self._freed]
            return
        groups = join_seeds(numbers, cohort.seeds, state.params.min_cell)
        counted = np.bincount(groups, weights=numbers).astype(np.int64)
        # At the end: cohorts stand in the order in which they were asked.
        self.open[number] = cohort.asked_next(groups=groups, counts=counted, total=None)

    def _remember(self, number: int, cohort: Cohort, numbers: Ints | None) -> None:
        """Keep the cells of a cohort that has answered all, if they can be."""
        assert cohort.counts is not None
        if numbers is None:
            return
        cells = cells_from(numbers, cohort.counts, cohort.seeds.shape[1])
        if cells is None or (self._before.bounded and not _in_box(cells)):
            return
        self._answered[number] = cells
        self._spoken.extend(cohort.members)


def _in_box(cells: Cells) -> bool:
    """Whether means lie in the agreed box, or within one width of it."""
    slack = UNIT * cells.means.shape[1]
    return bool(np.all((cells.means > LOW - slack) & (cells.means < HIGH + slack)))


def _is_count(numbers: Ints, rows: int) -> bool:
    return (
        bool(np.all((numbers >= 0) & (numbers <= rows))) and int(numbers.sum()) == rows
    )


def cells_from(numbers: Ints, counts: Ints, n_features: int) -> Cells | None:
    """Return a cohort's cells from its summed fixed-point numbers, None if impossible.

    Per group: rows, sum of rows, sum of squared norms.
    """
    k = counts.shape[0]
    if not np.array_equal(numbers[:k], counts):
        return None
    sums = numbers[k:].astype(np.float64).reshape(k, n_features + 1) * UNIT
    means = sums[:, :n_features] / counts[:, None]
    scatters = sums[:, n_features] - counts * (means * means).sum(axis=1)
    # Rounding to the fixed point can take a scatter of 0 a little below it.
    slack = UNIT * (n_features + 1) * (1 + counts)
    if not bool(np.all(scatters >= -slack * (1 + np.abs(means).sum(axis=1)))):
        return None
    return Cells(counts, means, np.maximum(scatters, 0.0))

# SPDX-License-Identifier: Apache-2.0
"""The server under `secure` with a crowd: cohorts in waves, their sums in columns.

The rules are those of :mod:`core.cohorts`, without what cannot happen in a crowd:
nobody leaves or comes late, and everybody is honest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from afcl._typing import Bools, Ints
from afcl.core import rebuild, server
from afcl.core.batch import (
    Batch,
    Crowd,
    Spread,
    at_once,
    no_cells,
    offsets_of,
    one_after_another,
)
from afcl.core.checks import HIGH, LOW
from afcl.core.cohorts import FINER, PATIENCE, WAVE
from afcl.core.crowd import CrowdState, absorb_hellos
from afcl.core.params import DefaultParams
from afcl.core.protocol import Clustering, Diagnostics
from afcl.core.tasks import UNIT
from afcl.core.waves import COUNTING, OVER, SUMMING, Read, Wave, advanced, bytes_of


@dataclass(frozen=True, slots=True)
class CohortState:
    """Everything the server knows.

    Attributes
    ----------
    hellos, rows
        Of every client.
    waiting
        Clients without a cohort, in order of arrival.
    silent, idle
        Clients that cohorts have stopped waiting for, and rounds without any part.
    waves
        Cohorts at work.
    answered, spoken
        Cells of the cohorts that have answered, in that order, and whose they are.
    asked
        How often every client has answered in either phase, (2, n).
    limits
        How often a client answers in either phase.
    inner, basis
        The default preset's state on what is known, and what it was built on.
    turn
        Questions that cohorts have got so far.
    """

    params: DefaultParams
    seed: int
    hellos: Batch
    rows: Ints
    waiting: Ints
    silent: Bools
    answered: Batch
    spoken: Bools
    asked: Ints
    limits: tuple[int, int]
    idle: int = 0
    waves: tuple[Wave, ...] = ()
    inner: CrowdState | None = None
    basis: tuple[int, bool] = (-1, False)
    dirty: bool = True
    version: int = 0
    turn: int = 0

    def present(self) -> Ints:
        """Return who waits for a cohort and has not fallen silent."""
        return self.waiting[~self.silent[self.waiting]]

    def wanted(self) -> Ints:
        """Return who owes a part."""
        owed = [wave.members[wave.owing] for wave in self.waves]
        return np.concatenate([np.empty(0, dtype=np.int64), *owed])

    def open(self) -> int:
        """Return the number of cohorts at work."""
        return sum(int((wave.phases < OVER).sum()) for wave in self.waves)


def heard(
    params: DefaultParams, seed: int, hellos: Batch, rows: Ints, limits: tuple[int, int]
) -> CohortState:
    """Return the state after everybody's hello."""
    n = rows.shape[0]
    return CohortState(
        params,
        seed,
        hellos,
        rows,
        np.arange(n),
        np.zeros(n, dtype=np.bool_),
        no_cells(0, hellos.cells.means.shape[1]),
        np.zeros(n, dtype=np.bool_),
        np.zeros((2, n), dtype=np.int64),
        limits,
    )


# ------------------------------------------------------------------ absorbing


@dataclass(frozen=True, slots=True)
class Heard:
    """What came in a round: whose parts, their bytes, and how many refused."""

    clients: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    array_bytes: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    refused: int = 0


def absorb(
    state: CohortState, crowd: Crowd, there: Ints, spread: Spread = at_once
) -> tuple[CohortState, Heard]:
    """Let these members answer; cohorts in which nobody owes anything go on.

    Who has been asked for too many different sums answers no more, see
    :mod:`privacy.masks`.
    """
    here = np.zeros(state.rows.shape[0], dtype=np.bool_)
    here[there] = True
    asked, limits = state.asked.copy(), np.array(state.limits)
    waves: list[Wave] = []
    read: list[Read] = []
    parts: list[tuple[Ints, Ints]] = []
    refused = 0
    for wave in state.waves:
        phase = np.minimum(wave.phases, SUMMING)[wave.cohort]
        ready = wave.owing & here[wave.members]
        able = asked[phase, wave.members] < limits[phase]
        refused += int((ready & ~able).sum())
        ready &= able
        asked[phase[ready], wave.members[ready]] += 1
        parts.append((wave.members[ready], bytes_of(wave)[wave.cohort[ready]]))
        left = replace(wave, owing=wave.owing & ~ready)
        going, done = advanced(left, ready, crowd, state.params.min_cell, spread)
        waves.append(going)
        read.append(done)
    came = Heard(
        np.concatenate([clients for clients, _ in parts]),
        np.concatenate([sizes for _, sizes in parts]),
        refused,
    )
    state = replace(
        state,
        waves=_asked_next(waves, read, state.turn),
        asked=asked,
        idle=0 if came.clients.size else state.idle,
        dirty=state.dirty or any(done.news for done in read),
        turn=state.turn + sum(int(done.counted.size) for done in read),
    )
    return _remembered(state, read), came


def _asked_next(waves: list[Wave], read: list[Read], turn: int) -> tuple[Wave, ...]:
    """Return the waves at work; who is counted is asked for sums, in order."""
    last = np.concatenate([done.counted_by for done in read])
    turns = np.empty(last.shape[0], dtype=np.int64)
    turns[np.argsort(last, kind="stable")] = turn + np.arange(last.shape[0])
    going, start = [], 0
    for wave, done in zip(waves, read, strict=True):
        end = start + done.counted.shape[0]
        mine = wave.turns.copy()
        mine[done.counted] = turns[start:end]
        start = end
        if bool((wave.phases < OVER).any()):
            going.append(replace(wave, turns=mine))
    return tuple(going)


def _remembered(state: CohortState, read: list[Read]) -> CohortState:
    """Keep the cells of cohorts in the order in which they were complete.

    A cohort with a mean far outside the agreed box is not believed.
    """
    cells = one_after_another([done.cells for done in read])
    if not cells.sizes.size:
        return state
    means = cells.cells.means
    slack = UNIT * means.shape[1]
    inside = np.all((means > LOW - slack) & (means < HIGH + slack), axis=1)
    believed = np.logical_and.reduceat(inside, cells.offsets[:-1])
    order = np.argsort(np.concatenate([done.last for done in read]), kind="stable")
    cells = cells.take(order[believed[order]])
    spoken = state.spoken.copy()
    sizes = np.concatenate([np.diff(done.offsets) for done in read])
    members = np.concatenate([done.members for done in read])
    spoken[members[np.repeat(believed, sizes)]] = True
    return replace(
        state, answered=one_after_another([state.answered, cells]), spoken=spoken
    )


def end_round(state: CohortState) -> CohortState:
    """Stop waiting for members that are silent for too long; let others begin."""
    if not state.waves:
        return state
    if state.idle < PATIENCE:
        return replace(state, idle=state.idle + 1)
    silent = state.silent.copy()
    silent[state.wanted()] = True
    return prepare(
        replace(
            state,
            silent=silent,
            idle=0,
            waves=(),
            waiting=np.concatenate([_at_work(state), state.waiting]),
            dirty=True,
        )
    )


def _at_work(state: CohortState) -> Ints:
    """Return the members of cohorts at work, by their cohorts' turns."""
    members, turns = [], []
    for wave in state.waves:
        inside = (wave.phases < OVER)[wave.cohort]
        members.append(wave.members[inside])
        turns.append(wave.turns[wave.cohort][inside])
    order = np.argsort(np.concatenate(turns), kind="stable")
    return np.concatenate(members)[order]


# ------------------------------------------------------------------ heavy work


def prepare(state: CohortState) -> CohortState:
    """Rebuild on what the cohorts have said, then let the next ones begin."""
    if not state.dirty:
        return state
    answered = state.answered.sizes.shape[0]
    more = state.present().shape[0] >= state.params.cohort
    basis = (answered, not state.open() and not more)
    if state.inner is None or basis != state.basis:
        state = replace(state, inner=_rebuilt(state, basis[1]), basis=basis)
    return replace(_begun(state), dirty=False, version=state.version + 1)


def _rebuilt(state: CohortState, over: bool) -> CrowdState:
    """Return the default preset's state; see :func:`cohorts._rebuilt`."""
    said, rows = state.hellos, state.rows
    if state.answered.sizes.size:
        said = state.answered
        rows = np.add.reduceat(said.cells.counts, said.offsets[:-1])
        if over:
            rest = np.flatnonzero(~state.spoken)
            said = one_after_another([said, state.hellos.take(rest)])
            rows = np.concatenate([rows, state.rows[rest]])
    total = int(state.rows.sum())
    seeds = state.params.n_seeds or min(256, FINER * state.params.seeds_for(total))
    params = replace(state.params, n_seeds=seeds, min_cell=1)
    inner = absorb_hellos(CrowdState(params, state.seed), said, rows)
    prepared = rebuild.prepare(inner)
    assert isinstance(prepared, CrowdState)
    return prepared


def _begun(state: CohortState) -> CohortState:
    """Form cohorts from who waits, in order of arrival, few at a time."""
    assert state.inner is not None
    seeds = state.inner.seeds
    assert seeds is not None
    size, present = state.params.cohort, state.present()
    room = max(1, state.answered.sizes.shape[0] // WAVE) - state.open()
    possible = present.shape[0] // size
    n = min(room, possible)
    if n < 1:
        return state
    sizes = np.full(n, size)
    if n == possible:
        sizes[-1] = present.shape[0] - size * (n - 1)
    members = present[: int(sizes.sum())]
    taken = np.zeros(state.rows.shape[0], dtype=np.bool_)
    taken[members] = True
    wave = Wave(
        members,
        offsets_of(sizes),
        seeds,
        np.ones(members.shape[0], dtype=np.bool_),
        np.full(n, COUNTING),
        np.zeros((n, seeds.shape[0]), dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        state.turn + np.arange(n),
    )
    return replace(
        state,
        turn=state.turn + n,
        waves=(*state.waves, wave),
        waiting=state.waiting[~taken[state.waiting]],
    )


# ------------------------------------------------------------------ answering


def done(state: CohortState) -> bool:
    """Whether no cohort is at work and none can be formed."""
    return not state.dirty and not state.waves


def result(state: CohortState) -> Clustering:
    """Return the best level on what the cohorts have said."""
    assert state.inner is not None
    return server.result(state.inner)


def progress(state: CohortState) -> Diagnostics:
    """Return the default preset's numbers, and how far the cohorts are."""
    assert state.inner is not None
    return {
        **server.progress(state.inner),
        "version": state.version,
        "cohorts": int(state.answered.sizes.shape[0]),
    }

# SPDX-License-Identifier: Apache-2.0
"""The server under `secure`: it hears hellos, then sums over cohorts and nothing else.

Clients are put into cohorts as they arrive. A cohort is asked twice: first how many of
its rows lie nearest to each seed, then, with seeds joined until every group holds
`min_cell` rows of the cohort, for the sums of each group. Every answer is masked, or
encrypted under a key that the cohort's first member makes and holds (then it is asked
for the key first, and to open every sum); only the sum over the whole cohort can be
read. What the cohort said replaces its members' hellos in the server's memory (rule
R8), and **its members are never asked again**, so that there is nothing to subtract
from its sums.

Cohorts answer one after the other (few at a time): the seeds that the first ones get
come from the hellos, which mix clusters where clients are small, and each answer makes
the seeds of the next ones better. See docs/decisions/0012-privacy.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from immutables import Map

from afcl._typing import Bools, ClientId, Floats, Ints
from afcl.core import rebuild, server
from afcl.core.checks import HIGH, LOW
from afcl.core.messages import (
    Broadcast,
    Cells,
    Hello,
    Left,
    Update,
    refuse_unless,
)
from afcl.core.params import DefaultParams
from afcl.core.protocol import Clustering, Diagnostics
from afcl.core.state import ServerState
from afcl.core.tasks import (
    COUNT,
    KEY,
    OPENING,
    SUM,
    UNIT,
    Cohort,
    Masks,
    Part,
    Scheme,
    SecureHello,
    Task,
)

__all__ = [
    "COUNT",
    "SUM",
    "UNIT",
    "Cohort",
    "Masks",
    "Part",
    "SecureHello",
    "SecureState",
    "Task",
    "absorb_hello",
    "absorb_left",
    "absorb_update",
    "broadcast",
    "cells_from",
    "done",
    "end_round",
    "join_seeds",
    "prepare",
    "progress",
    "result",
]

#: Seeds, in multiples of the default preset's: a cohort is asked once, groups of seeds
#: hold enough of its rows in any case, and finer groups keep clusters apart.
FINER = 2
#: Rounds without any part after which cohorts stop waiting for who is silent.
PATIENCE = 8
#: Cohorts at work at a time: one, or this share of those that have answered.
WAVE = 4


@dataclass(frozen=True, slots=True)
class SecureState:
    """Everything the server knows.

    Attributes
    ----------
    hellos, rows, keys
        Of every client.
    waiting
        Clients without a cohort, in order of arrival.
    silent, idle
        Clients that cohorts have stopped waiting for, and rounds without any part.
    open, answered
        Cohorts at work, and the cells of those that have answered.
    spoken
        Clients whose cohort has answered: their hellos are not used any more.
    opened
        Number of cohorts so far.
    inner
        The default preset's state on what is known: one bag per cohort.
    scheme
        How sums are made.
    n_features, bounded
        Columns that were agreed on, and whether a box was.
    """

    params: DefaultParams
    seed: int
    hellos: Map[ClientId, Cells] = field(default_factory=Map)
    rows: Map[ClientId, int] = field(default_factory=Map)
    keys: Map[ClientId, str] = field(default_factory=Map)
    waiting: tuple[ClientId, ...] = ()
    left: frozenset[ClientId] = frozenset()
    silent: frozenset[ClientId] = frozenset()
    idle: int = 0
    open: dict[int, Cohort] = field(default_factory=dict)
    answered: dict[int, Cells] = field(default_factory=dict)
    spoken: frozenset[ClientId] = frozenset()
    opened: int = 0
    inner: ServerState | None = None
    dirty: bool = False
    version: int = 0
    scheme: Scheme = field(default_factory=Masks)
    n_features: int = -1
    bounded: bool = False

    def within(self, n_features: int, bounded: bool) -> SecureState:
        """Return the state that knows the agreement, before any message."""
        return replace(self, n_features=n_features, bounded=bounded)

    def present(self) -> tuple[ClientId, ...]:
        """Return who waits for a cohort and has neither left nor fallen silent."""
        away = self.left | self.silent
        return tuple(client for client in self.waiting if client not in away)


# ------------------------------------------------------------------ absorbing


def absorb_hello(state: SecureState, hello: Hello) -> tuple[SecureState, Diagnostics]:
    """Remember a new client; who has a cohort already only comes back."""
    said = hello.payload
    refuse_unless(isinstance(said, SecureHello), "a hello must carry cells and a key")
    refuse_unless(
        len(said.key) == 64 and all(c in "0123456789abcdef" for c in said.key),
        "a key must be 32 bytes in hexadecimal",
    )
    known = ServerState(state.params, state.seed)
    known = known.within(state.n_features, state.bounded)
    heard, found = server.absorb_hello(known, replace(hello, payload=said.cells))
    client = hello.client
    back = replace(state, left=state.left - {client}, silent=state.silent - {client})
    if client in state.hellos:
        refuse_unless(
            state.keys[client] == said.key and state.rows[client] == hello.n_rows,
            f"client {client} came back as somebody else",
        )
        return back, {**found, "repeated": True}
    return (
        replace(
            back,
            hellos=state.hellos.set(client, said.cells),
            rows=state.rows.set(client, hello.n_rows),
            keys=state.keys.set(client, said.key),
            waiting=(*state.waiting, client),
            n_features=heard.n_features,
            dirty=True,
        ),
        found,
    )


def absorb_update(
    state: SecureState, update: Update
) -> tuple[SecureState, Diagnostics]:
    """Keep a member's part; the last one of a cohort lets its sum be read."""
    client, part = update.client, update.payload
    refuse_unless(client in state.hellos, f"client {client} has not said hello")
    refuse_unless(isinstance(part, Part), "an update must carry a masked part")
    cohort = state.open.get(part.cohort)
    refuse_unless(cohort is not None, f"cohort {part.cohort} is not at work")
    assert cohort is not None
    refuse_unless(client in cohort.members, f"client {client} is in another cohort")
    refuse_unless(
        part.phase == cohort.phase, f"cohort {part.cohort} is asked for something else"
    )
    refuse_unless(
        client in cohort.owing or client in cohort.parts,
        f"client {client} is not asked for {part.phase}",
    )
    state.scheme.check(part.phase, part.values, cohort.width, cohort.key)
    cohort = replace(cohort, parts={**cohort.parts, client: part.values})
    state = replace(
        state,
        open={**state.open, part.cohort: cohort},
        left=state.left - {client},
        idle=0,
    )
    found = {"accepted": True, "cohort": part.cohort, "phase": part.phase}
    if not cohort.owing:
        state = _complete(state, part.cohort, cohort)
    return state, found


def _complete(state: SecureState, number: int, cohort: Cohort) -> SecureState:
    """Go on when everybody who was asked has answered."""
    parts = list(cohort.parts.values())
    if cohort.phase == KEY:
        return _going_on(state, number, replace(cohort, key=parts[0], parts={}))
    if cohort.total is not None:
        return _read(state, number, cohort, parts[0])
    total = state.scheme.add(parts, cohort.key)
    if cohort.keyed and total is not None:
        return _going_on(state, number, replace(cohort, total=total, parts={}))
    return _read(state, number, cohort, total)


def _going_on(state: SecureState, number: int, cohort: Cohort) -> SecureState:
    """Ask a cohort for the next thing; nothing new is known that seeds depend on."""
    return replace(
        state, open={**state.open, number: cohort}, version=state.version + 1
    )


def _read(
    state: SecureState, number: int, cohort: Cohort, numbers: Ints | None
) -> SecureState:
    """Read a complete sum; one that cannot be true ends the cohort.

    Who spoilt it cannot be told: its members stay with their hellos.
    """
    rows = sum(state.rows[client] for client in cohort.members)
    others = {key: each for key, each in state.open.items() if key != number}
    if numbers is None or (cohort.counts is None and not _is_count(numbers, rows)):
        return replace(state, open=others, dirty=True)
    if cohort.counts is None:
        if not state.left.isdisjoint(cohort.members):
            return _dissolved(state, [number])
        groups = join_seeds(numbers, cohort.seeds, state.params.min_cell)
        counted = np.bincount(groups, weights=numbers).astype(np.int64)
        asked = replace(cohort, groups=groups, counts=counted, parts={}, total=None)
        return replace(state, open={**others, number: asked}, dirty=True)
    cells = cells_from(numbers, cohort.counts, cohort.seeds.shape[1])
    state = replace(state, open=others, dirty=True)
    if cells is None or (state.bounded and not _in_box(cells)):
        return state
    return replace(
        state,
        answered={**state.answered, number: cells},
        spoken=state.spoken | set(cohort.members),
    )


def _in_box(cells: Cells) -> bool:
    """Whether means lie in the agreed box, or within one width of it."""
    slack = UNIT * cells.means.shape[1]
    return bool(np.all((cells.means > LOW - slack) & (cells.means < HIGH + slack)))


def _is_count(numbers: Ints, rows: int) -> bool:
    return (
        bool(np.all((numbers >= 0) & (numbers <= rows))) and int(numbers.sum()) == rows
    )


def absorb_left(state: SecureState, left: Left) -> tuple[SecureState, Diagnostics]:
    """Dissolve the cohorts that wait for a client that is gone."""
    broken = [
        number
        for number, cohort in state.open.items()
        if cohort.cannot_spare(left.client)
    ]
    state = replace(state, left=state.left | {left.client})
    return _dissolved(state, broken), {"accepted": True}


def end_round(state: SecureState) -> SecureState:
    """Stop waiting for members that are silent for too long; let others begin."""
    if not state.open:
        return state
    if state.idle < PATIENCE:
        return replace(state, idle=state.idle + 1)
    owed = {client for cohort in state.open.values() for client in cohort.owing}
    state = replace(state, silent=state.silent | owed, idle=0)
    return prepare(_dissolved(state, list(state.open)))


def _dissolved(state: SecureState, numbers: list[int]) -> SecureState:
    """Dissolve cohorts: their parts stay masked for ever, their members wait again.

    They wait at the head of the queue.
    """
    free = [client for number in numbers for client in state.open[number].members]
    return replace(
        state,
        open={n: cohort for n, cohort in state.open.items() if n not in numbers},
        waiting=(*free, *state.waiting),
        dirty=state.dirty or bool(numbers),
    )


# ------------------------------------------------------------------ groups, cells


def join_seeds(counts: Ints, seeds: Floats, smallest: int) -> Ints:
    """Return every seed's group, so that each group holds at least `smallest` rows.

    The smallest group joins the nearest one (by the mean of its seeds, weighted with
    their rows; lowest index on ties); seeds without rows join the nearest at the end.
    """
    group = np.arange(counts.shape[0])
    mass = counts.astype(np.float64)
    place = seeds.copy()
    alive = mass > 0
    while alive.sum() > 1:
        size = np.where(alive, mass, np.inf)
        i = int(size.argmin())
        if mass[i] >= smallest:
            break
        j = _nearest(place, place[i], alive & (np.arange(mass.shape[0]) != i))
        place[j] = (mass[i] * place[i] + mass[j] * place[j]) / (mass[i] + mass[j])
        mass[j] += mass[i]
        alive[i] = False
        group[group == i] = j
    for empty in np.flatnonzero(counts == 0):
        group[empty] = group[_nearest(seeds, seeds[empty], counts > 0)]
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _nearest(points: Floats, point: Floats, among: Bools) -> int:
    gaps = ((points - point) ** 2).sum(axis=1)
    return int(np.where(among, gaps, np.inf).argmin())


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


# ------------------------------------------------------------------ heavy work


def prepare(state: SecureState) -> SecureState:
    """Rebuild on what the cohorts have said, then let the next ones begin."""
    if not state.hellos or not state.dirty:
        return state
    state = _open_next(replace(state, inner=_rebuilt(state)))
    return replace(state, dirty=False, version=state.version + 1)


def _open_next(state: SecureState) -> SecureState:
    """Form cohorts from who waits, in order of arrival, few at a time."""
    size = state.params.cohort
    assert state.inner is not None
    assert state.inner.seeds is not None
    while len(state.open) < max(1, len(state.answered) // WAVE):
        waiting = state.present()
        if len(waiting) < size:
            break
        members = waiting if len(waiting) < 2 * size else waiting[:size]
        seeds = state.inner.seeds
        groups = np.arange(seeds.shape[0])
        cohort = Cohort(members, seeds, groups, keyed=state.scheme.keyed)
        state = replace(
            state,
            open={**state.open, state.opened: cohort},
            opened=state.opened + 1,
            waiting=tuple(c for c in state.waiting if c not in members),
        )
    return state


def _rebuilt(state: SecureState) -> ServerState:
    """Return the default preset's state on the cohorts' cells.

    Clients whose cohort has not answered count by their hellos: all of them before the
    first answer, and in the end those that are left over. In between they are left
    out, because the cells of small clients mix clusters.
    """
    pending = [c for cohort in state.open.values() for c in cohort.members]
    more = len(state.present()) >= state.params.cohort
    said = [(cells, int(cells.counts.sum())) for cells in state.answered.values()]
    if not said:
        said = [(state.hellos[c], state.rows[c]) for c in sorted(state.hellos)]
    elif not pending and not more:
        over = [c for c in sorted(state.hellos) if c not in state.spoken]
        said += [(state.hellos[c], state.rows[c]) for c in over]
    total = sum(state.rows.values())
    seeds = state.params.n_seeds or min(256, FINER * state.params.seeds_for(total))
    params = replace(state.params, n_seeds=seeds, min_cell=1)
    inner = ServerState(params, state.seed)
    for number, (cells, rows) in enumerate(said):
        hello = Hello(rows, cells, client=number)
        inner, _ = server.absorb_hello(inner, hello)
    return rebuild.prepare(inner)


# ------------------------------------------------------------------ answering


def broadcast(state: SecureState) -> Broadcast:
    """Return every member's task; only who still owes a part is wanted."""
    tasks = {
        client: _task(state, number, cohort, cohort.members.index(client))
        for number, cohort in state.open.items()
        for client in cohort.owing
    }
    return Broadcast(state.version, None, frozenset(tasks), tasks)


def _task(state: SecureState, number: int, cohort: Cohort, place: int) -> Task:
    return Task(
        number,
        cohort.phase,
        cohort.members,
        tuple(state.keys[client] for client in cohort.members),
        place,
        cohort.seeds,
        cohort.groups,
        cohort.key if cohort.phase in OPENING else None,
        cohort.total,
    )


def done(state: SecureState) -> bool:
    """Whether no cohort is at work and none can be formed."""
    return bool(state.hellos) and not state.dirty and not state.open


def result(state: SecureState) -> Clustering:
    """Return the best level on what the cohorts have said."""
    assert state.inner is not None
    return server.result(state.inner)


def progress(state: SecureState) -> Diagnostics:
    """Return the default preset's numbers, and how far the cohorts are."""
    assert state.inner is not None
    return {
        **server.progress(state.inner),
        "version": state.version,
        "cohorts": len(state.answered),
    }

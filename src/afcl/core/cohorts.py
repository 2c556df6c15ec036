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

Members of a group of simulated clients answer by cohort (:class:`tasks.Parts`): the
server is given the sum of several members' parts instead of one part after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core import rebuild, server
from afcl.core.cells import concatenate, nothing
from afcl.core.cohort_state import SecureState
from afcl.core.cohort_sums import keep_parts
from afcl.core.messages import Batch, Broadcast, Hello, Left, Update, refuse_unless
from afcl.core.protocol import Clustering, Diagnostics
from afcl.core.state import ServerState
from afcl.core.tasks import OPENING, Cohort, Part, Parts, SecureHello, Task

#: Seeds, in multiples of the default preset's: a cohort is asked once, groups of seeds
#: hold enough of its rows in any case, and finer groups keep clusters apart.
FINER = 2
#: Rounds without any part after which cohorts stop waiting for who is silent.
PATIENCE = 8
#: Cohorts at work at a time: one, or this share of those that have answered.
WAVE = 4


def agreed(state: SecureState, n_features: int, bounded: bool) -> SecureState:
    """Return the state that knows the agreement, before any message."""
    return replace(state, n_features=n_features, bounded=bounded)


def announced(
    state: SecureState, client: ClientId, low: Floats, high: Floats
) -> SecureState:
    """Return the state as it is: cohorts' sums cannot be held to one's extremes."""
    return state


# ------------------------------------------------------------------ absorbing


def absorb_hello(state: SecureState, hello: Hello) -> tuple[SecureState, Diagnostics]:
    """Remember a new client; who has a cohort already only comes back."""
    greeting = hello.payload
    refuse_unless(
        isinstance(greeting, SecureHello), "a hello must carry cells and a key"
    )
    refuse_unless(
        len(greeting.key) == 64 and all(c in "0123456789abcdef" for c in greeting.key),
        "a key must be 32 bytes in hexadecimal",
    )
    known = ServerState(state.params, state.seed)
    known = server.agreed(known, state.n_features, state.bounded)
    known, found = server.absorb_hello(known, replace(hello, payload=greeting.cells))
    client = hello.client
    back = replace(state, left=state.left - {client}, silent=state.silent - {client})
    if client in state.hellos:
        refuse_unless(
            state.keys[client] == greeting.key and state.rows[client] == hello.n_rows,
            f"client {client} came back as somebody else",
        )
        return back, {**found, "repeated": True}
    return (
        replace(
            back,
            hellos=state.hellos.set(client, greeting.cells),
            rows=state.rows.set(client, hello.n_rows),
            keys=state.keys.set(client, greeting.key),
            waiting=(*state.waiting, client),
            n_features=known.n_features,
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
        client in cohort.owing or client in cohort.answered,
        f"client {client} is not asked for {part.phase}",
    )
    state.scheme.check(part.phase, part.values, cohort.width, cohort.key)
    state = replace(state, left=state.left - {client})
    found = {"accepted": True, "cohort": part.cohort, "phase": part.phase}
    return keep_parts(state, [Parts(part.cohort, (client,), part.values)]), found


def absorb_batch(state: SecureState, batch: Batch) -> tuple[SecureState, Diagnostics]:
    """Absorb all hellos of a group, or what its members answer, by cohort.

    `payload` are cells, or :class:`tasks.Parts` in the order in which the last of their
    members speaks. The diagnostics are columns.
    """
    if batch.rows is None:
        return keep_parts(state, batch.payload), _asked_of(state, batch.payload)
    absorbed = replace(
        state,
        hellos=state.hellos.set(batch.first, batch.payload),
        rows=state.rows.set(batch.first, batch.rows),
        waiting=tuple(batch.clients.tolist()),
        n_features=batch.payload.means.shape[1],
        dirty=True,
    )
    sizes = batch.payload.sizes
    return absorbed, {"accepted": True, "repeated": False, "cells": sizes}


def _asked_of(state: SecureState, given: Sequence[Parts]) -> Diagnostics:
    """Return whose parts these are, in the members' order: cohorts and phases."""
    members = [client for parts in given for client in parts.members]
    order = sorted(range(len(members)), key=members.__getitem__)
    cohorts = [parts.cohort for parts in given for _ in parts.members]
    phases = {parts.cohort: state.open[parts.cohort].phase for parts in given}
    asked = [cohorts[i] for i in order]
    return {
        "accepted": True,
        "cohort": np.array(asked, dtype=np.int64),
        "phase": [phases[cohort] for cohort in asked],
    }


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


# ------------------------------------------------------------------ heavy work


def prepare(state: SecureState) -> SecureState:
    """Rebuild on what the cohorts have said, then let the next ones begin.

    What was built stays where nothing was learnt: when a cohort has only been counted.
    """
    if not state.hellos or not state.dirty:
        return state
    over = not state.open and len(state.present()) < state.params.cohort
    heard = (len(state.hellos), state.total_rows())
    basis = (len(state.answered), over, *heard)
    if basis != state.basis:
        state = replace(state, inner=_rebuilt(state, over), basis=basis)
    return replace(_open_next(state), dirty=False, version=state.version + 1)


def _open_next(state: SecureState) -> SecureState:
    """Form cohorts from who waits, in order of arrival, few at a time."""
    size, waiting = state.params.cohort, state.present()
    assert state.inner is not None
    assert state.inner.seeds is not None
    seeds = state.inner.seeds
    groups = np.arange(seeds.shape[0])
    room = max(1, len(state.answered) // WAVE) - len(state.open)
    begun: dict[int, Cohort] = {}
    at = 0
    while len(begun) < room and len(waiting) - at >= size:
        # Who would be left over, too few for a cohort, joins the last one.
        end = at + size if len(waiting) - at >= 2 * size else len(waiting)
        cohort = Cohort(waiting[at:end], seeds, groups, keyed=state.scheme.keyed)
        begun[state.opened + len(begun)] = cohort
        at = end
    taken = frozenset(waiting[:at])
    return replace(
        state,
        open={**state.open, **begun},
        opened=state.opened + len(begun),
        waiting=tuple(client for client in state.waiting if client not in taken),
    )


def _rebuilt(state: SecureState, over: bool) -> ServerState:
    """Return the default preset's state on the cohorts' cells.

    Clients whose cohort has not answered count by their hellos: all of them before the
    first answer, and in the end those that are left over. In between they are left
    out, because the cells of small clients mix clusters.
    """
    bags = list(state.answered.values())
    cells = concatenate([nothing(state.n_features, 0), *bags])
    rows = np.array([bag.counts.sum() for bag in bags], dtype=np.int64)
    if over or not bags:
        others, their_rows = state.hellos_of_others()
        cells = concatenate([cells, others])
        rows = np.concatenate([rows, their_rows])
    seeds = state.params.n_seeds or min(
        256, FINER * state.params.seeds_for(state.total_rows())
    )
    params = replace(state.params, n_seeds=seeds, min_cell=1)
    everybody = Batch(np.arange(rows.shape[0]), cells, rows)
    inner, _ = server.absorb_batch(ServerState(params, state.seed), everybody)
    return rebuild.prepare(inner)


# ------------------------------------------------------------------ answering


def broadcast(state: SecureState) -> Broadcast:
    """Return every member's task; only who still owes a part is wanted.

    A group is given the cohorts at work, and sees itself whom it asks what.
    """
    if state.group is not None:
        return Broadcast(state.version, None, frozenset(), group=state.open)
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

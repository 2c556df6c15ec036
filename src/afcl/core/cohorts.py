# SPDX-License-Identifier: Apache-2.0
"""The server that hears hellos, then sums over cohorts and nothing else.

Clients are put into cohorts as they arrive, as large as can be. A cohort is asked how
many of its rows lie nearest to each seed, then, with seeds joined until every group
holds `min_cell` rows of the cohort, how many members hold rows of each group, and for
its sums: of all of them if there are enough, otherwise of those who have enough rows by
themselves. Then the same about a finer partition inside these groups
(:mod:`core.refine`); and when all cohorts have told their sums, how good the candidates
are (rows per cluster, squared distances, valleys).
Every answer is masked, or encrypted under a key that the cohort's first member makes
and holds (then it is asked for the key first, and to open every sum); only the sum over
the whole cohort can be read. What the cohort said replaces its members' hellos in the
server's memory (rule R8).

Who leaves or stays silent is left behind. Before any sum is known the others are asked
again, without it. Once there is a sum with its rows in it they are not: the difference
to a sum without them would be the rows of one client; such a cohort counts by the sums
there are. See docs/decisions/0025-sums-over-sites.md.

Members of a group of simulated clients answer by cohort (:class:`tasks.Parts`): the
server is given the sum of several members' parts instead of one part after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core import server
from afcl.core.cohort import Cohort
from afcl.core.cohort_losses import FEWEST, is_first, without
from afcl.core.cohort_rebuild import prepare as prepare
from afcl.core.cohort_rebuild import rebuilt
from afcl.core.cohort_state import SecureState
from afcl.core.cohort_sums import keep_parts
from afcl.core.messages import Batch, Broadcast, Hello, Left, Update, refuse_unless
from afcl.core.protocol import Clustering, Diagnostics
from afcl.core.state import ServerState
from afcl.core.tasks import (
    OPENING,
    Part,
    Parts,
    SecureHello,
    Task,
    check_numbers,
)

#: Rounds without any part after which a cohort stops waiting for who is silent: at the
#: first question, when going on without somebody costs nothing,
PATIENCE = 8
#: and later, when it costs the whole cohort its finer sums.
LONGER_PATIENCE = 24
#: The first question waits only so long, once most members of a large cohort have
#: answered: the others would hold up many.
HASTE = 1
#: Members of a large cohort, at least.
MANY = 12
#: Which share of them is most.
MOST_OF_THEM = 2 / 3


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
        # Strict, as members sort and hash keys as texts: one spelling for one key.
        len(greeting.key) == 64 and all(c in "0123456789abcdef" for c in greeting.key),
        "a key must be 32 bytes in hexadecimal",
    )
    # The companion level's own checks, on a state that forgets the client at once.
    known = ServerState(state.params, state.seed)
    known = server.agreed(known, state.n_features, state.bounded)
    known, found = server.absorb_hello(known, replace(hello, payload=greeting.cells))
    client = hello.client
    back = replace(
        state,
        left=state.left - {client},
        silent=state.silent - {client},
        dirty=state.dirty or client in state.silent,
    )
    if client in state.hellos:
        # Another key would need other masks, other rows would be in no sum.
        refuse_unless(
            state.keys[client] == greeting.key and state.rows[client] == hello.n_rows,
            f"client {client} came back as somebody else",
        )
        # Its place in a cohort and in the sums stays: it is the same client.
        return back, {**found, "repeated": True}
    return (
        replace(
            back,
            hellos=state.hellos.set(client, greeting.cells),
            rows=state.rows.set(client, hello.n_rows),
            keys=state.keys.set(client, greeting.key),
            proofs=state.proofs.set(client, greeting.proof),
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
    cohort = state.cohorts.get(part.cohort)
    refuse_unless(
        # A late part of a cohort that has gone on without its sender is forgotten
        # unread: kept, it could be subtracted from the later sum (0025).
        cohort is not None and cohort.question is not None,
        f"cohort {part.cohort} is not at work",
    )
    assert cohort is not None
    refuse_unless(client in cohort.members, f"client {client} is in another cohort")
    refuse_unless(
        # Masks are made for one question: a part for another one would not cancel.
        part.phase == cohort.phase,
        f"cohort {part.cohort} is asked for something else",
    )
    refuse_unless(
        client in cohort.owing or client in cohort.answered,
        f"client {client} is not asked for {part.phase}",
    )
    state.scheme.check(part.phase, part.values, cohort.width, cohort.key)
    if part.tags is not None:
        check_numbers(part.tags, 2, len(cohort.members))
    # Who answers is here, whatever was heard of it before.
    state = replace(state, left=state.left - {client})
    found = {"accepted": True, "cohort": part.cohort, "phase": part.phase}
    received = Parts(part.cohort, (client,), part.values, part.tags)
    return keep_parts(state, [received]), found


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


def _asked_of(state: SecureState, received: Sequence[Parts]) -> Diagnostics:
    """Return whose parts these are, in the members' order: cohorts and phases."""
    members = [client for parts in received for client in parts.members]
    order = sorted(range(len(members)), key=members.__getitem__)
    # The trace is by client; parts come by cohort, one for many members.
    cohorts = [parts.cohort for parts in received for _ in parts.members]
    phases = {parts.cohort: state.cohorts[parts.cohort].phase for parts in received}
    asked = [cohorts[i] for i in order]
    return {
        "accepted": True,
        "cohort": np.array(asked, dtype=np.int64),
        "phase": [phases[cohort] for cohort in asked],
    }


def absorb_left(state: SecureState, left: Left) -> tuple[SecureState, Diagnostics]:
    """Go on without a client that is gone, where it is waited for."""
    broken = [
        number
        for number, cohort in state.cohorts.items()
        if cohort.cannot_spare(left.client)
    ]
    state = replace(state, left=state.left | {left.client})
    # Only now, as `without` must see this client among those who left.
    for number in broken:
        state = without(state, number)
    return state, {"accepted": True}


def end_round(state: SecureState) -> SecureState:
    """Stop waiting for members that are silent for too long; let others begin."""
    working = state.working
    if not working:
        return state
    # Rounds, not seconds: a run that is replayed must give up at the same time.
    if state.idle < _patience(tuple(working.values())):
        return replace(state, idle=state.idle + 1)
    state = replace(state, silent=state.silent | waits_for(state), idle=0)
    for number in working:
        state = without(state, number)
    # At once: who was silent is out, and the others need not wait for a round more.
    return prepare(state)


def _patience(working: Sequence[Cohort]) -> int:
    """Return how many rounds without any part may pass.

    Who answers rarely would hold up many at every question to come.
    """
    if not all(is_first(cohort) for cohort in working):
        # After the first sums nobody is asked again: who is given up takes the finer
        # sums of its whole cohort with it (0025).
        return LONGER_PATIENCE
    ready = all(
        # Only at the very first question: later ones have been asked of who is left
        # (0056).
        cohort.asked == 1
        and len(cohort.members) >= MANY
        and len(cohort.answered) >= MOST_OF_THEM * len(cohort.members)
        for cohort in working
    )
    return HASTE if ready else PATIENCE


def waits_for(state: SecureState) -> frozenset[ClientId]:
    """Return who owes a part."""
    working = state.working.values()
    return frozenset(client for cohort in working for client in cohort.owing)


# ------------------------------------------------------------------ answering


def broadcast(state: SecureState) -> Broadcast:
    """Return every member's task; only who still owes a part is wanted.

    A group is given the cohorts at work, and sees itself whom it asks what.
    """
    # A million tasks need not be made one by one: the group knows its members.
    if state.group is not None:
        return Broadcast(state.version, None, frozenset(), group=state.working)
    tasks = {
        client: _task(state, number, cohort, cohort.members.index(client))
        for number, cohort in state.working.items()
        for client in cohort.owing
    }
    return Broadcast(state.version, None, frozenset(tasks), tasks)


def _task(state: SecureState, number: int, cohort: Cohort, place: int) -> Task:
    assert cohort.question is not None
    return Task(
        number,
        cohort.phase,
        cohort.members,
        tuple(state.keys[client] for client in cohort.members),
        place,
        cohort.question,
        # Who encrypts needs the common key; who opens a sum has made it.
        cohort.key if cohort.phase in OPENING else None,
        cohort.total,
        cohort.evidence_for(place),
        proofs=state.proofs_of(cohort.members),
    )


def done(state: SecureState) -> bool:
    """Whether no cohort is at work and none can be formed."""
    # Dirty: a cohort may still be formed from who waits.
    return bool(state.hellos) and not state.dirty and not state.working


def result(state: SecureState) -> Clustering:
    """Return the best level on what is known so far."""
    inner = rebuilt(state).inner
    assert inner is not None
    summed = len(state.spoken)
    # Part of the rows cannot show that there are no clusters (0056).
    partly = summed < state.n_clients
    found = server.result(inner, len(state.answered), state.params.min_cell, partly)
    extra = {**found.extra, "summed": summed}
    note = " ".join(filter(None, (_note(state), found.note)))
    return replace(found, extra=extra, note=note)


def _note(state: SecureState) -> str:
    """Say whose rows are in no sum; only the first message of these counts."""
    n, summed = state.n_clients, len(state.spoken)
    if state.spoilt:
        return (
            f"A sum over {len(state.spoilt)} sites could not be true and was not used: "
            "one of them has told wrong numbers, which one cannot be seen. What rests "
            "on their first messages instead is coarse."
        )
    if summed == n:
        return ""
    if not summed:
        return (
            f"No sum over sites came about: fewer than {state.params.cohort or FEWEST} "
            "of them answered together. The answer rests on the first messages alone, "
            "which are coarse."
        )
    others = f"the other {n - summed}" if n - summed > 1 else "the other one"
    return (
        f"Sums over sites hold the rows of {summed} of {n} sites; of {others} only the "
        "first message counts, which is coarse."
    )


def progress(state: SecureState) -> Diagnostics:
    """Return the default preset's numbers, and how far the cohorts are."""
    assert state.inner is not None
    return {
        **server.progress(state.inner),
        "version": state.version,
        "cohorts": len(state.answered),
    }

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
from afcl.core import rebuild, server
from afcl.core.cells import concatenate, nothing, offsets_of
from afcl.core.cohort_losses import FEWEST as FEWEST
from afcl.core.cohort_losses import forsaken, is_first, without
from afcl.core.cohort_scores import with_scores
from afcl.core.cohort_state import SecureState
from afcl.core.cohort_sums import keep_parts
from afcl.core.condense import condense_cells
from afcl.core.messages import (
    Batch,
    Broadcast,
    Cells,
    Hello,
    Left,
    Level,
    Update,
    refuse_unless,
)
from afcl.core.params import MOST_SEEDS
from afcl.core.protocol import Clustering, Diagnostics, server_rng
from afcl.core.refine import coarse, finer
from afcl.core.state import ServerState
from afcl.core.tasks import (
    COUNT,
    OPENING,
    SCORE,
    Cohort,
    Part,
    Parts,
    Question,
    SecureHello,
    Task,
    check_numbers,
)
from afcl.kernels import assign

#: Seeds on what cohorts have said, in multiples of the default preset's: cells of
#: cohorts are finer than those of hellos.
FINER = 2
#: Most members, where nobody says how many: every two of them share a mask.
MOST_MEMBERS = 256
#: Rounds without any part after which a cohort stops waiting for who is silent: at the
#: first question, when going on without somebody costs nothing,
PATIENCE = 8
#: and later.
LONGER_PATIENCE = 24
#: A cell is new if its squared radius is below this share of its squared distance to
#: what is known.
SMALL_BESIDE = 0.5
#: Purpose of the server's draws.
REFINING = 1


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
    back = replace(
        state,
        left=state.left - {client},
        silent=state.silent - {client},
        dirty=state.dirty or client in state.silent,
    )
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
        cohort is not None and cohort.question is not None,
        f"cohort {part.cohort} is not at work",
    )
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
    if part.tags is not None:
        check_numbers(part.tags, 2, len(cohort.members))
    state = replace(state, left=state.left - {client})
    found = {"accepted": True, "cohort": part.cohort, "phase": part.phase}
    given = Parts(part.cohort, (client,), part.values, part.tags)
    return keep_parts(state, [given]), found


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
    phases = {parts.cohort: state.cohorts[parts.cohort].phase for parts in given}
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
    for number in broken:
        state = without(state, number)
    return state, {"accepted": True}


def end_round(state: SecureState) -> SecureState:
    """Stop waiting for members that are silent for too long; let others begin."""
    working = state.working
    if not working:
        return state
    early = all(is_first(cohort) for cohort in working.values())
    if state.idle < (PATIENCE if early else LONGER_PATIENCE):
        return replace(state, idle=state.idle + 1)
    state = replace(state, silent=state.silent | waits_for(state), idle=0)
    for number in working:
        state = without(state, number)
    return prepare(state)


def waits_for(state: SecureState) -> frozenset[ClientId]:
    """Return who owes a part."""
    working = state.working.values()
    return frozenset(client for cohort in working for client in cohort.owing)


# ------------------------------------------------------------------ heavy work


def prepare(state: SecureState) -> SecureState:
    """Let cohorts begin, refine them, and when all have told their sums, rebuild.

    Then the candidates are scored by the cohorts that may be asked once more.
    """
    if not state.hellos or not state.dirty:
        return state
    if len(state.hellos) != state.basis[1] and not _is_judging(state):
        state = _rebuilt(state)
    state = _opened(forsaken(_refined(state)))
    if not state.working:
        state = _judged(_rebuilt(state))
    return replace(state, dirty=False, version=state.version + 1)


def _is_judging(state: SecureState) -> bool:
    """Whether a cohort is being asked about the candidates, which must not change."""
    working = state.working.values()
    return any(each.question and each.question.kind == SCORE for each in working)


def _opened(state: SecureState) -> SecureState:
    """Form cohorts from who waits, in order of arrival, of as many as can be."""
    waiting = state.present()
    wanted = state.params.cohort
    if len(waiting) < (wanted or FEWEST):
        return state
    inner = _rebuilt(state).inner  # who has come since is in it
    assert inner is not None
    assert inner.seeds is not None
    # Who would be left over, too few for a cohort, joins the others.
    number = len(waiting) // wanted if wanted else -(-len(waiting) // MOST_MEMBERS)
    first = Question(COUNT, (coarse(inner.seeds),))
    begun = {
        state.opened + i: Cohort(members, first, keyed=state.scheme.keyed)
        for i, members in enumerate(_dealt(waiting, number, wanted))
    }
    taken = frozenset(waiting)
    return replace(
        state,
        cohorts={**state.cohorts, **begun},
        opened=state.opened + number,
        waiting=tuple(client for client in state.waiting if client not in taken),
    )


def _dealt(
    waiting: tuple[ClientId, ...], number: int, size: int | None
) -> list[tuple[ClientId, ...]]:
    """Cut a queue into so many pieces: of this size (the last one larger), or equal."""
    n = len(waiting)
    edges = [i * size if size else i * n // number for i in range(number)] + [n]
    return [waiting[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def _refined(state: SecureState) -> SecureState:
    """Ask the cohorts whose coarse sums are known about a finer partition."""
    ready = {
        number: cohort
        for number, cohort in state.cohorts.items()
        if cohort.question is None and len(cohort.partitions) == 1
    }
    every = [cohort.moments for cohort in ready.values() if cohort.moments]
    if not every:
        return state
    n_rows = sum(int(each.counts.sum()) for each in every)
    rng = server_rng(state.seed, REFINING, state.refined)
    found = finer(every, n_rows, rng)
    asked = {
        number: cohort.put(Question(COUNT, (*cohort.partitions, partition)))
        for (number, cohort), partition in zip(ready.items(), found, strict=True)
    }
    cohorts = {**state.cohorts, **asked}
    return replace(state, cohorts=cohorts, refined=state.refined + 1)


def _rebuilt(state: SecureState) -> SecureState:
    """Build the default preset's state on the cohorts' cells and others' hellos."""
    basis = (len(state.answered), len(state.hellos), state.total_rows())
    if basis == state.basis:
        return state
    bags = list(state.answered.values())
    cells = concatenate([nothing(state.n_features, 0), *bags])
    rows = np.array([bag.counts.sum() for bag in bags], dtype=np.int64)
    others, their_rows = state.hellos_of_others()
    cells = concatenate([cells, _unexplained(others, cells)])
    rows = np.concatenate([rows, their_rows])
    params = replace(state.params, min_cell=1)
    if bags:
        seeds = params.n_seeds or FINER * params.seeds_for(state.total_rows())
        params = replace(params, n_seeds=min(MOST_SEEDS, seeds))
    everybody = Batch(np.arange(rows.shape[0]), cells, rows)
    inner, _ = server.absorb_batch(ServerState(params, state.seed), everybody)
    return replace(state, inner=rebuild.prepare(inner), basis=basis, scores={})


def _unexplained(others: Cells, known: Cells) -> Cells:
    """Return hellos' cells without those that reach as far as a known cell.

    Such a cell lies where sums have told of rows already, or mixes some of these (its
    rows are then as far from its mean as the nearest known cell, on average); one of a
    cluster that no sum knows of is small beside its distance to all of them.
    """
    if not len(known) or not len(others):
        return others
    if len(known) * len(others) > rebuild.WORK:
        known = condense_cells(known, rebuild.BULK)
    _, squares = assign(others.means, known.means)
    new = others.scatters / others.counts < SMALL_BESIDE * squares
    assert others.offsets is not None
    sizes = np.add.reduceat(np.append(new, 0), others.offsets[:-1])
    columns = (others.counts[new], others.means[new], others.scatters[new])
    return Cells(*columns, offsets_of(sizes))


def _judged(state: SecureState) -> SecureState:
    """Ask cohorts about the candidates, or take in what all of them have said."""
    if not state.candidates:
        return state
    question = Question(
        SCORE,
        levels=tuple(
            Level(level.centers, level.spreads, level.sizes, level.revision)
            for level in state.candidates
        ),
    )
    away = state.left | state.silent
    asked = {
        number: cohort.put(question)
        for number, cohort in state.cohorts.items()
        if number in state.answered
        and number not in state.scores
        and cohort.asked < state.params.passes
        and away.isdisjoint(cohort.members)
    }
    if asked:
        return replace(state, cohorts={**state.cohorts, **asked})
    return with_scores(state)


# ------------------------------------------------------------------ answering


def broadcast(state: SecureState) -> Broadcast:
    """Return every member's task; only who still owes a part is wanted.

    A group is given the cohorts at work, and sees itself whom it asks what.
    """
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
        cohort.key if cohort.phase in OPENING else None,
        cohort.total,
        cohort.evidence_for(place),
        proofs=state.proofs_of(cohort.members),
    )


def done(state: SecureState) -> bool:
    """Whether no cohort is at work and none can be formed."""
    return bool(state.hellos) and not state.dirty and not state.working


def result(state: SecureState) -> Clustering:
    """Return the best level on what is known so far."""
    inner = _rebuilt(state).inner
    assert inner is not None
    found = server.result(inner, len(state.answered), state.params.min_cell)
    extra = {**found.extra, "summed": len(state.spoken)}
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

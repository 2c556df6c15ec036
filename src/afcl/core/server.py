# SPDX-License-Identifier: Apache-2.0
"""The server of the default preset: what it absorbs (R1, R2, R4) and answers (R7).

`absorb_*` only check and store; everything heavy waits for :func:`rebuild.prepare`.
A batch (the messages of many simulated clients at once) is absorbed by the same rules,
in columns.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import numpy as np

from afcl._typing import AnyArray, ClientId, Floats, Ints
from afcl.core import rebuild
from afcl.core.budget import within_budget
from afcl.core.cell_valleys import carried_over
from afcl.core.cells import exchange, nothing
from afcl.core.checks import check_hello, check_update
from afcl.core.condense import condense_cells
from afcl.core.connected import Connected, connected
from afcl.core.indices import admitted, choose, goodness, is_likeliest
from afcl.core.messages import (
    Batch,
    Broadcast,
    Cells,
    Hello,
    Left,
    LevelReply,
    Update,
    refuse_unless,
)
from afcl.core.protocol import Clustering, Diagnostics, PathLevel, Trust, server_rng
from afcl.core.shapes import SEVERAL, believed, path_of, places_of
from afcl.core.state import ServerState
from afcl.core.trust import judged
from afcl.registry import CONNECTED, CONVEX
from afcl.reliance import path_end_words

#: Bytes by which a hello is known again.
DIGEST = 16
#: Cells that an answer is kept with, at most.
TOLD = 512
#: Purpose of the server's draws.
BELIEVING = 4

# ------------------------------------------------------------------ absorbing


def agreed(state: ServerState, n_features: int, bounded: bool) -> ServerState:
    """Return the state that knows the agreement, before any message."""
    return replace(state, n_features=n_features, bounded=bounded)


def announced(
    state: ServerState, client: ClientId, low: Floats, high: Floats
) -> ServerState:
    """Return the state that knows a client's extremes, in agreed units."""
    return replace(state, extremes=state.extremes.set(client, (low, high)))


def absorb_hello(state: ServerState, hello: Hello) -> tuple[ServerState, Diagnostics]:
    """R1: remember a new client's cells; an equal repetition changes nothing."""
    width = check_hello(state, hello)
    client, cells = hello.client, hello.payload
    known = digest(hello)
    if state.hellos.get(client) == known:
        if client in state.left:
            state = replace(state, left=state.left_without(client))
        return state, {"accepted": True, "repeated": True, "cells": len(cells)}
    refuse_unless(
        client not in state.pooled.clients,
        f"client {client} came back with other rows, and its first are condensed",
    )
    before = len(state.memory[client]) if client in state.memory else 0
    state = replace(
        state,
        n_features=width,
        hellos=state.hellos.set(client, known),
        memory=state.memory.set(client, cells),
        rows=state.rows.set(client, hello.n_rows),
        contacts=state.contacts.set(client, state.contacts.get(client, 0) + 1),
        left=state.left_without(client),
        held=state.held + len(cells) - before,
        need_seed=True,
        dirty=True,
    )
    found = {"accepted": True, "repeated": False, "cells": len(cells)}
    return within_budget(state), found


def digest(hello: Hello) -> bytes:
    """Return what tells a hello from every other one."""
    cells: Cells = hello.payload
    hashed = blake2b(hello.n_rows.to_bytes(8, "little"), digest_size=DIGEST)
    for part in (cells.counts, cells.means, cells.scatters):
        hashed.update(part.tobytes())
    return hashed.digest()


def absorb_update(
    state: ServerState, update: Update
) -> tuple[ServerState, Diagnostics]:
    """R4, the cheap part: never exchange a finer memory for a coarser one.

    What was condensed is exchanged for nothing.
    """
    check_update(state, update)
    client, summary = update.client, update.payload
    current = update.version == state.version and not state.dirty
    old = state.memory.get(client)
    finer = old is not None and len(summary.cells) >= len(old)
    memory, held = state.memory, state.held
    if old is not None and finer:
        memory = memory.set(client, summary.cells)
        held += len(summary.cells) - len(old)
    answers, replies = state.answers, state.replies
    if current:
        answers = answers.set(client, answers.get(client, 0) + 1)
    if current and client not in state.pooled.replied:
        held -= sum(len(level.cells) for level in replies.get(client, ()))
        held += sum(len(level.cells) for level in summary.levels)
        replies = replies.set(client, summary.levels)
    state = replace(
        state,
        memory=memory,
        replies=replies,
        answers=answers,
        held=held,
        contacts=state.contacts.set(client, state.contacts[client] + 1),
        left=state.left_without(client),
        moved=state.moved or finer,
        stale=state.stale or current,
    )
    return within_budget(state), {
        "accepted": True,
        "finer": finer,
        "current": current,
        "cells": len(summary.cells),
    }


def absorb_left(state: ServerState, left: Left) -> tuple[ServerState, Diagnostics]:
    """Note that a client is gone; its memory stays."""
    return replace(state, left=state.left | {left.client}), {"accepted": True}


# ------------------------------------------------------------------ absorbing many


def absorb_batch(state: ServerState, batch: Batch) -> tuple[ServerState, Diagnostics]:
    """Absorb what many clients of a group say, as if each had spoken in its turn.

    The diagnostics are columns. A group is not subject to `max_cells`.
    """
    if batch.rows is not None:
        return _absorb_hellos(state, batch, batch.rows)
    return _absorb_updates(state, batch)


def _absorb_hellos(
    state: ServerState, batch: Batch, rows: Ints
) -> tuple[ServerState, Diagnostics]:
    """R1 for all clients of a group, which say hello together."""
    cells: Cells = batch.payload
    absorbed = replace(
        state,
        n_features=cells.means.shape[1],
        memory=state.memory.set(batch.first, cells),
        rows=state.rows.set(batch.first, rows),
        contacts=state.contacts.set(batch.first, np.ones_like(rows)),
        need_seed=True,
        dirty=True,
    )
    return absorbed, {"accepted": True, "repeated": False, "cells": cells.sizes}


def _absorb_updates(
    state: ServerState, batch: Batch
) -> tuple[ServerState, Diagnostics]:
    """R4, the cheap part, for answers to the newest version."""
    group, summary = batch.first, batch.payload
    old, places = state.memory[group], batch.clients - batch.first
    finer = summary.cells.sizes >= old.sizes[places]
    where = np.full(old.sizes.shape[0], -1, dtype=np.int64)
    where[places[finer]] = np.flatnonzero(finer)
    spoke = np.zeros_like(where)
    spoke[places] = 1
    absorbed = replace(
        state,
        memory=state.memory.set(group, exchange(old, summary.cells, where)),
        replies=state.replies.set(group, _renewed(state, batch)),
        answers=state.answers.set(group, state.answers.get(group, 0) + spoke),
        contacts=state.contacts.set(group, state.contacts[group] + spoke),
        moved=state.moved or bool(finer.any()),
        stale=True,
    )
    return absorbed, {
        "accepted": True,
        "finer": finer,
        "current": True,
        "cells": summary.cells.sizes,
    }


def _renewed(state: ServerState, batch: Batch) -> tuple[LevelReply, ...]:
    """Return a group's replies about every candidate, the newest of each client."""
    levels: tuple[LevelReply, ...] = batch.payload.levels
    n = state.memory[batch.first].sizes.shape[0]
    known = state.replies.get(batch.first)
    if known is None:
        none = nothing(state.n_features, n)
        known = tuple(
            LevelReply(
                none,
                none.counts,
                np.zeros((n, 2)),
                np.zeros((n, *level.valleys.shape[1:]), level.valleys.dtype),
                level.revision,
            )
            for level in levels
        )
    places = batch.clients - batch.first
    where = np.full(n, -1, dtype=np.int64)
    where[places] = np.arange(places.shape[0])
    renewed = []
    for old, new in zip(known, levels, strict=True):
        sums = old.sums.copy()
        sums[places] = new.sums
        cells = exchange(old.cells, new.cells, where)
        valleys = _renewed_valleys(old.valleys, new.valleys, places)
        renewed.append(LevelReply(cells, new.owners, sums, valleys, new.revision))
    return tuple(renewed)


def _renewed_valleys(old: AnyArray, new: AnyArray, places: Ints) -> AnyArray:
    """Return a group's counts; zeros, which nobody reads, if a centre was lost."""
    valleys = np.zeros((old.shape[0], *new.shape[1:]), new.dtype)
    if old.shape == valleys.shape:
        valleys[:] = old
    valleys[places] = new
    return valleys


# ------------------------------------------------------------------ answering


def end_round(state: ServerState) -> ServerState:
    """Return the state as it is: rounds mean nothing to this server."""
    return state


def waits_for(state: ServerState) -> frozenset[ClientId]:
    """Return nobody: every answer helps, none is needed."""
    return frozenset()


def prepare(state: ServerState) -> ServerState:
    """Do the heavy work that was put off.

    Candidates of a new build that nobody will be asked about keep the valleys that rows
    have shown between the same clusters before.
    """
    ready = rebuild.prepare(state)
    if ready.version == state.version or not done(ready):
        return ready
    candidates = carried_over(ready.candidates, _counted(state))
    return replace(ready, candidates=candidates)


def _counted(state: ServerState) -> tuple[PathLevel, ...]:
    """Return the candidates with the valleys that were replied last, if any were.

    A build forgets replies, also those that have come since the last one.
    """
    replied = [
        state.replied_valleys(position, level.k)
        for position, level in enumerate(state.candidates)
    ]
    return tuple(
        replace(level, valleys=valleys) if len(valleys) else level
        for level, valleys in zip(state.candidates, replied, strict=True)
    )


def broadcast(state: ServerState) -> Broadcast:
    """Return seeds and candidates, for the clients whose answer would still help."""
    wanted, group = set(), None
    for client in state.active():
        asked = state.wanted(client)
        if not isinstance(asked, bool):
            group = client + np.flatnonzero(asked)
        elif asked:
            wanted.add(client)
    return Broadcast(state.version, state.sent[-1], frozenset(wanted), group=group)


def done(state: ServerState) -> bool:
    """Whether every active client has said what it can."""
    return state.prepared and all(state.satisfied(c) for c in state.active())


def chosen(state: ServerState) -> PathLevel:
    """Rule 3.5 over the candidates; the only level there is when there are none."""
    if not state.candidates:
        return state.levels[0]
    levels, params = admitted(state.candidates, state.most), state.params
    return levels[choose(levels, params.criterion, params.band, state.most)]


def result(
    state: ServerState,
    summed: int = 0,
    smallest: int | None = None,
    partly: bool = False,
) -> Clustering:
    """R7: the answer so far and the path, candidates with their newest figures.

    The first `summed` of the clients are not one site each but sums over several;
    `smallest` is the smallest cell, if the parameters' is another one; `partly`:
    of some sites there should be sums, and are none.
    """
    candidates = admitted(state.candidates, state.most)
    state = replace(state, candidates=candidates)
    best = chosen(state)
    path = {level.k: level for level in state.levels}
    for i in np.argsort(goodness(state.candidates, "silhouette"), kind="stable"):
        path[state.candidates[i].k] = state.candidates[i]
    path[best.k] = best
    levels = [path[k] for k in sorted(path)]
    level, trust = judged(state, best, levels, partly)
    if state.params.shape != CONVEX:
        rng = server_rng(state.seed, BELIEVING, 0)
        steady = float(np.mean(trust.stabilities))
        likeliest = level is not None and is_likeliest(level, candidates)
        bag, params = state.bag(), state.params
        found = connected(bag, level, params, rng, steady, likeliest)
        if found is not None:
            rng = server_rng(state.seed, BELIEVING, 0)
            again = believed(trust, found, params, rng)
            # What no resample gives is no answer where there is another one (0026).
            if level is None or again.confidence or params.shape == CONNECTED:
                return _connected(state, found, again, summed, smallest)
    level = level or rebuild.one_cluster(state.bag())
    order = np.argsort(-level.sizes, kind="stable")
    stabilities = tuple(trust.stabilities[i] for i in order)
    answer = _ordered(level)
    return Clustering(
        answer.centers,
        answer.sizes,
        answer.scores,
        tuple(_ordered(level) for level in levels),
        state.seeds,
        state.merges,
        _condensed(state),
        _note(state, level.k),
        replace(trust, stabilities=stabilities),
        condense_cells(state.bag(), TOLD),
    )


def _connected(
    state: ServerState,
    found: Connected,
    trust: Trust,
    summed: int,
    smallest: int | None,
) -> Clustering:
    """Return the answer whose clusters need not be round."""
    params, bag, owners = state.params, state.bag(), state.owners()
    assert state.seeds is not None
    owners[(owners >= 0) & (owners < summed)] = SEVERAL
    least = params.min_cell if smallest is None else smallest
    path = path_of(found)
    k = int(found.labels.max()) + 1
    answer = next(level for level in path if level.k == k)
    # Rows that no cell tells of are taken to be like the others.
    sizes = answer.sizes * (state.total_rows() / answer.sizes.sum())
    return Clustering(
        answer.centers,
        sizes,
        answer.scores,
        path,
        state.seeds,
        found.merges,
        _condensed(state),
        "",
        trust,
        condense_cells(bag, TOLD),
        found,
        places_of(bag, owners, found, state.seeds, least),
    )


def _note(state: ServerState, k: int) -> str:
    """Say if the path ended at the answer although there were more seeds."""
    if k < max(2, state.most) or k > len(state.merges):
        return ""
    return path_end_words(k)


def _ordered(level: PathLevel) -> PathLevel:
    """Return what is told of a level: clusters by size, largest first; no scatters."""
    order = np.argsort(-level.sizes, kind="stable")
    return PathLevel(
        level.k, level.centers[order], level.sizes[order], dict(level.scores)
    )


def progress(state: ServerState) -> Diagnostics:
    """Return k so far, its moment silhouette, the seeds and how far they moved.

    `path` has every k with its silhouette, `centers` and `sizes` the clusters so far.
    `condensed` is there once cells were: the number of clients whose they were.
    """
    best = chosen(state)
    return {
        "k": best.k,
        "objective": best.scores["silhouette"],
        "version": state.version,
        "movement": state.movement,
        "candidates": [level.k for level in state.candidates],
        "seeds": state.seeds,
        "path": [[level.k, level.scores["silhouette"]] for level in state.levels],
        "centers": best.centers,
        "sizes": np.rint(best.sizes).astype(np.int64),
        **_condensed(state),
    }


def _condensed(state: ServerState) -> Diagnostics:
    """Say how many clients' cells were condensed, if any were."""
    number = len(state.pooled.clients)
    return {"condensed": number} if number else {}

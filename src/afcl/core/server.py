# SPDX-License-Identifier: Apache-2.0
"""The server of the default preset: what it absorbs (R1, R2, R4) and answers (R7).

`absorb_*` only check and store; everything heavy waits for :func:`rebuild.prepare`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afcl.core.checks import check_hello, check_update
from afcl.core.indices import choose, goodness
from afcl.core.messages import Broadcast, Cells, Hello, Left, Update
from afcl.core.path import Built
from afcl.core.protocol import Clustering, Diagnostics, PathLevel
from afcl.core.state import ServerState

# ------------------------------------------------------------------ absorbing


def absorb_hello(state: ServerState, hello: Hello) -> tuple[ServerState, Diagnostics]:
    """R1: remember a new client's cells; an equal repetition changes nothing."""
    width = check_hello(state, hello)
    cells: Cells = hello.payload
    known = state.hellos.get(hello.client)
    if (
        known is not None
        and state.rows[hello.client] == hello.n_rows
        and _equal(known, cells)
    ):
        back = replace(state, left=state.left - {hello.client})
        same = state if back.left == state.left else back
        return same, {"accepted": True, "repeated": True, "cells": len(cells)}
    return (
        replace(
            state,
            n_features=width,
            hellos={**state.hellos, hello.client: cells},
            memory={**state.memory, hello.client: cells},
            rows={**state.rows, hello.client: hello.n_rows},
            contacts={
                **state.contacts,
                hello.client: state.contacts.get(hello.client, 0) + 1,
            },
            left=state.left - {hello.client},
            need_seed=True,
            dirty=True,
        ),
        {"accepted": True, "repeated": False, "cells": len(cells)},
    )


def absorb_update(
    state: ServerState, update: Update
) -> tuple[ServerState, Diagnostics]:
    """R4, the cheap part: never exchange a finer memory for a coarser one."""
    check_update(state, update)
    client, summary = update.client, update.payload
    current = update.version == state.version and not state.dirty
    finer = len(summary.cells) >= len(state.memory[client])
    if finer:
        state = replace(
            state, memory={**state.memory, client: summary.cells}, moved=True
        )
    if current:
        state = replace(
            state,
            replies={**state.replies, client: summary.levels},
            answers={**state.answers, client: state.answers.get(client, 0) + 1},
            stale=True,
        )
    state = replace(
        state,
        contacts={**state.contacts, client: state.contacts[client] + 1},
        left=state.left - {client},
    )
    return state, {
        "accepted": True,
        "finer": finer,
        "current": current,
        "cells": len(summary.cells),
    }


def absorb_left(state: ServerState, left: Left) -> tuple[ServerState, Diagnostics]:
    """Note that a client is gone; its memory stays."""
    return replace(state, left=state.left | {left.client}), {"accepted": True}


def _equal(a: Cells, b: Cells) -> bool:
    return (
        np.array_equal(a.counts, b.counts)
        and np.array_equal(a.means, b.means)
        and np.array_equal(a.scatters, b.scatters)
    )


# ------------------------------------------------------------------ answering


def broadcast(state: ServerState) -> Broadcast:
    """Return seeds and candidates, for the clients whose answer would still help."""
    wanted = frozenset(c for c in state.active() if not state.satisfied(c))
    return Broadcast(state.version, state.sent[-1], wanted)


def done(state: ServerState) -> bool:
    """Whether every active client has said what it can."""
    return state.prepared and all(state.satisfied(c) for c in state.active())


def chosen(state: ServerState) -> Built:
    """Rule 3.5 over the candidates; the only level there is when there are none."""
    if not state.candidates:
        return state.levels[0]
    table = [(c.level.k, c.level.scores) for c in state.candidates]
    params = state.params
    return state.candidates[choose(table, params.criterion, params.band)].level


def result(state: ServerState) -> Clustering:
    """R7: the answer so far and the path, candidates with their newest figures."""
    best = chosen(state)
    path = {level.k: level for level in state.levels}
    table = [(c.level.k, c.level.scores) for c in state.candidates]
    for i in np.argsort(goodness(table, "silhouette"), kind="stable"):
        path[state.candidates[i].level.k] = state.candidates[i].level
    path[best.k] = best
    answer = _ordered(best)
    return Clustering(
        answer.centers,
        answer.sizes,
        answer.scores,
        tuple(_ordered(path[k]) for k in sorted(path)),
        state.seeds,
        state.merges,
    )


def _ordered(level: Built) -> PathLevel:
    """Clusters by size, largest first."""
    order = np.argsort(-level.counts, kind="stable")
    return PathLevel(
        level.k, level.centers[order], level.counts[order], dict(level.scores)
    )


def progress(state: ServerState) -> Diagnostics:
    """Return k so far, its moment silhouette, the seeds and how far they moved."""
    best = chosen(state)
    return {
        "k": best.k,
        "objective": best.scores["silhouette"],
        "version": state.version,
        "movement": state.movement,
        "candidates": [c.level.k for c in state.candidates],
        "seeds": state.seeds,
    }

# SPDX-License-Identifier: Apache-2.0
"""The server of the default preset: remember, merge along a path, choose k.

The rules R1 to R7 in order. `absorb_*` only check and store; everything heavy happens
in :func:`prepare`, once for all messages since the last time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core.cells import pool, union
from afcl.core.indices import choose, goodness
from afcl.core.messages import (
    Broadcast,
    Cells,
    Hello,
    Left,
    Level,
    LevelReply,
    Plan,
    Summary,
    Update,
    check_cells,
    refuse_unless,
)
from afcl.core.params import DefaultParams
from afcl.core.path import (
    Built,
    build_path,
    polish,
    summary_scores,
    summary_silhouettes,
    ward,
)
from afcl.core.protocol import (
    Clustering,
    Diagnostics,
    Merge,
    PathLevel,
    Scores,
    server_rng,
)
from afcl.core.seeding import distinct, weighted_kmeans
from afcl.kernels import assign, lloyd

#: Restarts of the weighted k-means that places the seeds.
RESTARTS = 3
#: Lloyd iterations after a reply changed the memory.
REFINE = 10
#: Answers to one version after which a client has nothing to add.
ANSWERS = 2
#: Purpose of the server's draws.
SEEDING = 0

#: The index names in the order they are shown.
INDICES = ("silhouette", "simplified", "ch", "db", "bic")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A level the clients are asked about; `revision` counts its polishings."""

    level: Built
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ServerState:
    """Everything the server knows: one bag of cells per client, seeds, path."""

    params: DefaultParams
    seed: int
    n_features: int = -1
    hellos: dict[ClientId, Cells] = field(default_factory=dict)
    memory: dict[ClientId, Cells] = field(default_factory=dict)
    rows: dict[ClientId, int] = field(default_factory=dict)
    contacts: dict[ClientId, int] = field(default_factory=dict)
    left: frozenset[ClientId] = frozenset()
    answers: dict[ClientId, int] = field(default_factory=dict)
    replies: dict[ClientId, tuple[LevelReply, ...]] = field(default_factory=dict)
    seeds: Floats | None = None
    built_from: Floats | None = None
    movement: float = 0.0
    version: int = 0
    seedings: int = 0
    need_seed: bool = False
    moved: bool = False
    dirty: bool = False
    stale: bool = False
    levels: tuple[Built, ...] = ()
    merges: tuple[Merge, ...] = ()
    candidates: tuple[Candidate, ...] = ()

    @property
    def prepared(self) -> bool:
        """Whether no heavy work is waiting."""
        waiting = self.need_seed or self.moved or self.dirty or self.stale
        return self.version > 0 and not waiting

    def bag(self) -> Cells:
        """R2: the union of all memories, by client id, then cell."""
        return union(self.memory[client] for client in sorted(self.memory))

    def active(self) -> list[ClientId]:
        """Clients that said hello and have not left."""
        return [client for client in sorted(self.memory) if client not in self.left]

    def satisfied(self, client: ClientId) -> bool:
        """Whether nothing more is wanted from this client for now."""
        return (
            self.answers.get(client, 0) >= ANSWERS
            or self.contacts[client] >= self.params.contacts
        )


# ------------------------------------------------------------------ absorbing


def absorb_hello(state: ServerState, hello: Hello) -> tuple[ServerState, Diagnostics]:
    """R1: remember a new client's cells; an equal repetition changes nothing."""
    cells = hello.payload
    refuse_unless(isinstance(cells, Cells), "a hello must carry cells")
    expected = _width(cells) if state.n_features < 0 else state.n_features
    refuse_unless(expected >= 1, "the means of cells must have features")
    refuse_unless(
        isinstance(hello.n_rows, int) and hello.n_rows >= 1,
        "a client must register at least one row",
    )
    check_cells(cells, expected, hello.n_rows, state.params.min_cell)
    known = state.hellos.get(hello.client)
    if (
        known is not None
        and state.rows[hello.client] == hello.n_rows
        and _equal(known, cells)
    ):
        return state, {"accepted": True, "repeated": True, "cells": len(cells)}
    return (
        replace(
            state,
            n_features=expected,
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
    client = update.client
    refuse_unless(client in state.memory, f"client {client} has not said hello")
    current = update.version == state.version and not state.dirty
    _check_summary(state, update.payload, state.rows[client], current)
    summary: Summary = update.payload
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


def _check_summary(
    state: ServerState, summary: object, n_rows: int, current: bool
) -> None:
    refuse_unless(isinstance(summary, Summary), "an update must carry a summary")
    assert isinstance(summary, Summary)
    check_cells(summary.cells, state.n_features, n_rows, state.params.min_cell)
    refuse_unless(isinstance(summary.levels, tuple), "expected a tuple of levels")
    refuse_unless(
        not current or len(summary.levels) == len(state.candidates),
        f"expected {len(state.candidates)} candidate levels, got {len(summary.levels)}",
    )
    for level in summary.levels:
        refuse_unless(isinstance(level, LevelReply), "expected a reply per level")
        check_cells(level.cells, state.n_features, n_rows, state.params.min_cell)
        for total in (level.simplified, level.moment):
            refuse_unless(
                isinstance(total, float) and abs(total) <= n_rows * (1 + 1e-9),
                "a sum of silhouettes lies outside [-n, n]",
            )


def _width(cells: Cells) -> int:
    """Return the number of features the first hello brings, -1 if it has none."""
    means = cells.means
    return means.shape[1] if isinstance(means, np.ndarray) and means.ndim == 2 else -1


def _equal(a: Cells, b: Cells) -> bool:
    return (
        np.array_equal(a.counts, b.counts)
        and np.array_equal(a.means, b.means)
        and np.array_equal(a.scatters, b.scatters)
    )


# ------------------------------------------------------------------ preparing


def prepare(state: ServerState) -> ServerState:
    """R3 to R6 for whatever was absorbed since the last time."""
    if not state.memory or state.prepared:
        return state
    bag = state.bag()
    if state.need_seed:
        state = _reseed(state, bag)
    elif state.moved:
        state = _refine(state, bag)
    if state.dirty:
        state = _build(state, bag)
    elif state.stale:
        state = _update_candidates(state)
    return replace(state, need_seed=False, moved=False, dirty=False, stale=False)


def _reseed(state: ServerState, bag: Cells) -> ServerState:
    """R3: weighted k-means on the bag, several starts, the lowest SSE."""
    n = int(bag.counts.sum())
    k = min(state.params.seeds_for(n), distinct(bag.means))
    start = state.seeds
    if start is not None and start.shape[0] != k:
        start = None
    rng = server_rng(state.seed, SEEDING, state.seedings)
    weights = bag.counts.astype(np.float64)
    seeds = weighted_kmeans(bag.means, weights, k, rng, RESTARTS, start)
    return replace(state, seeds=seeds, seedings=state.seedings + 1, dirty=True)


def _refine(state: ServerState, bag: Cells) -> ServerState:
    """R4, the heavy part: move the seeds on the new bag and measure the drift."""
    assert state.seeds is not None
    assert state.built_from is not None
    weights = bag.counts.astype(np.float64)
    seeds, labels = lloyd(bag.means, weights, state.seeds, REFINE)
    empty = np.setdiff1d(np.arange(seeds.shape[0]), labels)
    if empty.size:
        far = weights * assign(bag.means, seeds)[1]
        seeds[empty] = bag.means[np.argsort(-far, kind="stable")[: empty.size]]
        seeds, labels = lloyd(bag.means, weights, seeds, REFINE)
    counts, _, scatters = pool(bag, labels, seeds.shape[0])
    shift = float((counts * ((seeds - state.built_from) ** 2).sum(axis=1)).sum())
    within = float(scatters.sum())
    drifted = shift > state.params.drift * within
    movement = shift / within if within > 0 else 0.0
    return replace(state, seeds=seeds, movement=movement, dirty=state.dirty or drifted)


def _build(state: ServerState, bag: Cells) -> ServerState:
    """R5: Ward path on the seeds, every level polished and scored, candidates kept."""
    assert state.seeds is not None
    labels, _ = assign(bag.means, state.seeds)
    used, labels = np.unique(labels, return_inverse=True)
    counts, means, scatters = pool(bag, labels.astype(np.int64), used.shape[0])
    seeds = Cells(counts.astype(np.int64), means, scatters)
    merges = ward(counts, means)
    n = int(bag.counts.sum())
    kmax = state.params.clusters_for(n, len(seeds))
    levels = build_path(bag, seeds, merges, kmax)
    return replace(
        state,
        built_from=state.seeds,
        movement=0.0,
        version=state.version + 1,
        levels=levels or (_one_cluster(bag),),
        merges=merges,
        candidates=_candidates(levels, state.params),
        replies={},
        answers={},
    )


def _one_cluster(bag: Cells) -> Built:
    """Return the level k = 1: no index is defined."""
    labels = np.zeros(len(bag), dtype=np.int64)
    counts, means, scatters = pool(bag, labels, 1)
    return Built(means, counts, scatters, dict.fromkeys(INDICES))


def _candidates(
    levels: tuple[Built, ...], params: DefaultParams
) -> tuple[Candidate, ...]:
    """Levels worth the clients' time: near the best, plus the one the rule picks."""
    if not levels:
        return ()
    table = [(level.k, level.scores) for level in levels]
    good = goodness(table, params.criterion)
    order = np.lexsort((np.arange(len(levels)), -good))[: params.candidates]
    near = goodness(table, "silhouette")
    kept = set(order.tolist())
    if params.criterion in ("auto", "silhouette"):
        kept = {i for i in kept if near[i] >= near.max() - params.prune}
    kept.add(choose(table, params.criterion, params.band))
    return tuple(Candidate(levels[i]) for i in sorted(kept))


def _update_candidates(state: ServerState) -> ServerState:
    """R6: polish every candidate on the replies, and the memory of who is silent."""
    polished = []
    for position, candidate in enumerate(state.candidates):
        bag = union(
            state.replies[client][position].cells
            if client in state.replies
            else state.memory[client]
            for client in sorted(state.memory)
        )
        counts, centers, scatters = polish(bag, candidate.level.centers)
        if counts.shape[0] < 2:
            polished.append(candidate)
            continue
        level = Built(centers, counts, scatters, {})
        polished.append(
            Candidate(
                replace(level, scores=_federated_scores(state, position, level)),
                candidate.revision + 1,
            )
        )
    return replace(state, candidates=tuple(polished))


def _federated_scores(state: ServerState, position: int, level: Built) -> Scores:
    """R7: replied sums where there are any, the server's own view elsewhere."""
    simplified = moment = 0.0
    silent = []
    for client in sorted(state.memory):
        if client in state.replies:
            simplified += state.replies[client][position].simplified
            moment += state.replies[client][position].moment
        else:
            silent.append(state.memory[client])
    if silent:
        bag = union(silent)
        cell_simplified, cell_moment = summary_silhouettes(bag, level)
        simplified += float((bag.counts * cell_simplified).sum())
        moment += float((bag.counts * cell_moment).sum())
    n = sum(state.rows.values())
    scores: Scores = {"silhouette": moment / n, "simplified": simplified / n}
    return {**scores, **summary_scores(level)}


# ------------------------------------------------------------------ answering


def broadcast(state: ServerState) -> Broadcast:
    """Return seeds and candidates, for the clients whose answer would still help."""
    assert state.seeds is not None
    plan = Plan(
        state.seeds,
        tuple(
            Level(c.level.centers, c.level.spreads, c.level.counts, c.revision)
            for c in state.candidates
        ),
    )
    wanted = frozenset(c for c in state.active() if not state.satisfied(c))
    return Broadcast(state.version, plan, wanted)


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

# SPDX-License-Identifier: Apache-2.0
"""Where the server of DK++ stands and what follows from answers; see :mod:`.dkpp`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import Update
from afcl.core.protocol import server_rng
from afcl.core.seeding import distinct, plus_plus, weighted_kmeans
from afcl.kernels import assign, sums
from afcl.methods.rival import RivalState
from afcl_bench.methods.dkpp_messages import (
    COVER,
    LLOYD,
    SAMPLE,
    DkppCover,
    DkppSample,
    DkppSums,
)

# Purposes of the server's draws.
FIRST = 0
START = 1

#: One client's count (k,) and sum (k, d) around every centre.
Part: TypeAlias = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class DkppModel:
    """Where the server stands.

    Attributes
    ----------
    phase, stage
        The question; `stage` grows whenever it changes (in `lloyd`: when the centres
        move by more than the tolerance), `answered` says who has answered it.
    centers, sizes
        The answer so far.
    candidates, owners, found, draws, potential
        Candidates and who sent each, what was sampled since they were last broadcast,
        rounds of sampling, and phi when the last of them began.
    costs, counts
        Last cost of every client; rows around the candidates where they were counted.
    quiet
        Rounds since the last answer to the question.
    start, since, parts
        Where Lloyd started, at which stage, and every client's last sums.
    """

    centers: Floats
    sizes: Floats
    candidates: Floats
    owners: Ints
    found: tuple[tuple[ClientId, Floats], ...] = ()
    phase: str = COVER
    stage: int = 0
    answered: frozenset[ClientId] = frozenset()
    quiet: int = 0
    draws: int = 0
    potential: float = 0.0
    costs: dict[ClientId, float] = field(default_factory=dict)
    counts: dict[ClientId, Ints] = field(default_factory=dict)
    start: Floats | None = None
    since: int = 0
    parts: dict[ClientId, Part] = field(default_factory=dict)
    movement: float = 0.0

    def ask(self, phase: str, **changes: Any) -> DkppModel:
        """Return the model with another question."""
        return replace(
            self,
            phase=phase,
            stage=self.stage + 1,
            answered=frozenset(),
            quiet=0,
            counts={},
            **changes,
        )


def hello_rows(state: RivalState) -> tuple[Floats, Floats]:
    """Return the rows of the hellos and how many each stands for, clients by id."""
    clients = sorted(state.hellos)
    rows = np.concatenate([state.hellos[client].points for client in clients])
    return rows, np.array([state.rows[client] for client in clients], dtype=float)


def provisional(state: RivalState) -> tuple[Floats, Floats]:
    """Return centres and sizes from the hellos alone."""
    rows, mass = hello_rows(state)
    rng = server_rng(state.seed, FIRST, 1)
    centers = rows[plus_plus(rows, state.params.k, rng, mass)]
    labels, _ = assign(rows, centers)
    sizes = np.bincount(labels, mass, minlength=centers.shape[0])
    return centers, sizes.astype(np.float64)


def _potential(state: RivalState, model: DkppModel) -> float:
    """Return phi, as far as active clients have told."""
    return sum(model.costs.get(client, 0.0) for client in state.active())


def expected(state: RivalState, model: DkppModel) -> frozenset[ClientId]:
    """Return whose answers the question waits for.

    Rows are sampled by those whose cost is part of phi, others would send too many.
    """
    active = frozenset(state.active())
    if model.phase == SAMPLE:
        return active & model.costs.keys() or active
    return active


def counting(state: RivalState, model: DkppModel) -> bool:
    """Whether the question asks for counts."""
    return model.phase == COVER and model.draws >= int(state.params.sampling_rounds)


def counted(state: RivalState, model: DkppModel) -> int:
    """Return how many counts the present cover asks for."""
    return model.candidates.shape[0] if counting(state, model) else 0


def noted(model: DkppModel, update: Update) -> DkppModel:
    """Take down one answer, a late one as far as it is of use."""
    reply, client = update.payload, update.client
    current = reply.stage == model.stage
    if current:
        model = replace(model, answered=model.answered | {client})
    if isinstance(reply, DkppSample):
        return replace(model, found=(*model.found, (client, reply.points)))
    if isinstance(reply, DkppCover):
        counts = {**model.counts, client: reply.counts} if current else model.counts
        return replace(model, costs={**model.costs, client: reply.cost}, counts=counts)
    if reply.stage < model.since:
        return model
    part = (reply.counts.astype(np.float64), reply.sums)
    return replace(model, parts={**model.parts, client: part})


def following(model: DkppModel, state: RivalState) -> DkppModel:
    """Return the model with the question that follows."""
    rounds = state.params.sampling_rounds
    if model.phase == SAMPLE:
        return _grown(model)
    phi = _potential(state, model)
    few = distinct(model.candidates) < state.params.k
    if not counting(state, model):
        if phi > 0:
            return model.ask(SAMPLE, potential=phi)
        return model.ask(COVER, draws=rounds)
    if few and phi > 0 and model.draws < 2 * rounds:
        return model.ask(SAMPLE, potential=phi)
    return _started(model, state)


def _grown(model: DkppModel) -> DkppModel:
    """Add what was sampled to the candidates."""
    points = [points for _, points in model.found]
    owners = [np.full(len(points), client) for client, points in model.found]
    return model.ask(
        COVER,
        candidates=np.concatenate([model.candidates, *points]),
        owners=np.concatenate([model.owners, *owners]),
        found=(),
        draws=model.draws + 1,
    )


def _all_counts(model: DkppModel, state: RivalState) -> dict[ClientId, Floats]:
    """Return everybody's counts; an absent client's rows go to what it sampled."""
    counts = {client: counted.astype(float) for client, counted in model.counts.items()}
    for client in set(model.owners.tolist()) - counts.keys():
        own = model.owners == client
        counts[client] = state.rows[client] * own / own.sum()
    return counts


def _started(model: DkppModel, state: RivalState) -> DkppModel:
    """Cluster the weighted candidates; they stand in for clients yet to answer."""
    counts = _all_counts(model, state)
    weights = np.sum([counts[client] for client in sorted(counts)], axis=0)
    used = weights > 0
    points, params = model.candidates[used], state.params
    rng = server_rng(state.seed, START, model.stage)
    centers = weighted_kmeans(points, weights[used], params.k, rng, params.restarts)
    labels, _ = assign(points, centers)
    parts = {
        client: sums(points, counts[client][used], labels, centers.shape[0])
        for client in sorted(counts)
    }
    return model.ask(
        LLOYD,
        centers=centers,
        sizes=_pooled(parts)[0],
        start=centers,
        since=model.stage + 1,
        parts=parts,
        movement=0.0,
    )


def _pooled(parts: dict[ClientId, Part]) -> Part:
    """Add up counts and sums, clients by id."""
    every = [parts[client] for client in sorted(parts)]
    return np.sum([p[0] for p in every], axis=0), np.sum([p[1] for p in every], axis=0)


def moved(model: DkppModel, state: RivalState) -> DkppModel:
    """Do one Lloyd step; a centre without rows stays."""
    parts = model.parts
    if state.params.aggregation == "present":
        present = {u.client for u in state.pending if isinstance(u.payload, DkppSums)}
        parts = {client: parts[client] for client in parts if client in present}
    centers = model.centers.copy()
    if parts:
        counts, total = _pooled(parts)
        held = counts > 0
        centers[held] = total[held] / counts[held, None]
    movement = float(np.linalg.norm(centers - model.centers))
    model = replace(
        model, centers=centers, sizes=_pooled(model.parts)[0], movement=movement
    )
    return model.ask(LLOYD) if movement > state.params.tolerance else model

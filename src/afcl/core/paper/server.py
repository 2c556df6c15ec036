# SPDX-License-Identifier: Apache-2.0
"""The server of `paper` and `matlab`: what it checks and stores, rounds, the answer.

How seeds move in a round is what the two presets differ in; they say so themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core.indices import INDICES
from afcl.core.messages import (
    Hello,
    Intensities,
    Positions,
    Update,
    check_answer,
    check_cells,
    refuse_unless,
)
from afcl.core.paper.balance import Contribution
from afcl.core.paper.pulls import Pulls, check_pulls
from afcl.core.params import PaperParams
from afcl.core.protocol import Clustering, Diagnostics, PathLevel, Scores, server_rng
from afcl.core.seeding import merge_coincident, plus_plus
from afcl.kernels import assign, sums

#: Purpose of the server's draws.
SEEDING = 0


@dataclass(frozen=True, slots=True)
class PaperState:
    """Everything the server knows, for `paper` and `matlab` alike.

    Attributes
    ----------
    starts, rows
        The seeds each client drew for its hello, and its number of rows.
    history
        The global seeds M of every version, the newest last; empty before they exist.
    attributes
        (d,), the attribute weights W of the published code; None without them.
    frequencies
        theta, participations per client.
    pending
        Uploads of the round so far, as they came.
    latest
        The newest upload of every client.
    anchors
        The version of the seeds from which the published code would rebuild a client's
        newest upload; a client that is not in it has taken part in no round.
    objective, change
        Z of the last round, and its distance to the one before; None where the
        published code has no number.
    movement
        Sum of squared seed moves in that round.
    """

    params: PaperParams
    seed: int
    n_features: int = -1
    starts: dict[ClientId, Floats] = field(default_factory=dict)
    rows: dict[ClientId, int] = field(default_factory=dict)
    history: tuple[Floats, ...] = ()
    attributes: Floats | None = None
    frequencies: dict[ClientId, int] = field(default_factory=dict)
    pending: tuple[Update, ...] = ()
    latest: dict[ClientId, Update] = field(default_factory=dict)
    anchors: dict[ClientId, int] = field(default_factory=dict)
    objective: float | None = None
    change: float | None = None
    movement: float = 0.0

    @property
    def version(self) -> int:
        """Number of the current seeds; -1 before there are any."""
        return len(self.history) - 1

    @property
    def seeds(self) -> Floats:
        """The current seeds M, (k, d)."""
        return self.history[-1]

    def contribution(self, update: Update, weight: float) -> Contribution:
        """Join an upload with its weight and the seeds it answers."""
        return Contribution(weight, self.history[update.version], update.payload)


# ------------------------------------------------------------------ absorbing


def absorb_hello(state: PaperState, hello: Hello) -> tuple[PaperState, Diagnostics]:
    """Register a client and its seeds; an equal repetition changes nothing."""
    check_hello(state, hello)
    client, points = hello.client, hello.payload.points
    repeated = state.rows.get(client) == hello.n_rows and np.array_equal(
        state.starts[client], points
    )
    notes = {"accepted": True, "repeated": repeated, "seeds": points.shape[0]}
    if repeated:
        return state, notes
    registered = replace(
        state,
        n_features=points.shape[1],
        starts={**state.starts, client: points},
        rows={**state.rows, client: hello.n_rows},
        frequencies={client: 0, **state.frequencies},
    )
    return registered, notes


def absorb_update(state: PaperState, update: Update) -> tuple[PaperState, Diagnostics]:
    """Keep an upload for the end of the round."""
    check_update(state, update)
    absorbed = replace(
        state,
        pending=(*state.pending, update),
        latest={**state.latest, update.client: update},
    )
    upload = update.payload
    sizes = {"cells": len(upload.cells)} if isinstance(upload, Intensities) else {}
    return absorbed, {"accepted": True, **sizes}


def check_hello(state: PaperState, hello: Hello) -> None:
    """Refuse a hello that no honest client could have sent."""
    refuse_unless(isinstance(hello.payload, Positions), "a hello must carry positions")
    points = hello.payload.points
    refuse_unless(
        points.ndim == 2 and points.dtype == np.float64,
        "seeds must be a table of float64",
    )
    refuse_unless(
        state.n_features in (-1, points.shape[1]),
        f"seeds have {points.shape[1]} features, {state.n_features} agreed",
    )
    most = min(hello.n_rows, wanted_seeds(state.params, hello.n_rows))
    refuse_unless(
        1 <= points.shape[0] <= most,
        f"expected 1 to {most} seeds of {hello.n_rows} rows, got {points.shape[0]}",
    )
    refuse_unless(bool(np.isfinite(points).all()), "seeds are not finite")


def check_update(state: PaperState, update: Update) -> None:
    """Refuse an upload that no honest client could have sent."""
    client, upload = update.client, update.payload
    check_answer(update, state.rows, state.version)
    n_rows, (k, n_features) = state.rows[client], state.seeds.shape
    if state.params.privacy == "affine":
        check_pulls(upload, (k, n_features), n_rows, state.params.balance)
        return
    refuse_unless(
        isinstance(upload, Intensities), "an update must carry update intensities"
    )
    check_cells(upload.cells, n_features, n_rows)
    check_intensities(upload, k, (n_rows, n_features))


def check_intensities(upload: Intensities, k: int, shape: tuple[int, int]) -> None:
    """Refuse intensities that do not fit the client, the seeds or their own cells."""
    owners, intensities = upload.owners, upload.intensities
    refuse_unless(
        intensities.shape == shape and owners.shape == shape[:1],
        f"expected an owner and an intensity for {shape[0]} rows of {shape[1]} "
        f"features, got {owners.shape} and {intensities.shape}",
    )
    refuse_unless(
        owners.dtype == np.int64 and intensities.dtype == np.float64,
        "expected int64 owners and float64 intensities",
    )
    refuse_unless(all_finite(intensities), "intensities are not finite")
    refuse_unless(
        bool(owners.min() >= 0 and owners.max() < k), f"an owner is not in 0..{k - 1}"
    )
    refuse_unless(
        bool(np.all(owners[1:] >= owners[:-1])), "rows must come seed by seed"
    )
    counts = np.bincount(owners)
    refuse_unless(
        np.array_equal(counts[counts > 0], upload.cells.counts),
        "cells do not count the owners' rows",
    )


def all_finite(values: Floats) -> bool:
    """Whether every number is finite; their sum alone mostly says so."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())


# --------------------------------------------------------------------- rounds


def wanted_seeds(params: PaperParams, n_rows: int) -> int:
    """Return k; follows the number of rows unless the parameters fix it."""
    k = params.settled(n_rows).n_seeds
    assert k is not None
    return k


def place_seeds(state: PaperState) -> PaperState:
    """Draw the global seeds M by k-means++ on the union of the clients' seeds.

    Algorithm 1, line 5; clients by id. Happens once: who joins later finds the seeds
    as they are. Fewer distinct points than k give fewer seeds.
    """
    if state.history or not state.starts:
        return state
    union = np.concatenate([state.starts[client] for client in sorted(state.starts)])
    k = wanted_seeds(state.params, sum(state.rows.values()))
    picks = plus_plus(union, k, server_rng(state.seed, SEEDING, 0))
    return replace(state, history=(union[picks],))


def close_round(
    state: PaperState,
    seeds: Floats,
    frequencies: dict[ClientId, int],
    value: float | None,
    attributes: Floats | None = None,
) -> PaperState:
    """Return the state after a round that led to these seeds and this objective.

    What clients are sent has a new version if anything in it changed.
    """
    same = np.array_equal(seeds, state.seeds) and (
        attributes is None
        or state.attributes is None
        or np.array_equal(attributes, state.attributes)
    )
    before = state.objective
    return replace(
        state,
        history=state.history if same else (*state.history, seeds),
        attributes=attributes,
        frequencies=frequencies,
        pending=(),
        objective=value,
        change=None if value is None or before is None else abs(value - before),
        movement=float(((seeds - state.seeds) ** 2).sum()),
    )


# ------------------------------------------------------------------ answering


def survivors(state: PaperState) -> Floats:
    """Return the seeds that are left when coincident ones count as one."""
    return merge_coincident(state.seeds, state.params.merge)


def known_rows(state: PaperState) -> tuple[Floats, Floats]:
    """Return where the clients' rows are, as points and how many rows each stands for.

    A client's latest upload says how many rows each seed won. One that has only said
    hello counts with its rows spread evenly over the seeds it drew.
    """
    points, counts = [state.seeds], [np.zeros(state.seeds.shape[0])]
    for client in sorted(state.rows):
        if client in state.latest:
            counts[0] += _won(state, state.latest[client])
        else:
            start = state.starts[client]
            share, rest = divmod(state.rows[client], start.shape[0])
            points.append(start)
            counts.append(share + 1.0 * (np.arange(start.shape[0]) < rest))
    return np.concatenate(points), np.concatenate(counts)


def _won(state: PaperState, update: Update) -> Floats:
    """Return how many rows each seed won at a client, or their share of its pulls."""
    k, upload = state.seeds.shape[0], update.payload
    if isinstance(upload, Pulls):
        pulled = max(1, int(upload.counts.sum()))
        rows = float(state.rows[update.client])
        return upload.counts.astype(np.float64) * (rows / pulled)
    won = np.zeros(k)
    won[np.flatnonzero(np.bincount(upload.owners))] += upload.cells.counts
    return won


def result(state: PaperState) -> Clustering:
    """Return the survivors, largest first; known rows go to the nearest of them."""
    centers = survivors(state)
    points, counts = known_rows(state)
    labels, _ = assign(points, centers)
    sizes, _ = sums(points, counts, labels, centers.shape[0])
    order = np.argsort(-sizes, kind="stable")
    level = PathLevel(
        centers.shape[0], centers[order], sizes[order], dict.fromkeys(INDICES)
    )
    scores: Scores = {} if state.objective is None else {"objective": state.objective}
    return Clustering(level.centers, level.sizes, scores, (level,), state.seeds)

# SPDX-License-Identifier: Apache-2.0
"""A round as the published code plays it: who is replayed, by which w, from where.

- Participants are counted and weighed; an absent client that has taken part before and
  weighs more than the mean is then counted too, and weighed anew: its w alone is that
  of the later counts.
- Participants and replayed clients act together, in the order of their ids, in the
  interaction, in Z and in the attribute weights W.
- Z is compared before the seeds move: in the round that ends a run they stay.
- Whoever acted is anchored at the seeds *after* the round: from there its upload is
  rebuilt when it is replayed.
- A round without participants is a round. If nobody is replayed either, W becomes 0,
  uploads say nothing from then on, and the seeds hardly move any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core.paper import attributes
from afcl.core.paper.balance import Contribution, balance_weights, count
from afcl.core.paper.objective import Standing, published_objective
from afcl.core.paper.server import PaperState, close_round


def play_round(state: PaperState) -> PaperState:
    """Return the state after a round with the pending uploads, which may be none."""
    assert state.attributes is not None
    parts, frequencies = acting(state)
    value = published_objective(standings(state, parts), state.params.merge)
    if _settled(state, value):
        same = (state.seeds, frequencies, value, state.attributes)
        return _anchored(close_round(state, *same), parts)
    flat = [part for _, part in parts]
    closed = close_round(
        state,
        attributes.cooperate(state.seeds, flat, state.attributes),
        frequencies,
        value,
        attributes.learned_weights(
            [part.upload for part in flat],
            state.params.learning_rate,
            state.attributes.size,
        ),
    )
    return _anchored(closed, parts)


def acting(
    state: PaperState,
) -> tuple[list[tuple[ClientId, Contribution]], dict[ClientId, int]]:
    """Return who acts in this round, by id, and the counts theta after it."""
    xi = state.params.balance
    present = [update.client for update in state.pending]
    frequencies = count(state.frequencies, present)
    weights = balance_weights(frequencies, xi)
    again = attributes.replayed(frequencies, weights, present)
    frequencies = count(frequencies, again)
    later = balance_weights(frequencies, xi)
    parts = [
        (u.client, state.contribution(u, weights[u.client])) for u in state.pending
    ]
    for client in again:
        anchor = state.history[state.anchors[client]]
        upload = state.latest[client].payload
        parts.append((client, Contribution(later[client], anchor, upload)))
    parts.sort(key=lambda part: part[0])
    return parts, frequencies


def standings(
    state: PaperState, parts: list[tuple[ClientId, Contribution]]
) -> list[Standing]:
    """Return every client's anchor, newest counts, and part in the round, if any."""
    present = {update.client: update.version for update in state.pending}
    at = {**state.anchors, **present}
    shared = {at.get(client, 0) for client in state.rows}
    places = {version: state.history[version] for version in shared}
    acts: Mapping[ClientId, Contribution] = dict(parts)
    return [
        Standing(
            at.get(client, 0),
            places[at.get(client, 0)],
            _held(state, client),
            acts.get(client),
        )
        for client in sorted(state.rows)
    ]


def _held(state: PaperState, client: ClientId) -> Floats:
    """Return how many rows each seed won at a client by its newest upload."""
    k = state.seeds.shape[0]
    if client not in state.latest:
        return np.zeros(k)
    owners = state.latest[client].payload.owners
    return np.bincount(owners, minlength=k).astype(np.float64)


def _settled(state: PaperState, value: float | None) -> bool:
    """Whether Z has changed so little that the run ends before the seeds move."""
    if state.objective is None or value is None:
        return False
    return abs(value - state.objective) <= state.params.tolerance


def _anchored(
    state: PaperState, parts: list[tuple[ClientId, Contribution]]
) -> PaperState:
    """Anchor whoever acted at the seeds after the round."""
    moved = {client: state.version for client, _ in parts}
    return replace(state, anchors={**state.anchors, **moved})

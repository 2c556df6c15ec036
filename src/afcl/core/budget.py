# SPDX-License-Identifier: Apache-2.0
"""How much the server remembers: beyond `max_cells` clients are remembered together.

Their memories are condensed to one pool, and so is what they replied about each
candidate. Rows, means and scatters are conserved, whose they are is forgotten: finer
cells that such a client sends later cannot replace its old ones. What it replies about
candidates is used, and the pool then counts for so many rows less.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afcl._typing import ClientId
from afcl.core.cells import nothing, union
from afcl.core.condense import condense_cells
from afcl.core.state import Pooled, ServerState, View, added_up

#: One part in so many of `max_cells` is left to clients that are remembered singly.
SINGLE = 16
#: One part in so many is what the pooled replies about candidates may take.
REPLIES = 4
#: One part in so many is what everything together is condensed to; the rest is room
#: until the next time.
ALL = 2


def within_budget(state: ServerState) -> ServerState:
    """Return the state as it is, or condensed to half of `max_cells`."""
    most = state.params.max_cells
    # Only then, and to half at once: at the limit every message would condense again.
    if state.remembered <= most:
        return state
    known = (*state.memory, *state.replies)
    sizes = {client: _size(state, client) for client in known}
    clients = _first_to_go(state, sizes, most // SINGLE)
    memories = [state.memory[c] for c in clients if c in state.memory]
    replied = [c for c in clients if c in state.replies]
    cells = union([state.pooled.cells or nothing(state.n_features), *memories])
    views = _views(state, replied, most // REPLIES)
    memory, replies = state.memory.mutate(), state.replies.mutate()
    for client in clients:
        memory.pop(client, None)
        replies.pop(client, None)
        del sizes[client]
    held = sum(sizes.values())
    # What is left of the half, after who stays alone and what was replied.
    rest = most // ALL - held - sum(len(view.cells) for view in views)
    pooled = Pooled(
        state.pooled.clients.union(c for c in clients if c in state.memory),
        condense_cells(cells, rest),
        state.pooled.replied.union(replied),
        views,
    )
    return replace(
        state,
        memory=memory.finish(),
        replies=replies.finish(),
        held=held,
        pooled=pooled,
    )


def _size(state: ServerState, client: ClientId) -> int:
    """Return how many cells are remembered of a client alone."""
    own = len(state.memory[client]) if client in state.memory else 0
    return own + sum(len(reply.cells) for reply in state.replies.get(client, ()))


def _first_to_go(
    state: ServerState, sizes: dict[ClientId, int], left: int
) -> list[ClientId]:
    """Return whom to pool so that no more than `left` cells of the others stay.

    First who cannot improve any more, satisfied or gone; then by client id.
    """
    # Finer cells may still come from them, and pooled ones could not be taken back.
    hopeful = {c for c in sizes if c not in state.left and not state.satisfied(c)}
    order = sorted(sizes, key=lambda client: (client in hopeful, client))
    held = np.cumsum([sizes[client] for client in order[::-1]])
    staying = int(np.searchsorted(held, left, side="right"))
    return sorted(order[: len(order) - staying])


def _views(state: ServerState, replied: list[ClientId], most: int) -> tuple[View, ...]:
    """Return the pooled views of all candidates with these clients' replies added."""
    if not replied:
        return state.pooled.views
    ks = [candidate.k for candidate in state.candidates]
    before = state.pooled.views or (View(nothing(state.n_features)),) * len(ks)
    views = []
    for position, view in enumerate(before):
        replies = [state.replies[client][position] for client in replied]
        cells = union([view.cells, *(reply.cells for reply in replies)])
        sums = sum((reply.sums for reply in replies), view.sums)
        counted = [view.valleys] if state.pooled.views else []
        counted += [reply.valleys for reply in replies]
        valleys = added_up(counted, ks[position])
        # By the number of centres: a finer candidate needs more cells to be told.
        share = max(1, most * ks[position] // sum(ks))
        views.append(View(condense_cells(cells, share), sums, valleys))
    return tuple(views)

# SPDX-License-Identifier: Apache-2.0
"""AFCL as its published code behaves: the paper's protocol with other arithmetic.

It exists to reproduce the printed table. As :mod:`.afcl_paper`, except:

- attribute weights W take the place of one learning rate, random at first, then
  learned from each round's participants;
- the nearest seed wins at the client; the server rebuilds the rows and lets all seeds
  compete for them again, with wins counted over the whole round;
- an absent client that took part before and weighs more than the mean is replayed with
  its last upload, behind the participants; that counts as taking part, from the next
  round's weights on;
- Z is over participants and replayed clients, from mean and plain distances.

The parameters `winner` and `anchor` have no effect here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import Broadcast, Update, WeightedPositions
from afcl.core.paper import attributes
from afcl.core.paper.balance import balance_weights, count
from afcl.core.paper.objective import objective
from afcl.core.paper.server import PaperState, close_round, place_seeds
from afcl.core.params import PaperParams
from afcl.core.protocol import server_rng
from afcl.methods.afcl_paper import AfclPaper

#: Purpose of the server's draws.
ATTRIBUTES = 1


class AfclMatlab(AfclPaper):
    """The published code's behaviour behind the protocol of every method."""

    name = "afcl-matlab"

    def prepare(self, state: PaperState) -> PaperState:
        """Place the global seeds and draw the first attribute weights, once."""
        state = place_seeds(state)
        if state.attributes is not None or not state.history:
            return state
        rng = server_rng(state.seed, ATTRIBUTES, 0)
        rate = state.params.learning_rate
        drawn = attributes.start_weights(rate, state.n_features, rng)
        return replace(state, attributes=drawn)

    def broadcast(self, state: PaperState) -> Broadcast:
        """Return the seeds and the attribute weights."""
        assert state.attributes is not None
        points = WeightedPositions(state.seeds, state.attributes)
        return Broadcast(state.version, points)

    def client_step(
        self,
        broadcast: Broadcast,
        X: Floats,
        memory: Any,
        params: PaperParams,
        rng: np.random.Generator,
    ) -> tuple[Update, Any]:
        """Send every row's weighted difference to its nearest seed."""
        sent: WeightedPositions = broadcast.payload
        upload = attributes.client_upload(X, sent.points, sent.weights, params, rng)
        return Update(upload), memory

    def end_round(self, state: PaperState) -> PaperState:
        """Weigh, replay whom the weights favour, move the seeds, learn W anew."""
        if not state.pending:
            return state
        assert state.attributes is not None
        present = [update.client for update in state.pending]
        frequencies = count(state.frequencies, present)
        weights = balance_weights(frequencies, state.params.balance)
        again = attributes.replayed(frequencies, weights, present)
        updates = [*state.pending, *(state.latest[client] for client in again)]
        parts = [state.contribution(u, weights[u.client]) for u in updates]
        return close_round(
            state,
            attributes.cooperate(state.seeds, parts, state.attributes),
            count(frequencies, again),
            objective(parts, plain=True),
            attributes.learned_weights(
                [update.payload for update in state.pending], state.params.learning_rate
            ),
        )

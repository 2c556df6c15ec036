# SPDX-License-Identifier: Apache-2.0
"""AFCL as its published code behaves: the paper's protocol with other arithmetic.

It exists to reproduce the printed table. As :mod:`.afcl_paper`, except:

- attribute weights W take the place of one learning rate, random at first, then
  learned from each round's participants;
- the nearest seed wins at the client; the server rebuilds the rows and lets all seeds
  compete for them again, with wins counted over the whole round;
- an absent client that took part before and weighs more than the mean is replayed with
  its last upload, also in a round without participants: see
  :mod:`afcl.core.paper.published`, which plays the rounds;
- Z is another index of the same form, compared before the seeds move.

The parameters `winner` and `anchor` have no effect here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import Broadcast, Update, WeightedPositions
from afcl.core.paper import attributes
from afcl.core.paper.published import play_round
from afcl.core.paper.server import PaperState, place_seeds
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
        return play_round(state) if state.pending else state

    def silent_round(self, state: PaperState) -> PaperState:
        """Play a round that has no participants; absent clients may be replayed."""
        return play_round(state)

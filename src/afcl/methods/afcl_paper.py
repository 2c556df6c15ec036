# SPDX-License-Identifier: Apache-2.0
"""AFCL as the paper writes it: Eqs. (2)-(14) and Algorithm 1, literally.

Over-many seeds go to the clients, every row's pull on its seed comes back, the server
lets neighbouring seeds share the pulls until redundant ones coincide.

Zhang, Zhang, Lu, Li, Chen and Cheung (2025), Asynchronous Federated Clustering with
Unknown Number of Clusters, AAAI. What the text leaves open is settled as follows.

- All participants of a round are counted before any weight w is computed, and all
  weights before the first seed moves.
- m_r in Eqs. (13) and (14) is the seed as it was sent to that client; only then is the
  step towards the data object. The cooperative set is tested at current positions.
- Z runs over the cells that hold rows; a round without uploads changes nothing.
- Seeds whose coordinates all differ by less than `merge` are one at the end.

At the privacy level `affine` (core/paper/pulls.py) clients play the server's part on
their own rows and send k sums instead of their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core.messages import Addressed, Broadcast, Hello, Left, Positions, Update
from afcl.core.paper import competition, server
from afcl.core.paper.balance import balance_weights, count
from afcl.core.paper.objective import objective
from afcl.core.paper.pulls import apply, pulls
from afcl.core.paper.server import PaperState, wanted_seeds
from afcl.core.params import PaperParams, from_options
from afcl.core.protocol import Clustering, Diagnostics, Disclosure, Message, Method
from afcl.core.seeding import plus_plus
from afcl.exceptions import InputError
from afcl.privacy.levels import level_for


class AfclPaper(Method[PaperParams, PaperState]):
    """The paper's equations behind the protocol of every method."""

    name = "afcl-paper"
    needs_k = False

    def parameters(self, **options: Any) -> PaperParams:
        """Validate options."""
        params = from_options(PaperParams, self.name, options)
        level_for("paper", params.privacy)
        if params.privacy == "affine" and params.anchor != "sent":
            raise InputError("privacy 'affine' needs anchor='sent': leave anchor out")
        return params

    def settle(self, params: PaperParams, n_rows: int) -> PaperParams:
        """Fix the number of seeds."""
        return params.settled(n_rows)

    def disclosure(self, params: PaperParams) -> Disclosure:
        """Return the level; there are no cells."""
        return Disclosure(params.privacy)

    def hello(self, X: Floats, params: PaperParams, rng: np.random.Generator) -> Hello:
        """Send k seeds drawn by k-means++, all rows if there are no more than k."""
        n, k = X.shape[0], wanted_seeds(params, X.shape[0])
        picks = np.arange(n) if n <= k else plus_plus(X, k, rng)
        return Hello(n, Positions(X[picks]))

    def init(
        self, hellos: Sequence[Hello], params: PaperParams, seed: int
    ) -> PaperState:
        """Absorb the hellos in order."""
        state = PaperState(params, seed)
        for hello in hellos:
            state, _ = self.absorb(state, hello)
        return state

    def absorb(
        self, state: PaperState, message: Message
    ) -> tuple[PaperState, Diagnostics]:
        """Check and store one message; what a client that left has said stays."""
        if isinstance(message, Hello):
            return server.absorb_hello(state, message)
        if isinstance(message, Left):
            return state, {"accepted": True}
        return server.absorb_update(state, message)

    def end_round(self, state: PaperState) -> PaperState:
        """Count the participants, weigh them (Eq. 8), then move the seeds and judge."""
        if not state.pending:
            return state
        frequencies = count(state.frequencies, (u.client for u in state.pending))
        if state.params.privacy == "affine":
            return self._apply_pulls(state, frequencies)
        weights = balance_weights(frequencies, state.params.balance)
        parts = [state.contribution(u, weights[u.client]) for u in state.pending]
        seeds = competition.cooperate(state.seeds, parts, state.params)
        return server.close_round(state, seeds, frequencies, objective(parts))

    def _apply_pulls(
        self, state: PaperState, frequencies: dict[ClientId, int]
    ) -> PaperState:
        """Apply every client's pulls in turn; the objective is the clients' mean."""
        seeds, values = state.seeds, []
        for update in state.pending:
            seeds = apply(seeds, update.payload, state.params.learning_rate)
            values.append(update.payload.objective)
        return server.close_round(state, seeds, frequencies, float(np.mean(values)))

    def prepare(self, state: PaperState) -> PaperState:
        """Place the global seeds, once."""
        return server.place_seeds(state)

    def broadcast(self, state: PaperState) -> Broadcast:
        """Return the seeds; at `affine` also the weight w each client plays with."""
        seeds = Positions(state.seeds)
        if state.params.privacy != "affine":
            return Broadcast(state.version, seeds)
        weights = {
            client: balance_weights(
                count(state.frequencies, (client,)), state.params.balance
            )[client]
            for client in state.rows
        }
        return Broadcast(state.version, seeds, personal=weights)

    def client_step(
        self,
        broadcast: Broadcast,
        X: Floats,
        memory: Any,
        params: PaperParams,
        rng: np.random.Generator,
    ) -> tuple[Update, Any]:
        """Let the seeds compete for the rows and send every row's pull, or k sums."""
        sent = broadcast.payload
        if isinstance(sent, Addressed):
            seeds, weight = sent.common.points, float(sent.own)
            return Update(pulls(X, seeds, weight, params, rng)), memory
        seeds = sent.points
        return Update(competition.client_upload(X, seeds, params, rng)), memory

    def done(self, state: PaperState) -> bool:
        """Whether the objective has settled."""
        return state.change is not None and state.change <= state.params.tolerance

    def result(self, state: PaperState) -> Clustering:
        """Return the seeds that are left, largest cluster first."""
        return server.result(state)

    def progress(self, state: PaperState) -> Diagnostics:
        """Return k so far, the objective, the seeds and how far they moved."""
        return {
            "k": server.survivors(state).shape[0],
            "objective": state.objective,
            "version": state.version,
            "movement": state.movement,
            "seeds": state.seeds,
        }

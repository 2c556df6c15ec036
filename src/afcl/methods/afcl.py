# SPDX-License-Identifier: Apache-2.0
"""AFCL, default preset: remember, merge along a path, choose by the moment silhouette.

The paper's idea (over-many seeds shared with all clients, per-seed summaries up, each
client counted once, redundant seeds merged) with the parts that did not hold replaced;
see docs/decisions/0001-default-preset.md for each departure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core import client, rebuild, server
from afcl.core.messages import Broadcast, Hello, Left, Update
from afcl.core.params import DefaultParams, from_options
from afcl.core.protocol import Clustering, Diagnostics, Message
from afcl.core.state import ServerState
from afcl.kernels import assign


def nearest(clustering: Clustering, X: Floats) -> Ints:
    """Label rows by the nearest centre."""
    assert clustering.centers is not None
    return assign(X, clustering.centers)[0]


class Afcl:
    """The default preset behind the protocol of every method."""

    name = "afcl"
    needs_k = False

    def parameters(self, **options: Any) -> DefaultParams:
        """Validate options."""
        return from_options(DefaultParams, self.name, options)

    def settle(self, params: DefaultParams, n_rows: int) -> DefaultParams:
        """Nothing to fix: the server follows the rows it has heard of."""
        return params

    def hello(
        self, X: Floats, params: DefaultParams, rng: np.random.Generator
    ) -> Hello:
        """Send the rows condensed to cells."""
        return Hello(X.shape[0], client.condense(X, params, rng))

    def init(
        self, hellos: Sequence[Hello], params: DefaultParams, seed: int
    ) -> ServerState:
        """Absorb the hellos in order."""
        state = ServerState(params, seed)
        for hello in hellos:
            state, _ = self.absorb(state, hello)
        return state

    def absorb(
        self, state: ServerState, message: Message
    ) -> tuple[ServerState, Diagnostics]:
        """Check and store one message."""
        if isinstance(message, Hello):
            return server.absorb_hello(state, message)
        if isinstance(message, Left):
            return server.absorb_left(state, message)
        return server.absorb_update(state, message)

    def end_round(self, state: ServerState) -> ServerState:
        """Return the state as it is: rounds mean nothing here."""
        return state

    def prepare(self, state: ServerState) -> ServerState:
        """Seeds, path and candidates for what was absorbed."""
        return rebuild.prepare(state)

    def broadcast(self, state: ServerState) -> Broadcast:
        """Seeds and candidates."""
        return server.broadcast(state)

    def client_step(
        self,
        broadcast: Broadcast,
        X: Floats,
        memory: Any,
        params: DefaultParams,
        rng: np.random.Generator,
    ) -> tuple[Update, Any]:
        """Cells around the seeds and a view of every candidate."""
        return Update(client.reply(X, broadcast.payload, params)), memory

    def done(self, state: ServerState) -> bool:
        """Whether every active client has said what it can."""
        return server.done(state)

    def result(self, state: ServerState) -> Clustering:
        """Return the best level, and the whole path."""
        return server.result(state)

    def progress(self, state: ServerState) -> Diagnostics:
        """Numbers worth showing."""
        return server.progress(state)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Nearest centre."""
        return nearest(clustering, X)

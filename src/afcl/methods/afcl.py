# SPDX-License-Identifier: Apache-2.0
"""AFCL, default preset: remember, merge along a path, choose by the moment silhouette.

The paper's idea (over-many seeds shared with all clients, per-seed summaries up, each
client counted once, redundant seeds merged) with the parts that did not hold replaced;
see docs/decisions/0001-default-preset.md for each departure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core import cohorts, rebuild, server
from afcl.core.messages import Broadcast, Hello, Left, Update
from afcl.core.params import DefaultParams, from_options
from afcl.core.protocol import Clustering, Demands, Diagnostics, Message
from afcl.core.rows import Rows
from afcl.core.state import ServerState
from afcl.kernels import assign
from afcl.privacy import clients, he
from afcl.privacy.levels import HE, level_for, parse_level

#: What the server knows: of every client, or (level `secure`) of cohorts.
State: TypeAlias = ServerState | cohorts.SecureState


def nearest(clustering: Clustering, X: Floats) -> Ints:
    """Label rows by the nearest centre."""
    assert clustering.centers is not None
    return assign(X, clustering.centers)[0]


class Afcl:
    """The default preset behind the protocol of every method."""

    name = "afcl"
    needs_k = False
    #: Clients are given :class:`~afcl.core.rows.Rows`, and label them part by part.
    in_parts = True

    def parameters(self, **options: Any) -> DefaultParams:
        """Validate options; the privacy level is written in one way from here on."""
        params = from_options(DefaultParams, self.name, options)
        return replace(params, privacy=str(level_for("default", params.privacy)))

    def settle(self, params: DefaultParams, n_rows: int) -> DefaultParams:
        """Nothing to fix: the server follows the rows it has heard of."""
        return params

    # ------------------------------------------------------------------ clients

    def demands(self, params: DefaultParams) -> Demands:
        """Say what the privacy level asks of the agreement on scales."""
        return clients.requirements(params)

    def view(
        self, X: Floats | Rows, params: DefaultParams, rng: np.random.Generator
    ) -> clients.Working:
        """Return what the level lets a client work on."""
        return clients.view(X, params, rng)

    def spends(self, params: DefaultParams, contact: int) -> float:
        """Return what this contact costs (mu)."""
        return clients.spends(params, contact)

    def hello(
        self, X: clients.Working, params: DefaultParams, rng: np.random.Generator
    ) -> Hello:
        """Send the rows condensed to cells."""
        return clients.hello(X, params, rng)

    def client_step(
        self,
        broadcast: Broadcast,
        X: clients.Working,
        memory: Any,
        params: DefaultParams,
        rng: np.random.Generator,
    ) -> tuple[Update, Any]:
        """Cells around the seeds and a view of every candidate, or a masked part."""
        return clients.step(broadcast.payload, X, memory, params)

    # ------------------------------------------------------------------ server

    def init(self, hellos: Sequence[Hello], params: DefaultParams, seed: int) -> State:
        """Absorb the hellos in order."""
        state: State = ServerState(params, seed)
        level = parse_level(params.privacy)
        if level.secure:
            scheme = he.Ciphertexts() if level.scheme == HE else cohorts.Masks()
            state = cohorts.SecureState(params, seed, scheme=scheme)
        for hello in hellos:
            state, _ = self.absorb(state, hello)
        return state

    def absorb(self, state: State, message: Message) -> tuple[State, Diagnostics]:
        """Check and store one message."""
        if isinstance(state, cohorts.SecureState):
            if isinstance(message, Hello):
                return cohorts.absorb_hello(state, message)
            if isinstance(message, Left):
                return cohorts.absorb_left(state, message)
            return cohorts.absorb_update(state, message)
        if isinstance(message, Hello):
            return server.absorb_hello(state, message)
        if isinstance(message, Left):
            return server.absorb_left(state, message)
        return server.absorb_update(state, message)

    def end_round(self, state: State) -> State:
        """Return the state as it is, or let cohorts stop waiting for who is silent."""
        if isinstance(state, cohorts.SecureState):
            return cohorts.end_round(state)
        return state

    def prepare(self, state: State) -> State:
        """Seeds, path and candidates for what was absorbed."""
        if isinstance(state, cohorts.SecureState):
            return cohorts.prepare(state)
        return rebuild.prepare(state)

    def broadcast(self, state: State) -> Broadcast:
        """Seeds and candidates, or every cohort's task."""
        if isinstance(state, cohorts.SecureState):
            return cohorts.broadcast(state)
        return server.broadcast(state)

    def done(self, state: State) -> bool:
        """Whether every active client has said what it can."""
        if isinstance(state, cohorts.SecureState):
            return cohorts.done(state)
        return server.done(state)

    def result(self, state: State) -> Clustering:
        """Return the best level, and the whole path."""
        if isinstance(state, cohorts.SecureState):
            return cohorts.result(state)
        return server.result(state)

    def progress(self, state: State) -> Diagnostics:
        """Numbers worth showing."""
        if isinstance(state, cohorts.SecureState):
            return cohorts.progress(state)
        return server.progress(state)

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Nearest centre."""
        return nearest(clustering, X)

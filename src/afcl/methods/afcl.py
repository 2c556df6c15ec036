# SPDX-License-Identifier: Apache-2.0
"""AFCL, default preset: remember, merge along a path, choose by the moment silhouette.

The paper's idea (over-many seeds shared with all clients, per-seed summaries up, each
client counted once, redundant seeds merged) with the parts that did not hold replaced;
see docs/decisions/0001-default-preset.md for each departure.

Two servers can answer for it: :mod:`core.server`, which hears every client's cells, and
at the level `secure` :mod:`core.cohorts`, which hears sums. Which of them a run has is
settled by the state it begins with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core import cohorts, server
from afcl.core.cohort_state import SecureState
from afcl.core.messages import Batch, Broadcast, Hello, Update
from afcl.core.params import DefaultParams, from_options
from afcl.core.protocol import (
    Clustering,
    Diagnostics,
    Disclosure,
    Keep,
    Message,
    Method,
    Requirements,
    keep_nothing,
)
from afcl.core.rows import Rows
from afcl.core.state import ServerState
from afcl.core.tasks import Masks
from afcl.privacy import he
from afcl.privacy.levels import HE, level_for, parse_level
from afcl.privacy.protection import protection
from afcl.registry import CONVEX

#: What the server knows: of every client, or (level `secure`) of cohorts.
State: TypeAlias = ServerState | SecureState


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands for a client's rows, and what remembers what is said of it."""

    stands: Any
    keep: Keep = keep_nothing


def _shown(X: Any) -> Shown:
    """Return what was made of rows; those of which nothing was stand for themselves."""
    return X if isinstance(X, Shown) else Shown(X)


def _server(state: State) -> ModuleType:
    """Return the module of the server whose state this is.

    Both define `agreed`, `announced`, `absorb_hello`, `absorb_update`, `absorb_left`,
    `absorb_batch`, `end_round`, `waits_for`, `prepare`, `broadcast`, `done`, `result`
    and `progress`, as functions of their state.
    """
    return cohorts if isinstance(state, SecureState) else server


class Afcl(Method[DefaultParams, State]):
    """The default preset behind the protocol of every method."""

    name = "afcl"
    needs_k = False
    in_parts = True

    def parameters(self, **options: Any) -> DefaultParams:
        """Validate options; the privacy level is written in one way from here on."""
        params = from_options(DefaultParams, self.name, options)
        return replace(params, privacy=str(level_for("default", params.privacy)))

    def told(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Leave out that clusters are round, as they are for clients of any version."""
        if options.get("shape") != CONVEX:
            return options
        return {name: value for name, value in options.items() if name != "shape"}

    # ------------------------------------------------------------------ clients

    def requirements(self, params: DefaultParams) -> Requirements:
        """Say what the privacy level asks of the agreement on scales."""
        return protection(params).requirements()

    def view(
        self,
        X: Floats | Rows,
        params: DefaultParams,
        rng: np.random.Generator,
        keep: Keep = keep_nothing,
    ) -> Shown:
        """Return what the level lets a client work on."""
        return Shown(protection(params).view(X, rng, keep), keep)

    def disclosure(self, params: DefaultParams) -> Disclosure:
        """Return the level and the smallest cell.

        Every contact after the hello, and one anew if an answer was lost. Who is summed
        with others counts for itself (:func:`privacy.masks.remember`).
        """
        guard = protection(params)
        disclosed = Disclosure(
            params.privacy, params.min_cell, guard.once, params.contacts
        )
        disclosed = disclosed._replace(seeds=params.n_seeds, levels=params.candidates)
        if not guard.level.secure:
            return disclosed
        return disclosed._replace(
            steps=None, holders=params.holders, passes=params.passes
        )

    def hello(self, X: Any, params: DefaultParams, rng: np.random.Generator) -> Hello:
        """Send the rows condensed to cells."""
        shown = _shown(X)
        return protection(params).hello(shown.stands, rng, shown.keep)

    def client_step(
        self,
        broadcast: Broadcast,
        X: Any,
        memory: Any,
        params: DefaultParams,
        rng: np.random.Generator,
    ) -> tuple[Update, Any]:
        """Cells around the seeds and a view of every candidate, or a masked part."""
        shown, asked = _shown(X), broadcast.payload
        return protection(params).step(asked, shown.stands, memory, shown.keep)

    # ------------------------------------------------------------------ server

    def init(self, hellos: Sequence[Hello], params: DefaultParams, seed: int) -> State:
        """Absorb the hellos in order."""
        state: State = ServerState(params, seed)
        level = parse_level(params.privacy)
        if level.secure:
            scheme = he.Ciphertexts() if level.scheme == HE else Masks()
            state = SecureState(params, seed, scheme=scheme)
        for hello in hellos:
            state, _ = self.absorb(state, hello)
        return state

    def agreed(self, state: State, n_features: int, bounded: bool) -> State:
        """Note the agreement, which messages are checked against."""
        agreed: State = _server(state).agreed(state, n_features, bounded)
        return agreed

    def announced(
        self, state: State, client: ClientId, low: Floats, high: Floats
    ) -> State:
        """Note a client's extremes, which its cells must lie between."""
        announced: State = _server(state).announced(state, client, low, high)
        return announced

    def absorb(self, state: State, message: Message) -> tuple[State, Diagnostics]:
        """Check and store one message."""
        own = _server(state)
        absorbed: tuple[State, Diagnostics]
        if isinstance(message, Hello):
            absorbed = own.absorb_hello(state, message)
        elif isinstance(message, Update):
            absorbed = own.absorb_update(state, message)
        else:
            absorbed = own.absorb_left(state, message)
        return absorbed

    def absorb_batch(self, state: State, batch: Batch) -> tuple[State, Diagnostics]:
        """Store what many simulated clients say at once; diagnostics are columns."""
        absorbed: tuple[State, Diagnostics] = _server(state).absorb_batch(state, batch)
        return absorbed

    def end_round(self, state: State) -> State:
        """Return the state as it is, or let cohorts stop waiting for who is silent."""
        ended: State = _server(state).end_round(state)
        return ended

    def waits_for(self, state: State) -> frozenset[ClientId]:
        """Return the members of cohorts that owe a part."""
        owing: frozenset[ClientId] = _server(state).waits_for(state)
        return owing

    def prepare(self, state: State) -> State:
        """Seeds, path and candidates for what was absorbed."""
        prepared: State = _server(state).prepare(state)
        return prepared

    def broadcast(self, state: State) -> Broadcast:
        """Seeds and candidates, or every cohort's task."""
        sent: Broadcast = _server(state).broadcast(state)
        return sent

    def done(self, state: State) -> bool:
        """Whether every active client has said what it can."""
        finished: bool = _server(state).done(state)
        return finished

    def result(self, state: State) -> Clustering:
        """Return the best level, and the whole path."""
        answer: Clustering = _server(state).result(state)
        return answer

    def label(
        self, clustering: Clustering, X: Floats, memory: Any, client: ClientId | None
    ) -> Ints:
        """Label rows by the nearest centre, or place where clusters are not round."""
        if clustering.places is not None:
            return clustering.places.label(X)
        return super().label(clustering, X, memory, client)

    def progress(self, state: State) -> Diagnostics:
        """Numbers worth showing."""
        numbers: Diagnostics = _server(state).progress(state)
        return numbers

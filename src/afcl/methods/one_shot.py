# SPDX-License-Identifier: Apache-2.0
"""The skeleton of one-shot rivals: the hello says everything, nobody is asked for more.

Whoever has said hello counts; a late joiner makes the server start afresh.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.methods.rival import Nothing, Rival, RivalState, expect


class OneShot(Rival):
    """A rival whose hello says everything: nobody is ever asked for more."""

    def on_join(self, state: RivalState) -> Any:
        """Start afresh from all hellos."""
        return self.start(state)

    def message(self, state: RivalState) -> Nothing:
        """Send nothing."""
        return Nothing()

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[Nothing, Any]:
        """Add nothing to the hello."""
        return Nothing(), memory

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect nothing."""
        expect(isinstance(reply, Nothing), "nothing more than the hello")

    def combine(self, state: RivalState) -> tuple[Any, bool]:
        """Keep the model."""
        return state.model, True

    def wanted(self, state: RivalState) -> frozenset[ClientId]:
        """Ask nobody."""
        return frozenset()

    def done(self, state: RivalState) -> bool:
        """Whether all hellos are in the model."""
        return state.model is not None and not state.joined

# SPDX-License-Identifier: Apache-2.0
"""The default preset built up one step at a time: ``ablation:NAME`` beside all methods.

Clients are those of the default preset; what a step lacks is missing at the server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from immutables import Map

from afcl._typing import ClientId
from afcl.core.messages import Cells, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import AnyMethod, Diagnostics, Message
from afcl.core.state import ServerState
from afcl.exceptions import InputError
from afcl.methods import get_method
from afcl.methods.afcl import Afcl, State

PREFIX = "ablation:"
#: What every step adds to the one before; with all of them it is the default preset.
STEPS = ("path", "memory", "hello", "finer", "polish", "rule")


class Ablation(Afcl):
    """The default preset up to one of :data:`STEPS`.

    ``path``: seeds, summaries and the Ward path, the largest moment silhouette chooses;
    the server knows who answered last, and of the hellos only the first seeds.
    ``memory``: every client's newest reply is kept. ``hello``: until a client replies,
    its hello stands for it. ``finer``: a coarser reply does not replace a finer one.
    ``polish``: the clients polish the candidates. ``rule``: ties within the band are
    broken by BIC and simplified silhouette.
    """

    def __init__(self, step: str) -> None:
        if step not in STEPS:
            raise InputError(f"no step {step!r}; choose one of {', '.join(STEPS)}")
        self.has = frozenset(STEPS[: STEPS.index(step) + 1])

    def parameters(self, **options: Any) -> DefaultParams:
        """Choose by the moment silhouette alone, without the rule."""
        if "rule" not in self.has:
            options = {"criterion": "silhouette", **options}
        return super().parameters(**options)

    def absorb(self, state: State, message: Message) -> tuple[State, Diagnostics]:
        """Absorb an update, and forget what this step does not remember."""
        assert isinstance(state, ServerState)
        if not isinstance(message, Update) or message.client not in state.memory:
            return super().absorb(state, message)
        lost: set[ClientId] = set()
        if "memory" not in self.has and not state.moved:
            lost |= set(state.memory)  # the first answer of a round
        if "finer" not in self.has:
            lost.add(message.client)
        after, found = super().absorb(_without(state, lost), message)
        assert isinstance(after, ServerState)
        if "hello" not in self.has:
            once = {c for c, contacts in after.contacts.items() if contacts == 1}
            after = _without(after, once)
        if "polish" not in self.has:
            after = replace(after, stale=False)
        return after, found


def find_method(name: str) -> AnyMethod:
    """Return a registered method, or a step of the default preset."""
    if name.startswith(PREFIX):
        return Ablation(name.removeprefix(PREFIX))
    return get_method(name)


def _without(state: ServerState, clients: set[ClientId]) -> ServerState:
    """Forget the cells of these clients; they stay members."""
    if not clients:
        return state
    width = state.n_features
    nothing = Cells(np.zeros(0, dtype=np.int64), np.zeros((0, width)), np.zeros(0))
    memory = Map({c: nothing if c in clients else m for c, m in state.memory.items()})
    return replace(state, memory=memory)

# SPDX-License-Identifier: Apache-2.0
"""What a method need not write: the protocol's defaults."""

from __future__ import annotations

from typing import Any

import numpy as np

from afcl.core import server
from afcl.core.params import DefaultParams
from afcl.core.protocol import Clustering, Disclosure, Method, Requirements
from afcl.core.state import ServerState


class Idle(Method[Any, Any]):
    """Writes no more than it must."""

    name = "idle"
    needs_k = False

    def parameters(self, **options):
        return options

    def hello(self, X, params, rng):
        raise NotImplementedError

    def init(self, hellos, params, seed):
        return ()

    def absorb(self, state, message):
        raise NotImplementedError

    def broadcast(self, state):
        raise NotImplementedError

    def client_step(self, broadcast, X, memory, params, rng):
        raise NotImplementedError

    def done(self, state):
        return True

    def result(self, state):
        raise NotImplementedError

    def progress(self, state):
        return {}


def test_what_a_method_need_not_write():
    method, params, rows = Idle(), {"a": 1}, np.array([[0.0], [1.0], [9.0]])
    assert not method.in_parts
    assert method.settle(params, 3) is params
    assert method.requirements(params) == Requirements()
    assert method.disclosure(params) == Disclosure()
    assert method.view(rows, params, np.random.default_rng(0)) is rows
    state, server_state = object(), ServerState(DefaultParams(), 0)
    assert method.agreed(state, 1, True) is state
    assert method.announced(state, 0, rows[0], rows[2]) is state
    assert method.end_round(state) is method.prepare(state) is state
    assert method.waits_for(state) == server.waits_for(server_state) == frozenset()
    found = Clustering(np.array([[8.0], [0.0]]), np.array([1.0, 2.0]), {})
    assert method.label(found, rows, None, None).tolist() == [1, 1, 0]

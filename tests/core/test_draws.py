# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core import draws
from afcl.core.draws import uniforms
from afcl.core.protocol import CLIENT, client_rng


@pytest.mark.parametrize(
    "root", [0, 1, 2**31, 2**32, 2**40 + 5, 2**127, 2**128 + 1, 2**200 + 17]
)
def test_bits_are_those_of_numpys_generators(root, seed):
    chosen = np.random.default_rng(seed).integers(0, 2**20, 30)
    clients = np.concatenate([[0, 1, 2**31, 2**32 - 1], chosen])
    wanted = np.arange(clients.shape[0]) % 7
    each = [
        client_rng(root, int(client), 0).random(int(n))
        for client, n in zip(clients, wanted, strict=True)
    ]
    drawn = uniforms(root, (CLIENT, clients, 0), wanted)
    assert drawn.tobytes() == np.concatenate(each).tobytes()


@given(
    st.integers(0, 2**70),
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_any_key_draws_as_numpy_does(root, key, n):
    sequence = np.random.SeedSequence(root, spawn_key=tuple(key))
    wanted = np.random.default_rng(sequence).random(n)
    assert np.array_equal(uniforms(root, key, np.array([n])), wanted)


def test_generators_are_worked_on_in_parts(monkeypatch):
    clients = np.arange(10)
    wanted = np.array([3, 0, 1, 5, 2, 2, 0, 0, 1, 4])
    whole = uniforms(4, (CLIENT, clients, 0), wanted)
    monkeypatch.setattr(draws, "TOGETHER", 3)
    assert np.array_equal(uniforms(4, (CLIENT, clients, 0), wanted), whole)


def test_nobody_draws_nothing():
    nobody = np.empty(0, dtype=np.int64)
    assert uniforms(0, (CLIENT, nobody, 0), nobody).shape == (0,)

# SPDX-License-Identifier: Apache-2.0
"""The noise: the cipher's own bits, uniform and normal as they should be."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from afcl.exceptions import InputError
from afcl.privacy.noise import Noise

#: The key stream of RFC 8439, appendix A.1, test vector 1: key, counter and nonce 0.
FIRST_BLOCK = bytes.fromhex(
    "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
)


def key(seed):
    return np.random.default_rng(seed).bytes(32)


def test_the_first_numbers_by_hand():
    words = np.frombuffer(FIRST_BLOCK, dtype="<u8")
    uniform = [int(word) // 2**11 / 2**53 for word in words]
    assert Noise(bytes(32)).uniform((8,)).tolist() == uniform
    normal = [
        ndtri((int(word) // 2**12 + 0.5) / 2**53) * (-1 if word % 2 else 1)
        for word in words
    ]
    assert Noise(bytes(32)).normal((8,)).tolist() == normal


def test_the_same_key_draws_the_same_and_another_one_does_not(seed):
    first, again, other = Noise(key(seed)), Noise(key(seed)), Noise(key(seed + 1))
    one = first.normal((3, 2))
    assert one.shape == (3, 2)
    assert np.array_equal(again.normal((3, 2)), one)
    assert not np.isin(other.normal((3, 2)), one).any()
    assert not np.isin(first.normal((3, 2)), one).any()  # the stream goes on
    assert first.normal((0,)).shape == (0,)


def test_numbers_do_not_depend_on_how_they_are_fetched(seed):
    together = Noise(key(seed)).normal((50,))
    stream = Noise(key(seed))
    apart = np.concatenate([stream.normal((size,)) for size in (1, 30, 7, 12)])
    assert np.array_equal(together, apart)


def test_normal_numbers_are_normal(seed):
    drawn = Noise(key(seed)).normal((200_000,))
    # The level is far below what a sound generator would fail by chance.
    assert stats.kstest(drawn, "norm").pvalue > 1e-6
    assert abs(drawn.mean()) < 5 / np.sqrt(drawn.size)
    assert abs(drawn.var() - 1) < 5 * np.sqrt(2 / drawn.size)
    assert abs((drawn**4).mean() - 3) < 5 * np.sqrt(96 / drawn.size)
    # The tails on both sides: 3 deviations hold 1.35e-3 each.
    for tail in (drawn > 3, drawn < -3):
        assert stats.binomtest(int(tail.sum()), drawn.size, 1.349898e-3).pvalue > 1e-6
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / np.sqrt(drawn.size)


def test_uniform_numbers_are_uniform(seed):
    drawn = Noise(key(seed)).uniform((200_000,))
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_the_most_extreme_words_give_finite_numbers(monkeypatch, byte):
    class Constant:
        def update(self, data):
            return bytes([byte]) * len(data)

    noise = Noise(bytes(32))
    monkeypatch.setattr(noise, "_stream", Constant())
    # 0 bits: u = 2^-54, the end of the tail; 1 bits: u just below 1/2, sign turned.
    expected = ndtri(2.0**-54) if byte == 0 else -ndtri(0.5 - 2.0**-54)
    assert noise.normal((1,))[0] == expected
    assert np.isfinite(expected)
    assert 0 <= noise.uniform((1,))[0] < 1


def test_without_cryptography_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(InputError, match=r"pip install 'afcl\[privacy\]'"):
        Noise(bytes(32))

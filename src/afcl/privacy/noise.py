# SPDX-License-Identifier: Apache-2.0
"""Noise nobody can predict: normal and uniform numbers from a ChaCha20 key stream.

Who could guess the state of the generator could subtract the noise; a statistical
generator does not protect from that, a cipher does. The same key gives the same bits,
so that a message can be sent again after a crash.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afcl._typing import AnyArray, Floats
from afcl.exceptions import InputError

#: Bytes of a key.
KEY = 32


class Noise:
    """An endless stream of random numbers, named by its key.

    Notes
    -----
    A number is made of one 64-bit word. 52 of its bits give u = (j + 1/2) / 2^53, which
    lies in (0, 1/2) and is exact; the inverse of the normal distribution at u, with a
    sign from a further bit, is a normal number as exact as `ndtri` is in the tail, up
    to 8.3 deviations.

    Examples
    --------
    >>> Noise(bytes(32)).normal((2,)).round(3).tolist()
    [-0.578, -1.408]
    """

    def __init__(self, key: bytes) -> None:
        self._stream = _encryptor(key)

    def normal(self, shape: tuple[int, ...]) -> Floats:
        """Return standard normal numbers."""
        from scipy.special import ndtri

        words = self.words(math.prod(shape))
        # By the inverse in the lower tail, where floats are dense: common samplers have
        # holes that tell rows from each other (Mironov 2012).
        tail = ndtri(((words >> np.uint64(12)) + 0.5) * 2.0**-53)
        signed: Floats = np.where(words & np.uint64(1), -tail, tail)
        return signed.reshape(shape)

    def uniform(self, shape: tuple[int, ...]) -> Floats:
        """Return numbers in [0, 1)."""
        words = self.words(math.prod(shape))
        found = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return found.reshape(shape)

    def words(self, count: int) -> AnyArray:
        """Return so many 64-bit words of the key stream."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), dtype="<u8")


def _encryptor(key: bytes) -> Any:
    """Return a ChaCha20 cipher at the start of its key stream."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    except ImportError:
        raise InputError(
            "differential privacy needs the package cryptography: "
            "pip install 'afcl[privacy]'"
        ) from None
    # No nonce: a key is used for one stream only.
    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()

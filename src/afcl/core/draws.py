# SPDX-License-Identifier: Apache-2.0
"""The draws of many generators at once.

A client's generator is ``default_rng(SeedSequence(seed, spawn_key=key))``, and making
one takes longer than a small client's whole work. Here the first numbers of all of
them are computed together, as NumPy's ``SeedSequence`` and ``PCG64`` do it and with the
same bits: M. E. O'Neill, "Developing a seed_seq Alternative" (2015) and "PCG: A Family
of Simple Fast Space-Efficient Statistically Good Algorithms" (2014). Both are frozen by
NumPy's policy of stable streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from afcl._typing import Floats, Ints

Words: TypeAlias = NDArray[np.uint32]
Longs: TypeAlias = NDArray[np.uint64]

#: Words in the pool of a seed sequence.
POOL = 4
#: Start of the hash that words are mixed in with (INIT_A of O'Neill's seed sequence).
_INIT_IN = 0x43B0D7E5
#: Its factor (MULT_A).
_MULT_IN = 0x931E8875
#: Start of the hash that words are read out with (INIT_B).
_INIT_OUT = 0x8B51F9DD
#: Its factor (MULT_B).
_MULT_OUT = 0x58F38DED
#: Factor of the first of two words that are mixed (MIX_MULT_L).
_LEFT = np.uint32(0xCA01F9DD)
#: Factor of the second (MIX_MULT_R).
_RIGHT = np.uint32(0x4973F715)
#: Half the bits of a word.
_HALF = np.uint32(16)

#: The high half of PCG64's multiplier.
_HIGH = np.uint64(0x2360ED051FC65DA4)
#: The low half.
_LOW = np.uint64(0x4385DF649FCCF645)
#: Half the bits of a long word.
_WORD = np.uint64(32)
#: Its low half.
_MASK = np.uint64(0xFFFFFFFF)

#: Generators that are worked on together: their numbers stay in the cache.
TOGETHER = 1 << 14


def uniforms(seed: int, key: Sequence[int | Ints], wanted: Ints) -> Floats:
    """Return the first uniform numbers of many generators, one after the other.

    Parameters
    ----------
    seed : int
        The root seed.
    key : sequence of int or ndarray of shape (n,)
        The spawn keys; each part is one number for all or one per generator, from 0
        to 2^32 - 1.
    wanted : ndarray of shape (n,)
        How many numbers each generator is to draw.

    Returns
    -------
    numbers : ndarray of shape (wanted.sum(),)
        What ``default_rng(SeedSequence(seed, spawn_key=...)).random()`` gives, called
        so often.
    """
    n = wanted.shape[0]
    parts = [np.asarray(part, dtype=np.uint32) for part in key]
    ends = np.cumsum(wanted)
    numbers = np.empty(int(ends[-1]) if n else 0)
    for start in range(0, n, TOGETHER):
        some = slice(start, min(n, start + TOGETHER))
        mine = [part[some] if part.ndim else part[None] for part in parts]
        state = _Generators(_pool(seed, mine), wanted[some].shape[0])
        _fill(numbers, ends[some] - wanted[some], wanted[some], state)
    return numbers


def _fill(numbers: Floats, starts: Ints, wanted: Ints, state: _Generators) -> None:
    """Write every generator's draws to its place in `numbers` (OUT)."""
    going = np.arange(wanted.shape[0])
    for turn in range(int(wanted.max())):
        staying = wanted[going] > turn
        if not staying.all():
            going = going[staying]
            state.keep(staying)
        numbers[starts[going] + turn] = state.next()


class _Generators:
    """Many PCG64 generators, each seeded by its own pool."""

    def __init__(self, pool: list[Words], n: int) -> None:
        words = [np.broadcast_to(word, (n,)) for word in _read(pool, 8)]
        longs = [
            words[i].astype(np.uint64) | (words[i + 1].astype(np.uint64) << _WORD)
            for i in range(0, 8, 2)
        ]
        high, low, first, second = longs
        one = np.uint64(1)
        self._inc_high = (first << one) | (second >> np.uint64(63))
        self._inc_low = (second << one) | one
        self._low = self._inc_low + low
        self._high = self._inc_high + high + (self._low < low).astype(np.uint64)
        self._step()

    def keep(self, staying: NDArray[np.bool_]) -> None:
        """Forget the generators that are not wanted any more."""
        self._inc_high, self._inc_low = self._inc_high[staying], self._inc_low[staying]
        self._high, self._low = self._high[staying], self._low[staying]

    def next(self) -> Floats:
        """Return the next number of each."""
        self._step()
        mixed = self._high ^ self._low
        turn = self._high >> np.uint64(58)
        back = (np.uint64(64) - turn) & np.uint64(63)
        drawn = (mixed >> turn) | (mixed << back)
        numbers: Floats = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return numbers

    def _step(self) -> None:
        """Multiply by the constant and add the increment, modulo 2^128."""
        high, low = self._high, self._low
        product = low * _LOW
        high = _upper(low, _LOW) + high * _LOW + low * _HIGH
        self._low = product + self._inc_low
        carry = (self._low < product).astype(np.uint64)
        self._high = high + self._inc_high + carry


def _upper(a: Longs, b: np.uint64) -> Longs:
    """Return the upper 64 bits of a product."""
    a_high, a_low = a >> _WORD, a & _MASK
    b_high, b_low = b >> _WORD, b & _MASK
    cross = a_high * b_low + ((a_low * b_low) >> _WORD)
    other = a_low * b_high + (cross & _MASK)
    upper: Longs = a_high * b_high + (cross >> _WORD) + (other >> _WORD)
    return upper


class _Hash:
    """The running constant that every word is hashed with."""

    def __init__(self, start: int, factor: int) -> None:
        self._now, self._factor = start, factor

    def __call__(self, word: Words) -> Words:
        """Hash one word of every generator."""
        mixed = word ^ np.uint32(self._now)
        self._now = (self._now * self._factor) & 0xFFFFFFFF
        mixed = mixed * np.uint32(self._now)
        return mixed ^ (mixed >> _HALF)


def _pool(seed: int, key: list[Words]) -> list[Words]:
    """Mix the seed and the spawn keys into pools of four words."""
    words = [np.array([word], dtype=np.uint32) for word in _words(seed)]
    words += [np.zeros(1, dtype=np.uint32)] * (POOL - len(words))
    words += key
    hashed = _Hash(_INIT_IN, _MULT_IN)
    pool = [hashed(word) for word in words[:POOL]]
    for source in range(POOL):
        for target in range(POOL):
            if source != target:
                pool[target] = _mix(pool[target], hashed(pool[source]))
    for word in words[POOL:]:
        for target in range(POOL):
            pool[target] = _mix(pool[target], hashed(word))
    return pool


def _words(seed: int) -> list[int]:
    """Return a number's 32-bit words, lowest first; 0 has one."""
    words = [seed & 0xFFFFFFFF]
    while seed := seed >> 32:
        words.append(seed & 0xFFFFFFFF)
    return words


def _mix(a: Words, b: Words) -> Words:
    mixed: Words = a * _LEFT - b * _RIGHT
    return mixed ^ (mixed >> _HALF)


def _read(pool: list[Words], n: int) -> list[Words]:
    """Read n words out of pools."""
    hashed = _Hash(_INIT_OUT, _MULT_OUT)
    return [hashed(pool[i % POOL]) for i in range(n)]

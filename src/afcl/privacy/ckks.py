# SPDX-License-Identifier: Apache-2.0
"""CKKS by TenSEAL: whole numbers in, ciphertexts as whole numbers out, exact sums.

Cheon, Kim, Kim and Song (2017), Homomorphic Encryption for Arithmetic of Approximate
Numbers, ASIACRYPT; at SEAL's parameters for 128 bits of security.

CKKS is approximate and its error depends on the secret key, so that handing out what
was decrypted can give the key away (Li and Micciancio, 2021, On the Security of
Homomorphic Encryption on Approximate Numbers). Here numbers are whole and cut into
digits that are small beside the precision: what is opened is rounded, is exact, and so
tells nothing of the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import refuse_unless
from afcl.exceptions import InputError, RejectedMessage

#: Degree of the polynomials of CKKS.
DEGREE = 4096
#: Bits of the two primes. Sums need one prime beside the special one, and 109 bits in
#: all are safe at this degree.
PRIMES = (54, 55)
#: What a number is multiplied by before it is rounded.
FACTOR = 2.0**25
#: A number is cut into so many digits ...
DIGITS = 3
#: ... of so many bits: 51 in all, as `masks` allows.
BITS = 17
#: Numbers in one ciphertext.
PER_CIPHERTEXT = DEGREE // 2 // DIGITS
#: Members whose digits can be added without running over (500 a cohort, see `needed`).
MOST_MEMBERS = 1000
#: Opened digits further than this from whole numbers are no sum of honest parts.
_OFF = 0.25
#: Bytes are filled up to whole blocks, so that messages have the same length again.
_BLOCK = 1024
#: No ciphertext and no key (pair) is longer.
_LARGEST = 1 << 18


# ------------------------------------------------------------------ the library


def library() -> Any:
    """Return TenSEAL, or say in one line how to get it."""
    try:
        import tenseal
    except ImportError:
        raise InputError(
            "the privacy level 'secure(he)' needs TenSEAL: pip install 'afcl[he]'"
        ) from None
    return tenseal


def needed(cohort: int) -> None:
    """Say in one line if the library is missing or cohorts are too large for it."""
    library()
    if 2 * cohort > MOST_MEMBERS:
        raise InputError(
            f"cohort is {cohort}: under 'secure(he)' it must be at most "
            f"{MOST_MEMBERS // 2}"
        )


def new_context() -> Any:
    """Return a context with a new key pair."""
    tenseal = library()
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=list(PRIMES), n_threads=1
    )
    context.global_scale = FACTOR
    return context


def bytes_of(context: Any, secret: bool) -> bytes:
    """Return a context as it is stored, with or without the secret key."""
    serialized = context.serialize(
        save_public_key=True,
        save_secret_key=secret,
        save_galois_keys=False,
        save_relin_keys=False,
    )
    return bytes(serialized)


# TenSEAL stores a context as two fields, written tag, length, content: the parameters,
# and a second one with the public key (again tag, length, content), flags and factor.
# Only the public key travels; all the rest is put around it by who receives it, because
# the parameters of a stranger could make the library build contexts of any size.

#: Tag of the field that the public key is in.
_TAG_PUBLIC = b"\x12"
#: Tag of the key within it.
_TAG_KEY = b"\x0a"
#: Flags and factor: two and nine bytes.
_TAIL = 11


@lru_cache(maxsize=1)
def _around() -> tuple[bytes, bytes]:
    """Return what stands before and behind the public key in every context of ours."""
    serialized = bytes_of(new_context(), secret=False)
    length, start = _varint(serialized, 1)
    return serialized[: start + length], serialized[-_TAIL:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that starts at a place, and where the next thing starts."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def public_key_of(context: Any) -> bytes:
    """Return the public key out of a context."""
    serialized = bytes_of(context, secret=False)
    before, _ = _around()
    _, at = _varint(serialized, len(before) + 1)
    length, start = _varint(serialized, at + 1)
    return serialized[start : start + length]


@lru_cache(maxsize=4)
def _public_context(key: bytes) -> Any:
    """Return a context of our parameters that encrypts and adds, and cannot read."""
    before, tail = _around()
    inside = _TAG_KEY + _as_varint(len(key)) + key + tail
    serialized = before + _TAG_PUBLIC + _as_varint(len(inside)) + inside
    return _loaded("public key", library().context_from, serialized, 1)


def _loaded(what: str, load: Any, *arguments: Any) -> Any:
    """Return what the library makes of bytes, or refuse them."""
    try:
        return load(*arguments)
    except (ValueError, RuntimeError) as error:
        raise RejectedMessage(f"this is no {what}: {error}") from error


# ------------------------------------------------------------------ bytes in numbers


def pack(blobs: Sequence[bytes]) -> Ints:
    """Return bytes as whole numbers: how many, their lengths, then each in blocks."""
    head = np.array([len(blobs), *(len(blob) for blob in blobs)], dtype="<i8")
    filled = [blob + bytes(-len(blob) % _BLOCK) for blob in blobs]
    body = np.frombuffer(b"".join(filled), dtype="<i8")
    return np.concatenate([head, body]).astype(np.int64)


def unpack(values: Ints, expected: int) -> list[bytes]:
    """Return the bytes again; refuse numbers that :func:`pack` has not made."""
    shaped = values.dtype == np.int64 and values.ndim == 1
    refuse_unless(
        shaped and values.shape[0] > expected and int(values[0]) == expected,
        f"expected {expected} pieces of bytes",
    )
    lengths = values[1 : expected + 1].tolist()
    refuse_unless(
        all(0 < length <= _LARGEST for length in lengths), "a piece is too long"
    )
    sizes = [length + -length % _BLOCK for length in lengths]
    body = values[expected + 1 :].astype("<i8").tobytes()
    refuse_unless(len(body) == sum(sizes), "the pieces do not fill the message")
    starts = np.cumsum([0, *sizes])
    return [body[a : a + n] for a, n in zip(starts, lengths, strict=False)]


# ------------------------------------------------------------------ ciphertexts


def _in_digits(numbers: Ints) -> list[Floats]:
    """Return the slots of every ciphertext: all low digits, then all higher ones."""
    pieces = max(1, -(-numbers.shape[0] // PER_CIPHERTEXT))
    filled = np.zeros((pieces, PER_CIPHERTEXT), dtype=np.int64)
    filled.ravel()[: numbers.shape[0]] = numbers
    low = [(filled >> (BITS * i)) & ((1 << BITS) - 1) for i in range(DIGITS - 1)]
    digits = np.concatenate([*low, filled >> (BITS * (DIGITS - 1))], axis=1)
    spare = DEGREE // 2 - digits.shape[1]
    return list(np.pad(digits, ((0, 0), (0, spare))).astype(np.float64))


def _from_digits(slots: Floats, width: int) -> Ints | None:
    """Return the numbers behind opened slots, None unless they are whole and small."""
    whole = np.rint(slots)
    small = np.abs(whole) <= MOST_MEMBERS * 2.0**BITS
    if not bool(np.all(small & (np.abs(slots - whole) < _OFF))):
        return None
    used = whole[:, : DIGITS * PER_CIPHERTEXT].astype(np.int64)
    digits = used.reshape(-1, DIGITS, PER_CIPHERTEXT)
    numbers = sum(digits[:, i] << (BITS * i) for i in range(DIGITS))
    return np.asarray(numbers, dtype=np.int64).ravel()[:width]


def encrypt(public: Ints, numbers: Ints) -> Ints:
    """Return numbers encrypted under a public key."""
    tenseal = library()
    context = context_behind(public)
    return pack(
        [
            bytes(tenseal.ckks_vector(context, slots.tolist()).serialize())
            for slots in _in_digits(numbers)
        ]
    )


def context_behind(public: Ints) -> Any:
    """Return the context of a packed public key."""
    return _public_context(unpack(public, 1)[0])


def vectors_of(context: Any, values: Ints, width: int) -> list[Any]:
    """Return the ciphertexts of so many numbers, checked."""
    load = library().ckks_vector_from
    pieces = max(1, -(-width // PER_CIPHERTEXT))
    vectors = [_loaded("ciphertext", load, context, b) for b in unpack(values, pieces)]
    first = context.seal_context().data.first_parms_id()
    for vector in vectors:
        inside = vector.ciphertext()
        refuse_unless(
            vector.size() == DEGREE // 2
            and len(inside) == 1
            and inside[0].size() == 2
            and inside[0].scale == FACTOR
            and inside[0].parms_id() == first
            and not inside[0].is_transparent(),
            "a ciphertext must be fresh, and hold the agreed number of digits",
        )
    return vectors


def add(public: Ints, parts: Sequence[Ints]) -> Ints | None:
    """Add ciphertexts; None if two of them cancel, which no honest ones do."""
    context = context_behind(public)
    width = PER_CIPHERTEXT * int(parts[0][0])
    members = [vectors_of(context, values, width) for values in parts]
    totals = []
    for pieces in zip(*members, strict=True):
        total = pieces[0].copy()
        try:
            for piece in pieces[1:]:
                total.add_(piece)
        except (ValueError, RuntimeError):
            return None
        totals.append(bytes(total.serialize()))
    return pack(totals)


def decrypt(context: Any, total: Ints, width: int) -> Ints | None:
    """Return the numbers behind a sum, None if it is no sum of honest parts."""
    vectors = vectors_of(context, total, width)
    return _from_digits(np.array([each.decrypt() for each in vectors]), width)

# SPDX-License-Identifier: Apache-2.0
"""Pairwise masks: a client's part of a cohort's sum, unreadable without all others.

Every two members of a cohort agree on a key (X25519, HKDF-SHA256) and draw the same
stream from it (ChaCha20); one adds it to its numbers, the other subtracts it, modulo
2^64. In the sum over the cohort all masks cancel, in every smaller sum at least one is
left, and a sum with a mask in it is uniform. Bonawitz et al. (2017), Practical Secure
Aggregation, CCS; without its recovery of drop-outs: a cohort that loses a member is
dissolved and asked anew.

Who carries the public keys from client to client could exchange them: the masks protect
from a server that looks, not from one that lies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import Cells, payload
from afcl.core.tasks import COUNT, UNIT, Part, Task
from afcl.exceptions import InputError, RejectedMessage
from afcl.kernels import assign
from afcl.privacy.noise import Noise

#: Different tasks on counts that a client answers in a run: more than a cohort that
#: loses members needs, too few to find rows by asking again and again.
MOST_COUNTS = 8
#: The same of tasks on sums, which say more.
MOST_SUMS = 3
#: Sums up to this many units fit into 64 bits with room for a cohort of thousands.
_LARGEST = 2.0**50


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a client works on under `secure`: rows for sums, cells for its hello.

    Attributes
    ----------
    rows
        Its rows, or under `dp` the synopsis that was released for them.
    cells
        What the companion level lets it say in the clear.
    secret
        Its private key, 32 bytes.
    """

    rows: Floats | Cells
    cells: Cells
    secret: bytes


@payload
@dataclass(frozen=True, slots=True)
class Asked:
    """What a client remembers: digests of the different tasks it has answered."""

    counts: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import x25519
        from cryptography.hazmat.primitives.kdf import hkdf
    except ImportError:
        raise InputError(
            "the privacy level 'secure' needs cryptography: pip install 'afcl[privacy]'"
        ) from None
    return hashes, serialization, x25519, hkdf


def public_key(secret: bytes) -> str:
    """Return the public key of a private one, in hexadecimal."""
    _, serialization, x25519, _ = _library()
    private = x25519.X25519PrivateKey.from_private_bytes(secret)
    raw = private.public_key().public_bytes(
        serialization.Encoding.Raw, serialization.PublicFormat.Raw
    )
    return str(raw.hex())


def mask(
    secret: bytes, place: int, keys: Sequence[str], purpose: str, width: int
) -> Ints:
    """Return the sum of a member's masks towards all others, modulo 2^64.

    `place` is the member's own position among `keys`; `purpose` must differ for every
    use, so that no stream is ever used twice.
    """
    hashes, _, x25519, hkdf = _library()
    private = x25519.X25519PrivateKey.from_private_bytes(secret)
    total = np.zeros(width, dtype=np.uint64)
    for other, key in enumerate(keys):
        if other == place:
            continue
        try:
            peer = x25519.X25519PublicKey.from_public_bytes(bytes.fromhex(key))
            shared = private.exchange(peer)
        except ValueError as error:
            raise RejectedMessage(f"member {other} has no usable key") from error
        pair = f"{min(place, other)} {max(place, other)}"
        derive = hkdf.HKDF(
            algorithm=hashes.SHA256(),
            length=32,
            salt=None,
            info=f"afcl {purpose} {pair} {sorted((keys[place], key))}".encode(),
        )
        drawn = Noise(derive.derive(shared)).words(width).astype(np.uint64)
        total = total + drawn if place < other else total - drawn
    return total.view(np.int64)


def numbers_for(task: Task, rows: Floats | Cells) -> Ints:
    """Return a member's own numbers for a task, before they are masked.

    Counting: rows per group. Summing: rows, then per group the sum of rows and of
    their squared norms in units of 2^-16.
    """
    points = rows.means if isinstance(rows, Cells) else rows
    weights = rows.counts if isinstance(rows, Cells) else np.ones(points.shape[0])
    inside = rows.scatters if isinstance(rows, Cells) else np.zeros(points.shape[0])
    nearest, _ = assign(points, task.seeds)
    groups = task.groups[nearest]
    k = int(task.groups.max()) + 1
    counts = np.bincount(groups, weights=weights, minlength=k)
    if task.phase == COUNT:
        return counts.astype(np.int64)
    squares = weights * (points * points).sum(axis=1) + inside
    columns = [*(weights * points.T), squares]
    sums = np.stack(
        [np.bincount(groups, weights=each, minlength=k) for each in columns], axis=1
    )
    scaled = np.rint(sums / UNIT)
    if not bool(np.all(np.abs(scaled) < _LARGEST)):
        raise InputError(
            "the sums are too large for fixed-point numbers: bring the columns to a "
            "common scale"
        )
    return np.concatenate([counts, scaled.ravel()]).astype(np.int64)


def digest(task: Task) -> str:
    """Return what is the same for all members of a task and for no other task."""
    digest = hashlib.sha256(f"{task.cohort} {task.phase} {task.members}".encode())
    digest.update("".join(task.keys).encode())
    digest.update(f"{task.seeds.shape} {task.groups.shape}".encode())
    digest.update(task.seeds.tobytes())
    digest.update(task.groups.tobytes())
    return digest.hexdigest()


def answer(task: Task, sealed: Sealed, asked: Asked | None) -> tuple[Part, Asked]:
    """Return a member's masked part of a cohort's sum, and what it remembers."""
    check_task(task, sealed)
    name = digest(task)
    remembered = remember(asked or Asked(), task.phase, name)
    own = numbers_for(task, sealed.rows)
    hidden = mask(sealed.secret, task.place, task.keys, name, own.shape[0])
    masked = own.view(np.uint64) + hidden.view(np.uint64)
    return Part(task.cohort, task.phase, masked.view(np.int64)), remembered


def check_task(task: Task, sealed: Sealed) -> None:
    """Refuse a task that no honest server gives to this client."""
    members = len(task.members)
    if not (
        members >= 3
        and len(task.keys) == members == len(set(task.keys))
        and 0 <= task.place < members
        and task.keys[task.place] == public_key(sealed.secret)
    ):
        raise RejectedMessage("a cohort has at least 3 members with a key each")
    width = sealed.cells.means.shape[1]
    fits = task.seeds.ndim == 2 and task.seeds.shape[1] == width
    if not fits or task.groups.shape != task.seeds.shape[:1]:
        raise RejectedMessage("every seed needs a group, and the agreed columns")
    whole = task.seeds.dtype == np.float64 and task.groups.dtype == np.int64
    if not whole or not bool(np.isfinite(task.seeds).all()):
        raise RejectedMessage("seeds must be finite, and groups whole numbers")
    if task.groups.shape[0] == 0 or not bool(
        np.all((task.groups >= 0) & (task.groups < task.groups.shape[0]))
    ):
        raise RejectedMessage("every seed needs a group")


def remember(asked: Asked, phase: str, name: str) -> Asked:
    """Note a task; refuse when a client has been asked too many different things."""
    counts, sums = asked.counts, asked.sums
    if phase == COUNT:
        counts = counts if name in counts else (*counts, name)
    else:
        sums = sums if name in sums else (*sums, name)
    if len(counts) > MOST_COUNTS or len(sums) > MOST_SUMS:
        raise RejectedMessage("this client has been asked for too many different sums")
    return Asked(counts, sums)

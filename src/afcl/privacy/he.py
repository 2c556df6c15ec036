# SPDX-License-Identifier: Apache-2.0
"""The cohort's sums under CKKS, for those who ask for homomorphic encryption.

The first member of a cohort makes a key pair and keeps the secret half. All members
encrypt their numbers under the public half, the server adds what it cannot read, and
the first member opens the sum (:mod:`afcl.privacy.ckks`).

This protects from a server that looks. The holder of the key and the server together
can read every member's numbers, and a server that lies can have one ciphertext opened
instead of the sum, or hand out a key of its own. Under pairwise masks
(:mod:`afcl.privacy.masks`) all other members would have to help it: they are the
default.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from afcl._typing import Ints
from afcl.core.cohort_answers import numbers_for
from afcl.core.messages import payload, refuse_unless
from afcl.core.params import DefaultParams
from afcl.core.tasks import (
    KEY,
    OPENING,
    SUM,
    Part,
    Question,
    Task,
    Threshold,
    check_numbers,
)
from afcl.exceptions import RejectedMessage
from afcl.privacy import ckks
from afcl.privacy.masks import (
    Asked,
    Sealed,
    check_task,
    digest,
    remember,
)


@dataclass(frozen=True, slots=True)
class Ciphertexts:
    """Numbers encrypted under the key of a cohort's first member."""

    @property
    def keyed(self) -> bool:
        """The first member makes the key and opens the sums."""
        return True

    def check(self, phase: str, values: Ints, width: int, key: Ints | None) -> None:
        """Refuse what is no public key, no ciphertext or no opened sum."""
        if phase == KEY:
            ckks.context_behind(values)
        elif phase in OPENING:
            assert key is not None
            ckks.vectors_of(ckks.context_behind(key), values, width)
        else:
            check_numbers(values, width)

    def add(self, parts: Sequence[Ints], key: Ints | None) -> Ints | None:
        """Add ciphertexts; None if somebody sent two that cancel."""
        assert key is not None
        return ckks.add(key, parts)


# ------------------------------------------------------------------ a member


@payload
@dataclass(frozen=True, slots=True)
class Held:
    """What a client remembers under `secure(he)`; it never leaves the site.

    Attributes
    ----------
    asked
        What it has answered.
    cohort, public, key
        The cohort whose key it holds, a digest of the public half, and the key pair,
        encrypted under the site's own secret: the file it lies in gives nothing away.
    opened
        Digests of the sums it has opened, after the question each of them answers.
    """

    asked: Asked = field(default_factory=Asked)
    cohort: str = ""
    public: str = ""
    key: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    opened: tuple[str, ...] = ()


def answer(
    task: Task, sealed: Sealed, held: Held | None, params: DefaultParams
) -> tuple[Part, Held]:
    """Return a member's answer, and what it remembers."""
    check_task(task, sealed, params)
    # The parameters leave room for so many sums, and a sum that wraps around is no sum.
    refuse_unless(len(task.members) <= ckks.MOST_MEMBERS, "the cohort is too large")
    held = held or Held()
    if task.phase == KEY:
        values, held = _give_key(task, sealed, held)
    elif task.phase in OPENING:
        values, held = _give_part(task, sealed, held, params)
    else:
        values, held = _open(task, sealed, held, params.threshold)
    return Part(task.cohort, task.phase, values), held


def _name(task: Task) -> str:
    """Return what is the same for everything that is asked of one cohort."""
    name = f"{task.cohort} {task.members} {task.keys}"
    return hashlib.sha256(name.encode()).hexdigest()


def _digest(values: Ints) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()


def _give_key(task: Task, sealed: Sealed, held: Held) -> tuple[Ints, Held]:
    """Make a key pair, or find the one that was made for this cohort."""
    refuse_unless(task.place == 0, "a cohort's first member makes its key")
    name = _name(task)
    # The same key again: another one would make parts of the others unreadable.
    if held.cohort == name:
        context = _own_context(sealed, held)
        return ckks.pack([ckks.public_key_of(context)]), held
    context = ckks.new_context()
    public = ckks.pack([ckks.public_key_of(context)])
    # Memory lies in a file: without the site's own secret it opens nothing.
    wrapped = _wrap(sealed.secret, name, ckks.bytes_of(context, secret=True))
    return public, replace(
        held, cohort=name, public=_digest(public), key=ckks.pack([wrapped])
    )


def _give_part(
    task: Task, sealed: Sealed, held: Held, params: DefaultParams
) -> tuple[Ints, Held]:
    """Encrypt a member's numbers; the holder does so under its own key only."""
    refuse_unless(task.public is not None, "nothing to encrypt under")
    assert task.public is not None
    own = (held.cohort, held.public) == (_name(task), _digest(task.public))
    # A server that puts in a key of its own could read every part (0027).
    refuse_unless(task.place > 0 or own, "this client has made another key")
    asked = remember(held.asked, task, digest(task), params)
    numbers = numbers_for(task.question, sealed.rows, params.threshold, sealed.known)
    values = ckks.encrypt(task.public, numbers)
    return values, replace(held, asked=asked)


def _open(
    task: Task, sealed: Sealed, held: Held, threshold: Threshold
) -> tuple[Ints, Held]:
    """Open a sum, one for each question that this client has answered itself.

    A sum without its own part, of groups too small to be shown, or that is no sum of
    numbers at all gets an answer that no sum can be, and counts as opened.
    """
    questions = {opening: question for question, opening in OPENING.items()}
    refuse_unless(task.phase in questions, f"{task.phase!r} cannot be answered")
    refuse_unless(task.total is not None, "nothing to open")
    assert task.total is not None
    question = replace(task, phase=questions[task.phase], public=None, total=None)
    name = digest(question)
    refuse_unless(
        held.cohort == _name(task) and name in (*held.asked.tasks, *held.asked.present),
        "this client holds no key for this sum",
    )
    # One sum a question: of two, the difference would be somebody's part.
    note = f"{name} {_digest(task.total)}"
    refuse_unless(
        note in held.opened or not any(each.startswith(name) for each in held.opened),
        "another sum was opened for the same question",
    )
    own = numbers_for(task.question, sealed.rows, threshold, sealed.known)
    context = _own_context(sealed, held)
    numbers = ckks.decrypt(context, task.total, own.shape[0])
    if numbers is None or not _may_be_shown(numbers, own, task.question, threshold):
        # What no sum can be: the server then goes on without this cohort.
        numbers = np.full(own.shape, -1, dtype=np.int64)
    # Also of what is not shown: it was looked at.
    if note not in held.opened:
        held = replace(held, opened=(*held.opened, note))
    return numbers, held


def _may_be_shown(
    numbers: Ints, own: Ints, question: Question, threshold: Threshold
) -> bool:
    """Whether a sum holds the client's own part, and sums no small groups."""
    if question.kind != SUM:
        return bool(np.all((numbers >= own) | (question.units != 1.0)))
    k = question.partitions[-1].n_groups
    counts, mine = (each.reshape(k, -1)[:, 0] for each in (numbers, own))
    large = k == 1 or bool(np.all((counts == 0) | (counts >= threshold.rows)))
    return bool(np.all(counts >= mine)) and large


# ------------------------------------------------------------------ the secret half


def _own_context(sealed: Sealed, held: Held) -> Any:
    """Return the context with the secret key."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    wrapped = ckks.unpack(held.key, 1)[0]
    cipher = ChaCha20Poly1305(_wrapping_key(sealed.secret))
    try:
        opened = cipher.decrypt(wrapped[:12], wrapped[12:], held.cohort.encode())
    except InvalidTag:
        raise RejectedMessage("the key of this cohort is lost") from None
    return ckks.library().context_from(opened, 1)


def _wrap(secret: bytes, name: str, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce = secrets.token_bytes(12)
    cipher = ChaCha20Poly1305(_wrapping_key(secret))
    return nonce + cipher.encrypt(nonce, data, name.encode())


def _wrapping_key(secret: bytes) -> bytes:
    return hmac.digest(secret, b"afcl: key of a cohort", "sha256")

# SPDX-License-Identifier: Apache-2.0
"""Pairwise masks: a client's part of a cohort's sum, unreadable without all others.

Every two members of a cohort agree on a key (X25519, HKDF-SHA256) and draw the same
stream from it (ChaCha20); one adds it to its numbers, the other subtracts it, modulo
2^64. In the sum over the cohort all masks cancel, in every smaller sum at least one is
left, and a sum with a mask in it is uniform. Bonawitz et al. (2017), Practical Secure
Aggregation, CCS; without its recovery of drop-outs: the members that are left of a
cohort are asked anew, under new masks.

Who carries the public keys from client to client could exchange them. So the sites of a
live run sign theirs, and check the others' before anything is masked
(:mod:`afcl.runtime.live.keyring`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from afcl._typing import AnyArray, Bools, Ints
from afcl.core.checks import check_question
from afcl.core.cohort_answers import SeedSums, View, numbers_for
from afcl.core.messages import Cells, Level, payload, refuse_unless
from afcl.core.params import DefaultParams
from afcl.core.tasks import (
    KEY,
    OPENING,
    PRESENCE,
    SUM,
    Part,
    Question,
    SeedPartition,
    Task,
    Threshold,
    check_numbers,
)
from afcl.exceptions import InputError, RejectedMessage
from afcl.privacy.noise import Noise

#: How often a client says of which groups it holds rows: twice, and once anew.
MOST_PRESENT = 3


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a client works on under `secure`: rows for sums, cells for its hello.

    Attributes
    ----------
    rows
        Its rows, or under `dp` the synopsis that was released for them.
    shown
        What the companion level lets it make its first message of.
    secret, public
        Its private key, 32 bytes, and the public one, in hexadecimal.
    plain
        Whether its parts are not masked: in a simulation, where nobody is there to
        hide them from.
    known
        What it need not read its rows again for.
    """

    rows: View
    shown: View
    secret: bytes
    public: str
    plain: bool = False
    known: SeedSums = field(default_factory=SeedSums, repr=False, compare=False)


@payload
@dataclass(frozen=True, slots=True)
class Asked:
    """What a client remembers: digests of the tasks it has answered.

    `nesting` is that of the partitions of the last sums it has given. `unread` names
    the cohort of the coarsest, until a question that only who has read them can ask.
    `present` are those that asked who holds rows, `opened` says which of the coarsest
    groups enough members did.
    """

    tasks: tuple[str, ...] = ()
    nesting: str = ""
    unread: str = ""
    present: tuple[str, ...] = ()
    opened: Ints | None = None


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
    total = np.zeros(width, dtype=np.uint64)
    for other, key in _pair_keys(secret, place, keys, purpose):
        # Modulo 2^64 a masked number is uniform: it tells nothing, however large the
        # sums.
        drawn = Noise(key).words(width).astype(np.uint64)
        # One of each two adds and the other subtracts, so that all masks cancel in the
        # sum.
        total = total + drawn if place < other else total - drawn
    return total.view(np.int64)


def _pair_keys(
    secret: bytes, place: int, keys: Sequence[str], purpose: str
) -> Iterator[tuple[int, bytes]]:
    """Yield every other member's place, and 32 bytes that only both of them know."""
    hashes, _, x25519, hkdf = _library()
    private = x25519.X25519PrivateKey.from_private_bytes(secret)
    for other, key in enumerate(keys):
        if other == place:
            continue
        try:
            peer = x25519.X25519PublicKey.from_public_bytes(bytes.fromhex(key))
            shared = private.exchange(peer)
        # Keys of small order give a secret that everybody knows; the library refuses
        # them.
        except ValueError as error:
            raise RejectedMessage(f"member {other} has no usable key") from error
        pair = f"{min(place, other)} {max(place, other)}"
        derive = hkdf.HKDF(
            algorithm=hashes.SHA256(),
            length=32,
            salt=None,
            # Bound to both keys and both places: a stream for one pair is of no use in
            # another.
            info=f"afcl {purpose} {pair} {sorted((keys[place], key))}".encode(),
        )
        yield other, derive.derive(shared)


def digest(task: Task) -> str:
    """Return what is the same for all members of a task and for no other task."""
    # The whole question goes in: asked twice with anything changed, masks differ, and
    # the difference of two answers stays hidden.
    digest = hashlib.sha256(f"{task.phase} {task.question.kind}".encode())
    digest.update(_cohort(task).encode())
    _add(digest, task.question.partitions, task.question.levels)
    if task.question.opened is not None:
        # Which groups are open changes what members tell.
        _add_arrays(digest, task.question.opened)
    return digest.hexdigest()


def _cohort(task: Task) -> str:
    """Return what is the same for everything that the same members are asked."""
    return hashlib.sha256(
        f"{task.cohort} {task.members} {task.keys}".encode()
    ).hexdigest()


def _nesting(partitions: Sequence[SeedPartition]) -> str:
    """Return what is the same for equal partitions, and for no others."""
    digest = hashlib.sha256()
    _add(digest, partitions, ())
    return digest.hexdigest()


def _add(
    digest: Any, partitions: Sequence[SeedPartition], levels: Sequence[Level]
) -> None:
    for each in partitions:
        _add_arrays(digest, each.seeds, each.parents, each.groups)
    for level in levels:
        _add_arrays(digest, level.centers, level.spreads, level.counts)


def _add_arrays(digest: Any, *arrays: AnyArray) -> None:
    for array in arrays:
        # Shapes too: the same bytes cut in another way are another question.
        digest.update(f"{array.shape}".encode())
        digest.update(array.tobytes())


def answer(
    task: Task, sealed: Sealed, asked: Asked | None, params: DefaultParams
) -> tuple[Part, Asked]:
    """Return a member's masked part of a cohort's sum, and what it remembers."""
    # Before the rows are touched: a lie must not even cost a pass over them (0027).
    check_task(task, sealed, params)
    asked = asked or Asked()
    # In a simulation nobody is there to be shown anything.
    if task.question.kind == SUM and not sealed.plain:
        check_evidence(task, sealed, asked, params.threshold)
    remembered = remember(asked, task, digest(task), params)
    own = numbers_for(task.question, sealed.rows, params.threshold, sealed.known)
    return sealed_part(task, sealed, own), remembered


def sealed_part(task: Task, sealed: Sealed, own: Ints) -> Part:
    """Return a member's own numbers as they leave: masked, presences with tags."""
    if sealed.plain:
        return Part(task.cohort, task.phase, own)
    values, tags = _masked(task, sealed, own), None
    if task.question.kind == PRESENCE:
        # Members show each other who holds what: the server adds up, but is not
        # believed.
        tags = _tags(task, sealed, np.tile(values, (len(task.keys), 1)), task.place)
    return Part(task.cohort, task.phase, values, tags)


def _masked(task: Task, sealed: Sealed, own: Ints) -> Ints:
    """Return a member's own numbers under its masks."""
    hidden = mask(sealed.secret, task.place, task.keys, digest(task), own.shape[0])
    return (own.view(np.uint64) + hidden.view(np.uint64)).view(np.int64)


def _tags(task: Task, sealed: Sealed, values: Ints, sender: int | None = None) -> Ints:
    """Return by what members show each other that they have said it, (members, 2).

    Row i of `values` is what member i says (or the `sender` to it). Only the two of
    them know the key.
    """
    tags = np.zeros((len(task.keys), 2), dtype=np.int64)
    # Another stream than the masks': a tag must not tell a mask.
    purpose = f"tag {digest(task)}"
    for other, key in _pair_keys(sealed.secret, task.place, task.keys, purpose):
        who = other if sender is None else sender
        message = f"{who} ".encode() + values[other].tobytes()
        tags[other] = np.frombuffer(
            hmac.digest(key, message, "sha256")[:16], dtype="<i8"
        )
    return tags


def check_evidence(
    task: Task, sealed: Sealed, asked: Asked, threshold: Threshold
) -> None:
    """Refuse sums of groups that are not shown to be held by enough members.

    Everybody's masked presence is there to be added up; that nobody has changed it show
    the tags, and this member's own answer.
    """
    question, evidence = task.question, task.evidence
    refuse_unless(
        question.opened is not None and evidence is not None,
        "sums are given of groups that are shown to be held by enough members",
    )
    assert question.opened is not None
    assert evidence is not None
    *coarser, last = question.partitions
    check_numbers(evidence.groups, last.groups.shape[0])
    # Sums may be of joined groups; who holds rows was asked of the groups before
    # joining.
    asked_for = SeedPartition(last.seeds, last.parents, evidence.groups)
    about = Question(PRESENCE, (*coarser, asked_for))
    before = replace(task, phase=PRESENCE, question=about, evidence=None)
    refuse_unless(
        digest(before) in asked.present, "nobody was asked who holds these groups"
    )
    check_numbers(evidence.parts, about.width, len(task.members))
    check_numbers(evidence.tags, 2, len(task.members))
    numbers = numbers_for(about, sealed.rows, threshold, sealed.known)
    # Masked once more: the same question has the same masks, so this must be what was
    # said.
    own = _masked(before, sealed, numbers)
    refuse_unless(
        np.array_equal(evidence.parts[task.place], own)
        and np.array_equal(_tags(before, sealed, evidence.parts), evidence.tags),
        "who holds these groups was changed on the way",
    )
    # The member adds up itself: masks cancel in front of it as they do at the server.
    total = evidence.parts.view(np.uint64).sum(axis=0, dtype=np.uint64)
    enough = threshold.opened(total.view(np.int64))
    refuse_unless(
        _may_be_opened(question, asked_for, enough, asked.opened),
        f"a group would be opened that fewer than {threshold.holders} members hold",
    )


def _may_be_opened(
    question: Question, shown: SeedPartition, enough: Bools, before: Ints | None
) -> bool:
    """Whether every group that everybody sums is held by enough members.

    Of finer groups, unions of those `shown`, inside coarse ones that are open: each has
    a part that is, or is all of the coarse one.
    """
    bits, last = question.opened, question.partitions[-1]
    assert bits is not None
    if len(question.partitions) == 1:
        same = np.array_equal(last.groups, shown.groups)
        return same and bool(np.all(enough | (bits == 0)))
    if before is None or not np.array_equal(bits, before):
        return False
    into = np.zeros(shown.n_groups, dtype=np.int64)
    into[shown.groups] = last.groups
    if not np.array_equal(into[shown.groups], last.groups):
        return False
    good = np.zeros(last.n_groups, dtype=np.bool_)
    good[into[enough]] = True
    alone = np.bincount(last.outer)[last.outer] == 1
    return bool(np.all(good | alone | (bits[last.outer] == 0)))


def check_task(task: Task, sealed: Sealed, params: DefaultParams) -> None:
    """Refuse a task that no honest server gives to this client."""
    members = len(task.members)
    if not (
        members >= 3
        and len(task.keys) == members == len(set(task.keys))
        and 0 <= task.place < members
        and task.keys[task.place] == sealed.public
    ):
        raise RejectedMessage("a cohort has at least 3 members with a key each")
    own = sealed.rows
    width = own.means.shape[1] if isinstance(own, Cells) else own.shape[1]
    check_question(task.question, width, params)
    kind = task.question.kind
    if task.phase not in (KEY, kind, OPENING[kind]):
        raise RejectedMessage(f"{task.phase!r} cannot be answered")


def remember(asked: Asked, task: Task, name: str, params: DefaultParams) -> Asked:
    """Note a task; refuse what an honest server does not ask a client for.

    That is more different things than `passes` and one recovery, and sums that do not
    lie inside those that were given before: their differences would be few rows. Sums
    that were never read, because a member was lost, may be asked anew of the others.
    """
    present = task.question.kind == PRESENCE
    # The same question again has the same masks, hence the same bytes: it tells nothing
    # new.
    if name in (asked.present if present else asked.tasks):
        return asked
    most = MOST_PRESENT if present else params.passes + 1
    if len(asked.present if present else asked.tasks) >= most:
        raise RejectedMessage("this client has been asked for too many different sums")
    partitions, cohort = task.question.partitions, _cohort(task)
    coarsest = len(partitions) == 1
    # Only if nobody can have read the sums that were given: their masks never
    # cancelled.
    anew = coarsest and asked.unread not in ("", cohort)
    inside = not partitions or _nesting(partitions[:-1]) == asked.nesting
    # The difference of two sums must be a sum of groups that were shown anyway (0025).
    if asked.nesting and not (inside or anew):
        raise RejectedMessage("groups do not lie inside those that were summed before")
    if present:
        return replace(asked, present=(*asked.present, name))
    nesting, unread = asked.nesting, asked.unread if coarsest else ""
    opened = asked.opened
    if task.question.kind == SUM:
        nesting, unread = _nesting(partitions), cohort if coarsest else ""
        opened = task.question.opened
    return Asked((*asked.tasks, name), nesting, unread, asked.present, opened)

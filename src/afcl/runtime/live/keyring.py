# SPDX-License-Identifier: Apache-2.0
"""Whom a site is summed with: their keys, as it was given them or met them first.

Masks hide a site's numbers from everybody as long as the keys behind them are those of
other sites. The coordinator carries these keys, so every member signs its own, and
checks everybody's before it masks anything. Whose identities are right the site knows
from a list (``afcl join --members``), or, without one, from the first time: who comes
with another key later is refused.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from afcl.core.messages import Addressed, Hello, refuse_unless
from afcl.core.tasks import Proof, SecureHello, Task
from afcl.core.terms import AskStep, Terms
from afcl.exceptions import InputError, NothingSent, RejectedMessage
from afcl.privacy.files import alone, write_private
from afcl.privacy.identity import (
    fingerprint,
    identity_of,
    mask_key,
    private_key,
    read_public,
    sign,
    verify,
)
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.announcement import check_name
from afcl.runtime.live.membership import Membership

#: The members that a site has met, in its home.
MEMBERS = "members.json"


def task_of(asked: Any) -> Task | None:
    """Return the task of a cohort that a request gives, if it gives one."""
    if not isinstance(asked, AskStep) or not isinstance(asked.payload, Addressed):
        return None
    return asked.payload.own if isinstance(asked.payload.own, Task) else None


def with_proof(member: Membership, terms: Terms, reply: bytes) -> bytes:
    """Return a hello that says whose its mask key is, if it has one."""
    hello: Hello = decode(reply)
    greeting = hello.payload
    if not isinstance(greeting, SecureHello):
        return reply
    private = private_key(Path(member.key))
    about = mask_key(terms.run, terms.client, member.name, greeting.key)
    proof = Proof(member.name, identity_of(private), sign(private, about))
    return encode(replace(hello, payload=replace(greeting, proof=proof)))


def acquainted(member: Membership, home: Path, terms: Terms, task: Task) -> Membership:
    """Return the site that has met the members of its cohort, or refuse them.

    A site without a key takes everybody, as nobody can tell who anybody is.
    """
    if not member.key:
        return member
    own = identity_of(private_key(Path(member.key)))
    found = _proven(member.name, own, terms, task)
    if member.members:
        _compare_listed(found, listed(Path(member.members)), member.name)
    else:
        _compare_met(found, home / MEMBERS, own)
    mark = fingerprint(found.items())
    met = member.met if mark in member.met else (*member.met, mark)
    return replace(member, met=met)


def _proven(name: str, own: str, terms: Terms, task: Task) -> dict[str, str]:
    """Return the identities of a cohort by name, each shown by a signature."""
    n, proofs = len(task.members), task.proofs
    if proofs is None:
        raise RejectedMessage(f"{name} has a key, and is summed with nobody without")
    refuse_unless(
        len(proofs) == len(task.keys) == len(set(task.members)) == n
        and 0 <= task.place < n,
        "every member of a cohort has one number, one key and one signature",
    )
    mine = (task.members[task.place], proofs[task.place].name)
    refuse_unless(
        (*mine, proofs[task.place].identity) == (terms.client, name, own),
        f"{name} stands in this cohort as somebody else",
    )
    for client, key, proof in zip(task.members, task.keys, proofs, strict=True):
        check_name(proof.name)
        message = mask_key(terms.run, client, proof.name, key)
        refuse_unless(
            verify(proof.identity, message, proof.signature),
            f"the mask key of {proof.name} is not signed by its key: it may have been "
            "exchanged",
        )
    found = {proof.name: proof.identity for proof in proofs}
    refuse_unless(
        len(found) == len(set(found.values())) == n,
        "two members of a cohort have the same name or the same key",
    )
    return found


def listed(path: Path) -> dict[str, str]:
    """Read a list of members; the error names no path."""
    try:
        return read_public(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError):
        raise InputError("the list of --members cannot be read") from None


def _compare_listed(found: dict[str, str], known: dict[str, str], own: str) -> None:
    """Refuse whom the site's own list does not name with this key."""
    for name, identity in found.items():
        refuse_unless(
            name == own or known.get(name) == identity,
            f"{name} is not in the list of --members of {own} with this key: ask its "
            "people, then add its line",
        )


def _compare_met(found: dict[str, str], path: Path, own: str) -> None:
    """Refuse who had another key before; remember the others.

    By the site's own key: where it has another one, it is among others.
    """
    with alone(path):
        everybody = _opened(path)
        known = everybody.get(own, {})
        for name, identity in found.items():
            refuse_unless(
                known.get(name, identity) == identity,
                f"{name} has another key than before: ask its people; if it is theirs, "
                f"join with --members FILE, or take {name} out of {path.name}",
            )
        if not found.items() <= known.items():
            everybody[own] = {**known, **found}
            _put(path, everybody)


def _opened(path: Path) -> dict[str, dict[str, str]]:
    try:
        content = path.read_text(encoding="utf-8") if path.is_file() else "{}"
        return {own: dict(known) for own, known in json.loads(content).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        raise InputError(
            f"{path.name} in the site's home cannot be read: restore it, or delete it "
            "if all members are to be met anew"
        ) from None


def _put(path: Path, everybody: dict[str, dict[str, str]]) -> None:
    content = json.dumps(everybody, indent=2, sort_keys=True) + "\n"
    try:
        write_private(path, content.encode())
    except OSError as error:
        raise NothingSent(
            f"cannot write {path.name}, so nothing is sent: {error.strerror or error}"
        ) from None

# SPDX-License-Identifier: Apache-2.0
"""A site that takes no part: by its own promises, or because it could not answer.

What a site insists on it holds against every coordinator. Where a run asks for more the
site declines, says so to its own people, and takes nothing home that it gave nothing
for, unless they want the labels anyway.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from afcl.core.tasks import SecureHello
from afcl.core.terms import AskHello, AskStep, Finish
from afcl.exceptions import AfclError, RejectedMessage
from afcl.runtime.codec import decode
from afcl.runtime.live.membership import (
    DECLINED,
    JOINED,
    Membership,
    keep_membership,
    open_membership,
)


class Declined(RejectedMessage):
    """Terms under which a site takes no part."""


def note_hindrance(folder: Path, asked: Any, error: AfclError) -> None:
    """Remember why a site has said nothing of its rows yet.

    Terms that it does not accept are the end; anything else may pass.
    """
    if not isinstance(asked, AskHello | AskStep | Finish):
        return
    member = open_membership(folder)
    if member.described or member.run not in ("", asked.terms.run):
        return
    member = replace(member, hindered=str(error))
    if isinstance(error, Declined):
        member = replace(member, state=DECLINED, reason=str(error))
    keep_membership(folder, member)


def note_answer(folder: Path, member: Membership, asked: Any, reply: bytes) -> None:
    """Remember that a site has said something of its rows.

    A hello that brings no more than a mask key says nothing of them.
    """
    if member.described:
        return
    spoke_of_rows = isinstance(asked, AskStep)
    spoke_of_rows = spoke_of_rows or not isinstance(decode(reply).payload, SecureHello)
    state = JOINED if member.state == DECLINED else member.state
    changed = replace(member, described=spoke_of_rows, hindered="", state=state)
    if changed != member:
        keep_membership(folder, changed)


def goes_home_empty(member: Membership) -> bool:
    """Whether a site that hears the end took no part, by its own decision."""
    return not member.described and bool(member.hindered) and not member.labels_anyway

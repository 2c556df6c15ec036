# SPDX-License-Identifier: Apache-2.0
"""A site that stays: numbered answers, each in a folder of its own.

The runs of a federation that goes on are called ``FEDERATION.NUMBER``. For each of them
the site works as in any other run, in ``answers/NUMBER`` below its folder: with terms,
secrets and steps of its own. What belongs to all of them stands above.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from afcl.core.terms import News
from afcl.exceptions import RejectedMessage
from afcl.owner_only import write_whole
from afcl.runtime.live.membership import (
    JOINED,
    SITE,
    WAITING,
    Membership,
    keep_membership,
    open_membership,
)
from afcl.runtime.live.take_home import LABELED
from afcl.runtime.results import RESULT

#: The folders of the answers, below that of a site or of the coordinator.
ANSWERS = "answers"
#: The files of rows as they were when they were last read.
SEEN = "seen.json"


class MemberPlace(NamedTuple):
    """Where a request is answered, and as whom."""

    folder: Path
    member: Membership


def run_name(federation: str, number: int) -> str:
    """Return what the run of a numbered answer is called."""
    return f"{federation}.{number}"


def split_run(run: str) -> tuple[str, int]:
    """Return the federation and the number of a run; 0 for a run that is no answer."""
    federation, dot, number = run.rpartition(".")
    if dot and number.isascii() and number.isdecimal() and len(number) < 10:
        return federation, int(number)
    return run, 0


def answer_folder(folder: Path, number: int) -> Path:
    """Return where a numbered answer is, at a site and at the coordinator."""
    return folder / ANSWERS / f"{number:04d}"


def place_for(folder: Path, member: Membership, run: str, begins: bool) -> MemberPlace:
    """Return where a request of a run is answered; `begins`: it may be the first one.

    Raises
    ------
    RejectedMessage
        If the site does not stay for numbered answers, is in another federation, or if
        a later answer has begun.
    """
    federation, number = split_run(run)
    if not number:
        return MemberPlace(folder, member)
    if not member.stays:
        raise RejectedMessage(
            f"{member.name} is here for one answer and this federation goes on: join "
            "with --stay, and --runs for how many answers"
        )
    if member.run not in ("", federation):
        raise RejectedMessage(f"{member.name} takes part in another federation")
    own = answer_folder(folder, number)
    if number == member.begun and (own / SITE).is_file():
        return MemberPlace(own, open_membership(own))
    # Going back to an older answer would let it be asked beyond its limits.
    if number <= member.begun or not begins:
        raise RejectedMessage(
            f"{member.name} is at answer {member.begun}, this is a request of {number}"
        )
    fresh = replace(
        member,
        stays=False,
        begun=0,
        answered=0,
        run="",
        fingerprint="",
        rows="",
        asked="",
        terms="",
        steps=(),
        summed="",
        state=WAITING,
        reason="",
        met=(),
        notes=(),
        described=False,
        hindered="",
    )
    keep_membership(own, fresh)
    _keep_seen(own, member)
    begun = replace(member, run=federation, begun=number, state=JOINED)
    keep_membership(folder, begun)
    return MemberPlace(own, fresh)


def publish(folder: Path, place: MemberPlace, run: str) -> None:
    """Put a finished answer's labels and result where the newest ones are."""
    number = split_run(run)[1]
    if not number or not (place.folder / RESULT).is_file():
        return
    for name in (LABELED, RESULT):
        # Put in place whole: people may be reading the last answer.
        part = folder / f"{name}.part"
        shutil.copyfile(place.folder / name, part)
        part.replace(folder / name)
    member, met = open_membership(folder), open_membership(place.folder).met
    keep_membership(folder, replace(member, answered=number, met=met))


def news(folder: Path, member: Membership, run: str) -> News:
    """Say which answer the site is at, and whether its rows have changed since."""
    if not member.stays or member.run not in ("", run):
        raise RejectedMessage(f"{member.name} does not stay in this federation")
    changed = member.begun > 0 and _changed(answer_folder(folder, member.begun), member)
    return News(run, member.name, member.begun, changed)


def _changed(own: Path, member: Membership) -> bool:
    """Whether the rows are others than those of the answer in a folder.

    They are read only if their files are not as they were.
    """
    before = open_membership(own).fingerprint
    # By sizes and times first: reading a large table every few seconds would be too
    # much.
    if not before or _seen(member) == _kept_seen(own):
        return False
    if member.own_rows().source.fingerprint() != before:
        return True
    _keep_seen(own, member)
    return False


def _seen(member: Membership) -> list[list[Any]]:
    """Return the files of the rows with their sizes and times."""
    data = Path(member.data)
    files = sorted(data.rglob("*")) if data.is_dir() else [data]
    found = []
    for file in files:
        about = file.stat()
        found.append([str(file), about.st_size, about.st_mtime_ns])
    return found


def _keep_seen(own: Path, member: Membership) -> None:
    write_whole(own / SEEN, json.dumps(_seen(member)).encode())


def _kept_seen(own: Path) -> object:
    try:
        return json.loads((own / SEEN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

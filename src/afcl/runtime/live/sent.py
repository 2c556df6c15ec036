# SPDX-License-Identifier: Apache-2.0
"""A site's own record of what has left it: when, to whom, what, how much, which bytes.

A line of JSON is added to `sent.jsonl` in the site's folder, and to the one in its
home, which outlives its runs, **before** an answer is handed to the engine. Lines are
never changed. The answers themselves are kept only if the site asks for it
(``afcl join --keep-sent``), in the folder `sent`, named by their digests.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from afcl.core.messages import Hello, Update
from afcl.core.tasks import Part, SecureHello
from afcl.core.terms import Aside, AskAnnouncement, News, Noted
from afcl.exceptions import CodecError, InputError, NothingSent
from afcl.owner_only import make_folder, owner_only, write_whole
from afcl.privacy.files import alone
from afcl.privacy.levels import HE, parse_level
from afcl.runtime.codec import decode
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.live.membership import Membership, open_membership
from afcl.runtime.live.views import home_folder
from afcl.runtime.site import settled

#: The record, in the site's folder and in its home.
SENT = "sent.jsonl"
#: Kept answers, below the site's folder.
KEPT = "sent"
#: What a line of text is called that says why there is no answer.
REFUSAL = "refusal"


@dataclass(frozen=True)
class Sent:
    """One message that has left the site.

    Attributes
    ----------
    at
        When, in UTC (ISO 8601).
    site, run, to
        Who said it, in which run, and the coordinator's address as ``afcl join`` was
        given it.
    message
        What it was: an announcement, a first summary, a masked part, …
    level
        The run's privacy level, "" before the site is told one.
    bytes, sha256
        Size and digest of what was handed to the engine.
    kept
        Where it is kept, below the site's folder; "" if it is not.
    """

    at: str
    site: str
    run: str
    to: str
    message: str
    level: str
    bytes: int
    sha256: str
    kept: str = ""


def record_answer(
    folder: Path, home: Path, member: Membership, request: bytes, reply: bytes
) -> None:
    """Write down an answer that is about to leave; without that it must not."""
    asked = decode(request)
    terms = getattr(asked, "terms", None)
    level = ""
    if terms is not None:
        method, parameters = settled(terms)
        level = method.disclosure(parameters).level or method.name
    run = asked.run if terms is None else terms.run
    message = kind_of(asked, decode(reply), level)
    _record(folder, home, member, run, message, level, reply)


def record_refusal(folder: Path, request: bytes, text: str) -> None:
    """Write down a line that is about to leave in place of an answer."""
    try:
        member = open_membership(folder)
    except InputError:
        # Even a site whose folder cannot be read writes down what it says.
        member = Membership("", "")
    home = Path(member.home) if member.home else home_folder()
    _record(folder, home, member, _run_of(request), REFUSAL, "", text.encode())


def read_sent(folder: Path) -> tuple[list[Sent], list[str]]:
    """Return what has left a site by its folder or home, and what cannot be read."""
    path = folder / SENT
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(
            f"{folder} has no record of what was sent ({error.strerror}): give the "
            "--out of 'afcl join', or its --home"
        ) from None
    sent, damaged = [], []
    for number, line in enumerate(lines, start=1):
        try:
            sent.append(Sent(**json.loads(line)))
        except (ValueError, TypeError):
            damaged.append(f"line {number} of {path} cannot be read")
    return sent, damaged


def kind_of(asked: Any, answer: Any, level: str) -> str:
    """Say what an answer is, for people."""
    match answer:
        case Announcement() if isinstance(asked, AskAnnouncement) and asked.extremes:
            return "announcement with extremes and medians"
        case Announcement():
            return "announcement"
        case Noted():
            return "receipt"
        case News():
            return "news"
        case Aside():
            return "word that it has too few rows"
        case Hello(payload=SecureHello()):
            return "first summary and mask key"
        case Hello():
            return "first summary"
        case Update(payload=Part(phase=phase)):
            how = "encrypted" if parse_level(level).scheme == HE else "masked"
            return f"{how} part ({phase})"
    return "summary"


def _run_of(request: bytes) -> str:
    """Return the run that a request names, "" if it cannot be read."""
    try:
        asked = decode(request)
    except CodecError:
        return ""
    return str(getattr(getattr(asked, "terms", asked), "run", ""))


def _record(
    folder: Path,
    home: Path,
    member: Membership,
    run: str,
    message: str,
    level: str,
    content: bytes,
) -> None:
    digest = hashlib.sha256(content).hexdigest()
    kept = f"{KEPT}/{digest}.bin" if member.keep_sent else ""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    to = (member.name, run, member.coordinator)
    entry = Sent(at, *to, message, level, len(content), digest, kept)
    try:
        if kept:
            write_whole(folder / kept, content)
        # In the home as well: the folder of a run may be deleted.
        _append(dict.fromkeys([folder / SENT, home / SENT]), asdict(entry))
    except OSError as error:
        raise NothingSent(
            f"cannot write down what is sent ({error.filename or SENT}: "
            f"{error.strerror or error}), so nothing is sent"
        ) from None


def _append(paths: Iterable[Path], entry: dict[str, Any]) -> None:
    """Add a line that lasts through a power cut, after one that was cut off too."""
    line = json.dumps(entry).encode() + b"\n"
    for path in paths:
        make_folder(path.parent)
        with alone(path), open(path, "a+b", opener=owner_only) as file:
            # A power cut may have left half a line, which would spoil this one too.
            if file.tell() and not _ends_a_line(file):
                file.write(b"\n")
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")

# SPDX-License-Identifier: Apache-2.0
"""What a site has answered in its run: the same request gets the same answer.

A request is sent again when its answer seems lost. The site may have moved on since it
answered (a method remembers things), and what it said must not be said in other words.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
from pathlib import Path

from afcl.owner_only import write_whole
from afcl.runtime.live.membership import Membership

#: The folder of answers, in the site's folder.
SAID = "said"
_LENGTH = struct.Struct("<Q")


def remembered(
    folder: Path, member: Membership, request: bytes
) -> tuple[bytes, bytes] | None:
    """Return what was answered to a request, and the method's memory after it.

    None if it was never answered, or with other rows.
    """
    try:
        content = _place(folder, member, request).read_bytes()
    except FileNotFoundError:
        return None
    (length,) = _LENGTH.unpack_from(content)
    middle = _LENGTH.size + length
    return content[_LENGTH.size : middle], content[middle:]


def remember(
    folder: Path, member: Membership, request: bytes, reply: bytes, memory: bytes
) -> None:
    """Keep an answer, and the memory that belongs to it, before either counts."""
    content = _LENGTH.pack(len(reply)) + reply + memory
    write_whole(_place(folder, member, request), content)


def forget(folder: Path) -> None:
    """Remove all answers: the run is over."""
    shutil.rmtree(folder / SAID, ignore_errors=True)


def _place(folder: Path, member: Membership, request: bytes) -> Path:
    content = f"{member.run} {member.fingerprint} ".encode() + request
    return folder / SAID / hashlib.sha256(content).hexdigest()

# SPDX-License-Identifier: Apache-2.0
"""What a site says when it cannot answer: little to the coordinator, all to its owner.

An error may name a file, a line of it, a cell or a number made of rows. To the other
side go only refusals, which were written for it; for everything else stands one line.
The whole text is kept in the site's folder, where ``afcl join`` finds it.
"""

from __future__ import annotations

from pathlib import Path

from afcl.core.terms import Aside
from afcl.durable import in_words
from afcl.exceptions import RejectedMessage
from afcl.owner_only import write_whole
from afcl.runtime.codec import decode, encode
from afcl.runtime.live.declining import Declined
from afcl.runtime.live.member import answer
from afcl.runtime.live.sent import record_refusal
from afcl.runtime.live.site_disk import leave_word, trouble_with_disk
from afcl.texts import plain

#: The newest trouble, in the site's folder.
TROUBLE = "trouble.txt"
#: Longest trouble that is kept.
LONGEST = 2000
#: What the coordinator hears instead of it.
KEPT_HERE = "this site cannot answer; the reason is in its own folder"


def answer_or_reason(folder: Path, request: bytes) -> tuple[bytes, str]:
    """Return a site's answer, or no bytes and the reason that the coordinator is told.

    Nothing is raised, so that the engine has nothing of its own to tell.
    """
    try:
        return answer(folder, request), ""
    except (Exception, SystemExit) as error:
        _keep(folder, error)
        reason = _recorded(folder, request, for_the_other_side(error))
        if isinstance(error, Declined):  # it is not asked again, and hears the end
            return encode(Aside(decode(request).terms.run, reason)), ""
        return b"", reason


def for_the_other_side(error: BaseException) -> str:
    """Return the line about an error that may leave the site.

    A refusal is told as it is, unless it was made from another error: then it may
    repeat that one's words.

    Examples
    --------
    >>> for_the_other_side(ValueError("rows.csv, row 7: 'Smith' is no number"))
    'this site cannot answer; the reason is in its own folder'
    >>> for_the_other_side(RejectedMessage("a site takes part in one run only"))
    'a site takes part in one run only'
    """
    is_refusal = isinstance(error, RejectedMessage) and error.__cause__ is None
    return plain(str(error)) if is_refusal else KEPT_HERE


def _recorded(folder: Path, request: bytes, text: str) -> str:
    """Return the line once it is in the site's record; if it cannot be, nothing of it.

    Whatever fails here must not reach the engine.
    """
    try:
        record_refusal(folder, request, text)
    except Exception:
        return KEPT_HERE
    return text


def read_trouble(folder: Path) -> str:
    """Return the newest trouble of the site in a folder, "" if it has had none."""
    try:
        return plain((folder / TROUBLE).read_text(encoding="utf-8"), LONGEST)
    except FileNotFoundError:
        return ""


def _keep(folder: Path, error: BaseException) -> None:
    """Keep the whole text for the owner.

    On a disk that takes nothing there is room for that, and only for that.
    """
    disk = trouble_with_disk(error)
    if disk is not None:
        leave_word(folder, disk)
        return
    text = plain(f"{error}" or type(error).__name__, LONGEST)
    if not isinstance(error, RejectedMessage | ValueError):
        text = f"{type(error).__name__}: {text}"
    try:
        write_whole(folder / TROUBLE, f"{text}\n".encode())
    except OSError as refused:
        leave_word(folder, in_words(refused))

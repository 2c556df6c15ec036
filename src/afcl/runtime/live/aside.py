# SPDX-License-Identifier: Apache-2.0
"""The answer of a site that takes no part, and is told the end all the same."""

from __future__ import annotations

from afcl.core.terms import Aside
from afcl.exceptions import RejectedMessage
from afcl.runtime.codec import decode
from afcl.runtime.transport import Failure, Reply

#: Longest message that says that a site takes no part, in bytes.
LONGEST = 1 << 12
#: What is written down of such a site that gives no reason.
WHY = "takes no part, for want of rows without gaps; they are labelled at the end"


def reason_aside(answer: Reply | Failure) -> str | None:
    """Return why a site takes no part, None unless it says so.

    Longer answers are not looked at here: the coordinator decodes those, once.
    """
    if isinstance(answer, Failure) or len(answer.data) > LONGEST:
        return None
    try:
        reply = decode(answer.data)
    except RejectedMessage:
        return None
    return (reply.reason or WHY) if isinstance(reply, Aside) else None

# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, in words for people.

Every class has a part of docs/errors.md: what it means, why, what to do. Warnings end
with the reference, errors carry it as a note below the message.
"""

from __future__ import annotations

from typing import Any

#: The page on all of them.
PAGE = "docs/errors.md"


def reference(kind: type[BaseException]) -> str:
    """Return where a class is explained: its own part, or that of the nearest base."""
    own = next(each for each in kind.__mro__ if each.__module__ == __name__)
    return f"{PAGE}#{own.__name__.lower()}"


class AfclError(Exception):
    """Base of every error this package raises on purpose."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.add_note(f"See {reference(type(self))}")


class InputError(AfclError, ValueError):
    """The input cannot be used; the message says what to do about it."""


class NothingSent(InputError):
    """A site cannot write what must be written before it says something."""


class RejectedMessage(AfclError, ValueError):
    """A message failed validation; the receiver's state did not change."""


class CodecError(RejectedMessage):
    """Bytes that are not a message of this protocol version."""


class JournalError(AfclError):
    """A checkpoint that belongs to another run, or cannot be read."""


class Interrupted(AfclError):
    """Somebody stopped it; the message says how to go on."""


class Terminated(Interrupted):
    """Somebody asked the process to end (SIGTERM); the message says how to go on."""


class Stopped(AfclError):
    """It cannot go on now, and nothing is lost; the message says why and how it can."""


class AfclWarning(UserWarning):
    """Base of every warning of this package; its text ends with where to read more."""

    def __str__(self) -> str:
        return f"{super().__str__()} (see {reference(type(self))})"


class PrivacyWarning(AfclWarning):
    """A chosen level sends more than summaries; the text says what."""


class SmallClientsWarning(AfclWarning):
    """Clients are too small to show the clusters within them; the text says more."""


class ColumnWarning(AfclWarning):
    """Something of a column was left out, or lacks; the text says what and why."""


class OwnersWarning(AfclWarning):
    """What is ignored looks like the owners of rows; the text says what to pass."""


class SuspicionWarning(AfclWarning):
    """Data that may spoil the answer look odd; the text says what and where."""


class TrustWarning(AfclWarning):
    """The number of clusters should not be believed as it is; the text says why."""

# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, in words for people."""

from __future__ import annotations


class AfclError(Exception):
    """Base of every error this package raises on purpose."""


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


class PrivacyWarning(UserWarning):
    """A chosen level sends more than summaries; the text says what."""


class SmallClientsWarning(UserWarning):
    """Clients are too small to show the clusters within them; the text says more."""


class ColumnWarning(UserWarning):
    """Something of a column was left out; the text says what and why."""


class TrustWarning(UserWarning):
    """The number of clusters should not be believed as it is; the text says why."""

# SPDX-License-Identifier: Apache-2.0
"""What a level of a category is called where its name must not be read.

A hash under a key that only the sites have tells the coordinator nothing but which of
them mean the same. Without such a key it is made without any secret: it keeps a name
from being read, not from being guessed and checked. It is the same in every run, so
that a site says the same of the same rows again, and not something new.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from afcl.core.terms import HASHED, NAMES
from afcl.data.features import level_key
from afcl.data.spelling import name_key
from afcl.exceptions import InputError

#: Digits of a hash: a collision among fifty levels is one in millions.
DIGITS = 8
#: How a hash begins.
HASH = "#"
#: Stands for the key that is no secret.
PUBLIC = "public"


def strictest(*ways: str) -> str:
    """Return the way for names to travel that reveals the least.

    Examples
    --------
    >>> strictest("hashed", "clear")
    'hashed'
    """
    return max(ways, key=NAMES.index)


def names_key(path: str) -> bytes:
    """Return what names are hashed with: the content of a file, or no secret at all."""
    if not path:
        return PUBLIC.encode()
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"--names-key {path} cannot be read: {error.strerror}"
        ) from error
    if not key:
        raise InputError(f"--names-key {path} is empty: put a secret into it")
    return key


def mark_of(path: str, key: bytes, run: str) -> str:
    """Return what shows whether two sites have the same key, and nothing of it."""
    return _digits(key, f"the key itself, in {run}") if path else PUBLIC


def hashed(level: str, column: str, key: bytes) -> str:
    """Return what stands for the name of a level.

    Examples
    --------
    >>> hashed("Male ", "Sex", b"secret") == hashed("male", "sex", b"secret")
    True
    """
    return HASH + _digits(key, f"{name_key(column)}\0{level_key(level)}")


def wire_name(level: str, column: str, names: str, key: bytes) -> str:
    """Return a level as it travels."""
    return hashed(level, column, key) if names == HASHED else level


def _digits(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:DIGITS]

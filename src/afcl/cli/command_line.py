# SPDX-License-Identifier: Apache-2.0
"""What was typed, as a run's folder and its page remember it."""

from __future__ import annotations

import shlex
from contextvars import ContextVar
from pathlib import Path

#: The words of the command that is under way, without the program's own name.
typed: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())


def command_line() -> str:
    """Return the command under way; "" where there is none.

    Of paths only the last part stays: a page that is passed on need not say where
    somebody keeps files.
    """
    words = [Path(word).name if _is_path(word) else word for word in typed.get()]
    return f"afcl {shlex.join(words)}" if words else ""


def _is_path(word: str) -> bool:
    return "/" in word and not word.startswith("-") and bool(Path(word).name)

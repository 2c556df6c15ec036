# SPDX-License-Identifier: Apache-2.0
"""The time before every line of a command that runs for long, where a log is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

#: Commands that a supervisor keeps running, and whose output is a log therefore.
LASTING = ("serve", "join")


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Stamped:
    """A stream for text that begins every line with the time."""

    def __init__(self, stream: TextIO, clock: Callable[[], str] = now) -> None:
        self._stream, self._clock = stream, clock
        self._at_start = True

    def write(self, text: str) -> int:
        """Write text, and the time where a line begins."""
        if not isinstance(text, str):  # who tries finds out that this is for text
            raise TypeError(f"text is written here, no {type(text).__name__}")
        for line in text.splitlines(keepends=True):
            if self._at_start:
                self._stream.write(f"{self._clock()} ")
            self._stream.write(line)
            self._at_start = line.endswith("\n")
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def stamped_lines(words: list[str]) -> Iterator[None]:
    """Begin lines with the time while a lasting command runs, but on a terminal.

    Its help is no log.
    """
    if words[:1] not in [[command] for command in LASTING] or "--help" in words:
        yield
        return
    before = sys.stdout, sys.stderr
    if not sys.stdout.isatty():
        sys.stdout = Stamped(sys.stdout)
    if not sys.stderr.isatty():
        sys.stderr = Stamped(sys.stderr)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stdout, sys.stderr = before

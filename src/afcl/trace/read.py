# SPDX-License-Identifier: Apache-2.0
"""Traces read from files: finished ones whole, growing ones bit by bit."""

from __future__ import annotations

import json
from pathlib import Path

from afcl.exceptions import InputError
from afcl.trace.record import Event, Trace, check, check_fields


def read_trace(path: Path | str) -> Trace:
    """Read a JSONL trace; a last line cut off by a crash is left out.

    Raises
    ------
    InputError
        If the file is damaged, not a trace, or of another schema.
    """
    lines = Path(path).read_bytes().splitlines()
    if lines and not _is_json(lines[-1]):
        del lines[-1]
    trace = Trace()
    trace.events = check(_event(line, i, path) for i, line in enumerate(lines, start=1))
    return trace


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _event(line: bytes, number: int, path: Path | str) -> Event:
    """Return a line of a trace as an event, or say which line is none."""
    try:
        event = json.loads(line)
    except ValueError as error:
        raise InputError(f"line {number} of {path} is not JSON") from error
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise InputError(f"line {number} of {path} is not an event")
    return event


class TraceTail:
    """A trace that is still being written, read as it grows."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._offset = 0
        self._n_lines = 0

    def read(self) -> list[Event]:
        """Return the events that were written since the last call.

        A line whose end is not there yet waits for the next call; a file that does not
        exist yet has no events.

        Raises
        ------
        InputError
            As :func:`read_trace` does.
        """
        if not self._path.is_file():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [self._next(line) for line in whole.splitlines()]

    def _next(self, line: bytes) -> Event:
        self._n_lines += 1
        event = _event(line, self._n_lines, self._path)
        check_fields(event, self._n_lines)
        return event

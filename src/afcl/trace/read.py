# SPDX-License-Identifier: Apache-2.0
"""Traces read from files: finished ones whole, growing ones bit by bit."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from afcl.exceptions import InputError
from afcl.trace.record import Event, Trace, check, check_fields, check_schema


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


def readable(path: Path | str) -> tuple[list[Event], list[int]]:
    """Return the events of a trace that can be read, and the lines that cannot.

    A last line cut off by a crash is neither. A schema that this version does not know
    is refused.
    """
    data = Path(path).read_bytes()
    whole, lines = data.endswith(b"\n"), data.splitlines()
    events: list[Event] = []
    lost: list[int] = []
    for number, line in enumerate(lines, start=1):
        try:
            event = _event(line, number, path)
            check_fields(event, number)
        except InputError:
            if whole or number < len(lines):
                lost.append(number)
            continue
        events.append(event)
    if events and events[0]["event"] == "run":
        check_schema(events[0])
    elif lines and 1 not in lost:
        lost.insert(0, 1)  # it is JSON, and not how a trace begins
    return events, lost


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
    """A trace that is still being written, read as it grows.

    Attributes
    ----------
    damaged
        How many lines were passed over, as they could not be read.
    began_anew
        Whether the last call began at the first line again: the file was made anew.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._start()

    def _start(self) -> None:
        self._offset = 0
        self._n_lines = 0
        self._read = hashlib.sha256()
        self._file: tuple[int, int] | None = None
        self.damaged = 0
        self.began_anew = False

    def read(self) -> list[Event]:
        """Return the events that were written since the last call.

        A line whose end is not there yet waits for the next call; a file that does not
        exist yet has no events. A line that is none is passed over: whoever writes the
        file will mend it.
        """
        if not self._path.is_file():
            return []
        with self._path.open("rb") as file:
            self.began_anew = self._is_another(file)
            if self.began_anew:
                self._start()
                self.began_anew = True
            file.seek(self._offset)
            data = file.read()
            about = os.fstat(file.fileno())
        self._file = (about.st_dev, about.st_ino)
        whole = data[: data.rfind(b"\n") + 1]
        self._read.update(whole)
        self._offset += len(whole)
        return list(self._events(whole.splitlines()))

    def _is_another(self, file: BinaryIO) -> bool:
        """Whether the file was replaced by one that begins otherwise."""
        about = os.fstat(file.fileno())
        if self._file in (None, (about.st_dev, about.st_ino)):
            return False
        return hashlib.sha256(file.read(self._offset)).digest() != self._read.digest()

    def _events(self, lines: Iterable[bytes]) -> Iterator[Event]:
        for line in lines:
            self._n_lines += 1
            try:
                event = _event(line, self._n_lines, self._path)
                check_fields(event, self._n_lines)
            except InputError:
                self.damaged += 1
                continue
            yield event

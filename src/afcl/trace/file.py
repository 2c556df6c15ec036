# SPDX-License-Identifier: Apache-2.0
"""A trace that is written to a file as it grows, and gone on with after a crash.

A trace that is damaged is made again: what the journal tells is told anew while the
run is taken up from it, and put in order with what is left of the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from afcl.durable import replacing
from afcl.owner_only import owner_only, put_aside
from afcl.trace.read import readable
from afcl.trace.record import Event, Trace, to_line

#: What is told anew, whatever is left of it: the journal alone knows what is still so.
_RETOLD = ("hello", "update", "prepare")
#: In which order the events of one tick happen; those that are not here are in between.
_ORDER = {"run": 0, "ranges": 2, "agreed": 3, "send": 4, "prepare": 6, "resumed": 7}
_EARLY = {"note": 1, "refused": 1}
_ELSE = 5


class TraceFile:
    """The trace of a run in a file, for its owner alone.

    Attributes
    ----------
    trace
        Its events; what is added is written at once.
    damage
        What could not be read of the file, in one line; "": it was whole.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        events, lost = readable(path) if path.is_file() else ([], [])
        self.damage = ""
        self.trace = Trace(self._write, self._in_order)
        self.trace.events = events
        self._stamps: dict[tuple[Any, ...], float] | None = None
        if lost:
            aside = put_aside(path, path.read_bytes())
            self.damage = (
                f"{path.name} was damaged ({_lines(lost)}): it is made again from what "
                f"the journal has; a copy of the damaged file is {aside.name}"
            )
        else:
            self._rewrite()  # without a line that was cut off
        self._file = path.open("a", encoding="utf-8") if not lost else None

    def mend(self, opening: Iterable[Event], told_again: bool) -> None:
        """Prepare for events to be told again; what is left is kept.

        Parameters
        ----------
        opening
            How the run began.
        told_again
            Whether the run will be taken up, and so tell the rest.
        """
        known = self.trace.events
        self._stamps = {_key(e): e["at"] for e in known if "at" in e}
        have = {_who(event) for event in known}
        left = [event for event in known if not _is_retold(event)]
        missing = [event for event in opening if _who(event) not in have]
        self.trace.events = sorted([*missing, *left], key=_place)
        if not told_again:
            self._in_order()

    def _in_order(self) -> None:
        """Put what was told again where it belongs, and go on from there."""
        if self._stamps is None:
            return
        self._stamps = None
        self.trace.events.sort(key=_place)
        self._rewrite()
        if self._file is not None:
            self._file.close()
        self._file = self._path.open("a", encoding="utf-8")

    def _rewrite(self) -> None:
        with replacing(self._path, opener=owner_only) as file:
            file.write("".join(to_line(event) + "\n" for event in self.trace.events))

    def _write(self, event: Event) -> None:
        if self._stamps is not None:
            event["at"] = self._stamps.get(_key(event), event.get("at"))
            return
        assert self._file is not None
        self._file.write(to_line(event) + "\n")
        self._file.flush()

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()


def _is_retold(event: Event) -> bool:
    # Why somebody was shut out, the journal does not say.
    shut_out = event["event"] == "left" and "reason" in event
    return event["event"] in (*_RETOLD, "left") and not shut_out


def _place(event: Event) -> tuple[int, int]:
    kind, tick = event["event"], event.get("tick", 0)
    if tick == 0 and kind in _EARLY:
        return tick, _EARLY[kind]
    return tick, _ORDER.get(kind, _ELSE)


def _who(event: Event) -> tuple[Any, ...]:
    return event["event"], event.get("client")


def _key(event: Event) -> tuple[Any, ...]:
    """Return what tells an event from all others."""
    return tuple(event.get(name) for name in ("event", "tick", "client", "contact"))


def _lines(numbers: list[int]) -> str:
    """Say which lines.

    Examples
    --------
    >>> _lines([3]), _lines([3, 7]), _lines([3, 7, 8, 9, 10])
    ('line 3', 'lines 3, 7', '5 lines from line 3 on')
    """
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    if len(numbers) < 5:
        return f"lines {', '.join(map(str, numbers))}"
    return f"{len(numbers)} lines from line {numbers[0]} on"

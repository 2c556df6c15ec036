# SPDX-License-Identifier: Apache-2.0
"""What a trace is made of, and how it is written: one JSON object a line.

The first line is always a ``run`` event with the schema's number; docs/trace.md
describes every event. Readers ignore fields they do not know; a field's meaning never
changes within a schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from afcl._typing import Ints
from afcl.exceptions import InputError

#: Version of the events below; a reader refuses every other one.
SCHEMA = 1

#: The events of schema 1 and the fields each of them always has.
EVENTS: dict[str, tuple[str, ...]] = {
    "run": ("schema", "run", "method", "parameters", "seed", "clients"),
    "ranges": ("tick", "client", "rows", "bytes"),
    "agreed": ("tick", "columns", "rows"),
    "refused": ("tick", "name", "reason"),
    "note": ("tick", "text"),
    "resumed": ("tick",),
    # What many clients did at once, in columns; see `each`.
    "batch": ("tick", "of", "client"),
    # Written before there was `batch`: numbers of clients, not who they were.
    "hellos": ("tick", "clients", "rows", "array_bytes"),
    "updates": ("tick", "clients", "version", "array_bytes"),
    "send": ("tick", "client", "contact", "version", "bytes"),
    "hello": ("tick", "client", "contact", "rows", "bytes", "array_bytes"),
    "update": (
        "tick",
        "client",
        "contact",
        "version",
        "staleness",
        "bytes",
        "array_bytes",
    ),
    "rejected": ("tick", "client", "contact", "reason"),
    "duplicate": ("tick", "client"),
    "failure": ("tick", "client", "contact", "reason"),
    "left": ("tick", "client"),
    "prepare": ("tick", "round", "k", "objective", "version", "movement"),
    "end": ("tick", "round", "k", "reason", "messages", "bytes"),
}

#: What is in these fields, apart from those of batches.
_KINDS: dict[str, type] = {
    **dict.fromkeys(("tick", "client", "contact", "version", "round"), int),
    **dict.fromkeys(("rows", "bytes"), int),
    **dict.fromkeys(("name", "text", "reason"), str),
    "columns": list,
}

Event: TypeAlias = dict[str, Any]


def _plain(value: Any) -> Any:
    """Turn arrays and NumPy scalars into what JSON knows."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a trace cannot hold a {type(value).__name__}")


def to_line(event: Event) -> str:
    """Return one event as a line of strict JSON; what is not finite becomes null."""
    compact = (",", ":")
    try:
        return json.dumps(event, default=_plain, separators=compact, allow_nan=False)
    except ValueError:
        known = json.loads(json.dumps(event, default=_plain), parse_constant=_null)
        return json.dumps(known, separators=compact)


def _null(_: str) -> None:
    """Stand in for NaN and the infinities."""


class Trace:
    """Events in order, in memory.

    `listener` hears each one as it happens, `restored` when an interrupted run has been
    taken up.
    """

    def __init__(
        self,
        listener: Callable[[Event], None] | None = None,
        restored: Callable[[], None] | None = None,
    ) -> None:
        self.events: list[Event] = []
        self._listener = listener
        self._restored = restored

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def add(self, event: str, **fields: Any) -> None:
        """Append an event; its fields are fixed to plain values at once."""
        record: Event = json.loads(to_line({"event": event, **fields}))
        self.events.append(record)
        if self._listener is not None:
            self._listener(record)

    def add_batch(self, event: str, clients: Ints, **fields: Any) -> None:
        """Append one event for the same thing at many clients, in columns.

        A field is one value for all of them, or a column. Columns stay arrays until
        they are written: a list of a million numbers is far larger.
        """
        columns = {name: _compact(value) for name, value in fields.items()}
        self.events.append(
            {"event": "batch", "of": event, **columns, "client": _compact(clients)}
        )
        if self._listener is not None:
            self._listener(self.events[-1])

    def restored(self) -> None:
        """Hear that all that was known of an interrupted run has been told again."""
        if self._restored is not None:
            self._restored()

    def of(self, *kinds: str) -> list[Event]:
        """Return the events of these kinds, in order; a batch gives one per client."""
        some = (e for e in self.events if e.get("of", e["event"]) in kinds)
        return list(each(some))

    def write(self, path: Path | str) -> None:
        """Write all events to a JSONL file."""
        lines = "".join(to_line(event) + "\n" for event in self.events)
        Path(path).write_text(lines, encoding="utf-8")


def each(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events one client at a time: a batch gives one for each of its clients.

    What reads a trace reads it through this.
    """
    for event in events:
        if event["event"] != "batch":
            yield event
            continue
        fields = {name: _column(value) for name, value in event.items()}
        del fields["event"]
        kind = fields.pop("of")
        for i in range(len(fields["client"])):
            row = {k: v[i] if isinstance(v, list) else v for k, v in fields.items()}
            yield {"event": kind, **row}


def _compact(value: Any) -> Any:
    """Return a copy of a column, of as few bytes a number as its largest needs."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "i" or value.min(initial=0) < 0:
        return value.copy()
    return value.astype(np.min_scalar_type(value.max(initial=0)))


def _column(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def check(events: Iterable[Event]) -> list[Event]:
    """Return the events if they are a trace of a schema this version reads."""
    events = list(events)
    if not events or events[0].get("event") != "run":
        raise InputError("not a trace: the first event must be 'run'")
    check_schema(events[0])
    for number, event in enumerate(events, start=1):
        check_fields(event, number)
    return events


def check_schema(run: Event) -> None:
    """Refuse the first event of a trace that this version does not read."""
    if run.get("schema") != SCHEMA:
        raise InputError(
            f"trace schema {run.get('schema')} is not schema {SCHEMA}: "
            "read it with the version of afcl that wrote it"
        )


def check_fields(event: Event, number: int) -> None:
    """Refuse an event, the so-and-so-many-th, that lacks fields of its kind.

    So is one that has something else in them, as after a damage that left it JSON.
    """
    wanted = EVENTS.get(event.get("event", ""), ())
    missing = [field for field in wanted if field not in event]
    if missing:
        raise InputError(f"event {number} of the trace lacks {', '.join(missing)}")
    if event["event"] == "batch":
        return
    for field in wanted:
        kind = _KINDS.get(field)
        if kind is not None and not isinstance(event[field], kind):
            raise InputError(f"event {number} of the trace has a strange {field}")

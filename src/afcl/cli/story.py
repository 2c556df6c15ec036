# SPDX-License-Identifier: Apache-2.0
"""A live run in words, from its trace alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afcl.runtime.live.server import FAILED, Plan
from afcl.runtime.results import RESULT, TRACE

#: Answers of a client before its run can end, the hello apart.
ANSWERS = 2


@dataclass
class Told:
    """What is known of one site."""

    name: str
    rows: int = 0
    answers: int = 0
    asked_at: float | None = None
    heard_at: float | None = None
    gone: bool = False


class Story:
    """Reads a trace as it grows."""

    def __init__(self) -> None:
        self.sites: dict[int, Told] = {}
        self.refused: dict[str, str] = {}
        self.notes: list[str] = []
        self.k: int | None = None
        self.movement: float | None = None
        self.began: float | None = None
        self.end: dict[str, Any] | None = None
        self.resumed = 0
        self._took: list[float] = []
        self._at = 0

    def read(self, folder: Path) -> list[str]:
        """Return what is new since the last time, a line each."""
        path = folder / TRACE
        if not path.is_file():
            return []
        with path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        events = [json.loads(line) for line in whole.splitlines()]
        return [line for line in map(self._hear, events) if line]

    def _hear(self, event: dict[str, Any]) -> str:
        kind = event["event"]
        hear = getattr(self, f"_hear_{kind}", None)
        return "" if hear is None else str(hear(event))

    def _site(self, event: dict[str, Any]) -> Told:
        client = int(event["client"])
        return self.sites.setdefault(client, Told(f"site {client}"))

    def _hear_ranges(self, event: dict[str, Any]) -> str:
        site = self._site(event)
        back = site.gone
        site.name, site.rows, site.gone = event["name"], event["rows"], False
        site.heard_at = event.get("at")
        if back:
            return f"{site.name} is back"
        late = " late" if event["tick"] > 0 else ""
        return f"{site.name} joined{late}: {site.rows:,} rows"

    def _hear_agreed(self, event: dict[str, Any]) -> str:
        self.began = event.get("at")
        columns = ", ".join(event["columns"])
        return f"agreed on {len(event['columns'])} columns: {columns}"

    def _hear_refused(self, event: dict[str, Any]) -> str:
        self.refused[event["name"]] = event["reason"]
        return f"refused {event['name']}: {event['reason']}"

    def _hear_note(self, event: dict[str, Any]) -> str:
        self.notes.append(event["text"])
        return f"note: {event['text']}"

    def _hear_send(self, event: dict[str, Any]) -> str:
        self._site(event).asked_at = event.get("at")
        return ""

    def _hear_hello(self, event: dict[str, Any]) -> str:
        site = self._site(event)
        site.heard_at, site.asked_at, site.gone = event.get("at"), None, False
        return f"{site.name} said hello"

    def _hear_update(self, event: dict[str, Any]) -> str:
        site = self._site(event)
        if site.asked_at is not None and "at" in event:
            self._took.append(event["at"] - site.asked_at)
        site.heard_at, site.asked_at, site.gone = event.get("at"), None, False
        site.answers += 1
        return f"{site.name} answered ({site.answers})"

    def _hear_rejected(self, event: dict[str, Any]) -> str:
        return f"rejected a message of {self._site(event).name}: {event['reason']}"

    def _hear_failure(self, event: dict[str, Any]) -> str:
        site = self._site(event)
        site.asked_at = None
        return f"no answer of {site.name}: {event['reason']}"

    def _hear_left(self, event: dict[str, Any]) -> str:
        site = self._site(event)
        site.gone, site.asked_at = True, None
        return f"{site.name} is gone; what it said stays"

    def _hear_prepare(self, event: dict[str, Any]) -> str:
        self.k, self.movement = event["k"], event["movement"]
        return f"k = {self.k} so far"

    def _hear_resumed(self, event: dict[str, Any]) -> str:
        self.resumed += 1
        return "resumed"

    def _hear_end(self, event: dict[str, Any]) -> str:
        self.end = event
        return f"the end ({event['reason']}): k = {event['k']}"

    def summary(self, plan: Plan, folder: Path, now: float) -> Iterable[str]:
        """Return where the run stands, a line each."""
        yield f"{folder}: {self._state(plan, folder)}"
        if self.k is not None:
            yield f"k = {self.k} so far; the seeds have moved by {self.movement:.2g}"
        for site in self.sites.values():
            yield f"  {site.name}: {site.rows:,} rows, {self._standing(site, now)}"
        for name, reason in self.refused.items():
            yield f"  {name}: refused, {reason}"
        for text in self.notes:
            yield f"  note: {text}"

    def _state(self, plan: Plan, folder: Path) -> str:
        again = f", resumed {self.resumed} times" if self.resumed else ""
        if (folder / RESULT).is_file():
            return f"done, {len(self.sites)} sites{again}"
        if (folder / FAILED).is_file():
            said = json.loads((folder / FAILED).read_text(encoding="utf-8"))
            return f"failed: {said['reason']}"
        if self.began is None:
            return f"waiting for {plan.min_clients} sites{again}"
        left = [
            max(0, ANSWERS - site.answers)
            for site in self.sites.values()
            if not site.gone
        ]
        text = f"running, about {sum(left)} answers to come"
        if self._took and any(left):
            seconds = max(left) * sum(self._took) / len(self._took)
            text += f", perhaps {seconds:.0f} s"
        return text + again

    def _standing(self, site: Told, now: float) -> str:
        if site.gone:
            return f"gone after {site.answers} answers"
        if site.asked_at is not None:
            waiting = now - site.asked_at
            late = ", late" if waiting > 60 else ""
            return f"{site.answers} answers, asked {waiting:.0f} s ago{late}"
        return f"{site.answers} answers"

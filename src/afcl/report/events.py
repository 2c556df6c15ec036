# SPDX-License-Identifier: Apache-2.0
"""What a trace tells, gathered site by site and round by round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.trace import Event

ASKED, ANSWERED, LATE, TROUBLE = "asked", "answered", "late", "trouble"
#: Of several things in one place the weightiest is shown.
_WEIGHT = {ASKED: 0, ANSWERED: 1, LATE: 2, TROUBLE: 3}
#: Events that show that a run goes on; asking again and again does not.
_LIFE = ("ranges", "agreed", "resumed", "hello", "update", "rejected", "prepare")


@dataclass
class SiteCourse:
    """One site's part in the run."""

    name: str
    rows: int = 0
    messages: int = 0
    bytes: int = 0
    late: int = 0
    worst: int = 0
    rejected: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    gone: bool = False
    asked_at: float | None = None
    heard_at: float | None = None


@dataclass(frozen=True)
class Round:
    """One time the server has thought."""

    tick: int
    round: int
    k: int
    objective: float | None
    seeds: Floats | None


@dataclass
class Course:
    """The whole trace; `cells`: what a site did at a tick."""

    method: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    sites: dict[int, SiteCourse] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    cells: dict[tuple[int, int], str] = field(default_factory=dict)
    bytes_up: Counter[int] = field(default_factory=Counter)
    bytes_down: Counter[int] = field(default_factory=Counter)
    staleness: Counter[int] = field(default_factory=Counter)
    columns: tuple[str, ...] = ()
    low: Floats | None = None
    span: Floats | None = None
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    resumed: int = 0
    began: float | None = None
    last: float | None = None
    heard: float | None = None  # when something last came of the sites or the server
    agreed: bool = False
    end: Event | None = None

    @property
    def ticks(self) -> int:
        """Number of ticks, the hellos (0) included."""
        seen = [tick for _, tick in self.cells] + [r.tick for r in self.rounds]
        return max(seen) + 1 if seen else 0

    @property
    def seconds(self) -> float | None:
        """From the first event to the end, or to the last one."""
        if self.began is None or self.last is None:
            return None
        return max(0.0, self.last - self.began)


def course_of(events: Iterable[Event]) -> Course:
    """Gather the events of a trace."""
    course = Course()
    for event in events:
        at = event.get("at")
        if at is not None:
            course.began = at if course.began is None else course.began
            if course.end is None:
                course.last = at
        if event["event"] in _LIFE:
            course.heard = at
        hear = _HEAR.get(event["event"])
        if hear is not None:
            hear(course, event)
    return course


def _site(course: Course, event: Event) -> SiteCourse:
    client = int(event["client"])
    return course.sites.setdefault(client, SiteCourse(f"site {client}"))


def _mark(course: Course, event: Event, what: str) -> None:
    place = (int(event["client"]), int(event["tick"]))
    before = course.cells.get(place)
    if before is None or _WEIGHT[what] > _WEIGHT[before]:
        course.cells[place] = what


def _run(course: Course, event: Event) -> None:
    course.method = str(event["method"])
    course.parameters = dict(event["parameters"] or {})
    for client, name in enumerate(event["clients"] or ()):
        course.sites[client] = SiteCourse(str(name))


def _ranges(course: Course, event: Event) -> None:
    site = _site(course, event)
    site.rows, site.gone = int(event["rows"]), False
    site.name = str(event.get("name", site.name))
    site.heard_at = event.get("at")


def _agreed(course: Course, event: Event) -> None:
    course.agreed = True
    course.columns = tuple(str(name) for name in event["columns"])
    if event.get("low") is not None and event.get("span") is not None:
        course.low = np.array(event["low"], dtype=float)
        course.span = np.array(event["span"], dtype=float)


def _send(course: Course, event: Event) -> None:
    _site(course, event).asked_at = event.get("at")
    course.bytes_down[int(event["tick"])] += int(event["bytes"])
    _mark(course, event, ASKED)


def _answer(course: Course, event: Event) -> None:
    site = _site(course, event)
    site.heard_at, site.asked_at, site.gone = event.get("at"), None, False
    site.messages += 1
    site.bytes += int(event["bytes"])
    course.bytes_up[int(event["tick"])] += int(event["bytes"])
    behind = int(event.get("staleness") or 0)
    if event["event"] == "hello":
        site.rows = int(event["rows"])
    else:
        course.staleness[behind] += 1
    if behind > 0:
        site.late, site.worst = site.late + 1, max(site.worst, behind)
    _mark(course, event, LATE if behind > 0 else ANSWERED)


def _rejected(course: Course, event: Event) -> None:
    site = _site(course, event)
    site.asked_at = None
    site.rejected.append(str(event["reason"]))
    _mark(course, event, TROUBLE)


def _failure(course: Course, event: Event) -> None:
    site = _site(course, event)
    site.asked_at = None
    site.failures.append(str(event["reason"]))
    _mark(course, event, TROUBLE)


def _left(course: Course, event: Event) -> None:
    site = _site(course, event)
    site.gone, site.asked_at = True, None


def _prepare(course: Course, event: Event) -> None:
    said = event.get("seeds")
    seeds = np.array(said, dtype=float) if said else None
    if seeds is not None and (seeds.ndim != 2 or not np.isfinite(seeds).all()):
        seeds = None
    objective = event["objective"]
    course.rounds.append(
        Round(
            int(event["tick"]),
            int(event["round"]),
            int(event["k"]),
            None if objective is None else float(objective),
            seeds,
        )
    )


def _refused(course: Course, event: Event) -> None:
    course.refused[str(event["name"])] = str(event["reason"])


def _note(course: Course, event: Event) -> None:
    course.notes.append(str(event["text"]))


def _resumed(course: Course, event: Event) -> None:
    course.resumed += 1


def _end(course: Course, event: Event) -> None:
    course.end = event


_HEAR = {
    "run": _run,
    "ranges": _ranges,
    "agreed": _agreed,
    "send": _send,
    "hello": _answer,
    "update": _answer,
    "rejected": _rejected,
    "failure": _failure,
    "left": _left,
    "prepare": _prepare,
    "refused": _refused,
    "note": _note,
    "resumed": _resumed,
    "end": _end,
}

# SPDX-License-Identifier: Apache-2.0
"""What the events of a trace add up to, site by site and round by round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.trace.attendance import Attendance, rounds_by_tick
from afcl.trace.record import Event, each

#: Events that show that a run goes on; a server that asks and asks does not.
_PROGRESS = ("ranges", "agreed", "resumed", "hello", "update", "rejected", "prepare")


@dataclass
class SiteHistory:
    """One site's part in the run.

    Attributes
    ----------
    name, rows
        As the site gave them.
    messages, answers, bytes
        What was absorbed of it: all messages, those after the hello, their size.
    late, worst
        Answers to an older version, and how many versions the oldest was behind.
    rejected, failures
        Why messages were rejected, and why none came.
    gone
        Whether it has left and is not back.
    asked_at, heard_at
        When the request was sent that it has not answered yet, and when it was last
        heard; None where there is none, or the trace has no clock.
    """

    name: str
    rows: int = 0
    messages: int = 0
    answers: int = 0
    bytes: int = 0
    late: int = 0
    worst: int = 0
    rejected: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    gone: bool = False
    asked_at: float | None = None
    heard_at: float | None = None


@dataclass(frozen=True)
class ServerStep:
    """One ``prepare``: the server has worked what it heard into its clustering."""

    tick: int
    round: int
    k: int
    objective: float | None
    movement: float | None
    seeds: Floats | None


@dataclass
class RunHistory:
    """A run as far as its trace goes; events are added as they are read.

    Attributes
    ----------
    method, parameters
        As the ``run`` event gives them.
    sites
        By client number.
    steps
        Every ``prepare``, in order.
    marks
        What a site did at a tick, if anything (see :func:`~afcl.trace.attendance`).
    absences
        (client, tick it left, tick it was back or None).
    bytes_up, bytes_down
        By tick.
    staleness
        How many answers were how many versions behind.
    response_times
        Seconds from request to answer, where the trace has a clock.
    agreed, columns, low, span
        What a live run has settled.
    refused, notes, resumed
        Sites that did not fit and why, notes to the coordinator, restarts.
    began, last, progress_at
        Times of the first event, of the last one, and of the last that came of a site
        or of the server's own work.
    end
        The ``end`` event.
    """

    method: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    sites: dict[int, SiteHistory] = field(default_factory=dict)
    steps: list[ServerStep] = field(default_factory=list)
    marks: dict[tuple[int, int], Attendance] = field(default_factory=dict)
    absences: list[tuple[int, int, int | None]] = field(default_factory=list)
    bytes_up: Counter[int] = field(default_factory=Counter)
    bytes_down: Counter[int] = field(default_factory=Counter)
    staleness: Counter[int] = field(default_factory=Counter)
    response_times: list[float] = field(default_factory=list)
    agreed: bool = False
    columns: tuple[str, ...] = ()
    low: Floats | None = None
    span: Floats | None = None
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    resumed: int = 0
    began: float | None = None
    last: float | None = None
    progress_at: float | None = None
    end: Event | None = None
    _last_tick: int = -1
    _rounds: dict[int, int] = field(default_factory=dict)
    _by_tick: list[int] | None = None

    def add(self, event: Event) -> None:
        """Add the next event; kinds that are not known are passed over."""
        if event["event"] == "batch":
            for one in each([event]):
                self.add(one)
            return
        at = event.get("at")
        if at is not None:
            self.began = at if self.began is None else self.began
            if self.end is None:
                self.last = at
        if event["event"] in _PROGRESS:
            self.progress_at = at
        handler = _HANDLERS.get(event["event"])
        if handler is not None:
            handler(self, event)

    @property
    def seconds(self) -> float | None:
        """From the first event to the end, or to the last one."""
        if self.began is None or self.last is None:
            return None
        return max(0.0, self.last - self.began)

    @property
    def n_rounds(self) -> int:
        """Number of rounds, the hellos (0) included."""
        return max(self._round_numbers(), default=-1) + 1

    def round_of(self, tick: int) -> int:
        """Return the round that a tick of this trace belongs to."""
        return self._round_numbers()[tick]

    def uploaded(self) -> list[int]:
        """Return the bytes that came up in every round."""
        total = [0] * self.n_rounds
        for tick, n_bytes in self.bytes_up.items():
            total[self.round_of(tick)] += n_bytes
        return total

    def site(self, client: int) -> SiteHistory:
        """Return a site's part; live runs name their sites as they join."""
        return self.sites.setdefault(client, SiteHistory(f"site {client}"))

    def _round_numbers(self) -> list[int]:
        """Return the round of every tick seen so far."""
        if self._by_tick is None:
            # A server that was started again counts its rounds from 0 again, while its
            # ticks go on: there a tick stands for a round, as in every live run.
            known = {} if self.resumed else dict(sorted(self._rounds.items()))
            self._by_tick = rounds_by_tick(known, self._last_tick)
        return self._by_tick

    def _saw(self, tick: int) -> None:
        self._last_tick = max(self._last_tick, tick)
        self._by_tick = None


def history_of(events: Iterable[Event]) -> RunHistory:
    """Add up the events of a trace."""
    history = RunHistory()
    for event in events:
        history.add(event)
    return history


def _mark(history: RunHistory, event: Event, what: Attendance) -> None:
    place = (int(event["client"]), int(event["tick"]))
    history.marks[place] = max(what, history.marks.get(place, Attendance.NOT_ASKED))
    history._saw(place[1])


def _is_here(history: RunHistory, event: Event) -> SiteHistory:
    """Note that something of a site has arrived; it may have been away."""
    client = int(event["client"])
    site = history.site(client)
    if site.gone:
        site.gone = False
        history.absences = [
            (who, left, int(event["tick"]) if who == client and back is None else back)
            for who, left, back in history.absences
        ]
    site.heard_at = event.get("at")
    return site


def _run(history: RunHistory, event: Event) -> None:
    history.method = str(event["method"])
    history.parameters = dict(event.get("parameters") or {})
    for client, name in enumerate(event["clients"] or ()):
        history.sites[client] = SiteHistory(str(name))


def _ranges(history: RunHistory, event: Event) -> None:
    site = _is_here(history, event)
    site.rows = int(event["rows"])
    site.name = str(event.get("name", site.name))


def _agreed(history: RunHistory, event: Event) -> None:
    history.agreed = True
    history.columns = tuple(str(name) for name in event["columns"])
    if event.get("low") is not None and event.get("span") is not None:
        history.low = np.array(event["low"], dtype=float)
        history.span = np.array(event["span"], dtype=float)


def _send(history: RunHistory, event: Event) -> None:
    history.site(int(event["client"])).asked_at = event.get("at")
    history.bytes_down[int(event["tick"])] += int(event["bytes"])
    _mark(history, event, Attendance.ASKED)


def _hello(history: RunHistory, event: Event) -> None:
    site = _absorbed(history, event)
    site.rows = int(event["rows"])
    _mark(history, event, Attendance.HELLO)


def _update(history: RunHistory, event: Event) -> None:
    asked_at = history.site(int(event["client"])).asked_at
    if asked_at is not None and "at" in event:
        history.response_times.append(event["at"] - asked_at)
    site = _absorbed(history, event)
    site.answers += 1
    behind = int(event["staleness"] or 0)
    history.staleness[behind] += 1
    if behind > 0:
        site.late, site.worst = site.late + 1, max(site.worst, behind)
    _mark(history, event, Attendance.LATE if behind > 0 else Attendance.ANSWERED)


def _absorbed(history: RunHistory, event: Event) -> SiteHistory:
    """Count a message that was absorbed."""
    site = _is_here(history, event)
    site.asked_at = None
    site.messages += 1
    site.bytes += int(event["bytes"])
    history.bytes_up[int(event["tick"])] += int(event["bytes"])
    return site


def _rejected(history: RunHistory, event: Event) -> None:
    site = history.site(int(event["client"]))
    # Contact -1 answers nothing that was asked: the site's answer is still awaited.
    if int(event["contact"]) >= 0:
        site.asked_at = None
    site.rejected.append(str(event["reason"]))
    _mark(history, event, Attendance.TROUBLE)


def _failure(history: RunHistory, event: Event) -> None:
    site = history.site(int(event["client"]))
    site.asked_at = None
    site.failures.append(str(event["reason"]))
    _mark(history, event, Attendance.TROUBLE)


def _left(history: RunHistory, event: Event) -> None:
    client = int(event["client"])
    site = history.site(client)
    if not site.gone:
        history.absences.append((client, int(event["tick"]), None))
    site.gone, site.asked_at = True, None
    history._saw(int(event["tick"]))


def _prepare(history: RunHistory, event: Event) -> None:
    seeds = np.array(event["seeds"], dtype=float) if event.get("seeds") else None
    if seeds is not None and (seeds.ndim != 2 or not np.isfinite(seeds).all()):
        seeds = None
    objective, movement = event["objective"], event["movement"]
    step = ServerStep(
        int(event["tick"]),
        int(event["round"]),
        int(event["k"]),
        None if objective is None else float(objective),
        None if movement is None else float(movement),
        seeds,
    )
    history.steps.append(step)
    _knows_round(history, event)


def _knows_round(history: RunHistory, event: Event) -> None:
    history._rounds[int(event["tick"])] = int(event["round"])
    history._saw(int(event["tick"]))


def _refused(history: RunHistory, event: Event) -> None:
    history.refused[str(event["name"])] = str(event["reason"])


def _note(history: RunHistory, event: Event) -> None:
    history.notes.append(str(event["text"]))


def _resumed(history: RunHistory, event: Event) -> None:
    history.resumed += 1
    history._by_tick = None


def _end(history: RunHistory, event: Event) -> None:
    history.end = event
    _knows_round(history, event)


_HANDLERS = {
    "run": _run,
    "ranges": _ranges,
    "agreed": _agreed,
    "send": _send,
    "hello": _hello,
    "update": _update,
    "rejected": _rejected,
    "failure": _failure,
    "left": _left,
    "prepare": _prepare,
    "refused": _refused,
    "note": _note,
    "resumed": _resumed,
    "end": _end,
}

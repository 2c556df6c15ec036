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

#: Events of one site that count for it.
_OF_SITES = ("ranges", "send", "hello", "update", "rejected", "failure", "left")
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
    """One ``prepare``: the server has worked what it heard into its clustering.

    `path` (k and silhouette), `centers` (in agreed units) and `sizes` are empty where
    a method does not say them, or an older version wrote the trace.
    """

    tick: int
    round: int
    k: int
    objective: float | None
    movement: float | None
    seeds: Floats | None
    path: tuple[tuple[int, float | None], ...] = ()
    centers: Floats | None = None
    sizes: tuple[int, ...] = ()


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
        kind, at = event["event"], event.get("at")
        if kind == "batch":
            for one in each([event]):
                self.add(one)
            return
        if at is not None:
            self.began = at if self.began is None else self.began
            if self.end is None:
                self.last = at
        if kind in _PROGRESS:
            self.progress_at = at
        if kind in _OF_SITES:
            self._add_of_site(kind, event)
        else:
            self._add_of_server(kind, event)

    def _add_of_server(self, kind: str, event: Event) -> None:
        """Add what no single site has done."""
        match kind:
            case "run":
                self.method = str(event["method"])
                self.parameters = dict(event.get("parameters") or {})
                for client, name in enumerate(event["clients"] or ()):
                    self.sites[client] = SiteHistory(str(name))
            case "agreed":
                self.agreed = True
                self.columns = tuple(str(name) for name in event["columns"])
                if event.get("low") is not None and event.get("span") is not None:
                    self.low = np.array(event["low"], dtype=float)
                    self.span = np.array(event["span"], dtype=float)
            case "prepare":
                self.steps.append(_step(event))
                self._knows_round(event)
            case "refused":
                self.refused[str(event["name"])] = str(event["reason"])
            case "note":
                self.notes.append(str(event["text"]))
            case "resumed":
                self.resumed += 1
                self._by_tick = None
            case "end":
                self.end = event
                self._knows_round(event)

    def _add_of_site(self, kind: str, event: Event) -> None:
        """Add what one site was asked for, has answered, or has left undone."""
        client, tick = int(event["client"]), int(event["tick"])
        site = self.site(client)
        match kind:
            case "ranges":
                self._is_here(client, event)
                site.rows = int(event["rows"])
                site.name = str(event.get("name", site.name))
            case "send":
                site.asked_at = event.get("at")
                self.bytes_down[tick] += int(event["bytes"])
                self._mark(client, tick, Attendance.ASKED)
            case "hello":
                self._absorbed(client, event)
                site.rows = int(event["rows"])
                self._mark(client, tick, Attendance.HELLO)
            case "update":
                self._answered(client, event)
            case "rejected":
                # Contact -1 answers nothing that was asked: an answer is still awaited.
                if int(event["contact"]) >= 0:
                    site.asked_at = None
                site.rejected.append(str(event["reason"]))
                self._mark(client, tick, Attendance.TROUBLE)
            case "failure":
                site.asked_at = None
                site.failures.append(str(event["reason"]))
                self._mark(client, tick, Attendance.TROUBLE)
            case "left":
                if not site.gone:
                    self.absences.append((client, tick, None))
                site.gone, site.asked_at = True, None
                self._saw(tick)

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

    def _knows_round(self, event: Event) -> None:
        self._rounds[int(event["tick"])] = int(event["round"])
        self._saw(int(event["tick"]))

    def _mark(self, client: int, tick: int, what: Attendance) -> None:
        before = self.marks.get((client, tick), Attendance.NOT_ASKED)
        self.marks[client, tick] = max(what, before)
        self._saw(tick)

    def _is_here(self, client: int, event: Event) -> None:
        """Note that something of a site has arrived; it may have been away."""
        site, tick = self.site(client), int(event["tick"])
        if site.gone:
            site.gone = False
            self.absences = [
                (who, left, tick if who == client and back is None else back)
                for who, left, back in self.absences
            ]
        site.heard_at = event.get("at")

    def _absorbed(self, client: int, event: Event) -> None:
        """Count a message that was absorbed."""
        self._is_here(client, event)
        site, n_bytes = self.site(client), int(event["bytes"])
        site.asked_at = None
        site.messages += 1
        site.bytes += n_bytes
        self.bytes_up[int(event["tick"])] += n_bytes

    def _answered(self, client: int, event: Event) -> None:
        """Count an answer to a broadcast, and how late it came."""
        site, behind = self.site(client), int(event["staleness"] or 0)
        if site.asked_at is not None and "at" in event:
            self.response_times.append(event["at"] - site.asked_at)
        self._absorbed(client, event)
        site.answers += 1
        self.staleness[behind] += 1
        if behind > 0:
            site.late, site.worst = site.late + 1, max(site.worst, behind)
        what = Attendance.LATE if behind > 0 else Attendance.ANSWERED
        self._mark(client, int(event["tick"]), what)


def history_of(events: Iterable[Event]) -> RunHistory:
    """Add up the events of a trace."""
    history = RunHistory()
    for event in events:
        history.add(event)
    return history


def _step(event: Event) -> ServerStep:
    objective, movement = event["objective"], event["movement"]
    return ServerStep(
        int(event["tick"]),
        int(event["round"]),
        int(event["k"]),
        None if objective is None else float(objective),
        None if movement is None else float(movement),
        _points(event.get("seeds")),
        tuple((int(k), None if s is None else float(s)) for k, s in _pairs(event)),
        _points(event.get("centers")),
        tuple(int(size) for size in event.get("sizes") or ()),
    )


def _pairs(event: Event) -> list[Any]:
    return list(event.get("path") or ())


def _points(values: Any) -> Floats | None:
    """Return points as an array; None where there are none, or they are damaged."""
    points = np.array(values, dtype=float) if values else None
    if points is not None and (points.ndim != 2 or not np.isfinite(points).all()):
        return None
    return points

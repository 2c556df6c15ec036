# SPDX-License-Identifier: Apache-2.0
"""``afcl status``: where a live run stands, and the lines ``afcl serve`` prints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from afcl.texts import plain

if TYPE_CHECKING:
    from afcl.runtime.live.server import RunPlan
    from afcl.trace import Event, RunHistory, SiteHistory

#: Answers of a client before its run can end, the hello apart.
ANSWERS = 2
#: Seconds without an answer after which a site is called late.
LATE = 60.0


def status(
    folder: Path = typer.Argument(..., help="Folder of the run.", metavar="DIR"),
) -> None:
    """Tell who is in, who is late, k so far, and how long it may take."""
    from afcl.runtime.live.server import RunPlan

    plan = RunPlan.read(folder)
    if plan.standing is not None:
        folder = _standing_of(folder)
    log = RunLog(folder)
    log.new_lines()
    for line in summary(log.history, plan, folder, time.time()):
        typer.echo(line)


def _standing_of(folder: Path) -> Path:
    """Tell how far a federation that goes on is; return its newest answer's folder."""
    from afcl.cli.standing import history_lines, stage_line
    from afcl.runtime.live.numbered import Answers, State
    from afcl.runtime.live.staying import answer_folder

    state = State.read(folder)
    typer.echo(f"{folder}: {stage_line(state)}")
    for line in history_lines(Answers.read(folder, state.newest)):
        typer.echo(line)
    return answer_folder(folder, state.number)


class RunLog:
    """The trace of a live run in words, followed as it grows."""

    def __init__(self, folder: Path) -> None:
        from afcl.runtime.results import TRACE
        from afcl.trace import RunHistory, TraceTail

        self.history = RunHistory()
        self._tail = TraceTail(folder / TRACE)

    def new_lines(self) -> list[str]:
        """Return what has happened since the last call, a line each."""
        lines = []
        for event in self._tail.read():
            # Before the event is added: whether a site is back shows only then.
            line = describe(event, self.history)
            self.history.add(event)
            if line:
                lines.append(line)
        return lines


# ------------------------------------------------------------------ event by event


def describe(event: Event, before: RunHistory) -> str:
    """Return an event as a line, "" for one that nobody needs to read."""
    words = _WORDS.get(event["event"])
    return "" if words is None else words(event, before)


def _joined(event: Event, before: RunHistory) -> str:
    site = before.site(event["client"])
    name = event.get("name", site.name)
    if site.gone:
        return f"{name} is back"
    late = " late" if event["tick"] > 0 else ""
    return f"{name} joined{late}: {event['rows']:,} rows"


def _agreed(event: Event, _: RunHistory) -> str:
    from afcl.data.errors import listed

    columns = event["columns"]
    shown = listed([plain(column) for column in columns])
    return f"agreed on {len(columns)} columns: {shown}"


def _answered(event: Event, before: RunHistory) -> str:
    site = before.site(event["client"])
    return f"{site.name} answered ({site.answers + 1})"


def _of_site(words: str) -> Callable[[Event, RunHistory], str]:
    """Return how a site's event is put into words; {site} is the site's name."""
    return lambda event, before: words.format_map(
        {**event, "site": before.site(event["client"]).name}
    )


_WORDS: dict[str, Callable[[Event, RunHistory], str]] = {
    "ranges": _joined,
    "agreed": _agreed,
    "hello": _of_site("{site} said hello"),
    "update": _answered,
    "rejected": _of_site("rejected a message of {site}: {reason}"),
    "failure": _of_site("no answer of {site}: {reason}"),
    "left": _of_site("{site} is gone; what it said stays"),
    "refused": lambda event, _: f"refused {event['name']}: {event['reason']}",
    "note": lambda event, _: f"note: {event['text']}",
    "prepare": lambda event, _: f"k = {event['k']} so far",
    "resumed": lambda event, _: "resumed",
    "end": lambda event, _: f"the end ({event['reason']}): k = {event['k']}",
}


# ------------------------------------------------------------------ all in all


def summary(
    history: RunHistory, plan: RunPlan, folder: Path, now: float
) -> Iterable[str]:
    """Return where a run stands, a line each."""
    yield f"{folder}: {_state(history, plan, folder)}"
    if history.steps:
        step = history.steps[-1]
        moved = ""
        if step.movement is not None:
            moved = f"; the seeds have moved by {step.movement:.2g}"
        yield f"k = {step.k} so far{moved}"
    for site in history.sites.values():
        yield f"  {site.name}: {site.rows:,} rows, {_standing(site, now)}"
    for name, reason in history.refused.items():
        yield f"  {name}: refused, {reason}"
    for text in history.notes:
        yield f"  note: {text}"


def _state(history: RunHistory, plan: RunPlan, folder: Path) -> str:
    from afcl.runtime.live.server import read_failure
    from afcl.runtime.results import RESULT

    again = f", resumed {history.resumed} times" if history.resumed else ""
    if (folder / RESULT).is_file():
        return f"done, {len(history.sites)} sites{again}"
    failure = read_failure(folder)
    if failure is not None:
        return f"failed: {failure}"
    if not history.agreed:
        return f"waiting for {plan.min_clients} sites{again}"
    left = [
        max(0, ANSWERS - site.answers)
        for site in history.sites.values()
        if not site.gone
    ]
    text = f"running, about {sum(left)} answers to come"
    times = history.response_times
    if times and any(left):
        seconds = max(left) * sum(times) / len(times)
        text += f", perhaps {seconds:.0f} s"
    return text + again


def _standing(site: SiteHistory, now: float) -> str:
    if site.gone:
        return f"gone after {site.answers} answers"
    if site.asked_at is not None:
        waiting = now - site.asked_at
        late = ", late" if waiting > LATE else ""
        return f"{site.answers} answers, asked {waiting:.0f} s ago{late}"
    return f"{site.answers} answers"

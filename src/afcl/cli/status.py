# SPDX-License-Identifier: Apache-2.0
"""``afcl status``: where a run stands, and the lines ``afcl serve`` prints."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from afcl.texts import plain

if TYPE_CHECKING:
    from afcl.runtime.live.standing import Standing
    from afcl.trace import Event, RunHistory, SiteHistory

#: Seconds without an answer after which a site is called late.
LATE = 60.0
#: Seconds between two looks with --watch.
PAUSE = 2.0
#: What clears a terminal.
CLEAR = "\x1b[H\x1b[2J"
#: Exit codes of states in which nobody works on the run; 0: all is well.
CODES = {"failed": 2, "stopped": 3, "silent": 3}
#: States that no run leaves.
LAST = ("done", "failed")


def status(
    folder: Path = typer.Argument(..., help="Folder of the run.", metavar="DIR"),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
    watch: bool = typer.Option(
        False, "--watch", help="Look again every two seconds, until the end."
    ),
) -> None:
    """Tell who is in, who is late, k so far, and how long it may take.

    Exit code 0: done, running or waiting; 3: stopped, and can be resumed; 2: failed, or
    there is no run.
    """
    log = RunLog(folder)
    code = 0
    try:
        while True:
            now, shown = _shown(folder, log, as_json)
            _redraw(shown, clear=watch and not as_json)
            code = CODES.get(now.state, 0)
            if not watch or now.state in LAST:
                break
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        typer.echo("")  # the watching is over, not the run
    raise typer.Exit(code)


def _shown(folder: Path, log: RunLog, as_json: bool) -> tuple[Standing, str]:
    """Return where a run stands now, and all that is printed of it."""
    from afcl.runtime.live.numbered import answers_of
    from afcl.runtime.live.standing import standing
    from afcl.runtime.live.staying import answer_folder

    answers = answers_of(folder)
    if answers is not None:  # those of the newest one are of interest
        log = RunLog(answer_folder(folder, answers.state.number))
    log.new_lines()
    time_now = time.time()
    now = standing(folder, log.history, time_now)
    if as_json:
        status = facts(log, now, folder, time_now)
        status |= {} if answers is None else answers.facts()
        return now, json.dumps(status)
    lines = [*summary(log, now, folder, time_now)]
    if answers is not None:
        lines[1:1] = [f"  {line}" for line in answers.answers.in_words()]
    return now, "\n".join(lines)


def _redraw(text: str, clear: bool) -> None:
    typer.echo(f"{CLEAR if clear and sys.stdout.isatty() else ''}{text}")


class RunLog:
    """The trace of a run in words, followed as it grows.

    Attributes
    ----------
    history
        What its events add up to.
    """

    def __init__(self, folder: Path) -> None:
        from afcl.runtime.results import TRACE
        from afcl.trace import RunHistory, TraceTail

        self.history = RunHistory()
        self._tail = TraceTail(folder / TRACE)

    @property
    def damaged(self) -> int:
        """How many lines of the trace could not be read."""
        return self._tail.damaged

    def new_lines(self) -> list[str]:
        """Return what has happened since the last call, a line each."""
        from afcl.trace import RunHistory

        lines, events = [], self._tail.read()
        if self._tail.began_anew:
            self.history = RunHistory()
        for event in events:
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


def summary(log: RunLog, now: Standing, folder: Path, at: float) -> Iterable[str]:
    """Return where a run stands, a line each."""
    history = log.history
    yield f"{folder}: {now.text}"
    if history.steps:
        step = history.steps[-1]
        moved = ""
        if step.movement is not None:
            moved = f"; the seeds have moved by {step.movement:.2g}"
        yield f"k = {step.k}" + ("" if now.state == "done" else f" so far{moved}")
    for site in history.sites.values():
        yield f"  {site.name}: {site.rows:,} rows, {_standing(site, at)}"
    for name, reason in history.refused.items():
        yield f"  {name}: refused, {reason}"
    for text in history.notes:
        yield f"  note: {text}"
    if log.damaged:
        yield f"  note: {log.damaged} lines of the trace cannot be read"


def facts(log: RunLog, now: Standing, folder: Path, at: float) -> dict[str, Any]:
    """Return the same for programs."""
    history, beat = log.history, now.beat
    return {
        "folder": str(folder),
        "state": now.state,
        "text": now.text,
        "process": None if beat is None else beat.process,
        "host": None if beat is None else beat.host,
        "heartbeat_seconds": None if beat is None else round(beat.age(at), 1),
        "k": history.steps[-1].k if history.steps else None,
        "resumed": history.resumed,
        "sites": [
            {
                "name": site.name,
                "rows": site.rows,
                "answers": site.answers,
                "gone": site.gone,
                "asked_seconds": _waiting(site, at),
            }
            for site in history.sites.values()
        ],
        "refused": dict(history.refused),
        "notes": list(history.notes),
        "damaged_lines": log.damaged,
    }


def _waiting(site: SiteHistory, at: float) -> float | None:
    """Return for how many seconds a site has owed an answer, None if it owes none."""
    if site.gone or site.asked_at is None:
        return None
    return round(at - site.asked_at, 1)


def _standing(site: SiteHistory, now: float) -> str:
    if site.gone:
        return f"gone after {site.answers} answers"
    if site.asked_at is not None:
        waiting = now - site.asked_at
        late = ", late" if waiting > LATE else ""
        return f"{site.answers} answers, asked {waiting:.0f} s ago{late}"
    return f"{site.answers} answers"

# SPDX-License-Identifier: Apache-2.0
"""Where a run stands, in a few words."""

from __future__ import annotations

from dataclasses import dataclass

from afcl.report.markup import count, span_of
from afcl.report.run_folder import COORDINATOR, MEMBER, RunFolder
from afcl.report.words import in_doubt

#: The words; the style sheet has a class for each.
WAITING = "waiting"
RUNNING = "running"
STALLED = "stalled"
DONE = "done"
DOUBTFUL = "doubtful"
FAILED = "failed"
UNFINISHED = "unfinished"

#: Seconds without any arrival after which a run counts as stalled.
STALL = 120.0


@dataclass(frozen=True)
class RunState:
    """One word for the eye and the sentence to it."""

    word: str
    text: str


def state_of(run: RunFolder, now: float | None = None) -> RunState:
    """Return where a run stands; `now` is the time of a live page, None of a report."""
    if run.done:
        return RunState(DOUBTFUL if in_doubt(run) else DONE, "done")
    if run.failed:
        return RunState(FAILED, f"failed: {run.failed}")
    waiting = _waiting(run)
    if waiting:
        return RunState(WAITING, waiting)
    if now is None:
        return RunState(UNFINISHED, "unfinished: no result was written yet")
    return _running(run, now)


def _waiting(run: RunFolder) -> str:
    """Say what has to come before there is anything to show."""
    history = run.history
    if run.kind == MEMBER:
        return "waiting for the coordinator" if run.state == "waiting" else ""
    if run.min_clients is not None and not history.agreed:
        here = [site for site in history.sites.values() if not site.gone]
        wanted = count(run.min_clients, "site")
        return f"waiting for {wanted}, {len(here)} here"
    if not history.sites and not history.steps:
        return "waiting for the run to begin"
    return ""


def _running(run: RunFolder, now: float) -> RunState:
    history = run.history
    last_progress = now if history.progress_at is None else history.progress_at
    asked = [
        (site.heard_at if site.heard_at is not None else site.asked_at, site.name)
        for site in history.sites.values()
        if site.asked_at is not None and not site.gone
    ]
    silent = now - last_progress
    if silent < STALL:
        return RunState(RUNNING, _how_far(run))
    if asked:
        since, name = min(asked)
        return RunState(STALLED, f"stalled: {name} silent for {span_of(now - since)}")
    return RunState(STALLED, f"stalled: nothing arrived for {span_of(silent)}")


def _how_far(run: RunFolder) -> str:
    if run.kind == MEMBER:
        return "running: this site has joined"
    if not run.history.steps:
        return "running: hearing the first messages"
    newest = run.history.steps[-1]
    where = f"round {newest.round}"
    if run.kind == COORDINATOR:
        where = f"step {newest.tick}"
    return f"running: {where}, k = {newest.k} so far"

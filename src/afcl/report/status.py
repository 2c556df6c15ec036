# SPDX-License-Identifier: Apache-2.0
"""Where a run stands, in a few words."""

from __future__ import annotations

from dataclasses import dataclass

from afcl.report.facts import COORDINATOR, MEMBER, Facts
from afcl.report.markup import count, span_of

WAITING, RUNNING, STALLED = "waiting", "running", "stalled"
DONE, FAILED, UNFINISHED = "done", "failed", "unfinished"

#: Seconds without any arrival after which a run counts as stalled.
STALL = 120.0


@dataclass(frozen=True)
class Status:
    """One word for the eye and the sentence to it."""

    word: str
    text: str


def status_of(facts: Facts, now: float | None = None) -> Status:
    """Return where a run stands; `now` is the time of a live page, None of a report."""
    if facts.done:
        return Status(DONE, "done")
    if facts.failed:
        return Status(FAILED, f"failed: {facts.failed}")
    waiting = _waiting(facts)
    if waiting:
        return Status(WAITING, waiting)
    if now is None:
        return Status(UNFINISHED, "unfinished: no result was written yet")
    return _running(facts, now)


def _waiting(facts: Facts) -> str:
    """Say what has to come before there is anything to show."""
    course = facts.course
    if facts.kind == MEMBER:
        return "waiting for the coordinator" if facts.state == "waiting" else ""
    if facts.min_clients is not None and not course.agreed:
        here = [site for site in course.sites.values() if not site.gone]
        wanted = count(facts.min_clients, "site")
        return f"waiting for {wanted}, {len(here)} here"
    if not course.sites and not course.rounds:
        return "waiting for the run to begin"
    return ""


def _running(facts: Facts, now: float) -> Status:
    course = facts.course
    heard = course.heard if course.heard is not None else now
    asked = [
        (site.heard_at if site.heard_at is not None else site.asked_at, site.name)
        for site in course.sites.values()
        if site.asked_at is not None and not site.gone
    ]
    silent = now - heard
    if silent < STALL:
        return Status(RUNNING, _how_far(facts))
    if asked:
        since, name = min(asked)
        return Status(STALLED, f"stalled: {name} silent for {span_of(now - since)}")
    return Status(STALLED, f"stalled: nothing arrived for {span_of(silent)}")


def _how_far(facts: Facts) -> str:
    if facts.kind == MEMBER:
        return "running: this site has joined"
    rounds = facts.course.rounds
    if not rounds:
        return "running: hearing the first messages"
    where = f"round {rounds[-1].round}"
    if facts.kind == COORDINATOR:
        where = f"step {rounds[-1].tick}"
    return f"running: {where}, k = {rounds[-1].k} so far"

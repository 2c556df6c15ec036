# SPDX-License-Identifier: Apache-2.0
"""Where the run in a folder stands: what its files say, and who is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from afcl.exceptions import InputError
from afcl.occupied import holder
from afcl.runtime.heartbeat import SILENT, Beat, read_beat
from afcl.runtime.live.numbered import OVER, answers_of
from afcl.runtime.live.server import PLAN, RunPlan, read_failure
from afcl.runtime.results import RESULT, RUN
from afcl.trace import RunHistory

# The states of a run.
WAITING = "waiting"
RUNNING = "running"
STARTING = "starting"
# In those that follow nobody works on it.
PROBABLY_DEAD = "silent"
STOPPED = "stopped"
FAILED = "failed"
DONE = "done"

#: Answers of a client before its run can end, the hello apart.
ANSWERS = 2


@dataclass(frozen=True)
class Standing:
    """Where a run stands.

    Attributes
    ----------
    state
        One of the words above.
    text
        The same in words for people.
    beat
        The newest sign of life, if there is one.
    """

    state: str
    text: str
    beat: Beat | None = None


def standing(folder: Path, history: RunHistory, now: float) -> Standing:
    """Return where the run in a folder stands.

    Parameters
    ----------
    folder
        What ``afcl serve`` or ``afcl run`` wrote.
    history
        What its trace tells.
    now
        The time, in seconds since 1970.

    Raises
    ------
    InputError
        If there is no run in the folder.
    """
    plan = RunPlan.read(folder) if (folder / PLAN).is_file() else None
    if plan is None and not (folder / RUN).is_file():
        raise InputError(
            f"{folder} holds no run: give the --out of 'afcl serve' or 'afcl run'"
        )
    again = f", resumed {history.resumed} times" if history.resumed else ""
    goes_on = answers_of(folder)
    if goes_on is not None and goes_on.state.stage == OVER:
        return Standing(DONE, goes_on.state.in_words())
    if goes_on is None and (folder / RESULT).is_file():
        return Standing(DONE, f"done, {len(history.sites)} sites{again}")
    failure = read_failure(folder)
    if failure is not None:
        return Standing(FAILED, f"failed: {failure}")
    beat = read_beat(folder)
    if beat is None or beat.stopped or beat.is_dead():
        return _left(folder, beat, again=_goes_on(folder, plan))
    silent = beat.age(now)
    if silent > SILENT:
        text = f"silent since {silent:.0f} s: probably dead; {_goes_on(folder, plan)}"
        return Standing(PROBABLY_DEAD, text, beat)
    if goes_on is not None:
        return Standing(RUNNING, goes_on.state.in_words(), beat)
    if plan is not None and not history.agreed:
        text = f"waiting for {plan.min_clients} sites{again}"
        return Standing(WAITING, text, beat)
    return Standing(RUNNING, f"running{_answers_to_come(history)}{again}", beat)


def _left(folder: Path, beat: Beat | None, again: str) -> Standing:
    """Return how a run stands on which no coordinator works."""
    other = holder(folder)
    if other is not None and not (beat and beat.stopped):
        return Standing(STARTING, f"starting ({other.who}, process {other.process})")
    why = f" ({beat.stopped})" if beat and beat.stopped else ""
    return Standing(STOPPED, f"stopped{why}; {again}", beat)


def _goes_on(folder: Path, plan: RunPlan | None) -> str:
    if plan is None:
        return "the same 'afcl run' goes on"
    return f"'afcl serve --resume {folder}' goes on"


def _answers_to_come(history: RunHistory) -> str:
    left = [
        max(0, ANSWERS - site.answers)
        for site in history.sites.values()
        if not site.gone
    ]
    text = f", about {sum(left)} answers to come"
    times = history.response_times
    if times and any(left):
        seconds = max(left) * sum(times) / len(times)
        text += f", perhaps {seconds:.0f} s"
    return text

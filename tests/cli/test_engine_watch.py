# SPDX-License-Identifier: Apache-2.0
"""An engine that stalls: borne for a while, told in a line, given up in another."""

from __future__ import annotations

import pytest

from afcl.cli.engine_watch import FIRST, MOST, EngineWatch
from afcl.exceptions import InputError
from afcl.runtime.live.engine import EngineSilent


class Stall:
    """A clock, and an engine that does not answer between two times."""

    def __init__(self, start: float, end: float) -> None:
        self.now, self.start, self.end = 0.0, start, end
        self.asked: list[float] = []
        self.said: list[str] = []

    def ask(self) -> None:
        self.asked.append(self.now)
        if self.start <= self.now < self.end:
            raise EngineSilent("nobody answers at 127.0.0.1:8000")

    def watched(self, patience: float, seconds: int) -> None:
        watch = EngineWatch(patience, self.said.append, "resume", lambda: self.now)
        for now in range(seconds):
            self.now = float(now)
            answered = watch.ask(self.ask)
            assert answered is (self.asked[-1:] == [now] and not self.silent)

    @property
    def silent(self) -> bool:
        return self.start <= self.now < self.end


def test_a_stall_of_fifteen_seconds_is_told_and_borne():
    engine = Stall(5, 20)
    engine.watched(120.0, 60)
    assert engine.said == [
        "the engine does not answer (nobody answers at 127.0.0.1:8000); it is asked "
        "again",
        "the engine answers again",
    ]


def test_it_is_asked_ever_more_seldom():
    engine = Stall(0, 1000)
    engine.watched(120.0, 100)
    assert engine.asked == [0, 1, 3, 7, 15, 30, 45, 60, 75, 90]
    assert (FIRST, MOST) == (1.0, 15.0)
    assert len(engine.said) == 1


def test_after_its_patience_it_is_given_up():
    engine = Stall(0, 1000)
    line = (
        r"the engine has not answered for 120 s \(nobody answers at 127.0.0.1:8000\): "
        "resume"
    )
    with pytest.raises(InputError, match=line):
        engine.watched(120.0, 200)
    assert engine.now == 120.0


def test_a_second_stall_has_a_patience_of_its_own():
    engine = Stall(5, 100)
    engine.watched(120.0, 110)
    engine.start, engine.end = 0.0, 1000.0
    engine.said.clear()
    engine.watched(120.0, 110)
    assert len(engine.said) == 1


def test_other_troubles_are_fatal_at_once():
    def broken() -> None:
        raise InputError("the engine has ended the run")

    with pytest.raises(InputError, match="ended the run"):
        EngineWatch(120.0, print, "resume").ask(broken)

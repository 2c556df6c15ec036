# SPDX-License-Identifier: Apache-2.0
"""A site does not go before its last answer has."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from afcl.cli import attending
from afcl.cli.signals import Ended
from afcl.exceptions import Interrupted, Terminated
from afcl.runtime.live.membership import DONE, Membership, keep_membership


class Node:
    """Has an answer to hand over, at so many looks."""

    alive, log = True, Path("log")

    def __init__(self, looks: float) -> None:
        self.looks = looks

    @property
    def busy(self) -> bool:
        self.looks -= 1
        return self.looks >= 0

    def trouble(self) -> None:
        return None

    absent = trouble


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(seconds=0.0)

    def sleep(seconds: float) -> None:
        now.seconds += seconds

    time = SimpleNamespace(sleep=sleep, monotonic=lambda: now.seconds)
    monkeypatch.setattr(attending, "time", time)
    return now


@pytest.mark.parametrize(
    ("looks", "seconds"), [(0, 2.0), (10, 5.0), (float("inf"), 60.0)]
)
def test_the_last_answer_is_waited_for(
    tmp_path: Path,
    clock: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    looks: float,
    seconds: float,
):
    """But not for ever: the coordinator may be gone."""

    @contextmanager
    def join(*given: object) -> Any:
        yield Node(looks)

    keep_membership(tmp_path, Membership("a.csv", "a", state=DONE))
    launcher: Any = SimpleNamespace(join=join)
    attending.take_part(launcher, "hub:8000", tmp_path, None, None, 0, None)
    assert clock.seconds == pytest.approx(seconds + attending.PAUSE, abs=0.4)
    assert "Labels and result are in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "kind"), [(KeyboardInterrupt(), Interrupted), (Ended(), Terminated)]
)
def test_whoever_stops_a_site_is_told_how_it_comes_back(
    tmp_path: Path, error: BaseException, kind: type[Exception]
):
    with (
        pytest.raises(kind, match="the same command comes back into the run"),
        attending.coming_back(tmp_path),
    ):
        raise error

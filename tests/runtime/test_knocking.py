# SPDX-License-Identifier: Apache-2.0
"""A coordinator that is not there yet: what is trouble, and what is only early."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs Flower: pip install 'afcl[flower]'")

from afcl.runtime.flower import launcher
from afcl.runtime.flower.launcher import FlowerNode
from afcl.runtime.flower.logs import NO_ANSWER
from afcl.runtime.flower.network import LONGEST_PAUSE, Knocking, nobody_at

FAILED = "Connection attempt failed, retrying in 1.00 seconds\n"


def test_an_address_is_asked_ever_more_rarely():
    now, asked = [0.0], []

    def ask() -> str:
        asked.append(now[0])
        return "nobody"

    knocking = Knocking(ask, clock=lambda: now[0])
    while now[0] < 300:
        assert knocking.why() == "nobody"
        now[0] += 0.5
    # 1, 2, 4, … seconds apart, and then every minute.
    assert asked == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert asked[-1] - asked[-2] == LONGEST_PAUSE


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """What is found at the address, look by look."""
    found: list[str | None] = []
    looks: Iterator[str | None] = iter(found)
    monkeypatch.setattr(launcher, "unreachable", lambda address, ca: next(looks))
    monkeypatch.setattr(Knocking, "why", lambda self: self._ask())
    return found


def node(log: Path, text: str) -> FlowerNode:
    log.write_text(text)
    child: Any = SimpleNamespace(log=log, alive=True)
    return FlowerNode(lambda: child, "hub:1", None)


def test_nobody_there_is_no_trouble(tmp_path: Path, answers: list[str | None]):
    site = node(tmp_path / "log", FAILED * 4)
    answers += [nobody_at("hub:1"), nobody_at("hub:1")]
    assert site.trouble() is None
    assert site.absent() == nobody_at("hub:1")


def test_somebody_there_who_has_not_been_met_is_no_trouble(
    tmp_path: Path, answers: list[str | None]
):
    """Between two attempts of the engine the coordinator has come."""
    site = node(tmp_path / "log", FAILED * 4)
    answers += [None, None]
    assert site.trouble() is None
    assert site.absent() == NO_ANSWER


def test_somebody_else_there_is_trouble(tmp_path: Path, answers: list[str | None]):
    site = node(tmp_path / "log", FAILED * 4)
    answers += ["it speaks TLS only"]
    assert site.trouble() == "it speaks TLS only"


@pytest.mark.parametrize("text", ["", FAILED * 3, FAILED * 9 + "SuperNode ID: 7\n"])
def test_a_site_that_has_joined_or_just_begun_misses_nobody(tmp_path: Path, text: str):
    site = node(tmp_path / "log", text)
    assert site.trouble() is None
    assert site.absent() is None


def test_a_key_that_is_refused_is_trouble(tmp_path: Path, answers: list[str | None]):
    site = node(tmp_path / "log", FAILED * 4 + "[code: 2004]\n")
    answers += [None]
    assert "does not know this key" in str(site.trouble())
    assert site.absent() is None


def test_a_site_that_does_not_say_any_more_that_it_is_there_begins_anew(tmp_path: Path):
    """Its process lives, and the coordinator counts it as gone."""
    log, now, started = tmp_path / "log", SimpleNamespace(seconds=0.0), []

    def start() -> Any:
        log.write_text("SuperNode ID: 12\n")
        started.append(SimpleNamespace(log=log, alive=True, stop=lambda: None))
        return started[-1]

    site = FlowerNode(start, "hub:1", None, lambda: now.seconds)
    log.write_text(
        "SuperNode ID: 12\nhttpx.HTTPStatusError: Server error '500 Internal Server "
        "Error' for url 'http://hub:1/v1/fleet/send-node-heartbeat'\n"
    )
    assert site.trouble() is None
    assert len(started) == 1
    for _ in range(3):
        now.seconds += launcher.PULSE
        assert site.trouble() is None
    assert len(started) == 2

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
from afcl.runtime.flower.logs import NO_ANSWER, PUT_OUT
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


def restarts(log: Path, *ends: str) -> tuple[FlowerNode, Any, list[Any]]:
    """Return a site whose engine ends by itself, each time with other words."""
    now, started = SimpleNamespace(seconds=0.0), list[Any]()

    def start() -> Any:
        log.write_text(ends[min(len(started), len(ends) - 1)])
        started.append(SimpleNamespace(log=log, alive=True, stop=lambda: None))
        return started[-1]

    return FlowerNode(start, "hub:1", None, lambda: now.seconds), now, started


def test_an_engine_that_ended_by_itself_is_started_anew(tmp_path: Path):
    """As at a coordinator whose disk is full: it answers with errors, then not."""
    died = "SuperNode ID: 12\nhttpx.HTTPStatusError: Server error '500'\n"
    site, now, started = restarts(tmp_path / "log", died, "", "SuperNode ID: 12\n")
    assert site.trouble() is None
    for number in (1, 2):
        started[-1].alive = False
        assert (site.alive, site.busy) == (True, False)
        assert site.trouble() is None
        assert len(started) == number
        now.seconds += launcher.PULSE
        assert site.trouble() is None
        assert len(started) == number + 1
    now.seconds += launcher.PULSE
    assert site.trouble() is None
    assert len(started) == 3


def test_an_engine_that_ends_every_time_is_given_up(tmp_path: Path):
    site, now, started = restarts(tmp_path / "log", "SuperNode ID: 12\n")
    for _ in range(2 * launcher.ANEW):
        assert site.trouble() is None
        started[-1].alive = False
        now.seconds += launcher.PULSE
    assert len(started) == 1 + launcher.ANEW
    assert not site.alive


def test_an_engine_that_was_never_let_in_or_was_sent_home_stays_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(launcher, "clocks_apart", lambda address, ca: None)
    home = "SuperNode ID: 12\nSuperNode terminated gracefully.\n"
    for words, why in (("", None), (home, PUT_OUT)):
        site, now, started = restarts(tmp_path / "log", words)
        started[0].alive = False
        now.seconds += launcher.PULSE
        assert site.trouble() == why
        assert not site.alive
        assert len(started) == 1


def test_a_key_that_seems_online_is_tried_again(tmp_path: Path):
    """The coordinator has not yet noticed that the engine before has ended."""
    refused = "[code: 2004]\n"
    site, now, started = restarts(tmp_path / "log", "SuperNode ID: 12\n", refused)
    assert site.trouble() is None
    for _ in range(3):
        started[-1].alive = False
        now.seconds += launcher.PULSE
        assert site.trouble() is None
    assert len(started) == 4

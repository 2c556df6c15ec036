# SPDX-License-Identifier: Apache-2.0
"""Flower's engine when things go wrong: links that break, sites that start anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.test_transports import FakeGrid, write_folders

from afcl.core.terms import AskAnnouncement
from afcl.exceptions import InputError
from afcl.runtime.codec import encode
from afcl.runtime.live.engine import EngineSilent
from afcl.runtime.transport import Failure, Reply

pytest.importorskip("flwr", reason="needs Flower: pip install 'afcl[flower]'")

from flwr.supercore.task_identity import TaskIdentity

from afcl.runtime.flower import commands
from afcl.runtime.flower.engine import LOOKS, GridEngine
from afcl.runtime.flower.launcher import FlowerNode
from afcl.runtime.flower.network import clocks_apart, free_port

ASK = encode(AskAnnouncement("run", True))


def unknown(name: str) -> Any:
    """Return what the grid says of a request that it does not know any more."""
    return SimpleNamespace(
        metadata=SimpleNamespace(reply_to_message_id=name),
        has_error=lambda: True,
        error=SimpleNamespace(reason="Message ID not found"),
    )


class BrokenLink(FakeGrid):
    """An answer that is being handed in when the link breaks, as Flower treats it.

    Whoever pulls it waits for the rest, and others hear that it is not known.
    """

    def __init__(self, folders: dict[int, Path], broken: int) -> None:
        super().__init__(folders)
        self.broken = broken
        self.mended = threading.Event()
        self.taken: set[str] = set()

    def pull_messages(self, names: list[str]) -> Iterator[Any]:
        stuck = [
            name
            for name in names
            if name in self.flying
            and self.flying[name].metadata.dst_node_id == self.broken
            and name not in self.taken
        ]
        self.taken.update(stuck)
        others = [name for name in names if name not in self.taken]
        found = list(super().pull_messages(others))
        if stuck:
            assert self.mended.wait(60)
            found += list(super().pull_messages(stuck))
        else:
            found += [unknown(name) for name in names if name in self.taken]
        return iter(found)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Any]:
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    grid: Any = BrokenLink(write_folders(tmp_path), 1001)
    yield GridEngine(grid, wait=0.05)
    grid.mended.set()


def arrived(engine: GridEngine, count: int) -> list[Reply | Failure]:
    found: list[Reply | Failure] = []
    until = time.monotonic() + 60
    while len(found) < count and time.monotonic() < until:
        found += engine.poll()
    return found


def test_a_broken_link_holds_back_its_own_answer_only(engine: Any):
    stuck = engine.send(1001, ASK)
    assert engine.poll() == []
    tickets = {engine.send(address, ASK) for address in (1000, 1002)}
    found = arrived(engine, 2)
    assert {answer.ticket for answer in found} == tickets
    assert all(isinstance(answer, Reply) for answer in found)
    engine.grid.mended.set()
    (late,) = arrived(engine, 1)
    assert isinstance(late, Reply)
    assert (late.ticket, late.client) == (stuck, 1001)
    assert engine.poll() == []


def test_a_grid_that_stalls_is_not_asked_by_ever_more(engine: Any, monkeypatch: Any):
    waiting = threading.Event()
    asked = []

    def pull(names: list[str]) -> list[Any]:
        asked.append(names)
        waiting.wait(60)
        return []

    monkeypatch.setattr(engine.grid, "pull_messages", pull)
    engine.send(1000, ASK)
    for _ in range(3 * LOOKS):
        assert engine.poll() == []
    assert len(asked) == LOOKS
    waiting.set()


def test_what_breaks_the_look_itself_is_raised(engine: Any, monkeypatch: Any):
    def pull(names: list[str]) -> list[Any]:
        raise ConnectionError("the run is over")

    monkeypatch.setattr(engine.grid, "pull_messages", pull)
    engine.send(1000, ASK)
    with pytest.raises(ConnectionError, match="the run is over"):
        arrived(engine, 1)


def test_a_site_that_starts_anew_has_lost_its_request(engine: Any):
    assert sorted(engine.nodes()) == [1000, 1001, 1002]
    lost, kept = engine.send(1000, ASK), engine.send(1002, ASK)
    engine.grid.started[1000] = "tuesday"
    engine.nodes()
    found = {answer.ticket: answer for answer in arrived(engine, 2)}
    assert isinstance(found[kept], Reply)
    failure = found[lost]
    assert isinstance(failure, Failure)
    assert (failure.client, failure.lost, failure.gone) == (1000, True, False)
    engine.nodes()
    assert engine.poll() == []


@pytest.mark.parametrize("names", [[], [""], [None]])
def test_a_request_that_the_engine_does_not_take_is_lost(
    engine: Any, monkeypatch: Any, names: list[Any]
):
    monkeypatch.setattr(engine.grid, "push_messages", lambda messages: names)
    ticket = engine.send(1000, ASK)
    (failure,) = engine.poll()
    assert (failure.ticket, failure.client, failure.lost) == (ticket, 1000, True)


def test_what_the_engine_says_is_not_the_sites_failure(engine: Any, monkeypatch: Any):
    monkeypatch.setattr(
        engine.grid, "pull_messages", lambda names: [unknown(name) for name in names]
    )
    engine.send(1000, ASK)
    (failure,) = arrived(engine, 1)
    assert isinstance(failure, Failure)
    assert failure.lost
    assert "Message ID not found" in failure.reason


def test_an_engine_that_does_not_answer_is_silent_not_broken(tmp_path: Path):
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(EngineSilent, match="nobody answers"):
        commands.status("1", address, None, {"FLWR_HOME": str(tmp_path)})
    assert issubclass(EngineSilent, InputError)


# ------------------------------------------------------------------ clocks


@pytest.fixture
def coordinator() -> Iterator[str]:
    """A coordinator that tells the time, 1,000,000 s after the beginning."""

    class Clock(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200)
            self.send_header("Date", formatdate(1_000_000, usegmt=True))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *about: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Clock) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (60.0, "this machine's clock is 60 s ahead of the coordinator's"),
        (-400.0, "this machine's clock is 400 s behind the coordinator's"),
        (0.9, None),
        (3.9, None),
        (-299.0, None),
    ],
)
def test_clocks_that_differ_are_named(
    coordinator: str, ahead: float, words: str | None
):
    told = clocks_apart(coordinator, None, lambda: 1_000_000 + ahead)
    assert told is None if words is None else str(told).startswith(words)


def test_without_a_coordinator_nothing_is_said_of_clocks():
    assert clocks_apart(f"127.0.0.1:{free_port()}", None) is None
    assert clocks_apart("nowhere", None) is None


def test_a_node_that_ended_without_a_word_may_have_another_time(
    coordinator: str, tmp_path: Path
):
    """So Flower ends a SuperNode whose signed time it does not believe."""
    log = tmp_path / "supernode.log"
    log.write_text("INFO : Starting Flower SuperNode\nINFO : terminated gracefully.\n")
    for alive, words in ((True, None), (False, "ahead of the coordinator's")):
        child: list[Any] = [SimpleNamespace(log=log, alive=alive)]
        told = FlowerNode(child.pop, coordinator, None).trouble()
        assert told is None if words is None else words in str(told)

# SPDX-License-Identifier: Apache-2.0
"""Engines: what every one of them does with bytes and addresses, and the registry.

The toy engine of docs/how-to/add-an-engine.md is tried here as any other would be.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.docs.test_blocks import blocks_of
from tests.runtime.test_transports import ListEngine, grid_engine, write_folders

from afcl.cli.serve import serve
from afcl.core.terms import AskAnnouncement
from afcl.exceptions import InputError
from afcl.runtime.codec import decode, encode
from afcl.runtime.live import engines
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.live.engine import Engine, Launcher
from afcl.runtime.live.engines import engine_names, get_launcher, register_engine
from afcl.runtime.results import read_result
from afcl.runtime.transport import Failure, Reply

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-an-engine.md"
ASK = encode(AskAnnouncement("run", True))


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the first block of the page defines."""
    first = next(b for b in blocks_of(PAGE.read_text()) if b.language == "python")
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(first.text, str(PAGE), "exec"), names)
    return names


Make = Callable[[dict[int, Path], dict[str, Any]], Engine]


def over_threads(folders: dict[int, Path], page: dict[str, Any]) -> Engine:
    engine: Engine = page["ThreadEngine"](folders)
    return engine


def over_lists(folders: dict[int, Path], page: dict[str, Any]) -> Engine:
    return ListEngine(folders)


def over_flower(folders: dict[int, Path], page: dict[str, Any]) -> Engine:
    return grid_engine(folders)


@pytest.fixture(params=[over_threads, over_lists, over_flower])
def engine(
    request: pytest.FixtureRequest, page: dict[str, Any], tmp_path: Path
) -> Engine:
    make: Make = request.param
    return make(write_folders(tmp_path), page)


def arrived(engine: Engine, count: int) -> list[Reply | Failure]:
    found: list[Reply | Failure] = []
    until = time.monotonic() + 60
    while len(found) < count and time.monotonic() < until:
        found += engine.poll()
    assert len(found) == count
    return found


def test_everybody_can_be_reached(engine: Engine):
    assert sorted(engine.nodes()) == [1000, 1001, 1002]


def test_an_answer_comes_back_once_with_ticket_and_address(engine: Engine):
    ticket = engine.send(1001, ASK)
    (reply,) = arrived(engine, 1)
    assert isinstance(reply, Reply)
    assert (reply.ticket, reply.client) == (ticket, 1001)
    site = decode(reply.data)
    assert isinstance(site, Announcement)
    assert (site.name, site.n_rows) == ("site-1", 10)
    assert list(engine.poll()) == []


def test_tickets_differ(engine: Engine):
    tickets = {engine.send(address, ASK): address for address in engine.nodes()}
    assert len(tickets) == 3
    found = {answer.ticket: answer.client for answer in arrived(engine, 3)}
    assert found == tickets


def test_what_a_site_refuses_is_a_failure_with_its_reason(engine: Engine):
    engine.send(1002, ASK)
    arrived(engine, 1)
    ticket = engine.send(1002, encode(AskAnnouncement("another", True)))
    (failure,) = arrived(engine, 1)
    assert isinstance(failure, Failure)
    assert (failure.ticket, failure.client, failure.gone) == (ticket, 1002, False)
    assert failure.reason == "site-2 takes part in another run"


def test_an_engine_can_be_closed_twice(engine: Engine):
    engine.close()
    engine.close()


# ------------------------------------------------------------------ the registry


@pytest.fixture
def registered(page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setattr(engines, "_REGISTRY", dict(engines._REGISTRY))
    register_engine("threads", page["ThreadLauncher"])
    return get_launcher("threads")


def test_a_registered_engine_serves_a_run(registered: Launcher, tmp_path: Path):
    assert engine_names() == ("flower", "threads")
    folders = write_folders(tmp_path)
    for folder in folders.values():
        registered.join(folder, "127.0.0.1:8123", None, None, 0)
    out = tmp_path / "run"
    serve(out=out, port=8123, min_clients=3, engine="threads", insecure=True)
    result = read_result(out)
    assert sorted(site["name"] for site in result["sites"]) == [
        f"site-{number}" for number in range(3)
    ]
    for folder in folders.values():
        assert len((folder / "labels.csv").read_text().split()) == 11


def test_engines_are_asked_for_by_name(registered: Launcher):
    with pytest.raises(InputError, match="no engine 'rest': there is flower, threads"):
        get_launcher("rest")
    with pytest.raises(InputError, match="an engine 'flower' is there already"):
        register_engine("flower", lambda: registered)


def test_the_listed_launchers_can_be_started():
    pytest.importorskip("flwr", reason="needs Flower: pip install 'afcl[flower]'")
    for name in engine_names():
        launcher = get_launcher(name)
        for method in ("keygen", "certificates", "serve", "join"):
            assert callable(getattr(launcher, method))


def test_flowers_launcher_is_one_for_the_type_checker():
    from afcl.runtime.flower.launcher import FlowerLauncher

    launcher: Launcher = FlowerLauncher()
    assert launcher is not None

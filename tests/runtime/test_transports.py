# SPDX-License-Identifier: Apache-2.0
"""What the coordinator may rely on, whatever carries the messages: one suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from afcl.core.terms import AskHello, Terms
from afcl.runtime.agreement import AgreementRequest
from afcl.runtime.codec import decode, encode
from afcl.runtime.inprocess import InProcess
from afcl.runtime.journal import Journal
from afcl.runtime.live.admission import Admission
from afcl.runtime.live.engine import Engine
from afcl.runtime.live.membership import Membership, keep_membership
from afcl.runtime.live.trouble import answer_or_reason
from afcl.runtime.schedule import Schedule
from afcl.runtime.site import Site
from afcl.runtime.transport import Failure, Reply, Transport
from afcl.scale import no_box

ROWS = [np.arange(20.0).reshape(10, 2) + 5 * site for site in range(3)]


def hello(client: int) -> bytes:
    terms = Terms("run", "afcl", "{}", 0, client, no_box(2), 30)
    return encode(AskHello(terms))


def in_process(tmp_path: Path) -> Transport:
    sites = [Site(rows) for rows in ROWS]
    return InProcess(sites, Schedule().bind(len(sites), 0))


def write_folders(tmp_path: Path) -> dict[int, Path]:
    folders = {}
    for site, rows in enumerate(ROWS):
        folder = tmp_path / f"site-{site}"
        folder.mkdir()
        pl.DataFrame(rows, schema=["x", "y"]).write_csv(folder / "rows.csv")
        told = Membership(str(folder / "rows.csv"), f"site-{site}")
        keep_membership(folder, told)
        folders[1000 + site] = folder
    return folders


class ListEngine:
    """Sites that answer at the next look."""

    def __init__(self, folders: dict[int, Path]) -> None:
        self.folders = folders
        self.sent = 0
        self.flying: list[tuple[int, int, bytes]] = []

    def nodes(self) -> list[int]:
        return list(self.folders)

    def send(self, address: int, data: bytes) -> int:
        self.sent += 1
        self.flying.append((self.sent, address, data))
        return self.sent

    def poll(self) -> list[Reply | Failure]:
        arrived, self.flying = self.flying, []
        return [self._answer(*flight) for flight in arrived]

    def _answer(self, ticket: int, address: int, data: bytes) -> Reply | Failure:
        said, why = answer_or_reason(self.folders[address], data)
        failed = Failure(ticket, address, why)
        return failed if why else Reply(ticket, address, said)

    def close(self) -> None:
        pass


class FakeGrid:
    """Flower's grid as far as the engine uses it, with the client app behind it."""

    def __init__(self, folders: dict[int, Path]) -> None:
        self.folders = folders
        self.flying: dict[str, Any] = {}
        self.started = dict.fromkeys(folders, "monday")

    def get_nodes(self) -> list[Any]:
        return [
            SimpleNamespace(node_id=node, last_activated_at=self.started[node])
            for node in self.folders
        ]

    def push_messages(self, messages: list[Any]) -> list[str]:
        names = []
        for message in messages:
            names.append(f"message-{len(self.flying)}-{id(message)}")
            self.flying[names[-1]] = message
        return names

    def pull_messages(self, names: list[str]) -> Iterator[Any]:
        from afcl.runtime.flower.engine import packed, unpacked

        for name in names:
            message = self.flying.pop(name, None)
            if message is not None:
                request, _ = unpacked(message.content)
                folder = self.folders[message.metadata.dst_node_id]
                content = packed(*answer_or_reason(folder, request))
                yield SimpleNamespace(
                    metadata=SimpleNamespace(reply_to_message_id=name),
                    content=content,
                    has_error=lambda: False,
                )


def admitted(engine: Engine, tmp_path: Path) -> Transport:
    with Journal(tmp_path / "journal.bin", "run") as journal:
        made = Admission(
            engine, "run", AgreementRequest(), 3, journal, sleep=lambda seconds: None
        )
        made.agree(lambda event, **fields: None)
    return made


def over_lists(tmp_path: Path) -> Transport:
    return admitted(ListEngine(write_folders(tmp_path)), tmp_path)


def grid_engine(folders: dict[int, Path]) -> Engine:
    """Return Flower's engine over a grid without Flower's processes."""
    pytest.importorskip("flwr", reason="needs Flower: pip install 'afcl[flower]'")
    from flwr.supercore.task_identity import TaskIdentity

    from afcl.runtime.flower.engine import GridEngine

    # Messages are stamped with the engine's task, which there is none of here.
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    grid: Any = FakeGrid(folders)
    return GridEngine(grid)


def over_flower(tmp_path: Path) -> Transport:
    return admitted(grid_engine(write_folders(tmp_path)), tmp_path)


Make = Callable[[Path], Transport]


@pytest.fixture(params=[in_process, over_lists, over_flower])
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Transport:
    make: Make = request.param
    return make(tmp_path)


def arrivals(transport: Transport, count: int) -> list[Reply | Failure]:
    found: list[Reply | Failure] = []
    for _ in range(20):
        found += transport.poll()
        if len(found) >= count:
            return found
        transport.advance()
    raise AssertionError(f"{len(found)} of {count} came back")


def test_everybody_is_there(transport: Transport):
    assert list(transport.members()) == [0, 1, 2]


def test_an_answer_comes_back_once_with_its_ticket(transport: Transport):
    ticket = transport.send(1, 0, hello(1))
    (reply,) = arrivals(transport, 1)
    assert isinstance(reply, Reply)
    assert (reply.ticket, reply.client) == (ticket, 1)
    assert decode(reply.data).n_rows == 10
    transport.advance()
    assert transport.poll() == []


def test_who_is_being_asked_is_not_asked_again(transport: Transport):
    transport.send(1, 0, hello(1))
    assert 1 not in transport.members()
    arrivals(transport, 1)
    assert 1 in transport.members()


def test_tickets_differ(transport: Transport):
    tickets = {transport.send(client, 0, hello(client)) for client in range(3)}
    assert len(tickets) == 3
    found = arrivals(transport, 3)
    assert {answer.ticket for answer in found} == tickets
    assert {answer.client for answer in found} == {0, 1, 2}


def test_rounds_only_go_up(transport: Transport):
    before = transport.round
    transport.send(0, 0, hello(0))
    transport.advance()
    assert transport.round >= before


def test_nobody_else_is_expected(transport: Transport):
    for client in range(3):
        transport.send(client, 0, hello(client))
    arrivals(transport, 3)
    assert not transport.expecting()


def test_it_can_be_closed_twice(transport: Transport):
    transport.close()
    transport.close()


@pytest.mark.parametrize("make", [over_lists, over_flower])
def test_what_a_site_refuses_is_a_failure_with_a_reason(make: Make, tmp_path: Path):
    transport = make(tmp_path)
    foreign = Terms("run", "dk++", '{"n_clusters": 2}', 0, 2, no_box(2), 30)
    ticket = transport.send(2, 0, encode(AskHello(foreign)))
    (failure,) = arrivals(transport, 1)
    assert isinstance(failure, Failure)
    assert (failure.ticket, failure.client, failure.gone) == (ticket, 2, False)
    assert "dk++" in failure.reason

# SPDX-License-Identifier: Apache-2.0
"""Flower's grid as an engine: bytes out and back, one request at a time to a node."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from afcl.runtime.transport import Failure, Reply, Ticket

#: The name of our record inside a message.
RECORD = "afcl"
#: Its bytes.
DATA = "data"
#: What went wrong.
TROUBLE = "trouble"
#: Seconds after which the engine itself gives a request up.
TIME_TO_LIVE = 24 * 3600.0
#: Seconds after which a look at the grid is left to itself.
WAIT = 2.0
#: Most looks at a time that have not come to an end.
LOOKS = 8


def packed(data: bytes, trouble: str = "") -> RecordDict:
    """Return a message's content."""
    return RecordDict({RECORD: ConfigRecord({DATA: data, TROUBLE: trouble})})


def unpacked(content: RecordDict) -> tuple[bytes, str]:
    """Return a message's bytes, and what went wrong."""
    record: Any = content[RECORD]
    return bytes(record[DATA]), str(record[TROUBLE])


class GridEngine:
    """An engine of live runs over Flower's `Grid`.

    Parameters
    ----------
    grid
        Flower's.
    wait
        Seconds for which one look at the grid is waited for.
    """

    def __init__(self, grid: Grid, wait: float = WAIT) -> None:
        self.grid = grid
        self._wait = wait
        self._tickets = 0
        self._under_way: dict[str, tuple[Ticket, int]] = {}
        #: When the nodes were last started.
        self._since: dict[int, str] = {}
        #: Requests that are lost, to be told at the next look.
        self._lost: list[Failure] = []
        self._pulls: list[_Pull] = []

    def nodes(self) -> Sequence[int]:
        """Return the nodes that the engine holds for alive.

        One that was started anew since the last look has forgotten what it was asked.
        """
        since = {n.node_id: n.last_activated_at for n in self.grid.get_nodes()}
        for node, start in since.items():
            if self._since.get(node, start) != start:
                self._lose(node, "the site was started anew")
        self._since |= since
        return list(since)

    def _lose(self, address: int, reason: str) -> None:
        """Expect no answer to what was asked at an address."""
        names = [name for name, (_, to) in self._under_way.items() if to == address]
        for name in names:
            ticket, _ = self._under_way.pop(name)
            self._lost.append(Failure(ticket, address, reason, lost=True))

    def send(self, address: int, data: bytes) -> Ticket:
        """Push a request."""
        message = Message(
            packed(data), dst_node_id=address, message_type="query", ttl=TIME_TO_LIVE
        )
        names = list(self.grid.push_messages([message]))
        self._tickets += 1
        if names and names[0]:
            self._under_way[names[0]] = (self._tickets, address)
        else:
            reason = "the engine did not take the request"
            self._lost.append(Failure(self._tickets, address, reason, lost=True))
        return self._tickets

    def poll(self) -> list[Reply | Failure]:
        """Pull what has come back.

        The grid waits for an answer that is being handed in until all of it is there,
        minutes if the link breaks meanwhile, and holds all others back. So it is asked
        from a thread, and from another one if the first does not return.
        """
        arrived: list[Reply | Failure] = [*self._lost]
        self._lost = []
        if self._under_way and len(self._pulls) < LOOKS:
            pull = _Pull(self.grid, list(self._under_way))
            self._pulls.append(pull)
            pull.join(self._wait)
        over = [pull for pull in self._pulls if not pull.is_alive()]
        self._pulls = [pull for pull in self._pulls if pull.is_alive()]
        for pull in over:
            if pull.error is not None:
                raise pull.error
            for message in pull.found:
                arrived += self._sorted(message)
        return arrived

    def _sorted(self, message: Message) -> list[Reply | Failure]:
        """Return a message as an answer, if it is one that is waited for.

        Of an answer that another thread is still taking the grid knows nothing more.
        """
        name = message.metadata.reply_to_message_id
        if message.has_error() and any(name in pull.names for pull in self._pulls):
            return []
        known = self._under_way.pop(name, None)
        return [] if known is None else [_read(message, *known)]

    def close(self) -> None:
        """Nothing to let go of: the grid is the engine's."""


class _Pull(Thread):
    """One look at the grid, which may take its time."""

    def __init__(self, grid: Grid, names: list[str]) -> None:
        super().__init__(daemon=True)
        self._grid = grid
        self.names = frozenset(names)
        self.found: list[Message] = []
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        """Look, and keep what is found."""
        try:
            self.found = list(self._grid.pull_messages(sorted(self.names)))
        except Exception as error:
            self.error = error


def _read(message: Message, ticket: Ticket, address: int) -> Reply | Failure:
    if message.has_error():
        reason = f"the engine says: {message.error.reason}"
        return Failure(ticket, address, reason, lost=True)
    try:
        data, trouble = unpacked(message.content)
    except (KeyError, TypeError, ValueError) as error:
        return Failure(ticket, address, f"an answer that is none: {error}")
    if trouble:
        return Failure(ticket, address, trouble)
    return Reply(ticket, address, data)

# SPDX-License-Identifier: Apache-2.0
"""Flower's grid as an engine: bytes out and back, one request at a time to a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from afcl.runtime.transport import Failure, Reply, Ticket

#: Names inside a message: the record, its bytes, and what went wrong.
RECORD, DATA, TROUBLE = "afcl", "data", "trouble"
#: Seconds after which the engine itself gives a request up.
TIME_TO_LIVE = 24 * 3600.0


def packed(data: bytes, trouble: str = "") -> RecordDict:
    """Return a message's content."""
    return RecordDict({RECORD: ConfigRecord({DATA: data, TROUBLE: trouble})})


def unpacked(content: RecordDict) -> tuple[bytes, str]:
    """Return a message's bytes, and what went wrong."""
    record: Any = content[RECORD]
    return bytes(record[DATA]), str(record[TROUBLE])


class GridEngine:
    """An engine of live runs over Flower's `Grid`."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._tickets = 0
        self._under_way: dict[str, tuple[Ticket, int]] = {}

    def nodes(self) -> Sequence[int]:
        """Return the nodes that the engine holds for alive."""
        return list(self.grid.get_node_ids())

    def send(self, address: int, data: bytes) -> Ticket:
        """Push a request."""
        message = Message(
            packed(data), dst_node_id=address, message_type="query", ttl=TIME_TO_LIVE
        )
        (name,) = self.grid.push_messages([message])
        self._tickets += 1
        self._under_way[name] = (self._tickets, address)
        return self._tickets

    def poll(self) -> list[Reply | Failure]:
        """Pull what has come back."""
        if not self._under_way:
            return []
        arrived: list[Reply | Failure] = []
        for message in self.grid.pull_messages(list(self._under_way)):
            known = self._under_way.pop(message.metadata.reply_to_message_id, None)
            if known is not None:
                arrived.append(_read(message, *known))
        return arrived

    def close(self) -> None:
        """Nothing to let go of: the grid is the engine's."""


def _read(message: Message, ticket: Ticket, address: int) -> Reply | Failure:
    if message.has_error():
        return Failure(ticket, address, f"the engine says: {message.error.reason}")
    try:
        data, trouble = unpacked(message.content)
    except (KeyError, TypeError, ValueError) as error:
        return Failure(ticket, address, f"an answer that is none: {error}")
    if trouble:
        return Failure(ticket, address, trouble)
    return Reply(ticket, address, data)

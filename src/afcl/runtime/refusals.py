# SPDX-License-Identifier: Apache-2.0
"""Whose messages were refused, how often, and who is not asked again."""

from __future__ import annotations

from afcl._typing import ClientId
from afcl.trace import Trace

#: A client whose messages were refused so often in a row is not asked again.
MOST_IN_A_ROW = 3
#: Why it is left out.
TOO_MANY = f"{MOST_IN_A_ROW} messages in a row were refused"


class Refusals:
    """The refused messages of every client that had any.

    Attributes
    ----------
    counts
        How many, in all.
    shut_out
        Clients that are not asked again.
    """

    def __init__(self) -> None:
        self.counts: dict[ClientId, int] = {}
        self.shut_out: set[ClientId] = set()
        self._in_a_row: dict[ClientId, int] = {}

    def add(self, client: ClientId) -> None:
        """Count a refused message."""
        self.counts[client] = self.counts.get(client, 0) + 1
        self._in_a_row[client] = self._in_a_row.get(client, 0) + 1

    def forgive(self, client: ClientId) -> None:
        """Begin to count anew: a message was accepted."""
        self._in_a_row.pop(client, None)

    def shuts_out(self, client: ClientId) -> bool:
        """Shut out who has earned it; return whether it was now."""
        if self._in_a_row[client] < MOST_IN_A_ROW or client in self.shut_out:
            return False
        self.shut_out.add(client)
        return True

    def recall(self, trace: Trace) -> None:
        """Know again what was refused before: the journal has only the rest."""
        for event in trace.of("rejected", "hello", "update", "left"):
            client = event["client"]
            if event["event"] == "rejected":
                self.add(client)
            else:
                self.forgive(client)
            if event["event"] == "left" and "reason" in event:
                self.shut_out.add(client)

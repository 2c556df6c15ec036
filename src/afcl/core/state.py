# SPDX-License-Identifier: Apache-2.0
"""What the server of the default preset knows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from afcl._typing import ClientId, Floats
from afcl.core.cells import nothing, union
from afcl.core.messages import Cells, LevelReply, Plan
from afcl.core.params import DefaultParams
from afcl.core.path import Built
from afcl.core.protocol import Merge

#: Answers to one version after which a client has nothing to add.
ANSWERS = 2


@dataclass(frozen=True, slots=True)
class Candidate:
    """A level the clients are asked about; `revision` counts its polishings."""

    level: Built
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ServerState:
    """Everything the server knows: one bag of cells per client, seeds, path.

    `sent` holds the plans that may have gone out with this version, the newest last,
    and `plans` counts them: what an answer is checked against. `bounded` says that a
    box was agreed, so that no honest cell lies far outside it; `extremes` are the
    smallest and largest values that a client announced, if it did.
    """

    params: DefaultParams
    seed: int
    n_features: int = -1
    hellos: dict[ClientId, Cells] = field(default_factory=dict)
    memory: dict[ClientId, Cells] = field(default_factory=dict)
    rows: dict[ClientId, int] = field(default_factory=dict)
    contacts: dict[ClientId, int] = field(default_factory=dict)
    left: frozenset[ClientId] = frozenset()
    answers: dict[ClientId, int] = field(default_factory=dict)
    replies: dict[ClientId, tuple[LevelReply, ...]] = field(default_factory=dict)
    seeds: Floats | None = None
    built_from: Floats | None = None
    movement: float = 0.0
    version: int = 0
    seedings: int = 0
    need_seed: bool = False
    moved: bool = False
    dirty: bool = False
    stale: bool = False
    levels: tuple[Built, ...] = ()
    merges: tuple[Merge, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    sent: tuple[Plan, ...] = ()
    plans: int = 0
    bounded: bool = False
    extremes: dict[ClientId, tuple[Floats, Floats]] = field(default_factory=dict)

    def within(self, n_features: int, bounded: bool) -> ServerState:
        """Return the state that knows the agreement, before any message."""
        return replace(self, n_features=n_features, bounded=bounded)

    def told(self, client: ClientId, low: Floats, high: Floats) -> ServerState:
        """Return the state that knows a client's extremes, in agreed units."""
        return replace(self, extremes={**self.extremes, client: (low, high)})

    @property
    def prepared(self) -> bool:
        """Whether no heavy work is waiting."""
        waiting = self.need_seed or self.moved or self.dirty or self.stale
        return self.version > 0 and not waiting

    def bag(self) -> Cells:
        """R2: the union of all memories, by client id, then cell."""
        return union(self.memory[client] for client in sorted(self.memory))

    def total_rows(self) -> int:
        """Return the rows of all clients that said hello."""
        return sum(self.rows.values())

    def level_bag(self, position: int) -> Cells:
        """R6: what was replied about a candidate, and the memory of who is silent."""
        return union(
            self.replies[client][position].cells
            if client in self.replies
            else self.memory[client]
            for client in sorted(self.memory)
        )

    def silent_bag(self) -> Cells:
        """Return the memory of the clients that have not replied to this version."""
        silent = (c for c in sorted(self.memory) if c not in self.replies)
        return union([nothing(self.n_features), *(self.memory[c] for c in silent)])

    def replied_sums(self, position: int) -> tuple[float, float]:
        """Return the replied sums of silhouettes about a candidate, by client id."""
        simplified = moment = 0.0
        for client in sorted(self.replies):
            simplified += self.replies[client][position].simplified
            moment += self.replies[client][position].moment
        return simplified, moment

    def active(self) -> list[ClientId]:
        """Clients that said hello and have not left."""
        return [client for client in sorted(self.memory) if client not in self.left]

    def satisfied(self, client: ClientId) -> bool:
        """Whether nothing more is wanted from this client for now."""
        return (
            self.answers.get(client, 0) >= ANSWERS
            or self.contacts[client] >= self.params.contacts
        )

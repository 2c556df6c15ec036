# SPDX-License-Identifier: Apache-2.0
"""What the server of the default preset knows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from immutables import Map

from afcl._typing import ClientId, Floats
from afcl.core.cells import nothing, union
from afcl.core.condense import thin_cells
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
class View:
    """What several clients replied about one candidate: cells, sums of silhouettes."""

    cells: Cells
    simplified: float = 0.0
    moment: float = 0.0


@dataclass(frozen=True, slots=True)
class Pooled:
    """What is remembered of clients together, because there were too many cells.

    Attributes
    ----------
    clients, cells
        Whose memories were condensed, and what to.
    replied, views
        Whose replies to this version were, and what to, one for every candidate.
    """

    clients: frozenset[ClientId] = frozenset()
    cells: Cells | None = None
    replied: frozenset[ClientId] = frozenset()
    views: tuple[View, ...] = ()

    def __len__(self) -> int:
        own = 0 if self.cells is None else len(self.cells)
        return own + sum(len(view.cells) for view in self.views)


@dataclass(frozen=True, slots=True)
class ServerState:
    """Everything the server knows: one bag of cells per client, seeds, path.

    A state is a value: absorbing makes a new one that shares all but one client's
    entries with the old one.

    Attributes
    ----------
    hellos
        A digest of every client's hello, to know it again.
    memory
        Every client's finest cells, unless they are pooled.
    rows, contacts
        Rows and messages of every client that said hello.
    replies, answers
        Replies to this version, the newest of each client, and how many it gave.
    held
        Cells in `memory` and `replies`.
    pooled
        What is remembered of clients together.
    sent, plans
        The plans that may have gone out with this version, the newest last, and their
        number: what an answer is checked against.
    bounded
        Whether a box was agreed, so that no honest cell lies far outside it.
    extremes
        The smallest and largest values that a client announced, if it did.
    """

    params: DefaultParams
    seed: int
    n_features: int = -1
    hellos: Map[ClientId, bytes] = field(default_factory=Map)
    memory: Map[ClientId, Cells] = field(default_factory=Map)
    rows: Map[ClientId, int] = field(default_factory=Map)
    contacts: Map[ClientId, int] = field(default_factory=Map)
    left: frozenset[ClientId] = frozenset()
    answers: Map[ClientId, int] = field(default_factory=Map)
    replies: Map[ClientId, tuple[LevelReply, ...]] = field(default_factory=Map)
    held: int = 0
    pooled: Pooled = field(default_factory=Pooled)
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
    extremes: Map[ClientId, tuple[Floats, Floats]] = field(default_factory=Map)

    def within(self, n_features: int, bounded: bool) -> ServerState:
        """Return the state that knows the agreement, before any message."""
        return replace(self, n_features=n_features, bounded=bounded)

    def told(self, client: ClientId, low: Floats, high: Floats) -> ServerState:
        """Return the state that knows a client's extremes, in agreed units."""
        return replace(self, extremes=self.extremes.set(client, (low, high)))

    def left_without(self, client: ClientId) -> frozenset[ClientId]:
        """Return who has left, but for this client."""
        return self.left - {client} if client in self.left else self.left

    @property
    def prepared(self) -> bool:
        """Whether no heavy work is waiting."""
        waiting = self.need_seed or self.moved or self.dirty or self.stale
        return self.version > 0 and not waiting

    @property
    def remembered(self) -> int:
        """Cells in all: of clients one by one, and of clients together."""
        return self.held + len(self.pooled)

    def bag(self) -> Cells:
        """R2: the union of all memories, by client id, then cell; then the pool."""
        own = [self.memory[client] for client in sorted(self.memory)]
        return union(own if self.pooled.cells is None else [*own, self.pooled.cells])

    def total_rows(self) -> int:
        """Return the rows of all clients that said hello."""
        return sum(self.rows.values())

    def level_bag(self, position: int) -> Cells:
        """R6: what was replied about a candidate, and the memory of who is silent."""
        own = [
            self.replies[client][position].cells
            if client in self.replies
            else self.memory[client]
            for client in sorted({*self.memory, *self.replies})
        ]
        views = [view.cells for view in self.pooled.views[position : position + 1]]
        return union([*own, *views, *self._silent_pool()])

    def silent_bag(self) -> Cells:
        """Return the memory of the clients that have not replied to this version."""
        silent = (c for c in sorted(self.memory) if c not in self.replies)
        own = (self.memory[client] for client in silent)
        return union([nothing(self.n_features), *own, *self._silent_pool()])

    def _silent_pool(self) -> list[Cells]:
        """Return the pool thinned to the rows of those in it who are silent.

        Whose cells are whose cannot be told any more: everybody counts alike.
        """
        if self.pooled.cells is None:
            return []
        rows = {client: self.rows[client] for client in self.pooled.clients}
        silent = self.pooled.clients.difference(self.pooled.replied, self.replies)
        share = sum(rows[client] for client in silent) / sum(rows.values())
        return [thin_cells(self.pooled.cells, share)]

    def replied_sums(self, position: int) -> tuple[float, float]:
        """Return the replied sums of silhouettes about a candidate, by client id."""
        simplified = moment = 0.0
        for client in sorted(self.replies):
            simplified += self.replies[client][position].simplified
            moment += self.replies[client][position].moment
        for view in self.pooled.views[position : position + 1]:
            simplified += view.simplified
            moment += view.moment
        return simplified, moment

    def unanswered(self) -> ServerState:
        """Return the state to which nobody has replied."""
        return replace(
            self,
            replies=Map(),
            answers=Map(),
            held=sum(len(cells) for cells in self.memory.values()),
            pooled=replace(self.pooled, replied=frozenset(), views=()),
        )

    def active(self) -> list[ClientId]:
        """Clients that said hello and have not left."""
        return [client for client in sorted(self.rows) if client not in self.left]

    def satisfied(self, client: ClientId) -> bool:
        """Whether nothing more is wanted from this client for now."""
        return (
            self.answers.get(client, 0) >= ANSWERS
            or self.contacts[client] >= self.params.contacts
        )

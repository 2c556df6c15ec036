# SPDX-License-Identifier: Apache-2.0
"""What the server of the default preset knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from immutables import Map

from afcl._typing import AnyArray, Bools, ClientId, Floats, Ints
from afcl.core.cells import exchange, nothing, take, union
from afcl.core.condense import thin_cells
from afcl.core.messages import Cells, LevelReply, Plan
from afcl.core.params import DefaultParams
from afcl.core.protocol import Merge, PathLevel

#: Answers to one version after which a client has nothing to add.
ANSWERS = 2

#: A number of one client, or those of a group's clients as a column.
Column: TypeAlias = int | Ints


@dataclass(frozen=True, slots=True)
class View:
    """What several clients replied about one candidate.

    Cells, sums of silhouettes, and counts between its centres; of these none (0, 3)
    where the clients spoke of different centres.
    """

    cells: Cells
    sums: Floats = field(default_factory=lambda: np.zeros(2))
    valleys: Floats = field(default_factory=lambda: np.empty((0, 3)))


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

    A state is a value: absorbing makes a new one that shares all but one entry of
    every map with the old one. An entry is that of a client, or of a whole group of
    simulated clients (see :class:`~afcl.core.messages.Batch`) under its first one's
    number: then numbers are columns, and cells have offsets.

    Attributes
    ----------
    hellos
        A digest of every client's hello, to know it again.
    memory
        Every client's finest cells, unless they are pooled.
    rows, contacts
        Rows and messages of every client that said hello.
    replies, answers
        Replies to this version, the newest of each client, and how many it gave. In a
        group, who has not replied has no cells there.
    held
        Cells in `memory` and `replies` of single clients.
    pooled
        What is remembered of clients together.
    sent, plans
        The plans that may have gone out with this version, the newest last, and their
        number: what an answer is checked against.
    levels, merges
        The path, and the tree of seeds that it follows.
    most
        The largest k that the path was built for.
    candidates
        The levels that the clients are asked about, as their replies have polished
        them.
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
    rows: Map[ClientId, Column] = field(default_factory=Map)
    contacts: Map[ClientId, Column] = field(default_factory=Map)
    left: frozenset[ClientId] = frozenset()
    answers: Map[ClientId, Column] = field(default_factory=Map)
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
    levels: tuple[PathLevel, ...] = ()
    merges: tuple[Merge, ...] = ()
    most: int = 0
    candidates: tuple[PathLevel, ...] = ()
    sent: tuple[Plan, ...] = ()
    plans: int = 0
    bounded: bool = False
    extremes: Map[ClientId, tuple[Floats, Floats]] = field(default_factory=Map)

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

    # ------------------------------------------------------------------ bags

    def bag(self) -> Cells:
        """R2: the union of all memories, by client id, then cell; then the pool."""
        own = [self.memory[client] for client in sorted(self.memory)]
        return union(own if self.pooled.cells is None else [*own, self.pooled.cells])

    def owners(self) -> Ints:
        """Return whose every cell of :meth:`bag` is; -1: of several clients."""
        whose = [
            client + np.repeat(np.arange(len(cells.sizes)), cells.sizes)
            for client, cells in sorted(self.memory.items())
        ]
        pool = 0 if self.pooled.cells is None else len(self.pooled.cells)
        alone = min(self.pooled.clients) if len(self.pooled.clients) == 1 else -1
        return np.concatenate([*whose, np.full(pool, alone, dtype=np.int64)])

    def total_rows(self) -> int:
        """Return the rows of all clients that said hello."""
        return sum(total(rows) for rows in self.rows.values())

    def level_bag(self, position: int) -> Cells:
        """R6: what was replied about a candidate, and the memory of who is silent."""
        own = [
            self._newest(client, position)
            for client in sorted({*self.memory, *self.replies})
        ]
        views = [view.cells for view in self.pooled.views[position : position + 1]]
        return union([*own, *views, *self._silent_pool()])

    def _newest(self, client: ClientId, position: int) -> Cells:
        """Return an entry's replies about a candidate, its memory where it has none."""
        if client not in self.replies:
            return self.memory[client]
        replied = self.replies[client][position].cells
        if replied.offsets is None:
            return replied
        where = np.where(self._replied(client), np.arange(replied.sizes.shape[0]), -1)
        return exchange(self.memory[client], replied, where)

    def silent_bag(self) -> Cells:
        """Return the memory of the clients that have not replied to this version."""
        own = list(self._silent())
        return union([nothing(self.n_features), *own, *self._silent_pool()])

    def _silent(self) -> Iterator[Cells]:
        for client in sorted(self.memory):
            if client not in self.replies:
                yield self.memory[client]
            elif self.memory[client].offsets is not None:
                silent = np.flatnonzero(~self._replied(client))
                yield take(self.memory[client], silent)

    def _replied(self, group: ClientId) -> Bools:
        """Return which clients of a group have replied to this version."""
        return np.asarray(self.answers[group]) > 0

    def _silent_pool(self) -> list[Cells]:
        """Return the pool thinned to the rows of those in it who are silent.

        Whose cells are whose cannot be told any more: everybody counts alike.
        """
        if self.pooled.cells is None:
            return []
        rows = {client: total(self.rows[client]) for client in self.pooled.clients}
        silent = self.pooled.clients.difference(self.pooled.replied, self.replies)
        share = sum(rows[client] for client in silent) / sum(rows.values())
        return [thin_cells(self.pooled.cells, share)]

    def replied_sums(self, position: int) -> Floats:
        """Return the replied sums of silhouettes about a candidate, by client id."""
        replied = [self.replies[c][position].sums for c in sorted(self.replies)]
        views = [view.sums for view in self.pooled.views[position : position + 1]]
        # One sum over all clients, in their order: a group's has the same bits.
        every = np.concatenate([np.zeros(2), *(s.ravel() for s in (*replied, *views))])
        sums: Floats = every.reshape(-1, 2).sum(axis=0)
        return sums

    def replied_valleys(self, position: int, k: int) -> Floats:
        """Return the replied counts between a candidate's k centres, if all are."""
        replied = [self.replies[c][position].valleys for c in sorted(self.replies)]
        views = [view.valleys for view in self.pooled.views[position : position + 1]]
        return added_up([*replied, *views], k)

    def unanswered(self) -> ServerState:
        """Return the state to which nobody has replied."""
        own = (cells for cells in self.memory.values() if cells.offsets is None)
        return replace(
            self,
            replies=Map(),
            answers=Map(),
            held=sum(len(cells) for cells in own),
            pooled=replace(self.pooled, replied=frozenset(), views=()),
        )

    # ------------------------------------------------------------------ who is asked

    def active(self) -> list[ClientId]:
        """Entries that said hello and have not left."""
        return [client for client in sorted(self.rows) if client not in self.left]

    def wanted(self, client: ClientId) -> bool | Bools:
        """Return whether (of a group: of whom) more is wanted for now."""
        few = self.answers.get(client, 0) < ANSWERS
        return few & (self.contacts[client] < self.params.contacts)

    def satisfied(self, client: ClientId) -> bool:
        """Whether nothing more is wanted of this entry for now."""
        wanted = self.wanted(client)
        return not (wanted if isinstance(wanted, bool) else wanted.any())


def added_up(valleys: Sequence[AnyArray], k: int) -> Floats:
    """Return the sum of counts between k centres; none if some are of others.

    Counts are whole numbers, so their order does not matter.
    """
    if not valleys or any(counts.shape[-2:] != (k, 3) for counts in valleys):
        return np.empty((0, 3))
    summed = np.zeros((k, 3))
    for counts in valleys:
        summed += counts.reshape(-1, k, 3).sum(axis=0, dtype=np.float64)
    return summed


def total(column: Column) -> int:
    """Return the sum of a column, or the number itself."""
    return column if isinstance(column, int) else int(column.sum())

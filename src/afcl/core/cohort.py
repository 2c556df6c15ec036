# SPDX-License-Identifier: Apache-2.0
"""One cohort, as the server knows it: who is in it, what it is asked, what it said.

Frozen, like every state: what a cohort hears makes another one of it. Questions and
answers are messages (:mod:`core.tasks`); what is asked next is decided in
:mod:`core.cohort_rebuild`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import Cells
from afcl.core.tasks import (
    KEY,
    OPENING,
    PRESENCE,
    SUM,
    Evidence,
    Parts,
    Question,
    SeedPartition,
)


@dataclass(frozen=True, slots=True)
class GroupMoments:
    """A cohort's groups: counts, means, and scatters by column, or of all columns.

    `missing` are the rows of each that are counted, but in no sum.
    """

    counts: Ints
    means: Floats
    scatters: Floats
    missing: Ints | int = 0

    @property
    def cells(self) -> Cells:
        """The groups as cells."""
        return Cells(self.counts, self.means, self.scatters.sum(axis=1))


@dataclass(frozen=True, slots=True)
class Cohort:
    """Clients whose sums are read together.

    Attributes
    ----------
    members, question
        Who is in it, and what is asked; None: nothing, the server has to think.
    asked
        How many questions its members were asked.
    counts
        Rows per seed of the finest partition that was counted.
    moments
        What the coarsest groups sum up to, once that is known.
    parts, tags, answered
        What was answered to this question, what shows it to others, and by whom.
    evidence, present, opened
        Everybody's presence, and the tags of each, once all have told it; of how many
        groups; which of the coarsest ones enough of them hold.
    keyed, key, total
        Whether its first member holds a key, the public part of it, and the encrypted
        sum that waits to be opened.
    """

    members: tuple[ClientId, ...]
    question: Question | None
    asked: int = 1
    counts: Ints | None = None
    partitions: tuple[SeedPartition, ...] = ()
    moments: GroupMoments | None = None
    parts: dict[tuple[ClientId, ...], Ints] = field(default_factory=dict)
    tags: dict[ClientId, Ints] = field(default_factory=dict)
    answered: frozenset[ClientId] = frozenset()
    evidence: tuple[Ints, Ints, Ints] | None = None
    present: int = 0
    opened: Ints | None = None
    keyed: bool = False
    key: Ints | None = None
    total: Ints | None = None

    @property
    def phase(self) -> str:
        """What is asked for now; nothing: the empty text."""
        if self.question is None:
            return ""
        if self.keyed and self.key is None:
            return KEY
        kind = self.question.kind
        return kind if self.total is None else OPENING[kind]

    @property
    def owing(self) -> tuple[ClientId, ...]:
        """Who is asked in this phase and has not answered."""
        if self.question is None:
            return ()
        everybody = self.phase in OPENING
        asked = self.members if everybody else self.members[:1]
        if not self.answered:
            return asked
        return tuple(client for client in asked if client not in self.answered)

    def cannot_spare(self, client: ClientId) -> bool:
        """Whether the question at hand stays open if this client is gone."""
        if self.question is None or client not in self.members:
            return False
        holder = self.keyed and client == self.members[0]
        return self.phase == KEY or holder or client in self.owing

    def having(self, received: Parts) -> Cohort:
        """Return the cohort that knows the sum of these members' parts."""
        members, tags = received.members, self.tags
        if received.tags is not None:
            tags = {**tags, members[0]: received.tags}
        return replace(
            self,
            parts={**self.parts, members: received.values},
            tags=tags,
            answered=self.answered.union(members),
        )

    def shown(self) -> tuple[Ints, Ints, Ints] | None:
        """Return groups, everybody's answers and tags, if all have any.

        In the members' order; the tags of one for all others are a table, (members, 2).
        """
        if self.tags.keys() != set(self.members):
            return None
        parts = np.stack([self.parts[client,] for client in self.members])
        tags = np.stack([self.tags[client] for client in self.members])
        return self.partitions[-1].groups, parts, tags

    def evidence_for(self, place: int) -> Evidence | None:
        """Return what shows a member that the groups it sums may be opened."""
        if self.evidence is None or self.phase != SUM:
            return None
        groups, parts, tags = self.evidence
        return Evidence(groups, parts, np.ascontiguousarray(tags[:, place]))

    def asked_next(self, **what: Any) -> Cohort:
        """Return the cohort in its next phase, in which nobody has answered."""
        return replace(self, parts={}, tags={}, answered=frozenset(), **what)

    def put(self, question: Question | None, **what: Any) -> Cohort:
        """Return the cohort that is asked this next, or nothing for now.

        Who holds rows belongs to the question for their sums, and is not counted.
        """
        counted = question is not None and question.kind != PRESENCE
        asked = self.asked + counted
        return self.asked_next(question=question, asked=asked, total=None, **what)

    @property
    def width(self) -> int:
        """How many numbers are summed."""
        assert self.question is not None
        return self.question.width

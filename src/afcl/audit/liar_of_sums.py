# SPDX-License-Identifier: Apache-2.0
"""What a dishonest coordinator does at `secure`, one function an attack.

Masks that are used twice, and members of its own (puppets) whose rows it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.audit.liar import ENDLESS
from afcl.audit.victims import Victim, bounds_of, terms_for
from afcl.core.cells import union
from afcl.core.cohort_answers import numbers_for
from afcl.core.messages import Addressed, Cells
from afcl.core.params import DefaultParams
from afcl.core.refine import coarse
from afcl.core.tasks import (
    COUNT,
    FIELD,
    PRESENCE,
    SUM,
    Evidence,
    Part,
    Question,
    Task,
    Threshold,
)
from afcl.core.terms import AskHello, AskStep, Terms
from afcl.privacy.masks import Asked, Sealed, answer, public_key, sealed_part
from afcl.scale import Box

#: What a run is at where nobody says.
LEVEL = "secure+summary"


def task_for(
    keys: Sequence[str], place: int, question: Question, cohort: int = 0
) -> Addressed:
    """Return what a member of a cohort with these keys is asked."""
    members = tuple(range(len(keys)))
    own = Task(cohort, question.kind, members, tuple(keys), place, question)
    return Addressed(None, own)


def invented_keys(n: int) -> list[str]:
    """Return public keys of members that nobody has seen."""
    return [public_key(bytes([i + 1]) * 32) for i in range(n)]


def two_time_pad(
    victim: Victim,
    rows: Floats,
    seeds: int = 4000,
    box: Box | None = None,
    level: str = LEVEL,
    **options: Any,
) -> Floats:
    """Ask the same thing in a box without end, then in the agreed one.

    In the first all rows lie in the corner, so that the numbers are known and the rest
    of the answer is the mask. If the second answer has the same mask, it can be read.
    """
    box, d = box or bounds_of(rows), rows.shape[1]
    agreed = terms_for(rows, level, box=box, **options)
    hello = victim.ask(AskHello(agreed))
    if hello is None:
        return np.empty((0, d))
    keys = [hello.payload.key, *invented_keys(2)]
    rng = np.random.default_rng(0)
    question = Question(SUM, (coarse(rng.random((seeds, d))),))
    payload = task_for(keys, 0, question)
    corner_box = Box(np.zeros(d), np.full(d, ENDLESS))
    endless = terms_for(rows, level, box=corner_box, **options)
    corner = victim.ask(AskStep(endless, 1, 1, payload))
    if corner is None:
        return np.empty((0, d))
    known = numbers_for(question, np.zeros((hello.n_rows, d)))
    mask = corner.payload.values.view(np.uint64) - known.view(np.uint64)
    found = [np.empty((0, d))]
    for shift in range(12):  # rows that share a group here are apart in another box
        moved = Box(box.low + 0.05 * (shift - 6) * box.span, box.span)
        terms = terms_for(rows, level, box=moved, **options)
        part = victim.ask(AskStep(terms, 1, 1, payload))
        if part is not None:
            own = (part.payload.values.view(np.uint64) - mask).view(np.int64)
            found.append(moved.unscale(_alone(question, own)))
    return np.concatenate(found)


def _alone(question: Question, numbers: Ints) -> Floats:
    """Return the rows that are alone in their group, if the numbers can be any."""
    sums = (numbers * question.units).reshape(question.partitions[-1].n_groups, -1)
    d = question.n_features
    alone = sums[:, 0] == 1
    rows: Floats = question.partitions[-1].origins[alone] + sums[alone, 1 : 1 + d]
    return rows


class Puppet:
    """A member of the coordinator's own: the honest code, on rows that are invented.

    One that is `lying` overstates who holds rows.
    """

    def __init__(self, number: int, rows: Floats, lying: bool = False) -> None:
        secret = bytes([number + 1]) * 32
        self.rows = rows
        self.lying = lying
        self.sealed = Sealed(rows, rows, secret, public_key(secret))
        self.memory: Asked | None = None

    def ask(self, task: Task, params: DefaultParams) -> Part:
        """Answer as a member does, or says it does."""
        if self.lying:
            return self._overstated(task, params.threshold)
        part, self.memory = answer(task, self.sealed, self.memory, params)
        return part

    def _overstated(self, task: Task, threshold: Threshold) -> Part:
        """Say of every group that many hold it: nobody can see that but in the sum."""
        own = numbers_for(task.question, self.rows, threshold, self.sealed.known)
        if task.question.kind == PRESENCE:
            own = own + threshold.holders + FIELD * threshold.rows
        return sealed_part(task, self.sealed, own)


def puppets(
    victims: Sequence[Victim],
    tables: Sequence[Floats],
    box: Box,
    number: int = 1,
    level: str = LEVEL,
    lying: bool = False,
    **options: Any,
) -> Floats:
    """Add members of the coordinator's own with rows everywhere, and subtract them.

    Their thousands of rows would open every group, as if all members had them together.
    Everything else is as an honest coordinator asks it: how many rows, who holds them,
    then sums of the groups that enough members hold.
    """
    d, rng, size = tables[0].shape[1], np.random.default_rng(0), 2000
    n_rows = sum(len(table) for table in tables) + number * size
    agreed = [
        terms_for(table, level, box=box, n_rows=n_rows, **options) for table in tables
    ]
    both = list(zip(victims, agreed, strict=True))
    hellos = _all(victim.ask(AskHello(terms)) for victim, terms in both)
    if not hellos:
        return np.empty((0, d))
    seeds = _likely([hello.payload.cells for hello in hellos], size // 5, rng)
    own = [Puppet(i, np.repeat(seeds, 5, axis=0), lying) for i in range(number)]
    keys = [hello.payload.key for hello in hellos] + [p.sealed.public for p in own]
    params = DefaultParams(privacy=level, **options)
    partitions = (coarse(seeds),)
    everybody = _Cohort(both, own, keys, params)
    counted = everybody.ask(Question(COUNT, partitions))
    present = everybody.ask(Question(PRESENCE, partitions))
    if not counted or not present:
        return np.empty((0, d))
    values = np.stack([part.values for part in present])
    tags = np.stack([part.tags for part in present if part.tags is not None])
    opened = params.threshold.opened(_total(present)).astype(np.int64)
    question = Question(SUM, partitions, opened=opened)
    groups = partitions[-1].groups
    shown = [Evidence(groups, values, tags[:, place]) for place in range(len(keys))]
    summed = everybody.ask(question, shown)
    if not summed:
        return np.empty((0, d))
    honest = _total(summed).view(np.uint64)
    for each in own:
        known = numbers_for(question, each.rows, params.threshold)
        honest = honest - known.view(np.uint64)
    return box.unscale(_alone(question, honest.view(np.int64)))


@dataclass(frozen=True)
class _Cohort:
    """Sites and puppets that are asked the same."""

    sites: Sequence[tuple[Victim, Terms]]
    puppets: Sequence[Puppet]
    keys: Sequence[str]
    params: DefaultParams

    def ask(self, question: Question, shown: Sequence[Evidence] = ()) -> list[Part]:
        """Return everybody's part, nothing if a site refuses."""
        tasks = [task_for(self.keys, i, question).own for i in range(len(self.keys))]
        if shown:
            pairs = zip(tasks, shown, strict=True)
            tasks = [replace(task, evidence=each) for task, each in pairs]
        replies = _all(
            victim.ask(AskStep(terms, 1, 1, Addressed(None, task)))
            for (victim, terms), task in zip(self.sites, tasks, strict=False)
        )
        if not replies:
            return []
        rest = zip(self.puppets, tasks[len(self.sites) :], strict=True)
        return [
            *(reply.payload for reply in replies),
            *(own.ask(task, self.params) for own, task in rest),
        ]


def _total(parts: Sequence[Part]) -> Ints:
    """Add everybody's parts; the masks cancel."""
    total = np.zeros(parts[0].values.shape, dtype=np.uint64)
    for part in parts:
        total += part.values.view(np.uint64)
    return total.view(np.int64)


def _all(answers: Iterable[Any]) -> list[Any]:
    """Return everybody's answer, nothing if somebody refuses."""
    every = list(answers)
    return [] if any(each is None for each in every) else every


def _likely(shown: Sequence[Cells], n: int, rng: np.random.Generator) -> Floats:
    """Draw points as the cells of first messages would have rows."""
    cells = union(shown)
    picks = rng.choice(len(cells), n, p=cells.counts / cells.counts.sum())
    d = cells.means.shape[1]
    width = np.sqrt(cells.scatters / cells.counts / d)[picks, None]
    drawn: Floats = cells.means[picks] + width * rng.standard_normal((n, d))
    return drawn

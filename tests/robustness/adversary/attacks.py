# SPDX-License-Identifier: Apache-2.0
"""What a dishonest coordinator does, one function an attack.

Every function talks to a site by :meth:`Victim.ask` alone and returns what it believes
to know: rows, or values of a column. Refused requests are simply lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from tests.robustness.adversary.victims import Victim, bounds_of, names_of, terms_for

from afcl._typing import Floats, Ints
from afcl.core.cells import union
from afcl.core.cohort_answers import numbers_for
from afcl.core.messages import Addressed, Cells, Level, Plan
from afcl.core.params import DefaultParams
from afcl.core.refine import coarse
from afcl.core.tasks import (
    COUNT,
    PRESENCE,
    SUM,
    Evidence,
    Part,
    Question,
    Task,
)
from afcl.core.terms import AskHello, AskStep, Terms
from afcl.privacy.attacks import Exchange, Released, releases
from afcl.privacy.attacks_sums import difference, difference_coarse
from afcl.privacy.masks import Asked, Sealed, answer, public_key
from afcl.scale import Box

#: Wider than any table: rows in a box of this span all lie in its corner.
ENDLESS = 1e30

# ------------------------------------------------------------------ dp


def bisect_column(
    victim: Victim, rows_like: Floats, column: int, step: float
) -> Floats:
    """Find every value of a column by moving a box that is narrower than its grid.

    All rows are clipped to one of its ends. Where two boxes get the same bytes, no row
    lies between them: noise that is a function of the clipped rows tells.
    """
    lowest, highest = _reach(rows_like, column, step)
    seen: dict[int, bytes | None] = {}

    def said(place: int) -> bytes | None:
        if place not in seen:
            seen[place] = _in_a_narrow_box(victim, rows_like, column, place, step)
        return seen[place]

    found: list[int] = []
    waiting = [(lowest, highest)]
    while waiting:
        a, b = waiting.pop()
        if said(a) is None or said(b) is None or said(a) == said(b):
            continue
        if b - a == 1:
            found.append(b)
            continue
        middle = (a + b) // 2
        waiting += [(a, middle), (middle, b)]
    return np.array(sorted(found)) * step


def _reach(rows: Floats, column: int, step: float) -> tuple[int, int]:
    """Return public bounds of a column, generous, in steps of its grid."""
    low, high = rows[:, column].min(), rows[:, column].max()
    return int(np.floor(low / step)) - 7, int(np.ceil(high / step)) + 7


def _in_a_narrow_box(
    victim: Victim, rows: Floats, column: int, place: int, step: float
) -> bytes | None:
    """Return what the site says of rows up to the value `place` and beyond it."""
    low, span = np.full(rows.shape[1], -ENDLESS), np.ones(rows.shape[1])
    low[column], span[column] = (place + 0.25) * step, step / 2
    terms = terms_for(rows, "dp(1)", box=Box(low, span))
    reply = victim.ask(AskHello(terms))
    if reply is None:
        return None
    cells: Cells = reply.payload
    return cells.counts.tobytes() + cells.means.tobytes() + cells.scatters.tobytes()


# ------------------------------------------------------------------ grouped


def regroup(victim: Victim, rows: Floats, most: int) -> Floats:
    """Ask for groups of 5, 6, … rows, with columns repeated to weigh more.

    Groups that differ by one row tell it. A column that comes w times is as if its
    scale were root w times as large; a box that is as much wider makes all scatters
    comparable again.
    """
    box, names, heard = bounds_of(rows), names_of(rows), []
    for weights, m in _groupings(len(names), most):
        columns = tuple(np.repeat(names, weights).tolist())
        wider = np.sqrt(np.repeat(weights, weights))
        asked = Box(np.repeat(box.low, weights), np.repeat(box.span, weights) * wider)
        terms = terms_for(rows, f"grouped({m})", box=asked, columns=columns)
        reply = victim.ask(AskHello(terms))
        if reply is not None:
            first = np.cumsum([0, *weights[:-1]])
            cells = reply.payload
            means = np.ascontiguousarray((cells.means * wider)[:, first])
            heard.append(Released((0,), Cells(cells.counts, means, cells.scatters)))
    return box.unscale(difference(heard).points)


def _groupings(columns: int, most: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield weights of columns and sizes of groups, plain ones first."""
    every = sorted(product((1, 2, 4), repeat=columns), key=lambda w: (sum(w), w))
    asked = product(every[: max(1, most // 8)], range(5, 13))
    for _, each in zip(range(most), asked, strict=False):
        yield each


def compare_runs(heard: Sequence[Exchange], box: Box) -> list[Floats]:
    """Subtract what the same site said in several runs; one list of rows a guess."""
    found = difference_coarse(releases(heard))
    return [box.unscale(each.points) for each in found if len(each)]


# ------------------------------------------------------------------ secure


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


def two_time_pad(victim: Victim, rows: Floats, seeds: int = 4000) -> Floats:
    """Ask the same thing in a box without end, then in the agreed one.

    In the first all rows lie in the corner, so that the numbers are known and the rest
    of the answer is the mask. If the second answer has the same mask, it can be read.
    """
    box, d = bounds_of(rows), rows.shape[1]
    agreed = terms_for(rows, "secure+summary", box=box)
    hello = victim.ask(AskHello(agreed))
    if hello is None:
        return np.empty((0, d))
    keys = [hello.payload.key, *invented_keys(2)]
    rng = np.random.default_rng(0)
    question = Question(SUM, (coarse(rng.random((seeds, d))),))
    payload = task_for(keys, 0, question)
    endless = terms_for(
        rows, "secure+summary", box=Box(np.zeros(d), np.full(d, ENDLESS))
    )
    corner = victim.ask(AskStep(endless, 1, 1, payload))
    if corner is None:
        return np.empty((0, d))
    known = numbers_for(question, np.zeros((hello.n_rows, d)))
    mask = corner.payload.values.view(np.uint64) - known.view(np.uint64)
    found = [np.empty((0, d))]
    for shift in range(12):  # rows that share a group here are apart in another box
        moved = Box(box.low + 0.05 * (shift - 6) * box.span, box.span)
        terms = terms_for(rows, "secure+summary", box=moved)
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
    """A member of the coordinator's own: the honest code, on rows that are invented."""

    def __init__(self, number: int, rows: Floats) -> None:
        secret = bytes([number + 1]) * 32
        self.rows = rows
        self.sealed = Sealed(rows, rows, secret, public_key(secret))
        self.memory: Asked | None = None

    def ask(self, task: Task, params: DefaultParams) -> Part:
        """Answer as a member does."""
        part, self.memory = answer(task, self.sealed, self.memory, params)
        return part


def puppets(
    victims: Sequence[Victim],
    tables: Sequence[Floats],
    box: Box,
    number: int = 1,
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
        terms_for(table, "secure+summary", box=box, n_rows=n_rows, **options)
        for table in tables
    ]
    both = list(zip(victims, agreed, strict=True))
    hellos = _all(victim.ask(AskHello(terms)) for victim, terms in both)
    if not hellos:
        return np.empty((0, d))
    seeds = _likely([hello.payload.cells for hello in hellos], size // 5, rng)
    own = [Puppet(i, np.repeat(seeds, 5, axis=0)) for i in range(number)]
    keys = [hello.payload.key for hello in hellos] + [p.sealed.public for p in own]
    params = DefaultParams(privacy="secure+summary", **options)
    partitions = (coarse(seeds),)
    everybody = _Cohort(both, own, keys, params)
    counted = everybody.ask(Question(COUNT, partitions))
    present = everybody.ask(Question(PRESENCE, partitions))
    if not counted or not present:
        return np.empty((0, d))
    said = np.stack([part.values for part in present])
    tags = np.stack([part.tags for part in present if part.tags is not None])
    opened = params.threshold.opened(_total(present)).astype(np.int64)
    question = Question(SUM, partitions, opened=opened)
    groups = partitions[-1].groups
    shown = [Evidence(groups, said, tags[:, place]) for place in range(len(keys))]
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


# ------------------------------------------------------------------ summary


def many_levels(victim: Victim, rows: Floats, levels: int, steps: int = 1) -> Floats:
    """Cut the rows by thousands of planes, each one a "candidate level" of two centres.

    Neighbouring planes part cells that differ by one row.
    """
    box, d = bounds_of(rows), rows.shape[1]
    terms = terms_for(rows, "summary", box=box)
    rng = np.random.default_rng(0)
    heard: list[Exchange] = []
    if victim.ask(AskHello(terms)) is None:
        return np.empty((0, d))
    per_direction = 48
    for contact in range(1, steps + 1):
        planes = [
            _plane(direction, at)
            for direction in _directions(rng, d, max(1, levels // per_direction))
            for at in np.linspace(-0.5, 0.5, min(levels, per_direction))
        ]
        plan = Plan(np.full((1, d), 0.5), tuple(planes))
        request = AskStep(terms, 1, contact, plan)
        reply = victim.ask(request)
        if reply is not None:
            heard.append(Exchange(0, request, reply))
    found = compare_runs(heard, box)
    return np.concatenate([np.empty((0, d)), *found])


def _directions(rng: np.random.Generator, d: int, n: int) -> Floats:
    drawn = rng.standard_normal((n, d))
    units: Floats = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return units


def _plane(direction: Floats, at: float) -> Level:
    """Return two centres whose bisector cuts the middle of the box, moved by `at`."""
    middle = 0.5 + at * direction
    centers = np.stack([middle - direction, middle + direction])
    return Level(centers, np.ones(2), np.ones(2), 0)

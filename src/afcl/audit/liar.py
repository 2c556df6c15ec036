# SPDX-License-Identifier: Apache-2.0
"""What a dishonest coordinator asks of one site, one function an attack.

Every function talks to a site by :meth:`Victim.ask` alone and returns what it believes
to know: rows, or values of a column. Of the rows it is given it looks at no more than
what the agreement tells: how many there are, and their box. Refused requests are simply
lost. Attacks on sums over sites: :mod:`afcl.audit.liar_of_sums`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.audit.victims import Victim, bounds_of, names_of, terms_for
from afcl.core.messages import Cells, Level, Plan
from afcl.core.terms import AskHello, AskStep
from afcl.privacy.attacks import (
    Exchange,
    Released,
    find_singletons,
    match_first_message,
    releases,
)
from afcl.privacy.attacks_sums import difference_coarse
from afcl.scale import Box

#: Wider than any table: rows in a box of this span all lie in its corner.
ENDLESS = 1e30
#: Columns that are repeated to weigh more, at most.
WEIGHED = 7

# ------------------------------------------------------------------ dp


def bisect_column(
    victim: Victim, rows: Floats, column: int, step: float, level: str = "dp(1)"
) -> Floats:
    """Find every value of a column by moving a box that is narrower than its grid.

    All rows are clipped to one of its ends. Where two boxes get the same bytes, no row
    lies between them: noise that is a function of the clipped rows tells.
    """
    lowest, highest = _reach(rows, column, step)
    seen: dict[int, bytes | None] = {}

    def answer_to(place: int) -> bytes | None:
        if place not in seen:
            seen[place] = _in_a_narrow_box(victim, rows, column, place, step, level)
        return seen[place]

    found: list[int] = []
    waiting = [(lowest, highest)]
    while waiting:
        a, b = waiting.pop()
        if answer_to(a) is None or answer_to(b) is None or answer_to(a) == answer_to(b):
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
    victim: Victim, rows: Floats, column: int, place: int, step: float, level: str
) -> bytes | None:
    """Return what the site says of rows up to the value `place` and beyond it."""
    low, span = np.full(rows.shape[1], -ENDLESS), np.ones(rows.shape[1])
    low[column], span[column] = (place + 0.25) * step, step / 2
    terms = terms_for(rows, level, box=Box(low, span))
    reply = victim.ask(AskHello(terms))
    if reply is None:
        return None
    cells: Cells = reply.payload
    return cells.counts.tobytes() + cells.means.tobytes() + cells.scatters.tobytes()


# ------------------------------------------------------------------ whatever the level


def other_terms(
    victim: Victim, rows: Floats, level: str, times: int, box: Box, **options: Any
) -> list[Floats]:
    """Say hello again and again, with other seeds and in boxes a little wider.

    Cells of the same rows around other seeds differ by single rows.
    """
    released = []
    for number in range(times):
        wider = Box(box.low, box.span * (1 + number / 100))
        terms = terms_for(rows, level, box=wider, seed=number, **options)
        request = AskHello(terms)
        reply = victim.ask(request)
        if reply is not None:
            released.append(_in_units(Exchange(0, request, reply), wider, box))
    found = difference_coarse(released)
    return [box.unscale(each.points) for each in found if len(each)]


def _in_units(one: Exchange, own: Box, box: Box) -> Released:
    """Return the cells of a first message in the units of a box of the same shape."""
    (released,) = releases([one])
    means = box.scale(own.unscale(released.cells.means))
    scatters = released.cells.scatters * (own.span[0] / box.span[0]) ** 2
    return Released((0,), Cells(released.cells.counts, means, scatters))


def ask_for_more(
    victim: Victim, rows: Floats, level: str, box: Box, **options: Any
) -> list[Floats]:
    """Ask for what the site's level forbids: rows as they are, cells of one row."""
    cells = {**options, "min_cell": 1}
    exchanges = []
    for terms in (
        terms_for(rows, "exact", method="afcl-paper", box=box),
        terms_for(rows, "summary", box=box, **cells),
        terms_for(rows, level, box=box, **cells),
    ):
        request = AskHello(terms)
        reply = victim.ask(request)
        if reply is not None:
            exchanges.append(Exchange(0, request, reply))
    found = [match_first_message(exchanges), find_singletons(releases(exchanges))]
    return [box.unscale(each.points) for each in found if len(each)]


# ------------------------------------------------------------------ grouped


def regroup(
    victim: Victim,
    rows: Floats,
    most: int,
    box: Box | None = None,
    smallest: int = 5,
    **options: Any,
) -> list[Floats]:
    """Ask for groups of 5, 6, … rows, with columns repeated to weigh more.

    Groups that differ by one row tell it. A column that comes w times is as if its
    scale were root w times as large; a box that is as much wider makes all scatters
    comparable again.
    """
    box, names, released = box or bounds_of(rows), names_of(rows), []
    for weights, m in _groupings(len(names), most, smallest):
        columns = tuple(np.repeat(names, weights).tolist())
        wider = np.sqrt(np.repeat(weights, weights))
        asked = Box(np.repeat(box.low, weights), np.repeat(box.span, weights) * wider)
        terms = terms_for(rows, f"grouped({m})", box=asked, columns=columns, **options)
        reply = victim.ask(AskHello(terms))
        if reply is not None:
            first = np.cumsum([0, *weights[:-1]])
            cells = reply.payload
            means = np.ascontiguousarray((cells.means * wider)[:, first])
            released.append(Released((0,), Cells(cells.counts, means, cells.scatters)))
    found = difference_coarse(released)
    return [box.unscale(each.points) for each in found if len(each)]


def _groupings(
    columns: int, most: int, smallest: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield weights of columns and sizes of groups, plain ones first.

    Of many columns the first few are weighed.
    """
    weighed = min(columns, WEIGHED)
    some = sorted(product((1, 2, 4), repeat=weighed), key=lambda w: (sum(w), w))
    every = [each + (1,) * (columns - weighed) for each in some]
    asked = product(every[: max(1, most // 8)], range(smallest, smallest + 8))
    for _, each in zip(range(most), asked, strict=False):
        yield each


def compare_runs(exchanges: Sequence[Exchange], box: Box) -> list[Floats]:
    """Subtract what the same site said in several runs; one list of rows a guess."""
    found = difference_coarse(releases(exchanges))
    return [box.unscale(each.points) for each in found if len(each)]


# ------------------------------------------------------------------ summary


def many_levels(
    victim: Victim,
    rows: Floats,
    levels: int,
    steps: int = 1,
    box: Box | None = None,
    **options: Any,
) -> list[Floats]:
    """Cut the rows by thousands of planes, each one a "candidate level" of two centres.

    Neighbouring planes part cells that differ by one row.
    """
    box, d = box or bounds_of(rows), rows.shape[1]
    terms = terms_for(rows, "summary", box=box, **options)
    rng = np.random.default_rng(0)
    exchanges: list[Exchange] = []
    if victim.ask(AskHello(terms)) is None:
        return []
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
            exchanges.append(Exchange(0, request, reply))
    return compare_runs(exchanges, box)


def _directions(rng: np.random.Generator, d: int, n: int) -> Floats:
    drawn = rng.standard_normal((n, d))
    units: Floats = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return units


def _plane(direction: Floats, at: float) -> Level:
    """Return two centres whose bisector cuts the middle of the box, moved by `at`."""
    middle = 0.5 + at * direction
    centers = np.stack([middle - direction, middle + direction])
    return Level(centers, np.ones(2), np.ones(2), 0)

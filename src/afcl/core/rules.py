# SPDX-License-Identifier: Apache-2.0
"""Short rules that tell one cluster from the others, made from cells.

A rule is up to three conditions, such as ``age >= 54`` and ``chol < 210``, each the one
that helps most by the harmonic mean of two shares: how much of the cluster the rule
covers, and how much of what it covers is right. Rows of a cell are taken to spread
around its mean as its scatter says, so a cell may lie on both sides of a condition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from afcl._typing import Bools, Floats, Ints

#: Conditions of a rule, at most.
DEEPEST = 3
#: A further condition has to make the rule better by so much;
BETTER = 0.01
#: and a rule that is not at least so good is none.
USEFUL = 0.5
#: Two conditions are as good as each other: the wider gap decides.
ALIKE = 1e-9


class Condition(NamedTuple):
    """One condition: a column is at least a value, or below it.

    Of a column of 0 and 1 the value is a half: the row has that level, or has not.
    """

    column: int
    at_least: bool
    value: float


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for one cluster.

    Attributes
    ----------
    conditions
        All of which have to hold.
    covers
        The share of the cluster's rows for which they do.
    right
        The share of the rows for which they do that are in the cluster.
    """

    conditions: tuple[Condition, ...]
    covers: float
    right: float

    @property
    def worth(self) -> float:
        """The harmonic mean of both shares."""
        return 2 * self.covers * self.right / max(self.covers + self.right, 1e-300)


@dataclass(frozen=True, slots=True)
class Described:
    """Cells as rules see them, in the units of the data.

    Attributes
    ----------
    counts, labels
        (m,), rows and cluster of every cell.
    points, widths
        (m, d), its mean, and how far its rows spread around it.
    span
        (d,), what stands for one unit of distance.
    levels
        (d,), columns of 0 and 1: a cell's mean is the share of its rows that have it.
    columns
        Those that rules may name.
    """

    counts: Floats
    labels: Ints
    points: Floats
    widths: Floats
    span: Floats
    levels: Bools
    columns: Ints

    def meeting(self, condition: Condition) -> Floats:
        """Return the share of every cell's rows for which a condition holds."""
        column, at_least, value = condition
        means = self.points[:, column]
        if self.levels[column]:
            above = np.clip(means, 0.0, 1.0)
        else:
            above = _tails(means - value, self.widths[:, column])
        return above if at_least else 1.0 - above

    def meeting_all(self, conditions: tuple[Condition, ...]) -> Floats:
        """Return the share for which all hold: columns vary by themselves.

        Two conditions on one column are its two ends: what lies beyond neither.
        """
        by_column: dict[int, Floats] = {}
        for each in conditions:
            held, column = self.meeting(each), each.column
            if column in by_column:
                held = np.maximum(by_column[column] + held - 1.0, 0.0)
            by_column[column] = held
        every = np.ones(len(self.counts))
        for held in by_column.values():
            every = every * held
        return every


def _tails(above: Floats, widths: Floats) -> Floats:
    """Return how much of a bell around a point lies above; a point all or nothing."""
    shares = (above >= 0).astype(np.float64)
    wide = np.flatnonzero(widths > 0)
    scores = above[wide] / (widths[wide] * math.sqrt(2.0))
    shares[wide] = [0.5 * math.erfc(-score) for score in scores.tolist()]
    return shares


def rule_for(cells: Described, cluster: int) -> Rule | None:
    """Return the rule for a cluster; None where no short one is of use."""
    own = np.where(cells.labels == cluster, cells.counts, 0.0)
    if not 0 < own.sum() < cells.counts.sum():
        return None
    met, best = np.ones(len(own)), Rule((), 1.0, float(own.sum() / cells.counts.sum()))
    order = np.argsort(cells.points[:, cells.columns], axis=0, kind="stable")
    for _ in range(DEEPEST):
        condition = _best_condition(cells, own, met, order, best.conditions)
        if condition is None:
            break
        conditions = (*best.conditions, condition)
        closer = cells.meeting_all(conditions)
        rule = _judged(conditions, cells.counts, own, closer)
        if rule.worth < best.worth + BETTER:
            break
        met, best = closer, rule
    best = _polished(cells, own, order, best)
    return best if best.conditions and best.worth >= USEFUL else None


def _polished(cells: Described, own: Floats, order: Ints, rule: Rule) -> Rule:
    """Return the rule with every condition chosen anew beside the others, once."""
    for each in rule.conditions:
        rest = tuple(known for known in rule.conditions if known != each)
        met = cells.meeting_all(rest)
        condition = _best_condition(cells, own, met, order, rest)
        assert condition is not None  # the one that was taken out is there again
        conditions = (*rest, condition)
        again = _judged(conditions, cells.counts, own, cells.meeting_all(conditions))
        rule = again if again.worth > rule.worth + ALIKE else rule
    return rule


def _judged(
    conditions: tuple[Condition, ...], counts: Floats, own: Floats, met: Floats
) -> Rule:
    right, every = float(own @ met), float(counts @ met)
    return Rule(conditions, right / float(own.sum()), right / max(every, 1e-300))


def _best_condition(
    cells: Described,
    own: Floats,
    met: Floats,
    order: Ints,
    known: tuple[Condition, ...],
) -> Condition | None:
    """Return the condition that helps most, of those met by cells as they lie.

    No end of a column is named twice.
    """
    at = cells.columns
    sorted_points = np.take_along_axis(cells.points[:, at], order, axis=0)
    below = np.cumsum((cells.counts * met)[order], axis=0)[:-1]
    own_below = np.cumsum((own * met)[order], axis=0)[:-1]
    gaps = np.diff(sorted_points, axis=0) / np.where(cells.span > 0, cells.span, 1)[at]
    total, every = float(own.sum()), float((cells.counts * met).sum())
    inside = float((own * met).sum())
    sides = (
        2 * own_below / (below + total),
        2 * (inside - own_below) / (every - below + total),
    )
    best: tuple[float, float, Condition] | None = None
    cut = np.where(gaps > 0, gaps, 0.0)
    for at_least, worth in enumerate(sides):
        taken = [c.column for c in known if c.at_least == bool(at_least)]
        free = ~cells.levels[at] & ~np.isin(at, taken)
        worth = np.where((cut > 0) & free, worth, -1.0)
        if worth.size and worth.max() > 0:
            place, j = _widest(worth, cut)
            low, high = sorted_points[place : place + 2, j].tolist()
            value = plain_between(low, high)
            condition = Condition(int(at[j]), bool(at_least), value)
            best = _better(best, float(worth.max()), float(cut[place, j]), condition)
    taken = [c.column for c in known]
    for column in at[cells.levels[at] & ~np.isin(at, taken)].tolist():
        for has in (True, False):
            condition = Condition(column, has, 0.5)
            met_too = met * cells.meeting(condition)
            worth_too = 2 * (own @ met_too) / (cells.counts @ met_too + total)
            best = _better(best, float(worth_too), 1.0, condition)
    return None if best is None else best[2]


def _widest(worth: Floats, gaps: Floats) -> tuple[int, int]:
    """Return the place of the best; of several as good, that of the widest gap."""
    best = np.where(worth >= worth.max() - ALIKE, gaps, -1.0)
    place, column = np.unravel_index(int(best.argmax()), best.shape)
    return int(place), int(column)


def _better(
    known: tuple[float, float, Condition] | None,
    worth: float,
    gap: float,
    condition: Condition,
) -> tuple[float, float, Condition]:
    if known is None or worth > known[0] + ALIKE:
        return worth, gap, condition
    alike = worth >= known[0] - ALIKE and gap > known[1]
    return (worth, gap, condition) if alike else known


def plain_between(low: float, high: float) -> float:
    """Return a number with few digits in the middle half between two others.

    Examples
    --------
    >>> plain_between(52.3, 55.1), plain_between(0.1, 0.9), plain_between(-3.0, 4.0)
    (54.0, 0.5, 0.0)
    """
    middle, room = low + (high - low) / 2, (high - low) / 4
    largest = max(abs(low), abs(high))
    if not 0 < largest < math.inf or room <= 0:
        return middle
    digits = -math.ceil(math.log10(largest))
    while abs(round(middle, digits) - middle) > room:
        digits += 1
    return round(middle, digits) + 0.0

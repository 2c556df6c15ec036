# SPDX-License-Identifier: Apache-2.0
"""Fewer cells that stand for many: groups are cut in two until there are enough.

All cells begin as one group. In every pass the groups that lose most by being one (the
scatter of their cells' means) are cut at their mean, across the feature in which they
are widest. Where there are very many cells the cuts are found on some of them, evenly
chosen, and the others follow. What is left are pooled cells: counts, means and scatters
of any union of groups are what they were.
See docs/decisions/0017-server-with-many-clients.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cells import pool
from afcl.core.messages import Cells
from afcl.kernels import sums

#: Cells the cuts are found on.
SAMPLE = 1 << 18
#: Cells they are found on for every group, if that is more.
PER_GROUP = 4
#: Cells that follow the cuts together.
BLOCK = 1 << 14


@dataclass(frozen=True, slots=True)
class Cuts:
    """One pass: of every group its feature, where it is cut, and the new group beyond.

    A group that is not cut has itself as the new group.
    """

    axis: Ints
    at: Floats
    beyond: Ints

    def follow(self, points: Floats, labels: Ints) -> Ints:
        """Return the groups of points after this pass."""
        value = points[np.arange(points.shape[0]), self.axis[labels]]
        return np.where(value > self.at[labels], self.beyond[labels], labels)


def condense_cells(bag: Cells, most: int) -> Cells:
    """Return at most `most` cells that stand for those of the bag.

    The bag itself, if it holds no more. Nothing is drawn: equal bags give equal cells.
    """
    # Small runs keep the bits they had (0017).
    if len(bag) <= most:
        return bag
    labels, k = groups_of(bag.means, bag.counts.astype(np.float64), most)
    counts, means, scatters = pool(bag, labels, k)
    return Cells(counts.astype(np.int64), means, scatters)


def thin_cells(bag: Cells, share: float) -> Cells:
    """Return cells where the bag's are, with this share of its rows and scatters.

    Counts stay whole: they are cut off, and the largest remainders are made up for.
    """
    wanted = bag.counts * share
    counts = np.floor(wanted).astype(np.int64)
    short = round(float(wanted.sum())) - int(counts.sum())
    # Rows are conserved: a draw would conserve them on average only.
    counts[np.argsort(counts - wanted, kind="stable")[:short]] += 1
    held = np.flatnonzero(counts)
    parts = counts[held] / bag.counts[held]
    return Cells(counts[held], bag.means[held], bag.scatters[held] * parts)


def groups_of(points: Floats, weights: Floats, most: int) -> tuple[Ints, int]:
    """Cut weighted points into at most `most` groups, none empty; (labels, groups)."""
    n = points.shape[0]
    some = max(SAMPLE, PER_GROUP * most)
    if n <= some:
        return _cut(points, weights, most)[1:]
    # Evenly chosen and not drawn: equal bags give equal cells.
    picks = np.arange(some) * n // some
    passes, _, k = _cut(points[picks], weights[picks], most)
    labels = np.zeros(n, dtype=np.int64)
    for start in range(0, n, BLOCK):
        block = points[start : start + BLOCK]
        found = labels[start : start + BLOCK]
        for cuts in passes:
            found = cuts.follow(block, found)
        labels[start : start + BLOCK] = found
    return labels, k


def _cut(points: Floats, weights: Floats, most: int) -> tuple[list[Cuts], Ints, int]:
    """Return the passes, every point's group after them, and the number of groups."""
    middle = (weights[:, None] * points).sum(axis=0) / weights.sum()
    labels = np.zeros(points.shape[0], dtype=np.int64)
    loss, axis, at = np.zeros(most), np.zeros(most, dtype=np.int64), np.zeros(most)
    loss[:1], axis[:1], at[:1] = _widest(points, weights, labels, 1, middle)
    k, passes = 1, []
    while (split := _worth_cutting(loss[:k], most - k)).size:
        chosen = np.zeros(k, dtype=bool)
        chosen[split] = True
        inside = np.flatnonzero(chosen[labels])
        own = labels[inside]
        over = points[inside, axis[own]] > at[own]
        moved = np.bincount(own[over], minlength=k)[split]
        divided = (moved > 0) & (moved < np.bincount(own, minlength=k)[split])
        # Marked as not worth cutting, or the loop would try it for ever.
        loss[split[~divided]] = 0.0  # its points differ by rounding only
        split = split[divided]
        if not split.size:
            continue
        beyond = np.arange(k)
        beyond[split] = k + np.arange(split.shape[0])
        labels[inside] = np.where(over, beyond[own], own)
        passes.append(Cuts(axis[:k].copy(), at[:k].copy(), beyond))
        fresh = np.concatenate([split, beyond[split]])
        k += split.shape[0]
        place = np.full(k, -1)
        place[fresh] = np.arange(fresh.shape[0])
        inside = inside[place[labels[inside]] >= 0]
        loss[fresh], axis[fresh], at[fresh] = _widest(
            points[inside],
            weights[inside],
            place[labels[inside]],
            fresh.shape[0],
            middle,
        )
    return passes, labels, k


def _widest(
    points: Floats, weights: Floats, labels: Ints, k: int, middle: Floats
) -> tuple[Floats, Ints, Floats]:
    """Return every group's scatter, its widest feature and its mean there."""
    around = points - middle  # sums of squares far from 0 would round too much
    mass, total = sums(around, weights, labels, k)
    _, squares = sums(around * around, weights, labels, k)
    means = total / mass[:, None]
    scatters = np.maximum(squares - total * means, 0.0)
    axis = scatters.argmax(axis=1).astype(np.int64)
    return scatters.sum(axis=1), axis, means[np.arange(k), axis] + middle[axis]


def _worth_cutting(loss: Floats, room: int) -> Ints:
    """Return the groups that lose most: three in four of them, as there is room."""
    # All at once loses a fifth more, one at a time gains nothing (0017).
    number = min(room, (3 * loss.shape[0] + 3) // 4)
    order = np.argsort(-loss, kind="stable")[:number]
    return order[loss[order] > 0]

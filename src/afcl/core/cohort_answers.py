# SPDX-License-Identifier: Apache-2.0
"""What a member of a cohort answers, before it is hidden: numbers to be added up.

Rows are read part by part. The numbers of several members can be computed in one go
(a simulation does): each member's are rounded by themselves, as if it were alone.

What a member is asked about one partition (how many rows, who holds them, their sums)
all follows from the sums by seed: the rows are read once for it (:class:`SeedSums`).
Inside it lies the next partition: of wide rows in memory it is remembered where they
are in the first.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.core.messages import Cells, Level
from afcl.core.rows import (
    Rows,
    RowsInPlace,
    TableRows,
    added_up,
    as_rows,
    tallied,
)
from afcl.core.tasks import (
    ANYBODY,
    FIELD,
    PER_CLUSTER,
    PRESENCE,
    SCORE,
    SUM,
    Question,
    SeedPartition,
    Threshold,
)
from afcl.exceptions import InputError
from afcl.kernels import assign, nearest_inside, silhouettes, sums_around, valleys
from afcl.kernels.arrays import Nest

#: What a client works on: its rows, or cells that stand for them.
View: TypeAlias = Floats | Rows | Cells

#: Sums up to this many units fit into 64 bits with room for a cohort of thousands.
LARGEST = 2.0**50
#: Most columns of rows beside which a byte for each would be much.
NARROW = 8


#: Counts (m,), sums of x - s and of its squares (m, d), by seed.
Sums: TypeAlias = tuple[Floats, Floats, Floats]


class SeedSums:
    """What rows add up to around the seeds that were asked about last.

    Only the seeds matter and which coarser groups they lie in, not to what they are
    joined: while these stay the same, the rows are not read again.
    """

    def __init__(self) -> None:
        self._known: tuple[list[bytes], Sums] | None = None
        self._places: tuple[bytes, list[AnyArray]] | None = None

    def of(self, rows: Rows, partitions: tuple[SeedPartition, ...]) -> Sums:
        """Return counts, sums of x - s and of its squares by seed of the last."""
        arrays = [(each.seeds, each.parents, each.groups) for each in partitions]
        asked = [array.tobytes() for each in arrays for array in each][:-1]
        if self._known is None or self._known[0] != asked:
            if isinstance(rows, RowsInPlace):
                nests = [
                    Nest(each.seeds, each.parents, each.groups) for each in partitions
                ]
                sums = rows.nested(nests)
            elif isinstance(rows, TableRows) and rows.shape[1] > NARROW:
                sums = self._read_wide(rows, partitions)
            else:
                sums = added_up(rows, partial(_sums_of_part, partitions=partitions))
            self._known = asked, sums
        return self._known[1]

    def _read_wide(self, rows: Rows, partitions: tuple[SeedPartition, ...]) -> Sums:
        """Read rows beside which a byte or two for each are little.

        Where they are in the first partition is remembered: looking for the nearest of
        its seeds is most of the work, and finer questions about it follow.
        """
        seeds = partitions[0].seeds
        small = np.min_scalar_type(seeds.shape[0] - 1)
        asked, before = seeds.tobytes(), self._places
        known = before[1] if before is not None and before[0] == asked else None
        places: list[AnyArray] = []

        def work(points: Floats, before: Sums | None = None) -> Sums:
            place = (
                assign(points, seeds)[0].astype(small)
                if known is None
                else known[len(places)]
            )
            places.append(place)
            return _sums_of_part(points, partitions, before, place.astype(np.int64))

        sums = added_up(rows, work)
        self._places = asked, places
        return sums


def _sums_of_part(
    points: Floats,
    partitions: tuple[SeedPartition, ...],
    before: Sums | None = None,
    first: Ints | None = None,
) -> Sums:
    """Return the sums by seed, added to those of the rows before.

    `first` are the nearest of the first seeds, if they are known.
    """
    nearest = nearest_seeds(points, partitions, first)
    return sums_around(points, nearest, partitions[-1].seeds, before)


def numbers_for(
    question: Question,
    view: View,
    threshold: Threshold = ANYBODY,
    known: SeedSums | None = None,
) -> Ints:
    """Return a member's own numbers, before they are masked.

    `known` is what it remembers of its rows; None: nothing.
    """
    if isinstance(view, Cells):
        totals = _totals(question, view, _alone(len(view)), 1)
    elif question.kind == SCORE:
        totals = _scored_rows(question.levels, as_rows(view))[None, :]
    else:
        sums = (known or SeedSums()).of(as_rows(view), question.partitions)
        totals = _totals_of_seeds(question, sums)[None, :]
    numbers: Ints = _fixed(question, _above_threshold(question, totals, threshold))[0]
    return numbers


def numbers_of_many(
    question: Question, rows: Floats, sizes: Ints, threshold: Threshold = ANYBODY
) -> Ints:
    """Return the sum of several members' numbers; `sizes` are their numbers of rows."""
    members = np.repeat(np.arange(sizes.shape[0]), sizes)
    totals = _totals(question, _single(rows), members, sizes.shape[0])
    summed: Ints = _fixed(question, _above_threshold(question, totals, threshold)).sum(
        axis=0
    )
    return summed


def _above_threshold(
    question: Question, totals: Floats, threshold: Threshold
) -> Floats:
    """Return what every member tells of its totals, (m, width).

    Of a presence that it holds rows, and how many up to the cap. Of sums those of the
    groups that enough members hold, and of which it has enough rows by itself: its
    companion level would show these in any case. Such a group it divides only if it
    has enough rows in each part, so that no difference is of fewer.
    """
    if question.kind == PRESENCE:
        present: Floats = (totals > 0) + np.minimum(totals, threshold.cap) * FIELD
        return present
    if question.kind != SUM or question.opened is None:
        return totals
    table = totals.reshape(totals.shape[0], question.partitions[-1].n_groups, -1)
    rows = table[:, :, 0]
    outer = np.arange(rows.shape[1])
    if len(question.partitions) > 1:
        outer = question.partitions[-1].outer
    few = (rows > 0) & (rows < threshold.rows)
    opened = np.tile(question.opened > 0, (rows.shape[0], 1))
    whole = np.ones_like(opened)
    member, group = np.nonzero(few)
    whole[member, outer[group]] = False
    opened |= whole
    kept: Floats = (table * opened[:, outer, None]).reshape(totals.shape)
    return kept


def _alone(n: int) -> Ints:
    return np.zeros(n, dtype=np.int64)


def _single(rows: Floats) -> Cells:
    """Return rows as cells of one row each."""
    n = rows.shape[0]
    return Cells(np.ones(n, dtype=np.int64), rows, np.zeros(n))


def _totals_of_seeds(question: Question, sums: Sums) -> Floats:
    """Return what the sums by seed add up to, (width,)."""
    last = question.partitions[-1]
    counts, firsts, squares = sums
    k = last.n_groups
    if question.kind != SUM:
        return _added([counts], last.groups, k).ravel()
    # Seen from the origin of the seed's group instead of the seed.
    away = last.seeds - last.origins[last.groups]
    mass = counts[:, None]
    squares = squares + 2.0 * away * firsts + mass * away * away
    firsts = firsts + mass * away
    if len(question.partitions) > 1:
        squares = squares.sum(axis=1, keepdims=True)
    columns = [counts, *firsts.T, *squares.T]
    return _added(columns, last.groups, k).ravel()


def _scored_rows(levels: tuple[Level, ...], rows: Rows) -> Floats:
    """Return the numbers of all clusterings, one after the other, in one pass."""
    edges = np.cumsum([0, *(level.centers.shape[0] for level in levels)])
    counts, _, seconds, totals, slabs = tallied(
        rows,
        np.concatenate([level.centers for level in levels]),
        edges,
        np.full(len(levels), 2),
        np.concatenate([level.spreads for level in levels]),
        np.concatenate([level.counts for level in levels]).astype(np.float64),
    )
    table = np.concatenate([counts[:, None], seconds[:, None], slabs], axis=1)
    each = [
        np.concatenate([table[a:b].ravel(), total])
        for a, b, total in zip(edges[:-1], edges[1:], totals, strict=True)
    ]
    return np.concatenate(each)


def _fixed(question: Question, totals: Floats) -> Ints:
    """Return sums as whole numbers of their units."""
    scaled = np.rint(totals / question.units)
    if not bool(np.all(np.abs(scaled) < LARGEST)):
        raise InputError(
            "the sums are too large for fixed-point numbers: bring the columns to a "
            "common scale"
        )
    return scaled.astype(np.int64)


def _totals(question: Question, points: Cells, members: Ints, m: int) -> Floats:
    """Return every member's sums, (m, width)."""
    if question.kind == SCORE:
        scores = [_scored(level, points, members, m) for level in question.levels]
        return np.concatenate(scores, axis=1)
    groups = groups_of(points.means, question.partitions)
    columns = [points.counts.astype(np.float64)]
    if question.kind == SUM:
        columns += _moments(question, points, groups)
    k = question.partitions[-1].n_groups
    return _added(columns, members * k + groups, m * k).reshape(m, -1)


def _added(columns: list[Floats], slots: Ints, n: int) -> Floats:
    """Return the sum of each column in every slot, (n, columns)."""
    sums = [np.bincount(slots, weights=each, minlength=n) for each in columns]
    return np.stack(sums, axis=1).astype(np.float64)


def groups_of(points: Floats, partitions: tuple[SeedPartition, ...]) -> Ints:
    """Return the group of every point in the last of nested partitions."""
    groups: Ints = partitions[-1].groups[nearest_seeds(points, partitions)]
    return groups


def nearest_seeds(
    points: Floats, partitions: tuple[SeedPartition, ...], first: Ints | None = None
) -> Ints:
    """Return every point's seed in the last of nested partitions.

    That is the nearest of those that have the point's group as their parent. `first` is
    the seed in the first of them, if it is known.
    """
    nearest = assign(points, partitions[0].seeds)[0] if first is None else first
    for outer, inner in pairwise(partitions):
        if inner.starts.shape[0] == 2:  # all seeds are inside the only group
            nearest, _ = assign(points, inner.seeds)
            continue
        groups = outer.groups[nearest]
        nearest = nearest_inside(points, groups, inner.starts, inner.seeds)
    return nearest


def _moments(question: Question, points: Cells, groups: Ints) -> list[Floats]:
    """Return first and second moments around the groups' origins, column by column.

    A cell that stands for rows spreads alike in all directions, as far as is known.
    """
    weights = points.counts.astype(np.float64)
    shifts = points.means - question.partitions[-1].origins[groups]
    d = shifts.shape[1]
    columns = [weights * shifts[:, i] for i in range(d)]
    if len(question.partitions) > 1:
        squares = weights * (shifts * shifts).sum(axis=1) + points.scatters
        return [*columns, squares]
    each = points.scatters / d
    return [*columns, *(columns[i] * shifts[:, i] + each for i in range(d))]


def _scored(level: Level, points: Cells, members: Ints, m: int) -> Floats:
    """Return every member's numbers of one clustering: by cluster, then of it all."""
    centers, k = level.centers, level.centers.shape[0]
    weights = points.counts.astype(np.float64)
    nearest, squares = assign(points.means, centers)
    own = _added(
        [weights, weights * squares + points.scatters], members * k + nearest, m * k
    )
    table = np.zeros((m, k, PER_CLUSTER))
    table[:, :, :2] = own.reshape(m, k, 2)
    # Whole numbers: whose they are makes no difference to the sum.
    table[0, :, 2:] = valleys(points.means, weights, centers)
    radii = points.scatters / points.counts
    about = (centers, level.spreads, level.counts)
    simplified, moment, _ = silhouettes(points.means, radii, *about)
    sums = _added([weights * simplified, weights * moment], members, m)
    return np.concatenate([table.reshape(m, -1), sums], axis=1)

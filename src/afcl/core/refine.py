# SPDX-License-Identifier: Apache-2.0
"""How a cohort's rows are told apart, ever more finely, by sums alone.

Where every site holds a few rows of each cluster, the cells of a site mix clusters, but
the sums over sites do not have to. A first partition is placed by the hellos; its
groups are joined until each holds `min_cell` rows of the cohort, and summed. From their
counts, means and variances the server draws rows that might have been (pseudo-rows),
places finer seeds on these, and has the groups divided: inside each other, so that the
difference of any two sums is a sum of groups that were released, of `min_cell` rows
again. See docs/decisions/0025-sums-over-sites.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.cohort import GroupMoments
from afcl.core.messages import Cells
from afcl.core.seeding import plus_plus
from afcl.core.tasks import UNIT, Question, SeedPartition
from afcl.kernels import assign, join_seeds, lloyd

#: Finer seeds, per square root of rows,
FINER_PER_ROOT = 4
#: and at most.
MOST_FINER = 400
#: Pseudo-rows that finer seeds are placed on, at most, over all cohorts,
MOST_PSEUDO = 20_000
#: and at least so many of each cohort, if it has as many rows.
LEAST_PSEUDO = 1_000
#: Lloyd iterations that place them.
PLACING = 25
#: Largest share of a cell's scatter that where its seeds lie may explain.
EXPLAINED = 0.9


def coarse(seeds: Floats) -> SeedPartition:
    """Return the partition of all rows by these seeds, each a group of its own."""
    m = seeds.shape[0]
    return SeedPartition(seeds, np.zeros(m, dtype=np.int64), np.arange(m))


def joined(partition: SeedPartition, counts: Ints, smallest: int) -> SeedPartition:
    """Join the seeds of each parent until every group holds `smallest` rows."""
    starts = partition.starts.tolist()
    groups = np.empty_like(partition.groups)
    at = 0
    # Inside each parent only: groups have to stay nested (0025).
    for first, last in zip(starts, starts[1:], strict=False):
        seeds = np.ascontiguousarray(partition.seeds[first:last])
        held = np.ascontiguousarray(counts[first:last])
        together = (
            join_seeds(held, seeds, smallest)
            if held.any()
            else np.zeros(last - first, dtype=np.int64)
        )
        groups[first:last] = together + at
        at += int(together.max()) + 1
    return SeedPartition(partition.seeds, partition.parents, groups)


def without_few(
    partition: SeedPartition, opened: Bools, parents: Ints
) -> SeedPartition:
    """Join groups that few members hold to others of their parent.

    To the nearest that enough hold; if there is none, all of the parent's are joined.
    So what is divided is divided without a rest. Parents that few hold themselves (0
    in `parents`) stay divided: their rows are told by whom they belong to.
    """
    outer, groups = partition.outer, np.arange(partition.n_groups)
    places = partition.origins
    for parent in np.flatnonzero(parents):
        inside = np.flatnonzero(outer == parent)
        enough = inside[opened[inside]]
        if not enough.size:
            # Divided into what few hold, the parts would tell these: it stays whole.
            groups[inside] = inside[0]
            continue
        # Joined, not closed: a rest that is left out is the difference to the parent.
        few = inside[~opened[inside]]
        nearest, _ = assign(places[few], places[enough])
        groups[few] = enough[nearest]
    numbers = np.unique(groups, return_inverse=True)[1]
    joined_to: Ints = numbers[partition.groups].astype(np.int64)
    return SeedPartition(partition.seeds, partition.parents, joined_to)


def moments_from(
    question: Question, numbers: Ints, counted: Ints | None = None
) -> GroupMoments | None:
    """Return a cohort's groups from its summed numbers, None if they cannot be.

    `counted` are the rows at every seed (None: all are in the sums). Those that are in
    no sum are taken to be like the others of their group; if there are no others, to be
    at their seeds.
    """
    d = question.n_features
    sums = _read(question, numbers)
    counts, shifts, seconds = sums[:, 0], sums[:, 1 : 1 + d], sums[:, 1 + d :]
    last = question.partitions[-1]
    held = counts.astype(np.int64)
    if counted is not None:
        held = np.bincount(last.groups, counted).astype(np.int64)
    # Rows were counted there that nobody may sum.
    empty = (counts == 0) & (held > 0)
    if not bool(np.all(counts[~empty] >= 1)) or bool(sums[empty].any()):
        return None
    counts = np.where(empty, 1.0, counts)
    means = shifts / counts[:, None]
    squares = means * means
    slack = _slack(counts, shifts)
    if len(question.partitions) > 1:  # one scatter for all columns
        squares, slack = squares.sum(axis=1, keepdims=True), d * slack
    scatters = seconds - counts[:, None] * squares
    # A negative variance is no sum of anybody's rows.
    if not bool(np.all(scatters >= -slack[:, None])):
        return None
    means = last.origins + means
    missing = held - np.where(empty, 0, counts).astype(np.int64)
    # The missing rows of a group are taken to be like the others.
    scatters = np.maximum(scatters, 0.0) * (held / counts)[:, None]
    if counted is not None and empty.any():
        at, around = _at_seeds(last, counted, held)
        if scatters.shape[1] < d:
            around = around.sum(axis=1, keepdims=True)
        means[empty], scatters[empty] = at[empty], around[empty] / EXPLAINED
    return GroupMoments(held, means, scatters, missing)


def _at_seeds(
    partition: SeedPartition, counted: Ints, held: Ints
) -> tuple[Floats, Floats]:
    """Return means and scatters of groups whose rows are all at their seeds."""
    groups, k = partition.groups, held.shape[0]

    def summed(values: Floats) -> Floats:
        columns = [np.bincount(groups, counted * c, minlength=k) for c in values.T]
        return np.stack(columns, axis=1)

    means = summed(partition.seeds) / np.maximum(held, 1)[:, None]
    return means, summed((partition.seeds - means[groups]) ** 2)


def _read(question: Question, numbers: Ints) -> Floats:
    """Return sums in agreed units, a row per group."""
    sums: Floats = numbers * question.units
    return sums.reshape(question.partitions[-1].n_groups, -1)


def _slack(counts: Floats, shifts: Floats) -> Floats:
    """Return how far below 0 rounding to the fixed point can take a variance.

    A cohort's sum of so many rows has at most as many roundings.
    """
    slack: Floats = UNIT * (1 + counts) * (1 + np.abs(shifts).max(axis=1) / counts)
    return slack


# ------------------------------------------------------------------ finer seeds


def finer(
    every: Sequence[GroupMoments], n_rows: int, rng: np.random.Generator
) -> list[SeedPartition]:
    """Return a finer partition for each of several cohorts.

    Seeds are placed on the pseudo-rows of all cohorts; a group is divided among those
    seeds that are the nearest to some of its own pseudo-rows.
    """
    # A share for each cohort: one large cohort must not place all the seeds.
    most = max(LEAST_PSEUDO, MOST_PSEUDO // len(every))
    drawn = [_pseudo_rows(each, most, rng) for each in every]
    points = np.concatenate([points for points, _, _ in drawn])
    weights = np.concatenate([weights for _, _, weights in drawn])
    if points.shape[0] > MOST_PSEUDO:
        some = np.sort(rng.choice(points.shape[0], MOST_PSEUDO, replace=False))
        points, weights = points[some], weights[some]
    # More seeds gave nothing (6 and 8 roots of n: 0025).
    k = min(MOST_FINER, int(FINER_PER_ROOT * math.sqrt(n_rows)), points.shape[0])
    start = points[plus_plus(points, k, rng, weights)]
    seeds, _ = lloyd(points, weights, start, PLACING)
    return [_divided(seeds, points, groups) for points, groups, _ in drawn]


def _pseudo_rows(
    moments: GroupMoments, most: int, rng: np.random.Generator
) -> tuple[Floats, Ints, Floats]:
    """Draw rows as Gaussian groups would have them; return them, groups, weights."""
    counts = moments.counts
    share = min(1.0, most / counts.sum())
    # Every group has at least one, or its place would get no seed.
    sizes = np.maximum(1, np.rint(counts * share).astype(np.int64))
    groups = np.repeat(np.arange(counts.shape[0]), sizes)
    noise = rng.standard_normal((groups.shape[0], moments.means.shape[1]))
    noise *= np.sqrt(moments.scatters / counts[:, None])[groups]
    points = moments.means[groups] + noise
    return points, groups, np.repeat(counts / sizes, sizes)


def _divided(seeds: Floats, points: Floats, groups: Ints) -> SeedPartition:
    """Divide groups among the seeds nearest to their own pseudo-rows."""
    nearest, _ = assign(points, seeds)
    # A seed may serve in several groups: it is another one in each.
    pairs = np.unique(np.stack([groups, nearest], axis=1), axis=0)
    chosen = np.ascontiguousarray(seeds[pairs[:, 1]])
    return SeedPartition(chosen, pairs[:, 0].copy(), np.arange(pairs.shape[0]))


# ------------------------------------------------------------------ what it all says


def sub_cells(cells: Cells, partition: SeedPartition, counts: Ints) -> Cells:
    """Return a cohort's cells cut up by the counts of their seeds.

    Of a cell the server knows mean and scatter, and how many of its rows are nearest to
    each of its seeds. So its rows are taken to lie at these seeds, moved so that mean
    and scatter are right. Nothing more was released for it: a guess, finer than cells.
    """
    held = np.flatnonzero(counts)
    mass, groups = counts[held], partition.groups[held]
    seeds, k = partition.seeds[held], len(cells)
    centers = np.stack(
        [np.bincount(groups, mass * column, minlength=k) for column in seeds.T], axis=1
    )
    offsets = seeds - (centers / cells.counts[:, None])[groups]
    between = np.bincount(groups, mass * (offsets * offsets).sum(axis=1), minlength=k)
    # Never all of it: rows have a spread around their seeds as well.
    most = EXPLAINED * cells.scatters
    shrink = np.sqrt(most / np.maximum(between, np.maximum(most, 1e-300)))
    points = cells.means[groups] + shrink[groups, None] * offsets
    rest = np.maximum(cells.scatters - between * shrink * shrink, 0.0)
    return Cells(mass, points, rest[groups] * mass / cells.counts[groups])

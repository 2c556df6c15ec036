# SPDX-License-Identifier: Apache-2.0
"""Whether a cohort's sums can be true, by what is known of its members already.

Of a masked part nothing can be checked, but of the sum over a cohort much is known
before: its members' first messages tell, up to a grid, what all their rows add up to;
rows nearest to one seed have their mean in that seed's Voronoi cell; and groups that
lie inside another one add up to it. What rounding can do is allowed for, so true sums
always pass. Within these bounds a member may still say what it likes, like anybody who
holds other rows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cohort import GroupMoments
from afcl.core.messages import Cells
from afcl.core.tasks import UNIT, SeedPartition
from afcl.kernels import squared_distances

#: First messages lie on a grid of this width, see :mod:`afcl.privacy.secure`.
HELLO_GRID = 1 / 64
#: What rounding may do to squared distances of means.
NEARLY = 1e-3


def agree_with_hellos(moments: GroupMoments, hellos: Cells) -> bool:
    """Whether groups add up to what their cohort said first, as far as the grid shows.

    A cell's mean is off by half the grid in every column, its mean squared radius by
    half the grid squared: so far first and second moments of all rows may differ. Rows
    in no sum may lie anywhere among those that first messages tell of.
    """
    counts = hellos.counts.astype(np.float64)
    rows, d = counts.sum(), hellos.means.shape[1]
    first, second = _totals(_cells_of(moments))
    known, known_second = _totals(hellos)
    rounding = UNIT * (rows + len(moments.counts)) * (4 + 4 * d)
    missing = float(np.sum(moments.missing))
    low, high, square = _extent(hellos)
    off = rows * HELLO_GRID / 2 + rounding
    lacking = known - first
    if np.any(lacking < missing * low - off) or np.any(lacking > missing * high + off):
        return False
    reach = HELLO_GRID * np.abs(hellos.means).sum(axis=1)
    reach += HELLO_GRID**2 * (d / 4 + 1 / 2)
    off_second = (counts * reach).sum() + rounding
    # What is missing can only be missing: squares add up to no more than all rows'.
    return bool(-off_second - missing * square <= second - known_second <= off_second)


def _extent(hellos: Cells) -> tuple[Floats, Floats, float]:
    """Return between what rows lie, by column, and their largest square.

    No row of a cell is further from its mean than the root of the scatter.
    """
    scatters = hellos.scatters + hellos.counts * HELLO_GRID**2 / 2
    away = np.sqrt(scatters)[:, None] + HELLO_GRID / 2
    low = (hellos.means - away).min(axis=0)
    high = (hellos.means + away).max(axis=0)
    square = np.maximum(np.abs(low), np.abs(high)) ** 2
    return low, high, float(square.sum())


def lie_around_seeds(
    means: Floats, partition: SeedPartition, members: int, counts: Ints
) -> bool:
    """Whether the mean of every group of one seed is nearest to that seed.

    Of all seeds with its parent; groups that several seeds were joined to may have
    their mean anywhere.
    """
    sizes, starts = np.bincount(partition.groups), partition.starts.tolist()
    for first, last in pairwise(starts):  # the seeds of one parent
        groups = partition.groups[first:last]
        alone = np.flatnonzero((sizes[groups] == 1) & (counts[groups] > 0))
        whose, seeds = groups[alone], partition.seeds[first:last]
        squares = squared_distances(np.ascontiguousarray(means[whose]), seeds)
        own = squares[np.arange(alone.shape[0]), alone]
        slack = NEARLY + 16 * UNIT * members / counts[whose]
        if np.any(own > squares.min(axis=1, initial=np.inf) + slack * (1 + own)):
            return False
    return True


def add_up(
    found: GroupMoments,
    partition: SeedPartition,
    whole: GroupMoments,
    members: int,
    hellos: Cells,
) -> bool:
    """Whether the groups inside each group of a coarser partition add up to it."""
    cells = _cells_of(found)
    parents = np.zeros(partition.n_groups, dtype=np.int64)
    parents[partition.groups] = partition.parents
    d = cells.means.shape[1]
    first, second = _by_parent(cells, parents, len(whole.counts))
    known, known_second = _by_parent(
        _cells_of(whole), np.arange(len(whole.counts)), len(whole.counts)
    )
    children = np.bincount(parents, minlength=len(whole.counts))
    rounding = UNIT * (members * (children + 1) + whole.counts) * (4 + 4 * d)
    inside = np.zeros_like(found.counts) + found.missing
    lacking = np.bincount(parents, inside, minlength=len(whole.counts))
    before = np.zeros_like(whole.counts) + whole.missing
    low, high, square = _extent(hellos)
    off, more = rounding[:, None], (lacking[:, None], before[:, None])
    least, most = more[0] * low - more[1] * high, more[0] * high - more[1] * low
    beyond = second - known_second
    return bool(
        np.all((known - first >= least - off) & (known - first <= most + off))
        and np.all(beyond <= rounding + before * square)
        and np.all(-beyond <= rounding + lacking * square)
    )


def _cells_of(moments: GroupMoments) -> Cells:
    """Return groups without the rows that are in no sum."""
    counts = moments.counts - moments.missing
    share = counts / np.maximum(1, moments.counts)
    return Cells(counts, moments.means, moments.scatters.sum(axis=1) * share)


def _totals(cells: Cells) -> tuple[Floats, float]:
    """Return what all rows of cells add up to: first moments, the second one."""
    first, second = _by_parent(cells, np.zeros(len(cells), dtype=np.int64), 1)
    return first[0], float(second[0])


def _by_parent(cells: Cells, parents: Ints, n: int) -> tuple[Floats, Floats]:
    counts = cells.counts.astype(np.float64)
    first = np.stack(
        [
            np.bincount(parents, counts * column, minlength=n)
            for column in cells.means.T
        ],
        axis=1,
    )
    squares = cells.scatters + counts * (cells.means * cells.means).sum(axis=1)
    second = np.bincount(parents, squares, minlength=n)
    return first.astype(np.float64), second.astype(np.float64)

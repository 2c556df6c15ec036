# SPDX-License-Identifier: Apache-2.0
"""Waves of cohorts in a crowd: what they are asked, and how their sums are read.

In a cohort's sum the masks cancel exactly, so the sum is formed directly, of what the
members would have masked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.batch import (
    Batch,
    Crowd,
    Spread,
    no_cells,
    offsets_of,
    one_after_another,
)
from afcl.core.messages import Cells
from afcl.core.tasks import UNIT

#: What a cohort is asked for; it is over when it has been read.
COUNTING, SUMMING, OVER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Wave:
    """Cohorts that began together and are asked about the same seeds.

    Cohort i has the members from ``offsets[i]`` up to ``offsets[i + 1]``.

    Attributes
    ----------
    owing
        Which members have not answered in this phase.
    phases
        What each cohort is asked for.
    groups, sizes
        Every seed's group in every cohort, and the number of groups, once known.
    turns
        When each cohort got its question, counted over all cohorts.
    """

    members: Ints
    offsets: Ints
    seeds: Floats
    owing: Bools
    phases: Ints
    groups: Ints
    sizes: Ints
    turns: Ints

    @property
    def cohort(self) -> Ints:
        """Return every member's cohort."""
        return np.repeat(np.arange(self.phases.shape[0]), np.diff(self.offsets))

    def of(self, cohorts: Ints) -> tuple[Ints, Ints]:
        """Return the members of these cohorts, one after the other, and offsets."""
        sizes = np.diff(self.offsets)[cohorts]
        offsets = offsets_of(sizes)
        shift = np.repeat(self.offsets[cohorts] - offsets[:-1], sizes)
        return self.members[np.arange(offsets[-1]) + shift], offsets


def bytes_of(wave: Wave) -> Ints:
    """Return the bytes of a part in every cohort."""
    k, d = wave.seeds.shape
    counting = wave.phases == COUNTING
    numbers: Ints = np.where(counting, k, wave.sizes * (d + 2))
    return 8 * numbers


@dataclass(frozen=True, slots=True)
class Read:
    """What could be read of a wave: cells with their members, and cohorts counted.

    `last` and `counted_by` are who spoke last in each cohort.
    """

    cells: Batch
    members: Ints
    offsets: Ints
    last: Ints
    counted: Ints
    counted_by: Ints

    @property
    def news(self) -> bool:
        """Whether any sum was complete."""
        return bool(self.counted.size or self.last.size)


def advanced(
    wave: Wave, ready: Bools, crowd: Crowd, min_cell: int, spread: Spread
) -> tuple[Wave, Read]:
    """Read the sums that are complete, and ask for the next ones."""
    cohort = wave.cohort
    n = wave.phases.shape[0]
    complete = np.bincount(cohort[wave.owing], minlength=n) == 0
    counted = np.flatnonzero(complete & (wave.phases == COUNTING))
    summed = np.flatnonzero(complete & (wave.phases == SUMMING))
    last = np.maximum.reduceat(np.where(ready, wave.members, -1), wave.offsets[:-1])
    cells = _sums(wave, summed, crowd, spread)
    done = Read(cells, *wave.of(summed), last[summed], counted, last[counted])
    phases, groups, sizes = wave.phases.copy(), wave.groups.copy(), wave.sizes.copy()
    if counted.size:
        groups[counted], sizes[counted] = _groups(
            wave, counted, crowd, min_cell, spread
        )
    phases[counted], phases[summed] = SUMMING, OVER
    owing = wave.owing | np.isin(cohort, counted)
    return (
        replace(wave, owing=owing, phases=phases, groups=groups, sizes=sizes),
        done,
    )


def _groups(
    wave: Wave, cohorts: Ints, crowd: Crowd, min_cell: int, spread: Spread
) -> tuple[Ints, Ints]:
    """Count these cohorts' rows and join seeds; see :func:`cohorts.join_seeds`."""
    from afcl.kernels.crowd_sums import count, join

    def work(some: Ints) -> tuple[Ints, Ints]:
        members, offsets = wave.of(some)
        counts = count(crowd.rows, crowd.offsets, members, offsets, wave.seeds)
        joined: tuple[Ints, Ints] = join(counts, wave.seeds, min_cell)
        return joined

    parts = spread(work, cohorts)
    return (
        np.concatenate([groups for groups, _ in parts]),
        np.concatenate([sizes for _, sizes in parts]),
    )


def _sums(wave: Wave, cohorts: Ints, crowd: Crowd, spread: Spread) -> Batch:
    """Return the cells of these cohorts; see :func:`cohorts.cells_from`."""
    from afcl.kernels.crowd_sums import add

    d = wave.seeds.shape[1]

    def work(some: Ints) -> Batch:
        members, offsets = wave.of(some)
        places = offsets_of(wave.sizes[some])
        counts, totals = add(
            crowd.rows,
            crowd.offsets,
            members,
            offsets,
            wave.seeds,
            wave.groups[some],
            places,
            1.0 / UNIT,
        )
        sums = totals.astype(np.float64) * UNIT
        means = sums[:, :d] / counts[:, None]
        scatters = sums[:, d] - counts * (means * means).sum(axis=1)
        return Batch(Cells(counts, means, np.maximum(scatters, 0.0)), places)

    if not cohorts.size:
        return no_cells(0, d)
    return one_after_another(spread(work, cohorts))

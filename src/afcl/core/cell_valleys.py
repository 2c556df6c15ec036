# SPDX-License-Identifier: Apache-2.0
"""Valleys between clusters where rows have not been counted, or not of this build.

Without valleys the rule for k (:mod:`core.indices`) does not believe the likeliest
level, and silhouettes alone decide. So what is known of them is not thrown away: cells
are counted in place of their rows, and counts of a former build are carried over.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import Cells
from afcl.core.protocol import PathLevel
from afcl.kernels import assign
from afcl.kernels.reference import PLACES, SLAB


def cell_valleys(cells: Cells, centers: Floats) -> Floats:
    """Return what :func:`afcl.kernels.valleys` would count of the cells' rows, (k, 3).

    The mean of a cell says too little: means of many rows leave valleys that the rows
    fill. A cell counts like two rows one standard deviation to each side of its mean,
    on the axis that is looked at.
    """
    k, d = centers.shape
    counts = np.zeros((k, len(PLACES)))
    weights = cells.counts / 2
    radii = np.sqrt(cells.scatters / (cells.counts * d))
    labels, _ = assign(cells.means, centers)
    for own in range(k):
        apart = ((centers - centers[own]) ** 2).sum(axis=1)
        apart[own] = np.inf
        other = int(apart.argmin())
        length = apart[other]
        if not 0 < length < np.inf:
            continue
        near = (labels == own) | (labels == other)
        axis = (centers[other] - centers[own]) / length
        at = (cells.means[near] - centers[own]) @ axis
        wide = radii[near] / np.sqrt(length)
        for column, place in enumerate(PLACES):
            for side in (at - wide, at + wide):
                inside = np.abs(side - place) <= SLAB
                counts[own, column] += weights[near][inside].sum()
    return counts


def carried_over(
    levels: tuple[PathLevel, ...], before: tuple[PathLevel, ...]
) -> tuple[PathLevel, ...]:
    """Return levels with the valleys of the same clusterings of a former build.

    The same are those of as many centres, each of which is nearest to another one.
    """
    known = {level.k: level for level in before if len(level.valleys) == level.k}
    return tuple(_with_valleys(level, known.get(level.k)) for level in levels)


def _with_valleys(level: PathLevel, old: PathLevel | None) -> PathLevel:
    if old is None or level.valleys.size:
        return level
    nearest, _ = assign(level.centers, old.centers)
    if len(np.unique(nearest)) < level.k:
        return level
    return replace(level, valleys=old.valleys[nearest])

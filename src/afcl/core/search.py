# SPDX-License-Identifier: Apache-2.0
"""From the likeliest level on: clusters split and joined while that makes it likelier.

The path merges seeds by Ward's rule, which knows nothing of small clusters beside large
ones. So the level that its BIC with own variances (`free_bic`) likes best is taken up
once more: a cluster is cut in two, or two are joined, whatever gains the most; the
level is polished, and kept if it did gain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from afcl._typing import Floats
from afcl.core.cells import pool
from afcl.core.indices import LEAST_VARIANCE
from afcl.core.messages import Cells
from afcl.core.path import level_on
from afcl.core.protocol import PathLevel
from afcl.kernels import assign, lloyd

#: Steps of the search, at most.
STEPS = 12
#: Changes that are polished in a step, those that seem to gain the most.
TRIED = 3
#: Lloyd iterations that cut a cluster in two.
CUTTING = 10


def likelier(bag: Cells, level: PathLevel, most: int) -> tuple[PathLevel, ...]:
    """Return levels of at most `most` clusters, each likelier than the one before."""
    found = []
    for _ in range(STEPS):
        changed = (level_on(bag, centers) for centers in _changes(bag, level))
        fit = [each for each in changed if each is not None and each.k <= most]
        best = max(fit, key=_likeliness, default=level)
        if _likeliness(best) <= _likeliness(level):
            break
        level = best
        found.append(level)
    return tuple(found)


def _likeliness(level: PathLevel) -> float:
    value = level.scores["free_bic"]
    return -np.inf if value is None else value


def _changes(bag: Cells, level: PathLevel) -> Iterator[Floats]:
    """Yield the centres after the few changes that seem to gain the most."""
    gains: list[tuple[float, int, Floats]] = []
    for gone, instead in (*_cuts(bag, level), *_joins(level)):
        gain = _gain(bag, level, gone, instead)
        centers = np.concatenate([np.delete(level.centers, gone, axis=0), instead[0]])
        gains.append((gain, len(gains), centers))
    for _, _, centers in sorted(gains, key=lambda each: (-each[0], each[1]))[:TRIED]:
        yield centers


#: Clusters that are given up, and what comes instead: means, counts, scatters.
_Change = tuple[list[int], tuple[Floats, Floats, Floats]]


def _cuts(bag: Cells, level: PathLevel) -> Iterator[_Change]:
    """Yield every cluster cut in two, starting from its two farthest ends."""
    labels, _ = assign(bag.means, level.centers)
    for cluster in range(level.k):
        index = np.flatnonzero(labels == cluster)
        if index.shape[0] < 2:
            continue
        own = Cells(bag.counts[index], bag.means[index], bag.scatters[index])
        start = _ends(own.means, level.centers[cluster])
        weights = own.counts.astype(np.float64)
        _, halves = lloyd(own.means, weights, start, CUTTING)
        counts, means, scatters = pool(own, halves, 2)
        if counts.min() > 0:
            yield [cluster], (means, counts, scatters)


def _ends(points: Floats, center: Floats) -> Floats:
    """Return the point farthest from the centre, and the one farthest from that."""
    one = points[((points - center) ** 2).sum(axis=1).argmax()]
    other = points[((points - one) ** 2).sum(axis=1).argmax()]
    return np.stack([one, other])


def _joins(level: PathLevel) -> Iterator[_Change]:
    """Yield every cluster joined with its nearest."""
    if level.k < 3:
        return
    gaps = ((level.centers[:, None] - level.centers[None]) ** 2).sum(axis=2)
    np.fill_diagonal(gaps, np.inf)
    for one in range(level.k):
        other = int(gaps[one].argmin())
        both = level.sizes[[one, other]]
        total = both.sum()
        mean = (both[:, None] * level.centers[[one, other]]).sum(axis=0) / total
        between = both.prod() / total * gaps[one, other]
        scatter = level.scatters[[one, other]].sum() + between
        yield [one, other], (mean[None], total[None], np.array([scatter]))


def _gain(
    bag: Cells,
    level: PathLevel,
    gone: list[int],
    instead: tuple[Floats, Floats, Floats],
) -> float:
    """Return what a change gains in `free_bic` if no cell changes sides for it."""
    n, d = float(bag.counts.sum()), level.centers.shape[1]
    _, counts, scatters = instead
    after = _fit(counts, scatters, n, d)
    before = _fit(level.sizes[gone], level.scatters[gone], n, d)
    more = counts.shape[0] - len(gone)
    return float(after - before - 0.5 * more * (d + 2) * np.log(n))


def _fit(counts: Floats, scatters: Floats, n: float, d: int) -> float:
    variances = scatters / (np.maximum(counts - 1.0, 0.5) * d)
    fit = -0.5 * d * counts * np.log(np.maximum(variances, LEAST_VARIANCE))
    return float((fit + counts * np.log(counts / n)).sum())

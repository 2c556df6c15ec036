# SPDX-License-Identifier: Apache-2.0
"""A likelier level than the path has: clusters split, joined, or both at once.

Ward's path cuts a large cluster before it parts two small ones that touch, and no level
further down mends that: at the right k one cluster is in two pieces and two are one.
From the likeliest levels this search goes on, move by move, as long as F (the BIC with
own variances, :func:`afcl.core.indices.free_bic`) grows by more than a little.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.cells import has_few_values, pool, without_gaps
from afcl.core.condense import condense_cells
from afcl.core.indices import LEAST_VARIANCE, Partition, free_bic
from afcl.core.messages import Cells
from afcl.kernels import halved, lloyd, sums

#: Cells that are searched, at most: a larger bag is condensed first.
CELLS = 1024
#: Cells this close in a column, as a share of its range, tie: by rounding, not by being
#: many (ten units of what is summed under masks).
TIED = 1e-5
#: Moves of one search, at most.
MOVES = 25
#: Splits, and joins, that are looked at in a move, the most promising ones;
PROMISING = 4
#: of these and their pairs so many are tried,
TRIED = 8
#: if what they promise is no loss of more than this, in nats a row: moving the centres
#: afterwards gains some.
SLACK = 0.03
#: A move has to gain this much, in nats a row.
GAIN = 0.001
#: A cluster has at least so many rows,
ROWS = 10
#: and cells: one that is tight by chance would be the likeliest cluster of all.
OF_CELLS = 2
#: Splits begin along the longest axis and at so many cells far from what is known.
STARTS = 4
#: Steps of a split's 2-means,
HALVING = 8
#: of the power iteration for the longest axis,
TURNING = 6
#: and of Lloyd after a move.
POLISH = 20


class Found(NamedTuple):
    """A clustering of the cells and how likely it is.

    Attributes
    ----------
    labels
        The cluster of each cell.
    counts, means, scatters
        O, B and Z of each cluster.
    value
        F.
    """

    labels: Ints
    counts: Floats
    means: Floats
    scatters: Floats
    value: float


class _Move(NamedTuple):
    """A change of the centres: what it promises, and the centres after it."""

    promise: float
    centers: Floats


def likelier(bag: Cells, starts: list[Floats], most: int) -> Floats | None:
    """Return centres of a likelier clustering than any of the starts, None if none is.

    Where columns have few values nobody searches.

    Parameters
    ----------
    bag
        What is known of the rows.
    starts
        Centres of levels, the likeliest first.
    most
        The largest k.
    """
    if has_few_values(bag, TIED):
        return None  # rows that all have the same value would be likely for that alone
    small = bag if len(bag) <= CELLS else condense_cells(bag, CELLS)
    begun = [_fit(small, centers) for centers in starts]
    ends = [_searched(small, fit, most) for fit in begun]
    best = max(ends, key=lambda fit: fit.value)
    return None if any(best is fit for fit in begun) else best.means


def halves_of(bag: Cells, centers: Floats) -> Iterator[Floats]:
    """Yield centres with one cluster's halves in its place, the likeliest first."""
    fit = _fit(bag, centers)
    gains, halves = _splits(bag, fit)
    for j in _largest(gains - _shares(fit.counts, fit.scatters, fit.means.shape[1])):
        yield np.vstack([np.delete(fit.means, j, 0), halves[j]])


def _searched(bag: Cells, fit: Found, most: int) -> Found:
    """Return where moves that gain lead to."""
    for _ in range(MOVES):
        better = _moved(bag, fit, most)
        if better is None:
            break
        fit = better
    return fit


def _moved(bag: Cells, fit: Found, most: int) -> Found | None:
    """Return the clustering after the first move that gains, None if none does."""
    n = float(fit.counts.sum())
    moves = sorted(_moves(bag, fit, most), key=lambda move: -move.promise)
    for move in moves[:TRIED]:
        if move.promise < -SLACK * n:
            return None
        tried = _fit(bag, move.centers)
        if tried.counts.min() >= ROWS and tried.value > fit.value + GAIN * n:
            return tried
    return None


def _fit(bag: Cells, centers: Floats) -> Found:
    """Return the clustering around centres after a few steps of Lloyd."""
    _, labels = lloyd(bag.means, bag.counts.astype(np.float64), centers, POLISH)
    labels, k = without_gaps(labels, centers.shape[0])
    counts, means, scatters = pool(bag, labels, k)
    value = free_bic(Partition(counts, means, scatters, 0.0, 0.0))
    return Found(labels, counts, means, scatters, value)


def _price(n: float, d: int) -> float:
    """Return what BIC asks for one more cluster."""
    return 0.5 * (d + 2) * float(np.log(n))


def _shares(counts: Floats, scatters: Floats, d: int) -> Floats:
    """Return what clusters add to F, but for what depends on n and k alone."""
    freedom = np.maximum(counts - 1.0, 0.5) * d
    variances = np.maximum(scatters / freedom, LEAST_VARIANCE)
    fit: Floats = counts * (
        np.log(np.maximum(counts, 1.0)) - 0.5 * d * np.log(variances)
    )
    return fit


def _moves(bag: Cells, fit: Found, most: int) -> Iterator[_Move]:
    """Yield the most promising splits and joins, and every split with every join."""
    k, d = fit.means.shape
    price = _price(fit.counts.sum(), d)
    own = _shares(fit.counts, fit.scatters, d)
    gains, halves = _splits(bag, fit)
    gains = gains - own - price
    losses, joined = _joins(fit)
    losses = losses - own[:, None] - own + price
    splits = _largest(gains)
    joins = [divmod(pair, k) for pair in _largest(losses.ravel())]
    for j in splits if k < most else ():
        yield _Move(gains[j], np.vstack([np.delete(fit.means, j, 0), halves[j]]))
    for a, b in joins:
        rest = np.delete(fit.means, [a, b], 0)
        if k > 2:
            yield _Move(losses[a, b], np.vstack([rest, joined[a, b]]))
        for j in splits:
            if j not in (a, b):
                rest = np.delete(fit.means, [a, b, j], 0)
                both = np.vstack([rest, joined[a, b], halves[j]])
                yield _Move(gains[j] + losses[a, b], both)


def _largest(values: Floats) -> list[int]:
    """Return the positions of the largest values that are finite."""
    order = np.argsort(-values, kind="stable")[:PROMISING]
    return [int(i) for i in order if np.isfinite(values[i])]


def _joins(fit: Found) -> tuple[Floats, Floats]:
    """Return what every two clusters would add to F as one, and its mean."""
    counts, means, scatters = fit.counts, fit.means, fit.scatters
    k, d = means.shape
    both = counts[:, None] + counts
    squares = ((means[:, None] - means) ** 2).sum(axis=2)
    around = scatters[:, None] + scatters + counts[:, None] * counts / both * squares
    values = _shares(both, around, d)
    values[np.tril_indices(k)] = -np.inf  # every pair once, and no cluster with itself
    sums = counts[:, None] * means
    return values, (sums[:, None] + sums) / both[:, :, None]


def _splits(bag: Cells, fit: Found) -> tuple[Floats, Floats]:
    """Return what the halves of every cluster would add to F, and their means.

    2-means from several starts, in all clusters at once; the likeliest halves stay.
    """
    k, d = fit.means.shape
    weights = bag.counts.astype(np.float64)
    best, halves = np.full(k, -np.inf), np.zeros((k, 2, d))
    for upper in _starts(bag, fit):
        half = halved(bag.means, weights, fit.labels, upper, HALVING)
        parts = 2 * fit.labels + half
        counts, means, scatters = pool(bag, parts, 2 * k)
        cells = np.bincount(parts, minlength=2 * k)
        fits = ((counts >= ROWS) & (cells >= OF_CELLS)).reshape(k, 2).all(axis=1)
        value = _shares(counts, scatters, d).reshape(k, 2).sum(axis=1)
        better = fits & (value > best)
        best[better] = value[better]
        halves[better] = means.reshape(k, 2, d)[better]
    return best, halves


def _starts(bag: Cells, fit: Found) -> Iterator[Bools]:
    """Yield ways to begin: cells beyond the middle, and those near a far one."""
    k = len(fit.counts)
    away = bag.means - fit.means[fit.labels]
    weights = bag.counts.astype(np.float64)
    squares = (away * away).sum(axis=1)
    axes = away[_farthest(squares, fit.labels, k)]
    for _ in range(TURNING):
        along = (away * axes[fit.labels]).sum(axis=1)
        _, axes = sums(away, weights * along, fit.labels, k)
        axes /= np.maximum(np.linalg.norm(axes, axis=1), 1e-300)[:, None]
    yield (away * axes[fit.labels]).sum(axis=1) > 0
    far = squares
    for _ in range(STARTS):
        anchors = bag.means[_farthest(far, fit.labels, k)]
        beside = ((bag.means - anchors[fit.labels]) ** 2).sum(axis=1)
        yield beside < squares
        far = np.minimum(far, beside)


def _farthest(squares: Floats, labels: Ints, k: int) -> Ints:
    """Return the cell with the largest of these numbers in every cluster."""
    most = np.zeros(k)
    np.maximum.at(most, labels, squares)
    first = np.full(k, len(labels) - 1)
    cells = np.flatnonzero(squares == most[labels])
    np.minimum.at(first, labels[cells], cells)
    return first

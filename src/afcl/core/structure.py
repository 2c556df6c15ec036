# SPDX-License-Identifier: Apache-2.0
"""Whether there are clusters at all, judged by the cells the server has.

A clustering is worth something if it explains the rows better than a single cloud
does. How much better is measured in nats a row, with BIC's price for parameters, over
two families: round clusters of any spread, and clusters of one common shape (a few
long axes, the others alike). The single cloud may have any such shape.

Heavy tails are explained better by several clusters too, and a round cloud a little
worse. So the gain is compared with that on *clouds*: rows with the same mean, shape
and distances from the middle, but in random directions, condensed and cut up in the
same way. Where the sites have counted rows between clusters, valleys count as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from afcl._typing import Floats
from afcl.core.cells import pool, without_gaps
from afcl.core.indices import (
    ALL_PARTED,
    DECIDING,
    LEAST_VARIANCE,
    goodness,
    parted,
)
from afcl.core.messages import Cells
from afcl.core.path import build_path, joined_seeds
from afcl.core.protocol import PathLevel
from afcl.core.seeding import distinct, plus_plus, weighted_kmeans
from afcl.kernels import lloyd
from afcl.reliance import CLUSTERS, NO_CLUSTERS, UNCLEAR

#: Clouds that a gain is compared with.
CLOUDS = 9
#: Rows in each of them at most.
CLOUD_ROWS = 2000
#: Lloyd iterations that condense the rows of a cloud to cells.
CONDENSE = 3
#: Lloyd iterations that a level of a cloud gets.
SAMPLE_POLISH = 6
#: Axes that are looked at: those along which the rows differ most.
AXES = 32
# There are clusters if one of three holds, in nats a row (decision 0026):
#: a gain over one cloud of more than this
SOME_GAIN = 0.05
#: where at least this share of the clusters have a valley;
SOME_VALLEYS = 0.35
#: or one that is so much more than on clouds
MORE_GAIN = 0.3
#: and so many times the spread of these,
SPREADS = 5.0
#: which is not asked for beyond this;
ENOUGH = 1.0
#: or one a little beyond all clouds where nearly every cluster has a valley.
LITTLE_GAIN = 0.05
#: Clouds that differ by so much among themselves say nothing.
BLIND = 0.5
#: A share of the largest variance below which a direction counts as flat.
FLAT = 1e-9


class Clouds(NamedTuple):
    """Gains on rows without clusters: the middle, its spread, the largest."""

    middle: float
    spread: float
    most: float


def clouds_like(bag: Cells, most: int, rng: np.random.Generator) -> Clouds:
    """Return what the best clustering gains on clouds of the bag's shape."""
    gains = []
    for _ in range(CLOUDS):
        cloud = _cloud(bag, rng)
        gains.append(gain_over_one(cloud, sample_path(cloud, most, rng)))
    middle = float(np.median(gains))
    # As a standard deviation of Gaussian gains, but one odd cloud of nine does not move
    # it.
    spread = 1.4826 * float(np.median(np.abs(np.array(gains) - middle)))
    return Clouds(middle, spread, max(gains))


def is_plain(gain: float, by_rows: float, valleys: float) -> bool:
    """Whether there are clusters for certain: a gain, and valleys between them.

    Parameters
    ----------
    gain, by_rows
        Of the best clustering over one cloud, from the cells and, where sites have told
        the scatters of candidates, from the rows.
    valleys
        Share of the likeliest candidate's clusters with a valley to the next.
    """
    return max(gain, by_rows) > SOME_GAIN and valleys >= SOME_VALLEYS


def compared(gain: float, valleys: float, clouds: Clouds) -> str:
    """Say whether there are clusters, given the gains on rows without any."""
    more = gain - clouds.middle
    # A little added: nine clouds that happen to agree do not make any gain significant.
    if more > max(MORE_GAIN, min(ENOUGH, SPREADS * (clouds.spread + 0.01))):
        return CLUSTERS
    # Valleys alone are blind with many columns, the gain alone believes long tails
    # (0026).
    if valleys >= ALL_PARTED and more > LITTLE_GAIN and gain > clouds.most:
        return CLUSTERS
    # Clouds that differ among themselves cannot show that there is nothing.
    return UNCLEAR if more > MORE_GAIN and clouds.spread > BLIND else NO_CLUSTERS


def gain_by_rows(bag: Cells, candidates: Sequence[PathLevel]) -> tuple[float, float]:
    """Return the likeliest candidate's gain over one cloud, and its valleys."""
    if not candidates:
        return -np.inf, 0.0
    likely = goodness(candidates, "free_bic")
    best = int(np.argmax(likely))
    # Rows of a first message that sums explain are scored, and in no cell of the bag.
    share = bag.counts.sum() / candidates[best].sizes.sum()
    more = likely[best] * share - _one(bag)
    return float(more / bag.counts.sum()), parted(candidates[best])


def sample_path(
    bag: Cells,
    most: int,
    rng: np.random.Generator,
    names: Collection[str] = DECIDING,
) -> tuple[PathLevel, ...]:
    """Return the levels from 2 to `most` on a small bag, from seeds of its own.

    They have these indices alone: many paths are made, and the others cost time.
    """
    # Twice as many seeds as clusters, so that the path has something to join.
    k = min(2 * most, distinct(bag.means))
    weights = bag.counts.astype(np.float64)
    placed = weighted_kmeans(bag.means, weights, k, rng, 1)
    seeds, merges = joined_seeds(bag, placed)
    most = min(most, len(seeds))
    return build_path(bag, seeds, merges, most, SAMPLE_POLISH, names)


def leading(bag: Cells) -> Cells:
    """Return the bag on the axes along which rows differ most, if there are many."""
    d = bag.means.shape[1]
    # Covariances of many columns cost their cube, and few rows do not tell them.
    if d <= AXES:
        return bag
    # Scatter inside cells is taken as round: each axis has its share of it.
    return Cells(bag.counts, bag.means @ _axes(bag), bag.scatters * (AXES / d))


def _axes(bag: Cells) -> Floats:
    """Return the axes along which cells differ most: as many columns."""
    m, d = bag.means.shape
    if m >= d:
        axes: Floats = np.linalg.eigh(_Moments.of(bag).between)[1][:, -AXES:]
        return axes
    rooted = _rooted(bag)
    lengths, ways = np.linalg.eigh(rooted @ rooted.T)
    long = np.flatnonzero(lengths > FLAT * lengths[-1])[-AXES:]
    # Cells that lie in a plane have no more axes: what is left stays empty.
    found = np.zeros((d, AXES))
    found[:, AXES - len(long) :] = rooted.T @ ways[:, long] / np.sqrt(lengths[long])
    return found


def _rooted(bag: Cells) -> Floats:
    """Return cells around their mean, with as much weight as squares ask for.

    Of fewer cells than columns, products of these with each other have all lengths
    that the scatter between cells has.
    """
    weights = bag.counts.astype(np.float64)
    mean = weights @ bag.means / weights.sum()
    rooted: Floats = np.sqrt(weights)[:, None] * (bag.means - mean)
    return rooted


# ------------------------------------------------------------------ one cloud, or more


class _Moments(NamedTuple):
    """Rows, mean, scatter matrix between cells and mean scatter inside, of a bag."""

    n: float
    mean: Floats
    between: Floats
    inside: float

    @classmethod
    def of(cls, bag: Cells) -> _Moments:
        weights = bag.counts.astype(np.float64)
        n = float(weights.sum())
        mean = weights @ bag.means / n
        apart = bag.means - mean
        between = (weights[:, None] * apart).T @ apart
        return cls(n, mean, between, float(bag.scatters.sum()) / mean.shape[0])

    def covariance(self) -> Floats:
        """Return that of the rows; the scatter inside cells is taken as round."""
        found: Floats = self.between + self.inside * np.eye(self.mean.shape[0])
        return found / self.n


def gain_over_one(bag: Cells, levels: Sequence[PathLevel]) -> float:
    """Return by how many nats a row the best level is likelier than one cloud."""
    if not levels:
        return -np.inf
    known = _Moments.of(bag)
    best = max(_alike(known, levels), goodness(levels, "free_bic").max())
    return float((best - _one(bag)) / known.n)


def _one(bag: Cells) -> float:
    """Return BIC of one cloud of any shape."""
    n, d = float(bag.counts.sum()), bag.means.shape[1]
    return float(_shapes(_spread(bag)[None], n)[0] - 0.5 * d * np.log(n))


def _spread(bag: Cells) -> Floats:
    """Return the variances of the rows along their axes, the largest first."""
    m, d = bag.means.shape
    if m >= d:
        return _lengths(_Moments.of(bag).covariance())
    rooted, found = _rooted(bag), np.zeros(d)
    found[:m] = _lengths(rooted @ rooted.T)
    found += bag.scatters.sum() / d
    return found / float(bag.counts.sum())


def _lengths(matrices: Floats) -> Floats:
    """Return eigenvalues, the largest first."""
    found: Floats = np.linalg.eigvalsh(matrices)[..., ::-1].astype(np.float64)
    return found


def _alike(known: _Moments, levels: Sequence[PathLevel]) -> float:
    """Return BIC of clusters that have one shape, the best level's."""
    n, d = known.n, known.mean.shape[0]
    within = np.empty((len(levels), d, d))
    within[:] = known.covariance()
    shares = np.empty(len(levels))
    for at, level in enumerate(levels):
        sizes, apart = level.sizes, level.centers - known.mean
        within[at] -= (sizes[:, None] * apart).T @ apart / n
        shares[at] = (sizes * np.log(sizes / n)).sum()
    ks = np.array([level.k for level in levels])
    price = 0.5 * (ks * d + ks - 1) * np.log(n)
    return float((_shapes(_lengths(within), n) + (shares - price)).max())


def _shapes(spread: Floats, n: float) -> Floats:
    """Return BIC's terms of variances with a few long axes, the best number of them.

    With q of them there are dq - q(q - 1)/2 + 1 parameters.
    """
    d = spread.shape[1]
    # A column that follows from others would be infinitely likely.
    spread = np.maximum(spread, np.maximum(FLAT * spread[:, :1], LEAST_VARIANCE))
    q = np.arange(d)
    logs = np.zeros(spread.shape)
    np.cumsum(np.log(spread[:, :-1]), axis=1, out=logs[:, 1:])
    rest = np.cumsum(spread[:, ::-1], axis=1)[:, ::-1]
    fit = -0.5 * n * (logs + (d - q) * np.log(rest / (d - q)))
    price = 0.5 * (d * q - q * (q - 1) / 2 + 1) * np.log(n)
    best: Floats = (fit - price).max(axis=1)
    return best


# ------------------------------------------------------------------ clouds


def _cloud(bag: Cells, rng: np.random.Generator) -> Cells:
    """Return cells of rows as far from the middle as the bag's, in random directions.

    Rows are drawn around the cells' means; how far one is out is measured in the
    cloud's own shape.
    """
    known = _Moments.of(bag)
    spread, axes = np.linalg.eigh(known.covariance())
    # Flat directions stay flat: no division by their width.
    root = np.sqrt(np.maximum(spread, max(FLAT * spread[-1], LEAST_VARIANCE)))
    # Rows, not whole cells: turned cells make clumpy clouds, which look structured
    # (0026).
    rows = _rows(bag, rng)
    # How far out is kept, so that long tails have a cloud with long tails to beat.
    far = np.linalg.norm((rows - known.mean) @ axes / root, axis=1)
    ways = far[:, None] * _directions(len(rows), len(root), rng)
    rows = known.mean + (ways * root) @ axes.T
    return _condensed(rows, len(bag), known.n, rng)


def _directions(n: int, d: int, rng: np.random.Generator) -> Floats:
    """Draw unit vectors; on a line, where there are but two, shadows of those in space.

    The latter are as long on average, squared.
    """
    ways = rng.normal(size=(n, 3 if d == 1 else d))
    ways /= np.linalg.norm(ways, axis=1)[:, None]
    return np.sqrt(3.0) * ways[:, :1] if d == 1 else ways


def _rows(bag: Cells, rng: np.random.Generator) -> Floats:
    """Draw rows around the cells' means, about as many of each as it holds."""
    n, d = float(bag.counts.sum()), bag.means.shape[1]
    shares = bag.counts * (min(n, CLOUD_ROWS) / n)
    owner = np.repeat(
        np.arange(len(bag)),
        # Rounded at random: small cells would all vanish, or all count too much.
        np.floor(shares + rng.random(len(bag))).astype(np.int64),
    )
    widths = np.sqrt(bag.scatters / bag.counts / d)[owner]
    rows: Floats = bag.means[owner] + rng.normal(size=(len(owner), d)) * widths[:, None]
    return rows


def _condensed(rows: Floats, m: int, n: float, rng: np.random.Generator) -> Cells:
    """Condense rows to about m cells that stand for n rows."""
    ones = np.ones(rows.shape[0])
    # As fine as the bag, but never finer than five rows a cell: gains are compared.
    k = max(2, min(m, rows.shape[0] // 5))
    _, labels = lloyd(rows, ones, rows[plus_plus(rows, k, rng)], CONDENSE)
    single = Cells(ones.astype(np.int64), rows, np.zeros(rows.shape[0]))
    counts, means, scatters = pool(single, *without_gaps(labels, k))
    weights = np.maximum(1, np.rint(counts * n / rows.shape[0])).astype(np.int64)
    return Cells(weights, means, scatters * (weights / counts))

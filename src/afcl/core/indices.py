# SPDX-License-Identifier: Apache-2.0
"""Indices that need only summaries, and the rule that chooses k by them.

With O, B, Z the count, mean and scatter of every cluster and V = Z/O, the mean
squared distance of x to the members of a cluster is |x - B|^2 + V. That gives the
silhouette under squared distances exactly, and with square roots an approximation
of the Euclidean one: the *moment silhouette*.

Which indices there are says :data:`afcl.registry.INDICES`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.protocol import PathLevel, Scores
from afcl.kernels import crowding
from afcl.registry import AUTO
from afcl.registry import INDICES as INDICES

#: Indices that the rule for k looks at.
DECIDING = ("silhouette", "simplified", "bic", "free_bic")
#: Sums of the rule this close are a tie: larger BIC, then smaller k.
TIE = 1e-9
#: What a silhouette has to be better by for e times as many clusters. Without it small
#: pieces of anything win in the end, and how small they get is decided by n alone.
PER_FOLD = 0.02
#: Levels that are candidates because of the BIC with own variances.
BY_FREE_BIC = 4
#: Levels that are because they are a peak of the silhouette.
BY_PEAK = 1
#: And one that was searched for: likelier, by cells, than all of the path.
BY_SEARCH = 1
#: Candidates up to this k are looked at in any case; a peak beyond is not if it lies so
#: far below the best that rows cannot make it win (DROP, and what cells may be off by).
FAR = 40
HOPELESS = 0.3
#: Levels whose BIC with own variances is this close to the best, in nats a row, are
#: equally likely.
LIKELY = 0.005
#: A k from this share of the largest on is not believed to be the likeliest:
NEAR_END = 0.8
#: the path may just have ended; nor one whose silhouette lies so far below the best.
DROP = 0.2
#: A valley is one if, of the rows at the lower end, no larger share lies in its middle
DEEP = 0.75
#: (so many rows more counted in both: a few fewer make no valley),
FEW = 3.0
#: and the likeliest k is confirmed if this share of its clusters have one,
CONFIRMED = 0.7
#: or a smaller one where valleys are deep (v is so small on geometric average),
NEARLY_CONFIRMED = 0.6
DEEP_ON_AVERAGE = 0.64
#: and nowhere between two clusters there are more rows than in them.
HILL = 1.0
#: Where valleys are all there is to go by, clusters are parted if this share have one.
ALL_PARTED = 0.8
#: Clusters with hardly a row between them, by the same share, are not cut further: what
#: is long and not round is likelier in pieces, too,
CLEAR = 0.25
#: unless pieces are likelier by so much, in nats a row.
MUCH_LIKELIER = 0.06
#: A variance below this counts as this: rows that coincide would be infinitely likely.
LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Partition:
    """What is known of one clustering, and all that an index is computed from.

    Attributes
    ----------
    counts, means, scatters : ndarray of shape (k,), (k, d), (k,)
        O, B and Z of every cluster.
    silhouette, simplified : float
        Means over all rows, of the moment and of the simplified silhouette.
    """

    counts: Floats
    means: Floats
    scatters: Floats
    silhouette: float
    simplified: float


def scores_of(partition: Partition, names: Collection[str] = INDICES) -> Scores:
    """Return the indices of a clustering, None where one is not defined."""
    return {name: INDICES[name].score(partition) for name in names}


def deciding(criterion: str) -> tuple[str, ...]:
    """Return the indices without which nobody can choose by this criterion."""
    # Not a set: the order must be the same in every process.
    return DECIDING if criterion in (AUTO, *DECIDING) else (*DECIDING, criterion)


def mean_silhouette(partition: Partition) -> float:
    """Moment silhouette, the mean over all rows."""
    return partition.silhouette


def mean_simplified(partition: Partition) -> float:
    """Simplified silhouette, the mean over all rows."""
    return partition.simplified


def calinski_harabasz(partition: Partition) -> float | None:
    """Calinski-Harabasz from (O, B, Z)."""
    counts, means = partition.counts, partition.means
    n, k = counts.sum(), counts.shape[0]
    # Nothing between, or nothing left inside: not a large value, but none.
    if k < 2 or n <= k:
        return None
    middle = (counts[:, None] * means).sum(axis=0) / n
    between = (counts * ((means - middle) ** 2).sum(axis=1)).sum()
    within = partition.scatters.sum()
    if within <= 0:
        return 1.0
    return float(between * (n - k) / (within * (k - 1.0)))


def davies_bouldin(partition: Partition) -> float | None:
    """Davies-Bouldin with root-mean-square radii, from (O, B, Z)."""
    counts = partition.counts
    if counts.shape[0] < 2:
        return None
    radii = np.sqrt(partition.scatters / counts)
    return crowding(radii, partition.means) / len(counts)


def bic(partition: Partition) -> float:
    """BIC of a mixture of equal spherical Gaussians, hard assignments."""
    counts, d = partition.counts, partition.means.shape[1]
    n, k = counts.sum(), counts.shape[0]
    # Identical rows would be infinitely likely.
    variance = max(partition.scatters.sum() / (n * d), LEAST_VARIANCE)
    fit = -0.5 * n * d * np.log(variance)
    shares = (counts * np.log(counts / n)).sum()
    return float(fit + shares - 0.5 * k * (d + 1) * np.log(n))


def free_bic(partition: Partition) -> float:
    """BIC of a mixture of spherical Gaussians of any variances, hard assignments."""
    counts, d = partition.counts, partition.means.shape[1]
    n, k = counts.sum(), counts.shape[0]
    # A cluster of few rows is tighter than its cause: without this, small pieces win.
    freedom = np.maximum(counts - 1.0, 0.5) * d
    variances = np.maximum(partition.scatters / freedom, LEAST_VARIANCE)
    fit = -0.5 * d * (counts * np.log(variances)).sum()
    shares = (counts * np.log(counts / n)).sum()
    return float(fit + shares - 0.5 * (k * (d + 2) - 1) * np.log(n))


def _normalised(values: Floats) -> Floats:
    """Map to [-1, 0], the best to 0."""
    best = values.max()
    scaled: Floats = (values - best) / (best - values.min() + 1e-12)
    return scaled


def choose(levels: Sequence[PathLevel], criterion: str, band: float, most: int) -> int:
    """Return the position of the level that wins under `criterion`.

    `auto` looks at the likeliest levels (by the BIC of own variances) and takes, of
    those that the valleys between their clusters confirm, the one with the largest
    silhouette; before that, a level that is nearly as likely and whose clusters have
    hardly a row between them. If there are none, or valleys are not known, it takes the
    levels whose :func:`worth` lies within `band` of the best and among these the
    largest sum of normalised BIC and simplified silhouette. `most` is the largest k of
    the path.
    """
    if criterion != AUTO:
        return _best(levels, criterion)
    for found, index in (
        (_clear(levels, most), "free_bic"),
        (_confirmed(levels, most), "silhouette"),
    ):
        if found.size:
            return int(found[_best([levels[i] for i in found], index)])
    value = worth(levels, criterion)
    # Differences this small are chance: other indices decide among these (0001).
    inside = np.flatnonzero(value >= value.max() - band)
    likely = goodness(levels, "bic")[inside]
    # Normalised, as BIC grows with the rows and silhouettes do not.
    total = _normalised(likely) + _normalised(goodness(levels, "simplified")[inside])
    tied = inside[total >= total.max() - TIE]
    ks = np.array([level.k for level in levels])
    return int(tied[np.lexsort((ks[tied], -goodness(levels, "bic")[tied]))[0]])


def admitted(levels: Sequence[PathLevel], most: int) -> tuple[PathLevel, ...]:
    """Return the levels to choose among: one that was searched for only if rows agree.

    It has to be likelier than all of the path's, and valleys have to confirm it; then
    it takes the place of the path's level of the same k. If not, it is as if nobody had
    searched: what is likely to cells alone does not speak against any level.
    """
    of_path = [level for level in levels if not level.searched]
    likely = max(goodness(of_path, "free_bic"), default=np.inf)
    found = [
        level
        for level in levels
        if level.searched
        and goodness([level], "free_bic")[0] > likely
        and _is_confirmed(level, most)
    ]
    taken = {level.k for level in found}
    every = [*found, *(level for level in of_path if level.k not in taken)]
    return tuple(sorted(every, key=lambda level: level.k))


def worth(levels: Sequence[PathLevel], criterion: str) -> Floats:
    """Goodness by the criterion; under `auto` with a price for every fold of k."""
    values = goodness(levels, criterion)
    if criterion != AUTO:
        return values
    # The largest k grows with the rows, and small pieces of anything win in the end
    # (0026).
    paid: Floats = values - PER_FOLD * np.log([level.k for level in levels])
    return paid


def _best(levels: Sequence[PathLevel], criterion: str) -> int:
    """Return the position of the best level by one index, the smaller k on ties."""
    ks = np.array([level.k for level in levels])
    return int(np.lexsort((ks, -goodness(levels, criterion)))[0])


def _confirmed(levels: Sequence[PathLevel], most: int) -> Ints:
    """Return the positions of the likeliest levels that valleys confirm.

    There are none unless one of them is about as likely as the likeliest of all.
    """
    likely, near = _likelihoods(levels, LIKELY)
    held = _may_win(levels, most)
    # A much likelier level that valleys do not confirm: then likelihood decides
    # nothing.
    if not held.any() or likely[held].max() < likely.max() - near:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(held & (likely >= likely[held].max() - near))


def _clear(levels: Sequence[PathLevel], most: int) -> Ints:
    """Return the positions of levels all of whose clusters are clear of the next.

    There are none if another level is much likelier.
    """
    likely, near = _likelihoods(levels, MUCH_LIKELIER)
    held = _may_win(levels, most) & (likely >= likely.max() - near)
    held &= [bool((depths(level.valleys) <= CLEAR).all()) for level in levels]
    return np.flatnonzero(held)


def _likelihoods(levels: Sequence[PathLevel], nats: float) -> tuple[Floats, float]:
    """Return the BIC with own variances, and what so many nats a row are of it."""
    rows = max(float(level.sizes.sum()) for level in levels)
    return goodness(levels, "free_bic"), nats * rows


def _may_win(levels: Sequence[PathLevel], most: int) -> Bools:
    """Return which levels valleys confirm and silhouettes do not speak against."""
    silhouette = goodness(levels, "silhouette")
    held: Bools = silhouette >= silhouette.max() - DROP
    held &= [_is_confirmed(level, most) for level in levels]
    return held


def _is_confirmed(level: PathLevel, most: int) -> bool:
    """Whether a level is far from the path's end, has rows enough, and has valleys."""
    k, d = level.centers.shape
    # At the end of the path "the likeliest so far" says little; nor do k·d or fewer
    # rows.
    if k >= NEAR_END * most or level.sizes.sum() < k * d:
        return False
    share = parted(level)
    if share >= CONFIRMED or share < NEARLY_CONFIRMED:
        return share >= CONFIRMED
    # Some may touch if the rest is far apart; halves of one have a hill between (0026).
    v = depths(level.valleys)
    deep = np.log(v).mean() <= np.log(DEEP_ON_AVERAGE)
    return bool(deep and v.max() <= HILL)


def is_likeliest(level: PathLevel, levels: Sequence[PathLevel]) -> bool:
    """Whether no level is likelier, by more than a little."""
    likely, near = _likelihoods([level, *levels], LIKELY)
    return bool(likely[0] >= likely.max() - near)


def parted(level: PathLevel, silent: bool = False) -> float:
    """Return the share of clusters with a valley to the next; 0 if not known.

    With those who are `silent` counted by their cells, if there are any.
    """
    # Counted around other centres, or never: rows have not confirmed it.
    if len(level.valleys) != level.k:
        return 0.0
    counts = level.valleys
    if silent and len(level.uncounted) == level.k:
        counts = counts + level.uncounted
    return float((depths(counts) <= DEEP).mean())


def depths(valleys: Floats) -> Floats:
    """Rows in the middle over rows at the lower of both ends, a few more of each."""
    middle, own, other = valleys.T
    found: Floats = (middle + FEW) / (np.minimum(own, other) + FEW)
    return found


def goodness(levels: Sequence[PathLevel], criterion: str) -> Floats:
    """One number a level, more is better; an undefined index is the worst."""
    name = "silhouette" if criterion == AUTO else criterion
    sign = 1.0 if INDICES[name].higher_is_better else -1.0
    values = [level.scores[name] for level in levels]
    # Never chosen, and never an error: an index may be undefined at some levels only.
    return np.array([-np.inf if v is None else sign * v for v in values])

# SPDX-License-Identifier: Apache-2.0
"""Clusters that need not be round: cells that hang together.

Cells are joined along the ways between them (:mod:`core.chains`). Where joining further
becomes much dearer than joining has been so far, there are gaps, and what is left are
clusters. The convex answer stays unless that tree is clearly better by one measure for
both, a silhouette over ways, or the hollows between clusters, or unless its clusters do
not come back when the cells are resampled. There, and where there are "no clusters",
gaps, or hollows with few rows in them, must leave no doubt (:mod:`core.doubt`). See
docs/decisions/0043-connected-clusters.md, 0054-clusters-that-come-back.md and
0057-hollows-that-can-be-told.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.cells import has_few_values
from afcl.core.chains import Chains
from afcl.core.condense import condense_cells
from afcl.core.doubt import FEWEST, Again, Doubt, resamples
from afcl.core.indices import ALL_PARTED, CONFIRMED, parted
from afcl.core.messages import Cells
from afcl.core.params import DefaultParams
from afcl.core.protocol import Merge, PathLevel
from afcl.kernels import assign
from afcl.registry import AUTO, CONNECTED, CONVEX, EITHER

#: Cells that are worked on, at most,
MOST = 1000
#: and at least where nobody asked for it: among fewer, any gap may be chance.
ENOUGH = 30
#: Levels that are looked at: so many,
LEVELS = 30
#: or so many times the convex answer's.
TIMES = 1.25
#: Each cluster of an answer has such a share of the rows of an average one: what is
#: smaller is a few rows apart from the others, not a part of the whole.
FAIR = 0.2
#: Joining further costs more by this logarithm (six times): gaps for certain.
CERTAIN = 1.75
#: Better than convex clusters: a silhouette larger by so much,
BETTER = 0.05
#: with such a parting,
PARTED = 1.2
#: or larger by so much, whatever the parting;
FAR_BETTER = 0.25
#: or as many clusters, of other cells (by the Rand index),
OTHERS = 0.88
#: a little better, as parted.
A_LITTLE_BETTER = 0.02
#: Clusters of which less comes back, on average, are cut where nothing parts;
STRAYED = 0.9
#: connected ones that come back where round ones do not need hollows deeper by so much.
DEEPER = 0.1
#: Where both come back: the largest share of round clusters without a certain gap
#: between them that are left round.
HALF = 0.5
#: The same where valleys confirm the round clusters, and
THIRD = 1 / 3
#: so much of these comes back.
MOSTLY = 0.75
#: Cells this close in a column, as a share of its range, tie: where most do, it has few
#: values, such as levels of a category, and the gaps between these part nothing. (Of
#: thousands of cells most are that close by chance: no shapes are looked for there.)
TIED = 1e-4
#: Cells of a resample.
CELLS = 512
#: A cell is sparse if a row there is so many times as far from the next as usual.
SPARSE = 3.0


@dataclass(frozen=True, slots=True)
class ConnectedLevel:
    """One level of the tree.

    Attributes
    ----------
    k
        Number of clusters.
    labels
        (m,) of the cells; clusters numbered by rows, largest first.
    sizes
        (k,), rows.
    score
        How much dearer joining further is, as a logarithm: what the choice rests on.
    """

    k: int
    labels: Ints
    sizes: Floats
    score: float

    @property
    def is_fair(self) -> bool:
        """Whether no cluster is much smaller than the average."""
        return bool(self.sizes.min() >= FAIR * self.sizes.mean())


@dataclass(frozen=True, slots=True)
class Connected:
    """An answer whose clusters need not be round.

    Attributes
    ----------
    cells
        At most :data:`MOST`, in agreed units.
    labels
        (m,), the cluster of every cell.
    levels
        In increasing k, from 2.
    merges
        The tree over the cells, which are its leaves.
    sparse
        (m,), cells much sparser than their own cluster: rows there may be outliers.
    reason
        Why this shape was chosen, a plain sentence.
    seen
        Whether they would have been chosen without being asked for.
    settled
        Whether round clusters are likely, parted, and come back: no finer level than
        that with the largest gap was looked for.
    """

    cells: Cells
    labels: Ints
    levels: tuple[ConnectedLevel, ...]
    merges: tuple[Merge, ...]
    sparse: Bools
    reason: str
    seen: bool = True
    settled: bool = False


def connected(
    bag: Cells,
    convex: PathLevel | None,
    params: DefaultParams,
    rng: np.random.Generator,
    steady: float = 1.0,
    likeliest: bool = False,
) -> Connected | None:
    """Return connected clusters, None where the convex answer stays.

    ``shape="connected"`` takes what hangs together in any case, if there are
    :data:`FEWEST` cells and two clusters are allowed; ``"auto"`` does not look where an
    index or a granularity of the convex path was asked for, where a column has few
    values, or below :data:`ENOUGH` cells.

    Parameters
    ----------
    bag
        All cells.
    convex
        The convex answer, None if no clusters were found.
    params
        What was asked for.
    rng
        Draws resamples, where the choice rests on them.
    steady
        How much of a convex cluster comes back, on average.
    likeliest
        Whether no level of the convex path is likelier than the answer.
    """
    own_wish = (params.criterion, params.granularity) != (AUTO, "auto")
    convex_wanted = params.shape == CONVEX or (params.shape == EITHER and own_wish)
    if convex_wanted or len(bag) < FEWEST or params.max_clusters == 1:
        return None
    if params.shape == EITHER and (len(bag) < ENOUGH or has_few_values(bag, TIED)):
        return None
    chains = Chains.of(condense_cells(bag, MOST))
    levels = levels_of(chains, convex, params)
    labels = {level.k: level.labels for level in levels}
    again = cache(lambda: Again(chains.cells, resamples(chains.cells, CELLS, rng)))
    doubt = Doubt(chains, cache(lambda k: again().of(labels[k])))
    settled = _is_settled(convex, steady, likeliest)
    best = chosen(levels, doubt, convex is None, settled)
    reason = None
    if best.is_fair:
        reason = (
            _unseen(best, doubt)
            if convex is None
            else _better(best, convex, steady, likeliest, doubt)
        )
    if params.shape == EITHER and reason is None:
        return None
    seen = reason is not None
    if params.shape == CONNECTED:
        reason = "connected clusters were asked for"
    assert reason is not None
    sparse = _sparse(chains, best.labels)
    return Connected(
        chains.cells, best.labels, levels, chains.merges, sparse, reason, seen, settled
    )


def levels_of(
    chains: Chains, convex: PathLevel | None, params: DefaultParams
) -> tuple[ConnectedLevel, ...]:
    """Return the levels of the tree that may be the answer."""
    wanted = LEVELS if convex is None else max(LEVELS, math.ceil(TIMES * convex.k))
    most = max(2, min(len(chains.cells) // 3, params.max_clusters or wanted, wanted))
    found = []
    for k in range(2, most + 1):
        labels = chains.labels(k)
        sizes = np.bincount(labels, chains.cells.counts).astype(np.float64)
        found.append(ConnectedLevel(k, labels, sizes, chains.parting(k)))
    return tuple(found)


def chosen(
    levels: tuple[ConnectedLevel, ...],
    doubt: Doubt,
    unseen: bool,
    settled: bool = False,
) -> ConnectedLevel:
    """Return the finest level with gaps for certain; else the one with the largest.

    Where no gaps stand out, or no round clusters were seen (`unseen`), the finest level
    whose hollows leave no doubt, if there is one. And unless round clusters have
    `settled` it, a finer level whose hollows are deep: which of several has the largest
    gap is chance.
    """
    fair = [level for level in levels if level.is_fair] or levels
    found = _with_gaps(fair, doubt, unseen)
    finer = () if settled else (each for each in reversed(fair) if each.k > found.k)
    return next((each for each in finer if doubt.is_deep(each.labels)), found)


def _with_gaps(
    fair: Sequence[ConnectedLevel], doubt: Doubt, unseen: bool
) -> ConnectedLevel:
    """Return the level that gaps speak for, or hollows where gaps do not."""
    certain = [level for level in fair if level.score >= CERTAIN]
    if certain:
        return certain[-1]
    largest = max(fair, key=lambda level: (level.score, -level.k))
    if largest.score > PARTED and not unseen:
        return largest
    sure = (level for level in reversed(fair) if doubt.is_gone(level.labels))
    return next(sure, largest)


def _is_settled(convex: PathLevel | None, steady: float, likeliest: bool) -> bool:
    """Whether round clusters are likely, parted, and come back."""
    if convex is None or not likeliest or steady < STRAYED:
        return False
    return parted(convex, silent=True) >= CONFIRMED


# ------------------------------------------------------------------ or convex


def _unseen(level: ConnectedLevel, doubt: Doubt) -> str | None:
    """Say why there are clusters although no convex ones were found, if there are."""
    if not _is_doubtless(level, doubt):
        return None
    return (
        f"no round clusters part the rows, but {level.k} that hang together do: "
        f"joining them would cost {math.exp(level.score):.1f} times what joining has "
        "cost so far"
    )


def _is_doubtless(level: ConnectedLevel, doubt: Doubt) -> bool:
    """Whether gaps or hollows leave no doubt."""
    return level.score >= CERTAIN or doubt.is_gone(level.labels)


def _better(
    level: ConnectedLevel,
    convex: PathLevel,
    steady: float,
    likeliest: bool,
    doubt: Doubt,
) -> str | None:
    """Say why what hangs together is better than convex clusters, if it is."""
    back = doubt.back
    strayed = level.k < convex.k and steady < STRAYED and back(level.k).mean() > steady
    if _stays_round(level, convex, likeliest, strayed, steady >= MOSTLY):
        return None
    chains = doubt.chains
    labels = assign(chains.cells.means, convex.centers)[0]
    used, labels = np.unique(labels, return_inverse=True)
    before = -1.0 if used.shape[0] < 2 else chains.silhouette(labels)
    after = chains.silhouette(level.labels)
    gain, parting = after - before, level.score
    others = (
        level.k == convex.k
        and _rand_index(chains.cells.counts, level.labels, labels) < OTHERS
    )
    # In many columns no hollow can speak for it: gaps have to be certain there.
    is_parted = parting > (PARTED if doubt.has_few_columns else CERTAIN)
    if gain > BETTER and not is_parted:
        is_parted = doubt.is_deep(level.labels)
    better = (gain > BETTER and (is_parted or gain > FAR_BETTER)) or (
        others and gain > A_LITTLE_BETTER and is_parted
    )
    if better and back(level.k).mean() >= min(STRAYED, steady):
        return (
            f"{level.k} clusters that hang together explain the cells better than "
            f"{convex.k} round ones (silhouette along the ways between cells "
            f"{after:.2f} against {before:.2f})"
        )
    deeper = (others or strayed) and doubt.is_deeper(level.labels, labels, DEEPER)
    if deeper and others:
        return (
            f"{level.k} clusters that hang together lie between deeper hollows than "
            f"{convex.k} round ones"
        )
    if not deeper and not (strayed and _is_doubtless(level, doubt)):
        return None
    return (
        f"{level.k} clusters that hang together come back when the cells are resampled "
        f"({back(level.k).mean():.0%} of a cluster on average), {convex.k} round "
        f"ones do not ({steady:.0%})"
    )


def _stays_round(
    level: ConnectedLevel,
    convex: PathLevel,
    likeliest: bool,
    strayed: bool,
    mostly_back: bool,
) -> bool:
    """Whether round clusters are not to be put together.

    Those that rows have shown to be parted by valleys are not, unless they do not come
    back: then they are pieces of something long, and where the valleys lie is chance.
    Without gaps for certain they are not put together to much fewer if those come
    back, nor to very few: of many clusters some touch, and stray for that alone. (Gaps
    between groups of clusters are certain, too, where each is parted.)
    """
    # Who is silent may hold clusters of its own: nobody else's rows are there.
    share, times = parted(convex, silent=True), level.k / convex.k
    certain = level.score >= CERTAIN
    if times < THIRD and mostly_back:
        if share >= CONFIRMED and not certain:
            return True
        if share >= ALL_PARTED and likeliest:
            return True
    if times < HALF and not strayed and not certain:
        return True
    are_parted = share >= (CONFIRMED if likeliest else ALL_PARTED)
    return times < 1 and are_parted and not strayed


def _rand_index(counts: Ints, labels: Ints, others: Ints) -> float:
    """Return the adjusted Rand index of the rows of two labellings of cells."""
    table = np.zeros((int(labels.max()) + 1, int(others.max()) + 1))
    np.add.at(table, (labels, others), counts)

    def pairs(rows: Floats) -> float:
        return float((rows * (rows - 1) / 2).sum())

    both, one, other = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    by_chance = one * other / pairs(table.sum())
    return (both - by_chance) / max((one + other) / 2 - by_chance, np.finfo(float).tiny)


# ------------------------------------------------------------------ sparse cells


def _sparse(chains: Chains, labels: Ints) -> Bools:
    """Return which cells are much sparser than their cluster usually is."""
    d, counts = chains.cells.means.shape[1], chains.cells.counts
    own = np.where(labels[:, None] == labels, chains.squares, np.inf)
    np.fill_diagonal(own, np.inf)
    near = own.min(axis=1)
    room = np.sqrt(np.where(np.isfinite(near), near, 0.0) + chains.radii**2)
    room = room / counts ** (1 / d)
    usual = np.zeros(int(labels.max()) + 1)
    for cluster in range(usual.shape[0]):
        usual[cluster] = np.median(room[labels == cluster])
    found: Bools = room > SPARSE * usual[labels]
    return found

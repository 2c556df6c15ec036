# SPDX-License-Identifier: Apache-2.0
"""The server's heavy work, put off until it is needed: rules R3 to R6.

Seeds on the union of all cells, the Ward path from them, every level polished and
scored, the few best kept as candidates that the clients polish further.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afcl._typing import Floats
from afcl.core.cell_valleys import cell_valleys
from afcl.core.cells import pool
from afcl.core.climb import climbed
from afcl.core.condense import condense_cells
from afcl.core.indices import (
    BY_FREE_BIC,
    BY_PEAK,
    BY_SEARCH,
    FAR,
    HOPELESS,
    INDICES,
    choose,
    goodness,
    worth,
)
from afcl.core.messages import Cells, Level, Plan
from afcl.core.params import DefaultParams
from afcl.core.path import (
    build_path,
    joined_seeds,
    level_around,
    polish,
    scored,
    summary_silhouettes,
)
from afcl.core.protocol import PathLevel, server_rng
from afcl.core.search import likelier
from afcl.core.seeding import distinct, weighted_kmeans
from afcl.core.state import ServerState
from afcl.kernels import assign, lloyd
from afcl.registry import AUTO

#: Cells times centres up to which a bag is worked on as it is.
WORK = 1 << 21
#: A larger bag is condensed to this many cells first.
BULK = 1 << 14
#: Restarts of the weighted k-means that places the seeds.
RESTARTS = 3
#: Lloyd iterations after a reply changed the memory.
REFINE = 10
#: Levels that a search for a likelier one begins at: the likeliest.
SEARCHED_FROM = 3
#: Purpose of the server's draws.
SEEDING = 0
#: Plans of one version that answers are checked against.
KEPT = 64


def prepare(state: ServerState) -> ServerState:
    """R3 to R6 for whatever was absorbed since the last time."""
    if not state.total_rows() or state.prepared:
        return state
    # Condensed beyond a budget, so that the work does not grow with the clients (0017).
    bag = _bounded(state.bag(), state.params.seeds_for(state.total_rows()))
    if state.need_seed:
        state = _reseed(state, bag)
    # Placing seeds anew at every message would change the candidates that are being
    # scored.
    elif state.moved:
        state = _refine(state, bag)
    if state.dirty:
        state = _build(state, bag)
    elif state.stale:
        state = _update_candidates(state)
    # Replies to plans of another path say nothing of this one's candidates.
    before = () if state.dirty else state.sent
    return replace(
        state,
        need_seed=False,
        moved=False,
        dirty=False,
        stale=False,
        sent=(*before, _plan(state))[-KEPT:],
        plans=1 if state.dirty else state.plans + 1,
    )


def _bounded(bag: Cells, k: int) -> Cells:
    """Return the bag, or fewer cells where so many centres would be too much work."""
    return bag if len(bag) * k <= WORK else condense_cells(bag, BULK)


def _plan(state: ServerState) -> Plan:
    """Return what the clients are sent: seeds and candidates."""
    assert state.seeds is not None
    return Plan(
        state.seeds,
        tuple(
            Level(level.centers, level.spreads, level.sizes, level.revision)
            for level in state.candidates
        ),
    )


def _reseed(state: ServerState, bag: Cells) -> ServerState:
    """R3: weighted k-means on the bag, several starts, the lowest SSE."""
    n = int(bag.counts.sum())
    k = min(state.params.seeds_for(n), distinct(bag.means))
    start = state.seeds
    # Seeds of another number cannot be one of the starts.
    if start is not None and start.shape[0] != k:
        start = None
    rng = server_rng(state.seed, SEEDING, state.seedings)
    weights = bag.counts.astype(np.float64)
    seeds = weighted_kmeans(bag.means, weights, k, rng, RESTARTS, start)
    return replace(state, seeds=seeds, seedings=state.seedings + 1, dirty=True)


def _refine(state: ServerState, bag: Cells) -> ServerState:
    """R4, the heavy part: move the seeds on the new bag and measure the drift."""
    assert state.seeds is not None
    assert state.built_from is not None
    weights = bag.counts.astype(np.float64)
    seeds, labels = lloyd(bag.means, weights, state.seeds, REFINE)
    # A seed that holds nothing would be lost to the path for good.
    empty = np.setdiff1d(np.arange(seeds.shape[0]), labels)
    if empty.size:
        far = weights * assign(bag.means, seeds)[1]
        spare = np.argsort(-far, kind="stable")[: empty.size]
        seeds[empty[: spare.size]] = bag.means[spare]
        seeds, labels = lloyd(bag.means, weights, seeds, REFINE)
    counts, _, scatters = pool(bag, labels, seeds.shape[0])
    shift = float((counts * ((seeds - state.built_from) ** 2).sum(axis=1)).sum())
    within = float(scatters.sum())
    # Beside the scatter inside: small moves leave the tree as it is, and it is dear.
    drifted = shift > state.params.drift * within
    movement = shift / within if within > 0 else 0.0
    return replace(state, seeds=seeds, movement=movement, dirty=state.dirty or drifted)


def _build(state: ServerState, bag: Cells) -> ServerState:
    """R5: Ward path on the seeds, every level polished and scored, candidates kept."""
    assert state.seeds is not None
    seeds, merges = joined_seeds(bag, state.seeds)
    n = int(bag.counts.sum())
    kmax = state.params.clusters_for(n, len(seeds))
    levels = build_path(bag, seeds, merges, kmax)
    if state.params.criterion == AUTO:
        levels = climbed(bag, levels, kmax)
    candidates = _candidates(levels, state.params, kmax)
    if state.params.criterion == AUTO:
        candidates += _searched(bag, levels, kmax)[:BY_SEARCH]
    return replace(
        state.unanswered(),
        built_from=state.seeds,
        movement=0.0,
        version=state.version + 1,
        # Identical rows have no path, and still an answer.
        levels=levels or (one_cluster(bag),),
        merges=merges,
        candidates=candidates,
        most=kmax,
    )


def one_cluster(bag: Cells) -> PathLevel:
    """Return the level k = 1: no index is defined."""
    labels = np.zeros(len(bag), dtype=np.int64)
    counts, means, scatters = pool(bag, labels, 1)
    return PathLevel(1, means, counts, dict.fromkeys(INDICES), scatters)


def _candidates(
    levels: tuple[PathLevel, ...], params: DefaultParams, most: int
) -> tuple[PathLevel, ...]:
    """Levels worth the clients' time: near the best, plus the one the rule picks.

    For the rule also those that may become the likeliest.
    """
    if not levels:
        return ()
    good = worth(levels, params.criterion)
    order = np.lexsort((np.arange(len(levels)), -good))[: params.candidates]
    kept = set(order.tolist())
    if params.criterion in ("auto", "silhouette"):
        kept = {i for i in kept if good[i] >= good.max() - params.prune}
    # Whatever is pruned: the answer so far has to be scored by the rows.
    kept.add(choose(levels, params.criterion, params.band, most))
    if params.criterion == AUTO:
        # The rule compares likelihoods first (0024): who may win by them is scored by
        # rows.
        likely = np.argsort(-goodness(levels, "free_bic"), kind="stable")
        kept.update(likely[:BY_FREE_BIC].tolist())
        peaks = _next_peaks(good, kept)[:BY_PEAK]
        least = good.max() - HOPELESS
        kept.update(i for i in peaks if levels[i].k <= FAR or good[i] >= least)
    return tuple(levels[i] for i in sorted(kept))


def _searched(
    bag: Cells, levels: tuple[PathLevel, ...], most: int
) -> tuple[PathLevel, ...]:
    """Return a level that is likelier than those of the path, if one is found."""
    order = np.argsort(-goodness(levels, "free_bic"), kind="stable")
    starts = [levels[i].centers for i in order[:SEARCHED_FROM]]
    centers = likelier(bag, starts, most) if starts else None
    found = None if centers is None else level_around(bag, centers)
    return () if found is None else (replace(found, searched=True),)


def _next_peaks(good: Floats, kept: set[int]) -> list[int]:
    """Return the levels above their neighbours that are not kept, the best first.

    Where clusters are long, the likeliest levels are those that cut them up.
    """
    # So that both ends of the path can be peaks.
    padded = np.concatenate([[-np.inf], good, [-np.inf]])
    peaks = np.flatnonzero((good > padded[:-2]) & (good > padded[2:]))
    free = [i for i in peaks.tolist() if i not in kept]
    return sorted(free, key=lambda i: -float(good[i]))


def _update_candidates(state: ServerState) -> ServerState:
    """R6: polish every candidate on the replies, and the memory of who is silent."""
    polished = []
    most = max((candidate.k for candidate in state.candidates), default=1)
    # Who does not reply would vanish from the centres otherwise.
    silent = _bounded(state.silent_bag(), most)
    for position, candidate in enumerate(state.candidates):
        bag = _bounded(state.level_bag(position), most)
        counts, centers, scatters = polish(bag, candidate.centers)
        k = counts.shape[0]
        # A candidate that fell together is left as it was sent: no index knows one
        # cluster.
        if k < 2:
            polished.append(candidate)
            continue
        revision = candidate.revision + 1
        valleys = _valleys(state, position, k)
        level = PathLevel(
            k, centers, counts, {}, scatters, revision, valleys, candidate.searched
        )
        polished.append(_federated_scores(state, position, level, silent))
    return replace(state, candidates=tuple(polished))


def _valleys(state: ServerState, position: int, k: int) -> Floats:
    """Return the replied counts between the centres of a candidate that now has k.

    They are not known of one that has lost a centre since the build, nor later on:
    replies from before and after speak of different centres.
    """
    candidate = state.candidates[position]
    was_lost = candidate.revision > 0 and not candidate.valleys.size
    if was_lost or k != candidate.k:
        return np.empty((0, 3))
    return state.replied_valleys(position, k)


def _federated_scores(
    state: ServerState, position: int, level: PathLevel, silent: Cells
) -> PathLevel:
    """R7: replied sums where there are any, the server's own view elsewhere."""
    simplified, moment = state.replied_sums(position).tolist()
    if len(silent):
        cell_simplified, cell_moment = summary_silhouettes(silent, level)
        simplified += float((silent.counts * cell_simplified).sum())
        moment += float((silent.counts * cell_moment).sum())
        level = replace(level, uncounted=cell_valleys(silent, level.centers))
    # Sums and not means were replied, so that sites of any size add up.
    n = state.total_rows()
    return scored(level, moment / n, simplified / n)

# SPDX-License-Identifier: Apache-2.0
"""How far an answer can be believed, and which answer follows from that.

Everything is judged by what the server has heard; no message is sent for it. The work
is done on a small bag: the cells condensed to a few hundred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

from afcl._typing import Floats
from afcl.core.climb import climbed
from afcl.core.condense import condense_cells
from afcl.core.indices import FAR, deciding, worth
from afcl.core.messages import Cells
from afcl.core.path import level_around
from afcl.core.protocol import PathLevel, Trust, server_rng
from afcl.core.stability import (
    FromRows,
    chosen_again,
    path_with,
    recovered,
    resampled,
    searched_again,
)
from afcl.core.state import ServerState
from afcl.core.structure import (
    AXES,
    Clouds,
    clouds_like,
    compared,
    gain_by_rows,
    gain_over_one,
    is_plain,
    leading,
    sample_path,
)
from afcl.kernels import assign
from afcl.registry import AUTO
from afcl.reliance import CLUSTERS, NO_CLUSTERS, STABLE, UNCLEAR

#: Purpose of the server's draws.
TRUSTING = 3
#: Resamples of what was heard, if these all agree,
FEWEST = 8
#: and if they do not.
RESAMPLES = 24
#: Cells of the bag that is resampled, at least,
CELLS = 256
#: and for every cluster that it may be cut into.
CELLS_PER_LEVEL = 4
#: Resamples are cut into up to so many times the answer's clusters,
TIMES = 2
#: and so many more.
MORE = 5
#: Besides peaks of the path, the finest level of whose clusters so much comes back.
FINEST = 0.85
#: Sites are alike if what they differ by is no larger share of the rows' scatter.
ALIKE = 0.2
#: Sites that are alike need about so many smallest cells of rows for every cluster.
CELLS_PER_CLUSTER = 5


class _Evidence(NamedTuple):
    """What the verdict rests on: see :mod:`core.structure`."""

    gain: float
    by_rows: float
    valleys: float
    clouds: Callable[[], Clouds]

    def verdict(self, gain: float) -> str:
        """Return what a gain means, the run's own or that of a resample.

        Clouds are looked at only where they are needed.
        """
        # A resample has no rows of its own: what these added is kept (0026).
        by_rows = self.by_rows + gain - self.gain
        if is_plain(gain, by_rows, self.valleys):
            return CLUSTERS
        return compared(gain, self.valleys, self.clouds())


@dataclass(frozen=True, slots=True)
class _Resamples:
    """What came out of resamples.

    Attributes
    ----------
    ks
        The k of each.
    recovered
        By k of a level: how much of its clusters came back, one array a resample.
    """

    ks: list[int] = field(default_factory=list)
    recovered: dict[int, list[Floats]] = field(default_factory=dict)

    def shares(self) -> dict[int, float]:
        """Return how often every k came out, in increasing k."""
        counted = Counter(self.ks)
        return {k: counted[k] / len(self.ks) for k in sorted(counted)}

    def stabilities(self, k: int) -> Floats:
        """Return how much of every cluster of a level comes back on average."""
        came = self.recovered.get(k)
        return np.mean(came, axis=0) if came else np.zeros(k)

    def often(self, k: int) -> float:
        """Return in how many of the resamples all clusters of a level came back."""
        came = self.recovered.get(k, [])
        return float(sum(each.min() >= STABLE for each in came)) / len(self.ks)


def judged(
    state: ServerState,
    best: PathLevel,
    path: Sequence[PathLevel],
    partly: bool = False,
) -> tuple[PathLevel | None, Trust]:
    """Return the answer, None for a single cluster, and how far to believe it.

    Parameters
    ----------
    state
        What the server knows.
    best
        The level that the rule has chosen.
    path
        Every level in increasing k, candidates as the rows have scored them.
    partly
        Whether some rows are known by coarse first messages only: that no clusters are
        seen then does not show that there are none.
    """
    if best.k < 2:
        return None, Trust(NO_CLUSTERS, None, 1.0, ((1, 1.0),), (1.0,), (1,))
    # Always the same draws: the answer must not depend on how often it is asked for.
    rng = server_rng(state.seed, TRUSTING, 0)
    far = [level.k for level in state.candidates if level.k <= FAR]
    # Some way beyond the answer, or a larger k could not come out of a resample.
    reach = min(state.most, max([TIMES * best.k + MORE, *far]))
    bag = condense_cells(state.bag(), max(CELLS, CELLS_PER_LEVEL * reach))
    evidence = _evidence(bag, reach, state.candidates, rng)
    found = _verdict(state, best.k, evidence, partly)
    levels = [level for level in path if level.k <= reach]
    # Where it cannot be told whether there are clusters, resamples cannot tell either.
    may_be_one = state.params.allow_one and found != UNCLEAR
    came = _resampled(state, bag, reach, evidence, levels, rng, may_be_one)
    best = _agreed(levels, best, came)
    believable = _believable(levels, _peaks(levels, best.k), best.k, came)
    # Who knows that there are clusters gets the best k, and the verdict beside it.
    none = found == NO_CLUSTERS and state.params.allow_one
    answer = None if none else _granular(state, levels, believable, best)
    return answer, _trust(answer, found, evidence, came, believable, best.k)


def _evidence(
    bag: Cells, reach: int, candidates: Sequence[PathLevel], rng: np.random.Generator
) -> _Evidence:
    small = leading(bag)
    by_rows, valleys = gain_by_rows(bag, candidates)
    gain = gain_over_one(small, sample_path(small, reach, rng))
    # Of their own: whether clouds are needed must not move the draws of the resamples.
    apart = rng.spawn(1)[0]
    clouds = cache(lambda: clouds_like(small, reach, apart))
    return _Evidence(gain, by_rows, valleys, clouds)


def _verdict(
    state: ServerState, k: int, evidence: _Evidence, partly: bool = False
) -> str:
    """Say whether there are clusters; where cells mix or are noise, only if so."""
    found = evidence.verdict(evidence.gain)
    # Mixed cells look like one cloud, and like clusters where there are none (0026).
    if _too_mixed(state, k):
        return UNCLEAR
    # Noise may have filled the valleys; missing rows may have been a cluster.
    blurred = partly or state.params.noisy
    return UNCLEAR if found == NO_CLUSTERS and blurred else found


def _too_mixed(state: ServerState, k: int) -> bool:
    """Whether sites are alike, and too small to show so many clusters by cells."""
    rows, means = _sites(state)
    enough = CELLS_PER_CLUSTER * state.params.min_cell * k
    # Of one site nothing can be compared, and large sites have cells enough.
    if len(rows) < 2 or np.median(rows) >= enough:
        return False
    bag = state.bag()
    if bag.counts.max() == 1:
        return False  # Single rows mix nothing.
    middle = rows @ means / rows.sum()
    apart = float(rows @ ((means - middle) ** 2).sum(axis=1))
    spread = bag.counts @ ((bag.means - middle) ** 2).sum(axis=1) + bag.scatters.sum()
    return apart <= ALIKE * float(spread)


def _sites(state: ServerState) -> tuple[Floats, Floats]:
    """Return the rows and the mean of every site whose cells are remembered."""
    rows, means = [], []
    for client in sorted(state.memory):
        cells = state.memory[client]
        starts = np.array([0]) if cells.offsets is None else cells.offsets[:-1]
        starts = starts[cells.sizes > 0]
        held = np.add.reduceat(cells.counts, starts).astype(np.float64)
        sums = np.add.reduceat(cells.counts[:, None] * cells.means, starts)
        rows.append(held)
        means.append(sums / held[:, None])
    none = np.empty((0, state.n_features))
    return np.concatenate([np.empty(0), *rows]), np.concatenate([none, *means])


# ------------------------------------------------------------------ resampling


def _resampled(
    state: ServerState,
    bag: Cells,
    reach: int,
    evidence: _Evidence,
    levels: Sequence[PathLevel],
    rng: np.random.Generator,
    may_be_one: bool,
) -> _Resamples:
    """Cut resamples of the bag, and see what comes back of every level."""
    params, came = state.params, _Resamples()
    sought = next((level for level in levels if level.searched), None)
    # Where splits gave nothing, resamples need none to be judged alike.
    split = any(level.split for level in state.levels)
    known = _from_rows(state, bag, sought)
    labels = {each.k: assign(bag.means, each.centers)[0] for each in levels}
    for done in range(RESAMPLES):
        # Resamples that all agree are believed; most answers are done here.
        if done == FEWEST and len(set(came.ks)) == 1:
            break
        again = resampled(bag, rng)
        names = deciding(params.criterion)
        path = sample_path(again, reach, rng, names)
        if split:
            path = climbed(again, path, reach, names)
        if not path:
            # Too few different cells for any level.
            came.ks.append(1)
            continue
        if sought is not None:
            path = searched_again(path, again, sought.k, reach)
        level = chosen_again(path, known, params.criterion, params.band, state.most)
        alone = may_be_one and _is_none(again, path, evidence, reach, rng)
        came.ks.append(1 if alone else level.k)
        for each in path:
            if each.k in labels:
                others, _ = assign(bag.means, each.centers)
                back = recovered(bag.counts, labels[each.k], others, each.k)
                came.recovered.setdefault(each.k, []).append(back)
    return came


def _from_rows(state: ServerState, bag: Cells, sought: PathLevel | None) -> FromRows:
    """Return what rows have told of candidates, of what was searched for as well."""
    begun = state.levels
    around = None if sought is None else level_around(bag, sought.centers)
    if sought is not None and around is not None and around.k == sought.k:
        # As cells see it: the path's level of the same k is another one.
        begun = path_with(begun, around)
    return FromRows.of(begun, state.candidates)


def _is_none(
    again: Cells,
    path: Sequence[PathLevel],
    evidence: _Evidence,
    reach: int,
    rng: np.random.Generator,
) -> bool:
    """Whether a resample shows no clusters."""
    if again.means.shape[1] > AXES:
        # As for the run itself, on its main axes: gains must be comparable.
        again = leading(again)
        path = sample_path(again, reach, rng)
    return evidence.verdict(gain_over_one(again, path)) == NO_CLUSTERS


# ------------------------------------------------------------------ answering


def _peaks(levels: Sequence[PathLevel], chosen: int) -> set[int]:
    """Return the k that are better than their neighbours, and the chosen one."""
    value = np.concatenate([[-np.inf], worth(levels, AUTO), [-np.inf]])
    # Plateaus count: which of equal neighbours is better is chance.
    high = (value[1:-1] >= value[:-2]) & (value[1:-1] >= value[2:])
    ks = np.array([level.k for level in levels])
    return {chosen, *ks[high].tolist()}


def _agreed(
    levels: Sequence[PathLevel], best: PathLevel, came: _Resamples
) -> PathLevel:
    """Return the chosen level, or that of the k on which all resamples agree.

    Each of them had a level of the chosen k, too: it won by chance, as where categories
    part their combinations and rows are few (0026).
    """
    found = {level.k: level for level in levels if {level.k} == set(came.ks)}
    had = len(came.recovered.get(best.k, ()))
    return found.get(came.ks[0], best) if had == len(came.ks) else best


def _believable(
    levels: Sequence[PathLevel], peaks: set[int], chosen: int, came: _Resamples
) -> tuple[int, ...]:
    """Return the k whose clusters all come back: peaks, and the finest of all.

    The chosen one is always among them.
    """
    least = {each.k: came.stabilities(each.k).min() for each in levels}
    stable = {k for k in peaks if least[k] >= STABLE}
    # It need not be a peak of the index: more has to come back of it.
    finest = [k for k, back in least.items() if back >= FINEST][-1:]
    return tuple(sorted({chosen, *stable, *finest}))


def _granular(
    state: ServerState,
    levels: Sequence[PathLevel],
    believable: tuple[int, ...],
    best: PathLevel,
) -> PathLevel:
    """Return the level that the user's wish for more or fewer clusters leads to."""
    wish = {"coarse": believable[0], "auto": best.k, "fine": believable[-1]}
    k = wish[state.params.granularity]
    # A level that is not on the path any more: the best stands in.
    return next((level for level in levels if level.k == k), best)


def _trust(
    answer: PathLevel | None,
    found: str,
    evidence: _Evidence,
    came: _Resamples,
    believable: tuple[int, ...],
    chosen: int,
) -> Trust:
    shares = came.shares()
    gain = max(evidence.gain, evidence.by_rows)
    confidences = tuple(shares.items())
    if answer is None:
        return Trust(found, gain, shares.get(1, 0.0), confidences, (1.0,), (1,))
    k = answer.k
    # No rule chooses a wished level, so it cannot "come out" again: its clusters can.
    confidence = shares.get(k, 0.0) if k == chosen else came.often(k)
    stabilities = tuple(came.stabilities(k).tolist())
    return Trust(found, gain, confidence, confidences, stabilities, believable)

# SPDX-License-Identifier: Apache-2.0
"""The any-k wrapper's parameters, and its server's book of runs and evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import refuse_unless
from afcl.core.protocol import Clustering, Scores
from afcl.exceptions import InputError
from afcl.metrics import (
    DistanceSums,
    SilhouetteSums,
    combine_davies_bouldin,
    combine_simplified_silhouette,
)
from afcl_bench.methods.sweep import (
    SweepCensus,
    SweepReply,
    SweepScore,
    SweepTally,
    SweepTrial,
    SweepView,
    check_score,
    check_tally,
)

#: Indices that may choose k, and the sign that makes more better.
INDICES = {"simplified": 1.0, "db": -1.0}


@dataclass(frozen=True, slots=True)
class AnyKParams:
    """The range of k, the index that chooses, and the inner parameters of every k."""

    min_clusters: int = 2
    max_clusters: int = 10
    index: str = "simplified"
    sweep_rounds: int = 25
    inner: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.min_clusters < 2:
            raise InputError(
                f"min_clusters must be at least 2, not {self.min_clusters}: "
                "one cluster has no index"
            )
        if self.max_clusters < self.min_clusters:
            raise InputError(
                f"max_clusters must be at least min_clusters ({self.min_clusters}), "
                f"not {self.max_clusters}"
            )
        if self.index not in INDICES:
            raise InputError(
                f"index must be one of {tuple(INDICES)}, not {self.index!r}"
            )
        if self.sweep_rounds < 1:
            raise InputError(
                f"sweep_rounds must be at least 1, not {self.sweep_rounds}"
            )


@dataclass(frozen=True, slots=True)
class Asked:
    """What one version of the broadcast asked: inner versions, and of whom."""

    versions: tuple[int, ...]
    wanted: tuple[frozenset[ClientId] | None, ...]

    def of(self, position: int, client: ClientId) -> bool:
        """Whether this k wanted this client's answer."""
        wanted = self.wanted[position]
        return self.versions[position] >= 0 and (wanted is None or client in wanted)


@dataclass(frozen=True, slots=True)
class Trial:
    """The server's book of one evaluation.

    Attributes
    ----------
    number
        Grows with every evaluation.
    opened
        Round in which it began.
    final
        Whether every k was done then.
    clusterings
        The answers that are judged.
    centers, clusters
        Their centres and whose means these are; None before the census is over.
    tallies, scores
        What each client has answered.
    """

    number: int
    opened: int
    final: bool
    clusterings: tuple[Clustering, ...]
    centers: tuple[Floats, ...] | None = None
    clusters: tuple[Ints | None, ...] = ()
    tallies: dict[ClientId, tuple[Any, ...]] = field(default_factory=dict)
    scores: dict[ClientId, tuple[SweepScore, ...]] = field(default_factory=dict)

    def question(self) -> SweepCensus | SweepTrial:
        """Return what clients are asked."""
        if self.centers is not None:
            return SweepTrial(self.number, self.centers, self.clusters)
        views = tuple(
            SweepView.of(answer) if answer.centers is None else None
            for answer in self.clusterings
        )
        return SweepCensus(self.number, views)

    def answered(self) -> frozenset[ClientId]:
        """Return who has answered the question."""
        return frozenset(self.scores if self.centers is not None else self.tallies)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The scores of every k, by the evaluation and number of clients they come from."""

    number: int
    judges: int
    scores: tuple[Scores, ...]


@dataclass(frozen=True, slots=True)
class AnyKState:
    """What the server knows: one inner state per k, and the evaluation.

    Attributes
    ----------
    asked
        By version of the broadcast.
    ticks
        Rounds since the last hello.
    trials
        Evaluations so far.
    """

    params: AnyKParams
    inner: tuple[Any, ...]
    n_features: int = -1
    rows: dict[ClientId, int] = field(default_factory=dict)
    left: frozenset[ClientId] = frozenset()
    asked: tuple[Asked, ...] = ()
    ticks: int = 0
    trials: int = 0
    trial: Trial | None = None
    verdict: Verdict | None = None

    def active(self) -> frozenset[ClientId]:
        """Clients that said hello and have not left."""
        return frozenset(self.rows) - self.left

    def waiting(self) -> frozenset[ClientId]:
        """Clients whose answer to the evaluation is missing."""
        return (
            frozenset() if self.trial is None else self.active() - self.trial.answered()
        )


# ------------------------------------------------ the evaluation


def judged(state: AnyKState, client: ClientId, replies: SweepReply) -> Trial | None:
    """Return the evaluation with this client's answer; a late one changes nothing."""
    trial, n = state.trial, len(state.inner)
    refuse_unless(
        type(replies.number) is int and -1 <= replies.number < state.trials,
        f"evaluation {replies.number} was never asked for",
    )
    refuse_unless(
        isinstance(replies.answer, tuple)
        and len(replies.answer) == (0 if replies.number < 0 else n),
        f"expected {n} tallies or scores, one for every k",
    )
    if trial is None or replies.number != trial.number:
        return trial
    tallies = any(isinstance(part, SweepTally) for part in replies.answer)
    if trial.centers is None:
        _check_tallies(state, trial, replies.answer, state.rows[client])
        return replace(trial, tallies={**trial.tallies, client: replies.answer})
    if tallies:
        return trial
    for part, centers in zip(replies.answer, trial.centers, strict=True):
        check_score(part, centers.shape[0], state.rows[client])
    return replace(trial, scores={**trial.scores, client: replies.answer})


def _check_tallies(
    state: AnyKState, trial: Trial, replies: tuple[Any, ...], n_rows: int
) -> None:
    for part, answer in zip(replies, trial.clusterings, strict=True):
        if answer.centers is None:
            check_tally(part, answer.k, state.n_features, n_rows)
        else:
            refuse_unless(part is None, "a tally where there are centres")


def counted(state: AnyKState) -> AnyKState:
    """End a census: nobody is missing, or it has lasted and somebody has answered."""
    trial = state.trial
    if trial is None or trial.centers is not None:
        return state
    needed = any(answer.centers is None for answer in trial.clusterings)
    lasted = state.ticks - trial.opened >= max(1, state.params.sweep_rounds // 2)
    if needed and not (trial.tallies and (lasted or not state.waiting())):
        return state
    centers: list[Floats] = []
    clusters: list[Ints | None] = []
    for i, answer in enumerate(trial.clusterings):
        if answer.centers is not None:
            means, held = answer.centers, None
        else:
            means, held = means_of([reply[i] for reply in trial.tallies.values()])
        centers.append(means)
        clusters.append(held)
    ended = replace(trial, centers=tuple(centers), clusters=tuple(clusters))
    return replace(state, trial=ended)


def concluded(state: AnyKState) -> AnyKState:
    """Score every k, unless more clients have answered the evaluation before."""
    trial, old = state.trial, state.verdict
    if trial is None or trial.centers is None or not trial.scores:
        return state
    judges = len(trial.scores)
    fewer = old is not None and old.number != trial.number and judges < old.judges
    if fewer and state.waiting():
        return state
    scores = tuple(
        scores_of([reply[i] for reply in trial.scores.values()], centers)
        for i, centers in enumerate(trial.centers)
    )
    return replace(state, verdict=Verdict(trial.number, judges, scores))


def means_of(tallies: Sequence[Any]) -> tuple[Floats, Ints]:
    """Return the means of the clusters that hold rows, and which these are."""
    counts = np.sum([reply.counts for reply in tallies], axis=0)
    total = np.sum([reply.sums for reply in tallies], axis=0)
    held = np.flatnonzero(counts).astype(np.int64)
    return total[held] / counts[held, None], held


def scores_of(replies: Sequence[SweepScore], centers: Floats) -> Scores:
    """Return both indices of one answer from its clients' scores."""
    near = [DistanceSums(part.counts, part.distances) for part in replies]
    fit = [SilhouetteSums(part.counts, part.silhouette) for part in replies]
    return {
        "simplified": combine_simplified_silhouette(fit),
        "db": combine_davies_bouldin(near, centers),
    }


def _best(scores: Sequence[Scores], index: str) -> int:
    """Return the position of the best score; the smallest k on ties."""
    values = [
        -math.inf if value is None else INDICES[index] * value
        for value in (found[index] for found in scores)
    ]
    return int(np.argmax(values))


def choice(state: AnyKState) -> int:
    """Return the position of the best k; the first where nothing was judged."""
    if state.verdict is None:
        return 0
    return _best(state.verdict.scores, state.params.index)

# SPDX-License-Identifier: Apache-2.0
"""FFCM: clients run fuzzy c-means from shared centres, the server averages theirs.

Stallmann & Wilbik (2022), "Towards federated clustering: a federated fuzzy c-means
algorithm", arXiv 2201.07316. `ffcm-avg1` averages the local centres index by index,
weighted by their support; `ffcm-avg2` runs k-means on all local centres, from
k-means++ starts in the first two rounds, later from the current centres.

Departures. avg2 draws anew as well when a client is heard for the first time, and
starts from the current centres when the local ones hold fewer than k different points
(else one client of one row would end the search). The published code fixes the seed of
these draws; here it is the run's. Absence, stop and empty centres: see :mod:`.fuzzy`.

Uploaded: in the hello the number of features (or up to k rows, for
``init="k-means++"``); each round k centres, k supports and k counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload
from afcl.core.protocol import server_rng
from afcl.core.seeding import distinct, weighted_kmeans
from afcl.kernels import lloyd
from afcl.methods.rival import RivalState, expect
from afcl_bench.methods.fuzzy import (
    RESTARTS,
    CMeansParams,
    FuzzyModel,
    FuzzyRival,
    check_centers,
    check_counts,
    check_mass,
    divide,
    fuzzy_c_means,
    nearest_counts,
    require_from,
    require_whole,
    spoken,
)

#: Rounds in which avg2 draws k-means++ starts.
FRESH_ROUNDS = 2
#: k-means++ starts a round.
DRAWS = 10
#: Lloyd iterations of each.
MAX_LLOYD = 500


@dataclass(frozen=True, slots=True)
class FFCMParams(CMeansParams):
    """Steps and tolerance (on the memberships) of the local runs."""

    local_steps: int = 1000
    local_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        CMeansParams.__post_init__(self)
        require_whole("local_steps", self.local_steps)
        require_from("local_tolerance", self.local_tolerance, 0)


@payload
@dataclass(frozen=True, slots=True)
class LocalFuzzyCenters:
    """A client's own centres C^g, their supports sum_i u_ij, and counts.

    Reveals k weighted means of a client's rows (of one row: that row), how much
    membership each attracts, and how many rows are nearest to each broadcast centre.
    """

    centers: Floats
    supports: Floats
    counts: Ints


class FFCMAvg1(FuzzyRival):
    """Local centres averaged index by index."""

    name = "ffcm-avg1"
    Params = FFCMParams

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[LocalFuzzyCenters, Any]:
        """Run fuzzy c-means from the broadcast centres to convergence."""
        centers, shares = fuzzy_c_means(
            X,
            broadcast.points,
            params.fuzzifier,
            params.local_steps,
            params.local_tolerance,
        )
        counts = nearest_counts(X, broadcast.points)
        return LocalFuzzyCenters(centers, shares.sum(axis=0), counts), None

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect centres, supports and counts."""
        expect(isinstance(reply, LocalFuzzyCenters), "local centres")
        k = state.params.k
        check_centers(reply.centers, k, state.n_features, "local centres")
        check_mass(reply.supports, k, n_rows, "supports")
        check_counts(reply.counts, k, n_rows)

    def combine(self, state: RivalState) -> tuple[FuzzyModel, bool]:
        """Join the local centres."""
        return self.moved(state, self.join(state, spoken(state)))

    def join(self, state: RivalState, replies: list[LocalFuzzyCenters]) -> Floats:
        """Return c_j = sum_g s_j^g c_j^g / sum_g s_j^g."""
        mass = np.sum([answer.supports for answer in replies], axis=0)
        total = np.sum(
            [answer.supports[:, None] * answer.centers for answer in replies], axis=0
        )
        return divide(mass, total, state.model.centers)


class FFCMAvg2(FFCMAvg1):
    """Local centres clustered by k-means."""

    name = "ffcm-avg2"

    def join(self, state: RivalState, replies: list[LocalFuzzyCenters]) -> Floats:
        """Return the centres of k-means on all local centres."""
        model, k = state.model, state.params.k
        points = np.concatenate([answer.centers for answer in replies])
        ones = np.ones(points.shape[0])
        first_heard = any(update.client not in model.heard for update in state.pending)
        fresh = model.rounds < FRESH_ROUNDS or first_heard
        if fresh and distinct(points) >= k:
            rng = server_rng(state.seed, RESTARTS, model.rounds)
            return weighted_kmeans(points, ones, k, rng, DRAWS)
        return lloyd(points, ones, model.centers, MAX_LLOYD)[0]

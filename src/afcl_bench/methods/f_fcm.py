# SPDX-License-Identifier: Apache-2.0
"""F-FCM: clients send gradients of the fuzzy c-means objective, the server steps.

Pedrycz (2022), "Federated FCM: clustering under privacy requirements", IEEE TFS; no
code was published. The fuzzifier is 2. A client runs ten fuzzy c-means steps from the
broadcast prototypes v and sends, per prototype s and feature j,

    g_sj = -2 sum_i u_si^2 (x_ij - v_sj) / sigma_j^2,

with the memberships after its own steps, but at the server's v: at its own prototypes
the gradient is zero. sigma_j^2 is the client's own variance of feature j. The server
moves v by -alpha sum_g (n_g / n) g_g.

Where the text is open. *Scale*: the gradient is divided by n_g, so that alpha does not
depend on the number of rows. *Absence*: n counts all registered clients, and only this
round's answers are used; who is absent does not pull. *Floor*: sigma_j^2 is at least
`variance_floor`, else a feature that is constant at a client decides everything.
*alpha*: with the memberships held, a round multiplies the distance to the minimum along
a coordinate by 1 - 2 alpha h, where h, the mean of u^2 / sigma^2, is at most 1 / floor;
any alpha below the floor is therefore stable. The default is 0.8 of it, which settles
within a hundred rounds. *Stop*: see :mod:`.fuzzy`; as steps are small, so is the
movement that means rest.

Uploaded: in the hello the number of features (or up to k rows, for
``init="k-means++"``); each round k gradients and k counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload
from afcl.methods.rival import RivalState, expect
from afcl_bench.methods.fuzzy import (
    FuzzyModel,
    FuzzyParams,
    FuzzyRival,
    check_centers,
    check_counts,
    fuzzy_c_means,
    fuzzy_sums,
    nearest_counts,
    present,
    require_above,
    require_whole,
)


@dataclass(frozen=True, slots=True)
class FFCMGradientParams(FuzzyParams):
    """Steps of the local runs, alpha, and the floor of the variances.

    Alpha and the floor are in the agreed units, squared; alpha should stay below the
    floor.
    """

    tolerance: float = 1e-5
    local_steps: int = 10
    step_size: float = 0.008
    variance_floor: float = 0.01

    def __post_init__(self) -> None:
        FuzzyParams.__post_init__(self)
        require_whole("local_steps", self.local_steps)
        require_above("step_size", self.step_size, 0)
        require_above("variance_floor", self.variance_floor, 0)


@payload
@dataclass(frozen=True, slots=True)
class FuzzyGradient:
    """Mean gradient at the broadcast prototypes, and counts.

    Reveals in which direction and how strongly a client's rows pull each prototype
    (over rounds that tells where its fuzzy means lie), and how many rows are nearest
    to each.
    """

    gradient: Floats
    counts: Ints


class FFCM(FuzzyRival):
    """Gradient steps on the fuzzy c-means objective."""

    name = "f-fcm"
    Params = FFCMGradientParams

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[FuzzyGradient, Any]:
        """Adapt the memberships; return the gradient at the server's prototypes."""
        prototypes = broadcast.points
        _, shares = fuzzy_c_means(X, prototypes, 2.0, params.local_steps, 0.0)
        mass, total = fuzzy_sums(X, shares, 2.0)
        variances = np.maximum(X.var(axis=0), params.variance_floor)
        pull = (total - mass[:, None] * prototypes) / variances
        gradient = -2.0 * pull / X.shape[0]
        return FuzzyGradient(gradient, nearest_counts(X, prototypes)), None

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect a gradient and counts."""
        expect(isinstance(reply, FuzzyGradient), "a gradient")
        k = state.params.k
        check_centers(reply.gradient, k, state.n_features, "a gradient")
        check_counts(reply.counts, k, n_rows)

    def combine(self, state: RivalState) -> tuple[FuzzyModel, bool]:
        """Take one step down the gradients of those present."""
        total = sum(state.rows.values())
        gradient = np.zeros_like(state.model.centers)
        for client, answer in present(state).items():
            gradient += state.rows[client] / total * answer.gradient
        return self.moved(
            state, state.model.centers - state.params.step_size * gradient
        )

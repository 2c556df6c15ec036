# SPDX-License-Identifier: Apache-2.0
"""Exact federated fuzzy c-means: clients send fuzzy sums, the server divides.

Corcuera Barcena et al. (2024), "Federated c-means and fuzzy c-means clustering
algorithms for horizontally and vertically partitioned data", IEEE TAI. With everybody
present each round is one step of fuzzy c-means on the pooled rows, and since only sums
of all clients matter, a secure sum would do.

The paper has everybody present. By default the server here keeps every client's last
sums, so that absent clients still count; see :mod:`.fuzzy` for that, for the stop and
for centres that own no row.

Uploaded: in the hello up to k rows as seeds (for ``init="uniform"`` the number of
features only, but then centres may start, and stay, in a bad place); each round k
sums, k masses and k counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload
from afcl.methods.rival import RivalState, expect
from afcl_bench.methods.fuzzy import (
    CMeansParams,
    FuzzyModel,
    FuzzyRival,
    check_centers,
    check_counts,
    check_mass,
    divide,
    fuzzy_sums,
    memberships,
    nearest_counts,
    spoken,
)


@dataclass(frozen=True, slots=True)
class FCMExactParams(CMeansParams):
    """Those of the rivals that average, with the better start as the default."""

    init: str = "k-means++"


@payload
@dataclass(frozen=True, slots=True)
class FuzzySums:
    """Per broadcast centre sum_i u_ij^m x_i, sum_i u_ij^m, and a count.

    Reveals k weighted means of a client's rows (of one row: that row), their weights,
    and how many rows are nearest to each centre. Adding these up over the clients
    before anybody looks would hide each client's share.
    """

    sums: Floats
    masses: Floats
    counts: Ints


class FCMExact(FuzzyRival):
    """Fuzzy c-means on the pooled rows, without pooling them."""

    name = "fcm-exact"
    Params = FCMExactParams

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[FuzzySums, Any]:
        """Weigh the rows by their memberships and add them up."""
        shares = memberships(X, broadcast.points, params.fuzzifier)
        mass, total = fuzzy_sums(X, shares, params.fuzzifier)
        return FuzzySums(total, mass, nearest_counts(X, broadcast.points)), None

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect sums, masses and counts."""
        expect(isinstance(reply, FuzzySums), "fuzzy sums")
        k = state.params.k
        check_centers(reply.sums, k, state.n_features, "sums")
        check_mass(reply.masses, k, n_rows, "masses")
        check_counts(reply.counts, k, n_rows)

    def combine(self, state: RivalState) -> tuple[FuzzyModel, bool]:
        """Divide the sums of all; a centre without mass stays."""
        replies = spoken(state)
        mass = np.sum([answer.masses for answer in replies], axis=0)
        total = np.sum([answer.sums for answer in replies], axis=0)
        return self.moved(state, divide(mass, total, state.model.centers))

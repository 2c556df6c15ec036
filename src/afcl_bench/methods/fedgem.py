# SPDX-License-Identifier: Apache-2.0
"""FedGEM: mixtures at the clients, balls that meet at the server, unknown k.

Ibrahim, Gebraeel & Xie (ICLR 2026), arXiv 2601.21160. Every client
owns a mixture of `local_clusters` round Gaussians of equal weight. In a round it makes
one EM step, theta -> M, and reports M with the radius of the ball around M in which the
expected log-likelihood is not worse than at theta; for round Gaussians that radius is
|M - theta|, as the surrogate is a quadratic around M. Balls of different clients that
meet, closest first, form super-clusters of at most one component per client; a
component moves to the mean of its own M and of its partners' M projected into its ball.
After ten rounds components are given the radius sqrt(v R_g / (pi sqrt(n_g))), R_g the
smallest distance between a client's components, pi = 1 / k_g, and join once more: the
super-clusters are the clusters.

This is the text, not the published snapshot (in which the search for the radius never
runs and the projection points the wrong way). Departures. *Unit*: the text has unit
covariances; here the variance is the clients' pooled within-cluster variance, since in
min-max units one is far too wide. *Choice of v*: if not given, the best mean simplified
silhouette over :data:`GRID`, for which clients vote in one more round (before any vote
it is the middle of the grid). *R_g* of a client of one component: the mean of the other
clients', or, if nobody has two, the largest distance between components. *Labels*: the
nearest super-cluster mean, the same for all clients. *Start*: local k-means with a
fixed seed, because a client has no memory before its first step. *Own components*:
everybody gets the same broadcast, with all components, and finds its own by what it
last reported.

Components of one client never join (unless they coincide), so `local_clusters` should
be no larger than the number of clusters a client really has.

Uploaded: in the hello k_g means, counts and scatters; each round k_g means, radii
and masses; for the vote one number per candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core.messages import Cells, Positions, check_cells, payload
from afcl.core.protocol import Clustering, Scores
from afcl.exceptions import InputError
from afcl.kernels import assign
from afcl.methods.rival import Rival, RivalState, expect, is_table, simple_clustering
from afcl_bench.methods.fedgem_mixture import (
    LEAST,
    MixtureStep,
    Parts,
    attract,
    em_step,
    first_part,
    fit_of,
    levels,
    local_start,
)

#: Values of v that are tried when none is given.
GRID = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)


@dataclass(frozen=True, slots=True)
class FedGEMParams:
    """Components per client k_g, v (None: chosen by vote), rounds, when to stop."""

    local_clusters: int = 5
    v: float | None = None
    n_rounds: int = 10
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("local_clusters", "n_rounds"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 1):
                raise InputError(
                    f"{name} must be a whole number of at least 1, not {value!r}"
                )
        for name, number in (("v", self.v), ("tolerance", self.tolerance)):
            if name == "v" and number is None:
                continue
            if not (isinstance(number, int | float) and 0 <= number < np.inf):
                raise InputError(
                    f"{name} must be a number of at least 0, not {number!r}"
                )


@payload
@dataclass(frozen=True, slots=True)
class Mixtures:
    """The broadcast: everybody's last reports, where they moved, and what to vote on.

    Reveals all clients' component means to every client.
    """

    reported: Floats
    centers: Floats
    variance: float
    candidates: tuple[Positions, ...]


@payload
@dataclass(frozen=True, slots=True)
class SilhouetteVote:
    """A client's sum of simplified silhouettes under every candidate.

    Reveals how well each candidate's centres fit the client's rows as a whole.
    """

    sums: Floats


@dataclass(frozen=True, slots=True)
class FedGEMModel:
    """Everybody's components, in the order of the clients, and the vote.

    `candidates` is empty until the EM rounds are over; votes count from the version
    `asked` on.
    """

    parts: Parts
    centers: Floats
    variance: float
    rounds: int = 0
    quiet: frozenset[ClientId] = frozenset()
    candidates: tuple[tuple[Floats, Floats], ...] = ()
    asked: int = 0
    votes: dict[ClientId, Floats] = field(default_factory=dict)


class FedGEM(Rival):
    """EM at the clients, meeting balls at the server."""

    name = "fedgem"
    needs_k = False
    Params = FedGEMParams

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> Cells:
        """Send the cells of local k-means."""
        return local_start(X, params.local_clusters)

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect at most k_g cells."""
        most = state.params.local_clusters
        expect(
            isinstance(hello, Cells) and is_table(hello.means) and len(hello) <= most,
            f"at most {most} cells",
        )
        width = int(hello.means.shape[1])
        check_cells(hello, width, n_rows)
        return width

    def start(self, state: RivalState) -> FedGEMModel:
        """Begin where the clients' k-means ended."""
        parts = {
            client: first_part(state.hellos[client]) for client in sorted(state.hellos)
        }
        means = np.concatenate([part.means for part in parts.values()])
        return FedGEMModel(parts, means, _variance(state))

    def on_join(self, state: RivalState) -> FedGEMModel:
        """Add the new clients' components and begin the rounds anew."""
        known = state.model.parts
        parts = {
            c: known.get(c) or first_part(state.hellos[c]) for c in sorted(state.rows)
        }
        return FedGEMModel(parts, attract(parts), _variance(state))

    def prepare(self, state: RivalState) -> RivalState:
        """Let late joiners in, and go on if the run had ended without them."""
        if not state.joined:
            return state
        return replace(super().prepare(state), finished=False)

    def message(self, state: RivalState) -> Mixtures:
        """Send all components and the candidates, if any."""
        model: FedGEMModel = state.model
        return Mixtures(
            np.concatenate([part.means for part in model.parts.values()]),
            model.centers,
            model.variance,
            tuple(Positions(centers) for centers, _ in model.candidates),
        )

    def wanted(self, state: RivalState) -> frozenset[ClientId] | None:
        """Ask nobody to vote twice."""
        return frozenset(super().wanted(state) or ()) - frozenset(state.model.votes)

    def done(self, state: RivalState) -> bool:
        """Whether the rounds are over and every client that is left has voted."""
        voted = state.model is not None and bool(state.model.votes)
        over = voted and set(state.active()) <= set(state.model.votes)
        return super().done(state) or (over and not state.joined)

    def step(
        self,
        broadcast: Any,
        X: Floats,
        memory: Any,
        params: Any,
        rng: np.random.Generator,
    ) -> tuple[Any, Any]:
        """Vote on the candidates, or make one EM step and remember its means."""
        if broadcast.candidates:
            sums = [fit_of(X, candidate.points) for candidate in broadcast.candidates]
            return SilhouetteVote(np.array(sums)), memory
        if memory is None:
            memory = Positions(local_start(X, params.local_clusters).means)
        index, gap = assign(memory.points, broadcast.reported)
        theta = np.where((gap == 0)[:, None], broadcast.centers[index], memory.points)
        answer = em_step(X, theta, broadcast.variance)
        return answer, Positions(answer.means)

    def check_update(self, state: RivalState, reply: Any, n_rows: int) -> None:
        """Expect a step or a vote; either may be late."""
        if isinstance(reply, SilhouetteVote):
            expect(_is_row(reply.sums), "a sum of silhouettes per candidate")
            expect(bool(np.all(np.abs(reply.sums) <= n_rows)), "sums within the rows")
            return
        expect(isinstance(reply, MixtureStep), "components or a vote")
        most = min(state.params.local_clusters, n_rows)
        expect(
            is_table(reply.means, state.n_features) and reply.means.shape[0] <= most,
            f"at most {most} means of {state.n_features} features",
        )
        k = reply.means.shape[0]
        expect(
            all(
                _is_row(part) and part.shape == (k,) and bool(np.all(part >= 0))
                for part in (reply.radii, reply.masses)
            ),
            f"{k} radii and masses, not negative",
        )
        expect(
            reply.masses.sum() <= n_rows * (1 + 1e-9), f"masses within {n_rows} rows"
        )

    def combine(self, state: RivalState) -> tuple[FedGEMModel, bool]:
        """Move the components; after the last round put the grid to the vote."""
        model: FedGEMModel = state.model
        if model.candidates:
            return _tally(state)
        replies = {
            update.client: update.payload
            for update in state.pending
            if isinstance(update.payload, MixtureStep)
        }
        parts = {**model.parts, **replies}
        centers = attract(parts)
        rested = centers.shape == model.centers.shape and bool(
            np.all(np.abs(centers - model.centers) < state.params.tolerance)
        )
        quiet = model.quiet | frozenset(replies) if rested else frozenset()
        moved = FedGEMModel(parts, centers, model.variance, model.rounds + 1, quiet)
        over = moved.rounds >= state.params.n_rounds or quiet >= set(state.active())
        if not over:
            return moved, False
        found = levels(parts, centers, state.rows, GRID)
        if state.params.v is not None or len(found) == 1:
            return moved, True
        return replace(moved, candidates=found, asked=state.version + 1), False

    def cluster(self, state: RivalState) -> Clustering:
        """Return the super-clusters of the v given or chosen."""
        model: FedGEMModel = state.model
        scores: Scores = {}
        if model.votes:
            votes = np.sum(list(model.votes.values()), axis=0)
            best = int(votes.argmax())
            centers, sizes = model.candidates[best]
            voters = sum(state.rows[client] for client in model.votes)
            scores = {"simplified": float(votes[best]) / voters}
        else:
            v = GRID[len(GRID) // 2] if state.params.v is None else state.params.v
            centers, sizes = levels(model.parts, model.centers, state.rows, (v,))[0]
        return simple_clustering(centers, sizes, scores)


def _variance(state: RivalState) -> float:
    """Return the pooled variance per feature within the clients' cells."""
    scatter = sum(float(cells.scatters.sum()) for cells in state.hellos.values())
    rows = sum(state.rows.values())
    return max(scatter / (rows * state.n_features), LEAST)


def _is_row(reply: Any) -> bool:
    return (
        isinstance(reply, np.ndarray)
        and reply.dtype == np.float64
        and reply.ndim == 1
        and reply.shape[0] >= 1
    )


def _tally(state: RivalState) -> tuple[FedGEMModel, bool]:
    """Take the votes on these candidates; finished when every active client voted."""
    model: FedGEMModel = state.model
    cast = {
        update.client: update.payload.sums
        for update in state.pending
        if isinstance(update.payload, SilhouetteVote)
        and update.version >= model.asked
        and update.payload.sums.shape == (len(model.candidates),)
    }
    votes = {**model.votes, **cast}
    return replace(model, votes=votes), set(state.active()) <= set(votes)

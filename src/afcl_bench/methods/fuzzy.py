# SPDX-License-Identifier: Apache-2.0
"""What the fuzzy rivals share: memberships, fuzzy c-means, a start, a stop.

Fuzzy c-means (Bezdek 1981) minimises sum_ij u_ij^m |x_i - c_j|^2 by turns over the
memberships u (rows sum to 1) and the centres c; m > 1 is the fuzzifier.

Three decisions hold for the rivals built on this. *Who counts*, where answers are
averaged: with ``aggregation="stale"`` everybody's last answer, with ``"present"`` only
those of the round; the two agree when everybody always takes part. *When to stop*: when
every client has answered since the centres last moved by `tolerance` or more, which
with everybody present is the usual test on one round. *How many*: next to what the
method needs, clients send how many of their rows are nearest to each broadcast centre;
once the run has settled, centres without a row are left out of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import Positions, payload
from afcl.core.protocol import Clustering, server_rng
from afcl.core.seeding import merge_coincident, plus_plus
from afcl.exceptions import InputError
from afcl.kernels import assign, squared_distances
from afcl.methods.rival import (
    KnownK,
    Rival,
    RivalState,
    expect,
    is_table,
    simple_clustering,
)

#: Added to squared distances, so that a row on a centre has a membership.
TINY = 1e-18
# Purposes of the server's draws.
STARTS = 0
RESTARTS = 1

INITS = ("uniform", "k-means++")
AGGREGATIONS = ("stale", "present")


# ------------------------------------------------ the mathematics


def memberships(X: Floats, centers: Floats, fuzzifier: float = 2.0) -> Floats:
    """Return u_ij = 1 / sum_l (|x_i - c_j| / |x_i - c_l|)^(2 / (m - 1)), (n, k).

    Examples
    --------
    >>> memberships(np.array([[1.0]]), np.array([[0.0], [3.0]])).round(3).tolist()
    [[0.8, 0.2]]
    """
    distances = squared_distances(X, centers) + TINY
    nearest = distances.min(axis=1, keepdims=True)
    closeness = (nearest / distances) ** (1.0 / (fuzzifier - 1.0))
    shares: Floats = closeness / closeness.sum(axis=1, keepdims=True)
    return shares


def fuzzy_sums(X: Floats, shares: Floats, fuzzifier: float) -> tuple[Floats, Floats]:
    """Return sum_i u_ij^m (k,) and sum_i u_ij^m x_i (k, d)."""
    weights = shares**fuzzifier
    return weights.sum(axis=0), weights.T @ X


def divide(mass: Floats, total: Floats, otherwise: Floats) -> Floats:
    """Return total / mass, or the row of `otherwise` where there is no mass."""
    held = mass > 0
    centers = otherwise.copy()
    centers[held] = total[held] / mass[held, None]
    return centers


def fuzzy_c_means(
    X: Floats, centers: Floats, fuzzifier: float, max_iter: int, tolerance: float
) -> tuple[Floats, Floats]:
    """Alternate from `centers`; return the centres and the memberships before them.

    Stops after `max_iter` steps or when the memberships move by less than `tolerance`
    (Frobenius norm of the difference).
    """
    shares = memberships(X, centers, fuzzifier)
    for _ in range(max_iter):
        centers = divide(*fuzzy_sums(X, shares, fuzzifier), centers)
        before, shares = shares, memberships(X, centers, fuzzifier)
        if np.linalg.norm(shares - before) < tolerance:
            break
    return centers, shares


def nearest_counts(X: Floats, centers: Floats) -> Ints:
    """Return how many rows are nearest to each centre."""
    counts = np.bincount(assign(X, centers)[0], minlength=centers.shape[0])
    return counts.astype(np.int64)


# ------------------------------------------------ the rivals' common part


@dataclass(frozen=True, slots=True)
class FuzzyParams(KnownK):
    """Parameters of every fuzzy rival.

    Attributes
    ----------
    init
        `uniform`: centres drawn from the unit cube, for which the data must be scaled
        to it; `k-means++`: drawn from rows that the clients send.
    tolerance
        The run has settled when the centres move by less (Frobenius norm).
    """

    init: str = "uniform"
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        require_one_of("init", self.init, INITS)
        require_from("tolerance", self.tolerance, 0)


@dataclass(frozen=True, slots=True)
class CMeansParams(FuzzyParams):
    """Parameters of the rivals that average.

    Attributes
    ----------
    fuzzifier
        m.
    aggregation
        Whose answers count: `stale` (everybody's last) or `present` (this round's).
    """

    fuzzifier: float = 2.0
    aggregation: str = "stale"

    def __post_init__(self) -> None:
        FuzzyParams.__post_init__(self)
        require_one_of("aggregation", self.aggregation, AGGREGATIONS)
        require_above("fuzzifier", self.fuzzifier, 1)


def require_one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise unless the option has one of its values."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def require_above(name: str, value: Any, bound: float) -> None:
    """Raise unless the option is a finite number above the bound."""
    if not (isinstance(value, int | float) and bound < value < np.inf):
        raise InputError(f"{name} must be a number above {bound}, not {value!r}")


def require_from(name: str, value: Any, least: float) -> None:
    """Raise unless the option is a finite number, at least so large."""
    if not (isinstance(value, int | float) and least <= value < np.inf):
        raise InputError(f"{name} must be a number of at least {least}, not {value!r}")


def require_whole(name: str, value: Any) -> None:
    """Raise unless the option is a whole number of at least 1."""
    if not (isinstance(value, int) and value >= 1):
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")


@payload
@dataclass(frozen=True, slots=True)
class Width:
    """A hello that reveals the number of features and nothing else."""

    n_features: int


@dataclass(frozen=True, slots=True)
class FuzzyModel:
    """Centres, rows nearest to each when last counted, and the books of the rounds.

    `heard` are the clients whose answers are in the centres, `quiet` those that have
    answered since the centres last moved noticeably.
    """

    centers: Floats
    counts: Floats
    rounds: int = 0
    heard: frozenset[ClientId] = frozenset()
    quiet: frozenset[ClientId] = frozenset()


class FuzzyRival(Rival):
    """Hello, start, broadcast, stop and answer of a fuzzy rival."""

    Params = FuzzyParams

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> Any:
        """Send the number of features, or up to k rows drawn by k-means++."""
        if params.init == "uniform":
            return Width(X.shape[1])
        return Positions(X[plus_plus(X, params.k, rng)])

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect what :meth:`first` sends."""
        if state.params.init == "uniform":
            expect(
                isinstance(hello, Width)
                and type(hello.n_features) is int
                and hello.n_features >= 1,
                "the number of features",
            )
            return int(hello.n_features)
        expect(
            isinstance(hello, Positions)
            and is_table(hello.points)
            and hello.points.shape[0] <= min(n_rows, state.params.k),
            f"a table of at most {state.params.k} rows as seeds",
        )
        return int(hello.points.shape[1])

    def start(self, state: RivalState) -> FuzzyModel:
        """Draw k centres from the unit cube, or k-means++ seeds from the union.

        Where there are fewer distinct seeds than k, the cube gives the rest.
        """
        k, rng = state.params.k, server_rng(state.seed, STARTS, 0)
        centers = rng.random((k, state.n_features))
        if state.params.init == "k-means++":
            union = np.concatenate(
                [state.hellos[client].points for client in sorted(state.hellos)]
            )
            seeds = union[plus_plus(union, k, rng)]
            centers[: seeds.shape[0]] = seeds
        return FuzzyModel(centers, np.zeros(k))

    def prepare(self, state: RivalState) -> RivalState:
        """Let late joiners in, and go on if the run had ended without them."""
        if not state.joined:
            return state
        return replace(super().prepare(state), finished=False)

    def message(self, state: RivalState) -> Positions:
        """Send the centres."""
        return Positions(state.model.centers)

    def cluster(self, state: RivalState) -> Clustering:
        """Return the centres; once settled, without those that own no row.

        Centres that differ by less than the tolerance are one.
        """
        model, params = state.model, state.params
        used = np.ones(params.k, dtype=np.bool_)
        if state.finished:
            used = model.counts > 0
        kept, counts = model.centers[used], model.counts[used]
        centers = merge_coincident(kept, params.tolerance)
        owner, _ = assign(kept, centers)
        sizes = np.bincount(owner, counts, minlength=centers.shape[0])
        return simple_clustering(centers, sizes)

    def moved(self, state: RivalState, centers: Floats) -> tuple[FuzzyModel, bool]:
        """Return the next model, and whether everybody has seen it settle."""
        model: FuzzyModel = state.model
        here = frozenset(update.client for update in state.pending)
        move = float(np.linalg.norm(centers - model.centers))
        quiet = model.quiet | here if move < state.params.tolerance else frozenset()
        counts = np.zeros(state.params.k)
        for update in state.latest.values():
            counts += update.payload.counts
        following = FuzzyModel(
            centers, counts, model.rounds + 1, model.heard | here, quiet
        )
        return following, quiet.issuperset(state.active())


def present(state: RivalState) -> dict[ClientId, Any]:
    """Return this round's answers, by client."""
    newest = {update.client: update.payload for update in state.pending}
    return {client: newest[client] for client in sorted(newest)}


def spoken(state: RivalState) -> list[Any]:
    """Return the answers that count, in the order of the clients."""
    if state.params.aggregation == "present":
        return list(present(state).values())
    return [state.latest[client].payload for client in sorted(state.latest)]


def check_centers(reply: Any, k: int, n_features: int, what: str) -> None:
    """Expect a float64 table with a row per centre."""
    expect(
        is_table(reply, n_features) and reply.shape[0] == k,
        f"{what} of shape ({k}, {n_features})",
    )


def check_mass(reply: Any, k: int, n_rows: int, what: str) -> None:
    """Expect a non-negative float64 per centre that sums to at most the rows."""
    expect(
        isinstance(reply, np.ndarray)
        and reply.dtype == np.float64
        and reply.shape == (k,)
        and bool(np.all(reply >= 0))
        and float(reply.sum()) <= n_rows * (1 + 1e-9),
        f"{what}: {k} numbers, not negative, that sum to at most {n_rows}",
    )


def check_counts(reply: Any, k: int, n_rows: int) -> None:
    """Expect an int64 per centre; they sum to the client's rows."""
    expect(
        isinstance(reply, np.ndarray)
        and reply.dtype == np.int64
        and reply.shape == (k,)
        and bool(np.all(reply >= 0))
        and sum(reply.tolist()) == n_rows,
        f"counts of {k} centres that sum to {n_rows}",
    )

# SPDX-License-Identifier: Apache-2.0
"""Splits and participation by name, such as ``dirichlet:50:1`` and ``one-shot:0.4``.

What is drawn is drawn from the run's seed, so that every method of a run meets the same
clients with the same rows and the same habits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from afcl._typing import Floats, Ints
from afcl.data.split import (
    column_split,
    dirichlet_split,
    iid_split,
    kmeans_split,
    merge_small,
    paper_leak_split,
)
from afcl.exceptions import InputError
from afcl.runtime.schedule import Replay, Rounds, Schedule
from afcl.scale import minmax_box, ranges_of
from afcl.trace import read_trace
from afcl_bench.datasets import Dataset

#: Fewest rows of a client; what comes out smaller is drawn again, or merged, and said.
LEAST_ROWS = 5
REDRAWS = 50
# Purposes of a run's draws, apart from each other and from the methods' own.
_SKEW = 101
_ONE_SHOT = 102
_CLASS = 104

T = TypeVar("T")


def scaled(X: Floats) -> Floats:
    """Return rows min-max scaled: the units in which scores are computed."""
    return minmax_box([ranges_of(X)]).scale(X)


# ------------------------------------------------------------------ splits


@dataclass(frozen=True)
class Division:
    """Whose every row is, and what was done so that no client is too small.

    Attributes
    ----------
    owner
        The client of every row, from 0.
    redrawn
        How often the split was drawn again.
    merged
        How many clients were merged into others.
    """

    owner: Ints
    redrawn: int = 0
    merged: int = 0


def owners(name: str, data: Dataset, seed: int) -> Ints:
    """Return the owner of every row: see :func:`divided`."""
    return divided(name, data, seed).owner


def divided(name: str, data: Dataset, seed: int) -> Division:
    """Deal the rows out to clients.

    Parameters
    ----------
    name : str
        ``kmeans:P`` (P clients, one k-means cluster of the features each: the paper's,
        without the label leak), ``paper-leak:P`` (with it), ``iid:P``,
        ``rows:ROWS`` (n/ROWS clients of so many rows, dealt at random),
        ``dirichlet:P:ALPHA`` (on the classes), ``small:ROWS`` (clients of about so
        many rows, classes mixed by a Dirichlet law of 1), ``own-class:P`` (the last of
        P clients owns one class alone, the others share the rest), ``column:NAME``
        (one client per value of a column), ``sites`` (those the data come from, as
        small as they are), ``pooled`` (one client has all rows).
    data : Dataset
    seed : int

    Returns
    -------
    Division
        But for ``sites`` and ``paper-leak`` no client has fewer than five rows.
    """
    kind, *arguments = name.split(":", 1 if name.startswith("column:") else -1)
    if kind not in _SPLITS:
        raise InputError(f"unknown split {name!r}; choose from {', '.join(_SPLITS)}")
    return _called(name, _SPLITS[kind], data, seed, arguments)


def _kmeans(data: Dataset, seed: int, clients: str) -> Division:
    X = scaled(data.X)
    for attempt in range(REDRAWS):
        owner = kmeans_split(X, int(clients), random_state=1000 * attempt + seed)
        if np.bincount(owner).min() >= LEAST_ROWS:
            return Division(owner, attempt)
    owner = kmeans_split(X, int(clients), random_state=seed)
    return _merged(X, owner, REDRAWS)


def _merged(X: Floats, owner: Ints, redrawn: int = 0) -> Division:
    """Merge clients that are too small into the nearest; X is scaled."""
    merged = merge_small(X, owner, LEAST_ROWS)
    return Division(merged, redrawn, len(np.unique(owner)) - len(np.unique(merged)))


def _paper_leak(data: Dataset, seed: int, clients: str) -> Division:
    # As the published code: however few rows a client gets.
    return Division(
        paper_leak_split(data.X, data.y + 1, int(clients), random_state=seed), 0, 0
    )


def _iid(data: Dataset, seed: int, clients: str) -> Division:
    owner = iid_split(data.X.shape[0], int(clients), random_state=seed)
    return _merged(scaled(data.X), owner)


def _rows(data: Dataset, seed: int, rows: str) -> Division:
    return _iid(data, seed, str(max(1, data.X.shape[0] // int(rows))))


def _dirichlet(data: Dataset, seed: int, clients: str, alpha: str) -> Division:
    owner = dirichlet_split(data.y, int(clients), float(alpha), random_state=seed)
    return _merged(scaled(data.X), owner)


def _small(data: Dataset, seed: int, rows: str) -> Division:
    return _dirichlet(data, seed, str(max(1, data.X.shape[0] // int(rows))), "1")


def _own_class(data: Dataset, seed: int, clients: str) -> Division:
    n, (classes, sizes) = data.X.shape[0], np.unique(data.y, return_counts=True)
    enough = (sizes >= LEAST_ROWS) & (n - sizes >= LEAST_ROWS)
    if int(clients) < 2 or not enough.any():
        raise InputError(
            f"own-class:{clients} needs two clients, and a class of {LEAST_ROWS} rows "
            "or more beside the others"
        )
    rng = _rng(seed, _CLASS)
    alone = data.y == rng.choice(classes[enough])
    owner = iid_split(n, int(clients) - 1, random_state=rng)
    rest = _merged(scaled(data.X)[~alone], column_split(owner[~alone]))
    owner[~alone] = rest.owner
    owner[alone] = rest.owner.max() + 1
    return Division(owner, merged=rest.merged)


def _column(data: Dataset, seed: int, column: str) -> Division:
    if column not in data.columns:
        raise InputError(
            f"{data.name} has no column {column!r}; it has {', '.join(data.columns)}"
        )
    owner = column_split(data.X[:, data.columns.index(column)])
    return _merged(scaled(data.X), owner)


def _sites(data: Dataset, seed: int) -> Division:
    if data.owner is None:
        raise InputError(f"{data.name} does not come from sites: choose another split")
    return Division(data.owner)


def _pooled(data: Dataset, seed: int) -> Division:
    return Division(np.zeros(data.X.shape[0], dtype=np.int64))


_SPLITS: dict[str, Callable[..., Division]] = {
    "kmeans": _kmeans,
    "paper-leak": _paper_leak,
    "iid": _iid,
    "rows": _rows,
    "dirichlet": _dirichlet,
    "small": _small,
    "own-class": _own_class,
    "column": _column,
    "sites": _sites,
    "pooled": _pooled,
}


# ------------------------------------------------------------------ participation


def schedule(name: str, n_clients: int, seed: int) -> Schedule:
    """Return who takes part when.

    Parameters
    ----------
    name : str
        ``always``, ``random`` (the paper's: one U(0, 1) draw per client), ``p:P`` (this
        probability for everybody), ``skew:GINI`` (probabilities with this Gini
        coefficient, the largest 1), ``one-shot:SHARE`` (this share of the clients never
        answers after its hello), ``late:CLIENTS:ROUND`` (so many clients join in this
        round, the last ones first), ``delay:ROUNDS`` (answers up to so late),
        ``trace:FILE`` (a recorded run's).
    n_clients : int
    seed : int

    Returns
    -------
    Schedule
    """
    kind, *arguments = name.split(":", 1 if name.startswith("trace:") else -1)
    if kind not in _SCHEDULES:
        raise InputError(
            f"unknown participation {name!r}; choose from {', '.join(_SCHEDULES)}"
        )
    return _called(name, _SCHEDULES[kind], n_clients, seed, arguments)


def skewed(n_clients: int, gini: float) -> Floats:
    """Return probabilities u^a on an even grid of u, the largest 1.

    The Gini coefficient of u^a is a / (a + 2) for uniform u, hence
    a = 2 G / (1 - G); on a grid of few clients it comes out a little lower.
    """
    if not 0 <= gini < 1:
        raise InputError(f"a Gini coefficient of {gini}; use one from 0 to below 1")
    grid = (np.arange(n_clients) + 0.5) / n_clients
    shares: Floats = (grid / grid[-1]) ** (2 * gini / (1 - gini))
    return shares


def _skew(n_clients: int, seed: int, gini: str) -> Schedule:
    shares = skewed(n_clients, float(gini))
    return Rounds(probability=_rng(seed, _SKEW).permutation(shares))


def _one_shot(n_clients: int, seed: int, share: str) -> Schedule:
    if not 0 <= float(share) <= 1:
        raise InputError(f"one-shot:{share}: use a share from 0 to 1")
    count = round(float(share) * n_clients)
    silent = _rng(seed, _ONE_SHOT).permutation(n_clients)[:count]
    return Schedule(silent=tuple(int(c) for c in silent))


def _late(n_clients: int, seed: int, count: str, tick: str) -> Schedule:
    return Schedule(late={n_clients - 1 - i: int(tick) for i in range(int(count))})


_SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "always": lambda n, seed: Schedule(),
    "random": lambda n, seed: Rounds(probability="random"),
    "p": lambda n, seed, p: Rounds(probability=float(p)),
    "skew": _skew,
    "one-shot": _one_shot,
    "late": _late,
    "delay": lambda n, seed, rounds: Rounds(delay=int(rounds)),
    "trace": lambda n, seed, path: Replay.of(read_trace(Path(path)).events),
}


def _called(name: str, make: Callable[..., T], *given: Any) -> T:
    """Call with the arguments in the name; a wrong number of them is said."""
    *fixed, arguments = given
    try:
        return make(*fixed, *arguments)
    except InputError:
        raise
    except (TypeError, ValueError, ArithmeticError, OSError) as error:
        raise InputError(f"cannot read {name!r}: {error}") from None


def _rng(seed: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))

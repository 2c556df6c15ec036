# SPDX-License-Identifier: Apache-2.0
"""Tables of numbers and texts whose clusters are known.

How far apart two clusters are is said by what they share: the integral of
sqrt(density of one * density of the other), which is 1 for equal clusters, and 0 for
two that have no row in common. It multiplies over columns, whatever is in them, so that
numbers may do for a pair of clusters what texts do for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from afcl._typing import Floats, Ints
from afcl.data.synthetic import SMALLEST, SPREAD, TRIES, Seed, whole_sizes
from afcl.exceptions import InputError

# What `random_mixed` draws: fewest and most of each.
CLUSTERS = (2, 12)
#: Columns of numbers.
NUMBERS = (2, 8)
#: Columns of texts.
TEXTS = (2, 10)
#: Columns of noise.
NOISE = (0, 3)
#: Levels of a column of texts.
LEVELS = (2, 8)
ROWS = (500, 3000)
#: What two of its clusters share at most.
OVERLAPS = (0.1, 0.03, 0.01)
#: Sides of the box its centres are first drawn in, in standard deviations.
BOXES = (1.0, 3.0, 6.0)
#: Its imbalances.
IMBALANCES = (1.0, 2.0, 5.0)
#: Between what the sharpness of a text column lies.
SHARPNESS = (0.3, 0.95)
#: How often the box grows, by a tenth, before clusters count as impossible.
GROWTHS = 60


class Mixed(NamedTuple):
    """A table of numbers and texts, and the cluster of each row.

    Attributes
    ----------
    numbers : ndarray of shape (n_samples, n_numbers + noise_numbers)
    texts : ndarray of str of shape (n_samples, n_texts + noise_texts)
        Letters from "a" on.
    labels : ndarray of shape (n_samples,)
    """

    numbers: Floats
    texts: NDArray[Any]
    labels: Ints


class _Places(NamedTuple):
    """Centres of clusters, and the level each favours in each text column."""

    centers: Floats
    favours: Ints

    def put(self, at: int, drawn: _Places, which: int) -> None:
        self.centers[at] = drawn.centers[which]
        self.favours[at] = drawn.favours[which]


def make_mixed(
    n_clusters: int,
    n_numbers: int,
    levels: Sequence[int],
    *,
    overlap: float,
    imbalance: float,
    random_state: Seed,
    n_samples: int = 1000,
    noise_numbers: int = 0,
    noise_levels: Sequence[int] = (),
    box: float = 3.0,
    sharpness: tuple[float, float] = SHARPNESS,
) -> Mixed:
    """Draw round clusters of numbers with texts that depend on the cluster.

    Parameters
    ----------
    n_clusters, n_numbers : int
    levels : sequence of int
        Number of levels, 2 to 26, of each text column.
    overlap : float
        What two clusters share at most, all columns together, between 0 and 1. Of two
        equally large ones no more than half of that is mistaken by who knows all.
    imbalance : float
        Sizes are log-uniform up to `imbalance` : 1, and at least 12.
    random_state : int, SeedSequence, Generator or None
    n_samples : int
    noise_numbers : int
        Columns of numbers that say nothing of the cluster.
    noise_levels : sequence of int
        Number of levels of each text column that says nothing of the cluster.
    box : float
        Side of the box the centres are first drawn in: small where texts shall tell
        clusters apart. It grows until all clusters fit.
    sharpness : (float, float)
        Between what the share of rows lies that have the level their cluster favours
        for that reason; all others follow shares that are the same in all clusters.
        One draw a text column.

    Returns
    -------
    Mixed
        Numbers, texts and labels.

    Examples
    --------
    >>> table = make_mixed(3, 2, [2, 4], overlap=0.05, imbalance=1, random_state=0)
    >>> table.numbers.shape, table.texts.shape, np.unique(table.texts[:, 1]).tolist()
    ((1000, 2), (1000, 2), ['a', 'b', 'c', 'd'])
    """
    _check(n_clusters, n_numbers, [*levels, *noise_levels], overlap, imbalance)
    _check_rows(n_samples, n_clusters, sharpness)
    rng = np.random.default_rng(random_state)
    sigmas = rng.uniform(*SPREAD, size=n_clusters)
    shares = [_level_shares(m, float(rng.uniform(*sharpness)), rng) for m in levels]
    noise = [_level_shares(m, 0.0, rng) for m in noise_levels]
    places = _places(sigmas, n_numbers, shares, overlap, box, rng)
    weights = np.exp(rng.uniform(0.0, np.log(imbalance), size=n_clusters))
    sizes = whole_sizes(weights, n_samples, SMALLEST)
    y: Ints = rng.permutation(np.repeat(np.arange(n_clusters), sizes))
    numbers = places.centers[y] + sigmas[y, None] * rng.normal(
        size=(n_samples, n_numbers)
    )
    others = rng.normal(size=(n_samples, noise_numbers))
    codes = [
        _drawn(table[places.favours[y, j]], rng) for j, table in enumerate(shares)
    ] + [_drawn(np.tile(table[0], (n_samples, 1)), rng) for table in noise]
    letters = np.array(list(ascii_lowercase))
    texts = letters[np.array(codes, dtype=np.int64).reshape(len(codes), n_samples).T]
    return Mixed(np.hstack([numbers, others]), texts, y)


def random_mixed(
    random_state: Seed, *, with_numbers: bool = True, with_texts: bool = True
) -> Mixed:
    """Draw such a table with drawn parameters.

    Clusters are 2 to 12 (log-uniform), rows 500 to 3000 (the same), columns of numbers
    2 to 8, of texts 2 to 10 with 2 to 8 levels each, columns of noise 0 to 3 (either
    kind), the imbalance 1, 2 or 5, the overlap .1, .03 or .01, the first box 1, 3 or 6.

    Parameters
    ----------
    random_state : int, SeedSequence, Generator or None
    with_numbers, with_texts : bool
        Without numbers there are 6 text columns or more, of 3 levels or more, all of
        them sharp, and the overlap is .1: clusters would not fit otherwise.

    Returns
    -------
    Mixed
        Numbers, texts and labels.
    """
    rng = np.random.default_rng(random_state)
    k, n = _log_uniform(CLUSTERS, rng), _log_uniform(ROWS, rng)
    n_numbers, n_texts = (
        int(rng.integers(low, high + 1)) for low, high in (NUMBERS, TEXTS)
    )
    levels = rng.integers(LEVELS[0], LEVELS[1] + 1, size=n_texts)
    noise = int(rng.integers(NOISE[0], NOISE[1] + 1))
    noise_numbers = int(rng.integers(0, noise + 1))
    noise_levels = rng.integers(LEVELS[0], LEVELS[1] + 1, size=noise - noise_numbers)
    chosen: dict[str, Any] = {
        "overlap": float(rng.choice(OVERLAPS)),
        "imbalance": float(rng.choice(IMBALANCES)),
        "box": float(rng.choice(BOXES)),
    }
    if not with_numbers:
        n_numbers, noise_numbers = 0, 0
        levels = rng.integers(3, LEVELS[1] + 1, size=max(6, n_texts))
        chosen |= {"sharpness": (0.75, SHARPNESS[1]), "overlap": max(OVERLAPS)}
    if not with_texts:
        levels, noise_levels = levels[:0], noise_levels[:0]
    return make_mixed(
        k,
        n_numbers,
        levels.tolist(),
        n_samples=n,
        noise_numbers=noise_numbers,
        noise_levels=noise_levels.tolist(),
        random_state=rng,
        **chosen,
    )


def _log_uniform(bounds: tuple[int, int], rng: np.random.Generator) -> int:
    low, high = np.log(bounds[0]), np.log(bounds[1] + 1)
    return int(np.exp(rng.uniform(low, high)))


def _level_shares(m: int, sharpness: float, rng: np.random.Generator) -> Floats:
    """Return the shares of m levels, one line for each level that may be favoured."""
    common = rng.dirichlet(np.full(m, 2.0))
    shares: Floats = sharpness * np.eye(m) + (1.0 - sharpness) * common
    return shares


def _drawn(shares: Floats, rng: np.random.Generator) -> Ints:
    """Draw a level for every row, each by its own shares."""
    ends = np.cumsum(shares, axis=1)
    at = rng.random((len(shares), 1)) * ends[:, -1:]
    codes: Ints = (at >= ends).sum(axis=1)
    return codes


def _places(
    sigmas: Floats,
    n_numbers: int,
    shares: list[Floats],
    overlap: float,
    box: float,
    rng: np.random.Generator,
) -> _Places:
    """Place clusters one after the other, in a box that grows until all fit."""
    for growth in range(GROWTHS):
        side = box * 1.1**growth
        found = _fill(sigmas, n_numbers, shares, overlap, side, rng)
        if found is not None:
            return found
    raise InputError(
        f"{len(sigmas)} clusters that share at most {overlap} do not fit into these "
        "columns; use fewer clusters, more columns or a larger overlap"
    )


def _fill(
    sigmas: Floats,
    n_numbers: int,
    shares: list[Floats],
    overlap: float,
    side: float,
    rng: np.random.Generator,
) -> _Places | None:
    """Return places in a box of this side, None if one cluster finds none."""
    counts, k = [len(table) for table in shares], len(sigmas)
    placed = _Places(np.empty((k, n_numbers)), np.empty((k, len(counts)), np.int64))
    common = [np.log(np.sqrt(table) @ np.sqrt(table).T) for table in shares]
    for i in range(k):
        drawn = _Places(
            rng.uniform(0.0, side, size=(TRIES, n_numbers)),
            rng.integers(0, counts, size=(TRIES, len(counts))),
        )
        before = _Places(placed.centers[:i], placed.favours[:i])
        logs = shared_numbers(drawn.centers, sigmas[i], before.centers, sigmas[:i])
        for j, table in enumerate(common):
            logs += table[drawn.favours[:, None, j], before.favours[:, j]]
        fits = (logs <= np.log(overlap)).all(axis=1)
        if not fits.any():
            return None
        placed.put(i, drawn, int(fits.argmax()))
    return placed


def shared_numbers(
    centers: Floats, sigma: float, others: Floats, sigmas: Floats
) -> Floats:
    """Return the logarithm of what round clusters of numbers share.

    Parameters
    ----------
    centers : ndarray of shape (m, d)
        Centres of clusters of spread `sigma`.
    sigma : float
    others : ndarray of shape (k, d)
        Centres of clusters of spreads `sigmas`.
    sigmas : ndarray of shape (k,)

    Returns
    -------
    logs : ndarray of shape (m, k)

    Examples
    --------
    >>> centers, others = np.zeros((1, 2)), np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> shared_numbers(centers, 1.0, others, np.ones(2)).tolist()
    [[0.0, -1.0]]
    """
    gaps = ((centers[:, None] - others) ** 2).sum(axis=2)
    both = sigma**2 + sigmas**2
    shapes = 0.5 * centers.shape[1] * np.log(2 * sigma * sigmas / both)
    logs: Floats = shapes - gaps / (4 * both)
    return logs


def _check(
    n_clusters: int, n_numbers: int, levels: list[int], overlap: float, imbalance: float
) -> None:
    """Refuse clusters and columns that no table can have."""
    if n_clusters < 1 or n_numbers + len(levels) < 1:
        raise InputError("a table needs at least one cluster and one column")
    if not all(2 <= m <= len(ascii_lowercase) for m in levels):
        raise InputError("a text column has between 2 and 26 levels")
    if not 0 < overlap < 1:
        raise InputError(f"overlap is {overlap}; use a number between 0 and 1")
    if not imbalance >= 1:
        raise InputError(f"imbalance is {imbalance}; use 1 (equal sizes) or more")


def _check_rows(n: int, n_clusters: int, sharpness: tuple[float, float]) -> None:
    """Refuse too few rows, and shares that are none."""
    if n < SMALLEST * n_clusters:
        raise InputError(
            f"n_samples is {n}; {n_clusters} clusters need at least "
            f"{SMALLEST * n_clusters}"
        )
    if not 0 <= sharpness[0] <= sharpness[1] < 1:
        raise InputError(
            f"sharpness goes from {sharpness[0]} to {sharpness[1]}; use two numbers "
            "from 0 to below 1"
        )

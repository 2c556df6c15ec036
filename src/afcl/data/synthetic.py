# SPDX-License-Identifier: Apache-2.0
"""Gaussian mixtures whose clusters are known: the paper's two, and drawn ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from afcl._typing import Floats, Ints
from afcl.exceptions import InputError

#: Whatever `numpy.random.default_rng` takes.
Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator | None

#: SD1 of the paper: where its clusters lie.
SD1_MEANS = ((1, 1), (1, 5), (5, 5), (5, 1))
#: How many rows each of them has.
SD1_SIZES = (1500, 500, 200, 100)
#: SD2 of the paper: where its clusters lie.
SD2_MEANS = ((10, 1), (1, 10), (1, 1), (9, 11), (11, 10))
#: How many rows each of them has.
SD2_SIZES = (500, 1000, 1000, 200, 200)
#: How each of them spreads.
SD2_COVARIANCES = (
    ((0.9, 0.0), (0.0, 0.9)),
    ((1.0, -0.7), (-0.7, 1.0)),
    ((1.0, 0.3), (0.3, 1.0)),
    ((0.3, 0.0), (0.0, 0.3)),
    ((0.3, 0.0), (0.0, 0.3)),
)

#: Fewest and most clusters of `random_mixture`.
CLUSTERS = (2, 40)
#: Its numbers of features.
FEATURES = (2, 3, 5, 10, 20, 50)
#: Its imbalances.
IMBALANCES = (1.0, 3.0, 20.0)
#: Its separations.
SEPARATIONS = (1.8, 2.5, 4.0)
#: Bounds of a cluster's standard deviation.
SPREAD = (0.6, 1.4)
#: Fewest rows of a cluster.
SMALLEST = 12
#: Draws for one centre before its box counts as full.
TRIES = 100
#: Side of the box that centres are first drawn in, in units of the separation: two
#: clusters of spread 1 are this far apart at least.
BOX = 2.0


def make_sd1(random_state: Seed) -> tuple[Floats, Ints]:
    """Draw SD1: 2300 rows in four round clusters of 1500, 500, 200 and 100.

    Parameters
    ----------
    random_state : int, SeedSequence, Generator or None

    Returns
    -------
    X : ndarray of shape (2300, 2)
    y : ndarray of shape (2300,)
        The cluster of each row, in the order of the sizes.

    Notes
    -----
    The covariance is 0.1 I; the matrix printed in the paper's appendix is none.
    """
    covariances = [0.1 * np.eye(2)] * len(SD1_MEANS)
    return _gaussians(SD1_MEANS, covariances, SD1_SIZES, random_state)


def make_sd2(random_state: Seed) -> tuple[Floats, Ints]:
    """Draw SD2: 2900 rows in five clusters, two of them slanted, two of them close.

    Parameters
    ----------
    random_state : int, SeedSequence, Generator or None

    Returns
    -------
    X : ndarray of shape (2900, 2)
    y : ndarray of shape (2900,)
        The cluster of each row, in the order of the appendix.
    """
    covariances = [np.array(c) for c in SD2_COVARIANCES]
    return _gaussians(SD2_MEANS, covariances, SD2_SIZES, random_state)


def make_mixture(
    n_clusters: int,
    n_features: int,
    *,
    separation: float,
    imbalance: float,
    random_state: Seed,
    n_samples: int | None = None,
    box: float = BOX,
) -> tuple[Floats, Ints]:
    """Draw a mixture of round clusters with a guaranteed separation.

    Parameters
    ----------
    n_clusters, n_features : int
    separation : float
        Two centres are at least `separation` times the sum of their standard
        deviations (uniform between 0.6 and 1.4) apart.
    imbalance : float
        Sizes are log-uniform up to `imbalance` : 1, and at least 12; 1 makes them
        equal.
    random_state : int, SeedSequence, Generator or None
    n_samples : int, optional
        By default the smaller of 5000 and 60 `n_clusters` + 500.
    box : float
        Side of the box the centres are first drawn in, as a multiple of `separation`;
        0 starts where not two of them fit, which packs them as tightly as random draws
        can.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> X, y = make_mixture(3, 2, separation=4, imbalance=1, random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((680, 2), [227, 226, 227])
    """
    n = min(5000, 60 * n_clusters + 500) if n_samples is None else n_samples
    _check_mixture(n_clusters, n_features, separation, imbalance, n)
    rng = np.random.default_rng(random_state)
    sigmas = rng.uniform(*SPREAD, size=n_clusters)
    centers = draw_centers(sigmas, n_features, separation, rng, box)
    shares = np.exp(rng.uniform(0.0, np.log(imbalance), size=n_clusters))
    y = np.repeat(np.arange(n_clusters), whole_sizes(shares, n, SMALLEST))
    X = centers[y] + sigmas[y, None] * rng.standard_normal((n, n_features))
    return _shuffled(X, y, rng)


def random_mixture(random_state: Seed, box: float = BOX) -> tuple[Floats, Ints]:
    """Draw a mixture with drawn parameters.

    The number of clusters is log-uniform in 2 … 40, the number of features one of 2, 3,
    5, 10, 20 and 50, the imbalance 1, 3 or 20, the separation 1.8, 2.5 or 4.

    Parameters
    ----------
    random_state : int, SeedSequence, Generator or None
    box : float
        As in :func:`make_mixture`.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    """
    rng = np.random.default_rng(random_state)
    low, high = CLUSTERS
    return make_mixture(
        int(np.exp(rng.uniform(np.log(low), np.log(high + 1)))),
        int(rng.choice(FEATURES)),
        separation=float(rng.choice(SEPARATIONS)),
        imbalance=float(rng.choice(IMBALANCES)),
        random_state=rng,
        box=box,
    )


def draw_centers(
    sigmas: Floats,
    n_features: int,
    separation: float,
    rng: np.random.Generator,
    box: float = BOX,
) -> Floats:
    """Draw centres that are `separation` times the sum of their spreads apart.

    Parameters
    ----------
    sigmas : ndarray of shape (n_clusters,)
        The spread of each cluster.
    n_features : int
    separation : float
    rng : Generator
    box : float

    Returns
    -------
    centers : ndarray of shape (n_clusters, n_features)

    Notes
    -----
    Centres are uniform in a box; a draw is kept if it is far enough from all earlier
    ones. The box grows by 10 % (and all are drawn anew) until all fit. It starts with
    side `box` times the separation, but never smaller than what two centres need.
    """
    least = 2 * separation * float(sigmas.min()) / np.sqrt(n_features)
    side = max(box * separation, least)
    while True:
        centers = _fill_box(side, sigmas, n_features, separation, rng)
        if centers is not None:
            return centers
        side *= 1.1


def whole_sizes(shares: Floats, n_samples: int, smallest: int) -> Ints:
    """Return whole sizes near the shares that sum up, none below `smallest`.

    Examples
    --------
    >>> whole_sizes(np.array([8.0, 1.0, 1.0]), 20, 4).tolist()
    [12, 4, 4]
    """
    cuts = np.rint(np.cumsum(shares) / shares.sum() * n_samples).astype(np.int64)
    sizes: Ints = np.diff(cuts, prepend=0)
    while sizes.min() < smallest:
        sizes[sizes.argmax()] -= 1
        sizes[sizes.argmin()] += 1
    return sizes


def _fill_box(
    side: float,
    sigmas: Floats,
    n_features: int,
    separation: float,
    rng: np.random.Generator,
) -> Floats | None:
    """Return centres in a box of this side, None if one finds no place."""
    centers = np.empty((sigmas.size, n_features))
    for i, sigma in enumerate(sigmas):
        draws = rng.uniform(0.0, side, size=(TRIES, n_features))
        gaps = np.linalg.norm(draws[:, None] - centers[:i], axis=2)
        fits = (gaps >= separation * (sigma + sigmas[:i])).all(axis=1)
        if not fits.any():
            return None
        centers[i] = draws[fits.argmax()]
    return centers


def _check_mixture(
    n_clusters: int, n_features: int, separation: float, imbalance: float, n: int
) -> None:
    """Refuse parameters that no mixture can have."""
    if n_clusters < 1 or n_features < 1:
        raise InputError("a mixture needs at least one cluster and one feature")
    if not separation > 0:
        raise InputError(f"separation is {separation}; use a number above 0")
    if not imbalance >= 1:
        raise InputError(f"imbalance is {imbalance}; use 1 (equal sizes) or more")
    if n < SMALLEST * n_clusters:
        raise InputError(
            f"n_samples is {n}; {n_clusters} clusters need at least "
            f"{SMALLEST * n_clusters}"
        )


def _gaussians(
    means: Sequence[Sequence[float]],
    covariances: Sequence[Floats],
    sizes: Sequence[int],
    random_state: Seed,
) -> tuple[Floats, Ints]:
    """Draw the given number of rows from each Gaussian, and shuffle them."""
    rng = np.random.default_rng(random_state)
    X = np.vstack(
        [
            rng.multivariate_normal(mean, covariance, size=size, method="cholesky")
            for mean, covariance, size in zip(means, covariances, sizes, strict=True)
        ]
    )
    return _shuffled(X, np.repeat(np.arange(len(sizes)), sizes), rng)


def _shuffled(X: Floats, y: Ints, rng: np.random.Generator) -> tuple[Floats, Ints]:
    order = rng.permutation(X.shape[0])
    return X[order], y[order].astype(np.int64)

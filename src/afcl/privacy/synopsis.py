# SPDX-License-Identifier: Apache-2.0
"""A differentially private synopsis of a client's rows: cells, measured under noise.

Released once, it stands for the rows: whatever is computed from it costs nothing more.

What is promised
    One row more or less changes the distribution of what is said by no more than
    (epsilon, delta) allows, whatever the other rows are and whatever the server knows
    or asks. The number of rows n and the bounds of the box are public; "less" means
    that a row is there and adds nothing to any sum. A row exchanged for any other one
    costs the root of 2 times the mu (see below).
What is released
    A *look* at the rows is K centres, known before, and for each cell of rows nearest
    to a centre c the noisy count N, the noisy sum of D = x - c, cut to the length S of
    the cell, and in the last look the noisy sum of |D|^2. Rows are first cut to the
    unit box.
Why it holds
    A row is in one cell only and there adds (1, D/S, |D|^2/S^2), in units of S and its
    square, each part of length at most 1. So it changes a look by f = sqrt(2) at most,
    the last by sqrt(3). Noise of deviation f/mu in the same units makes a look mu-GDP.
    (Two rows exchanged: sqrt(2) f if their cells differ; if not, 2 without and sqrt(5)
    with the squares, which is no more.) Centres and lengths of a look come from public
    draws and from earlier looks, so L looks of mu/sqrt(L) each are mu-GDP together
    (:mod:`.accountant`). Everything else here only transforms what was measured.
    The key of the noise is drawn from the client's secret and is no function of the
    rows: were it one, equal bytes would tell that two boxes cut the rows alike. Every
    release must be given a generator of its own (:func:`core.protocol.secret_rng`):
    the same noise on other rows could be subtracted.
About floating point
    Parts are cut towards zero and noise is rounded to a grid of 2^-20, so sums are
    exact and what is released is a point of the grid that every table could give: the
    low bits of a sum, by which noise in floating point betrays what it covers (Mironov
    2012), do not exist. The noise is still made of doubles: right to some 2^-50, and
    never beyond 8.3 deviations, which adds about 1e-16 to delta per number. How long it
    takes is not hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.cells import fold
from afcl.core.messages import Cells
from afcl.exceptions import InputError
from afcl.kernels import assign, squared_distances, sums
from afcl.privacy.accountant import mu_of
from afcl.privacy.noise import KEY, Noise

#: L, looks a synopsis is made of, the last one with squares.
LOOKS = 3
#: Rows a cell should hold per unit of noise: fewer, and noise hides its mean.
ROWS_PER_CELL = 12
#: Cells at least: one would say nothing of clusters.
LEAST_CELLS = 2
#: Cells at most: every one takes its share of noise.
MOST_CELLS = 40
#: mu beyond which more of it buys no more cells.
MOST_MU = 2.0
#: What is released lies on this grid.
GRID = 2.0**-20
#: Cells that hold fewer rows than so many deviations of the noise are dead.
DEAD = 2.0
#: Deviation of a respawned centre from the one it stands beside.
BESIDE = 0.1
#: S in the first look, when nothing is known: half the box, or from 4 features on ...
FIRST_REACH = 0.5
#: ... this times the root of the number of features, as distances grow with it.
FIRST_REACH_PER_ROOT = 0.265
#: S in later looks, in distances to the next centre: most rows of a cell are nearer.
REACH_TO_NEXT = 1.5
#: S at least, times the root of the number of features: centres may all but coincide.
LEAST_REACH_PER_ROOT = 0.05


@dataclass(frozen=True, slots=True)
class _Look:
    """Noisy totals of the cells around some centres, with what is known of the noise.

    `counts`, `shifts` and `squares` are sums of 1, D and |D|^2 per cell (without
    squares: zeros); `reaches` is S; `deviation` is that of the noise in units of S.
    """

    centers: Floats
    reaches: Floats
    counts: Floats
    shifts: Floats
    squares: Floats
    deviation: float

    def alive(self) -> Bools:
        """Return which cells hold more than the noise can make up."""
        # An empty cell that noise makes look full would put rows where nobody has any.
        found: Bools = self.counts > max(DEAD * self.deviation, 0.5)
        return found


def release(
    X: Floats, epsilon: float, delta: float, smallest: int, rng: np.random.Generator
) -> Cells:
    """Return the synopsis of a client's rows, (epsilon, delta)-DP for each of them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows in units of the box; what lies outside is moved to its wall.
    epsilon, delta : float
    smallest : int
        Rows a cell holds at least.
    rng : Generator
        Draws from the client's secret; the same secret releases the same bytes.

    Returns
    -------
    cells : Cells
        Counts that sum up to n, means in the box, scatters the box allows.
    """
    _check_rows(X, smallest)
    n, d = X.shape
    # Looks add up as the root of their squares do (Dong, Roth and Su 2022).
    mu = mu_of(epsilon, delta) / math.sqrt(LOOKS)
    # One row outside the box could move a sum by more than the noise covers.
    rows = np.clip(X, 0.0, 1.0)
    noise = Noise(rng.bytes(KEY))
    # So many that a cell's rows stand out of its noise: with little mu, few cells.
    wanted = n * min(mu, MOST_MU) / ROWS_PER_CELL
    k = int(np.clip(wanted, LEAST_CELLS, MOST_CELLS))
    # Not from the rows: where the first centres lie must not tell anything.
    centers = noise.uniform((k, d))
    reaches = np.full(k, _reach(d))
    for _ in range(LOOKS - 1):
        centers = _moved(_look(rows, centers, reaches, mu, noise, False), noise)
        reaches = _reaches(centers)
    # Squares only once: every kind of sum costs a share of the noise.
    return _cells(_look(rows, centers, reaches, mu, noise, True), n, smallest)


def noisy_cells(
    X: Floats, centers: Floats, mu: float, smallest: int, rng: np.random.Generator
) -> Cells:
    """Return a client's cells around given centres, mu-GDP for each of its rows.

    One look with squares, for messages that are private one by one. The promise does
    not depend on who chose the centres.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows in units of the box.
    centers : ndarray of shape (k, d)
    mu : float
        What the message may cost, in Gaussian differential privacy.
    smallest : int
    rng : Generator

    Returns
    -------
    cells : Cells
        As of :func:`release`.
    """
    _check_rows(X, smallest)
    if not (mu > 0 and math.isfinite(mu)):
        raise InputError(f"mu is {mu}: it must be finite and above 0")
    # Centres are a stranger's: the promise holds wherever they lie, reaches must stay
    # small.
    rows, centers = np.clip(X, 0.0, 1.0), np.clip(centers, 0.0, 1.0)
    noise = Noise(rng.bytes(KEY))
    look = _look(rows, centers, _reaches(centers), mu, noise, True)
    return _cells(look, X.shape[0], smallest)


def _check_rows(X: Floats, smallest: int) -> None:
    n = X.shape[0]
    if n < max(1, smallest):
        raise InputError(
            f"this client has {n} {'row' if n == 1 else 'rows'}, fewer than min_cell = "
            f"{smallest}: merge it with another client or lower min_cell"
        )
    if not np.isfinite(X).all():
        raise InputError(
            "rows with missing or infinite values cannot be measured: drop them"
        )


# ------------------------------------------------------- what touches the rows


def _look(
    rows: Floats,
    centers: Floats,
    reaches: Floats,
    mu: float,
    noise: Noise,
    with_squares: bool,
) -> _Look:
    """Measure the cells around the centres, mu-GDP; see the head of this module."""
    k, d = centers.shape
    # A row moves each of two or three kinds of sums by S of its kind: all by the root
    # of that.
    deviation = math.sqrt(3 if with_squares else 2) / mu
    labels, _ = assign(rows, centers)
    # Multiples of the grid, added exactly: last bits of floats could tell rows apart
    # (Mironov 2012).
    counts, shifts, squares = _parts(rows, labels, centers, reaches)
    counts = counts + _on_grid(deviation * noise.normal((k,)))
    shifts = shifts + _on_grid(deviation * reaches[:, None] * noise.normal((k, d)))
    if with_squares:
        squares = squares + _on_grid(deviation * reaches**2 * noise.normal((k,)))
    else:
        squares = np.zeros(k)
    return _Look(centers, reaches, counts, shifts, squares, deviation)


def _parts(
    rows: Floats, labels: Ints, centers: Floats, reaches: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the exact sums of 1, D and |D|^2, every part of a row on the grid."""
    away = rows - centers[labels]
    length = np.sqrt((away * away).sum(axis=1))
    reach = reaches[labels]
    # A hair less than S, so that no rounding of the quotient can exceed it.
    kept = np.minimum(1.0, reach / np.where(length > 0, length, 1.0)) * (1 - 2.0**-40)
    # Towards zero: rounding up could make a part longer than S.
    cut = np.trunc(away * kept[:, None] / GRID)
    square = np.floor(np.minimum(length, reach) ** 2 * (1 - 2.0**-40) / GRID)
    ones = np.ones(rows.shape[0])
    counts, shifts = sums(cut, ones, labels, centers.shape[0])
    _, squares = sums(square[:, None], ones, labels, centers.shape[0])
    return counts, shifts * GRID, squares[:, 0] * GRID


def _on_grid(values: Floats) -> Floats:
    rounded: Floats = np.rint(values / GRID) * GRID
    return rounded


# ---------------------------------------- what only transforms what was measured


def _reach(d: int) -> float:
    """S where nothing is known yet."""
    return max(FIRST_REACH, FIRST_REACH_PER_ROOT * math.sqrt(d))


def _reaches(centers: Floats) -> Floats:
    """S of every cell, from how far away the next centre is."""
    k, d = centers.shape
    gaps = squared_distances(centers, centers)
    # Every centre is at distance 0 from itself.
    gaps[np.arange(k), np.arange(k)] = np.inf
    least = LEAST_REACH_PER_ROOT * math.sqrt(d)
    wanted = REACH_TO_NEXT * np.sqrt(gaps.min(axis=1))
    reaches: Floats = np.clip(wanted, least, _reach(d))
    return reaches


def _moved(look: _Look, noise: Noise) -> Floats:
    """Move centres to their cells' means; dead ones respawn beside heavy ones."""
    alive = np.flatnonzero(look.alive())
    if not alive.size:
        return look.centers
    d = look.centers.shape[1]
    centers = look.centers.copy()
    centers[alive] = _means(look, alive)
    # A centre that nothing is near to would be looked at again for nothing.
    dead = np.setdiff1d(np.arange(centers.shape[0]), alive)
    heavy = np.cumsum(look.counts[alive])
    drawn = np.searchsorted(heavy, noise.uniform((dead.size,)) * heavy[-1], "right")
    # Where many rows are: that is where one cell most likely mixes several.
    beside = alive[np.minimum(drawn, alive.size - 1)]
    spread = BESIDE * noise.normal((dead.size, d))
    centers[dead] = np.clip(centers[beside] + spread, 0.0, 1.0)
    return centers


def _means(look: _Look, cells: Ints) -> Floats:
    """Means of the cells, each as far from its centre as the noise lets one believe.

    James and Stein's estimate: a shift is shortened by the share of its squared length
    that noise alone would give it.
    """
    counts = np.maximum(look.counts[cells], 1.0)
    shifts = look.shifts[cells] / counts[:, None]
    length = (shifts * shifts).sum(axis=1)
    expected = shifts.shape[1] * (look.deviation * look.reaches[cells] / counts) ** 2
    kept = np.maximum(0.0, 1.0 - expected / np.where(length > 0, length, 1.0))
    means: Floats = np.clip(look.centers[cells] + kept[:, None] * shifts, 0.0, 1.0)
    return means


def _variances(look: _Look, cells: Ints, means: Floats) -> Floats:
    """Mean squared radii of the cells, the noisier the nearer to what is usual.

    The usual is the mean of all cells by their precision, not below its own error; the
    deviation of true radii from it is taken to be as large as it is.
    """
    counts = np.maximum(look.counts[cells], 1.0)
    shifts = means - look.centers[cells]
    found = look.squares[cells] / counts - (shifts * shifts).sum(axis=1)
    error = (look.deviation * look.reaches[cells] ** 2 / counts) ** 2
    precision = float((1 / error).sum())
    usual = max(float((found / error).sum()) / precision, precision**-0.5)
    radii = (found * usual**2 + usual * error) / (usual**2 + error)
    most = (means * (1.0 - means)).sum(axis=1)  # half of the rows at either wall
    variances: Floats = np.clip(radii, 0.0, most)
    return variances


def _cells(look: _Look, n: int, smallest: int) -> Cells:
    """Return the living cells as a message: n rows in all, none of too few."""
    cells = np.flatnonzero(look.alive())
    if not cells.size:
        # A message without any cell would be refused: one stands for all rows.
        cells = np.array([int(look.counts.argmax())])
    means = _means(look, cells)
    # The number of rows is public: the site has announced it.
    counts = _whole(np.maximum(look.counts[cells], 1.0), n)
    scatters = counts * _variances(look, cells, means)
    held = counts > 0
    return fold(Cells(counts[held], means[held], scatters[held]), smallest)


def _whole(weights: Floats, n: int) -> Ints:
    """Return whole numbers near the weights' shares of n that sum up to it."""
    shares = weights / weights.sum() * n
    counts: Ints = np.floor(shares).astype(np.int64)
    # The largest remainders first, so that nothing is lost and nothing drawn.
    order = np.argsort(counts - shares, kind="stable")
    counts[order[: n - int(counts.sum())]] += 1
    return counts

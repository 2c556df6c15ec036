# SPDX-License-Identifier: Apache-2.0
"""Hot loops, twice: NumPy to be read, Numba to be fast. The only import point.

The two give the same bits (of wide tables as long as the work is small, see
:mod:`.tiles`), so the choice is one of speed only: small problems run in
NumPy and never wait for a compiler, large ones and the sequential passes run
compiled. The environment variable ``AFCL_KERNELS`` (``auto``, ``reference`` or
``native``) overrides the choice.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

from afcl._typing import Floats, Ints
from afcl.exceptions import InputError
from afcl.kernels import reference
from afcl.parts import BLOCK as BLOCK

__all__ = [
    "assign",
    "compete",
    "crowding",
    "intensities",
    "interact",
    "interact_affine",
    "interact_matlab",
    "join_seeds",
    "levels",
    "lloyd",
    "microaggregate",
    "plus_plus",
    "silhouettes",
    "squared_distances",
    "sums",
    "tally",
    "ward",
]

CHOICES = ("auto", "reference", "native")
#: Multiply-adds from which a pass is worth the compiled kernel, the compiler included,
#: and once it is loaded.
LARGE, LARGE_LOADED = 1 << 20, 1 << 12
#: Rows times seeds from which a sequential (row by row) pass is.
LARGE_SEQUENTIAL = 1 << 9


def _backend(work: int, large: int) -> ModuleType:
    """Return the module that should do this much work."""
    choice = os.environ.get("AFCL_KERNELS", "auto")
    if choice not in CHOICES:
        raise InputError(
            f"AFCL_KERNELS is {choice!r}: set it to {', '.join(CHOICES)} or not at all"
        )
    if _loaded():
        large = min(large, LARGE_LOADED)
    if choice == "reference" or (choice == "auto" and work < large):
        return reference
    from afcl.kernels import native

    return native


def _loaded() -> bool:
    """Whether this process has the compiled kernels already."""
    return "afcl.kernels.native" in sys.modules


def _work(X: Floats, centers: Floats) -> int:
    return int(X.shape[0] * centers.shape[0] * max(1, X.shape[1]))


def squared_distances(X: Floats, centers: Floats) -> Floats:
    """Squared Euclidean distance of every row to every centre, (n, k)."""
    module = _backend(_work(X, centers), LARGE)
    result: Floats = module.squared_distances(X, centers)
    return result


def assign(X: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Nearest centre of every row (lowest index on ties) and its squared distance."""
    module = _backend(_work(X, centers), LARGE)
    result: tuple[Ints, Floats] = module.assign(X, centers)
    return result


def sums(X: Floats, weights: Floats, labels: Ints, k: int) -> tuple[Floats, Floats]:
    """Weight (k,) and weighted coordinate sum (k, d) of every label."""
    module = _backend(X.size, LARGE)
    result: tuple[Floats, Floats] = module.sums(X, weights, labels, k)
    return result


def lloyd(
    X: Floats, weights: Floats, centers: Floats, max_iter: int
) -> tuple[Floats, Ints]:
    """Weighted Lloyd from `centers`; see :func:`reference.lloyd`."""
    module = _backend(_work(X, centers), LARGE)
    result: tuple[Floats, Ints] = module.lloyd(X, weights, centers, max_iter)
    return result


def plus_plus(X: Floats, weights: Floats, draws: Floats) -> Ints:
    """Pick rows by weighted k-means++; see :func:`reference.plus_plus`."""
    module = _backend(X.size * draws.shape[0], LARGE)
    result: Ints = module.plus_plus(X, weights, draws)
    return result


def tally(
    X: Floats,
    centers: Floats,
    bounds: Ints,
    scores: Ints,
    spreads: Floats,
    sizes: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """One pass for several sets of centres; see :func:`reference.tally`."""
    module = _backend(_work(X, centers), LARGE)
    result: tuple[Floats, Floats, Floats, Floats] = module.tally(
        X, centers, bounds, scores, spreads, sizes
    )
    return result


def silhouettes(
    X: Floats, variances: Floats, centers: Floats, spreads: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Simplified, moment and squared moment silhouette of every row."""
    module = _backend(_work(X, centers), LARGE)
    result: tuple[Floats, Floats, Floats] = module.silhouettes(
        X, variances, centers, spreads, counts
    )
    return result


def crowding(radii: Floats, means: Floats) -> float:
    """Add up every cluster's worst overlap; see :func:`reference.crowding`."""
    module = _backend(means.size * means.shape[0], LARGE)
    result: float = module.crowding(radii, means)
    return result


def ward(counts: Floats, means: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """Join the cheapest pair until one is left; see :func:`reference.ward`."""
    module = _backend(means.size * means.shape[0], LARGE)
    result: tuple[Ints, Ints, Floats, Floats] = module.ward(counts, means)
    return result


def levels(
    X: Floats,
    weights: Floats,
    scatters: Floats,
    centers: Floats,
    sizes: Floats,
    left: Ints,
    right: Ints,
    most: int,
    max_iter: int,
) -> list[tuple[Floats, Floats, Floats, float, float]]:
    """Every level of a path, polished and scored; see :func:`reference.levels`."""
    module = _backend(X.size * min(most, centers.shape[0]), LARGE)
    result: list[tuple[Floats, Floats, Floats, float, float]] = module.levels(
        X, weights, scatters, centers, sizes, left, right, most, max_iter
    )
    return result


def join_seeds(counts: Ints, seeds: Floats, smallest: int) -> Ints:
    """Join seeds to groups of `smallest` rows; see :func:`reference.join_seeds`."""
    module = _backend(seeds.size * seeds.shape[0], LARGE)
    result: Ints = module.join_seeds(counts, seeds, smallest)
    return result


def compete(X: Floats, seeds: Floats, conscience: bool) -> Ints:
    """Winner of every row in order, Eqs. (2)-(4)."""
    module = _backend(X.shape[0] * seeds.shape[0], LARGE_SEQUENTIAL)
    result: Ints = module.compete(X, seeds, conscience)
    return result


def intensities(
    X: Floats, seeds: Floats, winners: Ints, rates: Floats, pulls: Floats
) -> tuple[Ints, Ints, Floats, Floats]:
    """Every row's pull (`pulls` is OUT) and the cells, Eqs. (5)-(7)."""
    module = _backend(X.shape[0] * seeds.shape[0], LARGE_SEQUENTIAL)
    result: tuple[Ints, Ints, Floats, Floats] = module.intensities(
        X, seeds, winners, rates, pulls
    )
    return result


def interact(
    seeds: Floats,
    sent: Floats,
    owners: Ints,
    intensities: Floats,
    weight: float,
    rate: float,
    current: bool,
) -> None:
    """One client's uploads pull the seeds, Eqs. (13)-(14); `seeds` is INOUT."""
    module = _backend(owners.shape[0] * seeds.shape[0], LARGE_SEQUENTIAL)
    module.interact(seeds, sent, owners, intensities, weight, rate, current)


def interact_affine(
    seeds: Floats, owners: Ints, intensities: Floats, weight: float, rate: float
) -> tuple[Ints, Floats]:
    """Count every seed's pulls, with their places; see :mod:`afcl.core.paper.pulls`."""
    module = _backend(owners.shape[0] * seeds.shape[0], LARGE_SEQUENTIAL)
    result: tuple[Ints, Floats] = module.interact_affine(
        seeds, owners, intensities, weight, rate
    )
    return result


def interact_matlab(seeds: Floats, rows: Floats, steps: Floats, near: float) -> None:
    """All seeds compete for every rebuilt row, with conscience; `seeds` is INOUT."""
    module = _backend(rows.shape[0] * seeds.shape[0], LARGE_SEQUENTIAL)
    module.interact_matlab(seeds, rows, steps, near)


def microaggregate(X: Floats, smallest: int) -> Ints:
    """Group rows by MDAV; see :func:`reference.microaggregate`."""
    module = _backend(X.size * X.shape[0] // smallest, LARGE)
    result: Ints = module.microaggregate(X, smallest)
    return result

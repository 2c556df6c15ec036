# SPDX-License-Identifier: Apache-2.0
"""Hot loops, twice: NumPy to be read, Numba to be fast. The only import point.

The two give the same bits, so the choice is one of speed only: small problems run in
NumPy and never wait for a compiler, large ones and the sequential passes run
compiled. The environment variable ``AFCL_KERNELS`` (``auto``, ``reference`` or
``native``) overrides the choice.
"""

from __future__ import annotations

import os
from types import ModuleType

from afcl._typing import Floats, Ints
from afcl.exceptions import InputError
from afcl.kernels import reference

__all__ = [
    "assign",
    "compete",
    "interact",
    "interact_matlab",
    "lloyd",
    "microaggregate",
    "silhouettes",
    "squared_distances",
    "sums",
]

CHOICES = ("auto", "reference", "native")
#: Multiply-adds from which a pass is worth the compiled kernel.
LARGE = 1 << 20
#: Rows times seeds from which a sequential (row by row) pass is.
LARGE_SEQUENTIAL = 1 << 9


def _backend(work: int, large: int) -> ModuleType:
    """Return the module that should do this much work."""
    choice = os.environ.get("AFCL_KERNELS", "auto")
    if choice not in CHOICES:
        raise InputError(
            f"AFCL_KERNELS is {choice!r}: set it to {', '.join(CHOICES)} or not at all"
        )
    if choice == "reference" or (choice == "auto" and work < large):
        return reference
    from afcl.kernels import native

    return native


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


def silhouettes(
    X: Floats, variances: Floats, centers: Floats, spreads: Floats, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Simplified, moment and squared moment silhouette of every row."""
    module = _backend(_work(X, centers), LARGE)
    result: tuple[Floats, Floats, Floats] = module.silhouettes(
        X, variances, centers, spreads, counts
    )
    return result


def compete(X: Floats, seeds: Floats, conscience: bool) -> Ints:
    """Winner of every row in order, Eqs. (2)-(4)."""
    module = _backend(X.shape[0] * seeds.shape[0], LARGE_SEQUENTIAL)
    result: Ints = module.compete(X, seeds, conscience)
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


def interact_matlab(seeds: Floats, rows: Floats, steps: Floats, near: float) -> None:
    """All seeds compete for every rebuilt row, with conscience; `seeds` is INOUT."""
    module = _backend(rows.shape[0] * seeds.shape[0], LARGE_SEQUENTIAL)
    module.interact_matlab(seeds, rows, steps, near)


def microaggregate(X: Floats, smallest: int) -> Ints:
    """Group rows by MDAV; see :func:`reference.microaggregate`."""
    module = _backend(X.size * X.shape[0] // smallest, LARGE)
    result: Ints = module.microaggregate(X, smallest)
    return result

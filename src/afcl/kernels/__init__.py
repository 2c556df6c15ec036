# SPDX-License-Identifier: Apache-2.0
"""Hot loops, twice: NumPy to be read, Numba to be fast. The only import point.

The two give the same bits (of wide tables as long as the work is small, see
:mod:`.tiles`), so the choice is one of speed only: small problems run in
NumPy and never wait for a compiler, large ones and the sequential passes run
compiled. The environment variable ``AFCL_KERNELS`` (``auto``, ``reference`` or
``native``) overrides the choice. Where there is no Numba, all of it runs in NumPy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from types import ModuleType
from typing import ParamSpec, TypeVar

from afcl.exceptions import InputError
from afcl.kernels import (
    reference,
    reference_nests,
    reference_paper,
    reference_picks,
    reference_ways,
)
from afcl.kernels.sweeping import nothing_swept
from afcl.parts import BLOCK as BLOCK

__all__ = [
    "assign",
    "compete",
    "crowding",
    "halved",
    "intensities",
    "interact",
    "interact_affine",
    "interact_matlab",
    "join_seeds",
    "levels",
    "lloyd",
    "microaggregate",
    "nearest_inside",
    "plus_plus",
    "scaled",
    "shortest_ways",
    "silhouettes",
    "squared_distances",
    "sums",
    "sums_around",
    "tally",
    "valleys",
    "ward",
    "ward_of_distances",
]

CHOICES = ("auto", "reference", "native")
#: Multiply-adds from which a pass is worth the compiled kernel, the compiler included.
LARGE = 1 << 20
#: Multiply-adds from which it is once the compiled kernels are loaded.
LARGE_LOADED = 1 << 12
#: Rows times seeds from which a sequential (row by row) pass is.
LARGE_SEQUENTIAL = 1 << 9

P = ParamSpec("P")
R = TypeVar("R")


def _either(
    function: Callable[P, R], work: Callable[..., int], sequential: bool = False
) -> Callable[P, R]:
    """Return a kernel that runs in NumPy or compiled, as suits its work.

    Parameters
    ----------
    function
        The kernel in NumPy. Its compiled twin has the same name and signature.
    work
        How much there is to do, by the kernel's first arguments.
    sequential
        Whether `work` is in rows times seeds of a pass that goes row by row.
    """
    module, name = sys.modules[function.__module__], function.__name__

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        large = LARGE_SEQUENTIAL if sequential else LARGE
        is_large = _is_large(work(*args, **kwargs), large)
        chosen = (_native() if is_large else None) or module
        kernel: Callable[P, R] = getattr(chosen, name)
        return kernel(*args, **kwargs)

    run.__module__ = __name__  # where pickle finds it, and readers
    return run


def _is_large(work: int, large: int) -> bool:
    """Whether this much work is done by the compiled kernels."""
    choice = os.environ.get("AFCL_KERNELS", "auto")
    if choice not in CHOICES:
        raise InputError(
            f"AFCL_KERNELS is {choice!r}: set it to {', '.join(CHOICES)} or not at all"
        )
    if _loaded():
        large = min(large, LARGE_LOADED)
    return choice == "native" or (choice == "auto" and work >= large)


@cache
def _native() -> ModuleType | None:
    """Return the compiled kernels, which are loaded late: Numba takes its time.

    None where there is no Numba, as on a machine that was set up for a GPU alone.
    """
    try:
        with nothing_swept():
            from afcl.kernels import native
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("numba", "llvmlite"):
            raise
        return None
    return native


def _loaded() -> bool:
    """Whether this process has the compiled kernels already."""
    return "afcl.kernels.native" in sys.modules


squared_distances = _either(
    reference.squared_distances, lambda X, centers: X.size * centers.shape[0]
)
assign = _either(reference.assign, lambda X, centers: X.size * centers.shape[0])
sums = _either(reference.sums, lambda X, *_: X.size)
lloyd = _either(
    reference.lloyd, lambda X, weights, centers, *_: X.size * centers.shape[0]
)
plus_plus = _either(
    reference_picks.plus_plus, lambda X, weights, draws: X.size * draws.shape[0]
)
scaled = _either(reference.scaled, lambda X, *_: X.size)
tally = _either(reference.tally, lambda X, centers, *_, **__: X.size * centers.shape[0])
silhouettes = _either(
    reference.silhouettes, lambda X, variances, centers, *_: X.size * centers.shape[0]
)
valleys = _either(
    reference.valleys, lambda X, weights, centers: X.size * centers.shape[0]
)
crowding = _either(reference.crowding, lambda radii, means: means.size * means.shape[0])
ward = _either(reference.ward, lambda counts, means: means.size * means.shape[0])
levels = _either(
    reference.levels,
    lambda cells, seeds, _, most, __: cells[0].size * min(most, seeds[0].shape[0]),
)
join_seeds = _either(
    reference.join_seeds, lambda counts, seeds, _: seeds.size * seeds.shape[0]
)
microaggregate = _either(
    reference.microaggregate, lambda X, smallest: X.size * X.shape[0] // smallest
)
nearest_inside = _either(
    reference_nests.nearest_inside,
    # Loops over few rows of each of many parents are slow in NumPy.
    lambda X, parents, starts, seeds: X.size * seeds.shape[0],
)
halved = _either(
    reference_nests.halved,
    lambda X, weights, labels, upper, max_iter: 2 * X.size * max_iter,
)
sums_around = _either(reference_nests.sums_around, lambda X, *_, **__: X.size)
shortest_ways = _either(
    reference_ways.shortest_ways, lambda steps: steps.size * steps.shape[0]
)
ward_of_distances = _either(
    reference_ways.ward_of_distances, lambda counts, squares: squares.size
)
compete = _either(
    reference_paper.compete,
    lambda X, seeds, _: X.shape[0] * seeds.shape[0],
    sequential=True,
)
intensities = _either(
    reference_paper.intensities,
    lambda X, seeds, *_: X.shape[0] * seeds.shape[0],
    sequential=True,
)
interact = _either(
    reference_paper.interact,
    lambda seeds, sent, pulls, *_: pulls[0].shape[0] * seeds.shape[0],
    sequential=True,
)
interact_affine = _either(
    reference_paper.interact_affine,
    lambda seeds, owners, *_: owners.shape[0] * seeds.shape[0],
    sequential=True,
)
interact_matlab = _either(
    reference_paper.interact_matlab,
    lambda seeds, rows, *_: rows.shape[0] * seeds.shape[0],
    sequential=True,
)

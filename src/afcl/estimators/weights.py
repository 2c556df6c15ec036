# SPDX-License-Identifier: Apache-2.0
"""Rows that stand for several: `sample_weight` at levels where it can be kept honest.

A weight is a whole number of rows. What a client tells is told of so many copies of
each row, and the smallest group it may describe grows by the largest weight there is:
a group of `min_cell` times that many copies holds `min_cell` different rows at least,
and none of them makes more than the `min_cell`-th part of it. So a weight never counts
towards `min_cell`, and no message looks different.
See docs/decisions/0046-soft-memberships-and-weights.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from afcl._typing import Ints
from afcl.exceptions import InputError
from afcl.privacy.levels import parse_level

#: Copies of rows that a fit may have in memory.
MOST_COPIES = 100_000_000
#: What to do about a level that takes no weights.
ADVICE = "name privacy='summary' or 'grouped(5)', or leave sample_weight out"


def weights_of(sample_weight: ArrayLike | None, n: int) -> Ints | None:
    """Return how many rows each row stands for; None: for itself, all of them."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise InputError(
            f"sample_weight.shape == {weights.shape}, expected ({n},): a number a row"
        )
    whole = np.isfinite(weights) & (weights >= 0) & (np.rint(weights) == weights)
    if not whole.all():
        raise InputError(
            "sample_weight must be whole numbers from 0 on: how many rows each row "
            "stands for"
        )
    if not weights.any():
        raise InputError("sample_weight is zero for every row: nobody would have a say")
    if weights.sum() > MOST_COPIES:
        raise InputError(
            f"sample_weight adds up to {weights.sum():,.0f} rows, more than "
            f"{MOST_COPIES:,}: divide the weights"
        )
    counts: Ints = weights.astype(np.int64)
    return None if (counts == 1).all() else counts


def with_copies(options: dict[str, Any], heaviest: int) -> dict[str, Any]:
    """Return a method's options for copies of rows, or refuse its level.

    Parameters
    ----------
    options : dict
        With the privacy level the run has.
    heaviest : int
        The most copies of a row.
    """
    if heaviest == 1:
        return options
    level = options.get("privacy")
    if level is None or "min_cell" not in options:
        raise InputError(
            "sample_weight belongs to AFCL's default preset: leave it out here"
        )
    parsed = parse_level(level)
    if parsed.private or parsed.secure:
        raise InputError(f"sample_weight cannot be kept at {level}: {ADVICE}")
    wider = {**options, "min_cell": options["min_cell"] * heaviest}
    if parsed.group > 1:
        wider["privacy"] = str(replace(parsed, group=parsed.group * heaviest))
    return wider

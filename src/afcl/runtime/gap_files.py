# SPDX-License-Identifier: Apache-2.0
"""How many cells had no value, and of how many that was mended, as results say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.data.features import Feature


def gaps_in(
    rows: Floats, columns: Sequence[str], features: Sequence[Feature]
) -> dict[str, int]:
    """Return how many cells of every column have no value; a category is one column.

    Examples
    --------
    >>> rows = np.array([[1.0, np.nan, np.nan], [2.0, 0.0, 1.0]])
    >>> sex = Feature("sex", ("f", "m"))
    >>> gaps_in(rows, ["age", *sex.columns], [sex])
    {'sex': 1}
    """
    holes = np.isnan(rows).sum(axis=0)
    return {name: n for name, n in _by_column(holes, columns, features).items() if n}


def describe_gaps(
    gaps: Mapping[str, int],
    filled: Ints | None,
    columns: Sequence[str],
    features: Sequence[Feature],
) -> dict[str, Any]:
    """Return what ``result.json`` says of a site's cells without a value.

    Examples
    --------
    >>> describe_gaps({"age": 3}, np.array([2, 0]), ["age", "weight"], [])
    {'gaps': {'age': {'cells': 3, 'filled': 2}}}
    """
    mended = {} if filled is None else _by_column(filled, columns, features)
    known = {
        name: {"cells": n, "filled": mended.get(name, 0)}
        for name, n in gaps.items()
        if n
    }
    return {"gaps": known} if known else {}


def _by_column(
    counts: Ints, columns: Sequence[str], features: Sequence[Feature]
) -> dict[str, int]:
    """Return counts of cells by column of the files: of a category any column will do.

    A row has all columns of a category, or none.
    """
    first = {each.columns[0]: each.name for each in features}
    others = {name for each in features for name in each.columns[1:]}
    return {
        first.get(name, name): int(n)
        for name, n in zip(columns, counts.tolist(), strict=True)
        if name not in others
    }

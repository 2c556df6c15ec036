# SPDX-License-Identifier: Apache-2.0
"""Cells of categories as numbers: a column of 0 and 1 for every level, or ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.data.features import ALIASES, TRUE_OR_FALSE, Feature, level_key


class UnknownLevel(Exception):
    """A cell is none of the levels that have an order; its row counts from 0."""

    def __init__(self, row: int, cell: Any) -> None:
        super().__init__(row, cell)
        self.row, self.cell = row, cell


def encoded(values: Sequence[Any], feature: Feature) -> Floats:
    """Return the columns of a category: ranks or indicators; NaN: no value.

    Raises
    ------
    UnknownLevel
        If levels have an order and a value is none of them.

    Examples
    --------
    >>> pain = Feature("pain", ("none", "some", "much"), ordered=True)
    >>> encoded(["much", None, "Some"], pain).ravel()
    array([ 2., nan,  1.])
    """
    if not feature.ordered:
        return indicators(values, feature)
    ranks = {level_key(level): float(i) for i, level in enumerate(feature.levels)}
    found = {value: ranks.get(level_key(value)) for value in set(values) - {None}}
    unknown = {value for value, rank in found.items() if rank is None}
    if unknown:
        row = next(i for i, value in enumerate(values) if value in unknown)
        raise UnknownLevel(row, values[row])
    column = [found[value] if value is not None else np.nan for value in values]
    return np.array(column, dtype=np.float64)[:, None]


def indicators(values: Sequence[Any], feature: Feature) -> Floats:
    """Return the columns of a category: 1 for a row's level, else 0; NaN: no value.

    Examples
    --------
    >>> indicators(["red", None, "green"], Feature("colour", ("blue", "red")))
    array([[ 0.,  1.],
           [nan, nan],
           [ 0.,  0.]])
    """
    return spread_out(places_of(values, feature), len(feature.levels))


def places_of(values: Sequence[Any], feature: Feature) -> Floats:
    """Return the place of every row's level; -1: none of them, NaN: no value.

    Examples
    --------
    >>> places_of(["red", None, "green"], Feature("colour", ("blue", "red")))
    array([ 1., nan, -1.])
    """
    places = {level_key(level): i for i, level in enumerate(feature.levels)}
    if tuple(places) == TRUE_OR_FALSE:
        places |= {alias: places[level] for alias, level in ALIASES.items()}
    found = {value: float(places.get(level_key(value), -1)) for value in set(values)}
    found[None] = np.nan
    return np.array([found[value] for value in values], dtype=np.float64)


def spread_out(places: Floats, width: int) -> Floats:
    """Return a column for each of so many places: 1 where a row is, else 0.

    Examples
    --------
    >>> spread_out(np.array([1.0, np.nan, -1.0]), 2)
    array([[ 0.,  1.],
           [nan, nan],
           [ 0.,  0.]])
    """
    columns: Floats = (places[:, None] == np.arange(width)).astype(np.float64)
    columns[np.isnan(places)] = np.nan
    return columns

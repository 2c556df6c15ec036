# SPDX-License-Identifier: Apache-2.0
"""Columns that are levels of a category: their centres are shares of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afcl.reliance import percent


def categories_of(result: dict[str, Any]) -> dict[str, str]:
    """Return the category of every column that is a level of one.

    Examples
    --------
    >>> categories_of({"features": [{"name": "sex", "levels": ["f", "m"]}]})
    {'sex=f': 'sex', 'sex=m': 'sex'}
    """
    return {
        f"{feature['name']}={level}": str(feature["name"])
        for feature in result.get("features") or ()
        for level in feature["levels"]
    }


def times_of(result: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return, for parts of dates that go round, where the centre of every cluster is.

    Examples
    --------
    >>> seen = {"name": "seen", "levels": ["month"], "parts": True}
    >>> times_of({"features": [seen | {"centers": {"month": ["May (90%)"]}}]})
    {'seen month': ('May (90%)',)}
    """
    return {
        f"{feature['name']} {part}": tuple(map(str, where))
        for feature in result.get("features") or ()
        if feature.get("parts")
        for part, where in (feature.get("centers") or {}).items()
    }


def n_columns(columns: Sequence[str], categories: Mapping[str, str]) -> int:
    """Return how many columns the files have: a category is one.

    Examples
    --------
    >>> n_columns(["age", "sex=f", "sex=m"], {"sex=f": "sex", "sex=m": "sex"})
    2
    """
    return len({categories.get(name, name) for name in columns})


def share(value: float) -> str:
    """Return a centre of such a column; sums over sites are rounded a little.

    Examples
    --------
    >>> share(0.5642), share(1.0003), share(-0.0001)
    ('56%', '100%', '0%')
    """
    return percent(min(1.0, max(0.0, value)))

# SPDX-License-Identifier: Apache-2.0
"""Columns that split clusters by themselves: seen in the answer, not in the rows.

A category that has nothing to do with the others parts every cluster in as many as it
has levels, if clusters are small beside what two levels are apart. What comes out looks
perfect, and comes back in every resample. But then clusters come in pairs that differ
in this column and in no other; see docs/decisions/0034-suspicious-data.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.data.errors import drop_option
from afcl.data.features import Feature
from afcl.data.suspicion import TWO_VALUES, Suspicion
from afcl.reliance import SPLITS

#: Centres of twins are in every other column at most so many spreads apart,
APART = 0.5
#: or as far as chance would have them: so many standard errors.
ERRORS = 3.0
#: A spread is at least this part of a column's range.
LEAST = 0.02
#: In the column that parts them they differ by so much of the rows at least.
DIFFER = 0.6
#: A larger part of the clusters has a twin, or nothing is said.
PAIRED = 0.5


def splitting_columns(result: Mapping[str, Any]) -> list[Suspicion]:
    """Return the categories, and numbers with two values, that split the clusters.

    Parameters
    ----------
    result : mapping
        What ``result.json`` holds. Nothing is found where a server hears no cells.
    """
    k, profiles = int(result["n_clusters"]), result.get("profiles") or ()
    if k < 2 or result["centers"] is None or len(profiles) != k:
        return []
    centers = np.array(result["centers"], dtype=np.float64)
    spreads = np.array([each["spreads"] for each in profiles], dtype=np.float64)
    span = np.abs(np.array(result["scale"]["span"], dtype=np.float64))
    spreads = np.maximum(spreads, LEAST * span)
    sizes = np.maximum(1.0, np.array(result["sizes"], dtype=np.float64))
    found = []
    for name, places, level in _candidates(result):
        others = np.ones(centers.shape[1], dtype=np.bool_)
        others[places] = False
        if not others.any():
            continue
        twins = _alike(centers[:, others], spreads[:, others], sizes)
        twins &= _differ(centers[:, places]) >= DIFFER * level
        if twins.any(axis=1).mean() > PAIRED:
            found.append(_said(name, k, _groups(twins)))
    return found


def _candidates(result: Mapping[str, Any]) -> Iterator[tuple[str, Ints, float]]:
    """Yield columns of kinds: name, their places, and how far two levels differ."""
    columns = list(result["columns"])
    for content in result.get("features") or ():
        feature = Feature.of(content)
        if feature.shares:
            places = [columns.index(name) for name in feature.columns]
            yield feature.name, np.array(places), 1.0
    for found in result.get("suspicions") or ():
        if found["kind"] == TWO_VALUES:
            place = columns.index(found["column"])
            values = [center[place] for center in result["centers"]]
            far = max(values) - min(values)
            if far > 0:
                yield found["column"], np.array([place]), far


def _alike(centers: Floats, spreads: Floats, sizes: Floats) -> Bools:
    """Return which centres are the same but for chance, in all of these columns."""
    both = np.sqrt((spreads[:, None] ** 2 + spreads[None] ** 2) / 2)
    apart = (np.abs(centers[:, None] - centers[None]) / both).max(axis=2)
    chance = ERRORS * np.sqrt(1 / sizes[:, None] + 1 / sizes[None])
    alike: Bools = apart <= np.maximum(APART, chance)
    return alike


def _differ(centers: Floats) -> Floats:
    """Return by how much centres differ in the columns of one category."""
    differ: Floats = np.abs(centers[:, None] - centers[None]).max(axis=2)
    return differ


def _groups(twins: Bools) -> int:
    """Return how many groups of twins there are, single clusters among them."""
    reach = twins | np.eye(twins.shape[0], dtype=np.bool_)
    for _ in range(twins.shape[0]):
        reach = reach @ reach
    return len(np.unique(reach, axis=0))


def _said(name: str, k: int, left: int) -> Suspicion:
    there = "there are probably none" if left == 1 else f"there are probably {left}"
    text = (
        f"{name!r} splits the clusters by itself: of {k} clusters most have a twin "
        f"that differs in it alone, and without it {there}; compare with "
        f"{drop_option(name)}"
    )
    return Suspicion(None, name, SPLITS, text)

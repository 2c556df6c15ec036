# SPDX-License-Identifier: Apache-2.0
"""Why every cluster is one, as ``result.json`` has it.

It stays with who ran the simulation or the server: rules and spreads are finer than
what sites are sent at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from afcl.core.profiles import ProfileFigures, profiles_of
from afcl.core.protocol import Clustering
from afcl.core.rules import Rule
from afcl.data.features import Feature
from afcl.scale import Box


def describe_profiles(
    clustering: Clustering,
    box: Box,
    columns: Sequence[str],
    features: Iterable[Feature],
) -> list[dict[str, Any]]:
    """Return what is said of every cluster; nothing where a server hears no cells."""
    shares = {c for each in features if each.shares for c in each.columns}
    levels = np.array([name in shares for name in columns], dtype=bool)
    found = profiles_of(clustering, box, levels)
    return [_described(each, columns) for each in found]


def _described(profile: ProfileFigures, columns: Sequence[str]) -> dict[str, Any]:
    return {
        "spreads": profile.spreads.tolist(),
        "others": profile.others.tolist(),
        "apart": profile.apart.tolist(),
        "shares": [round(share, 6) for share in profile.shares.tolist()],
        "nearest": profile.nearest,
        "separation": profile.separation,
        "silhouette": profile.silhouette,
        "rule": None if profile.rule is None else _rule(profile.rule, columns),
    }


def _rule(rule: Rule, columns: Sequence[str]) -> dict[str, Any]:
    conditions = [
        {"column": columns[c.column], "at_least": c.at_least, "value": c.value}
        for c in rule.conditions
    ]
    return {"conditions": conditions, "covers": rule.covers, "right": rule.right}

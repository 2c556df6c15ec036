# SPDX-License-Identifier: Apache-2.0
"""JSON, for whatever else: everything a program needs to label rows, in plain words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: Version of what is written; a change that old readers cannot read raises it.
FORMAT = 1
#: How a row gets its label, for whoever reads the file.
HOW = (
    "Put a row's values in the order of columns (levels of categories as 0 and 1, "
    "parts of dates that go round as cos and sin of the angle, from January, Monday or "
    "0:00 on, see features; dates as days since 1970); subtract low and divide by "
    "span; the label is the number, from 0 on, "
    "of the center in scaled_centers at the smallest Euclidean distance, the first one "
    "of several. Leave columns without a value out of the distance."
)
#: The same where clusters are not round.
HOW_PLACES = HOW.replace(
    "the label is the number, from 0 on, of the center in scaled_centers at the",
    "the label is that in place_labels of the point in scaled_places at the",
)
#: What is added where a scale has walls.
WALLS = (
    " The scale has walls (docs/decisions/0028-hostile-sites.md): values far outside "
    "are moved to them before distances are taken."
)


def content(result: Mapping[str, Any]) -> bytes:
    """Return the file's bytes."""
    scale = result["scale"]
    low, span = scale["low"], scale["span"]
    walls = bool(scale.get("walls"))
    places = result.get("places")

    def scaled(points: list[list[float]]) -> list[list[float]]:
        return [
            [(x - a) / s for x, a, s in zip(point, low, span, strict=True)]
            for point in points
        ]

    described = {
        "format": "afcl nearest centre",
        "format_version": FORMAT,
        "afcl_version": result["versions"]["afcl"],
        "how": (HOW_PLACES if places else HOW) + (WALLS if walls else ""),
        "columns": result["columns"],
        "features": result.get("features", []),
        "dates": result.get("dates", []),
        "low": low,
        "span": span,
        "walls": walls,
        "n_clusters": result["n_clusters"],
        "sizes": result["sizes"],
        "centers": result["centers"],
        "scaled_centers": scaled(result["centers"]),
        "privacy": result["parameters"].get("privacy"),
    }
    if places:
        described["scaled_places"] = scaled(places["points"])
        described["place_labels"] = places["clusters"]
    return (json.dumps(described, indent=2, allow_nan=False) + "\n").encode()

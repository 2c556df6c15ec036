# SPDX-License-Identifier: Apache-2.0
"""Clusters that are not round, as ``result.json`` and ``cells.csv`` have them.

Cells are what the server knows; places are what rows are labelled by, everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from afcl.core.messages import Places
from afcl.core.protocol import Clustering
from afcl.core.shapes import described
from afcl.data.columns import CLUSTER
from afcl.registry import CONVEX
from afcl.scale import Box

#: The cells of an answer whose clusters are not round.
CELLS = "cells.csv"


def describe_shape(
    clustering: Clustering, box: Box, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what ``result.json`` says of shapes; nothing of runs without any."""
    asked = parameters.get("shape")
    shape = described(clustering, None if asked == CONVEX else asked)
    if shape is None:
        return {}
    found, places = clustering.connected, clustering.places
    if found is None or places is None:
        return {"shape": shape}
    return {
        "shape": shape,
        "places": {
            "points": box.unscale(places.means).tolist(),
            "clusters": places.labels.tolist(),
        },
        "cells": {
            "points": box.unscale(found.cells.means).tolist(),
            "rows": found.cells.counts.tolist(),
            "clusters": found.labels.tolist(),
            "sparse": found.sparse.tolist(),
        },
    }


def places_in(result: Mapping[str, Any], box: Box) -> Places | None:
    """Return what new rows are labelled by, in agreed units; None: there is nothing."""
    places = result.get("places")
    if places is not None:
        points = box.scale(np.array(places["points"]))
        return Places(points, np.array(places["clusters"], dtype=np.int64))
    if result["centers"] is None:
        return None
    centers = box.scale(np.array(result["centers"]))
    return Places(centers, np.arange(len(centers)))


def cell_table(result: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield the lines of ``cells.csv``: the columns, rows, cluster, sparse (0, 1)."""
    cells = result["cells"]
    yield [*result["columns"], "rows", CLUSTER, "sparse"]
    rest = zip(cells["rows"], cells["clusters"], cells["sparse"], strict=True)
    for point, (rows, cluster, sparse) in zip(cells["points"], rest, strict=True):
        yield [*point, rows, cluster, int(sparse)]

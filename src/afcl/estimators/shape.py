# SPDX-License-Identifier: Apache-2.0
"""Clusters that need not be round: what a fitted model says, cuts and keeps of them.

A model whose clusters are round has `cell_labels_` None, and so have those of methods
that know nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import AnyArray, Floats, Ints
from afcl.core.connected import Connected, ConnectedLevel
from afcl.core.messages import Cells, Places
from afcl.core.protocol import Clustering, Merge, PathLevel
from afcl.core.shapes import described, other_labels
from afcl.scale import Box

#: Parts of connected cells that are arrays, and what they are called in a file.
_ARRAYS = ("connected_counts", "connected_means", "connected_scatters")


def attributes(clustering: Clustering, box: Box, asked: str | None) -> dict[str, Any]:
    """Return what a fitted model says of the shape of its clusters.

    `asked` is what the user asked for; None: the method knows no shapes.
    """
    found, shape = clustering.connected, described(clustering, asked)
    if found is None:
        return {
            "shape_": shape,
            "cells_": None,
            "cell_labels_": None,
            "cell_sparse_": None,
        }
    return {
        "shape_": shape,
        "cells_": {"means": box.unscale(found.cells.means), "rows": found.cells.counts},
        "cell_labels_": found.labels,
        "cell_sparse_": found.sparse,
    }


def places_at(clustering: Clustering, level: PathLevel) -> Places:
    """Return what rows are labelled by at a level of the path, which are its centres.

    Where clusters are not round: the answer's places, as that level has them.
    """
    found, places = clustering.connected, clustering.places
    if found is None or places is None:
        return Places(level.centers, np.arange(level.k))
    if level.k == clustering.k:
        return places
    labels = next(each.labels for each in found.levels if each.k == level.k)
    return replace(places, labels=other_labels(found, places, labels))


# ------------------------------------------------------------------ files


def dump(clustering: Clustering) -> tuple[dict[str, Any] | None, dict[str, AnyArray]]:
    """Return connected cells as JSON and arrays; None and nothing of round clusters."""
    found, places = clustering.connected, clustering.places
    if found is None or places is None:
        return None, {}
    cells = found.cells
    arrays: dict[str, AnyArray] = {
        **dict(zip(_ARRAYS, (cells.counts, cells.means, cells.scatters), strict=True)),
        "connected_labels": found.labels,
        "connected_sparse": found.sparse,
        "places_means": places.means,
        "places_labels": places.labels,
    }
    for level in found.levels:
        arrays[f"connected{level.k}_labels"] = level.labels
        arrays[f"connected{level.k}_sizes"] = level.sizes
    described = {
        "reason": found.reason,
        "levels": [[level.k, level.score] for level in found.levels],
    }
    return described, arrays


def read(
    described: dict[str, Any] | None, get: Any, merges: tuple[Merge, ...]
) -> tuple[Connected | None, Places | None]:
    """Return what :func:`dump` took apart; `get` returns an array by its name."""
    if described is None:
        return None, None
    levels = tuple(
        ConnectedLevel(k, *_level_arrays(get, k), score)
        for k, score in described["levels"]
    )
    found = Connected(
        Cells(*(get(name) for name in _ARRAYS)),
        get("connected_labels"),
        levels,
        merges,
        get("connected_sparse"),
        described["reason"],
    )
    return found, Places(get("places_means"), get("places_labels"))


def _level_arrays(get: Any, k: int) -> tuple[Ints, Floats]:
    return get(f"connected{k}_labels"), get(f"connected{k}_sizes")

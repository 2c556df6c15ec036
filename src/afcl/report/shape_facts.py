# SPDX-License-Identifier: Apache-2.0
"""What ``result.json`` says of clusters that are not round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.registry import CONNECTED


@dataclass(frozen=True)
class ShapeFacts:
    """Clusters that need not be round, by where they are.

    Attributes
    ----------
    reason
        Why they are looked at so.
    points, clusters
        The cells they consist of, in original units; a site knows places only, which
        are coarser.
    rows, sparse
        Of every cell; None of places.
    """

    reason: str
    points: Floats
    clusters: Ints
    rows: Ints | None = None
    sparse: Bools | None = None

    @property
    def noun(self) -> str:
        """What the points are called."""
        return "place" if self.rows is None else "cell"

    def leading(self) -> list[int]:
        """Return one point of every cluster: the one with most rows, or a middle one.

        A cluster without any has none.
        """
        found = []
        for cluster in np.unique(self.clusters).tolist():
            mine = np.flatnonzero(self.clusters == cluster)
            if self.rows is not None:
                found.append(int(mine[self.rows[mine].argmax()]))
                continue
            middle = self.points[mine].mean(axis=0)
            away = ((self.points[mine] - middle) ** 2).sum(axis=1)
            found.append(int(mine[away.argmin()]))
        return found


def shape_of(result: Mapping[str, Any]) -> ShapeFacts | None:
    """Return it, None where clusters are round."""
    shape = result.get("shape") or {}
    places = result.get("cells") or result.get("places")
    if shape.get("name") != CONNECTED or places is None:
        return None
    rows, sparse = places.get("rows"), places.get("sparse")
    return ShapeFacts(
        str(shape.get("reason") or ""),
        np.array(places["points"], dtype=float),
        np.array(places["clusters"], dtype=np.int64),
        None if rows is None else np.array(rows, dtype=np.int64),
        None if sparse is None else np.array(sparse, dtype=np.bool_),
    )

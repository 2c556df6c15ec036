# SPDX-License-Identifier: Apache-2.0
"""The path of k as users see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.protocol import PathLevel
from afcl.scale import Box


@dataclass(frozen=True)
class KPath:
    """Every k that was considered: the clustering's path as users see it, by columns.

    Attributes
    ----------
    k : ndarray of shape (n_levels,)
        In increasing order.
    scores : dict of str to ndarray of shape (n_levels,)
        By index name; NaN where an index is not defined.
    centers : list of ndarray of shape (k, n_features)
        In the units of the data, largest cluster first.
    """

    k: Ints
    scores: dict[str, Floats]
    centers: list[Floats]

    @classmethod
    def of(cls, levels: Sequence[PathLevel], box: Box) -> Self:
        """Return these levels, which are in agreed units, in those of the data."""
        names = sorted({name for level in levels for name in level.scores})
        return cls(
            np.array([level.k for level in levels], dtype=np.int64),
            {
                # As float64, None is NaN.
                name: np.array(
                    [level.scores.get(name) for level in levels], dtype=np.float64
                )
                for name in names
            },
            [box.unscale(level.centers) for level in levels],
        )

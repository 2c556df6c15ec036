# SPDX-License-Identifier: Apache-2.0
"""The path of k as users see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.protocol import PathLevel
from afcl.exceptions import InputError
from afcl.scale import Box


def frame_of(columns: Mapping[str, Any], kind: str) -> Any:
    """Return columns as a frame of Polars or pandas."""
    if kind == "polars":
        import polars

        return polars.DataFrame(columns)
    if kind == "pandas":
        import pandas

        return pandas.DataFrame(columns)
    raise InputError(f"kind={kind!r} is unknown: give 'polars' or 'pandas'")


@dataclass(frozen=True, repr=False)
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

    def to_frame(self, kind: Literal["polars", "pandas"] = "polars") -> Any:
        """Return the path as a data frame: a row per k, a column per index.

        Parameters
        ----------
        kind : {"polars", "pandas"}, default="polars"
            Whose frame it is; pandas has to be installed.

        Returns
        -------
        frame : DataFrame
            The columns are `k` and the names of the indices.
        """
        return frame_of({"k": self.k, **self.scores}, kind)

    def __repr__(self) -> str:
        """Say it in one line; :meth:`to_frame` has it all."""
        if self.k.size == 0:
            return "KPath(empty)"
        text = f"KPath(k = {self.k[0]} to {self.k[-1]}"
        best = self.scores.get("silhouette")
        if best is not None and not np.isnan(best).all():
            at = int(np.nanargmax(best))
            text += f", best silhouette {best[at]:.3f} at k = {self.k[at]}"
        return f"{text})"

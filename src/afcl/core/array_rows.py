# SPDX-License-Identifier: Apache-2.0
"""A client's rows as an array on a device: they stay there, and only sums leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from afcl._typing import Floats, Ints
from afcl.exceptions import InputError
from afcl.kernels.arrays import ArrayPasses, Nest, in_one_line
from afcl.kernels.reference import Tally
from afcl.parts import rows_in_a_part

T = TypeVar("T")


class ArrayRows:
    """The rows of an array in agreed columns and units; see :class:`.rows.RowsInPlace`.

    Parameters
    ----------
    passes
        What works on the array, in the way that suits it.
    """

    def __init__(self, passes: ArrayPasses) -> None:
        self._passes = passes

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features."""
        return self._passes.shape

    def map(self, work: Callable[[Floats], T]) -> Iterator[T]:
        """Yield what `work` makes of each part of the rows, in main memory."""
        n, d = self.shape
        step = rows_in_a_part(d)
        for start in range(0, max(n, 1), step):
            yield work(self.take(np.arange(start, min(n, start + step))))

    def take(self, index: Ints) -> Floats:
        """Return the rows at these increasing positions, in main memory."""
        with in_one_line():
            return self._passes.take(index)

    def table(self) -> Floats:
        """Refuse to copy all rows to main memory."""
        raise InputError(
            "this needs all rows in main memory, and these are on a device: copy them "
            "(tensor.cpu().numpy()), or use the default preset at privacy level "
            "summary or secure+summary"
        )

    def placed(self, index: Ints, draws: Floats, iterations: int) -> Floats:
        """Return centres of the rows at these positions: k-means++, then Lloyd."""
        with in_one_line():
            return self._passes.placed(index, draws, iterations)

    def tally(
        self,
        centers: Floats,
        bounds: Ints,
        scores: Ints,
        spreads: Floats,
        sizes: Floats,
    ) -> Tally:
        """Return what :func:`afcl.kernels.tally` makes of all rows."""
        with in_one_line():
            return self._passes.tally(centers, bounds, scores, spreads, sizes)

    def nested(self, nests: Sequence[Nest]) -> tuple[Floats, Floats, Floats]:
        """Return counts, sums of x - s and of its squares, by seed of the last nest."""
        with in_one_line():
            return self._passes.nested(nests)

    def nearest(self, centers: Floats) -> tuple[Any, Ints]:
        """Return the nearest centre of every row, beside the rows, and their counts."""
        with in_one_line():
            return self._passes.labels(centers)

    def renamed(self, labels: Any, names: Ints) -> Any:
        """Return such labels by other names."""
        with in_one_line():
            return self._passes.renamed(labels, names)

    def host_labels(self, labels: Any) -> Iterator[Ints]:
        """Yield such labels part by part, in main memory."""
        return self._passes.host_labels(labels)

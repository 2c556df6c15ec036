# SPDX-License-Identifier: Apache-2.0
"""Whether there is doubt that clusters of cells are clusters.

What is cut where nothing parts it is cut elsewhere when the cells are resampled. So a
hollow between clusters must be the deeper, the less of them comes back.
See docs/decisions/0057-hollows-that-can-be-told.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.chains import Chains
from afcl.core.condense import condense_cells
from afcl.core.hollows import Hollows
from afcl.core.messages import Cells
from afcl.core.stability import recovered, resampled
from afcl.kernels import assign

#: Cells that a tree is built on, at least.
FEWEST = 4
#: Resamples of the cells.
RESAMPLES = 8
#: The least hollow is so deep,
DOUBTLESS = 0.15
#: or (where it parts as a gap does) so deep,
DEEP = 0.45
#: and deeper by so many times what does not come back of a cluster,
AWAY = 2.0
#: in no more columns than these: in more a few rows do not tell how dense it is.
COLUMNS = 2


def resamples(
    cells: Cells, most: int, rng: np.random.Generator
) -> Iterator[Chains | None]:
    """Yield what hangs together among resampled cells, None where they are too few."""
    bag = condense_cells(cells, most)
    for _ in range(RESAMPLES):
        drawn = resampled(bag, rng)
        yield Chains.of(drawn) if len(drawn) >= FEWEST else None


class Again:
    """What comes back of clusters among resampled cells.

    Parameters
    ----------
    cells
        Those that clusters are labels of.
    drawn
        Their resamples, as :func:`resamples` yields them.
    """

    def __init__(self, cells: Cells, drawn: Iterable[Chains | None]) -> None:
        self._counts = cells.counts
        self._drawn = [
            (chains, assign(cells.means, chains.cells.means)[0])
            for chains in drawn
            if chains is not None
        ]

    def of(self, labels: Ints) -> Floats:
        """Return how much of every cluster comes back on average."""
        k, back = int(labels.max()) + 1, []
        for chains, nearest in self._drawn:
            others = chains.labels(k)[nearest]
            back.append(recovered(self._counts, labels, others, k))
        return np.mean(back, axis=0) if back else np.zeros(k)


@dataclass(frozen=True)
class Doubt:
    """What tells whether clusters of a tree leave a doubt.

    Attributes
    ----------
    chains
        The tree.
    back
        How much of every cluster comes back where there are so many.
    """

    chains: Chains
    back: Callable[[int], Floats]

    @property
    def has_few_columns(self) -> bool:
        """Whether a few rows tell how dense it is."""
        return bool(self.chains.cells.means.shape[1] <= COLUMNS)

    @cached_property
    def hollows(self) -> Hollows | None:
        """The hollows between cells, None where density cannot be told."""
        return Hollows.of(self.chains) if self.has_few_columns else None

    def is_gone(self, labels: Ints) -> bool:
        """Whether hollows between all of these clusters leave no doubt."""
        return self._are_at_least(DOUBTLESS, labels)

    def is_deep(self, labels: Ints) -> bool:
        """Whether they part the clusters as gaps do."""
        return self._are_at_least(DEEP, labels)

    def _are_at_least(self, depth: float, labels: Ints) -> bool:
        if self.hollows is None:
            return False
        least = self.hollows.least(labels)
        if least < depth:
            return False
        k = int(labels.max()) + 1
        return bool(least >= depth + AWAY * (1 - self.back(k).min()))

    def is_deeper(self, labels: Ints, others: Ints, by: float) -> bool:
        """Whether the least hollow between these clusters is the deeper one."""
        if self.hollows is None or not others.any():
            return False
        deeper = self.hollows.least(labels) - self.hollows.least(others)
        return bool(deeper > by)

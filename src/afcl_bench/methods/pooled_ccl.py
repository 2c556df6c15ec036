# SPDX-License-Identifier: Apache-2.0
"""Pooled reference, nothing private: competitive and cooperative learning of all rows.

Cheung, "A competitive and cooperative learning approach to robust data clustering"
(IASTED NCI 2004), the ancestor of AFCL's interaction. More seeds than clusters are
shown the rows again and again. The winner of a row is the seed with the least
gamma_j |x - m_j|^2, gamma its share of the wins so far; the seeds no farther from the
winner than the row is cooperate with it. All of them move towards the row, so that
seeds of one cluster run together, and their number is learned.

Where the text is open or we depart from it:

* Seeds start as k-means++ picks; rows come in one random order, the same every time,
  so that the seeds can come to rest.
* The wins are counted over `PASSES` presentations of all rows, then from one again.
* Every cooperating seed moves with the full `learning_rate`, as in AFCL.
* It is over when no coordinate of a seed moves by more than `tolerance` within these
  presentations, or after `max_epochs`. Seeds whose coordinates all differ by less than
  `merge` are one; seeds without rows are dropped.

Uploaded: n_g d numbers, once: all rows, nothing is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core.protocol import Clustering
from afcl.core.seeding import merge_coincident, plus_plus
from afcl.exceptions import InputError
from afcl.kernels import assign, interact_matlab
from afcl.methods.rival import check_at_least, simple_clustering
from afcl_bench.methods.pooled import Pooled

#: Presentations of all rows over which wins are counted.
PASSES = 10


@dataclass(frozen=True, slots=True)
class PooledCCLParams:
    """Constants of the learning; `n_seeds` None is min(64, max(2, n // 32))."""

    n_seeds: int | None = None
    learning_rate: float = 0.02
    max_epochs: int = 500
    tolerance: float = 1e-5
    merge: float = 1e-3

    def __post_init__(self) -> None:
        check_at_least(self, 1, "n_seeds", "max_epochs")
        if not 0 < self.learning_rate <= 1:
            raise InputError(f"learning_rate must lie in (0, 1]: {self.learning_rate}")
        for name in ("tolerance", "merge"):
            value = getattr(self, name)
            if not value >= 0:
                raise InputError(f"{name} must not be negative, not {value}")

    def seeds_for(self, n_rows: int) -> int:
        """Return the number of seeds for so many rows."""
        return self.n_seeds or min(64, max(2, n_rows // 32))


class PooledCCL(Pooled):
    """Competing and cooperating seeds: **pooled, nothing is private**."""

    name = "pooled-ccl"
    Params = PooledCCLParams

    def fit(self, X: Floats, params: Any, rng: np.random.Generator) -> Clustering:
        """Let the seeds learn; join those that coincide, drop those without rows."""
        seeds = X[plus_plus(X, params.seeds_for(X.shape[0]), rng)]
        rows = X[rng.permutation(X.shape[0])]
        centers = merge_coincident(learned(seeds, rows, params), params.merge)
        sizes = np.bincount(assign(X, centers)[0], minlength=centers.shape[0])
        return simple_clustering(centers[sizes > 0], sizes[sizes > 0])


def learned(seeds: Floats, rows: Floats, params: PooledCCLParams) -> Floats:
    """Return where the seeds come to rest."""
    steps = np.full(rows.shape[1], params.learning_rate)
    left = params.max_epochs
    while left > 0:
        passes = min(PASSES, left)
        left -= passes
        moved = seeds.copy()
        interact_matlab(moved, np.tile(rows, (passes, 1)), steps, 0.0)
        rested = np.abs(moved - seeds).max() <= params.tolerance
        seeds = moved
        if rested:
            break
    return seeds

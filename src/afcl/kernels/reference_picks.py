# SPDX-License-Identifier: Apache-2.0
"""k-means++ in NumPy, to be read: the oracle of :mod:`.picks`."""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.kernels.reference import squared_distances
from afcl.parts import BLOCK


def plus_plus(X: Floats, weights: Floats, draws: Floats) -> Ints:
    """Pick up to as many rows as there are `draws` by weighted k-means++.

    One trial a step, which is scikit-learn's `kmeans_plusplus` with
    `n_local_trials=1`. Ends early when every row coincides with a pick.
    """
    picks: list[int] = []
    nearest = np.full(X.shape[0], np.inf)
    potential = weights
    for draw in draws:
        starts = range(0, X.shape[0], BLOCK)
        sums = [np.cumsum(potential[at : at + BLOCK])[-1] for at in starts]
        before = np.cumsum([0.0, *sums])
        if not before[-1] > 0:
            break
        wanted = draw * before[-1]
        block = int(np.searchsorted(before[1:-1], wanted, side="right"))
        at = starts[block]
        inside = before[block] + np.cumsum(potential[at : at + BLOCK])
        place = at + int(np.searchsorted(inside, wanted, side="right"))
        pick = min(place, int(np.flatnonzero(potential)[-1]))
        picks.append(pick)
        distances = squared_distances(X, X[pick][None, :])[:, 0]
        nearest = np.minimum(nearest, distances)
        potential = weights * nearest
    return np.array(picks, dtype=np.int64)

# SPDX-License-Identifier: Apache-2.0
"""The objective Z a round is judged by, Eqs. (9) and (10): a Davies-Bouldin index.

Only cells that hold rows enter. Nothing here guides the seeds: Z decides when to stop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afcl._typing import Floats
from afcl.core.paper.balance import Contribution
from afcl.kernels import squared_distances

#: Smallest squared distance of two centres; keeps Z finite where centres coincide.
FLOOR = 1e-12


def aggregate(contributions: Sequence[Contribution]) -> tuple[Floats, Floats]:
    """Return centres b (m, d) and contributions z (m,) of the occupied cells, Eq. (9).

    Both are sums of w o times the clients' b and z, over the *unweighted* sum of the
    counts o: weights below 1 shrink centres towards the origin, as the equation says.
    """
    k, d = contributions[0].sent.shape
    counts, centers, scatters = np.zeros(k), np.zeros((k, d)), np.zeros(k)
    for part in contributions:
        held, cells = part.held, part.upload.cells
        weighted = part.weight * cells.counts
        counts[held] += cells.counts
        centers[held] += weighted[:, None] * cells.means
        scatters[held] += weighted * cells.scatters
    occupied = counts > 0
    mass = counts[occupied]
    return centers[occupied] / mass[:, None], scatters[occupied] / mass


def objective(contributions: Sequence[Contribution], plain: bool = False) -> float:
    """Return Z(B, z) of one round's contributions, Eq. (10).

    Z is the mean over cells l of max over r != l of (z_l + z_r) / |b_l - b_r|^2, and 0
    with fewer than two occupied cells. With `plain` the denominator is the distance
    itself, as in the published code, whose z are mean distances.
    """
    centers, scatters = aggregate(contributions)
    if centers.shape[0] < 2:
        return 0.0
    gaps = np.maximum(squared_distances(centers, centers), FLOOR)
    ratios = (scatters[:, None] + scatters[None, :]) / (
        np.sqrt(gaps) if plain else gaps
    )
    np.fill_diagonal(ratios, -np.inf)
    return float(ratios.max(axis=1).mean())

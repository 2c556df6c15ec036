# SPDX-License-Identifier: Apache-2.0
"""Where the published code departs from the equations: attribute weights W.

W replaces the learning rate eta by one rate per attribute, eta on average. The server
divides uploads by it, which gives back the rows, and lets all seeds compete again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import Intensities
from afcl.core.paper.balance import Contribution
from afcl.core.paper.competition import accumulate, in_order
from afcl.core.params import PaperParams
from afcl.kernels import compete, interact_matlab

#: 1 / (delta - 1) with the delta = 8 of the text.
EXPONENT = 1 / 7
#: Seeds this close (squared) to the winner always cooperate.
NEAR = 1e-4
#: Balance weights this close are equal.
TIE = 1e-12


def start_weights(rate: float, n_features: int, rng: np.random.Generator) -> Floats:
    """Draw the first attribute weights W; they sum to eta d."""
    draws = 1.0 - rng.random(n_features)  # in (0, 1]: none is zero
    weights: Floats = rate * n_features * draws / draws.sum()
    return weights


def learned_weights(
    uploads: Sequence[Intensities], rate: float, n_features: int
) -> Floats:
    """Return W_j = eta d / sum_h (D_j / D_h)^(1/7) from all uploads of a round.

    D_j is the sum of |upload_j| over all rows; an attribute with D_j = 0 gets weight
    0 and takes no part in the sum: without uploads W is 0. Computed as
    D_j^(-1/7) / sum_h D_h^(-1/7), which is the same and cannot overflow.
    """
    spread = np.zeros(n_features)
    for upload in uploads:
        spread += np.abs(upload.intensities).sum(axis=0)
    inverse = np.zeros_like(spread)
    np.power(spread, -EXPONENT, where=spread > 0, out=inverse)
    weights: Floats = rate * inverse.size * inverse / (inverse.sum() or 1.0)
    return weights


def client_upload(
    X: Floats,
    seeds: Floats,
    weights: Floats,
    params: PaperParams,
    rng: np.random.Generator,
) -> Intensities:
    """Return W (x - m_c) of every row, c the nearest seed, and the cells' o, b, z.

    Here z is the mean distance of a cell's rows to its centre b.
    """
    rows = in_order(X, params, rng)
    winners = compete(rows, seeds, False)
    upload = accumulate(rows, seeds, winners, weights)
    scatters = mean_distances(rows, winners, upload.cells.means)
    return replace(upload, cells=replace(upload.cells, scatters=scatters))


def mean_distances(X: Floats, winners: Ints, means: Floats) -> Floats:
    """Return the mean Euclidean distance of each cell's rows to its mean."""
    _, cell = np.unique(winners, return_inverse=True)
    distances = np.sqrt(((X - means[cell]) ** 2).sum(axis=1))
    scatters: Floats = np.bincount(cell, weights=distances) / np.bincount(cell)
    return scatters


def steps_of(weights: Floats, weight: float) -> Floats:
    """Return the server's step per attribute, W w; a zero W counts as 1."""
    steps: Floats = np.where(weights > 0, weights, 1.0) * weight
    return steps


def rebuild(part: Contribution, steps: Floats) -> Floats:
    """Return one client's rows as the server rebuilds them: upload / (W w) + m.

    Since w < 1 a row comes back pushed outwards, m + (x - m) / w. Every seed's list
    starts with one zero upload, so that its sent position competes as a row.
    """
    k, d = part.sent.shape
    owners = np.concatenate([np.arange(k), part.upload.owners])
    uploads = np.concatenate([np.zeros((k, d)), part.upload.intensities])
    order = np.argsort(owners, kind="stable")
    rows: Floats = uploads[order] / steps + part.sent[owners[order]]
    return rows


def cooperate(
    seeds: Floats, contributions: Sequence[Contribution], weights: Floats
) -> Floats:
    """Return the seeds after all rebuilt rows of a round have been competed for.

    One client after the other, seed by seed, row by row. The winner of a row is found
    with gamma, whose wins start at 1 in each round; seeds no farther from it than the
    row, or within :data:`NEAR`, move by W w (row - m_u).
    """
    if not contributions:
        return seeds
    steps = [steps_of(weights, part.weight) for part in contributions]
    rows = [rebuild(*pair) for pair in zip(contributions, steps, strict=True)]
    moved = seeds.copy()
    interact_matlab(
        moved,
        np.concatenate(rows),
        np.repeat(steps, [len(some) for some in rows], axis=0),
        NEAR,
    )
    return moved


def replayed(
    frequencies: Mapping[ClientId, int],
    weights: Mapping[ClientId, float],
    present: Collection[ClientId],
) -> list[ClientId]:
    """Return the absent clients whose last upload is used again, by id.

    Those that have taken part at least once (theta > 0) and whose weight w is above
    the mean over all clients; a tie up to rounding is not above.
    """
    threshold = sum(weights.values()) / len(weights) + TIE
    return [
        client
        for client in sorted(weights)
        if client not in present
        and frequencies[client] > 0
        and weights[client] > threshold
    ]

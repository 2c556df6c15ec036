# SPDX-License-Identifier: Apache-2.0
"""Competition at the clients (Eqs. 2-7), cooperation at the server (Eqs. 11-14)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import Cells, Intensities
from afcl.core.paper.balance import Contribution
from afcl.core.params import PaperParams
from afcl.kernels import compete, intensities, interact


def in_order(X: Floats, params: PaperParams, rng: np.random.Generator) -> Floats:
    """Return the rows in the order they compete: as given, or drawn anew."""
    if params.order == "random":
        return X[rng.permutation(X.shape[0])]
    return X


def accumulate(
    X: Floats, seeds: Floats, winners: Ints, rate: float | Floats
) -> Intensities:
    """Return R = {r}, r = eta (x - m_c) of every row (Eq. 5), with o, b, z (Eqs. 6, 7).

    `winners` is c of every row, `rate` is eta, or one rate per attribute. Rows come
    seed by seed, and in their order within a seed.
    """
    rates: Floats = rate * np.ones(seeds.shape[1])
    pulls = np.empty(X.shape)
    owners, counts, means, scatters = intensities(X, seeds, winners, rates, pulls)
    held = np.flatnonzero(counts)
    return Intensities(owners, pulls, Cells(counts[held], means[held], scatters[held]))


def client_upload(
    X: Floats, seeds: Floats, params: PaperParams, rng: np.random.Generator
) -> Intensities:
    """Return what a client makes of the seeds M: Eqs. (2)-(7); the seeds do not move.

    The winner of a row is argmin_r gamma_r |x - m_r|^2, where gamma_r is the share of
    wins s_r so far (Eqs. 2-4), which start at 1 each time; with `winner="nearest"` it
    is the nearest seed.
    """
    rows = in_order(X, params, rng)
    winners = compete(rows, seeds, params.winner == "conscience")
    return accumulate(rows, seeds, winners, params.learning_rate)


def cooperate(
    seeds: Floats, contributions: Sequence[Contribution], params: PaperParams
) -> Floats:
    """Return the seeds M after all uploads of a round, Eqs. (11)-(14).

    Uploads act one client after the other, seed by seed, row by row. Seeds no farther
    from m_r than |w r / eta| form the cooperative set C_r (Eq. 13, which is Eq. 11
    without the row), r included; each u in it moves by w r + w eta (m_r - m_u)
    (Eq. 14, likewise Eq. 12). m_r is the seed as sent to that client, or its current
    position with `anchor="current"`.
    """
    moved = seeds.copy()
    for part in contributions:
        interact(
            moved,
            part.sent,
            (part.upload.owners, part.upload.intensities),
            part.weight,
            params.learning_rate,
            params.anchor == "current",
        )
    return moved

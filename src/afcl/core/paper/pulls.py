# SPDX-License-Identifier: Apache-2.0
"""The paper's interaction without its rows: the level `affine` (Remark 1 of the paper).

Applying Eq. (14) row by row moves a seed m_u by a (x - m_u) for every row x that pulls
it, a = w eta. That is an affine map of m_u, so a client that plays the server's
interaction on its own rows, from the seeds it was sent, need only tell how often each
seed was pulled and where the pulls alone would have put it:

    N_u <- N_u + 1,   beta_u <- (1 - a) beta_u + a x,
    and the server sets   m_u <- (1 - a)^N_u m_u + beta_u.

With one upload per round the seeds are those of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload, refuse_unless
from afcl.core.paper.balance import Contribution
from afcl.core.paper.competition import client_upload
from afcl.core.paper.objective import objective
from afcl.core.params import PaperParams
from afcl.kernels import interact_affine


@payload
@dataclass(frozen=True, slots=True)
class Pulls:
    """A client's upload at the level `affine`: N, beta, w and its own objective.

    Reveals k weighted sums of rows and how many rows went into each; a seed that one
    row alone has pulled reveals that row: beta / a.
    """

    counts: Ints
    places: Floats
    weight: float
    objective: float


def pulls(
    X: Floats,
    seeds: Floats,
    weight: float,
    params: PaperParams,
    rng: np.random.Generator,
) -> Pulls:
    """Play the server's interaction on the client's own rows."""
    rows = client_upload(X, seeds, params, rng)
    counts, places = interact_affine(
        seeds, rows.owners, rows.intensities, weight, params.learning_rate
    )
    own = Contribution(weight, seeds, rows)
    return Pulls(counts, places, weight, objective([own]))


def apply(seeds: Floats, upload: Pulls, rate: float) -> Floats:
    """Return the seeds after a client's pulls; `rate` is eta."""
    kept = (1 - upload.weight * rate) ** upload.counts
    moved: Floats = kept[:, None] * seeds + upload.places
    return moved


def check_pulls(
    upload: object, shape: tuple[int, ...], n_rows: int, balance: float
) -> None:
    """Refuse pulls that no honest client could have sent."""
    refuse_unless(isinstance(upload, Pulls), "an update must carry pulls")
    assert isinstance(upload, Pulls)
    refuse_unless(
        upload.counts.shape == shape[:1] and upload.places.shape == shape,
        f"expected pulls of {shape[0]} seeds with {shape[1]} features",
    )
    refuse_unless(
        upload.counts.dtype == np.int64 and upload.places.dtype == np.float64,
        "expected int64 counts and float64 places",
    )
    refuse_unless(
        bool(np.all((upload.counts >= 0) & (upload.counts <= n_rows))),
        f"a seed was pulled more often than the client's {n_rows} rows allow",
    )
    refuse_unless(bool(np.isfinite(upload.places).all()), "places are not finite")
    refuse_unless(
        balance / (balance + 1) <= upload.weight <= 1, "the weight was not sent"
    )
    refuse_unless(
        bool(np.isfinite(upload.objective)) and upload.objective >= 0,
        "the objective is not a finite number",
    )

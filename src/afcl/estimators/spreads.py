# SPDX-License-Identifier: Apache-2.0
"""Soft memberships: what centres, spreads and sizes say of new rows.

A cluster counts as a Gaussian around its centre whose columns are independent, with
the spreads that the server's cells tell, and weighs what it holds of all rows. See
docs/decisions/0046-soft-memberships-and-weights.md.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats
from afcl.core.lineage import Answered

#: No spread is smaller than so much of a column's span: equal rows have none at all.
THINNEST = 1e-4


def log_densities(rows: Floats, answer: Answered) -> Floats:
    """Return every row's log density at every cluster, weighted by its size.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, d)
        In the units of the data, without gaps.
    answer : Answered
        Whose clusters they are.

    Returns
    -------
    ndarray of shape (n_rows, k)
    """
    thinnest = np.broadcast_to(THINNEST * answer.span, answer.spreads.shape)
    spreads = np.maximum(answer.spreads, thinnest)
    share = np.log(np.maximum(answer.sizes, 1.0) / answer.sizes.sum())
    wide = np.log(spreads).sum(axis=1) + 0.5 * np.log(2 * np.pi) * rows.shape[1]
    found = np.empty((rows.shape[0], answer.centers.shape[0]))
    for cluster, center in enumerate(answer.centers):
        away = (rows - center) / spreads[cluster]
        found[:, cluster] = -0.5 * (away * away).sum(axis=1)
    found += share - wide
    return found


def total(densities: Floats) -> Floats:
    """Return the log of the sum over clusters, row by row."""
    most = densities.max(axis=1)
    whole: Floats = most + np.log(np.exp(densities - most[:, None]).sum(axis=1))
    return whole


def shares(densities: Floats) -> Floats:
    """Return what every cluster has of a row; a row's add up to 1."""
    parts: Floats = np.exp(densities - total(densities)[:, None])
    return parts

# SPDX-License-Identifier: Apache-2.0
"""A box of agreed quantiles: a few far values do not stretch it.

Every client tells a few quantiles of each column beside its extremes. Between them its
distribution is taken as straight; the clients' distributions, weighted by their rows,
are mixed. The box reaches from one quantile of the mixture to another and somewhat
beyond, but no farther than values do: without far values it is about that of the
extremes. It has walls (see :mod:`afcl.scale`): rows a quarter of a width outside it and
more count as just outside. See docs/decisions/0036-robust-scale.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from afcl._typing import Floats
from afcl.scale import Box, Ranges, Stretch, box_of_ends, is_flat, supported_box

#: The name of this scale.
ROBUST = "robust"
#: What part of the rows lies below each quantile that is told.
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Far values are looked for among so much of the rows at either end:
TAIL = 0.05
#: beyond this part of what lies between.
BEYOND = 0.25
#: No client counts for more than so many of middling size: nobody's rows are counted
#: by others, and one of four that are wrong has half of the weight at most.
MOST_WEIGHT = 3.0
#: Halvings of an interval until it is as narrow as a number.
HALVINGS = 80


def quantiles_of(X: Floats) -> Floats:
    """Return a client's quantiles of every column; NaN of those that have no value.

    Examples
    --------
    >>> quantiles_of(np.arange(101.0)[:, None]).ravel().tolist()
    [5.0, 25.0, 50.0, 75.0, 95.0]
    """
    found = np.full((len(SHARES), X.shape[1]), np.nan)
    for place, column in enumerate(X.T):
        held = column[~np.isnan(column)]
        if held.size:
            # Rounding must not lead outside of the extremes.
            quantiles = np.quantile(held, SHARES)
            found[:, place] = np.clip(quantiles, held.min(), held.max())
    return found


def robust_box(ranges: Sequence[Ranges]) -> tuple[Box, list[Stretch]]:
    """Return the map over all clients by quantiles, and who would stretch it alone.

    Where so many rows are equal that quantiles are, the box is that of the extremes.

    Examples
    --------
    >>> X = np.append(np.arange(100.0), 1e6)[:, None]
    >>> told = Ranges(101, 1, X.min(axis=0), X.max(axis=0), quantiles_of(X))
    >>> box, _ = robust_box([told])
    >>> box.low, box.span.round(6)
    (array([0.]), array([117.5]))
    """
    quantiles = np.array([each.quantiles for each in ranges], dtype=np.float64)
    _, found = supported_box(quantiles[:, 0], quantiles[:, -1])
    weights = np.repeat(_weights(ranges)[:, None], quantiles.shape[2], axis=1)
    weights[np.isnan(quantiles[:, 0])] = 0.0
    # Of two clients nobody can say which one is wrong.
    for stretch in found if len(ranges) > 2 else []:
        weights[list(stretch.clients), stretch.column] = 0.0
    low = mixed_quantile(quantiles, weights, TAIL)
    high = mixed_quantile(quantiles, weights, 1 - TAIL)
    counts = weights > 0
    least = np.where(counts, [each.low for each in ranges], np.inf).min(axis=0)
    most = np.where(counts, [each.high for each in ranges], -np.inf).max(axis=0)
    with np.errstate(over="ignore"):
        beyond = np.where(is_flat(low, high - low), np.inf, BEYOND * (high - low))
        ends = np.maximum(low - beyond, least), np.minimum(high + beyond, most)
    return replace(box_of_ends(*ends), walls=True), found


def _weights(ranges: Sequence[Ranges]) -> Floats:
    rows = np.array([each.n_rows for each in ranges], dtype=np.float64)
    weights: Floats = np.minimum(rows, MOST_WEIGHT * np.median(rows))
    return weights if weights.sum() > 0 else np.ones_like(rows)


def mixed_quantile(quantiles: Floats, weights: Floats, share: float) -> Floats:
    """Return a quantile of the mixture of all clients, for every column.

    Parameters
    ----------
    quantiles : ndarray of shape (n_clients, n_shares, n_features)
        Everybody's quantiles.
    weights : ndarray of shape (n_clients, n_features)
        How much each counts; 0 where it has told none.
    share : float
        What part of the mixture lies below.

    Examples
    --------
    >>> one = quantiles_of(np.linspace(0, 1, 101)[:, None])
    >>> both, alike = np.array([one, one + 1]), np.ones((2, 1))
    >>> mixed_quantile(both, alike, 0.25).round(6), mixed_quantile(both, alike, 0.75)
    (array([0.5]), array([1.5]))
    """
    shares = weights / weights.sum(axis=0)
    # A quarter of the largest numbers there are still has a difference.
    known = np.where(weights[:, None, :] > 0, quantiles / 4, np.nan)
    low, high = np.nanmin(known, axis=(0, 1)), np.nanmax(known, axis=(0, 1))
    known = np.where(np.isnan(known), high, known)
    for _ in range(HALVINGS):
        middle = low + (high - low) / 2
        below = (shares * _share_below(known, middle)).sum(axis=0)
        low = np.where(below < share, middle, low)
        high = np.where(below < share, high, middle)
    return np.asarray(high * 4)


def _share_below(quantiles: Floats, x: Floats) -> Floats:
    """Return what part of each client's rows lies at `x` or below, in every column."""
    lowest, highest = quantiles[:, 0], quantiles[:, -1]
    below = SHARES[0] * (x >= lowest) + (1 - SHARES[-1]) * (x >= highest)
    for place, (share, upper) in enumerate(zip(SHARES, SHARES[1:], strict=False)):
        start, end = quantiles[:, place], quantiles[:, place + 1]
        wide = end > start
        within = np.clip((x - start) / np.where(wide, end - start, 1.0), 0.0, 1.0)
        below += (upper - share) * np.where(wide, within, x >= start)
    return np.asarray(below)

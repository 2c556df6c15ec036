# SPDX-License-Identifier: Apache-2.0
"""Why a cluster is one: spreads, what sets it apart, how far the next one is, a rule.

All of it follows from the answer and from the cells the server heard; no message is
sent for it. See docs/decisions/0048-why-this-cluster.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.core.cells import pool, pool_held
from afcl.core.lineage import spreads_of
from afcl.core.messages import Cells
from afcl.core.protocol import Clustering
from afcl.core.rules import Described, Rule, rule_for
from afcl.core.shapes import cell_silhouettes
from afcl.kernels import assign, squared_distances
from afcl.scale import Box

#: No spread is smaller than so much of a column's range: equal rows have none at all.
THINNEST = 1e-4
#: Rules are looked for among so many columns, those that part the clusters most.
LOOKED_AT = 32
#: What is less than this share of the range is rounding, not a difference.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ProfileFigures:
    """What makes one cluster.

    Attributes
    ----------
    spreads
        (d,), how far its rows spread around its centre, in the units of the data.
    others
        (d,), the mean of all rows of the other clusters; its own, if there are none.
    apart, shares
        (d,), how far the other centres are in every column (root mean square, by their
        rows), in the units of the data; and what every column has of the squared
        distances: these add up to 1, or are all 0.
    nearest, separation
        The nearest other cluster, and how far it is: the distance between both centres
        over both spreads on the way; where clusters are not round, that between their
        nearest cells over the usual step from cell to cell. None: not known.
    silhouette
        The mean silhouette of its cells.
    rule
        What tells it from the others in short.
    """

    spreads: Floats
    others: Floats
    apart: Floats
    shares: Floats
    nearest: int | None = None
    separation: float | None = None
    silhouette: float | None = None
    rule: Rule | None = None


def profiles_of(
    clustering: Clustering, box: Box, levels: Bools
) -> tuple[ProfileFigures, ...]:
    """Return the profile of every cluster; none where a server hears no cells.

    Parameters
    ----------
    clustering
        The answer, in agreed units.
    box
        These units.
    levels
        (d,), which columns are of 0 and 1: levels of a category.
    """
    centers, k = clustering.centers, clustering.k
    if centers is None or clustering.cells is None:
        return ()
    cells, labels = labelled_cells(clustering)
    spreads = spreads_of(cells, labels, centers)
    others, apart, shares = _apart(centers, clustering.sizes)
    wide = np.where(levels, _of_shares(box.unscale(centers)), spreads * box.span)
    described = _described(cells, labels, box, levels, shares)
    nearest = _nearest(clustering, cells, labels, spreads)
    silhouettes = _silhouettes(cells, labels, k)
    far = box.unscale(others)
    return tuple(
        ProfileFigures(
            wide[c],
            far[c],
            apart[c] * box.span,
            shares[c],
            *nearest[c],
            silhouettes.get(c),
            rule_for(described, c),
        )
        for c in range(k)
    )


def labelled_cells(clustering: Clustering) -> tuple[Cells, Ints]:
    """Return the cells an answer rests on, and the cluster of each."""
    assert clustering.centers is not None
    assert clustering.cells is not None
    if clustering.connected is not None:
        return clustering.connected.cells, clustering.connected.labels
    return clustering.cells, assign(clustering.cells.means, clustering.centers)[0]


def _of_shares(shares: Floats) -> Floats:
    """Return how far rows of 0 and 1 spread of which this share are 1."""
    part = np.clip(shares, 0.0, 1.0)
    spreads: Floats = np.sqrt(part * (1.0 - part))
    return spreads


def _apart(centers: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the mean of the others, how far they are, and the columns' shares in it.

    Every pair of clusters counts with the product of their rows: over all clusters
    that adds up to the variance between them.
    """
    k = centers.shape[0]
    weights = np.maximum(sizes, 0.0)
    others, apart = centers.copy(), np.zeros_like(centers)
    for c in range(k):
        rest = weights.copy()
        rest[c] = 0.0
        if rest.sum() <= 0:
            continue
        others[c] = rest @ centers / rest.sum()
        away = centers - centers[c]
        away[np.abs(away) < ROUNDING] = 0.0
        apart[c] = np.sqrt(rest @ (away * away) / rest.sum())
    parts = apart * apart
    whole = np.maximum(parts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return others, apart, parts / whole


def _described(
    cells: Cells, labels: Ints, box: Box, levels: Bools, shares: Floats
) -> Described:
    width = cells.means.shape[1]
    spread = np.sqrt(np.maximum(cells.scatters, 0.0) / np.maximum(cells.counts, 1))
    order = np.argsort(-shares.max(axis=0), kind="stable")[:LOOKED_AT]
    looked_at = order[shares.max(axis=0)[order] > 0]
    return Described(
        cells.counts.astype(np.float64),
        labels,
        box.unscale(cells.means),
        spread[:, None] / np.sqrt(width) * box.span,
        np.broadcast_to(box.span, (width,)),
        levels,
        looked_at,
    )


def _silhouettes(cells: Cells, labels: Ints, k: int) -> dict[int, float]:
    """Return the mean silhouette of every cluster that has cells, if two have."""
    _, held = pool_held(cells, labels, k)
    if held.shape[0] < 2:
        return {}
    own = np.searchsorted(held, labels)
    values, _ = cell_silhouettes(cells, own, *pool(cells, own, held.shape[0]))
    weights = cells.counts.astype(np.float64)
    sums = np.bincount(own, weights * values) / np.bincount(own, weights)
    return dict(zip(held.tolist(), sums.tolist(), strict=True))


# ------------------------------------------------------------------ separation


def _nearest(
    clustering: Clustering, cells: Cells, labels: Ints, spreads: Floats
) -> list[tuple[int | None, float | None]]:
    assert clustering.centers is not None
    if clustering.connected is not None:
        return [_next_cell(cells.means, labels, c) for c in range(clustering.k)]
    wide = np.maximum(spreads, THINNEST)
    return [_next_center(clustering.centers, wide, c) for c in range(clustering.k)]


def _next_center(
    centers: Floats, spreads: Floats, own: int
) -> tuple[int | None, float | None]:
    """Return the other centre that is fewest spreads away, and how many."""
    away = centers - centers[own]
    far = np.sqrt((away * away).sum(axis=1))
    way = away / np.maximum(far, np.finfo(float).tiny)[:, None]
    along = np.sqrt((way * spreads) ** 2 @ np.ones(centers.shape[1]))
    along += np.sqrt((way * spreads[own]) ** 2 @ np.ones(centers.shape[1]))
    found = np.where(far > 0, far / np.where(far > 0, along, 1.0), 0.0)
    found[own] = np.inf
    nearest = int(found.argmin())
    return (None, None) if nearest == own else (nearest, float(found[nearest]))


def _next_cell(
    means: Floats, labels: Ints, own: int
) -> tuple[int | None, float | None]:
    """Return whose cell is next to one of this cluster, in its own steps."""
    inside = labels == own
    if inside.all() or not inside.any():
        return None, None
    outside = squared_distances(means[inside], means[~inside])
    at = int(outside.min(axis=0).argmin())
    nearest = int(labels[~inside][at])
    steps = squared_distances(means[inside], means[inside])
    np.fill_diagonal(steps, np.inf)
    step = float(np.median(np.sqrt(steps.min(axis=1))))
    if not 0 < step < np.inf:
        return nearest, None
    return nearest, float(np.sqrt(outside[:, at].min())) / step

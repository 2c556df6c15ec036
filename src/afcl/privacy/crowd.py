# SPDX-License-Identifier: Apache-2.0
"""What the clients of a crowd work on and say at the level `secure`.

The same as :mod:`privacy.clients` lets each of them do, for many in one call.
"""

from __future__ import annotations

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.batch import Batch, Crowd, Spread, at_once, offsets_of, one_after_another
from afcl.core.cells import cells_of
from afcl.core.crowd import Stands, condense
from afcl.core.params import DefaultParams
from afcl.privacy.secure import on_grid


def extremes(
    crowd: Crowd, smallest: int, spread: Spread = at_once
) -> tuple[Floats, Floats]:
    """Return the smallest and the largest values that groups tell; see `site.told_of`.

    A group tells its mean, and the mean plus and minus one standard deviation.
    """

    def work(clients: Ints) -> tuple[Floats, Floats]:
        rows, labels = _grouped(crowd, clients, smallest)
        size = np.bincount(labels)[:, None]
        means = _per_group(rows, labels) / size
        around = np.sqrt(_per_group((rows - means[labels]) ** 2, labels) / size)
        return (means - around).min(axis=0), (means + around).max(axis=0)

    parts = spread(work, np.arange(crowd.sizes.shape[0]))
    low = np.min([low for low, _ in parts], axis=0)
    high = np.max([high for _, high in parts], axis=0)
    return low, high


def hellos(
    crowd: Crowd,
    smallest: int,
    params: DefaultParams,
    seed: int,
    spread: Spread = at_once,
) -> Batch:
    """Return the cells that all clients say hello with."""

    def form(clients: Ints) -> Batch:
        rows, labels = _grouped(crowd, clients, smallest)
        sizes = np.diff(crowd.offsets)[clients]
        owner = np.repeat(np.arange(clients.shape[0]), sizes)
        first = np.unique(labels, return_index=True)[1]
        groups = np.bincount(owner[first], minlength=clients.shape[0])
        return Batch(cells_of(rows, labels, first.shape[0]), offsets_of(groups))

    everybody = np.arange(crowd.sizes.shape[0])
    groups = one_after_another(spread(form, everybody))
    points = Crowd(groups.cells.means, groups.offsets)
    stands = Stands(
        groups.cells.counts.astype(np.float64), groups.cells.scatters, crowd.sizes
    )
    said = one_after_another(
        spread(lambda some: condense(points, some, params, seed, stands), everybody)
    )
    return Batch(on_grid(said.cells), said.offsets)


def _grouped(crowd: Crowd, clients: Ints, smallest: int) -> tuple[Floats, Ints]:
    """Return neighbouring clients' rows, and every row's group.

    Groups are numbered on from client to client; see :func:`grouping.group_rows`.
    """
    from afcl.kernels.crowd_sums import group

    labels: Ints = group(crowd.rows, crowd.offsets, clients, smallest)
    first, last = crowd.offsets[clients[0]], crowd.offsets[clients[-1] + 1]
    return crowd.rows[first:last], labels


def _per_group(values: Floats, labels: Ints) -> Floats:
    columns = [np.bincount(labels, weights=column) for column in values.T]
    return np.stack(columns, axis=1)

# SPDX-License-Identifier: Apache-2.0
"""What a batch of clients tells at the levels that form groups of rows.

The same as :mod:`privacy.protection` lets each of them do, for many in one call.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.batch import Spread, Tables, at_once, condense
from afcl.core.cells import cells_of, concatenate, offsets_of, take
from afcl.core.messages import Cells
from afcl.core.params import DefaultParams
from afcl.core.rounding import coarse, coarse_cells, squared_steps
from afcl.privacy.grouping import without_rare


def extremes(tables: Tables, smallest: int, spread: Spread = at_once) -> Floats:
    """Return every client's smallest and largest values as groups tell them, (n, 2, d).

    A group tells its mean, and the mean plus and minus one standard deviation.
    """
    tables = _without_rare(tables, smallest)

    def work(clients: Ints) -> Floats:
        rows, labels, first = _grouped(tables, clients, smallest)
        size = np.bincount(labels)[:, None]
        means = _per_group(rows, labels) / size
        squares = _per_group((rows - means[labels]) ** 2, labels) / size
        units = np.repeat(_units(tables, clients), np.diff([*first, len(size)]), axis=0)
        around = np.sqrt(coarse(squares, units))
        low = np.minimum.reduceat(means - around, first)
        return np.stack([low, np.maximum.reduceat(means + around, first)], axis=1)

    return np.concatenate(spread(work, np.arange(tables.sizes.shape[0])))


def hellos(
    tables: Tables,
    smallest: int,
    params: DefaultParams,
    seed: int,
    spread: Spread = at_once,
) -> Cells:
    """Return the cells that all clients say hello with."""
    tables = _without_rare(tables, smallest)

    def form(clients: Ints) -> Cells:
        rows, labels, first = _grouped(tables, clients, smallest)
        n = int(labels.max()) + 1
        sizes = np.diff(np.append(first, n))
        cells = replace(cells_of(rows, labels, n), offsets=offsets_of(sizes))
        units = _units(tables, clients)
        every = np.arange(clients.shape[0])
        return concatenate(
            [
                coarse_cells(take(cells, every[i : i + 1]), units[i])
                for i in every.tolist()
            ]
        )

    everybody = np.arange(tables.sizes.shape[0])
    groups = concatenate(spread(form, everybody))
    assert groups.offsets is not None
    points = Tables(groups.means, groups.offsets)
    return concatenate(
        spread(lambda some: condense(points, some, params, seed, groups), everybody)
    )


def _without_rare(tables: Tables, smallest: int) -> Tables:
    """Return the tables in which no few rows of a client share a value."""
    edges = tables.offsets.tolist()
    parts = [
        without_rare(tables.rows[start:end], smallest)
        for start, end in zip(edges[:-1], edges[1:], strict=True)
    ]
    return Tables(np.concatenate(parts), tables.offsets)


def _grouped(tables: Tables, clients: Ints, smallest: int) -> tuple[Floats, Ints, Ints]:
    """Return neighbouring clients' rows, every row's group, each client's first group.

    Groups are numbered on from client to client; see :func:`grouping.group_rows`.
    """
    from afcl.kernels.batch_sums import group

    labels, first = group(tables.rows, tables.offsets, clients, smallest)
    start, end = tables.offsets[clients[0]], tables.offsets[clients[-1] + 1]
    return tables.rows[start:end], labels, first


def _units(tables: Tables, clients: Ints) -> Floats:
    """Return to what the variances of every client's columns are rounded."""
    starts, ends = tables.offsets[clients], tables.offsets[clients + 1]
    each = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.stack([squared_steps(tables.rows[start:end]) for start, end in each])


def _per_group(values: Floats, labels: Ints) -> Floats:
    columns = [np.bincount(labels, weights=column) for column in values.T]
    return np.stack(columns, axis=1)

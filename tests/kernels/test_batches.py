# SPDX-License-Identifier: Apache-2.0
"""Kernels for many clients: equal to the code of one client, client by client.

With NUMBA_DISABLE_JIT=1 they run as plain Python, and a coverage tool sees inside.
"""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core.cells import fold
from afcl.core.client import condense, reply
from afcl.core.messages import Cells, Level, Plan
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng
from afcl.kernels import batch_sums, batches, groups
from afcl.privacy.grouping import group_rows

KINDS = pytest.mark.parametrize("kind", ["spread", "duplicates", "constant"])


def client_tables(seed, kind, d, sizes=(7, 1, 30, 5, 12)):
    """Rows of clients of very different sizes, and offsets."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = rng.normal(0, 1, (offsets[-1], d))
    if kind == "duplicates":
        rows = np.round(rows)
    if kind == "constant":
        rows = np.full_like(rows, 0.25)
    return rows, offsets


def empty_cells(places, d):
    return (
        np.empty(places[-1], dtype=np.int64),
        np.empty((places[-1], d)),
        np.empty(places[-1]),
    )


def cells_at(places, held, out, index):
    """One client's cells, before they are packed."""
    some = slice(places[index], places[index] + held[index])
    return Cells(*(part[some] for part in out))


def same_cells(ours, theirs):
    assert np.array_equal(ours.counts, theirs.counts)
    assert np.array_equal(ours.means, theirs.means)
    assert np.array_equal(ours.scatters, theirs.scatters)


@KINDS
@pytest.mark.parametrize(("d", "min_cell"), [(1, 1), (2, 3), (5, 1)])
def test_hellos_are_those_of_one_client_after_the_other(seed, kind, d, min_cell):
    rows, offsets = client_tables(seed, kind, d)
    params = DefaultParams(min_cell=min_cell)
    clients = np.array([0, 2, 4])
    wanted = np.array([params.cells_for(int(n)) for n in np.diff(offsets)[clients]])
    drawn = [
        client_rng(seed, c, 0).random(k) for c, k in zip(clients, wanted, strict=True)
    ]
    places = np.concatenate([[0], np.cumsum(wanted)])
    held, out = np.zeros(3, dtype=np.int64), empty_cells(places, d)
    batches.condense(
        rows, np.ones(30), np.empty(0), offsets, clients, wanted,
        np.concatenate(drawn), 5, min_cell, places, held, out,
    )  # fmt: skip
    for index, client in enumerate(clients):
        mine = rows[offsets[client] : offsets[client + 1]]
        alone = condense(mine, params, client_rng(seed, client, 0))
        same_cells(cells_at(places, held, out, index), alone)


def test_cells_that_stand_for_rows_are_condensed_too(seed):
    rng = np.random.default_rng(seed)
    offsets = np.array([0, 6, 10])
    cells = Cells(
        rng.integers(1, 9, 10), np.round(rng.normal(0, 2, (10, 2))), rng.random(10)
    )
    params = DefaultParams(min_cell=4)
    totals = [int(cells.counts[:6].sum()), int(cells.counts[6:].sum())]
    wanted = np.array([params.cells_for(n) for n in totals])
    drawn = [client_rng(seed, c, 0).random(k) for c, k in enumerate(wanted)]
    places = np.concatenate([[0], np.cumsum(wanted)])
    held, out = np.zeros(2, dtype=np.int64), empty_cells(places, 2)
    batches.condense(
        cells.means, cells.counts.astype(float), cells.scatters, offsets,
        np.arange(2), wanted, np.concatenate(drawn), 5, 4, places, held, out,
    )  # fmt: skip
    for client, some in enumerate([slice(0, 6), slice(6, 10)]):
        mine = Cells(cells.counts[some], cells.means[some], cells.scatters[some])
        alone = condense(mine, params, client_rng(seed, client, 0))
        same_cells(cells_at(places, held, out, client), alone)


@KINDS
@pytest.mark.parametrize(("d", "min_cell"), [(1, 1), (2, 4), (5, 1)])
def test_replies_are_those_of_one_client_after_the_other(seed, kind, d, min_cell):
    rows, offsets = client_tables(seed, kind, d)
    rng = np.random.default_rng(seed + 1)
    centers = rng.normal(0, 1, (6, d))
    centers[3] = centers[1]
    spreads, sizes = rng.random(6), np.array([5.0, 1.0, 9.0, 3.0, 0.0, 8.0])
    level = Level(centers, spreads, sizes, 0)
    clients = np.array([4, 0, 1, 2])
    most = np.minimum(6, np.maximum(1, np.diff(offsets)[clients] // min_cell))
    places = np.concatenate([[0], np.cumsum(most)])
    held, out = np.zeros(4, dtype=np.int64), empty_cells(places, d)
    sums, valleys = np.empty((4, 2)), np.zeros((4, 6, 3), dtype=np.uint16)
    batches.around(
        rows, offsets, clients, centers, spreads, sizes, min_cell,
        places, held, out, sums, valleys,
    )  # fmt: skip
    for index, client in enumerate(clients):
        mine = rows[offsets[client] : offsets[client + 1]]
        params = DefaultParams(min_cell=min_cell)
        alone = reply(mine, Plan(centers, (level,)), params).levels[0]
        same_cells(cells_at(places, held, out, index), alone.cells)
        assert sums[index].tolist() == alone.sums.tolist()
        assert valleys[index].tolist() == alone.valleys.tolist()


def test_without_spreads_there_are_cells_only(seed):
    rows, offsets = client_tables(seed, "spread", 2)
    centers = np.random.default_rng(seed).normal(0, 1, (6, 2))
    none, places = np.empty(0), np.arange(6) * 6
    held, out = np.zeros(5, dtype=np.int64), empty_cells(places, 2)
    sums = np.full((5, 2), np.nan)
    batches.around(
        rows, offsets, np.arange(5), centers, none, none, 1, places, held, out, sums,
        np.zeros((5, 0, 3), dtype=np.uint16),
    )  # fmt: skip
    assert not np.any(sums)
    counts = [cells_at(places, held, out, c).counts.sum() for c in range(5)]
    assert counts == np.diff(offsets).tolist()


def test_equal_means_become_one_cell():
    # Around -1, 0 and 1 lie {-1, -1}, {0} and {1, 1}. Cells of two rows: 0 is as near
    # to -1 as to 1 and joins the lowest index, mean -2/3; 1 stays.
    rows = np.array([[-1.0], [-1.0], [0.0], [1.0], [1.0]])
    centers = np.array([[-1.0], [0.0], [1.0]])
    places, held = np.array([0, 3]), np.zeros(1, dtype=np.int64)
    out, none = empty_cells(places, 1), np.empty(0)
    batches.around(
        rows, np.array([0, 5]), np.array([0]), centers, none, none, 2,
        places, held, out, np.empty((1, 2)), np.zeros((1, 0, 3), dtype=np.uint16),
    )  # fmt: skip
    cells = cells_at(places, held, out, 0)
    assert cells.counts.tolist() == [3, 2]
    assert cells.means[:, 0].tolist() == [-2 / 3, 1.0]
    # The rows 0 and 2 as one cell and the row 1 as another have the same mean.
    counts, means = np.array([2, 1, 1]), np.array([[1.0], [1.0], [9.0]])
    scatters, into = np.array([2.0, 0.0, 0.0]), np.zeros(3, dtype=np.int64)
    out = empty_cells(np.array([0, 3]), 1)
    assert batches.send(3, 1, (counts, means, scatters), into, 0, out) == 2
    assert out[0][:2].tolist() == [3, 1]
    assert out[2][:2].tolist() == [2.0, 0.0]


def test_folding_is_that_of_cells(seed):
    rng = np.random.default_rng(seed)
    counts, means = rng.integers(1, 5, 9), rng.integers(0, 4, (9, 2)).astype(float)
    scatters = rng.random(9)
    wanted = fold(Cells(counts, means, scatters), 6)
    into = np.empty(9, dtype=np.int64)
    groups.fold(9, 6, (counts, means, scatters), into)
    alive = into == np.arange(9)
    same_cells(Cells(counts[alive], means[alive], scatters[alive]), wanted)


def test_cells_are_packed():
    places, held = np.array([0, 3, 5]), np.array([2, 0, 1])
    counts, means = np.arange(6), np.arange(6.0)[:, None]
    scatters = np.arange(6.0)
    assert batches.pack(places, held, (counts, means, scatters)) == 3
    assert counts[:3].tolist() == scatters[:3].tolist() == [0, 1, 5]
    assert means[:3, 0].tolist() == [0.0, 1.0, 5.0]


# ------------------------------------------------------------------ groups of rows


@KINDS
@pytest.mark.parametrize("d", [2, 5])
def test_groups_are_those_of_one_client_after_the_other(seed, kind, d):
    rows, offsets = client_tables(seed, kind, d)
    rows[:, 1] = 3.5  # a constant column
    clients = np.array([0, 2, 3, 4])
    labels, firsts = batch_sums.group(rows, offsets, clients, 3)
    at = known = 0
    for index, client in enumerate(clients):
        assert firsts[index] == known
        mine = group_rows(rows[offsets[client] : offsets[client + 1]], 3)
        assert labels[at : at + mine.shape[0]].tolist() == (mine + known).tolist()
        at += mine.shape[0]
        known += int(mine.max()) + 1

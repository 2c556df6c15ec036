# SPDX-License-Identifier: Apache-2.0
"""A batch of clients, and the server that hears it, against one client at a time."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core import client, rebuild, server
from afcl.core.batch import Tables, cohort_sums, condense, reply
from afcl.core.cells import concatenate, exchange, nothing, take, union
from afcl.core.cohort import Cohort
from afcl.core.cohort_answers import numbers_for
from afcl.core.messages import Batch, Cells, Hello, Level, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng
from afcl.core.refine import coarse
from afcl.core.state import ServerState
from afcl.core.tasks import COUNT, SCORE, SUM, Question

SPOTS = np.array([[0.1, 0.1], [0.9, 0.1], [0.1, 0.8], [0.8, 0.9]])


def people(seed, n_clients=9, kind="spread"):
    """Clients of very different sizes that see all four spots."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 40, n_clients)
    rows = SPOTS[rng.integers(0, 4, sizes.sum())]
    rows = rows + rng.normal(0, 0.04, rows.shape)
    if kind == "duplicates":
        rows = np.round(rows, 1)
    return Tables(rows, np.concatenate([[0], np.cumsum(sizes)]))


def table(crowd, index):
    return crowd.rows[crowd.offsets[index] : crowd.offsets[index + 1]]


def in_parts(work, index):
    """Share work out in parts of two."""
    return [work(index[i : i + 2]) for i in range(0, index.shape[0], 2)]


def same_cells(a, b):
    assert np.array_equal(a.counts, b.counts)
    assert np.array_equal(a.means, b.means)
    assert np.array_equal(a.scatters, b.scatters)


def line(*counts):
    """Cells on a line, one at 0, the next at 1, and so on."""
    n = len(counts)
    return Cells(np.array(counts), np.arange(float(n))[:, None], np.zeros(n))


# ------------------------------------------------------------------ columns


def several(offsets, *counts):
    cells = line(*counts)
    return Cells(cells.counts, cells.means, cells.scatters, np.array(offsets))


def test_cells_of_several_clients_by_hand():
    cells = several([0, 1, 3, 4], 1, 2, 3, 4)
    assert cells.sizes.tolist() == [1, 2, 1]
    taken = take(cells, np.array([2, 0]))
    assert taken.counts.tolist() == [4, 1]
    assert taken.means[:, 0].tolist() == [3.0, 0.0]
    assert taken.sizes.tolist() == [1, 1]
    both = concatenate([cells, taken, line(7, 7)])
    assert both.counts.tolist() == [1, 2, 3, 4, 4, 1, 7, 7]
    assert both.sizes.tolist() == [1, 2, 1, 1, 1, 2]
    assert concatenate([cells]) is cells
    assert nothing(3, 2).sizes.tolist() == [0, 0]


def test_newer_cells_take_the_place_of_older_ones():
    old = several([0, 1, 3, 4], 1, 2, 3, 4)
    new = several([0, 0, 2], 8, 9)
    now = exchange(old, new, np.array([1, -1, 0]))
    assert now.counts.tolist() == [8, 9, 2, 3]
    assert now.means[:, 0].tolist() == [0.0, 1.0, 1.0, 2.0]
    assert now.sizes.tolist() == [2, 2, 0]
    assert exchange(old, old, np.arange(3)) is old
    assert exchange(old, new, np.full(3, -1)) is old


# ------------------------------------------------------------------ clients


@pytest.mark.parametrize("kind", ["spread", "duplicates"])
@pytest.mark.parametrize("min_cell", [1, 5])
def test_clients_say_what_each_would_say(seed, kind, min_cell):
    crowd = people(seed, kind=kind)
    params = DefaultParams(min_cell=min_cell)
    everybody = np.arange(9)
    hellos = condense(crowd, everybody, params, seed)
    each = [
        client.condense(table(crowd, c), params, client_rng(seed, c, 0))
        for c in range(9)
    ]
    same_cells(hellos, union(each))
    assert hellos.sizes.tolist() == [len(cells) for cells in each]
    batch = Batch(everybody, hellos, crowd.sizes)
    state, _ = server.absorb_batch(ServerState(params, seed), batch)
    plan = rebuild.prepare(state).sent[-1]
    some = np.array([1, 2, 5, 8])
    said = reply(crowd, some, plan, params, in_parts)
    answers = [client.reply(table(crowd, c), plan, params) for c in some]
    same_cells(said.cells, union(answer.cells for answer in answers))
    for position, views in enumerate(said.levels):
        levels = [answer.levels[position] for answer in answers]
        same_cells(views.cells, union(level.cells for level in levels))
        assert views.sums.tolist() == [level.sums.tolist() for level in levels]
        assert views.valleys.tolist() == [level.valleys.tolist() for level in levels]


# ------------------------------------------------------------------ server


def both_greeted(tables, params, seed):
    """The states after everybody's hello: in one batch, and one by one."""
    everybody = np.arange(tables.sizes.shape[0])
    hellos = condense(tables, everybody, params, seed)
    batch = Batch(everybody, hellos, tables.sizes)
    ours, found = server.absorb_batch(ServerState(params, seed), batch)
    assert found["cells"].tolist() == hellos.sizes.tolist()
    theirs = ServerState(params, seed)
    for c, n in enumerate(tables.sizes.tolist()):
        cells = client.condense(table(tables, c), params, client_rng(seed, c, 0))
        theirs, _ = server.absorb_hello(theirs, Hello(n, cells, client=c))
    return ours, theirs


def compare(ours, theirs):
    """Assert that both servers know the same."""
    same_cells(ours.bag(), theirs.bag())
    same_cells(ours.silent_bag(), theirs.silent_bag())
    assert ours.total_rows() == theirs.total_rows()
    assert ours.version == theirs.version
    assert ours.wanted(0).tolist() == [theirs.wanted(c) for c in theirs.active()]
    assert server.done(ours) == server.done(theirs)
    if ours.replies:
        for position in range(len(theirs.candidates)):
            same_cells(ours.level_bag(position), theirs.level_bag(position))
            sums = theirs.replied_sums(position)
            assert np.array_equal(ours.replied_sums(position), sums)
    for mine, other in zip(ours.candidates, theirs.candidates, strict=True):
        assert np.array_equal(mine.valleys, other.valleys)


@pytest.mark.parametrize("drift", [0.0, 0.01])
def test_a_batch_is_absorbed_as_one_by_one(seed, drift):
    tables = people(seed)
    params = DefaultParams(min_cell=2, contacts=5, drift=drift, n_seeds=12)
    ours, theirs = both_greeted(tables, params, seed)
    rng = np.random.default_rng(seed)
    for _ in range(6):
        ours, theirs = rebuild.prepare(ours), rebuild.prepare(theirs)
        compare(ours, theirs)
        wanted = np.array(sorted(server.broadcast(theirs).wanted or ()), dtype=np.int64)
        assert server.broadcast(ours).group.tolist() == wanted.tolist()
        assert not server.broadcast(ours).wanted
        there = wanted[rng.random(wanted.shape[0]) < 0.6]
        if not there.size:
            continue
        plan = ours.sent[-1]
        batch = Batch(there, reply(tables, there, plan, params), version=ours.version)
        ours, together = server.absorb_batch(ours, batch)
        found = []
        for c in there.tolist():
            answer = client.reply(table(tables, c), plan, params)
            update = Update(answer, theirs.version, c, 1)
            theirs, diagnostics = server.absorb_update(theirs, update)
            found.append(diagnostics["finer"])
        assert together["finer"].tolist() == found
        compare(ours, theirs)
    best, known = server.result(ours), server.result(theirs)
    assert best.centers is not None
    assert known.centers is not None
    assert np.array_equal(best.centers, known.centers)
    assert best.scores == known.scores


# ------------------------------------------------------------------ sums of cohorts


@pytest.mark.parametrize("kind", ["spread", "duplicates"])
def test_sums_are_those_of_the_members(seed, kind):
    """Cohorts whose members lie anywhere among the tables, in any order."""
    crowd = people(seed, kind=kind)
    first = coarse(SPOTS)
    level = Level(SPOTS, np.full(4, 0.01), np.full(4, 30.0), 0)
    asked = [
        (Cohort((4, 0, 8), Question(COUNT, (first,))), np.array([4, 0, 8])),
        (Cohort((1, 2, 3), Question(SUM, (first,))), np.array([3, 1])),
        (Cohort((5, 6, 7), Question(SCORE, levels=(level,))), np.array([7, 5, 6])),
    ]
    sums = cohort_sums(crowd, asked)
    for (cohort, members), ours in zip(asked, sums, strict=True):
        assert cohort.question is not None
        alone = [numbers_for(cohort.question, table(crowd, c)) for c in members]
        assert ours.tolist() == np.sum(alone, axis=0).tolist()
    shared = cohort_sums(crowd, asked, in_parts)
    assert [a.tolist() for a in shared] == [a.tolist() for a in sums]

# SPDX-License-Identifier: Apache-2.0
"""A crowd's columns against one client and one server object at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl.core import client, rebuild, server
from afcl.core.batch import Batch, Crowd, no_cells, one_after_another, updated
from afcl.core.cells import union
from afcl.core.crowd import CrowdState, absorb_hellos, absorb_replies, condense, replies
from afcl.core.messages import Cells, Hello, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng
from afcl.core.state import ServerState

SPOTS = np.array([[0.1, 0.1], [0.9, 0.1], [0.1, 0.8], [0.8, 0.9]])


def people(seed, n_clients=9, kind="spread"):
    """Clients of very different sizes that see all four spots."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 40, n_clients)
    rows = SPOTS[rng.integers(0, 4, sizes.sum())]
    rows = rows + rng.normal(0, 0.04, rows.shape)
    if kind == "duplicates":
        rows = np.round(rows, 1)
    return Crowd(rows, np.concatenate([[0], np.cumsum(sizes)]))


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


def test_batches_by_hand():
    batch = Batch(line(1, 2, 3, 4), np.array([0, 1, 3, 4]))
    assert batch.sizes.tolist() == [1, 2, 1]
    taken = batch.take(np.array([2, 0]))
    assert taken.cells.counts.tolist() == [4, 1]
    assert taken.cells.means[:, 0].tolist() == [3.0, 0.0]
    assert taken.offsets.tolist() == [0, 1, 2]
    both = one_after_another([batch, taken])
    assert both.cells.counts.tolist() == [1, 2, 3, 4, 4, 1]
    assert both.sizes.tolist() == [1, 2, 1, 1, 1]
    assert one_after_another([batch]) is batch
    assert no_cells(2, 3).sizes.tolist() == [0, 0]


def test_newer_cells_take_the_place_of_older_ones():
    old = Batch(line(1, 2, 3, 4), np.array([0, 1, 3, 4]))
    new = Batch(line(8, 9), np.array([0, 0, 2]))
    now = updated(old, new, np.array([1, -1, 0]))
    assert now.cells.counts.tolist() == [8, 9, 2, 3]
    assert now.sizes.tolist() == [2, 2, 0]
    assert updated(old, old, np.arange(3)) is old
    assert updated(old, new, np.full(3, -1)) is old


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
    same_cells(hellos.cells, union(each))
    assert hellos.sizes.tolist() == [len(cells) for cells in each]
    state = absorb_hellos(CrowdState(params, seed), hellos, crowd.sizes)
    plan = rebuild.prepare(state).sent[-1]
    some = np.array([1, 2, 5, 8])
    said = replies(crowd, some, plan, params, in_parts)
    answers = [client.reply(table(crowd, c), plan, params) for c in some]
    same_cells(said.cells.cells, union(answer.cells for answer in answers))
    for position, views in enumerate(said.levels):
        levels = [answer.levels[position] for answer in answers]
        same_cells(views.cells.cells, union(level.cells for level in levels))
        assert views.simplified.tolist() == [level.simplified for level in levels]
        assert views.moment.tolist() == [level.moment for level in levels]


# ------------------------------------------------------------------ server


def both_greeted(crowd, params, seed):
    """The crowd's state and the ordinary one after everybody's hello."""
    hellos = condense(crowd, np.arange(crowd.sizes.shape[0]), params, seed)
    ours = absorb_hellos(CrowdState(params, seed), hellos, crowd.sizes)
    theirs = ServerState(params, seed)
    for c, n in enumerate(crowd.sizes.tolist()):
        cells = client.condense(table(crowd, c), params, client_rng(seed, c, 0))
        theirs, _ = server.absorb_hello(theirs, Hello(n, cells, client=c))
    return ours, theirs


def prepared(state):
    """Return a crowd's state after the heavy work."""
    state = rebuild.prepare(state)
    assert isinstance(state, CrowdState)
    return state


def compare(ours, theirs):
    """Assert that both servers know the same."""
    same_cells(ours.bag(), theirs.bag())
    same_cells(ours.silent_bag(), theirs.silent_bag())
    assert ours.total_rows() == theirs.total_rows()
    assert ours.version == theirs.version
    assert ours.active() == theirs.active()
    assert [ours.satisfied(c) for c in ours.active()] == [
        theirs.satisfied(c) for c in theirs.active()
    ]
    assert server.done(ours) == server.done(theirs)
    if ours.replied().any():
        for position in range(len(theirs.candidates)):
            same_cells(ours.level_bag(position), theirs.level_bag(position))
            assert ours.replied_sums(position) == pytest.approx(
                theirs.replied_sums(position), rel=1e-13
            )


@pytest.mark.parametrize("drift", [0.0, 0.01])
def test_the_server_knows_what_the_ordinary_one_knows(seed, drift):
    crowd = people(seed)
    params = DefaultParams(min_cell=2, contacts=5, drift=drift, n_seeds=12)
    ours, theirs = both_greeted(crowd, params, seed)
    rng = np.random.default_rng(seed)
    for _ in range(6):
        ours, theirs = prepared(ours), rebuild.prepare(theirs)
        compare(ours, theirs)
        wanted = np.array(sorted(server.broadcast(theirs).wanted or ()), dtype=np.int64)
        assert np.flatnonzero(ours.wanted()).tolist() == wanted.tolist()
        there = wanted[rng.random(wanted.shape[0]) < 0.6]
        if not there.size:
            continue
        plan = ours.sent[-1]
        ours, finer = absorb_replies(ours, replies(crowd, there, plan, params))
        found = []
        for c in there.tolist():
            said = client.reply(table(crowd, c), plan, params)
            update = Update(said, theirs.version, c, 1)
            theirs, facts = server.absorb_update(theirs, update)
            found.append(facts["finer"])
        assert finer == sum(found)
        compare(ours, theirs)
    best, known = server.result(ours), server.result(theirs)
    assert best.centers is not None
    assert known.centers is not None
    assert np.array_equal(best.centers, known.centers)
    assert best.scores == pytest.approx(known.scores, rel=1e-12)


def test_what_was_said_of_an_older_version_is_not_used():
    crowd = people(0)
    params = DefaultParams(min_cell=2)
    state, _ = both_greeted(crowd, params, 0)
    state = prepared(state)
    everybody = np.arange(9)
    said = replies(crowd, everybody, state.sent[-1], params)
    state, _ = absorb_replies(state, said)
    assert state.replied().all()
    newer = replace(state, version=state.version + 1)
    assert not newer.replied().any()
    assert newer.wanted().all()
    # A cell of two features is a count, a mean, a scatter and an owner: 5 numbers.
    cells = said.cells.sizes + sum(views.cells.sizes for views in said.levels)
    assert said.array_bytes.tolist() == (cells * 40).tolist()

# SPDX-License-Identifier: Apache-2.0
"""How much the server remembers, and what is left of what it condensed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afcl import AFCL
from afcl.core import budget, rebuild
from afcl.core.budget import within_budget
from afcl.core.cells import pool
from afcl.core.client import condense, reply
from afcl.core.messages import Cells, Hello, Left, Update
from afcl.core.params import LEAST_CELLS, DefaultParams
from afcl.core.protocol import client_rng
from afcl.core.rebuild import prepare
from afcl.core.server import (
    absorb_hello,
    absorb_left,
    absorb_update,
    broadcast,
    done,
    progress,
    result,
)
from afcl.core.state import ServerState
from afcl.exceptions import InputError, RejectedMessage

SMALL: dict[str, Any] = {"min_cell": 1, "n_seeds": 16, "max_clusters": 6}
LEAST = DefaultParams(**SMALL, max_cells=LEAST_CELLS)
FREE = DefaultParams(**SMALL)
SPOTS = np.array([[0.2, 0.2], [0.8, 0.3], [0.4, 0.9]])


def tables(seed, clients=120, rows=20):
    rng = np.random.default_rng(seed)
    return [
        SPOTS[rng.integers(0, 3, rows)] + 0.04 * rng.normal(size=(rows, 2))
        for _ in range(clients)
    ]


def greeted(state, rows, seed=0):
    """Return the state after everybody's hello; nobody ever exceeds the budget."""
    for client, X in enumerate(rows):
        cells = condense(X, state.params, client_rng(seed, client, 0))
        state, _ = absorb_hello(state, Hello(X.shape[0], cells, client=client))
        assert state.remembered <= state.params.max_cells
    return state


def answered(state, rows, clients):
    """Return the state after these clients' answers to the newest plan."""
    sent = broadcast(state)
    for client in clients:
        said = reply(rows[client], sent.payload, state.params)
        update = Update(said, version=sent.version, client=client)
        state, _ = absorb_update(state, update)
        assert state.remembered <= state.params.max_cells
    return state


def whole(bag):
    """Return count, mean and scatter of all cells together."""
    counts, means, scatters = pool(bag, np.zeros(len(bag), dtype=np.int64), 1)
    return np.concatenate([counts, means[0], scatters])


def middles(state):
    """Return the centres of the answer, sorted."""
    centers = result(state).centers
    assert centers is not None
    return np.sort(centers, axis=0)


def real_size(state):
    cells = sum(len(cells) for cells in state.memory.values())
    return cells + sum(
        len(level.cells) for said in state.replies.values() for level in said
    )


# ------------------------------------------------------------------ condensing


def test_whose_cells_are_whose(seed):
    rows = tables(seed)
    free = greeted(ServerState(FREE, seed), rows, seed)
    sizes = [len(free.memory[client]) for client in range(len(rows))]
    assert np.array_equal(free.owners(), np.repeat(np.arange(len(rows)), sizes))
    pooled = greeted(ServerState(LEAST, seed), rows, seed)
    owners, held = pooled.owners(), len(pooled.bag()) - len(pooled.pooled.cells or ())
    assert len(owners) == len(pooled.bag())
    assert np.all(owners[:held] >= 0)
    assert np.all(owners[held:] == -1)


def test_below_the_budget_nothing_happens(seed):
    state = greeted(ServerState(FREE, seed), tables(seed, 30), seed)
    assert within_budget(state) is state
    assert state.remembered == len(state.bag()) == real_size(state)
    assert len(state.pooled) == 0
    assert "condensed" not in progress(prepare(state))
    assert dict(result(prepare(state)).extra) == {}


def test_the_bag_stands_for_the_same_rows(seed):
    rows = tables(seed)
    free = greeted(ServerState(FREE, seed), rows, seed)
    tight = greeted(ServerState(LEAST, seed), rows, seed)
    assert free.remembered > LEAST_CELLS >= tight.remembered
    assert tight.held == real_size(tight)
    np.testing.assert_allclose(whole(tight.bag()), whole(free.bag()), rtol=1e-12)
    np.testing.assert_allclose(
        whole(tight.silent_bag()), whole(free.silent_bag()), rtol=1e-12
    )
    assert tight.active() == free.active() == list(range(120))
    assert tight.total_rows() == free.total_rows() == 2400


def test_it_falls_to_half_of_the_budget(seed):
    state = greeted(ServerState(FREE, seed), tables(seed), seed)
    tight = ServerState(LEAST, seed)
    sizes = []
    for client, cells in sorted(state.memory.items()):
        tight, _ = absorb_hello(tight, Hello(20, cells, client=client))
        sizes.append(tight.remembered)
    falls = [b for a, b in zip(sizes, sizes[1:], strict=False) if b < a]
    assert falls
    assert max(falls) <= LEAST_CELLS // 2


def test_the_old_state_stays_what_it_was(seed):
    before = greeted(ServerState(LEAST, seed), tables(seed, 60), seed)
    memory, cells = dict(before.memory), whole(before.bag())
    state = before
    for client in range(60, 160):
        X = tables(seed + 1, 1)[0]
        bag = condense(X, LEAST, client_rng(seed, client, 0))
        state, _ = absorb_hello(state, Hello(20, bag, client=client))
    assert len(state.pooled.clients) > len(before.pooled.clients)
    assert dict(before.memory) == memory
    assert np.array_equal(whole(before.bag()), cells)


def test_who_cannot_improve_goes_first(seed):
    rows = tables(seed, 70)
    state = greeted(ServerState(LEAST, seed), rows, seed)
    assert not state.pooled.clients
    state, _ = absorb_left(state, Left(11))
    state, _ = absorb_left(state, Left(7))
    state = prepare(state)
    wide = 0
    while not state.pooled.clients:
        state = answered(state, rows, [20 + wide, 20 + wide])
        wide += 1
    gone = state.pooled.clients
    assert {7, 11} <= gone
    satisfied = set(range(20, 20 + wide - 1))  # the last one had a word left
    assert satisfied <= gone
    others = sorted(set(range(70)) - {7, 11} - satisfied)
    alone = [client for client in others if client not in gone]
    assert alone == others[len(others) - len(alone) :]


def test_by_number_when_all_may_improve(seed):
    state = greeted(ServerState(LEAST, seed), tables(seed), seed)
    gone = sorted(state.pooled.clients)
    assert gone == list(range(len(gone)))
    assert sorted(state.memory) == list(range(len(gone), 120))


# ------------------------------------------------------------------ afterwards


def test_a_condensed_client_is_asked_but_its_finer_cells_are_not_used(seed):
    rows = tables(seed)
    state = prepare(greeted(ServerState(LEAST, seed), rows, seed))
    asked = broadcast(state)
    assert asked.wanted == frozenset(range(120))
    said = Update(reply(rows[0], asked.payload, LEAST), asked.version, client=0)
    assert 0 in state.pooled.clients
    after, found = absorb_update(state, said)
    assert not found["finer"]
    assert found["current"]
    assert not after.moved
    assert after.stale
    assert 0 in after.replies
    assert after.contacts[0] == 2
    assert after.bag().counts.sum() == state.bag().counts.sum()


def test_replies_take_the_place_of_the_pool(seed):
    """Row by row a level is known by replies, or by the memory of who is silent."""
    rows = tables(seed)
    state = prepare(greeted(ServerState(LEAST, seed), rows, seed))
    total = state.total_rows()
    for client in range(0, 120, 7):
        state = answered(state, rows, [client])
        for position in range(len(state.candidates)):
            assert state.level_bag(position).counts.sum() == total
    replied = {*state.pooled.replied, *state.replies}
    assert replied == set(range(0, 120, 7))
    silent = sum(rows[c].shape[0] for c in range(120) if c not in replied)
    assert state.silent_bag().counts.sum() == silent


def test_replies_are_pooled_too_and_all_of_them_count(seed):
    rows = tables(seed, 300)
    state = prepare(greeted(ServerState(LEAST, seed), rows, seed))
    plan = broadcast(state).payload
    said = [reply(X, plan, LEAST).levels for X in rows]
    state = answered(state, rows, range(300))
    assert state.pooled.replied
    for position in range(len(state.candidates)):
        levels = [levels[position] for levels in said]
        together = state.level_bag(position)
        assert together.counts.sum() == state.total_rows()
        sums = np.sum([level.sums for level in levels], axis=0)
        assert state.replied_sums(position) == pytest.approx(sums)
        valleys = np.sum([level.valleys for level in levels], axis=0)
        k = state.candidates[position].k
        assert state.replied_valleys(position, k).tolist() == valleys.tolist()
        assert state.replied_valleys(position, k + 1).shape == (0, 3)
    assert len(state.silent_bag()) == 0
    # Whoever replies once more is heard, but a pooled reply stays what it was.
    again = min(state.pooled.replied)
    later = answered(state, rows, [again])
    assert again not in later.replies
    assert later.answers[again] == 2
    assert later.satisfied(again)


def test_a_new_version_forgets_replies_and_nothing_else(seed):
    rows = tables(seed, 300)
    state = prepare(greeted(ServerState(LEAST, seed), rows, seed))
    state = answered(state, rows, range(300))
    renewed = state.unanswered()
    assert not renewed.replies
    assert not renewed.answers
    assert not renewed.pooled.replied
    assert not renewed.pooled.views
    assert renewed.held == real_size(renewed)
    assert np.array_equal(renewed.bag().means, state.bag().means)
    assert renewed.silent_bag().counts.sum() == state.total_rows()


def test_an_equal_hello_is_known_again_and_another_is_refused(seed):
    rows = tables(seed)
    state = greeted(ServerState(LEAST, seed), rows, seed)
    assert 3 in state.pooled.clients
    same = condense(rows[3], LEAST, client_rng(seed, 3, 0))
    again, found = absorb_hello(state, Hello(20, same, client=3))
    assert again is state
    assert found["repeated"]
    other = Cells(same.counts, same.means + 1e-9, same.scatters)
    with pytest.raises(RejectedMessage, match="its first are condensed"):
        absorb_hello(state, Hello(20, other, client=3))
    alone = max(state.memory)
    mine = Cells(state.memory[alone].counts, same.means, same.scatters)
    changed, found = absorb_hello(state, Hello(20, mine, client=alone))
    assert not found["repeated"]
    assert changed.memory[alone] is mine


def test_it_is_said(seed):
    state = prepare(greeted(ServerState(LEAST, seed), tables(seed), seed))
    number = len(state.pooled.clients)
    assert number > 0
    assert progress(state)["condensed"] == number
    assert result(state).extra["condensed"] == number


def test_the_share_of_a_level_is_never_nothing(seed, monkeypatch):
    # So little room that the levels' shares round to 0: each still gets a cell.
    monkeypatch.setattr(budget, "REPLIES", 1 << 20)
    rows = tables(seed, 300)
    state = prepare(greeted(ServerState(LEAST, seed), rows, seed))
    state = answered(state, rows, range(300))
    assert [len(view.cells) for view in state.pooled.views] == [1] * len(
        state.candidates
    )


# ------------------------------------------------------------------ whole runs


def test_a_run_with_the_least_budget_finds_the_same(seed):
    rows = tables(seed, 150)
    free = AFCL(**SMALL, privacy="summary", random_state=seed).fit_clients(rows)
    tight = AFCL(**SMALL, privacy="summary", max_cells=LEAST_CELLS, random_state=seed)
    tight.fit_clients(rows)
    assert tight.n_clusters_ == free.n_clusters_ == 3
    np.testing.assert_allclose(
        tight.cluster_centers_, free.cluster_centers_, atol=0.005
    )
    assert tight.trace_.of("prepare")[-1]["condensed"] > 100
    assert "condensed" not in free.trace_.of("prepare")[-1]


def test_it_ends_like_any_run(seed):
    rows = tables(seed, 100)
    state = prepare(greeted(ServerState(LEAST, seed), rows, seed))
    for _ in range(2):
        state = prepare(answered(state, rows, sorted(broadcast(state).wanted or ())))
    assert done(state)
    sizes = result(state).sizes
    assert sizes.sum() == state.total_rows()


def test_a_large_bag_is_worked_out_on_fewer_cells(seed, monkeypatch):
    rows = tables(seed, 60)
    state = greeted(ServerState(FREE, seed), rows, seed)
    every = prepare(state)
    assert len(state.bag()) > 800
    monkeypatch.setattr(rebuild, "BULK", 200)
    assert np.array_equal(middles(prepare(state)), middles(every))
    monkeypatch.setattr(rebuild, "WORK", 2 * 200)
    for _ in range(2):
        few = prepare(state)
        assert result(few).k == result(every).k == 3
        assert result(few).sizes.sum() == state.total_rows()
        np.testing.assert_allclose(middles(few), middles(every), atol=0.01)
        state = answered(few, rows, range(40))


@pytest.mark.parametrize("cells", [LEAST_CELLS - 1, 0, 2000.5, None])
def test_a_budget_is_a_number_and_not_too_small(cells):
    with pytest.raises(InputError, match="max_cells must be a whole number, at least"):
        DefaultParams(max_cells=cells)

# SPDX-License-Identifier: Apache-2.0
"""The server of the default preset, rule by rule (R1 to R7), and its edges and ties."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.metrics import calinski_harabasz_score

from afcl.core import rebuild, server
from afcl.core.cell_valleys import cell_valleys
from afcl.core.cells import pool, union
from afcl.core.client import condense, reply
from afcl.core.indices import BY_FREE_BIC, INDICES, PER_FOLD, choose
from afcl.core.messages import (
    Cells,
    Hello,
    Left,
    LevelReply,
    Plan,
    Summary,
    Update,
)
from afcl.core.params import DefaultParams
from afcl.core.path import polish, summary_silhouettes, ward
from afcl.core.protocol import PathLevel, client_rng, server_rng
from afcl.core.rebuild import prepare
from afcl.core.seeding import weighted_kmeans
from afcl.core.server import (
    _renewed_valleys,
    absorb_hello,
    absorb_left,
    absorb_update,
    broadcast,
    chosen,
    done,
    progress,
    result,
)
from afcl.core.state import ServerState
from afcl.exceptions import RejectedMessage
from afcl.kernels import assign, lloyd, silhouettes

LOOSE = DefaultParams(min_cell=1)


# -------------------------------------------------------------------- helpers


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def cells(counts, means, scatters=None):
    scatter = np.zeros(len(counts)) if scatters is None else np.array(scatters, float)
    return Cells(np.array(counts), column(*means), scatter)


def hello(client, bag, n_rows=None):
    rows = int(bag.counts.sum()) if n_rows is None else n_rows
    return Hello(rows, bag, client=client)


def greeted(*bags, params=LOOSE, seed=0):
    """Return the state after the hellos of clients 0, 1, ..., prepared."""
    state = ServerState(params, seed)
    for client, bag in enumerate(bags):
        state, _ = absorb_hello(state, hello(client, bag))
    return prepare(state)


def update(state, client, bag, views=None, version=None):
    """Return a current update; `views` are (cells, simplified, moment) a candidate."""
    plan = state.sent[-1] if state.sent else Plan(np.zeros((1, 1)), ())
    if views is None:
        views = [(bag, 0.0, 0.0)] * len(state.candidates)
    centers = [level.centers for level in plan.candidates]
    revisions = [level.revision for level in plan.candidates]
    centers += [plan.seeds] * (len(views) - len(centers))  # a level too many
    revisions += [0] * (len(views) - len(revisions))
    levels = tuple(
        LevelReply(
            around,
            owners(around, places),
            np.array([s, m]),
            np.zeros((places.shape[0], 3)),
            revision,
        )
        for (around, s, m), places, revision in zip(
            views, centers, revisions, strict=False
        )
    )
    stamp = state.version if version is None else version
    said = Summary(bag, owners(bag, plan.seeds), levels)
    return Update(said, version=stamp, client=client)


def owners(bag, centers):
    """Return every cell's nearest centre, -1 where another cell has it already."""
    nearest, _ = assign(bag.means, centers)
    first = np.unique(nearest, return_index=True)[1]
    return np.where(np.isin(np.arange(len(bag)), first), nearest, -1)


def absorbed(state, message):
    """Return the state after one update."""
    return absorb_update(state, message)[0]


def blobs(seed, n_clients=4, n=60):
    """Three groups of rows, mixed over the clients."""
    rng = np.random.default_rng(seed)
    middles = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.0]])
    return [
        middles[rng.integers(0, 3, n)] + 0.05 * rng.normal(size=(n, 2))
        for _ in range(n_clients)
    ]


def say_hello(tables, params, seed):
    return [
        dataclasses.replace(
            Hello(X.shape[0], condense(X, params, client_rng(seed, g, 0))), client=g
        )
        for g, X in enumerate(tables)
    ]


def started(tables, params=LOOSE, seed=0):
    state = ServerState(params, seed)
    for message in say_hello(tables, params, seed):
        state, _ = absorb_hello(state, message)
    return prepare(state)


def answer(sent, client, X, params=LOOSE):
    """Return what a client answers to a broadcast, stamped."""
    return Update(reply(X, sent.payload, params), version=sent.version, client=client)


def alike(a, b):
    """Whether two states, messages or answers hold the same bits."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(
            alike(getattr(a, field.name), getattr(b, field.name))
            for field in dataclasses.fields(a)
        )
    if isinstance(a, Mapping):
        return set(a) == set(b) and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)


def positions_in_order(points):
    return np.asarray(points)[:, 0].tolist()


def positions(points):
    return sorted(positions_in_order(points))


def wanted(state):
    """Return the clients a broadcast would go to."""
    asked = broadcast(state).wanted
    assert asked is not None
    return set(asked)


# ------------------------------------------------------------------ R1: hello


def test_a_hello_is_remembered_and_nothing_is_computed():
    state, found = absorb_hello(
        ServerState(LOOSE, 0), hello(3, cells([5, 6], [0, 1], [1, 2]))
    )
    assert found == {"accepted": True, "repeated": False, "cells": 2}
    assert dict(state.rows) == {3: 11}
    assert dict(state.contacts) == {3: 1}
    assert state.n_features == 1
    assert state.need_seed
    assert state.dirty
    assert not state.prepared
    assert state.seeds is None
    assert state.version == 0


def test_an_equal_hello_again_changes_nothing():
    state = greeted(cells([5, 6], [0, 1]))
    again, found = absorb_hello(state, hello(0, cells([5, 6], [0, 1])))
    assert again is state
    assert found == {"accepted": True, "repeated": True, "cells": 2}


def test_an_equal_hello_after_a_finer_reply_changes_nothing():
    # A duplicate on its way must not undo what the client has said since.
    first = cells([5, 6], [0, 1])
    state = greeted(first)
    finer = cells([4, 3, 4], [0, 0.5, 1])
    state = absorbed(state, update(state, 0, finer, version=0))
    again, found = absorb_hello(state, hello(0, first))
    assert again is state
    assert found["repeated"]


@pytest.mark.parametrize(
    ("bag", "n_rows"),
    [
        (cells([5, 6], [0, 2]), 11),  # other means
        (cells([5, 5], [0, 1]), 11),  # other counts
        (cells([5, 6], [0, 1], [0, 1]), 11),  # other scatters
        (cells([5, 6], [0, 1]), 12),  # more rows registered
        (cells([11], [0.5]), 11),  # coarser, but its own word
    ],
)
def test_a_different_hello_replaces_the_memory(bag, n_rows):
    state = greeted(cells([5, 6], [0, 1]), cells([7], [5]))
    changed, found = absorb_hello(state, hello(0, bag, n_rows))
    assert not found["repeated"]
    assert changed.memory[0] is bag
    assert dict(changed.rows) == {0: n_rows, 1: 7}
    assert dict(changed.contacts) == {0: 2, 1: 1}
    assert changed.need_seed
    assert changed.dirty
    assert prepare(changed).version == state.version + 1


def test_a_late_joiner_reseeds_and_rebuilds():
    # 20 rows: k0 = 5 but two distinct means; with the joiner's third mean there are 3.
    state = greeted(cells([10, 10], [0, 10]))
    assert positions(state.seeds) == [0.0, 10.0]
    state, _ = absorb_hello(state, hello(7, cells([10], [20])))
    state = prepare(state)
    assert positions(state.seeds) == [0.0, 10.0, 20.0]
    assert (state.version, state.seedings) == (2, 2)
    assert result(state).sizes.sum() == 30


# -------------------------------------------------------------------- R2: bag


def test_the_bag_is_by_client_then_cell():
    state = ServerState(LOOSE, 0)
    for client, means in ((9, [1, 0]), (2, [5]), (4, [3, 2])):
        state, _ = absorb_hello(state, hello(client, cells([1] * len(means), means)))
    assert state.bag().means[:, 0].tolist() == [5.0, 3.0, 2.0, 1.0, 0.0]
    assert state.active() == [2, 4, 9]


def test_each_client_counts_once_however_often_it_shows_up(seed):
    tables = blobs(seed)
    state = started(tables)
    for _ in range(5):
        state = prepare(absorbed(state, answer(broadcast(state), 0, tables[0])))
    assert state.bag().counts.sum() == 4 * 60
    assert result(state).sizes.sum() == 4 * 60


# ------------------------------------------------------------------ R3: seeds


def test_seeds_are_the_best_of_three_weighted_runs(seed):
    state = started(blobs(seed), seed=seed)
    bag = state.bag()
    # 240 rows: k0 = min(floor(2 * sqrt(240)), 240 // 4) = 30.
    expected = weighted_kmeans(
        bag.means, bag.counts.astype(float), 30, server_rng(seed, 0, 0), 3
    )
    np.testing.assert_array_equal(state.seeds, expected)


def test_seeds_are_no_more_than_distinct_means():
    # 48 rows ask for 12 seeds; there are three places.
    state = greeted(cells([12, 12], [0, 1]), cells([12, 12], [1, 4]))
    assert positions(state.seeds) == [0.0, 1.0, 4.0]


def test_reseeding_starts_once_from_the_present_seeds_if_the_number_fits(monkeypatch):
    starts = []

    def spy(X, weights, k, rng, restarts, start):
        starts.append((k, restarts, start))
        return weighted_kmeans(X, weights, k, rng, restarts, start)

    monkeypatch.setattr(rebuild, "weighted_kmeans", spy)
    state = greeted(cells([10, 10], [0, 10]))
    first = state.seeds
    state, _ = absorb_hello(state, hello(1, cells([10], [10])))
    state = prepare(state)  # still two places
    second = state.seeds
    state, _ = absorb_hello(state, hello(2, cells([10], [30])))
    prepare(state)  # three
    assert [k for k, _, _ in starts] == [2, 2, 3]
    assert [restarts for _, restarts, _ in starts] == [3, 3, 3]
    assert starts[0][2] is None
    assert starts[1][2] is first
    assert starts[2][2] is None
    assert second is not None
    assert second.shape == (2, 1)


# ------------------------------------------------------------------ R4: reply


def test_only_a_finer_reply_replaces_the_memory():
    params = dataclasses.replace(LOOSE, criterion="silhouette")  # one candidate
    state = greeted(cells([4, 4, 4], [0, 1, 10]), params=params)
    coarse, as_fine = cells([8, 4], [0.5, 10]), cells([4, 5, 3], [0, 1, 10])
    after, found = absorb_update(state, update(state, 0, coarse))
    assert not found["finer"]
    assert after.memory[0] is state.memory[0]
    assert not after.moved
    after, found = absorb_update(state, update(state, 0, as_fine))
    assert found == {"accepted": True, "finer": True, "current": True, "cells": 3}
    assert after.memory[0] is as_fine
    assert after.moved
    assert after.seeds is state.seeds  # the heavy part waits for prepare


def test_seeds_move_by_ten_lloyd_iterations():
    # Seeds at 0, 1, 2 and then 240 rows in a line: Lloyd needs many steps to spread.
    state = greeted(cells([80, 80, 80], [0, 1, 2]))
    line = cells([1] * 240, range(240))
    after = prepare(absorbed(state, update(state, 0, line, version=0)))
    weights = np.ones(240)
    found = [lloyd(line.means, weights, state.seeds, step)[0] for step in (9, 10, 11)]
    assert positions(found[0]) != positions(found[1]) != positions(found[2])
    np.testing.assert_array_equal(after.seeds, found[1])


def test_small_drift_keeps_the_path():
    # Seeds at 0 and 10, each with 10 rows and scatter 10. The cell at 0 moves to .1:
    # 10 * .01 = .1 is not more than .01 * 20 = .2.
    state = greeted(cells([10, 10], [0, 10], [10, 10]))
    after = prepare(
        absorbed(state, update(state, 0, cells([10, 10], [0.1, 10], [10, 10])))
    )
    assert positions(after.seeds) == [0.1, 10.0]
    assert after.movement == pytest.approx(0.1 / 20, rel=1e-12)
    assert after.version == state.version == 1
    assert after.levels is state.levels
    # Drift is measured from the last build: one more such step is 10 * .04 = .4.
    again = prepare(
        absorbed(after, update(after, 0, cells([10, 10], [0.2, 10], [10, 10])))
    )
    assert again.version == 2
    assert again.movement == 0.0
    np.testing.assert_array_equal(again.built_from, again.seeds)


def test_drift_rebuilds_and_forgets_the_replies():
    # The cell at 0 moves to .2: 10 * .04 = .4 > .2.
    state = greeted(cells([10, 10], [0, 10], [10, 10]))
    after = prepare(
        absorbed(state, update(state, 0, cells([10, 10], [0.2, 10], [10, 10])))
    )
    assert after.version == 2
    assert dict(after.replies) == {}
    assert dict(after.answers) == {}
    assert all(c.revision == 0 for c in after.candidates)
    assert positions(after.candidates[0].centers) == [0.2, 10.0]


@pytest.mark.parametrize("contacts", [2, 3])
def test_the_last_build_keeps_the_valleys_that_were_replied(contacts):
    """Only if nobody is asked any more: else those who are will count anew."""
    params = dataclasses.replace(LOOSE, contacts=contacts)
    state = greeted(cells([10, 10], [0, 10], [10, 10]), params=params)
    counted = np.array([[1.0, 5.0, 6.0], [2.0, 6.0, 5.0]])
    moved = update(state, 0, cells([10, 10], [0.2, 10], [10, 10]))
    levels = [dataclasses.replace(c, valleys=counted) for c in moved.payload.levels]
    told = dataclasses.replace(moved.payload, levels=tuple(levels))
    moved = dataclasses.replace(moved, payload=told)
    after = server.prepare(absorbed(state, moved))
    assert after.version == 2
    kept = after.candidates[0].valleys.tolist()
    assert kept == (counted.tolist() if contacts == 2 else [])


def test_the_last_build_keeps_the_valleys_of_the_one_before():
    """Where nobody replied since, and who could be asked has left."""
    both = cells([10, 10], [0, 10], [10, 10])
    state = greeted(both, both)
    counted = np.array([[1.0, 5.0, 6.0], [2.0, 6.0, 5.0]])
    known = [dataclasses.replace(c, valleys=counted) for c in state.candidates]
    late = dataclasses.replace(state, candidates=tuple(known), need_seed=True)
    for client in (0, 1):
        late, _ = absorb_left(late, Left(client))
    after = server.prepare(late)
    assert after.version == 2
    found = after.candidates[0]
    order = np.argsort(found.centers[:, 0])  # the counts have gone with their centres
    before = np.argsort(known[0].centers[:, 0])
    assert found.valleys[order].tolist() == counted[before].tolist()


def test_without_scatter_any_movement_is_drift():
    state = greeted(cells([10, 10], [0, 10]))
    same = prepare(absorbed(state, update(state, 0, cells([10, 10], [0, 10]))))
    assert (same.version, same.movement) == (1, 0.0)
    moved = prepare(absorbed(state, update(state, 0, cells([10, 10], [0.001, 10]))))
    assert moved.version == 2


def test_seeds_without_mass_are_placed_anew():
    # Seeds 0, 1, 10. The finer memory has cells at 0, 9, 11: the seed at 1 is empty,
    # the one at 10 holds both 9 and 11, 5 * 1 each: the first of them, 9, takes the
    # empty seed, and 11 keeps the other.
    state = greeted(cells([5, 5, 5], [0, 1, 10]))
    assert positions(state.seeds) == [0.0, 1.0, 10.0]
    moved = update(state, 0, cells([5, 5, 5], [0, 9, 11]), version=0)
    after = prepare(absorbed(state, moved))
    assert positions(after.seeds) == [0.0, 9.0, 11.0]
    assert after.version == 2
    assert result(after).sizes.sum() == 15


def test_seeds_that_stay_empty_are_dropped_before_ward():
    # All cells now lie in two places; the third seed finds nobody.
    state = greeted(cells([5, 5, 5], [0, 1, 10]))
    moved = update(state, 0, cells([5, 5, 5], [0, 10, 10]), version=0)
    after = prepare(absorbed(state, moved))
    assert after.seeds is not None
    assert after.seeds.shape[0] == 3
    assert len(after.merges) == 1
    assert [level.k for level in after.levels] == [2]


def test_a_late_reply_counts_for_the_seeds_only():
    state = greeted(cells([10, 10], [0, 10], [10, 10]))
    old = update(state, 0, cells([10, 10], [0.1, 10], [10, 10]), version=0)
    after, found = absorb_update(state, old)
    assert found == {"accepted": True, "finer": True, "current": False, "cells": 2}
    assert after.moved
    assert not after.stale
    assert dict(after.replies) == {}
    assert dict(after.answers) == {}
    assert dict(after.contacts) == {0: 2}
    prepared = prepare(after)
    assert prepared.candidates is state.candidates
    assert positions(prepared.seeds) == [0.1, 10.0]


def test_a_late_reply_may_know_other_candidates():
    state = greeted(cells([10, 10], [0, 10], [10, 10]))
    bag = cells([20], [5], [520])
    old = update(state, 0, bag, [(bag, 0.0, 0.0)] * 4, version=0)
    after, found = absorb_update(state, old)
    assert not found["finer"]
    assert not found["current"]
    assert prepare(after).candidates is state.candidates


def test_while_dirty_no_reply_is_current():
    # A hello arrives between broadcast and reply: the candidates will change.
    state = greeted(cells([10, 10], [0, 10]))
    pending = update(state, 0, cells([10, 10], [0, 10]))
    state, _ = absorb_hello(state, hello(1, cells([10], [20])))
    after, found = absorb_update(state, pending)
    assert not found["current"]
    assert dict(after.replies) == {}


def test_a_reply_before_the_first_build_is_remembered():
    state, _ = absorb_hello(ServerState(LOOSE, 0), hello(0, cells([4, 4], [0, 1])))
    finer = cells([4, 2, 2], [0, 1, 2])
    state, found = absorb_update(state, update(state, 0, finer))
    assert not found["current"]
    assert positions(prepare(state).seeds) == [0.0, 1.0, 2.0]


# ------------------------------------------------------------------ R5: build


def test_the_path_goes_from_two_to_the_largest_k(seed):
    state = started(blobs(seed))
    # 240 rows: kmax = floor(sqrt(240)) = 15.
    assert [level.k for level in state.levels] == list(range(2, 16))
    assert state.version == 1
    assert state.built_from is state.seeds
    bag = state.bag()
    labels, _ = assign(bag.means, state.seeds)
    counts, means, _ = pool(bag, labels, state.seeds.shape[0])
    assert state.merges == ward(counts, means)


def built(k, silhouette, simplified=0.0, bic=0.0, ch=0.0, free_bic=0.0):
    scores = {
        "silhouette": silhouette,
        "simplified": simplified,
        "ch": ch,
        "db": 1.0,
        "bic": bic,
        "free_bic": free_bic,
    }
    return PathLevel(k, np.zeros((k, 1)), np.ones(k), scores, np.zeros(k))


def kept(levels, by_free_bic=0, **options):
    with patch.object(rebuild, "BY_FREE_BIC", by_free_bic):
        found = rebuild._candidates(levels, DefaultParams(**options), 20)
    assert all(candidate.revision == 0 for candidate in found)
    return [candidate.k for candidate in found]


def test_candidates_lie_near_the_best_silhouette():
    # Within .02 of .75: .75, .74; .5 is not.
    levels = (built(2, 0.74), built(3, 0.75), built(4, 0.5))
    assert kept(levels) == [2, 3]
    assert kept(levels, criterion="silhouette") == [2, 3]
    assert kept(levels, prune=0.0) == [2, 3]  # the rule picks 2 in the band: see below
    assert kept(levels, prune=0.0, band=0.0) == [3]
    assert kept(levels, prune=0.25) == [2, 3]  # .02 ln(4/3) more are asked of k = 4
    assert kept(levels, prune=0.26) == [2, 3, 4]


def test_at_most_so_many_candidates_and_the_one_the_rule_picks():
    # Ten that are nearly worth the same, less for every k: the lowest six, and k = 9,
    # whose BIC is the best.
    levels = tuple(
        built(k, 0.5 + 0.999 * PER_FOLD * np.log(k), bic=float(k == 9))
        for k in range(2, 12)
    )
    assert kept(levels) == [2, 3, 4, 5, 6, 7, 9]
    assert kept(levels, candidates=1) == [2, 9]
    # With silhouettes that fall, the best come first.
    levels = tuple(built(k, 0.5 - 0.001 * k, bic=float(k == 3)) for k in range(2, 12))
    assert kept(levels, candidates=2) == [2, 3]


def test_the_likeliest_levels_are_candidates_of_the_rule():
    assert BY_FREE_BIC == 4
    bics = {3: 1.0, 7: 4.0, 8: 3.0, 9: 2.0, 10: 1.0}
    levels = tuple(
        built(k, 1.0 if k == 2 else 0.5, free_bic=bics.get(k, 0.0))
        for k in range(2, 12)
    )
    assert kept(levels, 4) == [2, 3, 7, 8, 9]  # 3 and 10 tie: the first
    assert kept(levels, 1) == [2, 7]
    assert kept(levels, 4, criterion="silhouette") == [2]


@pytest.mark.parametrize(
    ("k", "silhouette", "asked"),
    [(40, 0.2, True), (41, 0.2, False), (41, 0.51, False), (41, 0.6, True)],
)
def test_a_far_peak_that_cannot_win_is_not_asked_for(k, silhouette, asked):
    # .8 less .02 ln 2 is .786: a peak beyond k = 40 has to come within .3 of that, with
    # its own price of .074 paid.
    levels = (built(2, 0.8), built(3, 0.1), built(k, silhouette), built(50, 0.1))
    assert kept(levels) == ([2, k] if asked else [2])


def test_other_criteria_keep_their_own_best_levels():
    levels = tuple(built(k, 1.0 / k, ch=float(k)) for k in range(2, 12))
    assert kept(levels, criterion="ch") == [6, 7, 8, 9, 10, 11]
    assert kept(levels, criterion="ch", candidates=2) == [10, 11]


def test_no_levels_no_candidates():
    assert kept(()) == []


# -------------------------------------------------------------- R6: candidates


def test_counts_between_centres_are_added_up_over_who_replied(seed):
    tables = blobs(seed)
    state = started(tables, dataclasses.replace(LOOSE, drift=9.0))
    assert state.most == 15
    assert all(level.valleys.shape == (0, 3) for level in state.candidates)
    sent = broadcast(state)
    said = {g: answer(sent, g, tables[g]) for g in (1, 3)}
    for g in (1, 3):
        state = absorbed(state, said[g])
    state = prepare(state)
    for position, level in enumerate(state.candidates):
        each = [said[g].payload.levels[position].valleys for g in (1, 3)]
        assert level.valleys.tolist() == sum(each).tolist()
        assert level.valleys.sum() > 0


def test_counts_between_centres_are_unknown_once_a_centre_is_lost(seed):
    tables = blobs(seed)
    state = started(tables, dataclasses.replace(LOOSE, drift=9.0))
    sent = broadcast(state)
    for g in (0, 1, 2, 3):
        state = absorbed(state, answer(sent, g, tables[g]))
    # A centre that nobody is near: polishing drops it.
    level = state.candidates[0]
    extra = np.vstack([level.centers, [[50.0, 50.0]]])
    odd = dataclasses.replace(level, k=level.k + 1, centers=extra)
    lost = prepare(dataclasses.replace(state, candidates=(odd, *state.candidates[1:])))
    assert lost.candidates[0].k == level.k
    assert lost.candidates[0].valleys.shape == (0, 3)
    assert lost.candidates[1].valleys.shape == (lost.candidates[1].k, 3)
    # It stays so, though all replies speak of as many centres as are left.
    later = prepare(dataclasses.replace(lost, stale=True))
    assert later.candidates[0].valleys.shape == (0, 3)
    assert later.candidates[0].revision == 2


def test_nobody_replied_nothing_is_known():
    assert ServerState(LOOSE, 0).replied_valleys(0, 2).shape == (0, 3)


def test_a_group_that_lost_a_centre_starts_anew():
    old = np.ones((3, 4, 3), dtype=np.uint16)
    new = np.full((1, 3, 3), 2, dtype=np.uint16)
    found = _renewed_valleys(old, new, np.array([1]))
    assert found.shape == (3, 3, 3)
    assert found.sum(axis=(1, 2)).tolist() == [0, 18, 0]
    same = _renewed_valleys(old, np.concatenate([new, new[:, :1]], 1), np.array([1]))
    assert same.sum(axis=(1, 2)).tolist() == [12, 24, 12]


def test_candidates_are_polished_on_replies_and_on_the_memory_of_the_silent(seed):
    tables = blobs(seed)
    state = started(tables)
    sent = broadcast(state)
    replies = {g: answer(sent, g, tables[g]) for g in (1, 3)}
    after = state
    for message in replies.values():
        after = absorbed(after, message)
    after = dataclasses.replace(after, moved=False)  # only the candidates are at stake
    found = prepare(after)
    for position, candidate in enumerate(found.candidates):
        before = state.candidates[position]
        bag = union(
            [
                after.memory[0],
                replies[1].payload.levels[position].cells,
                after.memory[2],
                replies[3].payload.levels[position].cells,
            ]
        )
        counts, centers, scatters = polish(bag, before.centers)
        np.testing.assert_array_equal(candidate.centers, centers)
        np.testing.assert_array_equal(candidate.sizes, counts)
        np.testing.assert_array_equal(candidate.scatters, scatters)
        assert candidate.revision == 1


def test_the_newest_reply_of_a_client_counts():
    state = greeted(cells([10, 10], [0, 10], [10, 10]))
    bag = state.memory[0]
    first = absorbed(state, update(state, 0, bag, [(bag, 1.0, 2.0)]))
    second = prepare(absorbed(first, update(state, 0, bag, [(bag, 5.0, 6.0)])))
    assert len(second.replies) == 1
    assert dict(second.answers) == {0: 2}
    scores = second.candidates[0].scores
    assert scores["simplified"] == 5.0 / 20
    assert scores["silhouette"] == 6.0 / 20


def test_a_candidate_that_would_collapse_keeps_its_last_form():
    # All rows of the candidate's view in one cell: one centre is left.
    state = greeted(cells([10, 10], [0, 10], [10, 10]))
    whole = cells([20], [5], [520])
    views = [(whole, 0.0, 0.0)] * len(state.candidates)
    after = prepare(absorbed(state, update(state, 0, whole, views)))
    assert after.candidates == state.candidates
    assert after.candidates[0] is state.candidates[0]
    assert after.prepared


# ------------------------------------------------------------------ R7: answer


def test_scores_are_the_replied_sums_over_all_rows(seed):
    tables = blobs(seed)
    state = started(tables)
    sent = broadcast(state)
    for g, X in enumerate(tables):
        state = absorbed(state, answer(sent, g, X))
    state = prepare(dataclasses.replace(state, moved=False))
    pooled = np.concatenate(tables)
    for level, candidate in zip(sent.payload.candidates, state.candidates, strict=True):
        simplified, moment, _ = silhouettes(
            pooled, np.zeros(240), level.centers, level.spreads, level.counts
        )
        scores = candidate.scores
        assert scores["simplified"] == pytest.approx(simplified.mean(), abs=1e-12)
        assert scores["silhouette"] == pytest.approx(moment.mean(), abs=1e-12)


def test_the_silent_are_scored_from_memory():
    # Client 0 replies 3 of 10 rows for the moment and 2 for the simplified silhouette;
    # client 1 is scored by its cells against the polished level.
    one, other = cells([5, 5], [0, 10], [5, 5]), cells([5, 5], [1, 11], [5, 5])
    state = greeted(one, other, params=DefaultParams(min_cell=1, max_clusters=2))
    state = prepare(absorbed(state, update(state, 0, one, [(one, 2.0, 3.0)])))
    level = state.candidates[0]
    # Pooled: 10 rows at .5 with scatter 5 + 5 + 10 * .25 = 12.5, the same at 10.5.
    assert positions(level.centers) == [0.5, 10.5]
    assert level.scatters.tolist() == [12.5, 12.5]
    # The cell at 1 (variance 1): .25 + 1 = 1.25 from its own centre, 90.25 + 1 from
    # the other; V = 1.25: a^2 = 2.5 * 10/9, b^2 = 92.5. At 11: 1.25 and 110.25 + 1.
    near, far, away = 1.25, np.array([91.25, 111.25]), np.array([92.5, 112.5])
    moment = (1 - np.sqrt(2.5 * 10 / 9 / away)).sum() * 5
    simplified = (1 - np.sqrt(near / far)).sum() * 5
    assert level.scores["silhouette"] == pytest.approx((3 + moment) / 20, rel=1e-12)
    assert level.scores["simplified"] == pytest.approx((2 + simplified) / 20, rel=1e-12)
    # Nor has anybody counted its rows between the centres: its cells stand beside.
    counted = cell_valleys(state.silent_bag(), level.centers)
    assert counted.size
    assert level.uncounted.tolist() == counted.tolist()


def test_calinski_harabasz_is_exact_with_cells_of_any_size(seed):
    tables = blobs(seed)
    state = started(tables)
    for _ in range(2):
        sent = broadcast(state)
        for g, X in enumerate(tables):
            state = absorbed(state, answer(sent, g, X))
        state = prepare(state)
    answered = result(state)
    pooled = np.concatenate(tables)
    assert answered.centers is not None
    labels, _ = assign(pooled, answered.centers)
    expected = calinski_harabasz_score(pooled, labels)
    assert answered.scores["ch"] == pytest.approx(expected, rel=1e-9)


def test_the_answer_is_the_rule_over_the_candidates(seed):
    state = started(blobs(seed))
    assert chosen(state) is state.candidates[choose(state.candidates, "auto", 0.01, 15)]


def test_three_groups_are_found_from_the_first_hello_on(seed):
    tables = blobs(seed)
    params = DefaultParams()
    state = started(tables, params)
    for _ in range(3):
        answered = result(state)
        assert answered.k == 3
        assert answered.sizes.tolist() == sorted(answered.sizes, reverse=True)
        assert answered.sizes.sum() == 240
        assert [level.k for level in answered.path] == list(range(2, 16))
        assert answered.scores == answered.path[1].scores
        np.testing.assert_array_equal(answered.centers, answered.path[1].centers)
        for level in answered.path:
            assert (np.diff(level.sizes) <= 0).all()
        sent = broadcast(state)
        for g, X in enumerate(tables):
            state = absorbed(state, answer(sent, g, X, params))
        state = prepare(state)


def test_clusters_are_numbered_by_size_and_keep_their_centres():
    state = greeted(cells([4, 9], [0, 10], [1, 1]))
    answered = result(state)
    assert answered.sizes.tolist() == [9.0, 4.0]
    assert positions_in_order(answered.centers) == [10.0, 0.0]
    assert answered.seeds is state.seeds
    assert answered.merges == state.merges


@pytest.mark.parametrize("collapsed", [0.75, 0.82])
def test_candidates_that_end_with_the_same_k_show_the_higher_silhouette(collapsed):
    # Candidates 2, 3 and 4 in one bag of four places; the view of 3 has lost a centre,
    # so that it, too, ends with k = 2, in another partition. The answer is 4.
    params = DefaultParams(min_cell=1, prune=9.0, max_clusters=4)
    bag = cells([10] * 4, [0, 1, 20, 24], [1] * 4)
    state = greeted(bag, params=params)
    assert [c.k for c in state.candidates] == [2, 3, 4]
    plain, other = cells([20, 20], [0.5, 22], [7, 82]), cells([10, 30], [0, 15], [9, 9])
    views = [(plain, 0.0, 0.8 * 40), (other, 0.0, collapsed * 40), (bag, 0.0, 38.0)]
    state = prepare(absorbed(state, update(state, 0, cells([40], [11.25]), views)))
    assert [c.k for c in state.candidates] == [2, 2, 4]
    answered = result(state)
    assert answered.k == 4
    assert [level.k for level in answered.path] == [2, 3, 4]
    assert answered.path[0].scores["silhouette"] == max(0.8, collapsed)


def test_progress_shows_the_answer_so_far():
    state = greeted(cells([10, 10], [0, 10], [10, 10]))
    told = progress(state)
    assert told["k"] == 2
    assert told["objective"] == state.candidates[0].scores["silhouette"]
    assert (told["version"], told["movement"]) == (1, 0.0)
    assert told["candidates"] == [2]
    assert told["seeds"] is state.seeds


def test_a_broadcast_says_what_the_clients_need():
    state = greeted(cells([10, 10], [0, 10], [10, 30]))
    sent = broadcast(state)
    assert sent.version == 1
    assert isinstance(sent.payload, Plan)
    assert sent.payload.seeds is state.seeds
    (level,) = sent.payload.candidates
    built_level = state.candidates[0]
    np.testing.assert_array_equal(level.centers, built_level.centers)
    assert sorted(level.spreads.tolist()) == [1.0, 3.0]  # V = Z/O
    assert level.counts.tolist() == [10.0, 10.0]
    assert level.revision == 0


@pytest.mark.parametrize("criterion", INDICES)
def test_every_criterion_gives_an_answer(seed, criterion):
    params = DefaultParams(criterion=criterion)
    state = started(blobs(seed), params)
    best = state.candidates[choose(state.candidates, criterion, params.band, 15)]
    assert result(state).k == best.k


# ------------------------------------------------------- edges: k' = 1, no path


def one_cluster(state, places):
    """Assert that the answer is one cluster with no index defined."""
    answered = result(state)
    assert answered.k == 1
    assert answered.scores == dict.fromkeys(INDICES)
    assert [level.k for level in answered.path] == [1]
    assert state.candidates == ()
    assert len(answered.merges) == places - 1
    assert progress(state)["objective"] is None
    return answered


def test_one_place_is_one_cluster():
    # Two clients, one mean: 3 + 5 rows, scatters 2 + 1.
    state = greeted(cells([3], [4], [2]), cells([5], [4], [1]))
    answered = one_cluster(state, 1)
    assert answered.centers.tolist() == [[4.0]]
    assert answered.sizes.tolist() == [8.0]
    assert state.levels[0].scatters.tolist() == [3.0]


@pytest.mark.parametrize("options", [{"max_clusters": 1}, {"n_seeds": 1}])
def test_with_at_most_one_cluster_or_seed_there_is_one_cluster(options):
    state = greeted(
        cells([3, 5], [0, 8], [2, 1]), params=DefaultParams(min_cell=1, **options)
    )
    places = 2 if "max_clusters" in options else 1
    answered = one_cluster(state, places)
    # (0 * 3 + 8 * 5)/8 = 5, scatter 3 + 3 * 25 + 5 * 9 = 123.
    assert answered.centers.tolist() == [[5.0]]
    assert state.levels[0].scatters.tolist() == [123.0]


def test_one_cluster_is_asked_and_done_like_any_other():
    state = greeted(cells([8], [4], [3]))
    assert broadcast(state).payload.candidates == ()
    assert wanted(state) == {0}
    for _ in range(2):
        assert not done(state)
        state = prepare(absorbed(state, update(state, 0, cells([8], [4], [3]))))
    assert done(state)
    one_cluster(state, 1)


def test_a_joiner_ends_the_single_cluster():
    state = greeted(cells([8], [4]))
    state, _ = absorb_hello(state, hello(1, cells([8], [9])))
    state = prepare(state)
    assert result(state).k == 2
    assert [level.k for level in result(state).path] == [2]


# ---------------------------------------------------------- stop: done, wanted


def test_a_client_is_asked_until_it_has_answered_twice():
    params = DefaultParams(min_cell=1, contacts=9)
    state = greeted(cells([8], [0], [8]), cells([8], [9], [8]), params=params)
    assert wanted(state) == {0, 1}
    for _ in range(2):
        state = prepare(absorbed(state, update(state, 0, state.memory[0])))
    assert wanted(state) == {1}
    assert not done(state)
    for _ in range(2):
        state = prepare(absorbed(state, update(state, 1, state.memory[1])))
    assert state.version == 1
    assert wanted(state) == set()
    assert done(state)


def test_a_client_is_asked_no_more_than_its_contacts():
    # Two contacts: the hello and one reply, of an old version or not.
    params = DefaultParams(min_cell=1, contacts=2)
    state = greeted(cells([8], [0]), cells([8], [9]), params=params)
    state = prepare(absorbed(state, update(state, 0, state.memory[0], version=0)))
    assert dict(state.answers) == {}
    assert wanted(state) == {1}


def test_one_contact_is_the_hello():
    state = greeted(
        cells([8], [0]), cells([8], [9]), params=DefaultParams(min_cell=1, contacts=1)
    )
    assert done(state)
    assert wanted(state) == set()


def test_a_rebuild_asks_again():
    params = DefaultParams(min_cell=1, contacts=9)
    state = greeted(cells([8], [0], [8]), params=params)
    for _ in range(2):
        state = prepare(absorbed(state, update(state, 0, state.memory[0])))
    assert done(state)
    state, _ = absorb_hello(state, hello(1, cells([8], [9])))
    assert not done(state)  # not prepared
    state = prepare(state)
    assert wanted(state) == {0, 1}


def test_nobody_is_done_before_the_first_build():
    assert not done(ServerState(LOOSE, 0))
    state, _ = absorb_hello(
        ServerState(DefaultParams(min_cell=1, contacts=1), 0), hello(0, cells([8], [0]))
    )
    assert not done(state)
    assert done(prepare(state))


def test_a_client_that_left_is_not_waited_for_and_its_memory_stays():
    state = greeted(cells([8], [0]), cells([8], [9]))
    state, found = absorb_left(state, Left(1))
    assert found == {"accepted": True}
    assert state.active() == [0]
    assert wanted(state) == {0}
    assert state.bag().counts.sum() == 16
    assert state.prepared
    state, _ = absorb_left(state, Left(0))
    assert done(state)
    assert result(state).k == 2


def test_a_client_that_comes_back_is_active_again():
    gone, _ = absorb_left(greeted(cells([8], [0]), cells([8], [9])), Left(1))
    back = absorbed(gone, update(gone, 1, gone.memory[1]))
    assert back.active() == [0, 1]
    back, _ = absorb_hello(gone, hello(1, cells([8], [7])))
    assert back.active() == [0, 1]


def test_somebody_unknown_may_leave():
    state, _ = absorb_left(greeted(cells([8], [0])), Left(5))
    assert state.active() == [0]
    state, _ = absorb_hello(state, hello(5, cells([8], [3])))
    assert state.active() == [0, 5]


# ----------------------------------------------------- lazy, pure, reproducible


def test_nothing_new_absorbed_nothing_done(seed):
    assert prepare(empty := ServerState(LOOSE, 0)) is empty
    state = started(blobs(seed))
    assert prepare(state) is state
    left, _ = absorb_left(state, Left(0))
    assert prepare(left) is left


def test_one_preparation_for_all_messages_since_the_last():
    state = ServerState(LOOSE, 0)
    for client in range(5):
        state, _ = absorb_hello(state, hello(client, cells([8], [client])))
    state = prepare(state)
    assert (state.version, state.seedings) == (1, 1)


def test_absorbing_and_preparing_leave_the_old_state_untouched(seed):
    tables = blobs(seed)
    state = started(tables)
    sent = broadcast(state)
    messages: list[tuple[Any, Any]] = [
        (absorb_update, answer(sent, 0, tables[0])),
        (absorb_update, update(state, 1, cells2d(tables[1]), version=0)),
        (absorb_hello, hello(2, cells2d(tables[2]))),
        (absorb_hello, hello(9, cells2d(tables[3]))),
        (absorb_left, Left(1)),
    ]
    before = copy.deepcopy(state)
    for absorb, message in messages:
        after, _ = absorb(state, message)
        prepare(after)
        assert alike(state, before)


def cells2d(X):
    """Every row a cell."""
    return Cells(np.ones(X.shape[0], dtype=np.int64), X, np.zeros(X.shape[0]))


def test_the_order_of_hellos_does_not_show(seed):
    tables = blobs(seed, n_clients=3)
    hellos = say_hello(tables, LOOSE, seed)
    expected = started(tables, seed=seed)
    for order in itertools.permutations(range(3)):
        state = ServerState(LOOSE, seed)
        for g in (*order, order[0]):  # one of them says it twice
            state, _ = absorb_hello(state, hellos[g])
        state = prepare(state)
        assert alike(state, expected)
        assert alike(result(state), result(expected))


def test_the_order_of_replies_does_not_show(seed):
    tables = blobs(seed, n_clients=3)
    state = started(tables, seed=seed)
    sent = broadcast(state)
    replies = [answer(sent, g, X) for g, X in enumerate(tables)]
    found = []
    for order in itertools.permutations(range(3)):
        after = state
        for g in order:
            after = absorbed(after, replies[g])
        found.append(prepare(after))
    assert all(alike(other, found[0]) for other in found[1:])


def test_the_same_seed_gives_the_same_bits(seed):
    tables = blobs(seed)
    assert alike(started(tables, seed=seed), started(tables, seed=seed))
    other = started(tables, seed=seed + 1)
    assert not alike(started(tables, seed=seed).seeds, other.seeds)


# ------------------------------------------------------------------- refusals


SOUND = cells([10, 10], [0, 10], [10, 10])
STRICT = DefaultParams(min_cell=5)
OWNERS = np.array([0, 1])


def any_type(value: Any) -> Any:
    """Return what the codec lets pass: it does not know the type of a field."""
    return value


def bad_hellos():
    wide = Cells(np.array([20]), np.zeros((1, 2)), np.zeros(1))
    return {
        "no cells": (Hello(20, "cells", client=0), "must carry cells"),
        "no rows": (hello(0, SOUND, 0), "at least one row"),
        "rows that are no number": (
            Hello(any_type("20"), SOUND, client=0),
            "at least one row",
        ),
        "another width": (hello(0, wide), "1 features agreed"),
        "too small a cell": (hello(0, cells([4, 16], [0, 1])), "fewer than 5 rows"),
        "more rows than registered": (hello(0, SOUND, 19), "cells hold 20 rows"),
        "means that are no array": (
            hello(0, dataclasses.replace(SOUND, means=None)),
            "must be arrays",
        ),
        "a mean that is not a number": (hello(0, cells([20], [np.nan])), "not finite"),
        "a negative scatter": (hello(0, cells([20], [0], [-1])), "negative"),
    }


@pytest.mark.parametrize("name", bad_hellos())
def test_a_hello_that_is_refused_changes_nothing(name):
    message, reason = bad_hellos()[name]
    state = greeted(SOUND, SOUND, params=STRICT)
    before = copy.deepcopy(state)
    with pytest.raises(RejectedMessage, match=reason):
        absorb_hello(state, message)
    assert alike(state, before)


@pytest.mark.parametrize(
    "means", [None, np.zeros(2), np.zeros((2, 0)), np.zeros((2, 1, 1))]
)
def test_the_first_hello_must_bring_features(means):
    bad = dataclasses.replace(SOUND, means=means)
    with pytest.raises(RejectedMessage, match="must have features"):
        absorb_hello(ServerState(STRICT, 0), hello(0, bad))


def bad_updates():
    state = greeted(SOUND, SOUND, params=STRICT)
    (candidate,) = state.candidates
    assert candidate.revision == 0

    def with_view(view):
        return update(state, 0, SOUND, [view])

    def bare(payload):
        return Update(payload, version=1, client=0)

    return {
        "a stranger": (update(state, 7, SOUND), "client 7 has not said hello"),
        "no summary": (bare(SOUND), "must carry a summary"),
        "no cells": (
            Update(Summary(any_type("cells"), OWNERS, ()), version=0, client=0),
            "expected cells",
        ),
        "too small a cell": (
            update(state, 0, cells([4, 16], [0, 1])),
            "fewer than 5 rows",
        ),
        "too many rows": (update(state, 0, cells([21], [0])), "cells hold 21 rows"),
        "no level": (
            bare(Summary(SOUND, OWNERS, ())),
            "expected 1 candidate levels, got 0",
        ),
        "a level too many": (
            update(state, 0, SOUND, [(SOUND, 0.0, 0.0)] * 2),
            "expected 1 candidate levels, got 2",
        ),
        "levels that are no tuple": (
            bare(Summary(SOUND, OWNERS, any_type(None))),
            "a tuple of levels",
        ),
        "a level that is none": (
            bare(Summary(SOUND, OWNERS, (any_type(SOUND),))),
            "a reply per level",
        ),
        "a level of small cells": (
            with_view((cells([4, 16], [0, 1]), 0.0, 0.0)),
            "fewer than 5 rows",
        ),
        "a sum too large": (with_view((SOUND, 20.1, 0.0)), "outside"),
        "a sum too small": (with_view((SOUND, 0.0, -20.1)), "outside"),
        "a sum that is not a number": (with_view((SOUND, np.nan, 0.0)), "outside"),
        "a sum that is text": (with_view((SOUND, "1", 0.0)), "outside"),
    }


@pytest.mark.parametrize("name", bad_updates())
def test_an_update_that_is_refused_changes_nothing(name):
    message, reason = bad_updates()[name]
    state = greeted(SOUND, SOUND, params=STRICT)
    before = copy.deepcopy(state)
    with pytest.raises(RejectedMessage, match=reason):
        absorb_update(state, message)
    assert alike(state, before)


@pytest.mark.parametrize(
    "name", ["a level of small cells", "a sum too large", "too many rows"]
)
def test_a_late_update_is_checked_as_well(name):
    message, reason = bad_updates()[name]
    state = greeted(SOUND, SOUND, params=STRICT)
    with pytest.raises(RejectedMessage, match=reason):
        absorb_update(state, dataclasses.replace(message, version=0))


def test_sums_at_the_edge_are_accepted():
    state = greeted(SOUND, params=STRICT)
    state = prepare(absorbed(state, update(state, 0, SOUND, [(SOUND, 20.0, -20.0)])))
    scores = state.candidates[0].scores
    assert (scores["simplified"], scores["silhouette"]) == (1.0, -1.0)


def test_silhouettes_of_the_summary_follow_the_level():
    # What R7 uses for the silent is what R5 used for the path.
    state = greeted(SOUND, params=STRICT)
    level = state.candidates[0]
    simplified, moment = summary_silhouettes(state.bag(), level)
    weights = state.bag().counts / 20
    assert level.scores["silhouette"] == pytest.approx((weights * moment).sum())
    assert level.scores["simplified"] == pytest.approx((weights * simplified).sum())


def test_a_client_that_left_and_says_the_same_hello_is_back():
    hello = Hello(4, cells([2, 2], [0.0, 1.0]), client=0)
    state, _ = absorb_hello(ServerState(LOOSE, 0), hello)
    state, _ = absorb_left(state, Left(0))
    assert state.active() == []
    state, found = absorb_hello(state, hello)
    assert found["repeated"]
    assert state.active() == [0]

# SPDX-License-Identifier: Apache-2.0
"""How far an answer can be believed, and which answer follows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl.core import trust
from afcl.core.cells import concatenate
from afcl.core.client import condense
from afcl.core.messages import Batch, Hello
from afcl.core.params import DefaultParams
from afcl.core.protocol import PathLevel, Trust, client_rng
from afcl.core.rebuild import prepare
from afcl.core.server import absorb_batch, absorb_hello, result
from afcl.core.state import ServerState


def greeted(*tables, seed=0, **options):
    """Return the prepared state after the hellos of these sites."""
    params = DefaultParams(**options)
    state = ServerState(params, seed)
    for client, X in enumerate(tables):
        cells = condense(X, params, client_rng(seed, client, 0))
        state, _ = absorb_hello(state, Hello(len(X), cells, client=client))
    return prepare(state)


def spots(centers, n=60, seed=0, width=1.0):
    rng = np.random.default_rng(seed)
    at = np.repeat(np.array(centers, dtype=float), n, axis=0)
    return rng.normal(at, width)


def nested(seed=0):
    """Four far groups of three spots each."""
    turns = 2 * np.pi * np.arange(3) / 3
    around = 3.2 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    groups = np.array([[0, 0], [40, 0], [0, 40], [40, 40]])
    return spots((groups[:, None] + around).reshape(-1, 2), seed=seed, width=0.5)


def noise(seed=0, n=600, d=2):
    return np.random.default_rng(seed).normal(size=(n, d))


def verdict(state):
    found = result(state).trust
    assert found is not None
    return found.verdict


# ------------------------------------------------------------------ clusters, or none


@pytest.mark.parametrize("seed", range(3))
def test_far_spots_are_believed(seed):
    X = spots([[0, 0], [0, 20], [20, 0]], seed=seed)
    answer = result(greeted(X[::2], X[1::2], seed=seed))
    assert answer.k == 3
    assert answer.trust is not None
    assert answer.trust.verdict == "clusters"
    assert answer.trust.gain is not None
    assert answer.trust.gain > 0.5
    assert answer.trust.confidence == dict(answer.trust.shares)[3] >= 0.9
    assert len(answer.trust.stabilities) == 3
    assert min(answer.trust.stabilities) > 0.9
    assert 3 in answer.trust.levels


@pytest.mark.parametrize("seed", range(3))
def test_one_cloud_is_no_clusters(seed):
    answer = result(greeted(noise(seed), seed=seed))
    assert answer.k == 1
    assert answer.sizes.tolist() == [600]
    assert set(answer.scores.values()) == {None}
    assert [level.k for level in answer.path][0] == 2
    assert answer.trust is not None
    assert answer.trust.verdict == "none"
    assert answer.trust.confidence >= 0.8
    assert answer.trust.stabilities == (1.0,)
    assert answer.trust.levels == (1,)


def test_at_least_two_if_one_is_not_allowed():
    answer = result(greeted(noise(), allow_one=False))
    assert answer.k >= 2
    assert answer.trust is not None
    assert answer.trust.verdict == "none"
    assert 1 not in dict(answer.trust.shares)


def test_equal_rows_are_one_cluster_for_certain():
    answer = result(greeted(np.ones((40, 2))))
    assert answer.k == 1
    assert answer.trust == Trust("none", None, 1.0, ((1, 1.0),), (1.0,), (1,))


def test_behind_noise_nothing_is_said_not_to_be_there():
    state = greeted(noise())
    state = replace(state, params=replace(state.params, privacy="dp(8)"))
    answer = result(state)
    assert answer.k >= 2
    assert answer.trust is not None
    assert answer.trust.verdict == "unclear"


def test_many_columns_are_judged_by_their_leading_axes():
    X = noise(n=300, d=40)
    assert result(greeted(X)).k == 1
    X[:150] += 4
    assert result(greeted(X)).k == 2


def test_the_same_state_gives_the_same_trust():
    state = greeted(nested())
    assert result(state).trust == result(state).trust


# ------------------------------------------------------------------ sites


def test_small_sites_that_are_alike_cannot_tell():
    X = spots([[0, 0], [0, 9], [9, 0], [9, 9]], seed=1)
    order = np.random.default_rng(0).permutation(len(X))
    alike = greeted(*np.array_split(X[order], 20))
    assert verdict(alike) == "unclear"
    apart = greeted(*np.array_split(X, 4))
    assert verdict(apart) == "clusters"


def test_sites_of_a_group_are_seen_one_by_one():
    X = spots([[0, 0], [0, 9], [9, 0], [9, 9]], seed=1)
    params = DefaultParams()
    order = np.random.default_rng(0).permutation(len(X))
    tables = np.array_split(X[order], 20)
    cells = [condense(x, params, client_rng(0, i, 0)) for i, x in enumerate(tables)]
    together = concatenate([replace(c, offsets=np.array([0, len(c)])) for c in cells])
    rows = np.array([len(x) for x in tables])
    batch = Batch(np.arange(20), together, rows)
    state, _ = absorb_batch(ServerState(params, 0), batch)
    alone = greeted(*tables)
    for mine, theirs in zip(trust._sites(state), trust._sites(alone), strict=True):
        np.testing.assert_allclose(mine, theirs)


# ------------------------------------------------------------------ levels


def test_structure_at_two_scales_is_named():
    answer = result(greeted(nested()))
    assert answer.trust is not None
    assert {4, 12} <= set(answer.trust.levels)


@pytest.mark.parametrize(("wish", "k"), [("coarse", 4), ("auto", 4), ("fine", 12)])
def test_granularity_takes_another_believable_level(wish, k):
    answer = result(greeted(nested(), granularity=wish))
    assert answer.k == k
    assert answer.trust is not None
    assert answer.trust.confidence >= 0.9
    assert len(answer.trust.stabilities) == k
    assert min(answer.trust.stabilities) > 0.8


def test_stabilities_stand_in_the_order_of_clusters():
    """Two spots run into each other: they are the least stable ones."""
    X = np.vstack([spots([[0, 0]], n=200), spots([[30, 0], [33, 0]], n=40)])
    answer = result(greeted(X, allow_one=False, max_clusters=3, criterion="bic"))
    assert answer.k == 3
    assert answer.trust is not None
    assert answer.sizes[0] == 200
    assert answer.trust.stabilities[0] == max(answer.trust.stabilities)


def test_a_path_that_ended_at_the_answer_is_pointed_at():
    """Nine far spots, of which no more than five may be told apart."""
    X = spots([[20 * i, 20 * j] for i in range(3) for j in range(3)], n=30)
    cut = result(greeted(X, max_clusters=5, criterion="bic", allow_one=False))
    assert cut.k == 5
    assert "the largest number of clusters that was looked at" in cut.note
    assert result(greeted(X)).k == 9
    assert not result(greeted(X)).note
    # Two cells, two clusters: there is nothing more to look at.
    assert not result(greeted(np.repeat([[0.0], [9.0]], 20, axis=0))).note


def test_a_resample_that_lost_all_rows_but_one_has_one_cluster():
    """Two rows: in many resamples one of them is not drawn."""
    answer = result(greeted(np.array([[0.0], [9.0]]), min_cell=1, allow_one=False))
    assert answer.trust is not None
    assert 0 < dict(answer.trust.shares)[1] < 1


def test_resamples_do_not_say_one_cluster_where_nobody_can_tell():
    """Small sites that are alike: their cells mix kinds, in resamples as well."""
    rng = np.random.default_rng(1)
    turns = 2 * np.pi * np.arange(6) / 6
    places = 12 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    tables = [rng.normal(places[rng.integers(0, 6, 12)], 1.0) for _ in range(40)]
    answered = result(greeted(*tables, privacy="summary"))
    assert answered.trust is not None
    assert answered.trust.verdict == "unclear"
    shares = dict(answered.trust.shares)
    assert 1 not in shares
    assert answered.trust.confidence == shares.get(answered.k, 0.0)


def test_a_level_that_lost_a_cluster_does_not_stand_for_the_one_of_its_new_k():
    state = greeted(spots([[0, 0], [9, 0], [0, 9]]))
    three = next(level for level in state.levels if level.k == 3)
    # Nobody is near the fourth centre.
    centers = np.vstack([three.centers, [[99.0, 99.0]]])
    sought = replace(three, k=4, centers=centers, searched=True)
    known = trust._from_rows(state, state.bag(), None)
    assert trust._from_rows(state, state.bag(), sought).shifts == known.shifts


@pytest.mark.parametrize(
    ("ks", "k"),
    [
        ([2] * 8, 2),  # all agree, and the path has it
        ([4] * 8, 4),
        ([2, 2, 2, 3], 4),
        ([2, 2, 2, 4], 4),
        ([5] * 8, 4),  # nobody has kept such a level
        ([1] * 8, 4),
    ],
)
def test_what_all_resamples_agree_on_is_the_answer(ks, k):
    none = np.empty((0, 1))
    levels = [PathLevel(each, none, np.ones(each), {}) for each in (2, 3, 4)]
    came = trust._Resamples(ks, {4: [np.ones(4)] * len(ks)})
    assert trust._agreed(levels, levels[-1], came).k == k
    # Resamples that have no such level cannot speak against it.
    came = trust._Resamples(ks, {4: [np.ones(4)]})
    assert trust._agreed(levels, levels[-1], came).k == 4

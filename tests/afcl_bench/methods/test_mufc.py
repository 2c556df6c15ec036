# SPDX-License-Identifier: Apache-2.0
"""MUFC: the histogram by hand, only its sum counts, edges, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from afcl import make_method
from afcl.core.messages import Hello
from afcl.core.seeding import weighted_kmeans
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods.rival import Nothing
from afcl.metrics import adjusted_rand
from afcl_bench.methods import mufc
from afcl_bench.methods.mufc import MUFC, Histogram, MufcParams, drawn, summed, whole


def column(*values, dtype=np.float64):
    return np.array(values, dtype=dtype)[:, None]


def histogram(bins, counts):
    return Histogram(column(*bins, dtype=np.int64), np.array(counts, dtype=np.int64))


def served(said, k=2, seed=0):
    method = MUFC()
    hellos = [
        Hello(int(part.counts.sum()), part, client=g) for g, part in enumerate(said)
    ]
    params = MufcParams(n_clusters=k, local_clusters=9, step=0.1)
    return method.prepare(method.init(hellos, params, seed))


# ------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "give n_clusters"),
        ({"n_clusters": 3, "local_clusters": 0}, "local_clusters must be a whole"),
        ({"n_clusters": 3, "local_clusters": "2"}, "local_clusters must be a whole"),
        ({"n_clusters": 3, "step": 0.0}, "step must be a positive number"),
        ({"n_clusters": 3, "step": np.inf}, "step must be a positive number"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        make_method("mufc", **options)


def test_the_step_follows_the_rows():
    method = MUFC()
    params = method.settle(MufcParams(n_clusters=3), 400)
    assert params.step == 0.05  # 1 / sqrt(400)
    assert params.per_client == 3
    given = method.settle(MufcParams(n_clusters=3, local_clusters=7, step=0.2), 400)
    assert given.step == 0.2
    assert given.per_client == 7


# ------------------------------------------------------------------ the client


def test_hello_by_hand():
    # k' = 3 picks all three distinct rows, whatever the draws. Step .1: 0 and .04 round
    # to bin 0, 1 to bin 10. Two rows are nearest to .04, the others to themselves.
    X = column(0.0, 0.04, 0.04, 1.0)
    params = MufcParams(n_clusters=3, step=0.1)
    said = MUFC().first(X, params, np.random.default_rng(0))
    assert said.bins.tolist() == [[0], [10]]
    assert said.counts.tolist() == [3, 1]


def test_equal_bins_are_summed():
    bins = np.array([[2, 1], [0, 5], [2, 1], [0, -5]])
    found = summed(bins, np.array([1, 2, 3, 4]))
    assert found.bins.tolist() == [[0, -5], [0, 5], [2, 1]]
    assert found.counts.tolist() == [4, 2, 4]


def test_rows_too_far_apart_for_a_grid():
    assert whole(np.array([[2.0, -3.0]])).tolist() == [[2, -3]]
    with pytest.raises(InputError, match="scale them"):
        whole(np.array([[1.0, -1e17]]))
    with pytest.raises(InputError, match="scale them"):
        make_method("mufc", n_clusters=2, scale=None).fit(column(0.0, 1e18, 1.0))


# ------------------------------------------------------------------ the server


def test_points_are_drawn_in_their_bins(seed):
    rng = np.random.default_rng(seed)
    points, weights = drawn(histogram([-1, 4], [200, 100]), 0.5, rng)
    # Bin -1 is -.5 +- .25, bin 4 is 2 +- .25.
    assert points.shape == (300, 1)
    assert np.abs(points[:200] + 0.5).max() <= 0.25
    assert np.abs(points[200:] - 2.0).max() <= 0.25
    assert points[:200].std() == pytest.approx(0.5 / np.sqrt(12), rel=0.15)
    np.testing.assert_array_equal(weights, np.ones(300))


def test_full_bins_are_drawn_with_weights(monkeypatch):
    monkeypatch.setattr(mufc, "MOST_DRAWS", 4)
    points, weights = drawn(histogram([0, 1], [10, 3]), 1.0, np.random.default_rng(0))
    assert points.shape == (7, 1)
    assert weights.tolist() == [2.5] * 4 + [1.0] * 3


def test_only_the_sum_of_the_histograms_counts(seed):
    # Three ways of sharing the same total between clients.
    ways = (
        [histogram([0, 1], [5, 5]), histogram([1, 9], [5, 5])],
        [histogram([9], [5]), histogram([0, 1], [5, 10])],
        [histogram([0, 1, 9], [5, 10, 5])],
    )
    models = [served(way, seed=seed).model for way in ways]
    for model in models[1:]:
        np.testing.assert_array_equal(model.centers, models[0].centers)
        np.testing.assert_array_equal(model.sizes, models[0].sizes)


def test_the_centers_are_k_means_of_the_draws(seed):
    state = served([histogram([0, 1, 9], [50, 40, 30])], seed=seed)
    result = MUFC().result(state)
    assert result.centers is not None
    # Bins 0 and 1 (90 rows around .044) against bin 9 (30 rows around .9).
    assert result.sizes.tolist() == [90, 30]
    np.testing.assert_allclose(result.centers, column(4 / 90, 0.9), atol=0.025)
    points, weights = drawn(
        histogram([0, 1, 9], [50, 40, 30]), 0.1, np.random.default_rng(seed)
    )
    again = weighted_kmeans(points, weights, 2, np.random.default_rng(0), 10)
    np.testing.assert_allclose(
        np.sort(again, axis=0), np.sort(result.centers, axis=0), atol=0.03
    )


def test_no_more_clusters_than_bins():
    result = MUFC().result(served([histogram([3], [7]), histogram([3], [2])], k=5))
    assert result.k == 1
    assert result.sizes.tolist() == [9]


def test_a_late_joiner_is_let_in():
    method, state = MUFC(), served([histogram([0], [5])])
    assert method.result(state).k == 1
    later, _ = method.absorb(state, Hello(5, histogram([9], [5]), client=4))
    assert not method.done(later)
    after = method.prepare(later)
    assert method.done(after)
    assert method.result(after).k == 2


def test_well_separated_clusters_are_found(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 60)
    X = rng.normal(np.array([[0, 0], [5, 0], [0, 5]])[y], 0.3)
    owner = (y + np.arange(180) % 2) % 3
    model = make_method("mufc", n_clusters=3, random_state=seed).fit(X, clients=owner)
    assert adjusted_rand(y, model.labels_) == 1.0
    assert model.n_rounds_ == 0
    np.testing.assert_array_equal(model.predict(X), model.labels_)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "said",
    [
        Nothing(),
        histogram([0, 1], [2, 2]),  # 4 of 5 rows
        histogram([0, 0], [2, 3]),
        histogram([0, 1], [5, 0]),
        histogram([2**53], [5]),
        histogram([-(2**63)], [5]),
        Histogram(column(0.0), np.array([5])),
        Histogram(column(0, dtype=np.int64), np.array([5.0])),
        Histogram(column(0, dtype=np.int64), np.array([2, 3])),
        Histogram(np.array([0]), np.array([5])),
        Histogram(np.empty((1, 0), dtype=np.int64), np.array([5])),
        Histogram(np.empty((0, 1), dtype=np.int64), np.empty(0, dtype=np.int64)),
        Histogram(None, np.array([5])),  # type: ignore[arg-type]
        Histogram(np.zeros((1, 2), dtype=np.int64), np.array([5])),
    ],
)
def test_bad_hellos_are_refused(said):
    with pytest.raises(RejectedMessage):
        MUFC().absorb(served([histogram([0], [5])]), Hello(5, said, client=1))


def test_more_bins_than_seeds_are_refused():
    with pytest.raises(RejectedMessage, match="a histogram of 20 rows"):
        MUFC().absorb(
            served([histogram([0], [5])]),
            Hello(20, histogram(range(10), [2] * 10), client=1),
        )

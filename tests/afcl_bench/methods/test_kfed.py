# SPDX-License-Identifier: Apache-2.0
"""k-FED: the local step and the server's by hand, induced labels, edges, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from afcl import Schedule, make_method
from afcl.core.messages import Hello, Update
from afcl.core.protocol import Clustering
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods.rival import Nothing
from afcl.metrics import adjusted_rand
from afcl_bench.methods.kfed import (
    KFed,
    KFedCenters,
    KFedParams,
    cores,
    farthest_first,
    leading_directions,
    local_centers,
)


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def blobs(seed, centers=((0, 0), (0, 6), (6, 0), (6, 6)), n=30):
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(center, 0.3, (n, 2)) for center in centers])
    return X, np.repeat(np.arange(len(centers)), n)


def served(k, *tables, **options):
    """Return the state after these clients' uploads."""
    method = KFed()
    hellos = [
        Hello(max(9, len(table)), KFedCenters(table), client=g)
        for g, table in enumerate(tables)
    ]
    return method.prepare(method.init(hellos, KFedParams(n_clusters=k, **options), 0))


# ------------------------------------------------------------------ parameters


def test_local_clusters_are_the_root_of_k_rounded_up():
    found = [KFedParams(n_clusters=k).per_client for k in (1, 2, 4, 5, 9, 10, 16)]
    assert found == [1, 2, 2, 3, 3, 4, 4]
    assert KFedParams(n_clusters=9, local_clusters=5).per_client == 5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "give n_clusters"),
        ({"n_clusters": 4, "local_clusters": 0}, "from 1 to n_clusters"),
        ({"n_clusters": 4, "local_clusters": 5}, r"\(4\), not 5"),
        ({"n_clusters": 4, "local_clusters": 2.5}, "whole number"),
        ({"n_clusters": 4, "labels": "own"}, "labels must be one of"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        make_method("k-fed", **options)


# ------------------------------------------------------------------ the client


def test_leading_directions_are_clipped_to_the_rank():
    # All rows on the line through (3, 4): one direction, (.6, .8) up to its sign.
    basis = leading_directions(np.outer([1.0, 2.0, -1.0], [3.0, 4.0]), 2)
    assert basis.shape == (2, 1)
    np.testing.assert_allclose(np.abs(basis[:, 0]), [0.6, 0.8])
    assert leading_directions(np.zeros((5, 3)), 2).shape == (3, 1)
    assert leading_directions(np.eye(4), 2).shape == (4, 2)


def test_cores_are_rows_three_times_closer():
    # Seeds 0 and 10. Row 1: 1 <= 9/3; row 4: 4 > 6/3, in no core; row 9: 1 <= 9/3.
    X = column(0, 1, 4, 9, 10)
    means = cores(X, X, column(0, 10), np.ones((1, 1)))
    np.testing.assert_allclose(means, column(0.5, 9.5))


def test_an_empty_core_is_its_seed_lifted_back():
    # On the first axis, rows at 2.4 and 2.6 are in no core of 0 and 5 (2.4 > 2.6/3).
    basis = np.array([[1.0], [0.0]])
    X = np.array([[2.4, 7.0], [2.6, 8.0]])
    means = cores(X, X @ basis, column(0, 5), basis)
    np.testing.assert_allclose(means, [[0, 0], [5, 0]])


def test_one_seed_has_everything_in_its_core():
    X = column(1, 2, 6)
    np.testing.assert_allclose(cores(X, X, column(2), np.ones((1, 1))), [[3.0]])


def test_a_small_client_sends_its_distinct_rows():
    rng = np.random.default_rng(0)
    X = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0]])
    np.testing.assert_array_equal(local_centers(X, 3, rng), [[0, 3], [1, 2]])


def test_duplicates_give_fewer_centers():
    X = np.repeat(column(2, 5), 10, axis=0)
    found = local_centers(X, 4, np.random.default_rng(0))
    np.testing.assert_allclose(np.sort(found, axis=0), column(2, 5))
    same = local_centers(np.zeros((6, 2)), 3, np.random.default_rng(0))
    np.testing.assert_array_equal(same, np.zeros((1, 2)))


def test_local_centers_are_the_means_of_separate_groups(seed):
    X, y = blobs(seed, ((1, 9), (9, 1)))
    found = local_centers(X, 2, np.random.default_rng(seed))
    means = [X[y == c].mean(axis=0) for c in (0, 1)]
    np.testing.assert_allclose(found[found[:, 0].argsort()], means)


# ------------------------------------------------------------------ the server


def test_farthest_first_by_hand():
    # From 0: 10 is farthest. Then 1 is at 1, 4 at min(4, 6) = 4: 4 is next.
    assert farthest_first(column(0, 1, 10, 4), 1, 3).tolist() == [0, 2, 3]
    assert farthest_first(column(0, 1, 10, 4), 2, 2).tolist() == [0, 1]
    assert farthest_first(column(3, 3, 3), 1, 3).tolist() == [0]


def test_server_by_hand():
    # M = {0, 1} of client 0, then 11 (10 away from 1, 10 is 9 away).
    # Nearest: 0 | 1 | 10 and 11, whose mean is 10.5.
    state = served(3, column(0, 1), column(10, 11))
    np.testing.assert_allclose(state.model.centers, column(0, 1, 10.5))
    assert state.model.tau.tolist() == [0, 1, 2, 2]
    assert state.model.owners.tolist() == [0, 0, 1, 1]
    assert KFed().done(state)


def test_local_centers_follow_the_moved_seeds():
    # M = {0, 1}; 1, 3 and 9 are nearest to 1, their mean is 13/3. Then 1 is nearer to 0
    # (1 against 10/3): it follows 0, and 3 and 9 follow 13/3.
    state = served(2, column(0, 1), column(3, 9), local_clusters=2)
    np.testing.assert_allclose(state.model.centers, column(0, 13 / 3))
    assert state.model.tau.tolist() == [0, 0, 1, 1]


def test_the_lowest_id_starts_whatever_the_order_of_arrival():
    method, params = KFed(), KFedParams(n_clusters=3)
    tables = {2: column(5, 6), 0: column(0, 1), 1: column(20, 9)}
    hellos = [Hello(9, KFedCenters(table), client=g) for g, table in tables.items()]
    first = method.prepare(method.init(hellos, params, 0)).model
    second = method.prepare(method.init(hellos[::-1], params, 0)).model
    np.testing.assert_array_equal(first.local[:2], tables[0])
    np.testing.assert_array_equal(first.centers, second.centers)


def test_fewer_centers_than_k():
    state = served(6, column(0), column(5, 5), column(5))
    result = KFed().result(state)
    assert result.k == 2
    np.testing.assert_array_equal(result.centers, column(0, 5))


# ------------------------------------------------------------------ labels


def test_induced_labels_follow_the_local_centers():
    # Client 0's centres 0 and 4 belong to clusters 0 and 1. Row 2.5 is nearest to 4, so
    # it is in 1, though the centre 0 (at 2.5) is nearer than 1's (at 6.5).
    extra = {
        "local": column(0, 4, 14),
        "owners": np.array([0, 0, 1]),
        "tau": np.array([0, 1, 1]),
    }
    method, row = KFed(), column(2.5)
    induced = Clustering(column(0, 9), np.zeros(2), {}, extra=extra)
    assert method.label(induced, row, None, 0).tolist() == [1]
    assert method.label(induced, row, None, 1).tolist() == [1]
    assert method.label(induced, row, None, 7).tolist() == [0]  # never heard
    assert method.label(induced, row, None, None).tolist() == [0]  # a new row
    plain = Clustering(column(0, 9), np.zeros(2), {})
    assert method.label(plain, row, None, 0).tolist() == [0]


@pytest.mark.parametrize("labels", ["induced", "nearest"])
def test_well_separated_clusters_are_found(labels, seed):
    X, y = blobs(seed)
    owner = (y + np.arange(len(y)) % 2) % 4  # two clusters each
    model = make_method("k-fed", n_clusters=4, labels=labels, random_state=seed)
    model.fit(X, clients=owner)
    assert adjusted_rand(y, model.labels_) == 1.0
    assert model.n_rounds_ == 0
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_one_client_is_its_own_clustering(seed):
    X, _ = blobs(seed)
    model = make_method(
        "k-fed", n_clusters=4, local_clusters=4, scale=None, random_state=seed
    ).fit(X)
    means = [X[model.labels_ == c].mean(axis=0) for c in range(model.n_clusters_)]
    np.testing.assert_allclose(model.cluster_centers_, means)


def test_a_late_joiner_counts_as_much_as_any(seed):
    X, y = blobs(seed)
    tables = [X[y == g] for g in range(4)]
    fits = [
        make_method(
            "k-fed",
            n_clusters=4,
            scale=None,
            random_state=seed,
            participation=participation,
        ).fit_clients(tables)
        for participation in (None, Schedule(late={2: 3}))
    ]
    np.testing.assert_array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)


def test_more_clusters_than_rows():
    tables = [column(0.0), column(1.0, 1.0)]
    model = make_method("k-fed", n_clusters=9, random_state=0).fit_clients(tables)
    assert model.n_clusters_ == 2
    assert model.labels_.tolist() == [1, 0, 0]


def test_a_saved_model_predicts_the_same(tmp_path, seed):
    X, y = blobs(seed)
    model = make_method("k-fed", n_clusters=4, random_state=seed).fit(X, clients=y)
    model.save(tmp_path)
    again = type(model).load(tmp_path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "said",
    [
        Nothing(),
        KFedCenters(np.zeros((3, 1))),  # k' is 2
        KFedCenters(np.zeros((0, 1))),
        KFedCenters(np.zeros(2)),
        KFedCenters(np.zeros((2, 1), dtype=np.float32)),
        KFedCenters(np.full((1, 1), np.inf)),
        KFedCenters(np.zeros((1, 2))),  # others have one column
    ],
)
def test_bad_hellos_are_refused(said):
    state = served(4, column(0, 1))
    with pytest.raises(RejectedMessage):
        KFed().absorb(state, Hello(9, said, client=1))


def test_more_centers_than_rows_are_refused():
    with pytest.raises(RejectedMessage, match="at most 1"):
        KFed().absorb(served(4, column(0)), Hello(1, KFedCenters(column(0, 1))))


def test_answers_add_nothing():
    method, state = KFed(), served(3, column(0, 1), column(10, 11))
    with pytest.raises(RejectedMessage):
        method.absorb(state, Update(KFedCenters(column(0)), 0, 0, 1))
    answered, _ = method.absorb(state, Update(Nothing(), 0, 0, 1))
    after = method.end_round(answered)
    assert after.model is state.model
    assert method.done(after)
    assert method.broadcast(after).wanted == frozenset()

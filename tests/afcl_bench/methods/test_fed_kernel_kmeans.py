# SPDX-License-Identifier: Apache-2.0
"""RFF kernel k-means: features, gamma, Lloyd against the pooled one, joiners, edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl import Rounds, Schedule, make_method
from afcl.core.cells import cells_of
from afcl.core.messages import Cells, Hello, Left, Update
from afcl.core.protocol import client_rng
from afcl.exceptions import InputError, RejectedMessage
from afcl.kernels import assign, lloyd
from afcl.methods.rival import Nothing
from afcl.metrics import adjusted_rand
from afcl_bench.methods.fed_kernel_kmeans import (
    FeatureSums,
    FedKernelKMeans,
    KernelParams,
    draw_features,
    features,
    gamma_of,
)

METHOD = FedKernelKMeans()


def blobs(seed, n=40):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), n)
    return rng.normal(np.array([[0, 0], [5, 0], [0, 5]])[y], 0.4), y


def started(tables, seed=0, **options):
    params = KernelParams(n_clusters=3, n_components=20, **options)
    hellos = [
        replace(METHOD.hello(table, params, client_rng(seed, g, 0)), client=g)
        for g, table in enumerate(tables)
    ]
    return METHOD.prepare(METHOD.init(hellos, params, seed))


def answered(state, tables, clients):
    """Let these clients answer the broadcast, and end the round."""
    broadcast = METHOD.broadcast(state)
    for g in clients:
        rng = client_rng(state.seed, g, 1)
        update, memory = METHOD.client_step(
            broadcast, tables[g], None, state.params, rng
        )
        assert memory is None
        stamped = replace(update, client=g, version=broadcast.version, contact=1)
        state, _ = METHOD.absorb(state, stamped)
    return METHOD.end_round(state)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "give n_clusters"),
        ({"n_clusters": 3, "n_components": 0}, "n_components must be a whole number"),
        ({"n_clusters": 3, "local_clusters": 1.5}, "local_clusters must be a whole"),
        ({"n_clusters": 3, "gamma": 0.0}, "gamma must be a positive number"),
        ({"n_clusters": 3, "gamma": "auto"}, "gamma must be a positive number"),
        ({"n_clusters": 3, "tolerance": -1.0}, "tolerance must not be negative"),
        ({"n_clusters": 3, "tolerance": np.nan}, "tolerance must not be negative"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        make_method("fed-kernel-kmeans", **options)


# ------------------------------------------------------------------ the features


def test_inner_products_approximate_the_kernel(seed):
    X = np.random.default_rng(seed).random((12, 3))
    mapped = features(X, *draw_features(seed, 0.8, 3, 20_000))
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(mapped @ mapped.T, np.exp(-0.8 * squared), atol=0.05)


def test_a_seed_always_gives_the_same_features():
    # gamma only stretches the frequencies: sqrt(2 * 2) / sqrt(2 * .5) = 2.
    wide, narrow = draw_features(7, 0.5, 2, 5), draw_features(7, 2.0, 2, 5)
    np.testing.assert_allclose(narrow[0], 2 * wide[0])
    np.testing.assert_array_equal(narrow[1], wide[1])
    assert not np.allclose(wide[0], draw_features(8, 0.5, 2, 5)[0])


def test_gamma_by_hand():
    # Rows 0, 2 | 4: mean 2, variance (4 + 0 + 4) / 3 = 8/3; s2 = 16/3, gamma = 3/32.
    bag = Cells(np.array([2, 1]), np.array([[1.0], [4.0]]), np.array([2.0, 0.0]))
    assert gamma_of(bag) == pytest.approx(3 / 32)
    one = Cells(np.array([5]), np.array([[1.0, 2.0]]), np.array([0.0]))
    assert gamma_of(one) == 1.0


def test_gamma_is_that_of_the_pooled_rows(seed):
    X, y = blobs(seed)
    state = started([X[y == g] for g in range(3)], seed)
    s2 = 2 * X.var(axis=0).sum()
    assert state.model.gamma == pytest.approx(1 / (2 * s2))
    assert started([X], seed, gamma=0.3).model.gamma == 0.3


# ------------------------------------------------------------------ the rounds


def test_a_round_is_one_of_lloyd_on_the_pooled_features(seed):
    X, y = blobs(seed)
    tables = [X[:50], X[50:90], X[90:]]
    state = started(tables, seed)
    after = answered(state, tables, (2, 0, 1))
    basis = draw_features(seed, state.model.gamma, 2, 20)
    mapped = features(X, *basis)
    pooled, _ = lloyd(mapped, np.ones(len(X)), state.model.centers, 1)
    np.testing.assert_allclose(after.model.centers, pooled, atol=1e-12)
    labels, _ = assign(mapped, state.model.centers)
    counts = np.bincount(labels, minlength=3)
    np.testing.assert_array_equal(after.model.counts, counts)


def test_who_was_not_heard_is_represented_by_its_cells(seed):
    X, y = blobs(seed)
    tables = [X[y == g] for g in range(3)]
    after = answered(started(tables, seed), tables, (1,))
    assert after.model.counts.sum() == len(X)  # nobody's rows are forgotten
    assert METHOD.result(after).k == 3
    assert not after.finished


def test_the_last_answer_stays(seed):
    X, y = blobs(seed)
    tables = [X[y == g] for g in range(3)]
    full = answered(started(tables, seed), tables, (0, 1, 2))
    alone = answered(full, tables, (1,))
    # Separate clusters: nothing moves, with or without the others.
    np.testing.assert_allclose(alone.model.centers, full.model.centers, atol=1e-12)
    assert alone.model.counts.sum() == len(X)


def test_it_stops_when_everybody_answered_settled_centers(seed):
    X, y = blobs(seed)
    tables = [X[y == g] for g in range(3)]
    state = answered(started(tables, seed), tables, (0, 1, 2))
    assert not METHOD.done(state)  # from the cells' features to the rows'
    state = answered(state, tables, (0, 1))
    assert not METHOD.done(state)  # client 2 has not seen these centres
    gone, _ = METHOD.absorb(state, Left(2))
    assert METHOD.done(answered(gone, tables, (0,)))
    state = answered(state, tables, (2,))
    assert METHOD.done(state)
    assert METHOD.broadcast(state).wanted == frozenset()


def test_a_late_joiner_starts_the_run_again(seed):
    X, y = blobs(seed)
    tables = [X[y == g] for g in range(3)]
    old = answered(started(tables[:2], seed), tables, (0, 1))
    hello = METHOD.hello(tables[2], old.params, client_rng(seed, 2, 0))
    state, _ = METHOD.absorb(replace(old, finished=True), replace(hello, client=2))
    assert not METHOD.done(state)
    state = METHOD.prepare(state)
    assert not state.finished
    assert state.model.since == state.version == old.version + 1
    assert state.model.gamma == started(tables, seed).model.gamma
    stale = Update(old.latest[0].payload, old.version, 0, 2)
    late, _ = METHOD.absorb(state, stale)  # an answer to the first start: accepted,
    after = METHOD.end_round(late)  # but its sums belong to other features
    assert after.model.counts.sum() == len(X)
    assert not after.finished
    assert METHOD.prepare(after) is after


@pytest.mark.parametrize(
    "participation", [None, "random", Rounds(delay=2), Schedule(late={1: 2})]
)
def test_well_separated_clusters_are_found(participation, seed):
    X, y = blobs(seed)
    model = make_method(
        "fed-kernel-kmeans",
        n_clusters=3,
        random_state=seed,
        participation=participation,
        max_rounds=40,
        scale=((-2, -2), (7, 7)),
    ).fit(X, clients=y)
    assert adjusted_rand(y, model.labels_) == 1.0
    assert model.cluster_centers_ is None
    assert model.cluster_sizes_.tolist() == [40, 40, 40]
    assert len(model.path_.k) == 0
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_a_saved_model_predicts_the_same(tmp_path, seed):
    X, y = blobs(seed)
    model = make_method("fed-kernel-kmeans", n_clusters=3, random_state=seed)
    model.fit(X, clients=y).save(tmp_path)
    again = type(model).load(tmp_path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_more_clusters_than_rows():
    tables = [np.array([[0.0]]), np.array([[1.0], [1.0]])]
    model = make_method("fed-kernel-kmeans", n_clusters=5, random_state=0)
    model.fit_clients(tables)
    assert model.n_clusters_ == 2
    assert model.labels_.tolist() == [1, 0, 0]


# ------------------------------------------------------------------ refusals


def cells(X, labels):
    return cells_of(np.asarray(X, dtype=np.float64), np.asarray(labels), 99)


@pytest.mark.parametrize(
    "said",
    [
        Nothing(),
        cells(np.ones((3, 2)), [0, 1, 1]),  # 3 of 4 rows
        cells(np.ones((4, 2)), [0, 1, 2, 3]),  # more than two cells
        cells(np.ones((4, 3)), [0, 0, 1, 1]),  # three columns
        Cells(np.array([4.0]), np.ones((1, 2)), np.zeros(1)),
    ],
)
def test_bad_hellos_are_refused(said):
    state = started([np.eye(2)], local_clusters=2)
    with pytest.raises(RejectedMessage):
        METHOD.absorb(state, Hello(4, said, client=1))


def update(counts=(2, 0, 0), shift=0.0, **changes):
    sums = np.zeros((3, 20))
    sums[:, 0] += shift
    said = FeatureSums(np.array(counts, dtype=np.int64), sums)
    return Update(replace(said, **changes), 0, 0, 1)


@pytest.mark.parametrize(
    "message",
    [
        Update(Nothing(), 0, 0, 1),
        update(counts=(1, 0, 0)),
        update(counts=(3, -1, 0)),
        update(counts=(2, 0)),
        update(shift=0.7),  # an empty cluster has no sum
        update(sums=np.full((3, 20), 9.0)),
        Update(FeatureSums(np.array([2.0, 0, 0]), np.zeros((3, 20))), 0, 0, 1),
        update(sums=np.zeros((3, 19))),
        update(sums=np.zeros((2, 20))),
        update(sums=None),
    ],
)
def test_bad_answers_are_refused(message):
    state = started([np.eye(2)])
    accepted, _ = METHOD.absorb(state, update())
    assert accepted.answers == {0: 1}
    with pytest.raises(RejectedMessage):
        METHOD.absorb(state, message)

# SPDX-License-Identifier: Apache-2.0
"""FedGenGMM: local mixtures, redrawn rows, the fit, labels, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl import make_method
from afcl.core.messages import Hello, Positions, Update
from afcl.core.protocol import client_rng
from afcl.estimators.method import MethodClusterer
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods.rival import Nothing
from afcl.metrics import adjusted_rand
from afcl.runtime.schedule import Schedule
from afcl_bench.methods.fedgengmm import (
    DiagonalMixture,
    FedGenGMM,
    FullMixture,
    fit_mixtures,
    local_mixture,
    most_likely,
    redraw,
)


def spots(seed, n=120):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    where = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    return where[truth] + rng.normal(0, 0.04, (n, 2)), truth


def one(mean, variance, weight=1.0):
    return DiagonalMixture(
        np.array([weight]), np.array([[mean]]), np.array([[variance]])
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n_clusters", "max_clusters", "max_local"])
def test_bad_options(name):
    for value in (0, 2.5, "3"):
        with pytest.raises(InputError, match=f"{name} must be a whole number"):
            make_method("fedgengmm", **{name: value})


# ------------------------------------------------------------------ a client


def test_one_gaussian_is_mean_and_variance(seed):
    X = np.random.default_rng(seed).normal([3.0, -1.0], [0.1, 2.0], (50, 2))
    (fitted,) = fit_mixtures(X, range(1, 2), "diag", 0)
    assert np.allclose(fitted.means, X.mean(axis=0))
    assert np.allclose(fitted.covariances[0], np.diag(X.var(axis=0)), rtol=1e-5)
    (full,) = fit_mixtures(X, range(1, 2), "full", 0)
    assert np.allclose(full.covariances[0], np.cov(X.T, bias=True), rtol=1e-5)


def test_bic_finds_the_local_groups(seed):
    X, _ = spots(seed)
    mixture = local_mixture(X, 5, np.random.default_rng(seed))
    assert np.allclose(mixture.weights, 1 / 3, atol=0.01)
    assert np.allclose(
        mixture.means[mixture.means[:, 1].argmax()], [0.5, 1.0], atol=0.05
    )
    assert mixture.variances.shape == (3, 2)


def test_one_row_sends_that_row():
    mixture = local_mixture(np.array([[2.0, 3.0]]), 5, np.random.default_rng(0))
    assert mixture.means.tolist() == [[2.0, 3.0]]
    assert mixture.weights.tolist() == [1.0]
    assert (mixture.variances > 0).all()


def test_a_component_stands_for_five_rows(seed):
    # Two far rows would be a component of their own, were they allowed to.
    X = np.concatenate(
        [np.random.default_rng(seed).normal(0, 0.01, (20, 1)), [[1], [1]]]
    )
    mixture = local_mixture(X, 5, np.random.default_rng(seed))
    assert (mixture.weights * 22 >= 5).all()
    assert len(local_mixture(X[:9], 5, np.random.default_rng(seed)).weights) == 1


@pytest.mark.parametrize(
    "X",
    [
        np.full((12, 2), 0.1),
        np.repeat([[0.0, 1.0], [1.0, 1.0]], 8, axis=0),
        np.column_stack([np.arange(20.0), np.full(20, 1e9)]),
    ],
)
def test_degenerate_rows(X):
    mixture = local_mixture(X, 5, np.random.default_rng(0))
    assert np.isfinite(mixture.means).all()
    assert (mixture.variances > 0).all()
    assert len(mixture.weights) <= len(np.unique(X, axis=0))


# ------------------------------------------------------------------ the server


def test_redrawn_rows_follow_the_shares(seed):
    # Two components: 200 rows; clients of 3 and 1 rows: three quarters near 0.
    rng = np.random.default_rng(seed)
    rows = redraw([one(0.0, 1e-6), one(9.0, 1e-6)], np.array([3.0, 1.0]), rng)
    assert rows.shape == (200, 1)
    assert 0.6 < (rows < 4).mean() < 0.9
    many = DiagonalMixture(np.full(60, 1 / 60), np.zeros((60, 1)), np.ones((60, 1)))
    assert redraw([many], np.ones(1), rng).shape == (5000, 1)


def test_labels_by_hand():
    # Equal weights, N(0, 1) and N(4, 1): the border is 2. With weights e^2 : 1 it moves
    # by 2 / 4 to 2.5; with N(0, 1) and N(0, 100) the narrow one wins near 0.
    def labels(weights, means, variances, *x):
        mixture = FullMixture(
            np.array(weights, float),
            np.array(means, float)[:, None],
            np.array(variances, float)[:, None, None],
            0.0,
        )
        return most_likely(np.array(x)[:, None], mixture).tolist()

    assert labels([0.5, 0.5], [0, 4], [1, 1], 1.9, 2.1) == [0, 1]
    assert labels([np.exp(2), 1], [0, 4], [1, 1], 2.4, 2.6) == [0, 1]
    assert labels([0.5, 0.5], [0, 0], [1, 100], 0.0, 9.0) == [0, 1]


def test_labels_agree_with_scikit_learn(seed):
    from sklearn.mixture import GaussianMixture

    X, _ = spots(seed)
    model = GaussianMixture(3, random_state=seed).fit(X)
    mixture = FullMixture(model.weights_, model.means_, model.covariances_, 0.0)
    assert np.array_equal(most_likely(X, mixture), model.predict(X))


def test_components_without_rows_are_left_out(seed):
    method = FedGenGMM()
    hello = Hello(10, one(0.0, 1.0), client=0)
    state = method.prepare(method.init([hello], method.parameters(n_clusters=2), seed))
    sizes = np.array([0.0, 10.0])
    answer = method.result(replace(state, model=replace(state.model, sizes=sizes)))
    assert answer.k == 1
    assert answer.centers is not None
    assert np.array_equal(answer.centers, state.model.best.means[1:])
    assert np.array_equal(answer.extra["means"], answer.centers)


# ------------------------------------------------------------------ a run


def test_finds_k_at_once(seed):
    X, truth = spots(seed)
    model = make_method("fedgengmm", max_clusters=6, random_state=seed)
    model.fit(X, clients=(X[:, 0] > 0.5).astype(int))
    assert model.n_clusters_ == 3
    assert adjusted_rand(truth, model.labels_) == 1.0
    assert model.n_rounds_ == 0
    assert model.path_.k.tolist() == [1, 2, 3, 4, 5, 6]
    assert model.path_.scores["bic"].argmin() == 2
    assert np.array_equal(model.predict(X), model.labels_)


def test_given_k_is_taken(seed, tmp_path):
    X, _ = spots(seed)
    model = make_method("fedgengmm", n_clusters=2, random_state=seed).fit(X)
    assert model.n_clusters_ == 2
    assert model.path_.k.tolist() == [2]
    model.save(tmp_path)
    again = MethodClusterer.load(tmp_path)
    assert np.array_equal(again.predict(X), model.labels_)


def test_late_joiners_are_fitted_in(seed):
    X, truth = spots(seed)
    tables = [X[truth < 2], X[truth == 2]]
    model = make_method(
        "fedgengmm",
        max_clusters=4,
        participation=Schedule(late={1: 2}),
        random_state=seed,
    ).fit_clients(tables)
    assert model.n_clusters_ == 3
    assert model.cluster_sizes_.tolist() == [40, 40, 40]


def test_there_is_nothing_to_ask(seed):
    method = FedGenGMM()
    params = method.parameters(n_clusters=1)
    X, _ = spots(seed, 30)
    hello = replace(method.hello(X, params, client_rng(seed, 0, 0)), client=0)
    state = method.init([hello], params, seed)
    assert not method.done(state)
    state = method.prepare(state)
    assert method.done(state)
    sent = method.broadcast(state)
    assert sent.wanted == frozenset()
    update, memory = method.client_step(sent, X, None, params, client_rng(seed, 0, 1))
    assert memory is None
    state, _ = method.absorb(state, replace(update, client=0, version=0, contact=1))
    assert method.end_round(state).model is state.model
    with pytest.raises(RejectedMessage, match="nothing more than the hello"):
        method.absorb(state, Update(hello.payload, version=0, client=0, contact=1))


# ------------------------------------------------------------------ refusals


def test_bad_hellos():
    method = FedGenGMM()
    state = method.init((), method.parameters(max_local=2), 0)
    good = DiagonalMixture(
        np.array([0.25, 0.75]), np.zeros((2, 3)), np.full((2, 3), 0.1)
    )
    method.absorb(state, Hello(10, good, client=0))
    third = np.full(3, 1 / 3)
    for bad in (
        Nothing(),
        Positions(good.means),
        DiagonalMixture(third, np.zeros((3, 3)), np.ones((3, 3))),  # over max_local
        replace(good, weights=np.array([0.5, 0.75])),
        replace(good, weights=np.array([-0.5, 1.5])),
        replace(good, weights=np.array([1.0])),
        replace(good, weights=np.array([0, 1])),
        replace(good, variances=np.zeros((2, 3))),
        replace(good, variances=np.ones((2, 2))),
        replace(good, variances=np.full((2, 3), np.nan)),
    ):
        with pytest.raises(RejectedMessage):
            method.absorb(state, Hello(10, bad, client=0))
    with pytest.raises(RejectedMessage, match="at most 1 components"):
        method.absorb(state, Hello(1, good, client=0))

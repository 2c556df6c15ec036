# SPDX-License-Identifier: Apache-2.0
"""F-FCM: gradients by hand, a stable step, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl import make_method
from afcl.core.messages import Hello, Positions, Update
from afcl.exceptions import InputError, RejectedMessage
from afcl_bench.methods.f_fcm import FFCM, FuzzyGradient
from afcl_bench.methods.fuzzy import FuzzyModel, Width, fuzzy_c_means


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def gradient(X, prototypes, **options):
    method = FFCM()
    params = method.parameters(n_clusters=len(prototypes), **options)
    answer, memory = method.step(
        Positions(prototypes), X, None, params, np.random.default_rng(0)
    )
    assert memory is None
    return answer


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"local_steps": 0}, "local_steps must be a whole number"),
        ({"step_size": 0}, "step_size must be a number above 0"),
        ({"variance_floor": -1.0}, "variance_floor must be a number above 0"),
        ({"aggregation": "stale"}, "no option 'aggregation'"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        make_method("f-fcm", n_clusters=2, **options)


def test_gradient_by_hand():
    # k = 1: u = 1. Rows 0 and 2 (variance 1), v = 4: -2 ((0-4) + (2-4)) / 1 / 2 = 6.
    answer = gradient(column(0.0, 2.0), column(4.0))
    assert np.allclose(answer.gradient, 6.0)
    assert answer.counts.tolist() == [2]


def test_constant_features_get_the_floor():
    # Rows 1 and 1, variance 0 -> .01: -2 ((1-2) + (1-2)) / .01 / 2 = 200.
    assert np.allclose(gradient(column(1.0, 1.0), column(2.0)).gradient, 200.0)
    assert np.allclose(
        gradient(column(1.0, 1.0), column(2.0), variance_floor=0.1).gradient, 20.0
    )


def test_no_pull_where_the_client_has_converged(seed):
    X = np.random.default_rng(seed).random((40, 2))
    rest, _ = fuzzy_c_means(X, X[:3], 2.0, 2000, 1e-10)
    assert np.abs(gradient(X, rest).gradient).max() < 1e-6


def test_the_server_weighs_by_rows():
    # v = 1 - .1 (3/4 * 2 + 1/4 * 6) = .7; with client 0 alone 1 - .1 * 1.5 = .85.
    method = FFCM()
    params = method.parameters(n_clusters=1, step_size=0.1)
    hellos = [Hello(3, Width(1), client=0), Hello(1, Width(1), client=1)]
    state = method.prepare(method.init(hellos, params, 0))
    state = replace(state, model=FuzzyModel(column(1.0), np.zeros(1)))
    first = FuzzyGradient(column(2.0), np.array([3]))
    second = FuzzyGradient(column(6.0), np.array([1]))
    alone, _ = method.absorb(state, Update(first, version=0, client=0, contact=1))
    both, _ = method.absorb(alone, Update(second, version=0, client=1, contact=1))
    assert np.allclose(method.end_round(alone).model.centers, 0.85)
    assert np.allclose(method.end_round(both).model.centers, 0.7)
    assert method.end_round(both).model.counts.tolist() == [4.0]


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.05, 0.3])
def test_the_default_step_is_stable(seed, spread):
    # k = 1 is the steepest case (u = 1): the distance to the mean must shrink.
    X = 0.5 + spread * np.random.default_rng(seed).standard_normal((20, 2))
    v = np.array([[0.0, 1.0]])
    for _ in range(10):
        before = np.abs(v - X.mean(axis=0))
        v = v - 0.008 * gradient(X, v).gradient
        assert (np.abs(v - X.mean(axis=0)) <= before).all()


def test_refusals():
    method = FFCM()
    params = method.parameters(n_clusters=2)
    state = method.prepare(method.init([Hello(3, Width(1), client=0)], params, 0))
    good = FuzzyGradient(np.zeros((2, 1)), np.array([1, 2]))
    for bad in (
        Positions(np.zeros((2, 1))),
        replace(good, gradient=np.zeros((2, 2))),
        replace(good, counts=np.array([1, 1])),
    ):
        with pytest.raises(RejectedMessage, match="expected"):
            method.absorb(state, Update(bad, version=0, client=0, contact=1))


def test_one_client_settles_where_fuzzy_c_means_does(seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(0.1, 0.05, (40, 2)), rng.normal(0.9, 0.05, (40, 2))])
    model = make_method(
        "f-fcm", n_clusters=2, scale=None, max_rounds=400, random_state=seed
    ).fit(X)
    rest, _ = fuzzy_c_means(X, model.cluster_centers_, 2.0, 1000, 1e-10)
    assert np.allclose(model.cluster_centers_, rest, atol=1e-3)

# SPDX-License-Identifier: Apache-2.0
"""Exact federated fuzzy c-means equals fuzzy c-means on the pooled rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl import make_method
from afcl.core.protocol import client_rng
from afcl.metrics import adjusted_rand
from afcl.testing import check_method
from afcl_bench.methods.fcm_exact import FCMExact
from afcl_bench.methods.fuzzy import FuzzyModel


def pooled_step(X, centers, m):
    """One step of fuzzy c-means, written out row by row."""
    k = len(centers)
    sums, mass = np.zeros_like(centers), np.zeros(k)
    for x in X:
        distances = [float(np.sum((x - c) ** 2)) ** 0.5 for c in centers]
        for j in range(k):
            ratios = [(distances[j] / d) ** (2 / (m - 1)) for d in distances]
            weight = (1 / sum(ratios)) ** m
            sums[j] += weight * x
            mass[j] += weight
    return sums / mass[:, None]


def start(tables, seed, **options):
    method = FCMExact()
    params = method.parameters(**options)
    hellos = [
        replace(method.hello(X, params, client_rng(seed, g, 0)), client=g)
        for g, X in enumerate(tables)
    ]
    return method, params, method.prepare(method.init(hellos, params, seed))


def advance(method, params, state, tables, present):
    sent = method.broadcast(state)
    for g in present:
        update, _ = method.client_step(sent, tables[g], None, params, None)
        state, _ = method.absorb(
            state, replace(update, client=g, version=sent.version, contact=1)
        )
    return method.end_round(state)


def test_checks_from_a_uniform_start(seed):
    check_method("fcm-exact", seed, init="uniform")


@pytest.mark.parametrize("fuzzifier", [2.0, 1.5])
def test_equals_pooled_fuzzy_c_means(seed, fuzzifier):
    rng = np.random.default_rng(seed)
    tables = [rng.random((n, 3)) for n in (17, 1, 8)]
    method, params, state = start(
        tables, seed, n_clusters=4, init="uniform", fuzzifier=fuzzifier
    )
    pooled = state.model.centers
    for _ in range(12):
        state = advance(method, params, state, tables, [2, 0, 1])
        pooled = pooled_step(np.concatenate(tables), pooled, fuzzifier)
        assert np.allclose(state.model.centers, pooled, rtol=0, atol=1e-8)


def test_the_last_word_of_an_absent_client_counts():
    # k = 1: u = 1, so a round is (sum of rows) / (number of rows): (0+2+9)/3 = 11/3,
    # with or without client 1 in the second round; "present" takes client 0 alone: 1.
    tables = [np.array([[0.0], [2.0]]), np.array([[9.0]])]
    for aggregation, expected in (("stale", 11 / 3), ("present", 1.0)):
        method, params, state = start(tables, 0, n_clusters=1, aggregation=aggregation)
        state = advance(method, params, state, tables, [0, 1])
        assert np.allclose(state.model.centers, 11 / 3)
        state = advance(method, params, state, tables, [0])
        assert np.allclose(state.model.centers, expected)


def test_one_round_by_hand():
    # Centres 0 and 3, row 1: u = (.8, .2); row 3 sits on the second centre: u = (0, 1).
    # Sums (.64, .04 + 3), masses (.64, .04 + 1): centres 1 and 3.04/1.04.
    tables = [np.array([[1.0]]), np.array([[3.0]])]
    method, params, state = start(tables, 0, n_clusters=2)
    model = FuzzyModel(np.array([[0.0], [3.0]]), np.zeros(2))
    state = replace(state, model=model)
    state = advance(method, params, state, tables, [0, 1])
    assert np.allclose(state.model.centers, [[1.0], [3.04 / 1.04]])
    assert state.model.counts.tolist() == [1.0, 1.0]


def test_finds_groups_that_no_client_sees_whole(seed):
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    truth = np.repeat([0, 1, 2], 40)
    X = spots[truth] + rng.normal(0, 0.05, (120, 2))
    owners = (X[:, 0] > 0.5).astype(int)
    model = make_method("fcm-exact", n_clusters=3, random_state=seed)
    model.fit(X, clients=owners)
    assert adjusted_rand(truth, model.labels_) == 1.0
    assert model.n_rounds_ < 100

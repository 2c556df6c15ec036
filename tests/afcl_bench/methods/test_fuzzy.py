# SPDX-License-Identifier: Apache-2.0
"""Fuzzy c-means by hand, and what the fuzzy rivals share: start, stop, answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl.core.messages import Hello, Left, Positions, Update
from afcl.core.protocol import client_rng
from afcl.exceptions import InputError, RejectedMessage
from afcl_bench.methods.fcm_exact import FCMExact, FuzzySums
from afcl_bench.methods.fuzzy import (
    CMeansParams,
    FuzzyModel,
    FuzzyParams,
    Width,
    divide,
    fuzzy_c_means,
    fuzzy_sums,
    memberships,
    nearest_counts,
)


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def joined(tables, **options):
    """Return the method, its parameters and the prepared state after the hellos."""
    method = FCMExact()
    params = method.parameters(**options)
    hellos = [
        replace(method.hello(X, params, client_rng(0, g, 0)), client=g)
        for g, X in enumerate(tables)
    ]
    return method, params, method.prepare(method.init(hellos, params, 0))


def round_of(method, params, state, tables, present):
    sent = method.broadcast(state)
    for g in present:
        update, _ = method.client_step(sent, tables[g], None, params, None)
        state, _ = method.absorb(
            state, replace(update, client=g, version=sent.version, contact=1)
        )
    return method.prepare(method.end_round(state))


# ------------------------------------------------------------------ by hand


def test_memberships_by_hand():
    # x = 1, centres 0 and 3: squared distances 1 and 4. m = 2: 1/1 : 1/4 = .8 : .2;
    # m = 3: exponent 1/2, so 1 : 1/2 = 2/3 : 1/3.
    X, centers = column(1.0), column(0.0, 3.0)
    assert np.allclose(memberships(X, centers), [[0.8, 0.2]])
    assert np.allclose(memberships(X, centers, 3.0), [[2 / 3, 1 / 3]])


def test_a_row_on_a_centre_belongs_to_it():
    assert np.allclose(memberships(column(3.0), column(0.0, 3.0)), [[0.0, 1.0]])
    assert np.allclose(memberships(column(3.0), column(3.0, 3.0, 9.0)), [[0.5, 0.5, 0]])


def test_sums_by_hand():
    # u = (.8, .2) and (.5, .5), squared (.64, .04) and (.25, .25); rows 1 and 3.
    mass, total = fuzzy_sums(column(1.0, 3.0), np.array([[0.8, 0.2], [0.5, 0.5]]), 2.0)
    assert np.allclose(mass, [0.89, 0.29])
    assert np.allclose(total, column(0.64 + 0.75, 0.04 + 0.75))


def test_division_keeps_what_has_no_mass():
    got = divide(np.array([2.0, 0.0]), column(6.0, 0.0), column(7.0, 8.0))
    assert got.tolist() == [[3.0], [8.0]]


def test_one_row_draws_all_centres():
    centers, shares = fuzzy_c_means(column(5.0), column(0.0, 9.0), 2.0, 100, 1e-4)
    assert np.allclose(centers, 5.0)
    assert np.allclose(shares, 0.5)


def test_local_runs_settle_on_two_groups(seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(0, 0.01, (40, 2)), rng.normal(1, 0.01, (40, 2))])
    centers, shares = fuzzy_c_means(X, rng.random((2, 2)), 2.0, 1000, 1e-6)
    order = centers[:, 0].argsort()
    assert np.allclose(centers[order], [[0, 0], [1, 1]], atol=0.02)
    assert np.allclose(shares.sum(axis=1), 1.0)
    again, _ = fuzzy_c_means(X, centers, 2.0, 1, 0.0)
    assert np.allclose(again, centers, atol=1e-5)


def test_no_fuzzifier_overflows():
    X, centers = column(0.0, 0.3, 1.0), column(0.0, 1.0)
    for fuzzifier in (1.001, 1e6):
        got, _ = fuzzy_c_means(X, centers, fuzzifier, 20, 0.0)
        assert np.isfinite(got).all()


def test_nearest_counts():
    assert nearest_counts(column(0.0, 1.0, 9.0), column(0.0, 10.0, 50.0)).tolist() == [
        2,
        1,
        0,
    ]


# ------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        (FuzzyParams, {}, "give n_clusters"),
        (FuzzyParams, {"init": "random"}, "init must be one of uniform, k-means"),
        (FuzzyParams, {"tolerance": -1}, "tolerance must be a number of at least 0"),
        (FuzzyParams, {"tolerance": "x"}, "tolerance must be a number of at least 0"),
        (CMeansParams, {"fuzzifier": 1.0}, "fuzzifier must be a number above 1"),
        (CMeansParams, {"aggregation": "new"}, "aggregation must be one of stale"),
    ],
)
def test_bad_options(kind, options, text):
    if options:
        options = {"n_clusters": 2, **options}
    with pytest.raises(InputError, match=text):
        kind(**options)


# ------------------------------------------------------------------ the start


def test_uniform_start_tells_only_the_width(seed):
    method = FCMExact()
    params = method.parameters(n_clusters=3, init="uniform")
    hello = method.hello(np.zeros((4, 2)), params, np.random.default_rng(seed))
    assert hello.payload == Width(2)
    state = method.prepare(method.init([replace(hello, client=0)], params, seed))
    assert state.model.centers.shape == (3, 2)
    assert ((state.model.centers >= 0) & (state.model.centers < 1)).all()


def test_seeded_start_takes_rows_and_fills_up():
    method, _, state = joined(
        [column(2.0, 2.0), column(5.0)], n_clusters=3, init="k-means++"
    )
    got = state.model.centers[:, 0]
    assert sorted(got[:2]) == [2.0, 5.0]  # the two different rows there are
    assert 0 <= got[2] < 1  # the rest comes from the unit cube


@pytest.mark.parametrize(
    ("init", "said"),
    [
        ("uniform", Width(0)),
        ("uniform", Width(True)),
        ("uniform", Positions(np.zeros((1, 2)))),
        ("k-means++", Width(2)),
        ("k-means++", Positions(np.zeros((3, 2)))),  # more than k
        ("k-means++", Positions(np.zeros((0, 2)))),
        ("k-means++", Positions(np.zeros((1, 2), dtype=np.float32))),
    ],
)
def test_bad_hellos(init, said):
    method = FCMExact()
    state = method.init((), method.parameters(n_clusters=2, init=init), 0)
    with pytest.raises(RejectedMessage, match="expected"):
        method.absorb(state, Hello(5, said, client=0))


# ------------------------------------------------------------------ the stop


def test_everybody_must_see_it_settle():
    tables = [column(0.0, 0.1, 0.9), column(1.0, 0.2)]
    method, params, state = joined(tables, n_clusters=2)
    for _ in range(60):
        state = round_of(method, params, state, tables, [0])
    assert not state.finished  # client 1 never said anything
    for _ in range(60):
        state = round_of(method, params, state, tables, [1])
        if state.finished:
            break
        state = round_of(method, params, state, tables, [0])
    assert state.finished
    assert method.done(state)
    assert method.broadcast(state).wanted == frozenset()


def test_who_has_left_is_not_waited_for():
    tables = [column(0.0, 0.1, 0.9), column(1.0, 0.2)]
    method, params, state = joined(tables, n_clusters=2)
    state, _ = method.absorb(state, Left(1))
    for _ in range(60):
        state = round_of(method, params, state, tables, [0])
    assert method.done(state)


def test_a_late_joiner_reopens_the_run():
    tables = [column(0.0, 0.1, 0.9, 1.0), column(5.0, 5.2)]
    method, params, state = joined(tables[:1], n_clusters=2)
    while not state.finished:
        state = round_of(method, params, state, tables, [0])
    hello = method.hello(tables[1], params, client_rng(0, 1, 0))
    state, _ = method.absorb(state, replace(hello, client=1))
    assert not method.done(state)
    state = method.prepare(state)
    assert not method.done(state)
    assert method.broadcast(state).wanted == {0, 1}
    while not state.finished:
        state = round_of(method, params, state, tables, [0, 1])
    assert np.allclose(sorted(method.result(state).centers[:, 0]), [0.5, 5.1], atol=0.1)


# ------------------------------------------------------------------ the answer


def test_centres_without_rows_are_dropped_once_settled():
    method, _, state = joined([column(0.0, 1.0)], n_clusters=3)
    model = FuzzyModel(column(0.0, 0.5, 1.0), np.array([1.0, 0.0, 4.0]))
    running = replace(state, model=model)
    assert method.result(running).centers.tolist() == [[1.0], [0.0], [0.5]]
    settled = replace(running, finished=True)
    assert method.result(settled).centers.tolist() == [[1.0], [0.0]]
    assert method.result(settled).sizes.tolist() == [4.0, 1.0]


def test_centres_that_coincide_are_one():
    method, _, state = joined([column(0.0, 1.0)], n_clusters=3)
    model = FuzzyModel(column(0.0, 0.00001, 1.0), np.array([1.0, 2.0, 2.5]))
    answer = method.result(replace(state, model=model))
    assert answer.centers.tolist() == [[0.0], [1.0]]
    assert answer.sizes.tolist() == [3.0, 2.5]


def test_more_clusters_than_different_rows():
    tables = [column(0.0, 0.0, 0.0), column(0.0)]
    method, params, state = joined(tables, n_clusters=3)
    for _ in range(5):
        state = round_of(method, params, state, tables, [0, 1])
    answer = method.result(state)
    assert answer.k == 1
    assert answer.sizes.tolist() == [4.0]


def test_updates_are_checked():
    tables = [column(0.0, 1.0)]
    method, _, state = joined(tables, n_clusters=2)
    sums, masses = np.zeros((2, 1)), np.array([1.0, 0.5])
    counts = np.array([1, 1])
    good = FuzzySums(sums, masses, counts)
    method.absorb(state, Update(good, version=0, client=0, contact=1))
    for bad in (
        Positions(sums),
        replace(good, sums=np.zeros((3, 1))),
        replace(good, sums=np.zeros((2, 2))),
        replace(good, sums=np.full((2, 1), np.nan)),
        replace(good, masses=np.array([1.0, 1.5])),  # more than two rows
        replace(good, masses=np.array([1.0, -0.5])),
        replace(good, masses=np.array([1.0])),
        replace(good, masses=np.array([1, 0])),
        replace(good, counts=np.array([1, 0])),  # a row went missing
        replace(good, counts=np.array([3, -1])),
        replace(good, counts=np.array([1.0, 1.0])),
    ):
        with pytest.raises(RejectedMessage):
            method.absorb(state, Update(bad, version=0, client=0, contact=1))

# SPDX-License-Identifier: Apache-2.0
"""FFCM: both averages by hand, the redraws of avg2, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl import make_method
from afcl.core.messages import Hello, Positions, Update
from afcl.exceptions import InputError, RejectedMessage
from afcl.metrics import adjusted_rand
from afcl_bench.methods.ffcm import FFCMAvg1, FFCMAvg2, LocalFuzzyCenters
from afcl_bench.methods.fuzzy import FuzzyModel, Width


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def said(centers, supports):
    """Return an answer of a client of four rows."""
    counts = np.zeros(len(centers), dtype=np.int64)
    counts[0] = 4
    return LocalFuzzyCenters(column(*centers), np.array(supports, float), counts)


def after(method, model, answers, **options):
    """Return the state after one round of these answers (None: absent)."""
    params = method.parameters(n_clusters=model.centers.shape[0], **options)
    hellos = [Hello(4, Width(1), client=g) for g in range(len(answers))]
    state = replace(method.prepare(method.init(hellos, params, 0)), model=model)
    for g, answer in enumerate(answers):
        if answer is not None:
            update = Update(answer, version=0, client=g, contact=1)
            state, _ = method.absorb(state, update)
    return method.end_round(state)


def begun(*centers, **books):
    return FuzzyModel(column(*centers), np.zeros(len(centers)), **books)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"local_steps": 0}, "local_steps must be a whole number"),
        ({"local_steps": "9"}, "local_steps must be a whole number"),
        ({"local_tolerance": -1.0}, "local_tolerance must be a number of at least 0"),
        ({"fuzzifier": 1}, "fuzzifier must be a number above 1"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        make_method("ffcm-avg1", n_clusters=2, **options)


def test_a_client_runs_to_convergence():
    # k = 1: every u is 1, the centre is the mean, the support the number of rows.
    method = FFCMAvg1()
    params = method.parameters(n_clusters=1)
    answer, memory = method.step(
        Positions(column(9.0)),
        column(0.0, 2.0, 7.0),
        None,
        params,
        np.random.default_rng(0),
    )
    assert memory is None
    assert np.allclose(answer.centers, 3.0)
    assert answer.supports.tolist() == [3.0]
    assert answer.counts.tolist() == [3]


def test_avg1_by_hand():
    # c_0 = (1*0 + 3*4)/4 = 3, c_1 = (3*4 + 1*8)/4 = 5; nothing supports c_2: it stays.
    state = after(
        FFCMAvg1(),
        begun(0.1, 0.2, 0.3),
        [said([0, 4, 9], [1, 3, 0]), said([4, 8, 9], [3, 1, 0])],
    )
    assert np.allclose(state.model.centers[:, 0], [3.0, 5.0, 0.3])
    assert state.model.counts.tolist() == [8.0, 0.0, 0.0]


def test_avg1_of_one_cluster_is_the_mean(seed):
    rng = np.random.default_rng(seed)
    X = rng.random((30, 2))
    owners = rng.integers(0, 3, 30)
    owners[:3] = [0, 1, 2]
    model = make_method("ffcm-avg1", n_clusters=1, random_state=seed)
    model.fit(X, clients=owners)
    assert np.allclose(model.cluster_centers_, X.mean(axis=0))


def test_avg2_by_hand():
    # Local centres 0 and 10, 1 and 12, whatever their order: means .5 and 11.
    state = after(
        FFCMAvg2(), begun(0.1, 0.2), [said([10, 0], [2, 2]), said([1, 12], [1, 3])]
    )
    assert sorted(state.model.centers[:, 0]) == [0.5, 11.0]


def test_avg2_later_starts_from_the_current_centres():
    # Points 0, 1, 4, 5. From 0 and 2 Lloyd stays at {0}, {1, 4, 5} -> {0, 1}, {4, 5};
    # from 0.5 and 100 all four belong to the first: 2.5, and 100 stays.
    answers = [said([0, 1], [2, 2]), said([4, 5], [2, 2])]
    books = {"rounds": 2, "heard": frozenset({0, 1})}
    state = after(FFCMAvg2(), begun(0.0, 2.0, **books), answers)
    assert state.model.centers[:, 0].tolist() == [0.5, 4.5]
    state = after(FFCMAvg2(), begun(0.5, 100.0, **books), answers)
    assert state.model.centers[:, 0].tolist() == [2.5, 100.0]


def test_avg2_draws_anew_for_a_new_voice():
    answers = [said([0, 1], [2, 2]), said([4, 5], [2, 2])]
    model = begun(0.5, 100.0, rounds=7, heard=frozenset({0}))
    state = after(FFCMAvg2(), model, answers)
    assert sorted(state.model.centers[:, 0]) == [0.5, 4.5]
    assert state.model.heard == {0, 1}


def test_avg2_survives_a_first_client_of_one_row():
    # Both its centres are its row: nothing to draw two centres from.
    state = after(FFCMAvg2(), begun(0.2, 0.8), [said([0.3, 0.3], [2, 2]), None])
    assert state.model.centers[:, 0].tolist() == [0.3, 0.8]


def test_absent_clients_count_unless_told_otherwise():
    # Equal supports: (0 + 2) / 2 = 1, then (4 + 2) / 2 = 3, or 4 alone.
    method = FFCMAvg1()
    for aggregation, expected in (("stale", 3.0), ("present", 4.0)):
        state = after(
            method,
            begun(0.0),
            [said([0], [4]), said([2], [4])],
            aggregation=aggregation,
        )
        assert state.model.centers.tolist() == [[1.0]]
        update = Update(said([4], [4]), version=1, client=0, contact=2)
        state, _ = method.absorb(state, update)
        state = method.end_round(state)
        assert state.model.centers.tolist() == [[expected]]


def test_refusals():
    method = FFCMAvg2()
    state = after(method, begun(0.1, 0.2), [said([0, 1], [2, 2])])
    good = said([0, 1], [2, 2])
    for bad in (
        Positions(column(0.0, 1.0)),
        replace(good, centers=column(0.0)),
        replace(good, supports=np.array([2.0, 3.0])),
        replace(good, counts=np.array([1, 1])),
    ):
        with pytest.raises(RejectedMessage, match="expected"):
            method.absorb(state, Update(bad, version=0, client=0, contact=2))


def test_avg2_finds_groups_of_a_split_federation(seed):
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    truth = np.repeat([0, 1, 2], 40)
    X = spots[truth] + rng.normal(0, 0.04, (120, 2))
    owners = np.arange(120) % 3
    model = make_method(
        "ffcm-avg2", n_clusters=3, init="k-means++", random_state=seed
    ).fit(X, clients=owners)
    assert adjusted_rand(truth, model.labels_) == 1.0

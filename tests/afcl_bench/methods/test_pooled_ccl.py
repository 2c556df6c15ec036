# SPDX-License-Identifier: Apache-2.0
"""Pooled CCL: the competition by hand, seeds that run together, parameters."""

from __future__ import annotations

import numpy as np
import pytest

from afcl import make_method
from afcl.exceptions import InputError
from afcl_bench.methods.pooled_ccl import PooledCCL, PooledCCLParams, learned


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def test_one_seed_goes_half_the_way():
    # 0 -> 2 (row 4) -> 5 (row 8), then 4.5 and 6.25 in the second presentation.
    params = PooledCCLParams(learning_rate=0.5, max_epochs=1)
    assert learned(column(0), column(4, 8), params).tolist() == [[5.0]]
    params = PooledCCLParams(learning_rate=0.5, max_epochs=2)
    assert learned(column(0), column(4, 8), params).tolist() == [[6.25]]


def test_seeds_near_the_winner_cooperate():
    # Row 4: seed 2 wins (4 < 16); seed 0 is 2 away from it and so is the row: both
    # move half the way, to 3 and 2. Seed 20 is too far.
    params = PooledCCLParams(learning_rate=0.5, max_epochs=1)
    moved = learned(column(2, 0, 20), column(4), params)
    assert moved.tolist() == [[3.0], [2.0], [20.0]]


def test_winners_get_a_conscience():
    # Row 1: seed 0 wins, and moves to 0.5. Row 1.5 again: 2 * 1 against 1 * 2.25, the
    # first wins (3 wins), moves to 1; the second is 2.5 away, farther than the row.
    params = PooledCCLParams(learning_rate=0.5, max_epochs=1)
    moved = learned(column(0, 3), column(1, 1.5), params)
    assert moved.tolist() == [[1.0], [3.0]]
    # A third row at 1.8: 3 * 0.64 against 1 * 1.44, so the second wins, though the
    # first is nearer. It moves to 2.4; the first is 2 away, farther than the row.
    moved = learned(column(0, 3), column(1, 1.5, 1.8), params)
    assert np.allclose(moved, column(1, 2.4))


def test_inputs_stay_as_they_are():
    seeds, rows = column(0, 3), column(1, 2)
    learned(seeds, rows, PooledCCLParams())
    assert seeds.tolist() == [[0.0], [3.0]]
    assert rows.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(("way", "called"), [(0.0, [20]), (1.0, [20, 20, 10])])
def test_resting_seeds_end_it(monkeypatch, way, called):
    # Ten presentations of two rows at a time, 25 in all unless nothing moves.
    calls: list[int] = []

    def shift(seeds, rows, steps, near):
        calls.append(len(rows))
        seeds += way

    monkeypatch.setattr("afcl_bench.methods.pooled_ccl.interact_matlab", shift)
    learned(column(0), column(1, 2), PooledCCLParams(max_epochs=25))
    assert calls == called


def test_seeds_of_one_cluster_run_together(seed):
    # Not always all of them: three seeds in one cluster can hold each other off.
    rng = np.random.default_rng(seed)
    y = np.arange(300) % 3
    X = np.array([[0, 0], [9, 0], [0, 9]])[y] + rng.normal(0, 0.4, (300, 2))
    found = make_method("pooled-ccl", n_seeds=12, random_state=seed).fit(X)
    assert 3 <= found.n_clusters_ < 12
    for j in range(found.n_clusters_):
        assert np.unique(y[found.labels_ == j]).size == 1


def test_identical_rows_are_one_cluster():
    found = make_method("pooled-ccl", random_state=0).fit(np.ones((70, 2)))
    assert found.cluster_sizes_.tolist() == [70]


def test_seeds_follow_the_number_of_rows():
    params = PooledCCL().parameters()
    assert [params.seeds_for(n) for n in (1, 100, 640, 10**6)] == [2, 3, 20, 64]
    assert PooledCCLParams(n_seeds=7).seeds_for(10) == 7


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"n_seeds": 0}, "n_seeds must be at least 1, not 0"),
        ({"max_epochs": 0}, "max_epochs must be at least 1, not 0"),
        ({"learning_rate": 0.0}, "learning_rate must lie in"),
        ({"learning_rate": 1.5}, "learning_rate must lie in"),
        ({"tolerance": -1.0}, "tolerance must not be negative, not -1.0"),
        ({"merge": -1.0}, "merge must not be negative, not -1.0"),
    ],
)
def test_parameters_are_checked(option, text):
    with pytest.raises(InputError, match=text):
        PooledCCL().parameters(**option)

# SPDX-License-Identifier: Apache-2.0
"""The paper's interaction played at the client: the same seeds, no row sent."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from afcl.core.paper.balance import Contribution
from afcl.core.paper.competition import client_upload, cooperate
from afcl.core.paper.pulls import apply, check_pulls, pulls
from afcl.core.params import PaperParams
from afcl.exceptions import RejectedMessage


@pytest.mark.parametrize("seed", range(8))
def test_pulls_move_the_seeds_as_the_rows_would(seed):
    rng = np.random.default_rng(seed)
    X, seeds = rng.random((60, 3)), rng.random((7, 3))
    params = PaperParams(learning_rate=0.05)
    said = pulls(X, seeds, 0.7, params, rng)
    part = Contribution(0.7, seeds, client_upload(X, seeds, params, rng))
    wanted = cooperate(seeds, [part], params)
    assert np.abs(apply(seeds, said, 0.05) - wanted).max() < 1e-13
    assert said.counts.sum() >= 60


def test_one_row_by_hand():
    """Seed 0 wins x = 1; seed 1 lies beyond the reach |w (x - m)| = 0.5 of it."""
    X, seeds = np.array([[1.0]]), np.array([[0.0], [3.0]])
    said = pulls(
        X, seeds, 0.5, PaperParams(learning_rate=0.5), np.random.default_rng(0)
    )
    assert said.counts.tolist() == [1, 0]
    assert said.places.tolist() == [[0.25], [0.0]]
    assert apply(seeds, said, 0.5).tolist() == [[0.25], [3.0]]


@pytest.mark.parametrize(
    "change",
    [
        {"counts": np.array([1, 2, 3])},
        {"counts": np.array([1.0, 2.0])},
        {"counts": np.array([-1, 2])},
        {"counts": np.array([11, 2])},
        {"places": np.zeros((3, 1))},
        {"places": np.array([[np.nan], [0.0]])},
        {"weight": 0.1},
        {"weight": 1.5},
        {"weight": float("nan")},
        {"objective": float("inf")},
        {"objective": -1.0},
    ],
)
def test_pulls_no_client_could_send_are_refused(change):
    X, seeds = np.linspace(0, 1, 10)[:, None], np.array([[0.2], [0.8]])
    said = pulls(X, seeds, 0.9, PaperParams(), np.random.default_rng(0))
    check_pulls(said, seeds.shape, 10, 1.0)
    with pytest.raises(RejectedMessage):
        check_pulls(dataclasses.replace(said, **change), seeds.shape, 10, 1.0)
    with pytest.raises(RejectedMessage):
        check_pulls(None, seeds.shape, 10, 1.0)

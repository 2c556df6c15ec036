# SPDX-License-Identifier: Apache-2.0
"""k-means++: the compiled one picks what the reference picks, of few rows and many."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.kernels import native, reference_picks
from afcl.parts import BLOCK

BOTH = pytest.mark.parametrize(
    "backend", [reference_picks, native], ids=["reference", "native"]
)


@BOTH
def test_by_hand(backend):
    # Weights 1, 1, 2: .6 of 4 is row 2. Squared distances to it are 9, 4, 0, so that
    # .7 of 9 + 4 falls into row 1: 9.1 is more than 9.
    X = np.array([[0.0], [1.0], [3.0]])
    weights, draws = np.array([1.0, 1.0, 2.0]), np.array([0.6, 0.7])
    assert backend.plus_plus(X, weights, draws).tolist() == [2, 1]


@BOTH
def test_a_draw_beyond_the_last_weight_takes_the_last_row_that_has_one(backend):
    X = np.array([[0.0], [1.0], [2.0]])
    weights = np.array([1.0, 1.0, 0.0])
    assert backend.plus_plus(X, weights, np.array([1.0])).tolist() == [1]
    many = np.repeat(X, BLOCK, axis=0)
    weights = np.repeat(weights, BLOCK)
    found = backend.plus_plus(many, weights, np.array([1.0]))
    assert found.tolist() == [2 * BLOCK - 1]


@BOTH
def test_of_many_rows_by_hand(backend):
    # As many rows at 0 as in a block, and one at each of 1 and 5: of 4,098 a half is
    # the 2,050th; then 1 + 25 are left, of which .03 is less than 1, .04 is more.
    X = np.concatenate([np.zeros(BLOCK), [1.0, 5.0]])[:, None]
    for draw, expected in ((0.03, BLOCK), (0.04, BLOCK + 1)):
        found = backend.plus_plus(X, np.ones(BLOCK + 2), np.array([0.5, draw]))
        assert found.tolist() == [BLOCK // 2 + 1, expected]


@BOTH
@pytest.mark.parametrize("n", [0, 5, BLOCK + 5])
def test_it_ends_when_every_row_is_where_a_pick_is(backend, n):
    found = backend.plus_plus(np.ones((n, 2)), np.ones(n), np.array([0.5, 0.5, 0.5]))
    assert len(found) == min(n, 1)


@pytest.mark.parametrize("far", [0.0, 1e6, 1e25])
@pytest.mark.parametrize(
    ("n", "d"), [(300, 3), (BLOCK, 2), (BLOCK + 1, 2), (4 * BLOCK + 9, 5)]
)
def test_the_picks_are_those_of_the_reference(seed, n, d, far):
    # Where numbers are large, or lie far from the origin, 32 bits tell little.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4, d))[rng.integers(0, 4, n)] + 0.01 * rng.normal(size=(n, d))
    X = far * X if far > 1e20 else X + far
    weights, draws = rng.integers(0, 4, n).astype(float), rng.random(24)
    with np.errstate(all="ignore"):
        found = native.plus_plus(X, weights, draws)
    assert np.array_equal(found, reference_picks.plus_plus(X, weights, draws))

# SPDX-License-Identifier: Apache-2.0
"""Whether there are clusters at all: gains over one cloud, clouds, and the verdict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.core import structure
from afcl.core.cells import cells_of
from afcl.core.messages import Cells
from afcl.core.protocol import PathLevel
from afcl.core.structure import (
    AXES,
    Clouds,
    clouds_like,
    compared,
    gain_by_rows,
    gain_over_one,
    is_plain,
    leading,
    sample_path,
)
from afcl.reliance import CLUSTERS, NO_CLUSTERS, UNCLEAR

#: Gains on clouds that hardly differ, and on some that differ much.
CALM = Clouds(-0.1, 0.01, 0.0)
WILD = Clouds(0.2, 0.6, 1.5)


def condensed(X, m, seed=0):
    """Cells of rows, by the nearest of m of them."""
    rng = np.random.default_rng(seed)
    picks = X[rng.choice(len(X), m, replace=False)]
    labels = ((X[:, None, :] - picks) ** 2).sum(axis=2).argmin(axis=1)
    return cells_of(X, labels, m)


def blobs(seed, n=400, d=2, apart=12.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, d)) + apart * np.eye(3, d)[y]


def cloud(seed, n=400, d=2):
    return np.random.default_rng(seed).normal(size=(n, d))


# ------------------------------------------------------------------ the verdict


@pytest.mark.parametrize(
    ("gain", "by_rows", "valleys", "plain"),
    [
        (0.06, -1.0, 0.35, True),
        (-1.0, 0.06, 0.35, True),
        (0.05, 0.05, 1.0, False),  # no gain
        (9.0, 9.0, 0.34, False),  # no valleys
    ],
)
def test_a_gain_with_valleys_needs_no_clouds(gain, by_rows, valleys, plain):
    assert is_plain(gain, by_rows, valleys) is plain


@pytest.mark.parametrize(
    ("gain", "valleys", "clouds", "found"),
    [
        (0.21, 0.0, CALM, CLUSTERS),  # .31 more than on clouds
        (0.19, 0.0, CALM, NO_CLUSTERS),
        (1.21, 0.0, WILD, CLUSTERS),  # more than one nat: whatever they spread
        (1.19, 0.0, WILD, UNCLEAR),
        (0.49, 0.0, WILD, NO_CLUSTERS),
        (0.01, 0.8, CALM, CLUSTERS),  # beyond every cloud, with valleys
        (0.01, 0.79, CALM, NO_CLUSTERS),
        (-0.01, 0.8, CALM, NO_CLUSTERS),
    ],
)
def test_what_a_gain_means_beside_clouds(gain, valleys, clouds, found):
    assert compared(gain, valleys, clouds) == found


# ------------------------------------------------------------------ gains


def test_one_column_by_hand():
    """With one column there is one shape: -n/2 ln v, and half ln n for the variance."""
    fit = structure._shapes(np.array([[4.0]]), 10.0)[0]
    assert fit == pytest.approx(-5 * np.log(4) - 0.5 * np.log(10))


def test_a_long_axis_is_worth_its_parameters_with_enough_rows():
    """Variances 2, 1 and 1: round 3 ln(4/3), or ln 2 with three more numbers."""
    round_one = 3 * np.log(4 / 3)
    for n, fit, parameters in ((1000.0, np.log(2), 4), (10.0, round_one, 1)):
        expected = -0.5 * n * fit - 0.5 * parameters * np.log(n)
        found = structure._shapes(np.array([[2.0, 1.0, 1.0]]), n)[0]
        assert found == pytest.approx(expected)


def test_two_spots_on_a_line_by_hand():
    """Ten rows at 0 and ten at 1, variance .01 each."""
    bag = Cells(np.array([10, 10]), np.array([[0.0], [1.0]]), np.array([0.1, 0.1]))
    level = PathLevel(2, bag.means, np.array([10.0, 10.0]), {"free_bic": -1e9})
    one = -10 * np.log(0.26) - np.log(20)
    two = -10 * np.log(0.01) - 0.5 * np.log(20) + 20 * np.log(0.5) - 1.5 * np.log(20)
    assert gain_over_one(bag, [level]) == pytest.approx((two - one) / 20)


def test_without_levels_nothing_is_gained():
    bag = Cells(np.array([5]), np.zeros((1, 2)), np.zeros(1))
    assert gain_over_one(bag, []) == -np.inf
    assert gain_by_rows(bag, ()) == (-np.inf, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_blobs_gain_and_a_cloud_does_not(seed):
    rng = np.random.default_rng(seed)
    far, near = condensed(blobs(seed), 40), condensed(cloud(seed), 40)
    assert gain_over_one(far, sample_path(far, 8, rng)) > 0.5
    assert gain_over_one(near, sample_path(near, 8, rng)) < 0.05


@given(
    st.floats(0.01, 100),
    st.floats(-50, 50),
    st.integers(0, 20),
)
@settings(max_examples=30, deadline=None)
def test_a_gain_does_not_depend_on_units(scale, shift, seed):
    bag = condensed(blobs(seed, n=90), 12)
    moved = Cells(bag.counts, bag.means * scale + shift, bag.scatters * scale**2)
    gains = [
        gain_over_one(each, sample_path(each, 5, np.random.default_rng(0)))
        for each in (bag, moved)
    ]
    assert gains[0] == pytest.approx(gains[1], abs=1e-6)


def test_the_likeliest_candidate_speaks_for_the_rows():
    bag = condensed(blobs(0), 40)
    one = structure._one(bag)
    valleys = np.array([[0.0, 9.0, 9.0], [9.0, 9.0, 9.0]])
    n = bag.counts.sum()
    halves = np.full(2, n / 2)
    best = PathLevel(2, bag.means[:2], halves, {"free_bic": one + n})
    other = PathLevel(2, bag.means[:2], halves, {"free_bic": one - n})
    told = PathLevel(2, best.centers, best.sizes, best.scores, valleys=valleys)
    gain, share = gain_by_rows(bag, (other, told))
    assert gain == pytest.approx(1.0)
    assert share == 0.5


def test_rows_that_are_scored_and_in_no_cell_gain_nothing_by_themselves():
    bag = condensed(blobs(0), 40)
    one, n = structure._one(bag), bag.counts.sum()
    twice = PathLevel(2, bag.means[:2], np.full(2, n), {"free_bic": 2 * (one + n)})
    assert gain_by_rows(bag, (twice,))[0] == pytest.approx(1.0)


@pytest.mark.parametrize("m", [3, 40, 90])
def test_fewer_cells_than_columns_have_the_same_axes_and_lengths(m):
    d, rng = 100, np.random.default_rng(0)
    cells = Cells(
        rng.integers(5, 50, m), rng.normal(size=(m, d)), 10 * rng.random(m) * d
    )
    known = structure._Moments.of(cells)
    lengths, axes = np.linalg.eigh(known.covariance())
    np.testing.assert_allclose(structure._spread(cells), lengths[::-1], rtol=1e-9)
    assert structure._axes(cells).shape == (d, structure.AXES)
    small = leading(cells).means
    long = cells.means @ axes[:, -min(m - 1, structure.AXES) :]
    np.testing.assert_allclose(
        ((small[:, None] - small) ** 2).sum(axis=2),
        ((long[:, None] - long) ** 2).sum(axis=2),
        rtol=1e-9,
        atol=1e-9,
    )


# ------------------------------------------------------------------ clouds


def test_a_cloud_has_the_bags_shape_and_rows_but_no_clusters():
    X = blobs(1, n=3000) * [1.0, 5.0]
    bag = condensed(X, 60)
    made = structure._cloud(bag, np.random.default_rng(0))
    assert made.counts.sum() == pytest.approx(3000, rel=0.05)
    before, after = structure._Moments.of(bag), structure._Moments.of(made)
    np.testing.assert_allclose(after.mean, before.mean, atol=1.5)
    ratio = np.diag(after.covariance()) / np.diag(before.covariance())
    np.testing.assert_allclose(ratio, 1.0, atol=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_blobs_gain_more_than_all_clouds_of_their_shape(seed):
    rng = np.random.default_rng(seed)
    bag = condensed(blobs(seed), 40)
    clouds = clouds_like(bag, 8, rng)
    assert clouds.middle <= clouds.most < gain_over_one(bag, sample_path(bag, 8, rng))
    assert clouds.spread >= 0


def test_only_the_leading_axes_are_looked_at():
    X = cloud(0, n=300, d=AXES + 8) * np.linspace(10, 0.1, AXES + 8)
    bag = condensed(X, 80)
    small = leading(bag)
    assert small.means.shape == (80, AXES)
    assert small.scatters.sum() == pytest.approx(bag.scatters.sum() * AXES / (AXES + 8))
    kept = small.means.var(axis=0).sum() / bag.means.var(axis=0).sum()
    assert 0.97 < kept <= 1
    assert leading(small) is small

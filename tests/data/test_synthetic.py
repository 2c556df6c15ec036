# SPDX-License-Identifier: Apache-2.0
"""Drawn mixtures: the sizes, places and separations that were promised."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import calinski_harabasz_score

from afcl.data import make_mixture, make_sd1, make_sd2, random_mixture
from afcl.data.synthetic import (
    FEATURES,
    SD1_MEANS,
    SD1_SIZES,
    SD2_COVARIANCES,
    SD2_MEANS,
    SD2_SIZES,
    draw_centers,
    whole_sizes,
)
from afcl.exceptions import InputError

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("make", "sizes", "means", "covariances"),
    [
        (make_sd1, SD1_SIZES, SD1_MEANS, [0.1 * np.eye(2)] * 4),
        (make_sd2, SD2_SIZES, SD2_MEANS, SD2_COVARIANCES),
    ],
)
def test_paper_mixtures(make, sizes, means, covariances):
    X, y = make(0)
    assert (X.dtype, y.dtype) == (np.float64, np.int64)
    assert np.bincount(y).tolist() == list(sizes)
    for c, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        rows = X[y == c]
        # Five standard errors of a mean, and of a variance (whose variance is 2 s²/n).
        error = 5 * np.sqrt(np.diag(covariance) / len(rows))
        assert (np.abs(rows.mean(axis=0) - mean) < error).all()
        spread = 5 * np.sqrt(2 / len(rows)) * np.max(covariance)
        assert (np.abs(np.cov(rows.T) - covariance) < spread).all()


def test_sd1_is_as_separated_as_the_appendix_says():
    X, y = make_sd1(0)
    scaled = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    # 19 979 for the true partition of 0.1·I; one draw differs by some per cent.
    assert calinski_harabasz_score(scaled, y) == pytest.approx(19979, rel=0.08)


def test_sizes_of_the_paper():
    assert make_sd1(1)[0].shape == (1500 + 500 + 200 + 100, 2)
    assert make_sd2(1)[0].shape == (500 + 1000 + 1000 + 200 + 200, 2)


def global_state():
    return np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002


@pytest.mark.parametrize(
    "make",
    [
        make_sd1,
        make_sd2,
        random_mixture,
        lambda s: make_mixture(3, 2, separation=2, imbalance=3, random_state=s),
    ],
)
def test_the_seed_decides_and_rows_are_shuffled(make):
    before = global_state()
    (X, y), (X2, y2), (X3, _) = make(7), make(np.random.default_rng(7)), make(8)
    np.testing.assert_array_equal(X, X2)
    np.testing.assert_array_equal(y, y2)
    assert X.shape != X3.shape or not np.array_equal(X, X3)
    assert (np.diff(y) < 0).any()
    assert np.array_equal(before, global_state())


@given(seeds, st.integers(1, 15), st.integers(1, 6), st.sampled_from([1.8, 2.5, 4.0]))
@settings(max_examples=40, deadline=None)
def test_centres_keep_their_distance(seed, n_clusters, n_features, separation):
    rng = np.random.default_rng(seed)
    sigmas = rng.uniform(0.6, 1.4, n_clusters)
    centers = draw_centers(sigmas, n_features, separation, rng)
    assert centers.shape == (n_clusters, n_features)
    for i in range(n_clusters):
        for j in range(i):
            gap = np.linalg.norm((centers[i] - centers[j])[None], axis=1)[0]
            assert gap >= separation * (sigmas[i] + sigmas[j])


@pytest.mark.parametrize("n_features", FEATURES)
def test_the_separation_binds_in_every_dimension_from_the_smallest_box(n_features):
    rng = np.random.default_rng(0)
    centers = draw_centers(np.ones(20), n_features, 2.0, rng, box=0.0)
    gaps = np.linalg.norm(centers[:, None] - centers, axis=2)
    closest = gaps[~np.eye(20, dtype=bool)].min()
    assert 4.0 <= closest < 4.6


def test_the_drawn_clusters_are_where_the_centres_are():
    # The generator's own draws, repeated: spreads first, then centres.
    X, y = make_mixture(5, 3, separation=4, imbalance=1, random_state=3, n_samples=5000)
    rng = np.random.default_rng(3)
    sigmas = rng.uniform(0.6, 1.4, 5)
    centers = draw_centers(sigmas, 3, 4, rng)
    for c in range(5):
        rows = X[y == c]
        assert np.abs(rows.mean(axis=0) - centers[c]).max() < 5 * sigmas[c] / 31
        assert rows.std(axis=0) == pytest.approx(sigmas[c], rel=0.1)


@pytest.mark.parametrize(("n_clusters", "n"), [(2, 620), (40, 2900), (80, 5000)])
def test_default_number_of_rows(n_clusters, n):
    X, y = make_mixture(n_clusters, 2, separation=1.8, imbalance=20, random_state=0)
    assert X.shape == (n, 2)
    assert np.bincount(y).size == n_clusters


@given(
    seeds, st.integers(1, 12), st.sampled_from([1.0, 3.0, 20.0]), st.integers(0, 300)
)
@settings(max_examples=40, deadline=None)
def test_sizes_keep_to_the_imbalance(seed, n_clusters, imbalance, more):
    n = 12 * n_clusters + more
    _, y = make_mixture(
        n_clusters,
        1,
        separation=1,
        imbalance=imbalance,
        random_state=seed,
        n_samples=n,
    )
    sizes = np.bincount(y)
    assert sizes.sum() == n
    assert sizes.size == n_clusters
    assert sizes.min() >= 12
    # Rounding moves a size by less than one.
    assert sizes.max() - 1 <= imbalance * (sizes.min() + 1)
    assert imbalance > 1 or np.ptp(sizes) <= 1


def test_whole_sizes():
    # 10·(1, 2, 7)/10; then the two below 3 take from the largest.
    assert whole_sizes(np.array([1.0, 2.0, 7.0]), 10, 0).tolist() == [1, 2, 7]
    assert whole_sizes(np.array([1.0, 2.0, 7.0]), 10, 3).tolist() == [3, 3, 4]
    assert whole_sizes(np.ones(3), 10, 3).sum() == 10


def test_random_mixtures_use_the_whole_range():
    drawn = [random_mixture(seed) for seed in range(100)]
    counts = np.array([y.max() + 1 for _, y in drawn])
    assert counts.min() == 2
    assert 30 < counts.max() <= 40
    # Log-uniform: half of the draws lie below the geometric mean of 2 and 41, 9.06.
    assert (counts <= 9).mean() == pytest.approx(0.53, abs=0.13)
    assert {X.shape[1] for X, _ in drawn} == set(FEATURES)
    pairs = zip(drawn, counts, strict=True)
    assert all(len(X) == min(5000, 60 * k + 500) for (X, _), k in pairs)
    ratios = [np.bincount(y).max() / np.bincount(y).min() for _, y in drawn]
    assert min(ratios) < 1.1
    assert max(ratios) > 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "a mixture needs at least one cluster and one feature"),
        ({"n_features": 0}, "a mixture needs at least one cluster and one feature"),
        ({"separation": 0}, "separation is 0; use a number above 0"),
        ({"imbalance": 0.5}, "imbalance is 0.5; use 1 (equal sizes) or more"),
        ({"n_samples": 23}, "n_samples is 23; 2 clusters need at least 24"),
    ],
)
def test_refused_parameters(change, message):
    chosen = {
        "n_clusters": 2,
        "n_features": 2,
        "separation": 2,
        "imbalance": 1,
        "random_state": 0,
    }
    with pytest.raises(InputError) as caught:
        make_mixture(**(chosen | change))
    assert str(caught.value) == message

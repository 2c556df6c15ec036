"""Scores: scikit-learn's where it has them, collapsed runs counted."""

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from afcl.metrics import COLLAPSED, adjusted_rand, silhouette


def test_adjusted_rand_by_hand():
    # Of 6 pairs, 2 are together in the first, 1 in the second, 1 in both.
    value = adjusted_rand(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2]))
    assert value == pytest.approx((1 - 2 * 1 / 6) / ((2 + 1) / 2 - 2 * 1 / 6))


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_silhouette_is_that_of_scikit_learn(metric, seed):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    assert silhouette(X, labels, metric) == silhouette_score(X, labels, metric=metric)


def test_a_collapsed_labelling_counts_as_minus_one():
    X = np.arange(10.0)[:, None]
    assert silhouette(X, np.zeros(10, dtype=np.int64)) == COLLAPSED
    assert silhouette(X, np.arange(10)) == COLLAPSED


def test_a_seeded_sample_is_near_the_whole():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 1, (2000, 2)) for c in (0, 8)])
    labels = np.repeat([0, 1], 2000)
    whole = silhouette(X, labels)
    assert silhouette(X, labels, sample=500) == pytest.approx(whole, abs=0.02)
    assert silhouette(X, labels, sample=500) == silhouette(X, labels, sample=500)

# SPDX-License-Identifier: Apache-2.0
"""Pooled scores: by hand, and scikit-learn's where it has them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    calinski_harabasz_score,
    davies_bouldin_score,
    normalized_mutual_info_score,
    silhouette_score,
)

import afcl.metrics
from afcl.exceptions import InputError
from afcl.metrics import (
    COLLAPSED,
    _rows,
    adjusted_rand,
    calinski_harabasz,
    davies_bouldin,
    error_in_k,
    normalized_mutual_info,
    silhouette,
    simplified_silhouette,
)

METRICS = ("euclidean", "sqeuclidean")
LINE = np.array([[0.0], [1.0], [4.0], [5.0]])
PAIRS = np.array([0, 0, 1, 1])
FRACTIONS: Any = np.array([0.0, 0.5, 1.0, 1.0])


def groups(seed, n=200, d=3, k=4):
    """Overlapping groups whose labels are neither sorted nor numbered from 0."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % k)
    return rng.normal(size=(n, d)) + 2.0 * codes[:, None], 3 * codes - 2


# ------------------------------------------------------------------ the package


def test_every_name_is_exported_in_order():
    assert list(afcl.metrics.__all__) == sorted(afcl.metrics.__all__)
    assert all(hasattr(afcl.metrics, name) for name in afcl.metrics.__all__)


def test_the_import_is_light():
    code = (
        "import sys, afcl.metrics; "
        "print([m for m in ('sklearn', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# -------------------------------------------------------------------- silhouette


def test_silhouette_by_hand():
    # Row 0: a = 1, b = (4 + 5)/2; row 1: a = 1, b = (3 + 4)/2; 4 and 5 mirror them.
    expected = ((1 - 1 / 4.5) + (1 - 1 / 3.5)) / 2
    assert silhouette(LINE, PAIRS) == pytest.approx(expected, rel=1e-14)


def test_squared_silhouette_by_hand():
    # Row 0: a = 1, b = (16 + 25)/2; row 1: a = 1, b = (9 + 16)/2.
    expected = ((1 - 1 / 20.5) + (1 - 1 / 12.5)) / 2
    assert silhouette(LINE, PAIRS, "sqeuclidean") == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n", [60, 3000])
def test_silhouette_is_that_of_scikit_learn(metric, n, seed):
    X, labels = groups(seed, n)
    expected = silhouette_score(X, labels, metric=metric)
    assert silhouette(X, labels, metric) == pytest.approx(expected, rel=1e-11)


def test_with_many_features_too(seed):
    X, labels = groups(seed, 150, d=40)
    expected = silhouette_score(X, labels)
    assert silhouette(X, labels) == pytest.approx(expected, rel=1e-11)
    assert silhouette(X, labels, working_memory=0) == pytest.approx(expected, rel=1e-11)


def test_working_memory_does_not_change_the_value(seed):
    # 3000 rows: 69 MiB of distances, in chunks of 1 MiB (43 rows).
    X, labels = groups(seed, 3000)
    whole = silhouette(X, labels, working_memory=200)
    assert silhouette(X, labels, working_memory=1) == pytest.approx(whole, rel=1e-13)


def test_25000_rows_in_16_mib():
    # All the distances at once would be 4.7 GiB. Two groups, 20 apart, radius about 1.
    rng = np.random.default_rng(0)
    labels = np.arange(25_000) % 2
    X = rng.normal(size=(25_000, 1)) + 20.0 * labels[:, None]
    # In one dimension the mean |x - y| within a normal group is 2/sqrt(pi) and the
    # mean to the other group is 20.
    value = silhouette(X, labels, working_memory=16)
    assert value == pytest.approx(1 - 2 / np.sqrt(np.pi) / 20, abs=0.005)


@pytest.mark.parametrize("metric", METRICS)
def test_a_row_too_long_for_the_working_memory_still_fits(metric, seed):
    X, labels = groups(seed, 60)
    assert silhouette(X, labels, metric, working_memory=0) == pytest.approx(
        silhouette_score(X, labels, metric=metric), rel=1e-12
    )


def test_the_squared_silhouette_in_many_blocks(monkeypatch, seed):
    X, labels = groups(seed, 100)
    whole = silhouette(X, labels, "sqeuclidean")
    simple = simplified_silhouette(X, labels)
    monkeypatch.setattr(_rows, "BLOCK", 28)  # 7 rows by 4 clusters
    assert silhouette(X, labels, "sqeuclidean") == pytest.approx(whole, rel=1e-14)
    assert simplified_silhouette(X, labels) == pytest.approx(simple, rel=1e-14)


@pytest.mark.parametrize("metric", METRICS)
def test_a_cluster_of_one_counts_zero(metric):
    # Rows 0, 1, 3 of cluster 0, 9 alone.
    X, labels = np.array([[0.0], [1.0], [3.0], [9.0]]), np.array([0, 0, 0, 1])
    expected = silhouette_score(X, labels, metric=metric)
    assert silhouette(X, labels, metric) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("metric", METRICS)
def test_a_collapsed_labelling_counts_as_minus_one(metric):
    X = np.arange(10.0)[:, None]
    assert silhouette(X, np.zeros(10, dtype=np.int64), metric) == COLLAPSED == -1.0
    assert silhouette(X, np.arange(10), metric) == COLLAPSED
    assert silhouette(X[:0], np.zeros(0, dtype=np.int64), metric) == COLLAPSED


@pytest.mark.parametrize("metric", METRICS)
def test_far_from_the_origin_nothing_is_lost(metric, seed):
    # Sixteenths plus 2**26 are exact in double precision.
    rng = np.random.default_rng(seed)
    labels = np.arange(80) % 3
    X = rng.integers(0, 64, (80, 2)) / 16 + 3.0 * labels[:, None]
    expected = silhouette(X, labels, metric)
    assert silhouette(X + 2.0**26, labels, metric) == pytest.approx(expected, rel=1e-9)
    ch, db = calinski_harabasz(X, labels), davies_bouldin(X, labels)
    assert calinski_harabasz(X + 2.0**20, labels) == pytest.approx(ch, rel=1e-9)
    assert davies_bouldin(X + 2.0**20, labels) == pytest.approx(db, rel=1e-9)


def test_two_clusters_in_one_place_score_zero():
    # All distances are 0: no row is better placed in the one than in the other.
    X, labels = np.full((60, 2), 0.1), np.arange(60) % 2
    assert silhouette(X, labels, "sqeuclidean") == 0.0
    assert silhouette(X, labels) == 0.0


@pytest.mark.parametrize("metric", METRICS)
def test_a_seeded_sample_is_near_the_whole(metric):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 1, (2000, 2)) for c in (0, 8)])
    labels = np.repeat([0, 1], 2000)
    whole = silhouette(X, labels, metric)
    part = silhouette(X, labels, metric, sample=500)
    assert part == pytest.approx(whole, abs=0.02)
    assert part == silhouette(X, labels, metric, sample=500)
    assert part != silhouette(X, labels, metric, sample=500, random_state=1)
    assert silhouette(X, labels, metric, sample=4000) == whole


# --------------------------------------------------------- simplified silhouette


def test_simplified_silhouette_by_hand():
    # Means .5 and 4.5. Row 0: a = .5, b = 4.5; row 1: a = .5, b = 3.5.
    expected = ((1 - 0.5 / 4.5) + (1 - 0.5 / 3.5)) / 2
    assert simplified_silhouette(LINE, PAIRS) == pytest.approx(expected, rel=1e-14)


def test_simplified_silhouette_with_given_centres_by_hand():
    # Centres 1, 5, 2; the third holds no row but is a neighbour.
    # 0: a 1, b 2: 1/2. 1: a 0, b 1: 1. 4: a 1, b 2: 1/2. 5: a 0, b 3: 1.
    value = simplified_silhouette(LINE, PAIRS, np.array([[1.0], [5.0], [2.0]]))
    assert value == pytest.approx(0.75, rel=1e-15)


def test_a_row_nearer_to_another_centre_scores_below_zero():
    # Centres 0 and 4; row 1 belongs to the second: a = 3, b = 1: (1 - 3)/3.
    X, centers = np.array([[0.0], [1.0], [4.0]]), np.array([[0.0], [4.0]])
    value = simplified_silhouette(X, np.array([0, 1, 1]), centers)
    assert value == pytest.approx((1 - 2 / 3 + 1) / 3, rel=1e-15)


def test_simplified_silhouette_where_it_collapses():
    one = np.zeros(4, dtype=np.int64)
    assert simplified_silhouette(LINE, one) == COLLAPSED
    assert simplified_silhouette(LINE, one, LINE[:2]) == COLLAPSED
    assert simplified_silhouette(LINE, np.arange(4)) == COLLAPSED
    assert simplified_silhouette(LINE[:0], one[:0]) == COLLAPSED


def test_rows_on_coinciding_centres_score_zero():
    X, labels = np.ones((4, 1)), PAIRS
    assert simplified_silhouette(X, labels, np.ones((2, 1))) == 0.0


# ------------------------------------------- Calinski-Harabasz and Davies-Bouldin


def test_calinski_harabasz_by_hand():
    # {0, 2} and {9, 11}: middle 5.5; between 2 * 2 * 4.5^2 = 81, within 2 + 2;
    # 81 * (4 - 2) / (4 * 1) = 40.5.
    X = np.array([[0.0], [2.0], [9.0], [11.0]])
    assert calinski_harabasz(X, PAIRS) == 40.5


def test_davies_bouldin_by_hand():
    # Radii .5 and .5 around .5 and 4.5: (.5 + .5)/4 for both.
    assert davies_bouldin(LINE, PAIRS) == 0.25
    # Around 0 and 6: mean distances (0 + 1)/2 and (2 + 1)/2: (.5 + 1.5)/6; the third
    # centre has no rows and is left out.
    centers = np.array([[0.0], [6.0], [3.0]])
    assert davies_bouldin(LINE, PAIRS, centers) == pytest.approx(1 / 3, rel=1e-15)


def test_davies_bouldin_takes_the_worst_neighbour():
    # Means 1, 10, 21 with radii 1, 0, 1: ratios 1/9, 1/11, 2/20; worst of each
    # 1/9, 1/9, 1/10 with (1, 10), (10, 1) and (21, 1).
    X = np.array([[0.0], [2.0], [10.0], [20.0], [22.0]])
    value = davies_bouldin(X, np.array([0, 0, 1, 2, 2]))
    assert value == pytest.approx((1 / 9 + 1 / 9 + 1 / 10) / 3, rel=1e-15)


def test_both_are_scikit_learns(seed):
    X, labels = groups(seed)
    ch, db = calinski_harabasz_score(X, labels), davies_bouldin_score(X, labels)
    assert calinski_harabasz(X, labels) == pytest.approx(ch, rel=1e-11)
    assert davies_bouldin(X, labels) == pytest.approx(db, rel=1e-11)


def test_both_are_none_where_they_are_not_defined():
    for labels in (np.zeros(4, dtype=np.int64), np.arange(4)):
        assert calinski_harabasz(LINE, labels) is None
        assert davies_bouldin(LINE, labels) is None


def test_without_scatter_calinski_harabasz_is_one_as_in_scikit_learn():
    X = np.array([[0.0], [0.0], [3.0], [3.0]])
    assert calinski_harabasz(X, PAIRS) == calinski_harabasz_score(X, PAIRS) == 1.0
    # Also where the mean of equal numbers is not quite the number.
    labels = np.arange(3000) % 2
    X = np.where(labels == 0, 0.1, 0.8)[:, None]
    assert calinski_harabasz(X, labels) == 1.0


def test_coinciding_centres_are_no_pair_as_in_scikit_learn():
    # {0, 2}, {-1, 3}, {8, 10}: means 1, 1, 9, radii 1, 2, 1; the first two are no
    # pair: worst (1 + 1)/8, (2 + 1)/8 and (1 + 2)/8.
    X = np.array([[0.0], [2.0], [-1.0], [3.0], [8.0], [10.0]])
    labels = np.repeat([0, 1, 2], 2)
    assert davies_bouldin(X, labels) == pytest.approx((2 + 3 + 3) / 8 / 3, rel=1e-15)
    assert davies_bouldin_score(X, labels) == pytest.approx(1 / 3, rel=1e-15)


# ------------------------------------------------------------- against the truth


def test_adjusted_rand_by_hand():
    # Of 6 pairs, 2 are together in the first, 1 in the second, 1 in both.
    value = adjusted_rand(PAIRS, np.array([0, 0, 1, 2]))
    assert value == pytest.approx((1 - 2 * 1 / 6) / ((2 + 1) / 2 - 2 * 1 / 6))


def test_normalized_mutual_info_by_hand():
    # H(truth) = ln 2, H(labels) = 1.5 ln 2, and labels tell all about the truth:
    # ln 2 / (1.25 ln 2).
    value = normalized_mutual_info(PAIRS, np.array([0, 0, 1, 2]))
    assert value == pytest.approx(0.8, rel=1e-12)
    assert normalized_mutual_info(PAIRS, np.array([0, 1, 0, 1])) == pytest.approx(0.0)
    one = np.zeros(4, dtype=np.int64)
    assert normalized_mutual_info(one, one) == 1.0


def test_normalized_mutual_info_is_that_of_scikit_learn(seed):
    truth, labels = np.random.default_rng(seed).integers(0, 4, (2, 50))
    expected = normalized_mutual_info_score(truth, labels)
    assert normalized_mutual_info(truth, labels) == expected


def test_error_in_k_has_a_sign():
    assert error_in_k(PAIRS, np.array([4, 4, 4, 4])) == -1
    assert error_in_k(PAIRS, np.array([7, 3, 5, 7])) == 1
    assert error_in_k(np.array(["a", "a", "b", "b"]), PAIRS) == 0


# --------------------------------------------------------------------- bad input


def test_inputs_are_left_alone(seed):
    X, labels = groups(seed)
    before = X.copy(), labels.copy()
    for metric in METRICS:
        silhouette(X, labels, metric)
    simplified_silhouette(X, labels)
    calinski_harabasz(X, labels)
    davies_bouldin(X, labels)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(labels, before[1])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: silhouette(LINE[:, 0], PAIRS), "give a table"),
        (lambda: silhouette(LINE[:, :0], PAIRS), "give a table"),
        (lambda: silhouette(LINE * np.nan, PAIRS), "not finite"),
        (lambda: silhouette(LINE, PAIRS[:3]), "one label per row"),
        (lambda: silhouette(LINE, PAIRS[:3], sample=2), "one label per row"),
        (lambda: silhouette(LINE, PAIRS, "cosine"), "euclidean or sqeuclidean"),
        (lambda: davies_bouldin(LINE, PAIRS + 1, LINE[:2]), "from 0 to 1"),
        (lambda: davies_bouldin(LINE, PAIRS - 1, LINE[:2]), "from 0 to 1"),
        (lambda: davies_bouldin(LINE, FRACTIONS, LINE[:2]), "number the clusters"),
        (lambda: davies_bouldin(LINE, PAIRS, np.ones((2, 3))), "same columns"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words):
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)

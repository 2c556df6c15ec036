# SPDX-License-Identifier: Apache-2.0
"""Federated indices equal the pooled ones, whatever rows are at which client."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    calinski_harabasz_score,
    davies_bouldin_score,
    silhouette_score,
)

from afcl.exceptions import InputError
from afcl.metrics import (
    COLLAPSED,
    DistanceSums,
    Moments,
    SilhouetteSums,
    calinski_harabasz,
    client_davies_bouldin,
    client_moments,
    client_simplified_silhouette,
    client_squared_silhouette,
    combine_calinski_harabasz,
    combine_davies_bouldin,
    combine_moments,
    combine_simplified_silhouette,
    combine_squared_silhouette,
    davies_bouldin,
    silhouette,
    simplified_silhouette,
)


@dataclasses.dataclass(frozen=True)
class Federation:
    """Labelled rows, k, centres, and the owner of every row among `n_clients`."""

    X: np.ndarray
    labels: np.ndarray
    centers: np.ndarray
    owner: np.ndarray
    n_clients: int

    @property
    def k(self):
        return self.centers.shape[0]

    def parts(self):
        """Rows and labels of every client, some without any."""
        for g in range(self.n_clients):
            yield self.X[self.owner == g], self.labels[self.owner == g]


def calinski_harabasz_apart(fed):
    return combine_calinski_harabasz(
        [client_moments(X, labels, fed.k) for X, labels in fed.parts()]
    )


def davies_bouldin_apart(fed):
    sums = [client_davies_bouldin(X, y, fed.centers) for X, y in fed.parts()]
    return combine_davies_bouldin(sums, fed.centers)


def simplified_apart(fed):
    return combine_simplified_silhouette(
        [client_simplified_silhouette(X, y, fed.centers) for X, y in fed.parts()]
    )


def squared_apart(fed):
    moments = combine_moments([client_moments(X, y, fed.k) for X, y in fed.parts()])
    return combine_squared_silhouette(
        [client_squared_silhouette(X, y, moments) for X, y in fed.parts()]
    )


def same(apart, pooled):
    """Equal to 1e-9, relative and absolute, or both undefined."""
    if pooled is None:
        return apart is None
    return apart == pytest.approx(pooled, rel=1e-9, abs=1e-9)


@st.composite
def federations(draw):
    """Draw rows with ties and duplicates, clusters and clients that may be empty."""
    n, d = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    k, n_clients = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.integers(0, draw(st.integers(1, k)), n)
    spread = draw(st.sampled_from([0.0, 0.1, 1.0, 30.0]))
    places = rng.integers(-3, 4, (k, d)) * draw(st.sampled_from([0.1, 1.0, 1000.0]))
    X = places[labels] + spread * rng.integers(-4, 5, (n, d)) / 3
    centers = places + rng.normal(size=(k, d))
    return Federation(X, labels, centers, rng.integers(0, n_clients, n), n_clients)


@given(federations())
def test_calinski_harabasz_equals_the_pooled_one(fed):
    assert same(calinski_harabasz_apart(fed), calinski_harabasz(fed.X, fed.labels))


@given(federations())
def test_davies_bouldin_equals_the_pooled_one(fed):
    pooled = davies_bouldin(fed.X, fed.labels, fed.centers)
    assert same(davies_bouldin_apart(fed), pooled)


@given(federations())
def test_simplified_silhouette_equals_the_pooled_one(fed):
    pooled = simplified_silhouette(fed.X, fed.labels, fed.centers)
    assert same(simplified_apart(fed), pooled)


@given(federations())
def test_squared_silhouette_equals_the_pooled_one(fed):
    pooled = silhouette(fed.X, fed.labels, "sqeuclidean")
    assert same(squared_apart(fed), pooled)


@given(federations())
def test_moments_of_clients_are_those_of_all_rows(fed):
    found = combine_moments([client_moments(X, y, fed.k) for X, y in fed.parts()])
    whole = client_moments(fed.X, fed.labels, fed.k)
    np.testing.assert_array_equal(found.counts, whole.counts)
    np.testing.assert_allclose(found.means, whole.means, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.scatters, whole.scatters, rtol=1e-9, atol=1e-9)


@given(federations(), st.randoms(use_true_random=False))
def test_the_order_of_the_clients_does_not_matter(fed, random):
    sums = [client_simplified_silhouette(X, y, fed.centers) for X, y in fed.parts()]
    before = combine_simplified_silhouette(sums)
    random.shuffle(sums)
    assert combine_simplified_silhouette(sums) == before


# --------------------------------------------------- scikit-learn, and far away


def split(seed, offset=0.0):
    """Three groups over four clients; the rows are multiples of 1/16."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(240) % 3)
    X = np.round(rng.normal(size=(240, 2)) * 16) / 16 + 4.0 * labels[:, None] + offset
    centers = client_moments(X, labels, 3).means
    return Federation(X, labels, centers, rng.integers(0, 4, 240), 4)


def test_the_federated_values_are_scikit_learns(seed):
    fed = split(seed)
    X, labels = fed.X, fed.labels
    ch, db = calinski_harabasz_score(X, labels), davies_bouldin_score(X, labels)
    sc = silhouette_score(X, labels, metric="sqeuclidean")
    assert calinski_harabasz_apart(fed) == pytest.approx(ch, rel=1e-9)
    assert davies_bouldin_apart(fed) == pytest.approx(db, rel=1e-9)
    assert squared_apart(fed) == pytest.approx(sc, rel=1e-9)


def test_far_from_the_origin_nothing_is_lost(seed):
    # Sums of squares of numbers near 2**20 (1e12 each) would leave about four digits.
    near, far = split(seed), split(seed, offset=2.0**20)
    assert calinski_harabasz_apart(far) == pytest.approx(
        calinski_harabasz_apart(near), rel=1e-9
    )
    assert squared_apart(far) == pytest.approx(squared_apart(near), rel=1e-9)
    assert davies_bouldin_apart(far) == pytest.approx(
        davies_bouldin_apart(near), rel=1e-9
    )


# -------------------------------------------------------------------- by hand


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def test_summaries_by_hand():
    X, labels, centers = column(0, 2, 9), np.array([0, 0, 2]), column(1, 5, 8)
    moments = client_moments(X, labels, 3)
    # {0, 2}: mean 1, scatter 1 + 1; {}: zeros; {9}: itself.
    assert moments.counts.tolist() == [2, 0, 1]
    assert moments.means.ravel().tolist() == [1.0, 0.0, 9.0]
    assert moments.scatters.tolist() == [2.0, 0.0, 0.0]
    sums = client_davies_bouldin(X, labels, centers)
    assert (sums.counts.tolist(), sums.sums.tolist()) == ([2, 0, 1], [2.0, 0.0, 1.0])
    # 0: a 1, b 5: 4/5; 2: a 1, b 3: 2/3; 9: a 1, b 4: 3/4.
    found = client_simplified_silhouette(X, labels, centers)
    assert found.counts.tolist() == [2, 0, 1]
    assert found.total == pytest.approx(4 / 5 + 2 / 3 + 3 / 4, rel=1e-15)


def test_two_clients_by_hand():
    # {0, 4} and {2}: count 3, mean 2, scatter 8 + 0 and nothing between the means.
    # {9} and {11}: mean 10, scatter 1 + 1.
    first = client_moments(column(0, 4, 9), np.array([0, 0, 1]), 2)
    second = client_moments(column(2, 11), np.array([0, 1]), 2)
    both = combine_moments([first, second])
    assert both.counts.tolist() == [3, 2]
    assert both.means.ravel().tolist() == [2.0, 10.0]
    assert both.scatters.tolist() == [8.0, 2.0]
    # Middle 26/5 = 5.2: between 3 * 3.2^2 + 2 * 4.8^2 = 76.8; 76.8 * 3 / (10 * 1).
    value = combine_calinski_harabasz([first, second])
    assert value == pytest.approx(23.04, rel=1e-14)


def test_squared_silhouette_of_a_client_by_hand():
    # {0, 1} here, {4, 5} elsewhere. Row 0: a = 1, b = (16 + 25)/2; row 1: a = 1,
    # b = (9 + 16)/2.
    moments = Moments(np.array([2, 2]), column(0.5, 4.5), np.array([0.5, 0.5]))
    found = client_squared_silhouette(column(0, 1), np.array([0, 0]), moments)
    assert found.total == pytest.approx((1 - 1 / 20.5) + (1 - 1 / 12.5), rel=1e-15)


# ----------------------------------------------------------------------- edges


def test_summaries_are_small_and_frozen(seed):
    fed = split(seed)
    moments = client_moments(fed.X, fed.labels, 3)
    assert sum(part.size for part in dataclasses.astuple(moments)) == 3 * (2 + 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        moments.counts = moments.counts  # type: ignore[misc]


def test_a_single_client_without_rows_has_no_value():
    none = np.zeros((0, 2)), np.zeros(0, dtype=np.int64)
    centers = np.eye(2)
    moments = client_moments(*none, 2)
    assert combine_calinski_harabasz([moments]) is None
    assert client_squared_silhouette(*none, moments).total == 0.0
    assert combine_davies_bouldin([client_davies_bouldin(*none, centers)], centers) is (
        None
    )
    nothing = client_simplified_silhouette(*none, centers)
    assert combine_simplified_silhouette([nothing]) == COLLAPSED


def test_a_single_cluster_collapses():
    X, labels = column(0, 1, 2), np.zeros(3, dtype=np.int64)
    moments = client_moments(X, labels, 1)
    assert combine_calinski_harabasz([moments]) is None
    second = client_squared_silhouette(X, labels, moments)
    assert combine_squared_silhouette([second]) == COLLAPSED
    first = client_simplified_silhouette(X, labels, column(1))
    assert combine_simplified_silhouette([first]) == COLLAPSED


def counted(*counts):
    return SilhouetteSums(np.array(counts), 1.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: combine_moments([]), "at least one client"),
        (lambda: combine_simplified_silhouette([]), "at least one client"),
        (lambda: combine_davies_bouldin([], column(1, 2)), "at least one client"),
        (
            lambda: combine_squared_silhouette([counted(1, 2), counted(1, 2, 3)]),
            "same clustering",
        ),
        (
            lambda: combine_moments(
                [client_moments(column(1), np.array([0]), k) for k in (1, 2)]
            ),
            "same clustering",
        ),
        (
            lambda: combine_davies_bouldin(
                [DistanceSums(np.array([1, 2]), np.zeros(2))], column(1, 2, 3)
            ),
            "2 clusters and 3 centres",
        ),
        (
            lambda: client_squared_silhouette(
                column(1), np.array([1]), client_moments(column(1), np.array([0]), 2)
            ),
            "every client that is scored",
        ),
        (
            lambda: client_squared_silhouette(
                np.ones((1, 2)),
                np.array([0]),
                client_moments(column(1), np.array([0]), 2),
            ),
            "same columns",
        ),
        (lambda: client_moments(column(1), np.array([2]), 2), "from 0 to 1"),
        (
            lambda: client_davies_bouldin(column(1), np.array([0, 1]), column(1, 2)),
            "one label per row",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()

# SPDX-License-Identifier: Apache-2.0
"""Pooled references: they equal scikit-learn on the union, and survive odd tables."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from afcl import Schedule, make_method
from afcl.core.messages import PAYLOADS, Hello, Update
from afcl.estimators.method import MethodClusterer
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods import get_method
from afcl.methods.rival import Nothing
from afcl.metrics import adjusted_rand, silhouette
from afcl_bench.methods.fedgengmm import PATIENCE, range_of_k, sweep
from afcl_bench.methods.pooled import PooledRows, by_size
from afcl_bench.methods.pooled_bgmm import _mixture, _most_likely

NAMES = (
    "pooled-bgmm",
    "pooled-ccl",
    "pooled-gmm-bic",
    "pooled-hdbscan",
    "pooled-kmeans",
    "pooled-kmeans-sweep",
    "pooled-ward",
)
#: What makes the checks quick; the rest is as it is.
QUICK = {
    "pooled-bgmm": {"max_clusters": 8},
    "pooled-gmm-bic": {"max_clusters": 5},
    "pooled-kmeans-sweep": {"max_clusters": 4, "n_init": 2},
}


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def blobs(seed, n=40, d=2):
    rng = np.random.default_rng(seed)
    spots = np.zeros((3, d))
    spots[1, 0] = spots[2, -1] = 6.0
    if d == 1:
        spots[:, 0] = (0, 6, 12)
    y = np.arange(3 * n) % 3
    return spots[y] + rng.normal(0, 0.5, (3 * n, d)), y


def options(name, k=3):
    return {"n_clusters": k} if get_method(name).needs_k else QUICK.get(name, {})


def fitted(name, tables, seed=0, **more):
    return make_method(name, random_state=seed, **more).fit_clients(tables)


# ------------------------------------------------------------------ what they share


def test_names_and_payload_say_that_nothing_is_private():
    assert "reveals everything" in str(PAYLOADS["PooledRows"].__doc__)
    for name in NAMES:
        assert "pooled, nothing is private" in str(type(get_method(name)).__doc__)


@pytest.mark.parametrize("name", NAMES)
def test_the_hello_is_all(seed, name):
    X, y = blobs(seed)
    found = fitted(name, [X[:50], X[50:]], seed, **options(name))
    assert found.n_rounds_ == 0
    assert found.upload_bytes_ > X.nbytes
    assert adjusted_rand(y, found.labels_) > 0.95
    assert np.array_equal(found.predict(X), found.labels_)


@pytest.mark.parametrize("name", NAMES)
def test_clients_make_no_difference(seed, name):
    X, _ = blobs(seed)
    one = fitted(name, [X], seed, **options(name))
    many = fitted(name, [X[:30], X[30:31], X[31:]], seed, **options(name))
    assert np.array_equal(one.labels_, many.labels_)
    assert np.array_equal(one.cluster_centers_, many.cluster_centers_)


@pytest.mark.parametrize("name", NAMES)
def test_late_joiners_are_fitted_too(seed, name):
    X, _ = blobs(seed)
    late = Schedule(late={1: 3})
    # In a fixed box, so that it does not matter whose extremes made it.
    settings = {"scale": (X.min(axis=0), X.max(axis=0)), **options(name)}
    now = fitted(name, [X[:60], X[60:]], seed, **settings)
    later = fitted(name, [X[:60], X[60:]], seed, participation=late, **settings)
    assert (now.n_rounds_, later.n_rounds_) == (0, 3)
    assert np.array_equal(now.labels_, later.labels_)


@pytest.mark.filterwarnings("ignore::afcl.exceptions.SuspicionWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "table",
    [
        column(4),
        column(4, 4, 4),
        column(1, 2),
        np.column_stack([np.arange(30.0), np.full(30, 2.0)]),
        np.random.default_rng(0).normal(size=(6, 12)),
    ],
)
def test_odd_tables(name, table):
    found = fitted(name, [table], **options(name, k=2))
    assert found.cluster_sizes_.sum() == len(table)
    assert np.isfinite(found.cluster_centers_).all()
    assert (found.cluster_sizes_ > 0).all()
    assert found.predict(table + 0.25).shape == (len(table),)


@pytest.mark.parametrize("name", NAMES)
def test_models_can_be_kept(seed, name, tmp_path):
    X, _ = blobs(seed)
    found = fitted(name, [X], seed, **options(name))
    found.save(tmp_path)
    again = MethodClusterer.load(tmp_path)
    new = X + np.random.default_rng(seed).normal(0, 2, X.shape)
    assert np.array_equal(again.predict(new), found.predict(new))


@pytest.mark.parametrize(
    "said",
    [
        None,
        PooledRows(column(1, 2)),
        PooledRows(np.ones((3, 1), np.float32)),
        Nothing(),
    ],
)
def test_a_hello_holds_the_rows_registered(said):
    method = get_method("pooled-kmeans")
    state = method.init((), method.parameters(n_clusters=2), 0)
    with pytest.raises(RejectedMessage, match="a table of 3 rows"):
        method.absorb(state, Hello(3, said, client=0))


def test_answers_are_empty_and_change_nothing():
    method = get_method("pooled-kmeans")
    hello = Hello(3, PooledRows(column(1, 2, 9)), client=0)
    state = method.init([hello], method.parameters(n_clusters=2), 0)
    assert not method.done(state)
    state = method.prepare(state)
    assert method.done(state)
    assert method.broadcast(state).wanted == frozenset()
    with pytest.raises(RejectedMessage, match="nothing"):
        method.absorb(state, Update(hello.payload, 0, client=0, contact=1))
    after, _ = method.absorb(state, Update(Nothing(), 0, client=0, contact=1))
    assert method.end_round(after).model is state.model


def test_clusters_are_numbered_by_size():
    # 7 three times, 2 twice, 5 once.
    labels, names = by_size(np.array([2, 7, 5, 7, 2, 7]))
    assert labels.tolist() == [1, 0, 2, 0, 1, 0]
    assert names.tolist() == [7, 2, 5]


@pytest.mark.parametrize(
    ("name", "option", "text"),
    [
        ("pooled-kmeans", {}, "must be told the number of clusters"),
        ("pooled-kmeans", {"n_clusters": 2, "n_init": 0}, "n_init must be at least 1"),
        ("pooled-kmeans-sweep", {"max_clusters": 1}, "max_clusters must be at least 2"),
        ("pooled-kmeans-sweep", {"n_init": 0}, "n_init must be at least 1, not 0"),
        ("pooled-kmeans-sweep", {"n_clusters": 3}, "has no option 'n_clusters'"),
        ("pooled-hdbscan", {"min_cluster_size": 1}, "min_cluster_size must be at"),
        ("pooled-bgmm", {"max_clusters": 0}, "max_clusters must be at least 1, not 0"),
        ("pooled-ward", {"max_clusters": 1}, "max_clusters must be at least 2, not 1"),
        ("pooled-gmm-bic", {"max_clusters": 0}, "max_clusters must be at least 1"),
        ("pooled-genie", {}, "must be told the number of clusters"),
        ("pooled-bgmm", {"max_iter": 0}, "max_iter must be at least 1, not 0"),
        ("pooled-bgmm", {"concentration": 0.0}, "concentration must be positive"),
    ],
)
def test_parameters_are_checked(name, option, text):
    with pytest.raises(InputError, match=text):
        get_method(name).parameters(**option)


# ------------------------------------------------------------------ k-means


def test_kmeans_by_hand():
    # Of 0, 1, 5, 7, 9, 11, the best two are 0, 1 and the rest: means 0.5 and 8.
    found = fitted("pooled-kmeans", [column(0, 1, 5), column(7, 9, 11)], n_clusters=2)
    assert np.allclose(found.cluster_centers_, column(8, 0.5))
    assert found.cluster_sizes_.tolist() == [4, 2]


def test_kmeans_is_as_good_as_scikit_learns(seed):
    from sklearn.cluster import KMeans

    X = np.random.default_rng(seed).random((200, 3))
    found = fitted("pooled-kmeans", [X], seed, n_clusters=6, scale=None)
    loss = ((X - found.cluster_centers_[found.labels_]) ** 2).sum()
    assert loss <= 1.02 * KMeans(6, n_init=10, random_state=seed).fit(X).inertia_
    for j in range(6):  # the exact fixed point
        assert np.allclose(found.cluster_centers_[j], X[found.labels_ == j].mean(0))


def test_the_sweep_takes_the_largest_silhouette(seed):
    X, _ = blobs(seed)
    found = fitted("pooled-kmeans-sweep", [X], seed, scale=None, max_clusters=5)
    assert found.n_clusters_ == 3
    assert found.path_.k.tolist() == [2, 3, 4, 5]
    scores = [silhouette(X, found.cut(k)) for k in (2, 3, 4, 5)]
    assert np.allclose(found.path_.scores["silhouette"], scores)
    assert np.isclose(found.scores_["silhouette"], max(scores))


def test_the_sweep_has_no_score_where_there_is_none():
    found = fitted("pooled-kmeans-sweep", [column(3, 3, 3)])
    assert (found.n_clusters_, found.scores_) == (1, {"silhouette": None})
    # Two rows: each its own cluster, which has no silhouette either.
    found = fitted("pooled-kmeans-sweep", [column(3, 5)])
    assert (found.n_clusters_, found.scores_) == (2, {"silhouette": None})


# ------------------------------------------------------------------ HDBSCAN


def rings(seed):
    """Two rings, one inside the other, and a row far from both."""
    rng = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    radius = np.repeat([1.0, 4.0], [100, 200]) + rng.normal(0, 0.05, 300)
    ring = np.column_stack([np.cos(3 * angles), np.sin(3 * angles)]) * radius[:, None]
    return np.vstack([ring, [[9.0, 0.0]]]), np.repeat([1, 0], [100, 201])


def test_hdbscan_finds_rings_and_labels_by_the_nearest_row(seed):
    X, y = rings(seed)
    found = fitted("pooled-hdbscan", [X], seed, min_cluster_size=20)
    assert np.array_equal(found.labels_, y)  # the row far away joins the outer ring
    new = np.array([[0.0, 1.3], [0.0, 3.5], [-4.0, 0.0], [0.9, 0.0], [30.0, 0.0]])
    assert found.predict(new).tolist() == [1, 0, 0, 1, 0]
    assert np.allclose(found.cluster_centers_[1], X[y == 1].mean(axis=0))


def test_hdbscan_without_clusters_is_one_cluster(seed):
    X = np.random.default_rng(seed).random((40, 2))
    assert fitted("pooled-hdbscan", [X], seed, min_cluster_size=15).n_clusters_ == 1
    assert fitted("pooled-hdbscan", [X[:9]], seed).n_clusters_ == 1  # 9 < 2 * 5


# ------------------------------------------------------------------ mixture


@pytest.mark.parametrize("d", [1, 2, 12])
def test_the_mixture_labels_as_scikit_learns(seed, d):
    from sklearn.mixture import BayesianGaussianMixture

    X, _ = blobs(seed, d=d)
    params = get_method("pooled-bgmm").parameters(max_clusters=6)
    parts = _mixture(X, params, seed)
    kind = "diag" if d > 10 else "full"
    prior = np.atleast_2d(np.cov(X.T)) + 1e-6 * np.eye(d)
    model = BayesianGaussianMixture(
        n_components=6,
        covariance_type=kind,
        weight_concentration_prior=1e-3,
        covariance_prior=np.diag(prior) if d > 10 else prior,
        max_iter=500,
        random_state=seed,
    ).fit(X)
    new = X + np.random.default_rng(seed).normal(0, 1, X.shape)
    assert np.array_equal(_most_likely(new, *parts), model.predict(new))


def test_components_without_rows_are_dropped(seed):
    X, y = blobs(seed)
    found = fitted("pooled-bgmm", [X], seed, max_clusters=10)
    assert 3 <= found.n_clusters_ < 10
    assert (found.cluster_sizes_ > 0).all()


def test_a_mixture_tells_wide_from_narrow(seed):
    # A narrow cluster inside a wide one: nearest means could not tell them apart.
    rng = np.random.default_rng(seed)
    wide, narrow = rng.normal(0, 5, (300, 2)), rng.normal(3, 0.1, (100, 2))
    found = fitted("pooled-bgmm", [wide, narrow], seed, max_clusters=2)
    assert found.n_clusters_ == 2
    assert (found.predict(np.full((5, 2), 3.0)) == 1).all()
    assert (found.predict(np.array([[4.5, 4.5], [3.0, 5.0]])) == 0).all()


# ------------------------------------------------------------------ the range of k


def many_spots(k, each=12):
    """Spots on a grid, far apart: as many clusters as spots, without doubt."""
    y = np.repeat(np.arange(k), each)
    rng = np.random.default_rng(k)
    spots = np.column_stack([y % 4, y // 4]) * 10.0
    return spots + rng.normal(0, 0.1, (k * each, 2)), y


@pytest.mark.parametrize("name", ["pooled-kmeans-sweep", "pooled-ward"])
def test_a_sweep_goes_as_far_as_afcl_looks(name):
    # 14 spots of 12 rows: 168 rows, whose root is 12; 15 of 16: 240, whose root is 15.
    X, y = many_spots(14)
    assert fitted(name, [X]).n_clusters_ <= 12
    X, y = many_spots(15, 16)
    found = fitted(name, [X])
    assert found.n_clusters_ == 15
    assert adjusted_rand(y, found.labels_) == 1.0
    assert fitted(name, [X], max_clusters=10).n_clusters_ <= 10


def test_a_range_is_at_least_ten_and_at_most_128():
    assert [range_of_k(n, None) for n in (9, 150, 900, 10**6)] == [9, 12, 30, 128]
    assert range_of_k(10**6, 7) == 7


def test_ward_by_hand():
    # Two gaps that stand out: three clusters have the largest silhouette.
    X = column(0, 1, 2, 3, 10, 11, 12, 30, 31)
    found = fitted("pooled-ward", [X], scale=None)
    assert found.n_clusters_ == 3
    assert found.labels_.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("d", [2, 12])
def test_bic_is_as_good_as_scikit_learns(seed, d):
    from sklearn.mixture import GaussianMixture

    X, y = blobs(seed, n=60, d=d)
    found = fitted("pooled-gmm-bic", [X], seed, max_clusters=5, scale=None)
    assert found.n_clusters_ == 3
    assert adjusted_rand(y, found.labels_) > 0.99
    rows = (X - X.mean(axis=0)) / X.std(axis=0)  # the units BIC is taken in
    kind = "full" if d <= 10 else "diag"
    own = GaussianMixture(3, covariance_type=kind, n_init=3, random_state=0).fit(rows)
    assert found.scores_["bic"] <= own.bic(rows) + 1e-3 * abs(own.bic(rows))


def test_bic_stops_when_it_only_rises(seed):
    X = np.random.default_rng(seed).normal(size=(200, 2))
    tried = sweep(X, range(1, 15), "full", 0)
    scores = [mixture.bic for mixture in tried]
    assert len(tried) == min(14, int(np.argmin(scores)) + 1 + PATIENCE)


# ------------------------------------------------------------------ Genie


class Halves:
    """Stands for genieclust's class: the lower half of the rows, and the rest."""

    def __init__(self, n_clusters):
        self.k = n_clusters

    def fit_predict(self, X):
        assert self.k == X.shape[1] == 2
        return (np.arange(len(X)) >= len(X) // 2).astype(np.int32)


def test_genie_is_told_k_and_its_labels_stand(monkeypatch):
    monkeypatch.setitem(sys.modules, "genieclust", SimpleNamespace(Genie=Halves))
    found = fitted("pooled-genie", [column(5, 1, 2), column(9, 7, 3)], n_clusters=2)
    assert found.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert fitted("pooled-genie", [column(4, 4)], n_clusters=2).n_clusters_ == 1
    alone = fitted("pooled-genie", [column(4, 6, 9)], n_clusters=3)
    assert sorted(alone.labels_.tolist()) == [0, 1, 2]


def test_without_genieclust_one_line_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "genieclust", None)
    with pytest.raises(InputError, match="pip install genieclust"):
        fitted("pooled-genie", [column(5, 1, 2)], n_clusters=2)

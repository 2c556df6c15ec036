# SPDX-License-Identifier: Apache-2.0
"""Fed-SC: the graphs and subspaces by hand, planted subspaces, labels, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from afcl import Schedule, make_method
from afcl.core.messages import Hello, Update
from afcl.core.protocol import Clustering
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods.rival import Nothing
from afcl.metrics import adjusted_rand
from afcl.testing import check_method
from afcl_bench.methods.fed_sc import (
    FedSubspace,
    FedSubspaceParams,
    SubspaceMemory,
    SubspaceSamples,
    SubspaceWidth,
    find_subspaces,
    sample_labels,
)
from afcl_bench.methods.spectral import (
    _largest,
    normalised,
    spectral_labels,
    unit_rows,
    without_gaps,
)
from afcl_bench.methods.subspace import (
    closest_subspace,
    cosine_affinity,
    count_clusters,
    draw_direction,
    largest_drop,
    one_per_line,
    span,
    sparse_affinity,
    sparse_clusters,
)


def planted(seed, n=30, dimension=2, k=3, d=12, noise=0.0):
    """Rows of k random subspaces of R^d, and which each is of."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(k):
        basis = np.linalg.qr(rng.standard_normal((d, dimension)))[0]
        parts.append(rng.standard_normal((n, dimension)) @ basis.T)
    X = np.vstack(parts)
    return X + noise * rng.standard_normal(X.shape), np.repeat(np.arange(k), n)


def pairs(X, y):
    """Three clients; each has half the rows of two of three groups."""
    wanted = [(0, 1), (1, 2), (2, 0)]
    tables, truth = [], []
    for a, b in wanted:
        rows = np.concatenate(
            [np.flatnonzero(y == a)[::2], np.flatnonzero(y == b)[1::2]]
        )
        tables.append(X[rows])
        truth.append(y[rows])
    return tables, np.concatenate(truth)


def same_partition(a, b):
    return adjusted_rand(np.asarray(a), np.asarray(b)) == pytest.approx(1.0)


def test_checks_of_the_other_solver(seed):
    check_method("fed-sc", seed, solver="tsc")


# ------------------------------------------------------------------ spectral


def test_spectral_clustering_finds_components():
    graph = np.zeros((5, 5))
    graph[0, 1] = graph[1, 0] = graph[2, 3] = graph[3, 2] = 0.5
    rng = np.random.default_rng(0)
    labels = spectral_labels(graph, 3, rng, 5)  # node 4 is alone, without edges
    assert same_partition(labels, [0, 0, 1, 1, 2])
    assert spectral_labels(graph, 1, rng, 5).tolist() == [0] * 5
    assert spectral_labels(graph, 9, rng, 5).max() < 5


def test_more_components_than_clusters_keep_the_largest_apart():
    graph = np.zeros((9, 9))
    for block in (slice(0, 4), slice(4, 7), slice(7, 9)):
        graph[block, block] = 1.0
    labels = spectral_labels(graph, 2, np.random.default_rng(0), 5)
    assert len(set(labels[:4])) == len(set(labels[4:7])) == len(set(labels[7:])) == 1
    assert labels[0] != labels[4]


def test_normalised_rows_of_a_path():
    # degrees 1, 2, 1: entries 1 / sqrt(1 * 2)
    path = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    assert normalised(path)[0, 1] == pytest.approx(1 / np.sqrt(2))
    assert not normalised(np.zeros((2, 2))).any()


def test_large_components_give_the_same_eigenvalues():
    n = 600  # a ring: eigenvalues cos(2 pi j / n)
    ring = np.zeros((n, n))
    at = np.arange(n)
    ring[at, (at + 1) % n] = ring[(at + 1) % n, at] = 0.5
    values, vectors = _largest(ring, 3, np.random.default_rng(0))
    near = np.cos(2 * np.pi * np.array([0, 1, 1]) / n)
    np.testing.assert_allclose(values, near, atol=1e-9)
    np.testing.assert_allclose(ring @ vectors, vectors * values, atol=1e-7)


def test_small_tools():
    rows = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert unit_rows(rows).tolist() == [[0.6, 0.8], [0.0, 0.0]]
    assert without_gaps(np.array([7, 3, 7])).tolist() == [1, 0, 1]
    assert largest_drop(np.array([5.0])) == 1
    assert largest_drop(np.array([5.0, 4.5, 1.0, 0.9])) == 2
    # (1, 0) and (-1, 0) are the same line, (0, 1) is another, 0 is none of them
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    nodes, line = one_per_line(X)
    assert nodes.shape == (3, 2)
    assert line[0] == line[1]
    assert len(set(line)) == 3


# ------------------------------------------------------------------ graphs


def test_sparse_graph_of_two_lines():
    # A row is best expressed by its copy: min (1 - c)^2 / 2 + c / gamma at
    # c = 1 - 1 / gamma; scaled to unit length that is 1. Nothing crosses over.
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    block = np.array([[0.0, 1.0], [1.0, 0.0]])
    expected = np.block([[block, np.zeros((2, 2))], [np.zeros((2, 2)), block]])
    np.testing.assert_allclose(sparse_affinity(X, 500.0), expected, atol=1e-12)


def test_sparse_graph_ignores_signs_and_leaves_lonely_rows_alone():
    X = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    graph = sparse_affinity(X, 500.0)
    assert graph[0, 1] == pytest.approx(1.0)
    assert not graph[2:].any()


def test_sparse_graph_solves_the_lasso(seed):
    # Optimality: |x_j . (x_i - X^T c)| <= penalty for all j, with equality where c_j
    # is not 0. The graph's rows are |c| / |c|_2; so compare with sklearn's solver.
    from sklearn.linear_model import Lasso

    X = unit_rows(np.random.default_rng(seed).standard_normal((8, 5)))
    gamma = 5.0
    graph = np.zeros((8, 8))
    for i in range(8):
        others = np.delete(np.arange(8), i)
        penalty = np.abs(X[others] @ X[i]).max() / gamma
        lasso = Lasso(penalty / 5, fit_intercept=False, tol=1e-12, max_iter=100_000)
        found = np.abs(lasso.fit(X[others].T, X[i]).coef_)
        graph[i, others] = found / np.linalg.norm(found)
    expected = (graph + graph.T) / 2
    np.testing.assert_allclose(sparse_affinity(X, gamma), expected, atol=1e-5)


def test_at_most_fifty_coefficients_are_kept(seed):
    X = unit_rows(np.random.default_rng(seed).standard_normal((90, 80)))
    graph = sparse_affinity(X[:2], 500.0)
    assert graph.shape == (2, 2)
    from afcl_bench.methods.subspace import COEFFICIENTS, _lasso

    found = _lasso(X[1:], X[0], 1e-6)
    assert np.count_nonzero(found) == COEFFICIENTS


def test_cosine_graph_of_three_directions():
    # At 0, 60 and 90 degrees with one neighbour each: 0 asks 60, 60 and 90 ask each
    # other. exp(-2 * 60 deg) / 2 for the first edge, exp(-2 * 30 deg) for the other.
    angles = np.radians([0.0, 60.0, 90.0])
    X = np.column_stack([np.cos(angles), -np.sin(angles)])
    far, near = np.exp(-2 * np.pi / 3) / 2, np.exp(-2 * np.pi / 6)
    expected = [[0, far, 0], [far, 0, near], [0, near, 0]]
    np.testing.assert_allclose(cosine_affinity(X, 1), expected, atol=1e-12)
    assert cosine_affinity(X, 9).shape == (3, 3)
    assert cosine_affinity(X[:1], 3).tolist() == [[0.0]]


def test_number_of_clusters_of_a_graph():
    # Two blocks of ones have the singular values 3, 3, 0, 0, 0, 0.
    graph = np.kron(np.eye(2), np.ones((3, 3))).astype(np.float64)
    assert count_clusters(graph, 5) == 2
    assert count_clusters(graph, 1) == 1


# ------------------------------------------------------------------ subspaces


def test_span_by_largest_drop_and_by_dimension():
    X = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.1]])
    assert np.abs(span(X, None)).round(9)[:, 2].tolist() == [0.0, 0.0]  # r = 2
    assert span(X, 1).shape == (1, 3)
    assert span(X[:1], 3).shape == (1, 3)  # one row: rank 1
    assert span(np.zeros((4, 3)), None).shape == (0, 3)


def test_directions_are_of_the_subspace(seed):
    rng = np.random.default_rng(seed)
    basis = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    drawn = draw_direction(basis, rng)
    assert np.linalg.norm(drawn) == pytest.approx(1.0)
    assert drawn[2] == 0.0
    assert draw_direction(np.zeros((0, 3)), rng).tolist() == [0.0, 0.0, 0.0]


def test_closest_subspace_by_residual():
    axes = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])]
    X = np.array([[0.9, 0.1], [-0.2, 0.5], [0.0, 0.0]])
    assert closest_subspace(X, axes).tolist() == [0, 1, 0]


def test_local_clusters_of_rows_on_one_line():
    rng = np.random.default_rng(0)
    one = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    assert sparse_clusters(one, 2, 3, 500.0, rng).tolist() == [0, 0, 0]


def test_planted_subspaces_are_found_by_one_client(seed):
    X, y = planted(seed)
    params = FedSubspaceParams(n_clusters=3, local_clusters=3, dimension=2)
    labels, samples = find_subspaces(X, params, np.random.default_rng(seed))
    assert same_partition(labels, y)
    assert samples.shape == (3, 12)
    for g in range(3):  # a sample is in the span of its rows
        basis = np.linalg.svd(X[labels == g])[2][:2]
        assert np.linalg.norm(basis @ samples[g]) == pytest.approx(1.0)


def test_rows_beyond_the_limit_follow_the_subspaces(seed):
    X, y = planted(seed, n=40)
    params = FedSubspaceParams(n_clusters=3, local_clusters=3, dimension=2, max_rows=60)
    labels, _ = find_subspaces(X, params, np.random.default_rng(seed))
    assert same_partition(labels, y)


def test_no_more_local_clusters_than_clusters():
    X, _ = planted(0)
    params = FedSubspaceParams(n_clusters=2, local_clusters=3)
    assert find_subspaces(X, params, np.random.default_rng(0))[0].max() <= 1


# ------------------------------------------------------------------ whole runs


@pytest.mark.parametrize("solver", ["ssc", "tsc"])
def test_lines_are_found_across_clients(solver, seed):
    # Directions of one line agree up to sign at all clients, so the samples coincide.
    X, y = planted(seed, dimension=1, d=6)
    tables, truth = pairs(X, y)
    model = make_method(
        "fed-sc",
        n_clusters=3,
        solver=solver,
        local_clusters=2,
        neighbours=1,
        scale=None,
        random_state=seed,
    ).fit_clients(tables)
    assert model.n_clusters_ == 3
    assert same_partition(model.labels_, truth)
    assert model.cluster_centers_ is None
    assert model.n_rounds_ == 1
    assert same_partition(model.predict(X), y)


def test_a_silent_client_follows_the_closest_samples(seed):
    X, y = planted(seed, dimension=1, d=6)
    tables, truth = pairs(X, y)
    model = make_method(
        "fed-sc",
        n_clusters=3,
        local_clusters=2,
        scale=None,
        participation=Schedule(silent=(1,)),
        random_state=seed,
        max_rounds=3,
    ).fit_clients(tables)
    assert model.n_rounds_ == 3  # nobody else is asked again while one is awaited
    assert same_partition(model.labels_, truth)


def test_a_late_joiner_is_asked(seed):
    X, y = planted(seed, dimension=1, d=6)
    tables, truth = pairs(X, y)
    model = make_method(
        "fed-sc",
        n_clusters=3,
        local_clusters=2,
        scale=None,
        participation=Schedule(late={2: 3}),
        random_state=seed,
    ).fit_clients(tables)
    assert model.n_rounds_ == 4
    assert same_partition(model.labels_, truth)


def test_one_feature_is_one_line():
    X = np.random.default_rng(0).random((40, 1))
    model = make_method("fed-sc", n_clusters=3, random_state=0)
    assert model.fit(X, clients=np.arange(40) % 3).n_clusters_ == 1


def test_server_clusters_no_more_than_lines():
    params = FedSubspaceParams(n_clusters=5, solver="tsc")
    samples = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    rng = np.random.default_rng(0)
    assert sample_labels(samples, params, rng).max() <= 1


# ------------------------------------------------------------------ labels


def known(**extra):
    return Clustering(None, np.array([4.0, 2.0]), {}, extra=extra)


def test_labels_of_memory_and_without():
    method = FedSubspace()
    clustering = known(
        samples=np.array([[1.0, 0.0], [0.0, 1.0]]),
        receipts=np.array([11, 11]),
        clusters=np.array([1, 0]),
    )
    X = np.array([[2.0, 0.1], [-3.0, 0.2], [0.1, 5.0]])
    memory = SubspaceMemory(
        np.array([0, 1, 1]), SubspaceSamples(clustering.extra["samples"], 11)
    )
    assert method.label(clustering, X, memory, 0).tolist() == [1, 0, 0]  # induced
    assert method.label(clustering, X, None, None).tolist() == [1, 1, 0]  # cosine
    lost = SubspaceMemory(memory.labels, SubspaceSamples(memory.answer.samples, 12))
    assert method.label(clustering, X, lost, 0).tolist() == [1, 1, 0]
    assert method.label(clustering, X[:2], memory, 0).tolist() == [1, 1]
    assert method.label(known(), X, memory, 0).tolist() == [0, 0, 0]


def test_asked_again_a_client_repeats_itself():
    method, X = FedSubspace(), planted(0)[0]
    params = FedSubspaceParams(n_clusters=3)
    first, memory = method.step(Nothing(), X, None, params, np.random.default_rng(1))
    again, kept = method.step(Nothing(), X, memory, params, np.random.default_rng(2))
    assert again is first
    assert kept is memory


def test_sizes_are_spread_over_the_samples():
    # Client 0 has 6 rows and 2 samples, client 1 has 4 rows and 1: the line of the
    # first axis holds 3 + 4, the other 3.
    method = FedSubspace()
    params = FedSubspaceParams(n_clusters=2, solver="tsc", neighbours=1)
    hellos = [Hello(n, SubspaceWidth(2), client=g) for g, n in enumerate((6, 4))]
    state = method.prepare(method.init(hellos, params, 0))
    assert method.result(state).sizes.tolist() == [10.0]
    assert not method.done(state)
    axes = np.eye(2)
    for g, samples in enumerate((axes[::-1].copy(), axes[:1])):
        said = SubspaceSamples(samples, g)
        state, _ = method.absorb(state, Update(said, version=0, client=g))
    state = method.end_round(state)
    found = method.result(state)
    assert found.sizes.tolist() == [7.0, 3.0]
    assert found.extra["clusters"].tolist() == [1, 0, 0]
    assert found.extra["receipts"].tolist() == [0, 0, 1]
    assert method.done(state)
    assert method.wanted(state) == frozenset()


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "must be told the number of clusters"),
        ({"n_clusters": 2, "solver": "x"}, "solver must be one of"),
        ({"n_clusters": 2, "dimension": 0}, "dimension must be at least 1, not 0"),
        ({"n_clusters": 2, "local_clusters": 0}, "local_clusters must be at least 1"),
        ({"n_clusters": 2, "neighbours": 0}, "neighbours must be at least 1"),
        ({"n_clusters": 2, "max_rows": 0}, "max_rows must be at least 1"),
        ({"n_clusters": 2, "gamma": 1.0}, "gamma must be above 1, not 1.0"),
        ({"n_clusters": 2, "atoms": 5}, "fed-sc has no option 'atoms'"),
    ],
)
def test_bad_options_are_one_line(options, text):
    with pytest.raises(InputError, match=text) as error:
        make_method("fed-sc", **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("width", [0, True, 2.0, None])
def test_hellos_that_cannot_be(width):
    method = FedSubspace()
    state = method.init((), FedSubspaceParams(n_clusters=2), 0)
    with pytest.raises(RejectedMessage, match="a number of features"):
        method.absorb(state, Hello(3, SubspaceWidth(width), client=0))


@pytest.mark.parametrize(
    "said",
    [
        Nothing(),
        SubspaceSamples(np.eye(2)[:, :1], 1),
        SubspaceSamples(np.eye(2).astype(np.float32), 1),
        SubspaceSamples(np.vstack([np.eye(2), np.eye(2)]), 1),
        SubspaceSamples(2.0 * np.eye(2), 1),
        SubspaceSamples(np.eye(2), -1),
        SubspaceSamples(np.eye(2), 2**62),
        SubspaceSamples(np.eye(2), True),
        SubspaceSamples(np.array([[np.nan, 1.0]]), 1),
    ],
)
def test_answers_that_cannot_be(said):
    method = FedSubspace()
    hello = Hello(3, SubspaceWidth(2), client=0)
    params = FedSubspaceParams(n_clusters=3)
    state = method.prepare(method.init([hello], params, 0))
    with pytest.raises(RejectedMessage):
        method.absorb(state, Update(said, version=0, client=0))
    assert state.answers == {}

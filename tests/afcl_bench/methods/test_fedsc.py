# SPDX-License-Identifier: Apache-2.0
"""FedSC: codes and the dictionary's step by hand, the kernel's error, labels, edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from afcl import Schedule, make_method
from afcl.core.messages import Hello, Update
from afcl.core.protocol import Clustering
from afcl.data.split import iid_split
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods.rival import Nothing
from afcl.metrics import adjusted_rand
from afcl.runtime.coordinator import Spec
from afcl.runtime.simulate import simulate
from afcl_bench.methods.dictionary import Kernel, distinct_codes, knn_graph, majority
from afcl_bench.methods.fedsc import FedSpectral, common_width
from afcl_bench.methods.fedsc_messages import (
    SpectralAtoms,
    SpectralCodes,
    SpectralMemory,
    SpectralMoments,
    SpectralPlan,
)

METHOD: Any = FedSpectral()


def blobs(seed, n=40):
    rng = np.random.default_rng(seed)
    spots = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.5]])
    X = np.vstack([rng.normal(spot, 0.05, (n, 2)) for spot in spots])
    return X, np.repeat(np.arange(3), n)


def params(n_rows=40, **options):
    return METHOD.settle(METHOD.parameters(n_clusters=2, **options), n_rows)


def started(n_clients=2, seed=0, **options):
    """Return the state after the hellos of clients with 20 rows each, and the rows."""
    X = np.random.default_rng(seed).random((n_clients, 20, 2))
    settled = params(20 * n_clients, **options)
    hellos = [
        Hello(20, METHOD.first(rows, settled, np.random.default_rng()), client=g)
        for g, rows in enumerate(X)
    ]
    return METHOD.prepare(METHOD.init(hellos, settled, seed)), X


def asked(state, rows, client, memory=None):
    """Return the update of one client to the state's broadcast, and its memory."""
    plan = METHOD.broadcast(state).payload
    rng = np.random.default_rng(client)
    said, memory = METHOD.step(plan, rows, memory, state.params, rng)
    return Update(said, version=state.version, client=client), memory


def round_of(state, X, clients=(0, 1)):
    for g in clients:
        state, _ = METHOD.absorb(state, asked(state, X[g], g)[0])
    return METHOD.end_round(state)


# ------------------------------------------------------------------ the kernel


def test_code_of_a_row_at_the_only_atom():
    # K_zz = k(z, x) = 1: c = 1 / (1 + penalty), similarity c^2.
    kernel = Kernel(np.array([[2.0]]), 1.0, 0.25)
    codes = kernel.codes(np.array([[2.0]]))
    assert codes.tolist() == [[0.8]]
    assert kernel.similarities(codes, codes)[0, 0] == pytest.approx(0.64)
    # one unit away: k = exp(-1/2)
    away = kernel.codes(np.array([[3.0]]))
    assert away[0, 0] == pytest.approx(0.8 * math.exp(-0.5))


def test_a_single_atom_moves_to_the_weighted_mean():
    # With one atom tau is the sum of c k over the rows, so z becomes their mean with
    # weights c k, and c is proportional to k: weights k^2 = 1 and exp(-1).
    kernel = Kernel(np.array([[0.0]]), 1.0, 0.5)
    moved = kernel.moved(np.array([[0.0], [1.0]]))
    assert moved[0, 0] == pytest.approx(math.exp(-1) / (1 + math.exp(-1)))


def test_the_step_solves_for_the_gradient(seed):
    # (Z' - Z) tau = -gradient; the gradient by central differences of the objective.
    rng = np.random.default_rng(seed)
    X, Z = rng.random((12, 2)), rng.random((3, 2))
    kernel = Kernel(Z, 0.3, 1e-2)
    codes = kernel.codes(X)

    def objective(atoms):
        k = Kernel(atoms, 0.3, 1e-2)
        cross = (codes * k.between(X, atoms)).sum()
        return 0.5 * (codes @ k.between(atoms, atoms) * codes).sum() - cross

    gradient = np.zeros_like(Z)
    for index in np.ndindex(Z.shape):
        step = np.zeros_like(Z)
        step[index] = 1e-5
        gradient[index] = (objective(Z + step) - objective(Z - step)) / 2e-5
    pull = codes * kernel.between(X, Z)
    push = (codes.T @ codes) * kernel.between(Z, Z)
    tau = (push + np.diag(pull.sum(axis=0) - push.sum(axis=0))) / 0.3
    np.testing.assert_allclose(tau @ (kernel.moved(X) - Z), -gradient, atol=1e-8)


def test_atoms_out_of_reach_go_to_the_origin():
    kernel = Kernel(np.array([[0.0], [1e3]]), 1.0, 1e-3)
    moved = kernel.moved(np.array([[0.5], [0.7]]))
    assert 0.5 < moved[0, 0] < 0.7
    assert moved[1, 0] == pytest.approx(0.0, abs=1e-12)


def test_width_is_the_mean_squared_distance(seed):
    state, X = started(3, seed)
    rows = X.reshape(-1, 2)
    gaps = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    assert common_width(state) == pytest.approx(gaps.mean())
    assert state.model.kernel.width == common_width(state)
    assert started(width=0.5)[0].model.kernel.width == 0.5


def test_rows_that_do_not_vary_have_width_one():
    said = SpectralMoments(np.array([9.0]), 27.0)  # three rows of 3
    state = METHOD.init([Hello(3, said, client=0)], params(), 0)
    assert common_width(state) == 1.0


def test_kernel_error_on_iris(seed):
    from sklearn.datasets import load_iris

    X = load_iris().data
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    owner = iid_split(150, 8, seed)
    tables = [X[owner == g] for g in range(8)]
    spec = Spec(METHOD, {"n_clusters": 3}, seed)
    model = simulate(spec, tables).finished.state.model
    codes = np.concatenate([model.codes[g].codes for g in range(8)])
    rows = np.concatenate(tables)
    exact = model.kernel.between(rows, rows)
    error = exact - model.kernel.similarities(codes, codes)
    assert np.linalg.norm(error) / np.linalg.norm(exact) <= 0.02


# ------------------------------------------------------------------ the graph


def test_nearest_neighbours_symmetric_by_maximum():
    # Scaled to [0, 1] by (s + 1) / 2: 1, .9, 0 / .9, 1, .6 / 0, .6, 1. With two
    # neighbours (self among them) row 2 keeps .6, which row 1 does not.
    similar = np.array([[1.0, 0.8, -1.0], [0.8, 1.0, 0.2], [-1.0, 0.2, 1.0]])
    expected = [[1.0, 0.9, 0.0], [0.9, 1.0, 0.6], [0.0, 0.6, 1.0]]
    np.testing.assert_allclose(knn_graph(similar, 2), expected)
    assert knn_graph(np.full((2, 2), 0.3), 5).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_majority_of_the_most_similar(monkeypatch):
    atoms = np.array([[0.0], [1.0]])
    kernel = Kernel(atoms, 0.1, 1e-6)
    coded = np.array([[0.0], [0.1], [0.9], [1.0], [1.1]])
    clusters = np.array([1, 1, 0, 0, 0])
    X = np.array([[0.05], [0.95], [0.1]])
    codes = kernel.codes(coded)
    assert majority(kernel, X, codes, clusters, 2).tolist() == [1, 0, 1]
    assert majority(kernel, X, codes, clusters, 9).tolist() == [0, 0, 0]
    monkeypatch.setattr("afcl_bench.methods.dictionary.BLOCK", 5)  # one row at a time
    assert majority(kernel, X, codes, clusters, 2).tolist() == [1, 0, 1]


def test_codes_that_differ_by_rounding_are_one():
    assert distinct_codes(np.array([[0.5], [0.5 + 1e-12], [0.6]])) == 2


# ------------------------------------------------------------------ the rounds


def test_rounds_average_the_dictionaries_then_codes_are_asked_for():
    state, X = started(rounds=2)
    assert state.model.kernel.atoms.shape == (10, 2)  # 40 / 4 atoms
    plan = METHOD.broadcast(state).payload
    assert not plan.final
    steps = [asked(state, X[g], g)[0].payload.atoms for g in (0, 1)]
    state = round_of(state, X)
    np.testing.assert_array_equal(state.model.kernel.atoms, np.mean(steps, axis=0))
    alone = asked(state, X[1], 1)[0].payload.atoms
    state = round_of(state, X, (1,))  # whoever is there
    np.testing.assert_array_equal(state.model.kernel.atoms, alone)
    assert METHOD.broadcast(state).payload.final
    assert METHOD.broadcast(state).wanted == {0, 1}
    assert METHOD.result(state).sizes.tolist() == [40.0]
    assert METHOD.progress(state)["k"] == 1
    state = round_of(state, X, (0,))
    assert METHOD.broadcast(state).wanted == {1}
    assert not METHOD.done(state)
    assert METHOD.result(state).sizes.sum() == 20.0
    state = round_of(state, X, (1,))
    assert METHOD.done(state)
    assert METHOD.progress(state)["k"] == 2
    assert METHOD.result(state).sizes.sum() == 40.0


def test_late_dictionaries_do_not_move_what_is_settled():
    state, X = started(rounds=1)
    late = asked(state, X[0], 0)[0]
    state = round_of(state, X, (1,))
    state, _ = METHOD.absorb(state, late)
    after = METHOD.end_round(state)
    np.testing.assert_array_equal(after.model.kernel.atoms, state.model.kernel.atoms)
    assert after.model.codes == {}


def test_a_client_codes_the_same_rows_when_asked_again():
    state, X = started(rounds=1, share=0.5)
    state = round_of(state, X)
    first, memory = asked(state, X[0], 0)
    assert memory.drawn.shape == (10,)
    plan = METHOD.broadcast(state).payload
    again, kept = METHOD.step(
        plan, X[0], memory, state.params, np.random.default_rng(99)
    )
    assert kept is memory
    assert again.receipt == first.payload.receipt
    np.testing.assert_array_equal(again.codes, first.payload.codes)


def test_settled_by_the_number_of_rows():
    assert params(40).atoms == 10
    assert params(4000).atoms == 100
    assert params(2).atoms == 1
    assert params(40, atoms=7).atoms == 7
    assert params(40).share == 1.0
    assert params(6000).share == 0.5
    assert params(6000).coded(101) == 50
    assert params(6000).coded(1) == 1


# ------------------------------------------------------------------ whole runs


def test_separate_spots_are_found(seed):
    X, y = blobs(seed)
    model = make_method("fedsc", n_clusters=3, random_state=seed)
    model.fit(X, clients=np.arange(120) % 4)
    assert adjusted_rand(y, model.labels_) == 1.0
    assert model.cluster_centers_ is None
    assert model.n_rounds_ == 21
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_rows_that_were_not_coded_follow_their_neighbours(seed):
    X, y = blobs(seed)
    model = make_method("fedsc", n_clusters=3, max_rows=60, random_state=seed)
    model.fit(X, clients=np.arange(120) % 4)
    assert adjusted_rand(y, model.labels_) == 1.0
    full = make_method("fedsc", n_clusters=3, random_state=seed)
    full.fit(X, clients=np.arange(120) % 4)
    assert model.upload_bytes_ < full.upload_bytes_


def test_a_silent_client_is_labelled_by_prediction(seed):
    X, y = blobs(seed)
    model = make_method(
        "fedsc",
        n_clusters=3,
        participation=Schedule(silent=(1,)),
        max_rounds=25,
        random_state=seed,
    )
    model.fit(X, clients=np.arange(120) % 3)
    assert adjusted_rand(y, model.labels_) == 1.0


def test_no_more_clusters_than_different_rows():
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 1.0]]), 10, axis=0)
    model = make_method("fedsc", n_clusters=4, random_state=0)
    model.fit(X, clients=np.arange(20) % 2)
    assert model.n_clusters_ == 2
    assert adjusted_rand(X[:, 0].astype(int), model.labels_) == 1.0


# ------------------------------------------------------------------ labels


def test_labels_of_coded_rows_and_of_others():
    atoms = np.array([[0.0], [1.0]])
    kernel = Kernel(atoms, 0.1, 1e-6)
    clustering = Clustering(
        None,
        np.array([2.0, 2.0]),
        {},
        extra={
            "atoms": atoms,
            "width": 0.1,
            "penalty": 1e-6,
            "codes": kernel.codes(np.array([[0.0], [1.0]])),
            "receipts": np.array([5, 5]),
            "clusters": np.array([1, 0]),
            "neighbours": 1,
        },
    )
    X = np.array([[0.9], [0.1], [0.95]])
    swapped = SpectralMemory(np.array([0, 1]), 5)  # as the server said, not as near
    assert METHOD.label(clustering, X, swapped, 0).tolist() == [1, 0, 0]
    for memory in (None, SpectralMemory(np.array([0, 1]), 6)):
        assert METHOD.label(clustering, X, memory, 0).tolist() == [0, 1, 0]
    beyond = SpectralMemory(np.array([1, 7]), 5)
    assert METHOD.label(clustering, X, beyond, 0).tolist() == [0, 1, 0]
    nothing = Clustering(None, np.array([3.0]), {})
    assert METHOD.label(nothing, X, None, None).tolist() == [0, 0, 0]


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "must be told the number of clusters"),
        ({"n_clusters": 2, "rounds": 0}, "rounds must be at least 1, not 0"),
        ({"n_clusters": 2, "atoms": 0}, "atoms must be at least 1"),
        ({"n_clusters": 2, "max_rows": 0}, "max_rows must be at least 1"),
        ({"n_clusters": 2, "penalty": 0.0}, "penalty must be positive, not 0.0"),
        ({"n_clusters": 2, "width": -1.0}, "width must be positive"),
        ({"n_clusters": 2, "share": 0.0}, r"share must lie in \(0, 1\], not 0.0"),
    ],
)
def test_bad_options_are_one_line(options, text):
    with pytest.raises(InputError, match=text) as error:
        make_method("fedsc", **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "said",
    [
        Nothing(),
        SpectralMoments(np.zeros((1, 2)), 1.0),
        SpectralMoments(np.zeros(0), 1.0),
        SpectralMoments(np.zeros(2, dtype=np.float32), 1.0),
        SpectralMoments(np.array([1e14, 0.0]), 1e30),
        SpectralMoments(np.array([3.0, 0.0]), 2.9),  # 3 rows: at least 9 / 3
        SpectralMoments(np.array([3.0, 0.0]), math.inf),
        SpectralMoments(np.array([3.0, 0.0]), True),
    ],
)
def test_hellos_that_cannot_be(said):
    state = METHOD.init((), params(), 0)
    with pytest.raises(RejectedMessage):
        METHOD.absorb(state, Hello(3, said, client=0))


@pytest.mark.parametrize(
    "said",
    [
        Nothing(),
        SpectralAtoms(np.zeros((9, 2))),
        SpectralAtoms(np.full((10, 2), 1e13)),
        SpectralAtoms(np.full((10, 2), np.nan)),
        SpectralCodes(np.zeros((20, 10)), 1),  # nobody has asked for codes
    ],
)
def test_steps_that_cannot_be(said):
    state, _ = started()
    with pytest.raises(RejectedMessage):
        METHOD.absorb(state, Update(said, version=0, client=0))


@pytest.mark.parametrize(
    "said",
    [
        SpectralPlan(np.zeros((10, 2)), 1.0, True),
        SpectralCodes(np.zeros((19, 10)), 1),
        SpectralCodes(np.zeros((20, 9)), 1),
        SpectralCodes(np.full((20, 10), 1e13), 1),
        SpectralCodes(np.zeros((20, 10)), -1),
    ],
)
def test_codes_that_cannot_be(said):
    state, X = started(rounds=1)
    state = round_of(state, X)
    with pytest.raises(RejectedMessage):
        METHOD.absorb(state, Update(said, version=1, client=0))


def test_without_the_cut_all_similarities_count(seed, monkeypatch):
    """The graph keeps as many similarities of a row as it is told, or all."""
    kept = []

    def graph(similarities, neighbours):
        kept.append((len(similarities), neighbours))
        return knn_graph(similarities, neighbours)

    monkeypatch.setattr("afcl_bench.methods.fedsc.knn_graph", graph)
    X = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 20, axis=0)
    X = X + np.random.default_rng(seed).normal(0, 0.2, X.shape)
    for neighbours in (None, 7, 0):
        model = make_method(
            "fedsc", n_clusters=3, neighbours=neighbours, random_state=seed
        )
        model.fit_clients([X[::2], X[1::2]])
    assert set(kept) == {(60, 5), (60, 7), (60, 60)}  # ln 60 = 4.09
    assert model.n_clusters_ == 3


def test_fewer_than_no_neighbours_are_refused():
    with pytest.raises(InputError, match="neighbours must be 0 or more, not -1"):
        make_method("fedsc", n_clusters=3, neighbours=-1)

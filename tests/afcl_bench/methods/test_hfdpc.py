# SPDX-License-Identifier: Apache-2.0
"""HFDPC: grid and density peaks by hand, components, wide data, edges, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA

from afcl import Rounds, Schedule, make_method
from afcl.core.messages import Hello, Left, Update
from afcl.core.protocol import client_rng
from afcl.exceptions import InputError, RejectedMessage
from afcl.methods.rival import Nothing
from afcl.metrics import adjusted_rand
from afcl_bench.methods import density_peaks as peaks
from afcl_bench.methods import hfdpc_grid as grids
from afcl_bench.methods.hfdpc import HFDPC, HfdpcParams
from afcl_bench.methods.hfdpc_grid import Grid, GridSurvey, Occupancy
from afcl_bench.methods.mufc import Histogram

METHOD = HFDPC()
NONE = np.empty((0, 0))


def column(*values, dtype=np.float64):
    return np.array(values, dtype=dtype)[:, None]


def ints(*values):
    return np.array(values, dtype=np.int64)


def plain(size):
    return Grid(size, np.empty(0), NONE)


def blobs(seed, d=2, n=50):
    """Three spots on a plane, tilted into d columns where there are more than two."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), n)
    X = rng.normal(np.array([[0, 0], [1, 0], [0, 1]])[y], 0.05)
    return (X if d == 2 else X @ rng.normal(size=(2, d))), y


def started(tables, k=3, seed=0, **options):
    params = HfdpcParams(n_clusters=k, **options)
    hellos = [
        replace(METHOD.hello(table, params, client_rng(seed, g, 0)), client=g)
        for g, table in enumerate(tables)
    ]
    return METHOD.prepare(METHOD.init(hellos, params, seed))


def said_by(state, table, g):
    broadcast = METHOD.broadcast(state)
    rng = client_rng(state.seed, g, 1)
    update, _ = METHOD.client_step(broadcast, table, None, state.params, rng)
    return replace(update, client=g, version=broadcast.version, contact=1)


def answered(state, tables, clients):
    messages = [said_by(state, tables[g], g) for g in clients]
    for message in messages:
        state, _ = METHOD.absorb(state, message)
    return METHOD.end_round(state)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "give n_clusters"),
        ({"n_clusters": 3, "fill": 0.0}, "fill must lie between 0 and 1"),
        ({"n_clusters": 3, "fill": None}, "fill must lie between 0 and 1"),
        ({"n_clusters": 3, "max_grid": 1}, "max_grid must be a whole number"),
        ({"n_clusters": 3, "max_grid": 9.5}, "max_grid must be a whole number"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(InputError, match=text):
        make_method("hfdpc", **options)


# ------------------------------------------------------------------ the grid


def test_cells_by_hand():
    # ceil(4 x): 0 -> 0, .25 -> 1, .26 -> 2, 1 -> 4, -.3 -> -1.
    X = column(0.0, 0.25, 0.26, 1.0, -0.3)
    assert grids.cells_at(X, plain(4)).ravel().tolist() == [0, 1, 2, 4, -1]


def test_occupancy_by_hand():
    # L = 2: 0 1 2 2, three cells; L = 3: 0 2 2 3, three; L = 4: 0 2 3 4, all four.
    X = column(0.0, 0.4, 0.6, 1.0)
    assert grids.occupancy(X, 100).tolist() == [3, 3, 4]
    assert grids.occupancy(X, 3).tolist() == [3, 3]
    assert grids.occupancy(np.ones((5, 2)), 100).tolist() == [1]


def test_cells_too_many_to_be_numbered():
    cells = np.array([[0] * 10, [100] * 10, [0] * 10])  # 101^10 > 2^62
    assert grids.n_distinct(cells) == 2
    assert grids.n_distinct(cells[:, :2]) == 2


def test_the_grid_is_settled_by_hand():
    # Four rows need 2.8 cells: L = 2 has three.
    assert grids.settled_grid([ints(3, 3, 4)], [4], 0.7) == 2
    # L = 2: 1 + 1; L = 3: 2 + 1; L = 4: 2 (all it has) + 3 = 5 of 6 rows, 4.2 needed.
    assert grids.settled_grid([ints(1, 2), ints(1, 1, 3)], [2, 4], 0.7) == 4
    assert grids.settled_grid([ints(3, 3, 4)], [4], 1.0) == 4
    # Duplicates never fill 70 %: the first L from which no new cells appear.
    assert grids.settled_grid([ints(1, 2), ints(1)], [10, 10], 0.7) == 3
    assert grids.settled_grid([ints(1)], [10], 0.7) == 2


def test_the_middle_of_cells():
    # Cell 3 of size 4 is (.5, .75]; cell 0 holds only 0 itself.
    middles = grids.middles(column(3, 0, dtype=np.int64), plain(4))
    np.testing.assert_allclose(middles, column(0.625, 0.0))
    # On a component (.6, .8) from the origin (1, 1): 1 + .125 (.6, .8).
    tilted = Grid(4, np.ones(2), column(0.6, 0.8))
    middles = grids.middles(column(1, dtype=np.int64), tilted)
    np.testing.assert_allclose(middles, [[1.075, 1.1]])


def test_components_by_hand():
    # Variances 90, 4, 3, 3: 90 % is too little, 94 % too, 97 % enough.
    basis = grids.components(np.diag([3.0, 90.0, 4.0, 3.0]))
    assert basis.shape == (4, 3)
    np.testing.assert_allclose(basis[:, 0], [0, 1, 0, 0])
    assert (basis.sum(axis=0) > 0).all()
    assert grids.components(np.eye(40)).shape == (40, 10)
    assert np.isfinite(grids.components(np.zeros((12, 12)))).all()


def test_summed_moments_give_the_pooled_components(seed):
    rng = np.random.default_rng(seed)
    X = rng.random((80, 12)) * np.linspace(0.1, 3.0, 12)
    basis = started([X[:10], X[10:50], X[50:]]).model.grid.basis
    axes = PCA(basis.shape[1]).fit(X).components_.T
    np.testing.assert_allclose(np.abs((basis * axes).sum(axis=0)), 1.0, atol=1e-9)


# ------------------------------------------------------------------ density peaks


def test_densities_by_hand():
    # Cells 0, 1, 3; each has ceil(sqrt(3)) = 2 nearest others, at mean distance
    # (1 + 3) / 2 = 2, (1 + 2) / 2 = 1.5 and (3 + 2) / 2 = 2.5.
    found = peaks.densities(column(0, 1, 3), ints(4, 2, 1))
    nearness = np.exp([-0.5, 0.0, -1.0])
    np.testing.assert_allclose(found, 0.3 * np.array([1, 0.5, 0.25]) + 0.7 * nearness)
    np.testing.assert_allclose(peaks.densities(column(5), ints(3)), [1.0])


def test_nearest_denser_by_hand():
    # In falling density: 4, then 7 (3 from 4), 6 (1 from 7), 0 (4 from 4). The first
    # takes its distance to the farthest, 4.
    leaders, gaps = peaks.nearest_denser(column(4, 7, 6, 0))
    assert leaders.tolist() == [0, 0, 1, 0]
    assert gaps.tolist() == [4, 3, 1, 4]


def test_growth_by_hand():
    # Cells 0 1 2 adjoin, 9 10 adjoin. Centre 0 (density 1) takes 1 (.8) and not 2
    # (.6 < .7); centre 9 (.9) takes 10 (.7 > .63).
    cells = column(0, 9, 1, 10, 2)
    density = np.array([1.0, 0.9, 0.8, 0.7, 0.6])
    prominence = density * [10, 9, 1, 1, 1]
    assert peaks.grown(cells, density, prominence, 2).tolist() == [0, 1, 0, 1, -1]
    assert peaks.grown(cells, density, prominence, 9).tolist() == [0, 1, 0, 1, 2]
    assert peaks.grown(cells, density, prominence, 1).tolist() == [0, -1, 0, -1, -1]


def test_cells_two_apart_do_not_adjoin():
    diagonal = np.array([[0.0, 0, 0], [1, 1, 1], [3, 1, 1]])  # sqrt(3), then 2
    density = np.ones(3)
    assert peaks.grown(diagonal, density, density, 1).tolist() == [0, 0, -1]


def test_the_rest_follows_the_nearest_denser_cell():
    # Two heaps with thin tails: every tail goes with its heap.
    cells = column(*range(7), *range(20, 27))
    counts = ints(1, 2, 9, 20, 9, 2, 1, 1, 2, 8, 18, 8, 2, 1)
    labels = peaks.density_peaks(cells, counts, 2)
    assert labels.tolist() == [0] * 7 + [1] * 7


def test_blocks_change_nothing(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, 12, (90, 2)), axis=0).astype(np.float64)
    counts = rng.integers(1, 9, len(cells))
    whole = peaks.density_peaks(cells, counts, 3)
    monkeypatch.setattr(peaks, "BLOCK", 7)
    np.testing.assert_array_equal(peaks.density_peaks(cells, counts, 3), whole)


# ------------------------------------------------------------------ the run


def test_the_clients_share_of_the_cells_does_not_matter(seed):
    X, y = blobs(seed)
    split = started([X[y == g] for g in range(3)], max_grid=5)
    whole = started([X], max_grid=5)  # both grids end at 5
    split = answered(split, [X[y == g] for g in range(3)], (2, 0, 1))
    whole = answered(whole, [X], (0,))
    np.testing.assert_array_equal(split.model.cells.bins, whole.model.cells.bins)
    np.testing.assert_array_equal(split.model.centers, whole.model.centers)
    assert METHOD.done(split)
    assert METHOD.done(whole)


@pytest.mark.parametrize("d", [2, 12])
def test_a_late_joiner_counts_as_much_as_any(d, seed):
    X, y = blobs(seed, d)
    fits = [
        make_method("hfdpc", n_clusters=3, scale=None, participation=participation).fit(
            X, clients=y
        )
        for participation in (None, Schedule(late={1: 3}))
    ]
    np.testing.assert_array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)


def test_a_late_joiner_that_does_not_change_the_grid():
    tables = [column(0.0, 0.4, 0.6, 1.0), column(0.0, 0.4, 0.6, 1.0)]
    state = answered(started(tables[:1]), tables, (0,))
    assert METHOD.done(state)
    for cells in (3, 1):  # L stays 2, or becomes larger
        said = GridSurvey(np.ones(1), NONE, ints(cells, 4))
        later, _ = METHOD.absorb(state, Hello(4, said, client=1))
        later = METHOD.prepare(later)
        wanted = METHOD.broadcast(later).wanted
        assert wanted == (frozenset({1}) if cells == 3 else frozenset({0, 1}))
        stale, _ = METHOD.absorb(later, replace(state.latest[0], contact=2))
        assert METHOD.broadcast(METHOD.end_round(stale)).wanted == wanted


def test_a_stale_answer_settles_no_new_grid(seed):
    X, y = blobs(seed, 12, 10)
    tables = [X[y == g] for g in range(3)]
    state = started(tables[:2])
    stale = said_by(state, tables[0], 0)
    hello = METHOD.hello(tables[2], state.params, client_rng(0, 2, 0))
    state, _ = METHOD.absorb(state, replace(hello, client=2))
    state, _ = METHOD.absorb(METHOD.prepare(state), stale)
    assert METHOD.message(METHOD.end_round(state)).size == 0


def test_before_anybody_answered_there_is_one_cluster():
    state = started([column(0.0, 0.2), column(1.0)])
    result = METHOD.result(state)
    assert result.sizes.tolist() == [3]
    assert result.centers is not None
    np.testing.assert_allclose(result.centers, [[0.4]])
    assert METHOD.label(result, column(0.0, 5.0), None, 0).tolist() == [0, 0]
    assert not METHOD.done(state)


def test_who_has_answered_is_not_asked_again():
    tables = [column(0.0, 0.2), column(1.0), column(0.5)]
    state = answered(started(tables), tables, (1,))
    assert METHOD.broadcast(state).wanted == frozenset({0, 2})
    state, _ = METHOD.absorb(state, Left(2))
    state = answered(state, tables, (0,))
    assert METHOD.done(state)
    result = METHOD.result(state)
    assert result.sizes.sum() == 3  # client 2 left without a word


def test_a_row_in_an_unknown_cell_goes_with_the_nearest():
    tables = [column(0.0, 0.05, 0.1), column(0.9, 0.95, 1.0)]
    state = answered(started(tables, k=2), tables, (0, 1))
    result = METHOD.result(state)
    assert result.k == 2
    labels = METHOD.label(result, column(0.05, 0.3, 0.7, 4.0), None, None)
    assert labels[0] == labels[1] != labels[2] == labels[3]


def test_far_rows_are_refused_in_one_line():
    with pytest.raises(InputError, match="scale them"):
        make_method("hfdpc", n_clusters=2, scale=None).fit(column(0.0, 1.0, 1e17))


@pytest.mark.parametrize("d", [2, 12])
@pytest.mark.parametrize(
    "participation", [None, Rounds(probability=0.5, delay=1), Schedule(late={1: 3})]
)
def test_well_separated_clusters_are_found(d, participation, seed):
    X, y = blobs(seed, d)
    model = make_method(
        "hfdpc", n_clusters=3, random_state=seed, participation=participation
    ).fit(X, clients=y)
    assert model.n_clusters_ == 3
    assert adjusted_rand(y, model.labels_) > 0.9
    assert model.cluster_centers_.shape == (3, d)
    means = [X[model.labels_ == c].mean(axis=0) for c in range(3)]
    np.testing.assert_allclose(model.cluster_centers_, means, atol=0.2)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize("d", [1, 12])
def test_more_clusters_than_rows(d):
    tables = [np.zeros((1, d)), np.ones((2, d))]
    model = make_method("hfdpc", n_clusters=5, random_state=0).fit_clients(tables)
    assert model.n_clusters_ == 2
    assert model.labels_.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(silent=(0, 1, 2)),
        Schedule(silent=(0,)),
        Schedule(answers={0: 1, 1: 1, 2: 1}),
        Rounds(probability=0.3, delay=3),
    ],
)
def test_wide_data_with_comings_and_goings(schedule, seed):
    X, y = blobs(seed, 12, 10)
    model = make_method(
        "hfdpc", n_clusters=3, participation=schedule, random_state=seed, max_rounds=20
    ).fit(X, clients=y)
    assert 1 <= model.n_clusters_ <= 3
    assert np.isfinite(model.cluster_centers_).all()


def test_wide_rows_that_are_all_the_same():
    model = make_method("hfdpc", n_clusters=3).fit(np.full((9, 12), 4.0))
    assert model.n_clusters_ == 1
    np.testing.assert_allclose(model.cluster_centers_, np.full((1, 12), 4.0), atol=1)


def test_an_answer_from_before_the_grid_was_settled(seed):
    X, y = blobs(seed, 12, 10)
    tables = [X[y == g] for g in range(3)]
    state = started(tables)
    assert METHOD.message(state).size == 0
    late = said_by(state, tables[2], 2)
    assert isinstance(late.payload, Occupancy)
    state = answered(state, tables, (0, 1))
    assert METHOD.message(state).size >= 2
    state, _ = METHOD.absorb(state, late)
    alone = METHOD.end_round(state)
    assert METHOD.result(alone).k == 1  # still nobody's cells
    assert METHOD.broadcast(alone).wanted == frozenset({0, 1, 2})
    assert METHOD.done(answered(alone, tables, (0, 1, 2)))


def test_a_saved_model_predicts_the_same(tmp_path, seed):
    X, y = blobs(seed, 12, 20)
    model = make_method("hfdpc", n_clusters=3, random_state=seed).fit(X, clients=y)
    model.save(tmp_path)
    again = type(model).load(tmp_path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# ------------------------------------------------------------------ refusals


def survey(total=(1.0, 1.0), moments=NONE, occupied=(2, 3)):
    return GridSurvey(np.array(total), moments, np.array(occupied, dtype=np.int64))


@pytest.mark.parametrize(
    "said",
    [
        Nothing(),
        survey(total=((1.0, 1.0),)),
        survey(total=()),
        survey(total=(1, 1)),
        survey(total=(np.nan, 1.0)),
        survey(total=(1.0,)),  # others have two columns
        survey(moments=np.eye(2)),
        survey(moments=None),
        survey(occupied=()),
        survey(occupied=(5,)),  # of four rows
        survey(occupied=(0, 1)),
        survey(occupied=[1] * 200),  # L = 2 to 200 are 199
        survey(occupied=((1, 2),)),
        replace(survey(), occupied=np.array([1.0])),
        replace(survey(), occupied=3),
    ],
)
def test_bad_hellos_are_refused(said):
    state = started([np.eye(2)])
    METHOD.absorb(state, Hello(4, survey(), client=1))
    with pytest.raises(RejectedMessage):
        METHOD.absorb(state, Hello(4, said, client=1))


@pytest.mark.parametrize(
    "changes",
    [
        {"moments": np.eye(11)},
        {"moments": NONE},
        {"moments": np.triu(np.ones((12, 12)))},
        {"moments": np.eye(12) / 9},  # the sums are of larger numbers
        {"occupied": ints(1)},
    ],
)
def test_bad_moments_are_refused(changes):
    X = np.ones((4, 12))
    state = started([X])
    said = METHOD.first(X, state.params, np.random.default_rng(0))
    METHOD.absorb(state, Hello(4, said, client=1))
    with pytest.raises(RejectedMessage):
        METHOD.absorb(state, Hello(4, replace(said, **changes), client=1))


@pytest.mark.parametrize(
    "said",
    [
        Nothing(),
        Occupancy(ints(1, 2)),  # only asked of wide data
        Histogram(np.zeros((1, 3), dtype=np.int64), ints(2)),
        Histogram(np.zeros((1, 2), dtype=np.int64), ints(1)),
    ],
)
def test_bad_answers_are_refused(said):
    with pytest.raises(RejectedMessage):
        METHOD.absorb(started([np.eye(2)]), Update(said, 0, 0, 1))


def test_cells_before_the_grid_are_refused():
    state = started([np.eye(12)])
    said = Histogram(np.zeros((1, 10), dtype=np.int64), ints(12))
    with pytest.raises(RejectedMessage):
        METHOD.absorb(state, Update(said, 0, 0, 1))
    with pytest.raises(RejectedMessage):
        METHOD.absorb(state, Update(Occupancy(ints(13)), 0, 0, 1))

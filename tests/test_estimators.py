"""The scikit-learn face: contract, attributes, edges, saving."""

import copy
import io
import logging
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from afcl import AFCL, EventClock, Rounds, Schedule, make_method
from afcl.data.split import kmeans_split
from afcl.data.synthetic import make_mixture, make_sd1
from afcl.exceptions import (
    InputError,
    PrivacyWarning,
    SmallClientsWarning,
    SuspicionWarning,
)

#: Much of this is about few rows without clusters; test_trust.py is about warnings.
pytestmark = pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")

#: Checks that cannot hold, each with its reason.
EXPECTED_FAILURES: dict[str, str] = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight never counts towards min_cell, copies of a row do"
    ),
    "check_sample_weights_not_overwritten": (
        "a row of weight 10 among 16 makes the smallest group 50 of 25 copies"
    ),
}


@pytest.fixture(scope="module")
def sd1():
    X, y = make_sd1(0)
    return X, y, kmeans_split(X, 5, random_state=0)


@pytest.fixture(scope="module")
def fitted(sd1):
    X, _, owner = sd1
    return AFCL(random_state=0, participation="random").fit(X, clients=owner)


@parametrize_with_checks(
    [AFCL()], expected_failed_checks=lambda _: EXPECTED_FAILURES, xfail_strict=True
)
@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API.*")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


class TestAnswer:
    def test_finds_the_true_number_of_clusters(self, fitted, sd1):
        _, y, _ = sd1
        assert fitted.n_clusters_ == 4
        assert adjusted_rand_score(y, fitted.labels_) > 0.99

    def test_clusters_are_numbered_by_size(self, fitted):
        sizes = np.bincount(fitted.labels_)
        assert (np.diff(sizes) <= 0).all()
        assert np.array_equal(sizes, fitted.cluster_sizes_)

    def test_centers_are_in_the_units_of_the_data(self, fitted):
        spots = {(1, 1), (1, 5), (5, 5), (5, 1)}
        assert {tuple(c) for c in fitted.cluster_centers_.round()} == spots

    def test_predict_repeats_the_training_labels(self, fitted, sd1):
        assert np.array_equal(fitted.predict(sd1[0]), fitted.labels_)

    def test_client_labels_are_the_labels_by_client(self, fitted, sd1):
        owner = sd1[2]
        for client, labels in enumerate(fitted.client_labels_):
            assert np.array_equal(labels, fitted.labels_[owner == client])

    def test_fit_and_fit_clients_agree(self, fitted, sd1):
        X, _, owner = sd1
        tables = [X[owner == g] for g in range(5)]
        other = AFCL(random_state=0, participation="random").fit_clients(tables)
        assert np.array_equal(other.cluster_centers_, fitted.cluster_centers_)
        assert np.array_equal(other.labels_, np.concatenate(fitted.client_labels_))

    def test_same_seed_same_bits(self, fitted, sd1):
        X, _, owner = sd1
        other = AFCL(random_state=0, participation="random").fit(X, clients=owner)
        assert np.array_equal(other.cluster_centers_, fitted.cluster_centers_)
        assert other.trace_.events == fitted.trace_.events

    def test_few_messages_and_few_bytes(self, sd1):
        X, _, owner = sd1
        model = AFCL(privacy="summary", random_state=0).fit(X, clients=owner)
        said = model.trace_.of("hello", "update")
        assert np.bincount([e["client"] for e in said]).max() <= 4
        plans = model.trace_.of("prepare")
        width = max(len(p["seeds"]) + sum(p["candidates"]) for p in plans)
        assert max(e["array_bytes"] for e in said) <= 16 * width * (2 + 4)
        assert model.upload_bytes_ == sum(e["bytes"] for e in said)
        assert model.n_rounds_ == 2

    def test_a_hello_and_seven_sums(self, sd1):
        X, _, owner = sd1
        model = AFCL(random_state=0).fit(X, clients=owner)
        said = model.trace_.of("hello", "update")
        assert np.bincount([e["client"] for e in said]).tolist() == [8] * 5
        phases = [e["phase"] for e in said if e["client"] == 0 and "phase" in e]
        assert phases == [*["count", "presence", "sum"] * 2, "score"]
        assert model.upload_bytes_ == sum(e["bytes"] for e in said)
        assert model.n_rounds_ == 7

    @pytest.mark.parametrize(
        "criterion", ["silhouette", "simplified", "ch", "db", "bic", "free_bic"]
    )
    def test_every_criterion_finds_plain_clusters(self, sd1, criterion):
        X, _, owner = sd1
        model = AFCL(criterion=criterion, random_state=0).fit(X, clients=owner)
        assert model.n_clusters_ == 4


class TestLevel:
    """Which privacy level a run has where none is named."""

    @pytest.fixture
    def far(self, seed):
        rng = np.random.default_rng(seed)
        spots = np.repeat([[0.0, 0.0], [0.0, 50.0], [50.0, 0.0]], 60, axis=0)
        return spots + rng.normal(0, 1, spots.shape), rng.integers(0, 5, 180)

    def test_sums_over_five_sites_find_three_clusters(self, far):
        X, owner = far
        model = AFCL(random_state=0).fit(X, clients=owner)
        assert model.n_clusters_ == 3
        assert model.cluster_sizes_.tolist() == [60, 60, 60]
        assert model.privacy_ == "secure(plain)+summary"

    @pytest.mark.parametrize(
        ("sites", "arguments", "level"),
        [
            (3, {}, "secure(plain)+summary"),
            (2, {}, "summary"),
            (5, {"scale": None}, "summary"),
            (5, {"contacts": 1}, "summary"),
            (5, {"privacy": "Grouped( 5 )"}, "grouped(5)"),
            (5, {"preset": "paper", "privacy": "affine"}, "affine"),
        ],
    )
    @pytest.mark.filterwarnings("ignore::afcl.exceptions.PrivacyWarning")
    @pytest.mark.filterwarnings("ignore::afcl.exceptions.SmallClientsWarning")
    def test_the_level_is_told(self, far, sites, arguments, level):
        X, owner = far
        model = AFCL(random_state=0, **arguments).fit(X, clients=owner % sites)
        assert model.privacy_ == level

    def test_of_methods_without_levels_there_is_none(self, far):
        X, owner = far
        named = make_method("afcl", random_state=0).fit(X, clients=owner)
        assert named.privacy_ == "secure(plain)+summary"
        assert make_method("k-fed", n_clusters=3).fit(X).privacy_ is None

    def test_it_is_saved(self, far, tmp_path):
        X, owner = far
        AFCL(random_state=0).fit(X, clients=owner).save(tmp_path / "model")
        assert AFCL.load(tmp_path / "model").privacy_ == "secure(plain)+summary"

    def test_small_sites_are_pointed_at_sums(self, far):
        X, _ = far
        owner = np.arange(180) % 9
        with pytest.warns(SmallClientsWarning, match=r"'secure\+grouped\(5\)' or"):
            AFCL(privacy="grouped(5)").fit(X, clients=owner)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert AFCL(random_state=0).fit(X, clients=owner).n_clusters_ == 3


class TestPath:
    def test_holds_every_k_with_scores_and_centers(self, fitted):
        path = fitted.path_
        assert path.k[0] == 2
        assert (np.diff(path.k) > 0).all()
        assert set(path.scores) == {
            "silhouette",
            "simplified",
            "ch",
            "db",
            "bic",
            "free_bic",
        }
        assert [c.shape for c in path.centers] == [(k, 2) for k in path.k]
        best = list(path.k).index(fitted.n_clusters_)
        assert np.array_equal(path.centers[best], fitted.cluster_centers_)
        assert path.scores["silhouette"][best] == fitted.scores_["silhouette"]

    def test_cut_at_the_answer_is_the_answer(self, fitted):
        assert np.array_equal(fitted.cut(4), fitted.labels_)

    def test_cut_gives_another_k_without_a_run(self, fitted, sd1):
        labels = fitted.cut(2)
        assert set(labels) == {0, 1}
        assert np.array_equal(fitted.cut(2, sd1[0]), labels)

    def test_cut_off_the_path_says_what_is_on_it(self, fitted):
        with pytest.raises(InputError, match="k=1 is not on the path; it holds 2, 3"):
            fitted.cut(1)


class TestTables:
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_frames_keep_their_column_names(self, sd1, frame):
        X, _, owner = sd1
        tables = [
            frame({"u": X[owner == g, 0], "v": X[owner == g, 1]}) for g in range(5)
        ]
        model = AFCL(random_state=0).fit_clients(tables)
        assert list(model.feature_names_in_) == ["u", "v"]
        swapped = tables[0][["v", "u"]]
        again = AFCL(random_state=0).fit_clients([*tables[1:], swapped])
        assert again.n_clusters_ == model.n_clusters_ == 4
        assert model.predict(frame({"u": [1.0], "v": [5.0]})).shape == (1,)

    def test_arrays_after_frames_forget_the_names(self, sd1):
        X = sd1[0]
        model = AFCL(random_state=0).fit_clients([pd.DataFrame(X, columns=["u", "v"])])
        assert not hasattr(model.fit_clients([X]), "feature_names_in_")

    def test_owners_may_have_any_labels(self, sd1):
        X, _, owner = sd1
        names = np.array(["e", "d", "c", "b", "a"])[owner]
        model = AFCL(random_state=0).fit(X, clients=names)
        assert model.trace_.events[0]["clients"] == list("abcde")

    def test_rows_with_missing_values_can_be_dropped(self, sd1):
        X, _, owner = sd1
        holed = X.copy()
        holed[::50, 1] = np.nan
        model = AFCL(missing="drop", random_state=0).fit(holed, clients=owner)
        assert (model.labels_[::50] == -1).all()
        assert (np.delete(model.labels_, np.s_[::50]) >= 0).all()
        assert np.array_equal(model.predict(holed), model.labels_)
        tables = [holed[owner == g] for g in range(5)]
        again = AFCL(missing="drop", random_state=0).fit_clients(tables)
        assert np.array_equal(np.concatenate(model.client_labels_), again.labels_)
        assert (model.cut(2)[::50] == -1).all()

    def test_given_bounds_are_not_asked_of_the_clients(self, sd1):
        X, _, owner = sd1
        model = AFCL(scale=([0, 0], [6, 6]), random_state=0).fit(X, clients=owner)
        assert model.n_clusters_ == 4
        assert max(e["bytes"] for e in model.trace_.of("ranges")) < 400

    def test_works_in_a_pipeline(self, sd1):
        pipeline = make_pipeline(StandardScaler(), AFCL(scale=None, random_state=0))
        labels = pipeline.fit_predict(sd1[0], afcl__clients=sd1[2])
        assert adjusted_rand_score(sd1[1], labels) > 0.99


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"preset": "fast"}, "preset 'fast' is unknown"),
        ({"privacy": "dp"}, "privacy 'dp': say how much a row may cost"),
        ({"criterion": "gap"}, "unknown criterion 'gap'"),
        ({"n_seeds": "many"}, "n_seeds must be 'auto' or a number"),
        ({"n_seeds": 0}, "n_seeds must be 'auto' or at least 1"),
        ({"max_clusters": 0}, "max_clusters must be 'auto' or at least 1"),
        ({"min_cell": 0}, "min_cell must be a whole number, at least 1"),
        ({"allow_one": 1}, "allow_one must be True or False, not 1"),
        ({"granularity": "mid"}, "granularity must be one of coarse, auto, fine, not"),
        ({"band": -1}, "band must not be negative"),
        ({"cells_per_root": 0}, "cells_per_root must be positive"),
        ({"missing": "guess"}, "missing='guess' is unknown"),
        ({"scale": "odd"}, "scale 'odd' is unknown"),
        ({"scale": 3}, "scale must be 'minmax'"),
        ({"scale": ([0], [1])}, "bounds for 1 columns, the data have 2"),
        ({"participation": "sometimes"}, "participation 'sometimes' is unknown"),
        ({"participation": 1.5}, r"must lie in \[0, 1\]"),
        ({"participation": [0.5, 0.5]}, "2 probabilities for 5 clients"),
        ({"participation": object()}, "is unknown: give 'random'"),
        ({"random_state": -1}, "random_state must not be negative"),
    ],
)
def test_bad_arguments_get_one_clear_line(sd1, arguments, text):
    X, _, owner = sd1
    with pytest.raises(InputError, match=text) as error:
        AFCL(**arguments).fit(X, clients=owner)
    assert "\n" not in str(error.value)


def test_bad_owners_and_tables_get_one_clear_line(sd1):
    X = sd1[0]
    with pytest.raises(InputError, match="the owner of each of the 2300 rows"):
        AFCL().fit(X, clients=[1, 2])
    with pytest.raises(InputError, match="at least one table"):
        AFCL().fit_clients([])
    holed = np.full((20, 2), np.nan)
    holed[:10] = X[:10]
    with pytest.raises(InputError, match=r"needs, 5 \(the largest has n_samples = 4\)"):
        AFCL(missing="drop").fit(holed[6:], clients=["a"] * 4 + ["b"] * 10)
    with pytest.raises(NotFittedError):
        AFCL().predict(X)


@pytest.mark.parametrize("rows", [0, 3])
def test_a_client_that_is_too_small_is_labelled_by_the_others(sd1, rows):
    X, _, _ = sd1
    table = np.vstack([X[:10], np.full((10 - rows, 2), np.nan)])
    clients = ["a"] * (10 - rows) + ["b"] * 10
    with pytest.warns(SmallClientsWarning, match=f"b has {rows} rows, fewer than 5"):
        model = AFCL(missing="drop", random_state=0).fit(table, clients=clients)
    assert (model.labels_[:10] >= 0).all()
    assert (model.labels_[10:] == -1).all()
    assert [e["client"] for e in model.trace_.of("hello")] == [0]
    what = "its rows are labelled by the others' clusters"
    if not rows:
        what = "has no row that could be labelled"
    assert [e["text"] for e in model.trace_.of("note")] == [
        f"b has {rows} rows, fewer than 5: it takes no part, and {what}"
    ]


class TestEdges:
    """A sensible answer or one clear line; warnings are errors in this suite."""

    def check(self, tables, k=None, **arguments):
        model = AFCL(random_state=0, **arguments).fit_clients(tables)
        assert np.isfinite(model.cluster_centers_).all()
        assert model.labels_.min() >= 0
        if k is not None:
            assert model.n_clusters_ == k
        return model

    def test_one_client(self, sd1):
        self.check([sd1[0]], 4)

    def test_one_row(self):
        with pytest.raises(InputError, match=r"the largest has n_samples = 1"):
            AFCL().fit([[1.0, 2.0]])
        self.check([np.array([[1.0, 2.0]])], 1, min_cell=1)

    def test_fewer_rows_than_seeds(self, sd1):
        self.check([sd1[0][:6], sd1[0][6:13]])
        self.check([sd1[0][:9]], n_seeds=50)

    def test_duplicate_rows_only(self):
        model = self.check([np.ones((20, 3)), np.ones((7, 3))], 1)
        assert list(model.path_.k) == [1]
        assert model.scores_["silhouette"] is None
        assert np.isnan(model.path_.scores["silhouette"]).all()

    def test_constant_columns(self, sd1):
        X, _, owner = sd1
        wide = np.column_stack([X, np.full(len(X), 3.5)])
        model = self.check([wide[owner == g] for g in range(5)], 4)
        assert (model.cluster_centers_[:, 2] == 3.5).all()

    def test_all_clients_identical(self, sd1):
        with pytest.warns(SuspicionWarning, match="the same rows as table 1"):
            self.check([sd1[0]] * 4, 4)

    def test_one_feature(self):
        rng = np.random.default_rng(0)
        column = np.concatenate([rng.normal(c, 0.1, 60) for c in (0, 3, 9)])[:, None]
        self.check([column[::2], column[1::2]], 3)

    def test_a_client_that_never_answers(self, sd1):
        X, _, owner = sd1
        tables = [X[owner == g] for g in range(5)]
        self.check(tables, 4, participation=Schedule(silent=(2,)))
        self.check(tables, 4, participation=0.0, max_rounds=5)

    def test_everything_in_one_cluster(self, seed):
        rng = np.random.default_rng(seed)
        self.check([rng.normal(size=(60, 2)), rng.normal(size=(60, 2))])

    def test_max_clusters_of_one(self, sd1):
        self.check([sd1[0]], 1, max_clusters=1)

    def test_two_distinct_rows(self):
        self.check([np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)], 2)

    def test_huge_offsets_and_tiny_spreads(self, sd1):
        X, _, owner = sd1
        shifted = X * 1e-6 + 1e3
        self.check([shifted[owner == g] for g in range(5)], 4)


class TestAsynchrony:
    @pytest.mark.parametrize(
        "schedule",
        [
            Rounds(delay=5),
            Schedule(silent=(0, 1, 2, 3)),
            Schedule(late={2: 8}),
            EventClock(loss=0.3),
            Schedule(leaves={1: 1}),
            Rounds(probability=[0.05, 0.9, 0.2, 0.5, 1.0]),
        ],
        ids=str,
    )
    def test_the_answer_does_not_depend_on_who_is_late(self, schedule, seed):
        X, y = make_mixture(
            8, 4, separation=3, imbalance=3, random_state=seed, n_samples=900
        )
        owner = kmeans_split(X, 5, random_state=seed, min_rows=5)
        if owner.max() < 4:
            owner = np.arange(len(X)) % 5
        model = AFCL(participation=schedule, random_state=seed).fit(X, clients=owner)
        assert model.n_clusters_ == 8

    def test_a_late_clients_cluster_appears_in_the_round_it_joins(self, sd1, seed):
        X, y, _ = sd1
        owner = np.where(y == 3, 4, np.arange(len(y)) % 4)
        model = AFCL(participation=Schedule(late={4: 6}), random_state=seed)
        events = model.fit(X, clients=owner).trace_.of("prepare")
        k = {event["round"]: event["k"] for event in events}
        assert k[max(r for r in k if r < 6)] == 3
        assert k[6] == 4


class TestPresets:
    @pytest.mark.parametrize("preset", ["paper", "matlab"])
    def test_warn_and_run(self, sd1, preset):
        X, _, owner = sd1
        model = AFCL(preset=preset, n_seeds=6, random_state=0, max_rounds=5)
        with pytest.warns(PrivacyWarning, match="every row in a form"):
            model.fit(X, clients=owner)
        assert 1 <= model.n_clusters_ <= 6
        assert np.array_equal(model.predict(X), model.labels_)

    def test_auto_seeds_follow_the_rows(self, sd1):
        X, _, owner = sd1
        with pytest.warns(PrivacyWarning):
            model = AFCL(preset="paper", random_state=0, max_rounds=1).fit(
                X, clients=owner
            )
        assert len(model.trace_.of("prepare")[0]["seeds"]) == 64


class TestSaving:
    @pytest.mark.filterwarnings("ignore::afcl.exceptions.SuspicionWarning")
    def test_walls_are_kept(self, tmp_path):
        """Far rows of one client alone are labelled as they were."""
        rng = np.random.default_rng(0)
        tables = [rng.random((40, 2)) for _ in range(4)]
        tables[0][:6] *= 900
        model = AFCL(random_state=0).fit_clients(tables)
        model.save(tmp_path / "model")
        loaded = AFCL.load(tmp_path / "model")
        assert loaded._box.walls
        assert np.array_equal(loaded.predict(tables[0]), model.client_labels_[0])

    def test_round_trip(self, fitted, sd1, tmp_path):
        fitted.save(tmp_path / "model")
        loaded = AFCL.load(tmp_path / "model")
        assert loaded.get_params() == fitted.get_params()
        assert np.array_equal(loaded.predict(sd1[0]), fitted.labels_)
        assert np.array_equal(loaded.labels_, fitted.labels_)
        assert np.array_equal(loaded.path_.centers[3], fitted.path_.centers[3])
        assert np.array_equal(loaded.cut(2, sd1[0]), fitted.cut(2))
        assert loaded.scores_ == fitted.scores_
        assert loaded.trace_.events == fitted.trace_.events
        assert [len(a) for a in loaded.client_labels_] == [
            len(a) for a in fitted.client_labels_
        ]
        with pytest.raises(InputError, match=r"call cut\(k, X\)"):
            loaded.cut(2)

    def test_keeps_names_bounds_and_drops_schedules(self, sd1, tmp_path):
        frame = pd.DataFrame(sd1[0], columns=["u", "v"])
        model = AFCL(
            scale=(np.zeros(2), np.array([6, 6])),
            participation=Rounds(delay=1),
            n_seeds=40,
            random_state=0,
        )
        model.fit_clients([frame]).save(tmp_path)
        loaded = AFCL.load(tmp_path)
        assert list(loaded.feature_names_in_) == ["u", "v"]
        assert loaded.scale == ([0.0, 0.0], [6, 6])
        assert loaded.participation is None
        assert np.array_equal(loaded.predict(frame), model.labels_)
        model.set_params(participation=np.array([0.5])).save(tmp_path)
        assert AFCL.load(tmp_path).participation == [0.5]

    def test_holds_no_row_and_no_pickle(self, fitted, sd1, tmp_path):
        fitted.save(tmp_path)
        assert sorted(p.name for p in tmp_path.iterdir()) == [
            "arrays.npz",
            "model.json",
        ]
        with np.load(tmp_path / "arrays.npz", allow_pickle=False) as arrays:
            rows = {tuple(row) for row in sd1[0]}
            for name in arrays.files:
                if arrays[name].ndim == 2:
                    assert not rows & {tuple(row) for row in arrays[name]}

    def test_refuses_what_is_not_a_model(self, fitted, tmp_path):
        with pytest.raises(InputError, match="holds no saved model"):
            AFCL.load(tmp_path)
        fitted.save(tmp_path)
        with pytest.raises(InputError, match="holds a AFCL of format 1, not a Method"):
            type(make_method("afcl")).load(tmp_path)

    def test_any_method_saves(self, sd1, tmp_path):
        X, _, owner = sd1
        model = make_method("afcl", min_cell=3, random_state=0).fit(X, clients=owner)
        model.save(tmp_path)
        loaded = type(model).load(tmp_path)
        assert loaded.get_params() == model.get_params()
        assert np.array_equal(loaded.predict(X), model.labels_)


class TestMakeMethod:
    def test_is_an_estimator_of_the_same_form(self, fitted, sd1):
        X, _, owner = sd1
        model = make_method("afcl", participation="random", random_state=0)
        model = clone(model).fit(X, clients=owner)
        assert np.array_equal(model.labels_, fitted.labels_)

    def test_options_are_parameters(self):
        model = make_method("afcl", min_cell=3).set_params(min_cell=7, scale=None)
        assert model.get_params()["min_cell"] == 7
        assert model.get_params()["scale"] is None
        assert clone(model).get_params() == model.get_params()

    def test_checks_name_and_options_at_once(self):
        with pytest.raises(InputError, match="unknown method 'k-med'; choose one of"):
            make_method("k-med")
        with pytest.raises(
            InputError, match="min_cell must be a whole number, at least 1"
        ):
            make_method("afcl", min_cell=0)
        with pytest.raises(InputError, match="afcl has no option 'speed'"):
            make_method("afcl", speed=1)


def test_verbose_logs_progress(sd1, caplog):
    with caplog.at_level(logging.INFO, logger="afcl"):
        AFCL(verbose=True, random_state=0).fit(sd1[0])
    assert "k = 4" in caplog.text


class TestPickling:
    def test_predicts_and_shows_as_before(self, fitted, sd1):
        again = pickle.loads(pickle.dumps(fitted))
        assert np.array_equal(again.predict(sd1[0]), fitted.labels_)
        assert np.array_equal(again.labels_, fitted.labels_)
        assert np.array_equal(again.cluster_centers_, fitted.cluster_centers_)
        assert np.array_equal(again.path_.k, fitted.path_.k)
        assert np.array_equal(again.cut(2, sd1[0]), fitted.cut(2))
        assert [a.tolist() for a in again.client_labels_] == [
            a.tolist() for a in fitted.client_labels_
        ]
        with pytest.raises(InputError, match=r"call cut\(k, X\)"):
            again.cut(2)

    @pytest.mark.parametrize("how", ["fit", "fit_clients"])
    @pytest.mark.parametrize("privacy", ["summary", "grouped(3)", "secure"])
    @pytest.mark.filterwarnings("ignore::afcl.exceptions.SmallClientsWarning")
    def test_holds_no_row(self, how, privacy):
        X = np.random.default_rng(0).normal(size=(600, 40))
        owner = np.repeat(np.arange(12), 50)
        model = AFCL(random_state=0, max_rounds=2, privacy=privacy)
        if how == "fit":
            model.fit(X, clients=owner)
        else:
            model.fit_clients([X[owner == g] for g in range(12)])
        with io.BytesIO() as file:
            joblib.dump(model, file)
            written = (pickle.dumps(model), file.getvalue())
        for data in written:
            for rows in (X, model._box.scale(X)):
                for part in (*rows, *rows.T[:, :20]):
                    assert part.tobytes() not in data
                    assert part.astype(np.float32).tobytes() not in data

    def test_does_not_grow_with_the_rows(self):
        rng = np.random.default_rng(0)
        spots = rng.normal(size=(3, 50)) * 9
        sizes = []
        for n in (600, 6000):
            X = spots[np.arange(n) % 3] + rng.normal(size=(n, 50))
            sizes.append(len(pickle.dumps(AFCL(random_state=0, n_seeds=8).fit(X))))
        labels = 2 * 8 * (6000 - 600)  # labels_ and client_labels_ do
        cells = 8 * 50 * 3 * (6000**0.5 - 600**0.5)  # of the last answer, by the root
        assert sizes[1] - sizes[0] < 1.2 * (labels + cells) < 8 * 50 * 5400 / 10

    def test_labels_kept_elsewhere_stay_there(self, fitted):
        model = copy.copy(fitted)
        model.client_labels_ = [iter(()), np.arange(3)]
        again = pickle.loads(pickle.dumps(model))
        assert [len(labels) for labels in again.client_labels_] == [0, 3]

    def test_a_pickle_of_before_loads_without_its_rows(self, fitted, sd1):
        before = {**vars(fitted), "_fit_rows": [sd1[0]]}
        again = AFCL.__new__(AFCL)
        again.__setstate__(before)
        assert again._fit_rows is None
        assert np.array_equal(again.predict(sd1[0]), fitted.labels_)

    def test_copies_within_the_process_keep_the_rows(self, fitted):
        for twin in (copy.copy(fitted), copy.deepcopy(fitted)):
            assert np.array_equal(twin.cut(2), fitted.cut(2))

    def test_unfitted(self):
        assert pickle.loads(pickle.dumps(AFCL(min_cell=7))).min_cell == 7


def test_random_state_none_and_generator_like(sd1):
    X, _, owner = sd1
    for state in (None, np.random.RandomState(3)):
        assert AFCL(random_state=state).fit(X, clients=owner).n_clusters_ == 4

# SPDX-License-Identifier: Apache-2.0
"""What users of the estimator expect: docstrings, distances, memberships, pages."""

import ast
import inspect
import logging
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from afcl import AFCL, KPath, make_method
from afcl.data.synthetic import make_mixture, make_sd1
from afcl.exceptions import InputError
from afcl.metrics import simplified_silhouette
from afcl.runtime.progress import bar, progress

USER_SCRIPT = Path(__file__).parent / "user_script.py"


@pytest.fixture(scope="module")
def sd1():
    return make_sd1(0)[0]


@pytest.fixture(scope="module")
def model(sd1):
    return AFCL(random_state=0).fit(sd1, clients=np.arange(len(sd1)) % 5)


def section(name):
    """Return the entries of a section of AFCL's docstring: name and type."""
    text = inspect.getdoc(AFCL) or ""
    _, _, rest = text.partition(f"\n{name}\n{'-' * len(name)}\n")
    part = re.split(r"\n\n\w+\n-+\n", rest)[0]
    return dict(re.findall(r"^(\w+) : (.+)$", part, flags=re.MULTILINE))


class TestDocstring:
    def test_every_parameter_has_a_line_of_its_own_with_its_default(self):
        signature = inspect.signature(AFCL.__init__).parameters
        documented = section("Parameters")
        assert list(documented) == [name for name in signature if name != "self"]
        for name, kind in documented.items():
            told = kind.rpartition("default=")[2]
            assert ast.literal_eval(told) == signature[name].default, name

    def test_every_fitted_attribute_is_there(self, model):
        fitted = {name for name in vars(model) if name.endswith("_")}
        fitted = {name for name in fitted if not name.startswith("_")}
        documented = set(section("Attributes"))
        assert fitted <= documented
        named = {"feature_names_in_"}  # of frames only
        assert {name for name in documented if not hasattr(model, name)} == named

    def test_help_shows_them(self):
        assert "cluster_spreads_ :" in (AFCL.__doc__ or "")


class TestDistances:
    def test_the_smallest_is_the_labels(self, model, sd1):
        distances = model.transform(sd1)
        assert distances.shape == (len(sd1), 4)
        assert np.array_equal(distances.argmin(axis=1), model.labels_)

    def test_they_are_euclidean_in_agreed_units(self, model):
        low, span = model._box.low, model._box.span
        row = np.array([[2.0, 3.0]])
        away = (row - low) / span - (model.cluster_centers_ - low) / span
        assert np.allclose(model.transform(row)[0], np.sqrt((away**2).sum(axis=1)))

    def test_names_and_frames(self, model, sd1):
        names = model.get_feature_names_out().tolist()
        assert names == ["afcl0", "afcl1", "afcl2", "afcl3"]
        twin = pickle.loads(pickle.dumps(model))
        frame = twin.set_output(transform="pandas").transform(sd1[:3])
        assert list(frame.columns) == names
        assert model.center_columns_.tolist() == ["x0", "x1"]

    def test_in_a_pipeline(self, sd1):
        flow = make_pipeline(StandardScaler(), AFCL(random_state=0))
        assert flow.fit_transform(sd1).shape == (len(sd1), 4)
        assert flow.predict_proba(sd1).shape == (len(sd1), 4)

    def test_rows_without_a_label_have_none(self):
        X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 30, axis=0)
        X += np.random.default_rng(0).normal(0, 0.1, X.shape)
        fitted = AFCL(missing="drop", random_state=0).fit(X)
        rows = np.array([[np.nan, 0.0], [9.0, 9.0]])
        for values in (fitted.transform(rows), fitted.predict_proba(rows)):
            assert np.isnan(values).all(axis=1).tolist() == [True, False]
        assert np.isnan(fitted.score_samples(rows)).tolist() == [True, False]
        assert fitted.score(rows) == fitted.score(rows[1:])

    def test_gaps_are_bridged(self):
        X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 30, axis=0)
        X += np.random.default_rng(0).normal(0, 0.1, X.shape)
        fitted = AFCL(missing="available", random_state=0).fit(X)
        rows = np.array([[np.nan, 0.1], [np.nan, 8.9]])
        labels = fitted.predict(rows)
        assert np.array_equal(fitted.transform(rows).argmin(axis=1), labels)
        assert np.array_equal(fitted.predict_proba(rows).argmax(axis=1), labels)


class TestScore:
    def test_it_is_the_mean_simplified_silhouette(self, model, sd1):
        scaled = model._box.scale(sd1)
        centers = model._box.scale(model.cluster_centers_)
        told = simplified_silhouette(scaled, model.labels_, centers)
        assert model.score(sd1) == pytest.approx(told, abs=1e-12)

    def test_weights_count(self, model, sd1):
        weights = np.random.default_rng(0).integers(0, 4, len(sd1))
        repeated = np.repeat(sd1, weights, axis=0)
        assert model.score(sd1, sample_weight=weights) == pytest.approx(
            model.score(repeated)
        )

    @pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")
    def test_one_cluster_scores_minus_one(self):
        X = np.random.default_rng(0).normal(size=(200, 2))
        alone = AFCL(random_state=0, max_clusters=1).fit(X)
        assert alone.score(X) == -1
        assert np.array_equal(alone.predict_proba(X), np.ones((200, 1)))


def calibration_error(shares, own, bins=15):
    """Expected calibration error of the likeliest cluster."""
    sure, right = shares.max(axis=1), shares.argmax(axis=1) == own
    part = np.minimum((sure * bins).astype(int), bins - 1)
    gaps = [
        abs(right[part == b].mean() - sure[part == b].mean()) * (part == b).mean()
        for b in np.unique(part)
    ]
    return float(sum(gaps))


class TestMemberships:
    @pytest.mark.parametrize(("k", "d", "separation"), [(3, 2, 1.8), (5, 5, 1.8)])
    def test_they_are_calibrated_on_rows_held_out(self, seed, k, d, separation):
        X, y = make_mixture(
            k,
            d,
            n_samples=3000,
            separation=separation,
            imbalance=3.0,
            random_state=seed,
        )
        turn = np.random.default_rng(seed).permutation(len(X))
        train, held = turn[:1500], turn[1500:]
        fitted = AFCL(shape="convex", random_state=seed)
        fitted.fit(X[train], clients=np.arange(1500) % 5)
        assert fitted.n_clusters_ == k
        together = np.zeros((k, k))
        np.add.at(together, (y[train], fitted.labels_), 1)
        cluster = linear_sum_assignment(together, maximize=True)[1]
        shares = fitted.predict_proba(X[held])
        assert np.allclose(shares.sum(axis=1), 1)
        assert calibration_error(shares, cluster[y[held]]) <= 0.05

    def test_spreads_are_those_of_the_rows(self, model, sd1):
        for cluster in range(4):
            rows = sd1[model.labels_ == cluster]
            true = np.sqrt(((rows - model.cluster_centers_[cluster]) ** 2).mean(axis=0))
            assert np.allclose(model.cluster_spreads_[cluster], true, rtol=0.15)

    def test_far_rows_are_outliers(self, model, sd1):
        far = np.array([[3.0, 3.0], [40.0, -40.0]])
        usual = model.score_samples(sd1)
        odd = model.score_samples(far)
        assert odd[1] < odd[0] < np.quantile(usual, 0.01)

    def test_saved_and_unpickled_models_have_them(self, model, sd1, tmp_path):
        model.save(tmp_path / "model")
        again = AFCL.load(tmp_path / "model")
        shares = model.predict_proba(sd1)
        assert np.array_equal(again.predict_proba(sd1), shares)
        assert np.array_equal(
            pickle.loads(pickle.dumps(model)).predict_proba(sd1), shares
        )

    def test_a_method_without_spreads_says_so(self, sd1):
        rival = make_method("k-fed", n_clusters=4, random_state=0).fit(sd1)
        assert rival.cluster_spreads_ is None
        for use in (rival.predict_proba, rival.score_samples):
            with pytest.raises(InputError, match="needs the spreads"):
                use(sd1)

    def test_a_method_without_centres_says_so(self, model, sd1):
        other = pickle.loads(pickle.dumps(model))
        other.cluster_centers_ = None
        for name in ("transform", "score", "predict_proba", "score_samples"):
            with pytest.raises(InputError, match=f"{name} needs centres"):
                getattr(other, name)(sd1)

    def test_labelled_cells_have_no_distances(self, model, sd1):
        other = pickle.loads(pickle.dumps(model))
        other.cell_labels_ = np.zeros(3, dtype=np.int64)
        with pytest.raises(InputError, match="these are labelled cells"):
            other.transform(sd1)

    @pytest.mark.parametrize(
        "name", ["transform", "score", "predict_proba", "score_samples", "predict"]
    )
    def test_an_unfitted_one_says_so(self, name):
        with pytest.raises(NotFittedError):
            getattr(AFCL(), name)(np.eye(3))


class TestWeights:
    def test_they_stand_for_rows(self, sd1):
        weights = np.random.default_rng(1).integers(0, 4, len(sd1))
        fitted = AFCL(random_state=0).fit(sd1, sample_weight=weights)
        assert fitted.n_clusters_ == 4
        assert fitted.cluster_sizes_.sum() == weights.sum()
        assert np.array_equal(fitted.predict(sd1), fitted.labels_)

    def test_labels_can_be_had_at_once(self, sd1):
        weights = np.full(len(sd1), 2)
        labels = AFCL(random_state=0).fit_predict(sd1, sample_weight=weights)
        assert np.bincount(labels).tolist() == [1500, 500, 200, 100]

    @pytest.mark.parametrize("privacy", ["summary", "grouped(5)"])
    def test_they_never_count_towards_min_cell(self, sd1, privacy):
        """No cell that is sent has fewer than five different rows."""
        owner = np.arange(len(sd1)) % 2
        weights = np.where(np.arange(len(sd1)) % 50 < 2, 7, 1)
        fitted = AFCL(privacy=privacy, random_state=0)
        fitted.fit(sd1, clients=owner, sample_weight=weights)
        asked = fitted.trace_.of("run")[0]["parameters"]
        assert asked["min_cell"] == 35
        if privacy != "summary":
            assert fitted.privacy_ == "grouped(35)"
        assert fitted.n_clusters_ == 4

    def test_a_later_fit_forgets_them(self, sd1):
        fitted = AFCL(random_state=0).fit(sd1, sample_weight=np.full(len(sd1), 3))
        fitted.fit(sd1)
        assert fitted.trace_.of("run")[0]["parameters"]["min_cell"] == 5
        assert fitted.cluster_sizes_.sum() == len(sd1)

    @pytest.mark.parametrize(
        ("weights", "text"),
        [
            (np.ones(3), "expected"),
            (np.full(2300, 0.5), "whole numbers"),
            (np.full(2300, -1.0), "whole numbers"),
            (np.full(2300, np.nan), "whole numbers"),
            (np.zeros(2300), "zero for every row"),
            (np.full(2300, 1e6), "divide the weights"),
        ],
    )
    def test_others_are_refused(self, sd1, weights, text):
        with pytest.raises(InputError, match=text) as caught:
            AFCL().fit(sd1, sample_weight=weights)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("privacy", "clients"),
        [
            (None, 5),
            ("secure(plain)+summary", 5),
            ("secure+grouped(5)", 5),
            ("dp(8)", 1),
        ],
    )
    def test_levels_that_cannot_keep_them_refuse_them(self, sd1, privacy, clients):
        scale = (np.zeros(2), np.full(2, 7.0))
        fitted = AFCL(privacy=privacy, scale=scale, random_state=0)
        owner = np.arange(len(sd1)) % clients
        with pytest.raises(InputError, match="cannot be kept at") as caught:
            fitted.fit(sd1, clients=owner, sample_weight=np.full(len(sd1), 2))
        assert "\n" not in str(caught.value)

    def test_other_methods_refuse_them(self, sd1):
        with pytest.raises(InputError, match="belongs to AFCL's default preset"):
            make_method("k-fed", n_clusters=2).fit(
                sd1, sample_weight=np.full(len(sd1), 2)
            )

    def test_ones_are_no_weights(self, sd1):
        owner = np.arange(len(sd1)) % 5
        fitted = AFCL(random_state=0)
        fitted.fit(sd1, clients=owner, sample_weight=1)
        assert fitted.privacy_ == "secure(plain)+summary"


class TestShown:
    def test_the_diagram_says_k_and_level(self, model):
        assert "4 clusters, privacy level secure(plain)+summary" in model._repr_html_()
        assert "privacy level" not in AFCL()._repr_html_()
        flow = make_pipeline(StandardScaler(), model)
        assert "4 clusters, privacy level" in flow._repr_html_()

    def test_the_path_is_short_and_a_frame(self, model):
        path = model.path_
        text = repr(path)
        assert re.fullmatch(
            r"KPath\(k = 2 to \d+, best silhouette 0\.\d+ at k = 4\)", text
        )
        for kind in ("polars", "pandas"):
            frame = path.to_frame(kind)
            assert list(frame["k"]) == path.k.tolist()
            assert set(frame.columns) == {"k", *path.scores}
        with pytest.raises(InputError, match="kind='table' is unknown"):
            path.to_frame("table")
        assert repr(KPath(np.empty(0, dtype=np.int64), {}, [])) == "KPath(empty)"
        assert repr(KPath(np.array([2, 3]), {}, [])) == "KPath(k = 2 to 3)"

    def test_a_page(self, model, tmp_path):
        page = model.report(tmp_path / "page.html")
        text = page.read_text(encoding="utf-8")
        assert "4 clusters" in text
        model.save(tmp_path / "model")
        again = AFCL.load(tmp_path / "model").report(str(tmp_path / "again.html"))
        told = again.read_text(encoding="utf-8")
        assert told.replace("afcl/again", "afcl/page") == text

    def test_an_older_model_has_no_page(self, model, tmp_path):
        state = model.__getstate__()
        del state["_result"], state["cluster_spreads_"]
        old = AFCL.__new__(AFCL)
        old.__setstate__(state)
        with pytest.raises(InputError, match="of an older version"):
            old.report(tmp_path / "page.html")

    def test_verbose_shows_lines_where_there_is_no_terminal(self, sd1, capsys):
        AFCL(random_state=0, verbose=True).fit(sd1)
        lines = capsys.readouterr().err.splitlines()
        assert lines
        assert all(re.fullmatch(r"afcl: round \d+: k = \d+ \(\w+\)", e) for e in lines)

    def test_verbose_shows_a_bar_on_a_terminal(self, monkeypatch):
        from rich.console import Console

        console = Console(force_terminal=True, stderr=True, width=80)
        with console.capture() as shown, bar(10, console) as show:
            show({"event": "send", "tick": 0})
            show({"event": "prepare", "tick": 0, "round": 3, "k": 4})
        assert "k = 4" in shown.get()
        assert "round 3 of at most 10" in shown.get()
        monkeypatch.setenv("FORCE_COLOR", "1")  # counts as a terminal
        with progress(10) as show:
            assert show.__qualname__.startswith("bar")

    def test_who_logs_gets_lines_of_the_log(self, caplog):
        with caplog.at_level(logging.INFO, logger="afcl"), progress(10) as show:
            show({"event": "send", "tick": 0})
            show({"event": "end", "tick": 0, "round": 3, "k": 4})
        assert caplog.messages == ["round 3: k = 4 (end)"]


def test_gaps_get_advice_that_applies():
    X = np.ones((9, 2))
    X[3, 1] = np.nan
    for use in (AFCL().fit, lambda rows: AFCL().fit_clients([rows, rows])):
        with pytest.raises(ValueError, match="contains NaN") as caught:
            use(X)
        text = str(caught.value)
        assert "missing='drop', 'impute' or 'available'" in text
        assert "sklearn" not in text
        assert "\n" not in text


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-m", "mypy", "--strict", "--config-file="],
        [sys.executable, "-m", "pyright", f"--pythonpath={sys.executable}"],
    ],
    ids=["mypy", "pyright"],
)
def test_a_users_script_has_no_type_errors(command, tmp_path):
    pytest.importorskip(command[2])
    # Elsewhere, so that no setting of this repository counts.
    script = tmp_path / "script.py"
    script.write_text(USER_SCRIPT.read_text())
    done = subprocess.run(
        [*command, str(script)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_users_script_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(USER_SCRIPT)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr

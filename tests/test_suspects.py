# SPDX-License-Identifier: Apache-2.0
"""Data in memory that would spoil an answer are named after a fit."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from afcl import AFCL
from afcl.data.synthetic import random_mixture
from afcl.estimators.suspects import suspicions_in
from afcl.exceptions import (
    AfclWarning,
    ColumnWarning,
    InputError,
    OwnersWarning,
    SmallClientsWarning,
    SuspicionWarning,
)

pytestmark = pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning")


def spots(seed=0, n=300):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    return places[kind] + rng.normal(0, 0.7, (n, 2))


def said(fit):
    """Return what a fit says of its data."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit()
    about = [w.message for w in caught if isinstance(w.message, SuspicionWarning)]
    return model, [str(message) for message in about]


def found(tables, scale="minmax", dates=()):
    names = [f"table {i + 1}" for i in range(len(tables))]
    columns = [f"x{i}" for i in range(tables[0].shape[1])]
    return suspicions_in(tables, names, columns, (), dates, scale)


class TestWarnings:
    def test_a_sentinel_is_named_with_its_table(self, tmp_path):
        tables = [spots(seed) for seed in range(3)]
        tables[1][:10, 0] = -999
        model, lines = said(lambda: AFCL(random_state=0).fit_clients(tables))
        assert len(lines) == 1
        assert "'x0' has -999 in 10 cells of table 2" in lines[0]
        assert "write NaN there and give missing='impute' (see docs/" in lines[0]
        page = model.report(tmp_path / "report.html").read_text()
        assert "Look at the data first" in page
        assert "-999 in 10 cells" in page
        model.save(tmp_path / "model")
        again = AFCL.load(tmp_path / "model").report(tmp_path / "again.html")
        assert "-999 in 10 cells" in again.read_text()

    @pytest.mark.parametrize("seed", range(3))
    def test_a_client_that_alone_stretches_columns_is_named(self, seed):
        tables = [spots(seed + i) for i in range(4)]
        tables.append(np.full((40, 2), 1e300))
        model, lines = said(lambda: AFCL(random_state=seed).fit_clients(tables))
        assert model.n_clusters_ == 3
        (line,) = lines
        assert line.startswith("client 4 alone stretches columns 1, 2 up to over a ")
        assert "check units, or give scale=(low, high) (see docs/" in line

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_columns_of_frames_go_by_their_names(self, frame):
        X = spots()
        rng = np.random.default_rng(1)
        table = frame(
            {
                "a": X[:, 0],
                "b": X[:, 1],
                "member": rng.integers(0, 2, len(X)),
                "patient": np.arange(len(X)) + 1001,
            }
        )
        _, lines = said(lambda: AFCL(random_state=0).fit(table))
        assert "'patient' looks like ids" in lines[1]
        assert "leave it out" in lines[1]
        assert "'member' has two values only" in lines[0]
        assert "make it a category" in lines[0]
        assert not any("--" in line for line in lines)

    def test_clean_data_and_weights_are_silent(self):
        X = spots()
        weights = np.full(len(X), 3)
        assert not said(lambda: AFCL(random_state=0).fit(X))[1]
        model = AFCL(random_state=0, privacy="summary")
        assert not said(lambda: model.fit(X, sample_weight=weights))[1]

    def test_at_dp_nothing_is_kept(self, tmp_path):
        tables = [spots(seed) for seed in range(3)]
        tables[0][:10, 0] = -999
        bounds = ([-1000.0, -5.0], [15.0, 15.0])
        model = AFCL(random_state=0, privacy="dp(8)", scale=bounds, seeded_noise=True)
        model, lines = said(lambda: model.fit_clients(tables))
        assert "-999" in lines[0]
        page = model.report(tmp_path / "report.html").read_text()
        assert "Look at the data first" not in page

    def test_very_many_of_a_kind_are_one_line(self):
        X = np.column_stack([spots(), *(spots()[:, :1] > t for t in range(1, 8))])
        _, lines = said(lambda: AFCL(random_state=0).fit(X))
        assert len(lines) == 4
        assert "two values also: 'x5', 'x6'" in lines[3]

    def test_it_is_one_of_ours(self):
        assert issubclass(SuspicionWarning, AfclWarning)


class TestRules:
    @pytest.mark.parametrize("seed", range(0, 200, 10))
    def test_mixtures_are_not_suspicious(self, seed):
        X, _ = random_mixture(seed)
        assert not found(np.array_split(X, 1 + seed % 7))

    def test_of_many_rows_some_and_the_extremes(self):
        X = np.tile(spots(), (400, 1)) + np.arange(120_000)[:, None] / 1e6
        X = np.column_stack([X, np.random.default_rng(0).permutation(120_000)])
        X[77_777, 0] = -999
        kinds = {each.kind: each.text for each in found([X])}
        assert set(kinds) == {"ids", "sentinel"}
        assert "-999 in at least 1 cell" in kinds["sentinel"]

    def test_gaps_do_not_hide_extremes(self):
        X = np.tile(spots(), (400, 1)) + np.arange(120_000)[:, None] / 1e6
        X[::7, 1] = np.nan
        X[1, 1] = -999
        assert [each.kind for each in found([X])] == ["sentinel"]

    def test_neighbours_of_very_many_tables_are_taken_together(self):
        tables = [spots(seed, 10) for seed in range(200)]
        for table in tables[44:46]:
            table[:3, 0] = -999
        (only,) = found(tables)
        assert "6 cells of table 45 to table 48" in only.text

    def test_given_bounds_and_quantiles_excuse(self):
        X = np.column_stack([spots(), np.arange(300) % 2])
        assert [each.kind for each in found([X])] == ["two values"]
        assert not found([X], scale=(np.zeros(3), np.ones(3)))
        X = spots()
        X[0, 0] = 1e6
        assert [each.kind for each in found([X])] == ["extreme"]
        assert not found([X], scale="robust")

    def test_dates_are_not_judged(self):
        X = np.column_stack([spots(), np.arange(300) + 20_000.0])
        assert [each.kind for each in found([X])] == ["ids"]
        assert not found([X], dates=["x2"])


class TestPage:
    def test_it_has_a_day_and_what_was_left_out(self, tmp_path):
        frames = [pl.DataFrame(spots(seed), schema=["a", "b"]) for seed in range(3)]
        frames[0] = frames[0].with_columns(c=frames[0]["a"])
        with pytest.warns(ColumnWarning, match="column 'c' left out"):
            model = AFCL(random_state=0, missing="impute").fit_clients(frames)
        model.save(tmp_path / "model")
        for each in (model, AFCL.load(tmp_path / "model")):
            page = each.report(tmp_path / "report.html").read_text()
            assert "Run of 20" in page
            assert "Dropped or left out" in page
            assert "left out: only table 1 has it" in page


class TestOneLine:
    def test_an_empty_client_is_left_out(self):
        tables = [spots(0), np.empty((0, 2)), spots(1)]
        with pytest.warns(SmallClientsWarning, match="has 0 rows, fewer than 5"):
            model = AFCL(random_state=0).fit_clients(tables)
        assert [len(labels) for labels in model.client_labels_] == [300, 0, 300]
        assert model.n_clusters_ == 3
        with pytest.raises(ValueError, match="0 sample"):
            AFCL().fit_clients([np.empty((0, 2))] * 2)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_tables_are_numbered_from_one_or_named(self, value):
        tables = [spots(seed) for seed in range(3)]
        tables[1][4, 1] = value
        with pytest.raises(InputError, match="^table 2 contains"):
            AFCL().fit_clients(tables)
        named = dict(zip(["north", "south", "west"], tables, strict=True))
        with pytest.raises(InputError, match="^south contains"):
            AFCL().fit_clients(named)

    def test_infinity_among_gaps(self):
        X = spots()
        X[0, 0], X[4, 1] = np.nan, -np.inf
        with pytest.raises(InputError, match="row 5, column 2"):
            AFCL(missing="impute").fit(X)

    @pytest.mark.parametrize("nobody", [None, np.nan])
    def test_rows_without_an_owner(self, nobody):
        frame = pd.DataFrame(spots(), columns=["a", "b"])
        frame["site"] = pd.Series(["n"] * 299 + [nobody], dtype=object)
        with pytest.raises(InputError, match="no owner of row 300"):
            AFCL().fit(frame, clients="site")
        with pytest.raises(InputError, match="owners of different types"):
            AFCL().fit(spots(), clients=np.array([1, "a"] * 150, dtype=object))

    def test_a_column_twice(self):
        frame = pd.DataFrame(spots(), columns=["a", "a"])
        with pytest.raises(InputError, match="'a' occurs twice"):
            AFCL().fit(frame)
        with pytest.raises(InputError, match="table 2: column 'a' occurs twice"):
            AFCL().fit_clients([frame.set_axis(["a", "b"], axis=1), frame])

    def test_texts_that_are_ignored(self):
        with pytest.warns(OwnersWarning, match="pass clients="):
            AFCL(random_state=0).fit(spots(), ["n", "s"] * 150)

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_the_owners_column_may_stay(self, frame, tmp_path):
        X = spots()
        table = frame({"a": X[:, 0], "site": ["n", "s", "w"] * 100, "b": X[:, 1]})
        model = AFCL(random_state=0).fit(table, clients="site")
        model.save(tmp_path / "model")
        for each in (model, AFCL.load(tmp_path / "model")):
            np.testing.assert_array_equal(each.predict(table), model.labels_)

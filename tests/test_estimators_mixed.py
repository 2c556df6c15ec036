# SPDX-License-Identifier: Apache-2.0
"""Estimators on frames: texts are categories, owners may be a column, names count."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from afcl import AFCL
from afcl.exceptions import ColumnWarning, InputError, TrustWarning


def frames(seed, sites=3, n=80):
    """Frames of three kinds of rows, told apart by numbers and a colour."""
    rng = np.random.default_rng(seed)
    made = {}
    for name in ("north", "south", "west", "east")[:sites]:
        y = rng.integers(0, 3, n)
        made[name] = pl.DataFrame(
            {
                "size": np.array([0.0, 4.0, 4.0])[y] + rng.normal(0, 0.4, n),
                "weight": np.array([0.0, 0.0, 4.0])[y] + rng.normal(0, 0.4, n),
                "colour": np.array(["red", "Blue", "green"])[y],
            }
        )
    return made


def test_texts_are_categories(seed):
    tables = frames(seed)
    model = AFCL(random_state=seed).fit_clients(tables)
    assert model.n_clusters_ == 3
    assert model.feature_names_in_.tolist() == ["size", "weight", "colour"]
    assert model.n_features_in_ == 3
    names = model.center_columns_.tolist()
    assert names == ["size", "weight", "colour=Blue", "colour=green", "colour=red"]
    shares = model.cluster_centers_[:, 2:]
    assert np.abs(np.sort(shares, axis=1) - [0, 0, 1]).max() < 0.05
    for table, labels in zip(tables.values(), model.client_labels_, strict=True):
        assert np.array_equal(model.predict(table), labels)


def test_frames_of_pandas_give_the_same(seed):
    pytest.importorskip("pandas")
    tables = frames(seed)
    ours = AFCL(random_state=seed).fit_clients(tables)
    theirs = AFCL(random_state=seed).fit_clients(
        {name: table.to_pandas() for name, table in tables.items()}
    )
    assert np.array_equal(ours.labels_, theirs.labels_)


def test_owners_in_a_column(seed):
    tables = frames(seed)
    whole = pl.concat(
        [table.with_columns(site=pl.lit(name)) for name, table in tables.items()]
    )
    model = AFCL(random_state=seed).fit(whole, clients="site")
    apart = AFCL(random_state=seed).fit_clients(tables)
    assert np.array_equal(model.labels_, apart.labels_)
    assert "site" not in model.feature_names_in_
    assert np.array_equal(model.cut(3), model.labels_)
    with pytest.raises(InputError, match="clients='clinic' is no column of X"):
        AFCL().fit(whole, clients="clinic")
    with pytest.raises(InputError, match="clients='site' is no column of X"):
        AFCL().fit(np.eye(9), clients="site")


def test_a_saved_model_knows_its_categories(seed, tmp_path):
    tables = frames(seed)
    model = AFCL(random_state=seed).fit_clients(tables)
    model.save(tmp_path / "model")
    again = AFCL.load(tmp_path / "model")
    new = tables["south"].with_columns(colour=pl.lit("pink"))
    assert np.array_equal(again.predict(new), model.predict(new))
    assert again.center_columns_.tolist() == (model.center_columns_.tolist())


def test_gaps_in_categories(seed):
    tables = frames(seed)
    colours = [c if i % 8 else None for i, c in enumerate(tables["north"]["colour"])]
    holed = tables["north"].with_columns(colour=pl.Series(colours))
    with pytest.raises(ValueError, match="contains NaN"):
        AFCL(random_state=seed).fit_clients({**tables, "north": holed})
    model = AFCL(missing="impute", random_state=seed)
    model.fit_clients({**tables, "north": holed})
    whole = AFCL(random_state=seed).fit_clients(tables)
    assert model.n_clusters_ == 3
    assert np.mean(model.labels_ == whole.labels_) > 0.99


def test_what_is_left_out_is_told(seed):
    tables = {
        name: table.with_columns(name=pl.Series([f"{name}{i}" for i in range(80)]))
        for name, table in frames(seed).items()
    }
    with pytest.warns(ColumnWarning, match="column 'name' left out: 240 different"):
        model = AFCL(random_state=seed).fit_clients(tables)
    assert model.n_clusters_ == 3


def test_bounds_are_those_of_the_numbers(seed):
    tables = frames(seed)
    bounds = ([-2.0, -2.0], [6.0, 6.0])
    model = AFCL(scale=bounds, random_state=seed).fit_clients(tables)
    assert model.n_clusters_ == 3
    with pytest.raises(InputError, match="bounds for 1 columns, 2 are numbers"):
        AFCL(scale=([0.0], [1.0])).fit_clients(tables)
    with pytest.raises(InputError, match="levels of a category must not come from"):
        AFCL(scale=bounds, privacy="dp(8)").fit_clients(tables)


def test_arrays_and_texts_do_not_mix(seed):
    tables = list(frames(seed).values())
    with pytest.raises(InputError, match="some are bare arrays: pass frames only"):
        AFCL().fit_clients([*tables, np.eye(9)])
    model = AFCL(random_state=seed).fit_clients(tables)
    with pytest.raises(InputError, match="categories and numbers make 5: pass a frame"):
        model.predict(np.eye(3))


@pytest.mark.filterwarnings("ignore::afcl.exceptions.SmallClientsWarning")
@pytest.mark.parametrize("column", ["size", "colour"])
def test_a_table_may_lack_a_column_that_two_others_have(seed, column):
    tables = frames(seed)
    north = tables["north"]
    empty = pl.Series(column, [None] * north.height, dtype=north[column].dtype)
    model, other = (AFCL(missing="impute", random_state=seed) for _ in range(2))
    with pytest.warns(ColumnWarning, match=f"lacks the column '{column}'"):
        model.fit_clients({**tables, "north": north.drop(column)})
    other.fit_clients({**tables, "north": north.with_columns(empty)})
    assert set(model.feature_names_in_) == set(north.columns)
    assert np.array_equal(model.labels_, other.labels_)


def test_a_column_of_one_table_is_left_out(seed):
    pandas = pytest.importorskip("pandas")
    north, south, west = (pandas.DataFrame(t.to_dict()) for t in frames(seed).values())
    south["more"] = 1.0
    model = AFCL(missing="available", random_state=seed)
    with pytest.warns(ColumnWarning, match="'more' left out: only table 2 has it"):
        model.fit_clients([north, south, west])
    assert "more" not in model.feature_names_in_
    assert model.n_clusters_ == 3


def test_frames_have_the_same_columns(seed):
    tables = list(frames(seed).values())
    for odd in (tables[1].drop("size"), tables[1].with_columns(more=pl.lit(1.0))):
        with pytest.raises(
            InputError, match="table 2 and table 1 differ in the column"
        ):
            AFCL().fit_clients([tables[0], odd])


def test_what_looks_like_owners_is_pointed_out(seed):
    X = np.random.default_rng(seed).normal([[0.0, 0.0], [9.0, 9.0]] * 30, 1.0)
    with pytest.warns(UserWarning, match="if it names the owner of each row, pass"):
        AFCL(random_state=seed).fit(X, ["a", "b"] * 30)


def test_names_of_numbered_columns(seed):
    X = np.random.default_rng(seed).normal([[0.0, 0.0], [9.0, 9.0]] * 30, 1.0)
    model = AFCL(random_state=seed).fit(X)
    assert model.center_columns_.tolist() == ["x0", "x1"]


# ------------------------------------------------------------------ orders


def graded(seed, sites=3, n=90):
    """Frames of three kinds of rows, which a number and a grade tell apart."""
    rng = np.random.default_rng(seed)
    grades = np.array(["low", "middle", "high"])
    made = {}
    for name in ("north", "south", "west")[:sites]:
        y = rng.integers(0, 3, n)
        made[name] = pl.DataFrame(
            {
                "size": np.array([0.0, 4.0, 8.0])[y] + rng.normal(0, 0.4, n),
                "grade": grades[y],
            }
        )
    return made


GRADES = {"grade": ["low", "middle", "high"]}


def test_levels_with_an_order_are_ranks(seed, tmp_path):
    tables = graded(seed)
    model = AFCL(random_state=seed, ordinal=GRADES).fit_clients(tables)
    assert model.n_clusters_ == 3
    assert model.center_columns_.tolist() == ["size", "grade"]
    by_size = model.cluster_centers_[np.argsort(model.cluster_centers_[:, 0])]
    assert np.abs(by_size[:, 1] - [0, 1, 2]).max() < 0.2
    model.save(tmp_path / "model")
    again = AFCL.load(tmp_path / "model")
    for table, labels in zip(tables.values(), model.client_labels_, strict=True):
        assert np.array_equal(again.predict(table), labels)
    assert again.get_params()["ordinal"] == GRADES
    with pytest.raises(InputError, match="is 'huge', which is none of low<middle<high"):
        model.predict(tables["north"].with_columns(grade=pl.lit("huge")))
    with pytest.raises(InputError, match="ordinal= names columns"):
        AFCL(ordinal=GRADES).fit_clients([np.eye(9)] * 3)


def test_ordered_categoricals_are_taken_as_such(seed):
    pd = pytest.importorskip("pandas")
    kind = pd.CategoricalDtype(GRADES["grade"], ordered=True)
    tables = graded(seed)
    whole = pd.concat(
        [t.to_pandas().assign(site=name) for name, t in tables.items()],
        ignore_index=True,
    )
    whole["grade"] = whole["grade"].astype(kind)
    theirs = AFCL(random_state=seed).fit(whole, clients="site")
    ours = AFCL(random_state=seed, ordinal=GRADES).fit_clients(tables)
    assert theirs.center_columns_.tolist() == ["size", "grade"]
    assert np.array_equal(theirs.labels_, ours.labels_)


def test_a_declared_order_needs_no_rows_at_dp(seed):
    tables = graded(seed)
    told: dict[str, Any] = {
        "privacy": "dp(8)",
        "seeded_noise": True,
        "scale": ([-3], [11]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrustWarning)  # noise is much for so few rows
        model = AFCL(random_state=seed, ordinal=GRADES, **told).fit_clients(tables)
    assert model.cluster_centers_.shape[1] == 2
    pd = pytest.importorskip("pandas")
    kind = pd.CategoricalDtype(GRADES["grade"], ordered=True)
    found = [t.to_pandas().astype({"grade": kind}) for t in tables.values()]
    with pytest.raises(InputError, match="at dp the levels"):
        AFCL(random_state=seed, **told).fit_clients(found)


class TestBooleans:
    """A column of booleans says of which of two kinds a row is, and weighs as such."""

    def frame(self, module, seed, n=150):
        rng = np.random.default_rng(seed)
        kind = rng.integers(0, 3, n)
        places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[kind]
        X = places + rng.normal(0, 0.7, (n, 2))
        return module.DataFrame(
            {"a": X[:, 0], "b": X[:, 1], "member": rng.random(n) < 0.5}
        )

    @pytest.mark.parametrize("module", [pd, pl])
    def test_they_split_no_clusters(self, module, tmp_path):
        frames = [self.frame(module, seed) for seed in range(3)]
        model = AFCL(random_state=0).fit_clients(frames)
        assert model.n_clusters_ == 3
        assert list(model.center_columns_[2:]) == ["member=false", "member=true"]
        np.testing.assert_array_equal(model.predict(frames[0]), model.client_labels_[0])
        model.save(tmp_path / "model")
        again = AFCL.load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict(frames[1]), model.client_labels_[1])

    @pytest.mark.parametrize("kind", ["boolean", "object", "str"])
    def test_with_gaps_and_as_texts(self, kind):
        frames = [self.frame(pd, seed) for seed in range(3)]
        for frame in frames:
            frame["member"] = frame["member"].astype(kind)
            if kind != "str":
                frame.loc[:4, "member"] = None
        model = AFCL(random_state=0, missing="impute").fit_clients(frames)
        assert model.n_clusters_ == 3
        assert len(model.center_columns_) == 4

    def test_ones_and_zeros_of_another_table_are_the_same(self):
        frames = [self.frame(pd, seed) for seed in range(3)]
        plain = AFCL(random_state=0).fit_clients(frames)
        frames[1]["member"] = frames[1]["member"].astype(float)
        model = AFCL(random_state=0).fit_clients(frames)
        np.testing.assert_array_equal(model.labels_, plain.labels_)

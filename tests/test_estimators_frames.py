# SPDX-License-Identifier: Apache-2.0
"""Estimators on frames as people have them: dates, columns that lack, gaps counted."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from afcl import AFCL
from afcl.estimators.storage import result_of
from afcl.exceptions import ColumnWarning, InputError, SmallClientsWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::afcl.exceptions.TrustWarning"),
    pytest.mark.filterwarnings("ignore::afcl.exceptions.SuspicionWarning"),
]


def visits(n, seed):
    """Mornings with small baskets, evenings with large ones."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    hours = np.array([8.5, 20.5])[kind] + rng.uniform(-1, 1, n)
    minutes = 60 * (24 * rng.integers(0, 365, n) + hours)
    when = pd.Timestamp("2026-01-01") + pd.to_timedelta(minutes, unit="min")
    basket = np.array([20.0, 60.0])[kind] + rng.normal(0, 3, n)
    return pd.DataFrame({"basket": basket, "when": when})


def test_parts_of_dates_are_declared_kept_and_told(tmp_path):
    tables = {name: visits(80, seed) for seed, name in enumerate("abc")}
    model = AFCL(random_state=0, dates={"when": ["hour", "weekday"]})
    model.fit_clients(tables)
    assert model.n_clusters_ == 2
    assert list(model.center_columns_)[:2] == ["basket", "when hour cos"]
    (told,) = result_of(model)["features"]
    hours = {text.split(" ")[0] for text in told["centers"]["hour"]}
    assert hours <= {"8:00", "9:00", "20:00", "21:00"}
    page = model.report(tmp_path / "report.html").read_text()
    assert "when hour" in page
    assert "goes round" in page
    model.save(tmp_path / "model")
    again = AFCL.load(tmp_path / "model")
    assert np.array_equal(again.predict(tables["a"]), model.client_labels_[0])
    texts = {k: t.assign(when=t["when"].astype(str)) for k, t in tables.items()}
    other = AFCL(random_state=0, dates=model.dates).fit_clients(texts)
    assert np.array_equal(other.labels_, model.labels_)


def test_dates_need_frames():
    with pytest.raises(InputError, match="dates= names columns of data frames"):
        AFCL(dates=["when"]).fit_clients([np.zeros((9, 2))] * 3)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_dates_count_as_days_in_fit_and_predict(tmp_path, kind, zone):
    table = visits(120, 0)
    if zone:
        table["when"] = table["when"].dt.tz_localize(zone)
    frame = table if kind is pd.DataFrame else pl.from_pandas(table)
    one = AFCL(random_state=0).fit(frame)
    assert np.array_equal(one.predict(frame), one.labels_)
    days = one.cluster_centers_[:, 1]
    assert ((days > 20_000) & (days < 21_000)).all()
    three = AFCL(random_state=0).fit_clients([frame] * 3)
    assert np.array_equal(three.predict(frame), three.client_labels_[0])
    assert result_of(three)["dates"] == ["when"]
    three.save(tmp_path / "model")
    assert np.array_equal(
        AFCL.load(tmp_path / "model").predict(frame), three.client_labels_[0]
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("texts", [False, True])
def test_new_rows_may_lack_a_column(kind, texts):
    rng = np.random.default_rng(0)
    which = rng.integers(0, 2, 120)
    columns = {name: 9.0 * which + rng.normal(0, 1, 120) for name in "abc"}
    if texts:
        columns["c"] = np.array(["red", "blue"])[which]
    table = kind(columns)
    model = AFCL(missing="impute", random_state=0).fit_clients([table] * 3)
    less = table[["a", "b"]]
    with pytest.warns(ColumnWarning, match="X has no column 'c': labelled by the oth"):
        labels = model.predict(less)
    assert np.array_equal(labels, model.client_labels_[0])
    with pytest.raises(InputError, match=r"X has none of the columns of the fit \('a'"):
        model.predict(kind({"z": columns["a"]}))
    strict = AFCL(random_state=0).fit_clients([table] * 3)
    with pytest.raises(ValueError, match="c"):
        strict.predict(less)
    if texts:
        with pytest.raises(InputError, match="X has no column 'c', which the fit had"):
            strict.predict(less)


@pytest.mark.parametrize("missing", ["impute", "drop"])
def test_results_say_what_was_done_to_how_many_cells_where(tmp_path, missing):
    tables = {}
    for seed, name in enumerate("abc"):
        rng = np.random.default_rng(seed)
        which = rng.integers(0, 2, 60)
        frame = {f"x{j}": 9.0 * which + rng.normal(0, 1, 60) for j in range(4)}
        tables[name] = pd.DataFrame({**frame, "c": np.array(["r", "b"])[which]})
    tables["b"].loc[:4, "x1"] = np.nan
    tables["b"].loc[2:9, "c"] = None
    model = AFCL(missing=missing, random_state=0).fit_clients(tables)
    a, b, c = result_of(model)["sites"]
    assert "gaps" not in a
    assert "gaps" not in c
    filled = missing == "impute"
    assert b["gaps"] == {
        "x1": {"cells": 5, "filled": 5 * filled},
        "c": {"cells": 8, "filled": 8 * filled},
    }
    page = model.report(tmp_path / "report.html").read_text()
    assert "Cells without a value, and how many were filled" in page
    assert ("5, 5 filled" in page) == filled
    rows = pd.concat(tables.values(), keys=tables, names=["who", None]).reset_index(
        "who"
    )
    pooled = AFCL(missing=missing, random_state=0).fit(rows, clients="who")
    assert [s.get("gaps") for s in result_of(pooled)["sites"]] == [
        None,
        b["gaps"],
        None,
    ]


def test_small_clients_without_names_are_not_miscounted():
    rng = np.random.default_rng(0)
    tables = [9.0 * (rng.random((60, 1)) < 0.5) + rng.normal(0, 1, (60, 2))] * 3
    tables.append(tables[0][:2])
    said = r"^table 4 \(client 3, counted from 0\) has 2 rows, fewer than 5"
    with pytest.warns(SmallClientsWarning, match=said):
        AFCL(random_state=0).fit_clients(tables)
    owners = np.repeat([0, 1, 2, 7], [60, 60, 60, 2])
    with pytest.warns(SmallClientsWarning, match="^client 7 has 2 rows, fewer than 5"):
        model = AFCL(random_state=0).fit(np.concatenate(tables), clients=owners)
    assert any(
        note.startswith("client 7 has 2 rows") for note in result_of(model)["notes"]
    )


@pytest.mark.parametrize("cell", ["red", pd.Timestamp("2026-07-01")])
def test_texts_and_dates_need_columns_with_names(cell):
    frame = pd.DataFrame({0: np.arange(20.0), 1: [cell] * 20})
    for fit in (AFCL().fit, lambda X: AFCL().fit_clients([X] * 3)):
        with pytest.raises(InputError, match="go by names, and these are numbers"):
            fit(frame)

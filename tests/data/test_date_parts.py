# SPDX-License-Identifier: Apache-2.0
"""Parts of dates: places on circles, years, and dates of zones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.data import read_sites
from afcl.data.contents import site_contents
from afcl.data.date_parts import (
    ACROSS,
    PARTS,
    ROUND,
    named_place,
    part_bounds,
    part_columns,
    part_values,
)
from afcl.data.features import Embedding, Feature, bounds_of
from afcl.data.mixed import embedding_of, has_texts, rows_of
from afcl.data.sites import open_sites
from afcl.exceptions import InputError
from afcl.runtime.results import describe_features

from .written import write

VISITS = (
    "age,visit\n40,2026-01-31 08:10\n50,2026-12-01\n60,NA\n"
    "70,2025-06-15T20:00:00.5\n80,2026-01-31T10:00:00+02:00\n"
)


def refused(*args, **kwargs):
    """Return the one line with which files are refused."""
    with pytest.raises(InputError) as caught:
        read_sites(*args, **kwargs)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)))
def test_parts_are_those_of_the_calendar(moment):
    moment = moment.replace(microsecond=0)
    days = (moment - datetime(1970, 1, 1)) / timedelta(days=1)
    values = part_values(np.array([days, np.nan]), PARTS)
    assert values.shape == (2, len(part_columns("x", PARTS)))
    assert np.isnan(values[1]).all()
    assert values[0, :2].tolist() == [days, moment.year]
    true = {"month": moment.month - 1, "weekday": moment.weekday(), "hour": moment.hour}
    for place, part in enumerate(ROUND):
        cos, sin = values[0, 2 + 2 * place : 4 + 2 * place]
        angle = 2 * np.pi * true[part] / len(ROUND[part])
        assert (cos, sin) == pytest.approx((np.cos(angle), np.sin(angle)))
        assert named_place(part, cos, sin) == f"{ROUND[part][true[part]]} (100%)"


def test_opposite_times_are_as_far_apart_as_two_texts():
    (low, high), _ = part_bounds(["month"])
    assert 2 / (high - low) == ACROSS == 0.25
    lows, highs = bounds_of(
        ["visit year", "visit month sin"],
        [Feature("visit", ("year", "month"), parts=True)],
    )
    assert np.isnan([lows[0], highs[0]]).all()
    assert (lows[1], highs[1]) == (-1.0, 7.0)


@pytest.mark.parametrize("stream", [True, False])
def test_files_become_parts(folder, stream):
    path = write("a.csv", VISITS)
    dates = {"VISIT": ["Hour", "year"]}
    sites = open_sites([path], dates=dates, missing="drop", stream=stream)
    assert sites.columns == (
        *("age", "visit hour cos", "visit hour sin", "visit year"),
    )
    assert sites.dates == ()
    (feature,) = sites.features
    assert Feature.of(feature.content()) == feature
    if not stream:
        values = np.asarray(sites.tables[0].rows)
        hours = np.arctan2(values[:, 2], values[:, 1]) * 24 / (2 * np.pi)
        assert (hours % 24).round(6).tolist() == [8, 0, 20, 8]
        assert values[:, 3].tolist() == [2026, 2026, 2025, 2026]
        content = site_contents(sites)[0].columns[1]
        assert (content.kind, content.levels) == ("date", ("hour", "year"))
        known = Embedding.of_names(sites.columns, sites.features)
        again = read_sites([path], missing="drop", embedding=known)
        assert np.array_equal(again.tables[0].values, values)


def test_days_beside_parts_and_dates_that_count_as_days(folder):
    path = write("a.csv", VISITS)
    whole = read_sites([path], dates=["visit"], missing="drop")
    assert (whole.columns, whole.dates) == (("age", "visit"), ("visit",))
    with_days = {"visit": ["days", "month"]}
    parts = read_sites([path], dates=with_days, missing="drop")
    assert parts.columns[1] == "visit days"
    assert np.array_equal(parts.tables[0].values[:, 1], whole.tables[0].values[:, 1])
    none = read_sites([path], dates={"visit": []}, missing="drop")
    assert none.dates == ("visit",)


def test_what_is_no_part(folder):
    path = write("a.csv", VISITS)
    assert "'minute' is no part of the date 'visit'; there are days, year" in refused(
        [path], dates={"visit": ["minute"]}
    )
    assert "names a part of 'visit' twice" in refused(
        [path], dates={"visit": ["month", "Month"]}
    )
    assert "--category and --date both name 'visit'" in refused(
        [path], dates={"visit": ["month"]}, categories={"visit": ()}
    )
    write("b.csv", "age,visit\n40,2026-01-31\n50,soon\n")
    assert "b.csv: column 'visit', row 2 is 'soon', not a date" in refused(
        ["b.csv"], dates={"visit": ["month"]}
    )


def test_centres_are_told_as_times():
    feature = Feature("visit", ("month", "year"), parts=True)
    result = {
        "columns": ["visit month cos", "visit month sin", "visit year"],
        "centers": [[1.0, 0.0, 2026.0], [0.01, 0.02, 2025.0], [-0.5, 0.0, 2026.0]],
    }
    (told,) = describe_features([feature], result)
    assert told["centers"] == {"month": ["January (100%)", "any", "July (50%)"]}
    assert "centers" not in describe_features([feature], {**result, "centers": None})[0]


# ------------------------------------------------------------------ frames

BERLIN = timezone(timedelta(hours=2))
MOMENTS = [datetime(2026, 7, 1, 10), datetime(2026, 7, 2, 23, 30)]
ZONED = [moment.replace(tzinfo=BERLIN) for moment in MOMENTS]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"seen": pd.to_datetime(ZONED)}),
        pd.DataFrame({"seen": pd.Series(ZONED, dtype=object)}),
        pl.DataFrame({"seen": ZONED}),
        pd.DataFrame(
            {"seen": [f"{moment:%Y-%m-%dT%H:%M:%S+02:00}" for moment in ZONED]}
        ),
    ],
    ids=["pandas", "objects", "polars", "texts"],
)
def test_times_of_zones_are_those_of_greenwich(frame):
    embedding, notes = embedding_of([frame], 1, dates=["seen"])
    assert (embedding.dates, notes) == (("seen",), [])
    days = [zoned.timestamp() / 86400 for zoned in ZONED]
    assert rows_of(frame, embedding)[:, 0] == pytest.approx(days)
    parts, _ = embedding_of([frame], 1, dates={"seen": ["hour"]})
    cos, sin = rows_of(frame, parts)[0]
    assert named_place("hour", cos, sin) == "8:00 (100%)"


def test_dates_and_gaps_in_objects():
    cells = [date(2026, 7, 1), None, pd.NaT, datetime(2026, 7, 1, 12, tzinfo=UTC)]
    frame = pd.DataFrame({"seen": pd.Series(cells, dtype=object)})
    assert has_texts(frame)
    embedding, _ = embedding_of([frame], 1)
    days = (date(2026, 7, 1) - date(1970, 1, 1)).days
    assert rows_of(frame, embedding)[:, 0].tolist() == pytest.approx(
        [days, np.nan, np.nan, days + 0.5], nan_ok=True
    )


def test_what_is_no_date_in_a_frame():
    texts = pd.DataFrame({"seen": ["2026-07-01", "soon"]})
    embedding, _ = embedding_of([texts], 1, dates={"seen": ["month"]})
    with pytest.raises(InputError, match="row 2 is 'soon', not a date"):
        rows_of(texts, embedding)
    numbers = pd.DataFrame({"seen": [1.0, 2.0]})
    with pytest.raises(InputError, match="'seen' holds numbers, not dates"):
        rows_of(numbers, embedding)
    empty = pd.DataFrame({"seen": [np.nan, np.nan]})
    assert np.isnan(rows_of(empty, embedding)).all()
    with pytest.raises(InputError, match="ordinal= and dates= both name 'seen'"):
        embedding_of([texts], 1, ordinal={"seen": ["a", "b"]}, dates=["seen"])


def test_dates_written_as_texts_are_told_from_other_texts():
    texts = [f"2026-07-{1 + i % 28:02d} {i % 24:02d}:00" for i in range(60)]
    frame = pd.DataFrame({"x": np.arange(60.0), "seen": texts})
    _, notes = embedding_of([frame], 1)
    assert notes == [
        "column 'seen' left out: dates; dates=['seen'] counts its days",
    ]
    frame["seen"] = [f"remark {i}" for i in range(60)]
    _, (note,) = embedding_of([frame], 1)
    assert "60 different texts" in note
    frame["seen"] = ["same"] * 60
    _, (note,) = embedding_of([frame], 1)
    assert "says the same of all rows" in note

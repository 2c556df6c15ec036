# SPDX-License-Identifier: Apache-2.0
"""Levels that have an order: ranks, bounds, and what has no place among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.data import Dialect, read_sites
from afcl.data.contents import site_contents
from afcl.data.encoding import UnknownLevel, encoded
from afcl.data.features import Feature, bounds_of, ordered_feature
from afcl.data.mixed import embedding_of, rows_of
from afcl.data.sites import open_sites
from afcl.exceptions import InputError
from afcl.runtime.results import describe_features

from .written import write

SEVERITY = ("mild", "moderate", "severe")
NORTH = "age,severity,site\n40,mild,x\n50, Severe,x\n60,NA,y\n70,MODERATE,y\n"
SOUTH = "age,Severity ,site\n45,severe,x\n55,mild,y\n65,mild,x\n75,severe,y\n"


def refused(*args, **kwargs):
    """Return the one line with which files are refused."""
    with pytest.raises(InputError) as caught:
        read_sites(*args, **kwargs)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@given(st.lists(st.text("abcdefg", min_size=1), min_size=2, max_size=9, unique=True))
def test_ranks_are_places(levels):
    feature = ordered_feature("--ordinal", "x", levels)
    ranks = encoded([*levels, None], feature)
    assert ranks.shape == (len(levels) + 1, 1)
    assert ranks[:-1, 0].tolist() == list(range(len(levels)))
    assert np.isnan(ranks[-1, 0])
    assert [feature.nearest(rank) for rank in ranks[:-1, 0]] == list(feature.levels)
    # In the box two levels are a quarter apart, as of a category; more of them a half.
    low, high = bounds_of(["y", "x"], [feature])
    assert np.isnan([low[0], high[0]]).all()
    length = (len(levels) - 1) / (high[1] - low[1])
    assert length == pytest.approx(0.25 if len(levels) == 2 else 0.5)


def test_levels_by_hand():
    feature = ordered_feature("--ordinal", "grade", [1, 2.0, "3"])
    assert encoded(["3.0", "1", "2"], feature).ravel().tolist() == [2.0, 0.0, 1.0]
    assert (feature.nearest(-1), feature.nearest(1.6), feature.nearest(9)) == (
        *("1", "3", "3"),
    )
    with pytest.raises(UnknownLevel) as odd:
        encoded(["1", "4", "5"], feature)
    assert (odd.value.row, odd.value.cell) == (1, "4")
    assert Feature.of(feature.content()) == feature


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (["mild"], "needs the levels of 'x' from the lowest to the highest"),
        (["mild", ""], "needs the levels of 'x' from the lowest to the highest"),
        (["mild", "Mild "], "names a level of 'x' twice"),
    ],
)
def test_what_is_no_order(levels, said):
    with pytest.raises(InputError, match=said):
        ordered_feature("--ordinal", "x", levels)


@pytest.mark.parametrize("stream", [True, False])
def test_files_become_ranks(folder, stream):
    paths = [write("north.csv", NORTH), write("south.csv", SOUTH)]
    sites = open_sites(
        paths, ordinal={"SEVERITY": SEVERITY}, missing="drop", stream=stream
    )
    assert sites.columns == ("age", "severity", "site=x", "site=y")
    assert sites.features[0] == Feature("severity", SEVERITY, ordered=True)
    if not stream:
        assert [np.asarray(t.rows)[:, 1].tolist() for t in sites.tables] == [
            [0.0, 2.0, 1.0],
            [2.0, 0.0, 0.0, 2.0],
        ]
        content = site_contents(sites)[1].columns[1]
        assert (content.kind, content.levels) == ("ordered", ("mild", "severe"))


def test_ordered_columns_stay_where_only_numbers_do(folder):
    path = write("north.csv", NORTH)
    sites = read_sites(
        [path], ordinal={"severity": SEVERITY}, numeric_only=True, missing="drop"
    )
    assert sites.columns == ("age", "severity")


def test_numbers_may_have_an_order_too(folder):
    path = write("a.csv", "x,stage\n1,1\n2,4\n3,2\n")
    (table,) = read_sites([path], ordinal={"stage": ["1", "2", "4"]}).tables
    assert table.values[:, 1].tolist() == [0.0, 2.0, 1.0]


@pytest.mark.parametrize("decimal", [".", ","])
def test_none_may_be_a_level(folder, decimal):
    text = "x;pain\n1.5;none\n2.5;Some\n3.5;NA\n".replace(".", decimal)
    (table,) = read_sites(
        [write("a.csv", text)], ordinal={"pain": ["None", "some"]}, missing="available"
    ).tables
    assert table.values[:2].tolist() == [[1.5, 0.0], [2.5, 1.0]]
    assert np.isnan(table.values[2, 1])


def test_a_value_without_a_place_is_refused_with_the_remedies(folder):
    path = write("north.csv", NORTH)
    told: dict[str, Any] = {
        "ordinal": {"severity": ("mild", "severe")},
        "missing": "drop",
    }
    assert refused([path], **told) == (
        "north.csv: column 'severity', row 4 is 'MODERATE', which is none of "
        "mild<severe: correct it, give it a place with --ordinal, or say that it means "
        "no value with --null severity=MODERATE"
    )
    said = Dialect(null=("severity=MODERATE",))
    (table,) = read_sites([path], **told, dialect=said).tables
    assert table.values[:, 1].tolist() == [0.0, 1.0]


def test_a_column_is_declared_once(folder):
    path = write("north.csv", NORTH)
    told: dict[str, Any] = {
        "ordinal": {"severity": SEVERITY},
        "categories": {"Severity": ()},
    }
    assert refused([path], **told) == (
        "--category and --ordinal both name 'severity'; drop one"
    )
    assert "(did you mean 'severity'?)" in refused([path], ordinal={"sverity": "ab"})


# ------------------------------------------------------------- frames


def test_frames_by_declaration():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "pain": ["much", "none", None]})
    embedding, notes = embedding_of([frame], 1, ordinal={"Pain": ["none", "much"]})
    assert (embedding.names, notes) == (("x", "pain"), [])
    assert rows_of(frame, embedding)[:2].tolist() == [[1.0, 1.0], [2.0, 0.0]]
    other = frame.with_columns(pain=pl.Series(["none", "some", "much"]))
    with pytest.raises(InputError, match="column 'pain', row 2 is 'some', which is no"):
        rows_of(other, embedding)


def test_ordered_categoricals_have_their_order():
    pd = pytest.importorskip("pandas")
    kind = pd.CategoricalDtype(["none", "some", "much"], ordered=True)
    pains = pd.Series(["much", "none"], dtype=kind)
    frame = pd.DataFrame({"x": [1.0, 2.0], "pain": pains})
    embedding, _ = embedding_of([frame], 1)
    assert embedding.features == (Feature("pain", ("none", "some", "much"), True),)
    assert rows_of(frame, embedding)[:, 1].tolist() == [2.0, 0.0]
    other = frame.assign(pain=pains.cat.reorder_categories(["much", "some", "none"]))
    with pytest.raises(InputError, match="table 2 has other levels of 'pain'"):
        embedding_of([frame, other], 1)
    declared = {"pain": ["none", "some", "much"]}
    settled, _ = embedding_of([frame, other], 1, ordinal=declared)
    assert rows_of(other, settled)[:, 1].tolist() == [2.0, 0.0]
    plain = frame.assign(pain=frame["pain"].astype(str))
    embedding, _ = embedding_of([plain, frame], 1)
    assert embedding.names == ("x", "pain")


def test_centres_are_named_by_the_nearest_level():
    result = {"columns": ["x", "pain"], "centers": [[1.0, 0.2], [2.0, 1.7]]}
    pain = Feature("pain", ("none", "some", "much"), ordered=True)
    (content,) = describe_features([pain], result)
    assert content == {
        "name": "pain",
        "levels": ["none", "some", "much"],
        "ordered": True,
        "centers": ["none", "much"],
    }
    assert "centers" not in describe_features([pain], {"centers": None})[0]

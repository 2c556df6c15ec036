# SPDX-License-Identifier: Apache-2.0
"""Columns by name, whatever the case; no value in single columns."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.data import Dialect, read_sites
from afcl.data.dialect import nothing_in
from afcl.data.spelling import by_column, meant, name_key, nearest
from afcl.exceptions import InputError

from .written import write

FILE = "Chol ,age,Kind,seen\n0,0,1,2026-01-05\n210,40,2,2026-01-06\n180,50,9,n.d.\n"


def refused(*args, **kwargs):
    """Return the one line with which something is refused."""
    with pytest.raises(InputError) as caught:
        read_sites(*args, **kwargs)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


@given(st.text(min_size=1).filter(str.strip))
def test_every_spelling_means_the_column(name):
    assert meant(name, ["another column", name]) == name
    assert meant(f" {name.casefold()} ", [name]) == name
    assert name_key(name.casefold()) == name_key(name)


def test_of_two_spellings_the_very_one_is_meant():
    assert meant("Age", ["Age", "age"]) == "Age"
    assert meant("AGE", ["Age", "age"]) is None
    assert nearest("Agee", ["Age", "sex"]) == " (did you mean 'Age'?)"
    with pytest.raises(InputError, match="--date names 'age' twice"):
        by_column("--date", {"AGE": 1, "Age": 2}, ["age"])


@pytest.mark.parametrize(
    ("told", "option", "nearest"),
    [
        ({"categories": {"knid": ()}}, "--category", "Kind"),
        ({"dates": ("seeen",)}, "--date", "seen"),
        ({"drop": ("cohl",)}, "--drop", "Chol"),
        ({"columns": ("agee",)}, "--columns", "age"),
        ({"id_column": "seem"}, "--id", "seen"),
        ({"dialect": Dialect(null=("chool=0",))}, "--null", "Chol"),
    ],
)
def test_a_name_that_none_has_is_refused_with_the_nearest(
    folder, told, option, nearest
):
    message = refused([write("a.csv", FILE)], **told)
    assert f"{option} names " in message
    assert f"(did you mean {nearest!r}?)" in message


def test_names_are_matched_by_case_and_space(folder):
    sites = read_sites(
        [write("a.csv", FILE)],
        drop=("CHOL",),
        id_column="AGE",
        categories={"kind ": ("1", "2", "9")},
        dates=("Seen",),
        dialect=Dialect(null=("n.d.",)),
        missing="drop",
    )
    assert sites.columns == ("Kind=1", "Kind=2", "Kind=9", "seen")
    ids = sites.tables[0].ids
    assert ids is not None
    assert list(ids.parts()) == [["0", "40", "50"]]


# ------------------------------------------------------------- no value in a column


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_mark_counts_in_its_column_only(folder, ending):
    path = write("a.csv", "chol,age\n0,0\n210,40\n-9,-9\n")
    if ending == "parquet":
        pl.read_csv(path).write_parquet("a.parquet")
        path = folder / "a.parquet"
    said = Dialect(null=("CHOL=0", "CHOL=210", "-9"))
    (table,) = read_sites([path], dialect=said, missing="available").tables
    assert np.isnan(table.values[:, 0]).all()
    assert table.values[:2, 1].tolist() == [0.0, 40.0]
    assert table.kept is not None
    assert table.kept.tolist() == [True, True, False]


def test_a_mark_may_be_a_text_or_stand_in_a_category_or_a_date(folder):
    path = write("a.csv", FILE.replace("180", "k.A."))
    (table,) = read_sites(
        [path],
        categories={"kind": ()},
        dates=("seen",),
        dialect=Dialect(null=("chol=k.A.", "kind=9", "seen=n.d.")),
        missing="available",
    ).tables
    assert table.columns == ("Chol", "age", "Kind=1", "Kind=2", "seen")
    assert np.isnan(table.values).tolist() == [
        [False] * 5,
        [False] * 5,
        [True, False, True, True, True],
    ]


def test_marks_are_read_column_by_column():
    assert nothing_in(["0", "a=0", " b c = x", "a=k=1"]) == {
        "a": ("0",),
        "b c": ("x",),
        "a=k": ("1",),
    }
    for odd in ("=0", "a="):
        with pytest.raises(InputError, match="give a cell, such as -999, or COLUMN"):
            Dialect(null=(odd,)).checked()

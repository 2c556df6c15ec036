# SPDX-License-Identifier: Apache-2.0
"""Files and frames: what is read, what is refused, and in which words."""

import gzip
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afcl.data import (
    Table,
    fingerprint,
    from_frames,
    in_input_order,
    read_sites,
    site_names,
)
from afcl.data.features import Embedding
from afcl.exceptions import InputError

from .written import ROWS, write


def refused(call, *args, **kwargs):
    """Return the one line with which a call is refused."""
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


# ------------------------------------------------------------------ what can be read


def test_importing_is_light():
    code = (
        "import sys, afcl.data; "
        "print([m for m in ('polars', 'sklearn', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", ROWS),
        ("a.CSV", ROWS),
        ("a.csv.gz", ROWS),
        ("a.tsv", ROWS.replace(",", "\t")),
        ("a.tsv.gz", ROWS.replace(",", "\t")),
        ("a.csv", ROWS.replace("\n", "\r\n")),
        ("a.csv", ROWS.replace("\n", "\r").strip()),
        ("a.csv", "\ufeff" + ROWS),
        ("a.csv", "\n" + ROWS + "\n\n"),
        ("a.csv", ' x ,"y"\n 1, 2 \n"3",4e0\n'),
    ],
    ids=["csv", "upper", "gz", "tsv", "tsv.gz", "crlf", "cr", "bom", "blank", "spaces"],
)
def test_text_files(folder, name, content):
    sites = read_sites([write(name, content)])
    (table,) = sites.tables
    assert (table.name, table.columns, table.path) == ("a", ("x", "y"), Path(name))
    assert table.values.tolist() == [[1, 2], [3, 4]]
    assert table.values.dtype == np.float64
    assert table.values.flags.c_contiguous
    assert sites.columns == ("x", "y")
    assert sites.notes == ()
    assert [kept.tolist() for kept in sites.kept] == [[True, True]]


def test_parquet_with_every_kind_of_number(folder):
    frame = pl.DataFrame(
        {
            "int": pl.Series([1, 2], dtype=pl.UInt8),
            "float": pl.Series([1.5, 2.5], dtype=pl.Float32),
            "flag": [True, False],
            "text": ["1e3", " -2 "],
            "word": pl.Series(["true", "5"], dtype=pl.Categorical),
            "price": pl.Series(["1.25", "2.50"]).cast(pl.Decimal(10, 2)),
        }
    )
    frame.write_parquet("a.parquet")
    (table,) = read_sites([Path("a.parquet")]).tables
    kinds = ("flag=false", "flag=true")
    assert table.columns == ("int", "float", *kinds, "text", "word", "price")
    assert table.values.tolist() == [
        [1, 1.5, 0, 1, 1000, 1, 1.25],
        [2, 2.5, 1, 0, -2, 5, 2.5],
    ]


def test_booleans_are_a_category(folder):
    paths = [
        write("a.csv", "x,y\ntrue,1\nFalse,2\n,3\n"),
        write("b.csv", "x,y\n1,4\n0,5\n1,6\n"),
    ]
    sites = read_sites(paths, missing="impute")
    assert sites.columns == ("x=false", "x=true", "y")
    one, other = (table.values[:, 1] for table in sites.tables)
    np.testing.assert_array_equal(one, [1, 0, math.nan])
    np.testing.assert_array_equal(other, [1, 0, 1])
    known = Embedding.of_names(sites.columns, sites.features)
    (new,) = read_sites([paths[0]], missing="impute", embedding=known).tables
    np.testing.assert_array_equal(new.values, sites.tables[0].values)


def test_runs_that_knew_booleans_as_numbers_read_them_so(folder):
    path = write("a.csv", "x,y\ntrue,1\nFalse,2\n")
    (table,) = read_sites([path], embedding=Embedding(("x", "y"), ())).tables
    assert table.values.tolist() == [[1, 1], [0, 2]]


def test_booleans_among_numbers_are_0_and_1(folder):
    (table,) = read_sites([write("a.csv", "x\ntrue\nFalse\n2\n")]).tables
    assert table.values.tolist() == [[1], [0], [2]]


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(
        st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3),
        min_size=1,
        max_size=8,
    )
)
def test_numbers_survive_text_exactly(folder, rows):
    lines = [",".join(map(repr, row)) for row in rows]
    path = write("a.csv", "\n".join(["a,b,c", *lines]))
    np.testing.assert_array_equal(read_sites([path]).tables[0].values, rows)


def test_columns_are_aligned_by_name_to_the_first_file(folder):
    sites = read_sites(
        [write("a.csv", "x,y,z\n1,2,3\n"), write("b.csv", "w,z,y,x\n0,6,5,4\n")]
    )
    assert [t.columns for t in sites.tables] == [("x", "y", "z")] * 2
    assert [t.values.tolist() for t in sites.tables] == [[[1, 2, 3]], [[4, 5, 6]]]
    assert sites.notes == ("column 'w' left out: a.csv does not have it",)


def test_text_in_a_column_that_is_not_common_does_no_harm(folder):
    sites = read_sites([write("a.csv", "x,name\n1,Ann\n"), write("b.csv", "x\n2\n")])
    assert sites.columns == ("x",)
    assert sites.notes == ("column 'name' left out: b.csv does not have it",)


def test_asked_columns_come_in_the_order_asked_for(folder):
    path = write("a.csv", "x,y,z\n1,2,3\n")
    assert read_sites([path], columns=["z", "x", "z"]).columns == ("z", "x")
    assert read_sites([path], columns=["z", "x"]).tables[0].values.tolist() == [[3, 1]]
    assert read_sites([path], columns=[]).columns == ("x", "y", "z")


def test_drop_leaves_text_out_where_it_is(folder):
    paths = [write("a.csv", "x,name\n1,Ann\n"), write("b.csv", "x\n2\n")]
    sites = read_sites(paths, drop=["name"])
    assert (sites.columns, sites.notes) == (("x",), ())
    assert read_sites(paths[:1], columns=["x", "name"], drop=["name"]).columns == ("x",)


def test_unnamed_and_index_columns_are_left_out_with_a_note(folder):
    path = write("a.csv", ",x,y,\n0,1,2,\n1,3,4,\n")
    saved = pd.DataFrame({"x": [5, 6], "y": [7, 8]}, index=[4, 9])
    saved.to_parquet("b.parquet")
    sites = read_sites([path, Path("b.parquet")])
    assert sites.columns == ("x", "y")
    assert sites.notes == (
        "a.csv: column 1 left out: it has no name",
        "a.csv: column 4 left out: it has no name",
        "b.parquet: column '__index_level_0__' left out: it is a row index",
    )


@pytest.mark.parametrize("start", [0, 1])
def test_counted_columns_are_names(folder, start):
    header = f"{start},{start + 1}"
    (table,) = read_sites([write("a.csv", f"{header}\n5,6\n")]).tables
    assert ",".join(table.columns) == header
    assert table.values.tolist() == [[5, 6]]


def test_min_rows_is_a_lower_bound(folder):
    assert len(read_sites([write("a.csv")], min_rows=2).tables[0].values) == 2


# --------------------------------------------------------------------- missing values


@pytest.mark.parametrize("cell", ["", " ", "?", "NA", "n/a", "NaN", "null", "None"])
def test_missing_values_in_text(folder, cell):
    path = write("a.csv", f"x,y\n1,2\n3,{cell}\n{cell},6\n7,8\n")
    assert refused(read_sites, [path]) == (
        "a.csv: column 'y', row 2 has no value (2 rows of 4 incomplete); "
        "fill it in or keep such rows with --missing impute"
    )
    sites = read_sites([path], missing="drop")
    assert sites.tables[0].values.tolist() == [[1, 2], [7, 8]]
    assert sites.kept[0].tolist() == [True, False, False, True]
    assert sites.notes == ("a.csv: 2 rows of 4 dropped for missing values",)


def test_short_and_blank_lines_inside_a_file_are_incomplete_rows(folder):
    path = write("a.csv", "x,y\n1,2\n3\n\n7,8\n")
    sites = read_sites([path], missing="drop")
    assert sites.kept[0].tolist() == [True, False, False, True]


def test_missing_values_in_parquet(folder):
    pl.DataFrame(
        {"x": [1.0, math.nan, 3.0], "y": [1, 2, None], "f": [True, None, False]}
    ).write_parquet("a.parquet")
    assert refused(read_sites, ["a.parquet"]) == (
        "a.parquet: column 'x', row 2 has no value (2 rows of 3 incomplete); "
        "fill it in or keep such rows with --missing impute"
    )
    sites = read_sites(["a.parquet"], missing="drop")
    assert sites.tables[0].values.tolist() == [[1, 1, 0, 1]]


def test_one_incomplete_row_is_one_row(folder):
    path = write("a.csv", "x\n1\nNA\n2\n")
    assert "(1 row of 3 incomplete)" in refused(read_sites, [path])
    notes = read_sites([path], missing="drop").notes
    assert notes == ("a.csv: 1 row of 3 dropped for missing values",)


def test_no_row_left(folder):
    path = write("a.csv", "x,my col\n1,\n,\n3,\n")
    assert refused(read_sites, [path], missing="drop") == (
        "a.csv: every row has a missing value, so no row is left; "
        "leave the emptiest column out with --drop 'my col'"
    )
    pl.DataFrame({"x": [1], "gone": [None]}).write_parquet("b.parquet")
    assert "--drop gone" in refused(read_sites, ["b.parquet"], missing="drop")


@pytest.mark.parametrize("missing", ["error", "drop"])
@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
def test_infinite_values_are_never_accepted(folder, missing, cell):
    path = write("a.csv", f"x,y\n1,2\n3,{cell}\n")
    assert refused(read_sites, [path], missing=missing) == (
        f"a.csv: column 'y', row 2 is '{cell}', and infinite values are never "
        "accepted; correct it or leave the column out with --drop y"
    )


def test_in_input_order():
    kept = np.array([False, True, True, False])
    assert in_input_order(np.array([5, 6]), kept).tolist() == [-1, 5, 6, -1]


# -------------------------------------------------------------------- what is refused


def test_text_names_the_cell(folder):
    path = write("a.csv", "x,kind of thing\n1,2\n3,blue\n")
    assert refused(read_sites, [path]) == (
        "a.csv: column 'kind of thing', row 2 is 'blue', not a number; "
        "correct it or leave the column out with --drop 'kind of thing'"
    )


def test_long_cells_are_shortened_and_line_breaks_shown(folder):
    path = write("a.csv", f'x\n"one\n{"o" * 60}"\n1\n')
    assert refused(read_sites, [path]) == (
        "a.csv: column 'x', row 1 is 'one\\n" + "o" * 33 + "…, not a number; "
        "correct it or leave the column out with --drop x"
    )


def test_dates_are_left_out_unless_their_days_are_to_count(folder):
    days = [pd.Timestamp("2024-02-03").date(), pd.Timestamp("2024-02-05").date()]
    pl.DataFrame({"x": [1, 2], "day": days}).write_parquet("a.parquet")
    sites = read_sites(["a.parquet"])
    assert sites.columns == ("x",)
    assert sites.notes == (
        "column 'day' left out: dates; --date day counts its days, "
        "--date 'day=month|hour' parts of them",
    )
    (table,) = read_sites(["a.parquet"], dates=["day"]).tables
    assert table.values.tolist() == [[1.0, 19756.0], [2.0, 19758.0]]


@pytest.mark.parametrize(
    ("cell", "day"),
    [
        ("1970-01-03", 2.0),
        ("03.01.1970", 2.0),
        ("1970-01-03 12:00", 2.5),
        ("1970-01-03T18:00:00", 2.75),
        ("1970-01-03T18:00:00Z", 2.75),
    ],
)
def test_dates_in_text(folder, cell, day):
    path = write("a.csv", f"x,day\n1,{cell}\n2,NA\n")
    (table,) = read_sites([path], dates=["day"], missing="impute").tables
    assert table.values[0].tolist() == [1.0, day]
    assert np.isnan(table.values[1, 1])


def test_what_is_no_date_is_refused(folder):
    path = write("a.csv", "x,day\n1,1970-01-03\n2,11/12/1999\n")
    assert refused(read_sites, [path], dates=["day"]) == (
        "a.csv: column 'day', row 2 is '11/12/1999', not a date: write 2026-11-30 or "
        "30.11.2026, or leave the column out with --drop day"
    )
    assert refused(read_sites, [path], dates=["night"]) == (
        "--date names 'night', which is no column in use; these are x, day"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.doc",
            ROWS,
            "a.doc: unknown kind of file; use .csv, .tsv, .txt, .dat, .data (with or "
            "without .gz), .parquet or .xlsx",
        ),
        (
            "a.csv",
            "",
            "a.csv: the file is empty; put a header and rows into it, "
            "or leave the site out",
        ),
        (
            "a.csv.gz",
            " \n",
            "a.csv.gz: the file is empty; put a header and rows into it, "
            "or leave the site out",
        ),
        (
            "a.csv",
            "x,y\n",
            "a.csv: has column names but no rows; add rows or leave the site out",
        ),
        (
            "a.csv",
            "x,y,x\n1,2,3\n",
            "a.csv: the column name 'x' occurs 2 times; "
            "rename the columns so that they differ",
        ),
        (
            "a.csv",
            "1.5,1.5\n3,4\n",
            "a.csv: the first line holds numbers (1.5, 1.5); "
            "put a line with the column names above it",
        ),
        (
            "a.csv",
            ",\n3,4\n",
            "a.csv: no column has a name; put a line with names on top",
        ),
        (
            "a.csv",
            "x,y\n1,2,3\n",
            "a.csv: a row has more fields than the header; correct the row, quote "
            "the cells that contain the separator, or name it with --separator",
        ),
        (
            "a.csv",
            b"x,y\n\xe9,2\n3,2\n",
            "a.csv: column 'x', row 1 is 'é', not a number; "
            "correct it or leave the column out with --drop x",
        ),
    ],
)
def test_refused_files(folder, name, content, message):
    path = write(name, content)
    assert refused(read_sites, [path]) == message


def test_nothing_there(folder):
    (folder / "sites").mkdir()
    assert refused(read_sites, ["b.csv"]) == (
        "b.csv: no such file; check the name and the folder"
    )
    assert refused(read_sites, ["sites"]) == (
        "sites: a folder without .csv, .tsv, .txt, .parquet or .xlsx files; name the "
        "site's file, or a folder that holds its files"
    )
    assert refused(read_sites, []) == (
        "no files given; name a file per site, or a folder of them"
    )


def test_unreadable_files(folder):
    Path("a.parquet").write_bytes(b"this is no such file")
    message = refused(read_sites, ["a.parquet"])
    assert message.startswith("a.parquet: cannot be read (")
    assert message.endswith("); check that it is Parquet and save it anew")
    Path("a.csv.gz").write_bytes(b"x,y\n1,2\n")
    assert refused(read_sites, ["a.csv.gz"]) == (
        "a.csv.gz: cannot be read (Not a gzipped file (b'x,')); "
        "check that it is text and save it anew"
    )
    Path("b.csv.gz").write_bytes(gzip.compress(ROWS.encode())[:-9])
    assert refused(read_sites, ["b.csv.gz"]).startswith("b.csv.gz: cannot be read (")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            PermissionError(13, "Permission denied"),
            "(Permission denied); check the file",
        ),
        (
            pl.exceptions.PanicException("index out of bounds\nsecond line"),
            "(index out of bounds); check that it is text and save it anew",
        ),
    ],
)
def test_errors_while_reading(folder, monkeypatch, error, reason):
    def broken(*args, **kwargs):
        raise error

    path = write("a.csv")
    monkeypatch.setattr(pl, "read_csv", broken)
    assert refused(read_sites, [path]) == f"a.csv: cannot be read {reason}"


def test_repeated_names_in_parquet(folder):
    pq.write_table(pa.table([[1], [2]], names=["x", "x"]), "a.parquet")
    message = refused(read_sites, ["a.parquet"])
    assert message.startswith("a.parquet: ")
    assert message.endswith("; rename the columns so that they differ")
    assert "'x'" in message


def test_no_common_columns(folder):
    paths = [
        write("a.csv", "id,x,y\n1,1,1\n"),
        write("b.csv", "id,x\n1,1\n"),
        write("c.csv", "id,u,v\n1,1,1\n"),
    ]
    assert refused(read_sites, paths, drop=["id"]) == (
        "no column is in every file: a.csv has x, y; c.csv has u, v; "
        "rename the columns so that they agree"
    )


def test_no_column_common_to_all_although_to_each_pair(folder):
    paths = [
        write("a.csv", "x,y\n1,1\n"),
        write("b.csv", "y,z\n1,1\n"),
        write("c.csv", "z,x\n1,1\n"),
    ]
    assert refused(read_sites, paths) == (
        "no column is in every file: a.csv has x, y; b.csv has y, z; "
        "rename the columns so that they agree"
    )


def test_unknown_names(folder):
    wide = [f"c{i}" for i in range(10)]
    paths = [
        write("a.csv", f"{','.join(wide)}\n{'1,' * 9}1\n"),
        write("b.csv", "c0,c1\n1,2\n"),
    ]
    assert refused(read_sites, paths, columns=["c0", "c5"]) == (
        "b.csv: --columns names 'c5', which it does not have; it has c0, c1"
    )
    assert refused(read_sites, paths, drop=["q"]) == (
        "--drop names 'q', which no file has; "
        "they have c0, c1, c2, c3, c4, c5, c6, c7, … (10 in all)"
    )
    assert refused(read_sites, paths[1:], drop=["c0", "c1"]) == (
        "--drop leaves no column to use; name fewer columns there"
    )


def test_too_few_rows(folder):
    path = write("a.csv", "x\n1\n2\nNA\n")
    assert refused(read_sites, [path], missing="drop", min_rows=3) == (
        "a.csv: 2 rows, but a site needs at least 3; "
        "add rows, lower --min-cell, or leave the site out"
    )
    path = write("b.csv", "x\n1\n")
    assert refused(read_sites, [path], min_rows=5).startswith("b.csv: 1 row, but")


def test_unknown_policy(folder):
    assert refused(read_sites, [write("a.csv")], missing="mean") == (
        "missing is 'mean'; use 'error', 'drop', 'impute' or 'available'"
    )


def test_names_with_line_breaks_still_make_one_line(folder):
    path = write("a.csv", 'x,"two\nlines"\n1,no\n2,3\n')
    assert refused(read_sites, [path]) == (
        "a.csv: column 'two\\nlines', row 1 is 'no', not a number; "
        "correct it or leave the column out with --drop '\"two lines\"'"
    )


# -------------------------------------------------------------------------- site names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a.csv", "b.tsv.gz", "c.PARQUET"], ("a", "b", "c")),
        (["v1.2.csv", "notes.txt"], ("v1.2", "notes")),
        (["north/a.csv", "south/a.csv", "b.csv"], ("north-a", "south-a", "b")),
        (["1/n/a.csv", "2/n/a.csv"], ("1-n-a", "2-n-a")),
        (["1/n/a.csv", "2/n/a.csv", "2/s/a.csv"], ("1-n-a", "2-n-a", "s-a")),
        (["a.csv", "a.parquet"], ("a-csv", "a-parquet")),
        (["n/A.csv", "s/a.csv"], ("n-A", "s-a")),
        (["/n/a.csv", "/s/a.csv", "/n-a.csv"], ("n-a", "s-a", "n-a-2")),
        (["/n/a.csv", "/s/a.csv", "/n-a.csv", "/n-a-2.csv"], None),
        ([".csv"], ("-csv",)),
    ],
)
def test_site_names(paths, names):
    found = site_names(paths)
    assert len({name.casefold() for name in found}) == len(paths)
    assert names is None or found == names


part = st.sampled_from(["a", "A", "b", "a-b", "b-a", "a-2"])


@given(
    st.lists(
        st.builds(
            lambda folders, stem, end: "/" + "/".join([*folders, stem + end]),
            st.lists(part, max_size=3),
            part,
            st.sampled_from([".csv", ".parquet", ".csv.gz"]),
        ),
        min_size=1,
        max_size=12,
        unique=True,
    )
)
@settings(max_examples=40, deadline=None)
def test_site_names_are_distinct_file_names(paths):
    names = site_names(paths)
    assert len({name.casefold() for name in names}) == len(paths)
    assert all(name and Path(name).name == name for name in names)


def test_the_same_file_twice():
    assert refused(site_names, ["a.csv", "b.csv", "x/../a.csv"]) == (
        "a.csv: given 2 times; name each site's file once"
    )


# ------------------------------------------------------------------- tables in memory


def test_frames_are_aligned_by_name():
    tables = [
        pd.DataFrame({"x": [1, 2], "y": [3.5, 4.5]}),
        pl.DataFrame({"y": [True], "x": ["7"]}),
        pl.DataFrame({"y": [None, 1], "x": [1, 2]}),
    ]
    arrays, names = from_frames(tables)
    assert names == ("x", "y")
    assert [a.tolist() for a in arrays[:2]] == [[[1, 3.5], [2, 4.5]], [[7, 1]]]
    np.testing.assert_array_equal(arrays[2], [[1, np.nan], [2, 1]])
    assert all(a.dtype == np.float64 and a.flags.c_contiguous for a in arrays)


def test_missing_cells_of_frames_become_nan():
    nan = math.nan
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None], dtype="Int64"),
            "b": pd.array([None, True], dtype="boolean"),
            "s": ["", " 2 "],
            "t": [None, "False"],
        }
    )
    (array,), _ = from_frames([frame])
    np.testing.assert_array_equal(array, [[1, nan, nan, nan], [nan, 1, 2, 0]])


def test_arrays_go_by_position():
    arrays, names = from_frames([np.array([[1, 2]]), [[3.0, math.nan]]])
    assert names is None
    np.testing.assert_array_equal(np.vstack(arrays), [[1, 2], [3, math.nan]])
    arrays, _ = from_frames([np.array([["1", None]], dtype=object)])
    np.testing.assert_array_equal(arrays[0], [[1, math.nan]])


def test_float64_arrays_are_not_copied_and_never_changed():
    X = np.arange(6.0).reshape(3, 2)
    (array,), _ = from_frames([X])
    assert np.shares_memory(array, X)


def test_numbered_columns_are_no_names():
    frames = [pd.DataFrame([[1, 2]]), pd.DataFrame([[4, 3]], columns=[1, 0])]
    arrays, names = from_frames(frames)
    assert names is None
    assert [a.tolist() for a in arrays] == [[[1, 2]], [[3, 4]]]
    arrays, names = from_frames([frames[0], np.array([[5, 6]])])
    assert names is None
    assert arrays[1].tolist() == [[5, 6]]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([], "no tables given; pass one array or data frame per client"),
        (
            [pd.DataFrame({"x": [1], "y": [2]}), pl.DataFrame({"x": [1]})],
            "table 2 lacks the column 'y' that table 1 has; "
            "give every table the same columns, or the estimator missing='impute'",
        ),
        (
            [pd.DataFrame({"x": [1]}), pl.DataFrame({"x": [1], "z": [2]})],
            "table 1 lacks the column 'z' that table 2 has; "
            "give every table the same columns, or the estimator missing='impute'",
        ),
        (
            [np.ones((1, 1)), pd.DataFrame({"x": [1]})],
            "table 2 names its columns and table 1 is a bare array; "
            "pass frames only, or arrays only",
        ),
        (
            [pd.DataFrame([[1, 2]], columns=["x", "x"])],
            "table 1: column 'x' occurs twice; rename one of them",
        ),
        (
            [np.ones((1, 2)), np.ones((1, 3))],
            "table 2 has 3 columns and table 1 has 2; "
            "give every table the same columns",
        ),
        (
            [np.ones((2, 0))],
            "table 1 has no columns; pass rows with at least one number",
        ),
        (
            [np.ones((1, 2)), np.ones(2)],
            "table 2 is an array of 1 dimension(s), not 2; "
            "pass one table of rows and columns per client",
        ),
        (
            [[[1, 2], [3]]],
            "table 1 has rows of different lengths; make them equal",
        ),
        (
            [pl.DataFrame({"x": ["1", "blue"]})],
            "table 1: column 'x', row 2 is 'blue', not a number; "
            "correct it or leave the column out",
        ),
        (
            [np.array([[1 + 2j]])],
            "table 1: column 0, row 1 is np.complex128(1+2j), not a number; "
            "correct it or leave the column out",
        ),
    ],
)
def test_refused_tables(tables, message):
    assert refused(from_frames, tables) == message


def test_dates_in_frames_are_days():
    frame = pd.DataFrame({"day": pd.to_datetime(["1970-01-03 12:00", None])})
    (days,), _ = from_frames([frame])
    assert days[0, 0] == 2.5
    assert np.isnan(days[1, 0])


# ------------------------------------------------------------------------- fingerprint


def test_fingerprint_is_of_the_content():
    X = np.array([[1.0, 2.0], [3.0, 0.0]])
    same = fingerprint(X, ("x", "y"))
    assert len(same) == 64
    assert same == fingerprint(np.asfortranarray(X), ["x", "y"])
    assert same == fingerprint(np.array([[1.0, 2.0], [3.0, -0.0]]), ("x", "y"))
    assert same == Table("a", X, ("x", "y"), None).fingerprint()
    others = [
        fingerprint(X[::-1], ("x", "y")),
        fingerprint(X, ("y", "x")),
        fingerprint(X, ("xy", "")),
        fingerprint(X, None),
        fingerprint(X.reshape(1, 4), ("x", "y")),
        fingerprint(np.nextafter(X, 9), ("x", "y")),
    ]
    assert len({same, *others}) == 7

# SPDX-License-Identifier: Apache-2.0
"""Which columns count, which files are a site, and what rows are called by."""

from pathlib import Path

import polars as pl
import pytest

from afcl.data import Dialect, read_sites, texts
from afcl.data.sites import open_sites
from afcl.exceptions import InputError

from .written import ROWS, write


def refused(*args, **kwargs):
    """Return the one line with which files are refused."""
    with pytest.raises(InputError) as caught:
        open_sites(*args, **kwargs)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


# ------------------------------------------------------------- columns of no numbers

NORTH = 'sex,age,"last, first",city\n1,51,Ann,Rome\nfemale,52,4,Oslo\n'
SOUTH = 'sex,age,"last, first",city\n1,51,3,4\n2,old,Cy,5\n'
TOLD = (
    "3 columns are not numbers: sex ('female' in north.csv, row 2), age ('old' in "
    "south.csv, row 2), last, first ('Ann' in north.csv, row 1); leave them out with "
    "--drop 'sex,age,\"last, first\"' or --numeric-only"
)


@pytest.mark.parametrize("stream", [True, False])
def test_numbers_with_a_few_texts_are_told_at_once(folder, stream):
    """Of all sites; the city is a category, numbers at one site or not."""
    paths = [write("north.csv", NORTH), write("south.csv", SOUTH)]
    assert refused(paths, stream=stream) == TOLD


def test_many_columns_are_shortened_but_all_can_be_dropped(folder):
    names = [f"c{i}" for i in range(12)]
    rows = [",".join([cell] * 12) for cell in ("no", "1")]
    path = write("a.csv", "\n".join([",".join(names), *rows]))
    message = refused([path])
    assert message.startswith("12 columns are not numbers: c0 ('no' in a.csv, row 1), ")
    assert "c7 ('no' in a.csv, row 1), …; leave them out" in message
    assert f"--drop {','.join(names)} or --numeric-only" in message


@pytest.mark.parametrize("stream", [True, False])
def test_only_columns_of_numbers(folder, monkeypatch, stream):
    monkeypatch.setattr(texts, "BLOCK_BYTES", 16)
    paths = [
        write("north.csv", "sex,age,x\nmale,51,1\nfemale,52,2\n"),
        write("south.csv", "sex,age,x\n1,51,3\n2,old,4\n"),
    ]
    sites = open_sites(paths, stream=stream, numeric_only=True)
    assert sites.columns == ("x",)
    assert [table.shape for table in sites.tables] == [(2, 1), (2, 1)]
    assert sites.notes == (
        "columns left out, not numbers: sex ('male' in north.csv, row 1), age ('old' "
        "in south.csv, row 2)",
    )
    assert open_sites(paths, drop=["sex", "age"], numeric_only=True).notes == ()


def test_no_column_of_numbers(folder):
    assert refused([write("a.csv", "x\nno\n")], numeric_only=True) == (
        "--numeric-only leaves no column to use: x ('no' in a.csv, row 1); write "
        "numbers into the files"
    )


# ------------------------------------------------------------------ names that differ


def test_names_match_by_case_and_white_space(folder):
    pl.DataFrame({"Age ": [3], "Blood  Pressure": [4]}).write_parquet("south.parquet")
    north = write("north.csv", "age,blood pressure\n1,2\n")
    sites = read_sites([north, "south.parquet"])
    assert sites.columns == ("age", "blood pressure")
    assert sites.tables[1].values.tolist() == [[3, 4]]
    assert sites.notes == (
        "'Age ' of south.parquet is 'age', 'Blood  Pressure' is 'blood pressure'",
    )


@pytest.mark.parametrize("stream", [True, False])
def test_what_is_asked_for_is_matched_too(folder, stream):
    path = write("a.csv", "ID,Age,Sex\n007,2,3\n")
    sites = open_sites(
        [path], columns=["age"], drop=["SEX"], id_column="id", stream=stream
    )
    (table,) = sites.tables
    assert sites.columns == ("age",)
    assert table.ids is not None
    assert list(table.ids.parts()) == [["007"]]
    assert sites.notes == ("'ID' of a.csv is 'id', 'Age' is 'age'",)


def test_names_that_may_mean_two_columns_are_not_matched(folder):
    paths = [write("a.csv", "age,x\n1,2\n"), write("b.csv", "Age,AGE,x\n3,4,5\n")]
    sites = read_sites(paths)
    assert sites.columns == ("x",)
    assert "column 'age' left out: b.csv does not have it" in sites.notes
    assert read_sites(paths[1:], columns=["AGE"]).tables[0].values.tolist() == [[4]]
    assert "--columns names 'age'" in refused(paths[1:], columns=["age"])


def test_the_files_of_a_site_are_matched_as_well(folder):
    write("s/1.csv", "x,y\n1,2\n")
    write("s/2.csv", "Y , X\n4,3\n")
    (table,) = read_sites(one_site=["s"]).tables
    assert table.columns == ("x", "y")
    assert table.values.tolist() == [[1, 2], [3, 4]]


# ----------------------------------------------------------------- what is a site


def test_a_folder_is_a_site_per_file(folder):
    for name in ("b", "a", "c"):
        write(f"all/{name}.csv")
    write("all/README.txt", "about these files")
    sites = read_sites(["all"])
    assert [table.name for table in sites.tables] == ["a", "b", "c"]
    assert sites.notes == (
        "all/README.txt left out: not a table",
        "all: 3 files, taken as one site each (--site all would take them as one)",
    )


def test_a_folder_may_be_one_site(folder):
    write("all/a.csv")
    write("all/b.csv")
    write("one/a.csv")
    sites = read_sites(["all/a.csv", "one"], one_site=["all"])
    assert [(t.name, t.shape[0]) for t in sites.tables] == [
        ("all-a", 2),
        ("one-a", 2),
        ("all", 4),
    ]
    assert sites.notes == (
        "one: 1 file, one site",
        "all: 2 files, taken as one site",
    )


def test_a_folder_that_cannot_be_read(folder, monkeypatch):
    write("s/1.csv")

    def locked(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", locked)
    assert refused(["s"]) == "s: cannot be read (Permission denied); check the file"


def test_texts_are_tables_where_nothing_else_is(folder):
    write("s/1.txt", ROWS)
    write("s/2.dat", ROWS)
    assert len(read_sites(["s"]).tables) == 2


def test_a_file_twice_by_way_of_its_folder(folder):
    write("s/1.csv")
    with pytest.raises(InputError, match="given 2 times"):
        read_sites(["s", "s/1.csv"])


# ------------------------------------------------------------- what rows are called


@pytest.mark.parametrize("stream", [True, False])
def test_ids_are_text_as_in_the_file(folder, monkeypatch, stream):
    monkeypatch.setattr(texts, "BLOCK_BYTES", 16)
    path = write("a.csv", 'id,x\n007,1\nNA,2\n,3\n"a,b",4\n 1.50,\n')
    sites = open_sites([path], id_column="id", missing="drop", stream=stream)
    (table,) = sites.tables
    assert table.columns == ("x",)
    assert table.shape == (4, 1)
    assert table.ids is not None
    found = [text for part in table.ids.parts() for text in part]
    assert [text.strip() for text in found] == ["007", "NA", "", "a,b", "1.50"]


def test_ids_are_no_part_of_the_rows(folder):
    one = read_sites([write("a.csv", "id,x\n1,5\n")], id_column="id").tables[0]
    other = read_sites([write("b.csv", "id,x\n2,5\n")], id_column="id").tables[0]
    bare = read_sites([write("c.csv", "x\n5\n")]).tables[0]
    assert one.fingerprint() == other.fingerprint() == bare.fingerprint()
    assert one.unordered() == bare.unordered()


def test_ids_of_parquet(folder):
    pl.DataFrame({"id": [7, None], "x": [1.0, 2.0]}).write_parquet("a.parquet")
    ids = read_sites(["a.parquet"], id_column="id").tables[0].ids
    assert ids is not None
    assert list(ids.parts()) == [["7", ""]]


def test_ids_that_cannot_be(folder):
    paths = [write("a.csv", "id,x\n1,2\n"), write("b.csv", "x\n1\n")]
    assert refused(paths, id_column="id") == (
        "b.csv: --id names 'id', which it does not have; it has x"
    )
    path = write("c.csv", "cluster,x\n1,2\n")
    assert refused([path], id_column="cluster") == (
        "--id names 'cluster', as labels are called; rename the column"
    )


def test_numbers_that_mean_nothing_in_parquet(folder):
    pl.DataFrame({"x": [1, -999, 3], "t": ["1,5", "k.A.", "2"]}).write_parquet(
        "a.parquet"
    )
    said = Dialect(decimal=",", null=("-999", "k.A."))
    sites = read_sites([Path("a.parquet")], missing="drop", dialect=said)
    assert sites.tables[0].values.tolist() == [[1, 1.5], [3, 2]]

# SPDX-License-Identifier: Apache-2.0
"""Files as people have them, through every command that reads some."""

import csv
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from afcl.cli import main
from afcl.cli.report import own_rows
from afcl.cli.settings import settings
from afcl.cli.tables import items, table_options
from afcl.data.synthetic import make_sd1
from afcl.exceptions import InputError
from afcl.runtime.live.membership import (
    DONE,
    Membership,
    keep_membership,
    open_membership,
)


def call(capsys, *words):
    """Run the command; return its exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    if ended.value.code:
        assert err.count("\n") == 1, err
    return ended.value.code, out, err


def german(frame):
    """Return a frame as a German spreadsheet saves it."""
    text = frame.write_csv(separator=";", decimal_comma=True)
    return text.replace("u;v", "U ;v").encode("cp1252")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Three sites in a folder, plain, German and Parquet, with ids and text."""
    monkeypatch.chdir(tmp_path)
    X, _ = make_sd1(0)
    frame = pl.DataFrame(X[::4], schema=["u", "v"]).with_columns(
        patient_id=pl.int_range(pl.len()).cast(pl.String).str.zfill(5),
        city=pl.lit("Köln"),
    )
    Path("sites").mkdir()
    frame[0::3].write_csv("sites/a.csv")
    Path("sites/b.csv").write_bytes(german(frame[1::3]))
    frame[2::3].write_parquet("sites/c.parquet")
    return tmp_path


RUN = ("run", "sites", "--id", "patient_id", "--drop", "city", "--out")


def test_a_folder_of_files_with_ids(here, capsys):
    code, out, err = call(capsys, *RUN, "o")
    assert code == 0
    assert "at 3 sites" in out
    assert err.splitlines() == [
        "note: sites: 3 files, taken as one site each (--site sites would take them "
        "as one)",
        "note: sites/b.csv: read with ';' between cells and ',' in numbers, as cp1252 "
        "text",
        "note: 'U' of sites/b.csv is 'u'",
    ]
    for name in "abc":
        with open(here / "o" / "labels" / f"{name}.csv", newline="") as file:
            header, *rows = csv.reader(file)
        assert header == ["patient_id", "cluster"]
        assert rows[1][0] == f"{3 + 'abc'.index(name):05}"
        assert all(int(label) >= 0 for _, label in rows)
    result = json.loads((here / "o" / "result.json").read_text())
    assert result["columns"] == ["u", "v"]
    assert result["parameters"]["id"] == "patient_id"
    # Ids are nobody's but the owner's: nothing but the labels has one.
    for path in (here / "o").rglob("*"):
        if path.is_file() and path.parent.name != "labels":
            assert b"00003" not in path.read_bytes()


def test_streamed_files_give_the_same_labels_and_ids(here, capsys):
    assert call(capsys, *RUN, "a", "--stream")[0] == 0
    assert call(capsys, *RUN, "b", "--no-stream")[0] == 0
    for name in ("result.json", "labels/a.csv", "labels/b.csv", "labels/c.csv"):
        assert (here / "a" / name).read_bytes() == (here / "b" / name).read_bytes()


def test_new_rows_are_labelled_whatever_the_file(here, capsys):
    assert call(capsys, *RUN, "o")[0] == 0
    for name in ("a.csv", "b.csv", "c.parquet"):
        new = here / "sites" / name
        code, out, err = call(capsys, "predict", "o", new, "--id", "Patient_ID")
        assert code == 0
        header, *rows = out.splitlines()
        assert header == "Patient_ID,cluster"
        known = (here / "o" / "labels" / f"{new.stem}.csv").read_text().splitlines()
        assert rows == known[1:]
        assert ("read with ';'" in err) == (name == "b.csv")
    code, _, err = call(
        capsys, "predict", "o", "sites/b.csv", "--decimal", ".", "--separator", ";"
    )
    assert code == 2
    assert "column 'u', row 1 is '0," in err
    assert "(--decimal ',' for the other)" in err


def test_ids_no_spreadsheet_obeys(here, capsys):
    path = here / "sites" / "a.csv"
    path.write_text(path.read_text().replace("00003", "=1+1").replace("00006", '"a,b"'))
    assert call(capsys, *RUN, "o")[0] == 0
    with open(here / "o" / "labels" / "a.csv", newline="") as file:
        ids = [row[0] for row in csv.reader(file)]
    assert ids[2:4] == ["'=1+1", "a,b"]


def test_text_columns_are_told_together_and_left_out_together(here, capsys):
    words = ("run", "sites/a.csv", "--out", "o", "--separator", "comma")
    path = here / "sites" / "a.csv"
    path.write_text(path.read_text().replace("0000", "P"))
    code, _, err = call(capsys, *words)
    assert code == 2
    assert "column 'patient_id', row 1 is 'P0', not a number" in err
    assert "leave the column out with --drop patient_id" in err
    code, _, err = call(capsys, *words, "--numeric-only")
    assert code == 0
    assert "note: columns left out, not numbers: patient_id ('P0'" in err
    result = json.loads((here / "o" / "result.json").read_text())
    assert result["columns"] == ["u", "v"]


def test_audit_reads_the_same_files(here, capsys):
    words = ("--privacy", "summary", "--rounds", "1", "--runs", "1", "--json")
    told = ("--id", "patient_id", "--drop", "city")
    code, out, err = call(capsys, "audit", "sites", *told, *words)
    assert code == 0
    assert json.loads(out)["features"] == 2
    assert "note: sites: 3 files, taken as one site each" in err
    code, out, _ = call(capsys, "audit", "--site", "sites", *told, *words)
    assert json.loads(out)["clients"] == 1


def test_a_member_keeps_what_it_was_told(here, capsys):
    told = Membership(
        str(here / "sites"),
        "s",
        drop=("city",),
        id="patient_id",
        null=("-999",),
        state=DONE,
    )
    keep_membership(here / "mine", told)
    assert open_membership(here / "mine") == told
    (table,) = told.open().tables
    assert (table.columns, table.ids is None) == (("u", "v"), False)
    join = ("join", "127.0.0.1:1", "--data", "sites", "--name", "s", "--out", "mine")
    words = ("--drop", "city", "--id", "patient_id", "--null", "-999", "--insecure")
    code, out, err = call(capsys, *join, *words)
    assert code == 0
    assert "result already" in out
    assert "read with ';' between cells" in err
    assert call(capsys, *join, *words, "--decimal", ",")[0] == 2


def test_a_program_chooses_by_itself(here):
    Path("rows.py").write_text("")
    with pytest.raises(InputError, match="are for tables"):
        Membership(str(here / "rows.py"), "s", id="patient_id").open()


def test_the_page_of_a_site_knows_labels_with_ids(here, capsys):
    assert call(capsys, *RUN, "o")[0] == 0
    mine = here / "mine"
    mine.mkdir()
    for name, place in (("result.json", "result.json"), ("labels/b.csv", "labels.csv")):
        (mine / place).write_bytes((here / "o" / name).read_bytes())
    member = Membership(
        str(here / "sites/b.csv"), "b", ("u", "v"), id="patient_id", state=DONE
    )
    keep_membership(mine, member)
    own = own_rows(mine)
    assert own is not None
    assert own.note == ""
    assert own.labels is not None
    sizes = json.loads((mine / "result.json").read_text())["sites"][1]["sizes"]
    assert np.bincount(own.labels, minlength=len(sizes)).tolist() == sizes


# ------------------------------------------------------------- lists and settings


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["a,b", "c"], ("a", "b", "c")),
        (["a, b ,,c"], ("a", "b", "c")),
        (['"last, first",b'], ("last, first", "b")),
        (['"say ""hi""", b'], ('say "hi"', "b")),
        ([" "], ()),
    ],
)
def test_lists_are_parted_by_commas_and_quoted_as_in_csv(texts, found):
    assert items("--drop", texts) == found


@pytest.mark.parametrize("text", ['"a', '"a"b', "a\nb"])
def test_lists_that_cannot_be_read(text):
    with pytest.raises(InputError, match="cannot be read as a list"):
        items("--drop", [text])


def test_a_settings_file_names_columns_one_by_one(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        'drop = ["last, first"]\nnull = ["-999"]\nid = "pid"\nseparator = ";"\n'
        "numeric-only = true\n"
    )
    chosen = settings(config, {"columns": ["a,b"], "numeric_only": None, "null": []})
    told = table_options(chosen)
    assert (told["columns"], told["drop"]) == (("a", "b"), ("last, first",))
    assert (told["id_column"], told["numeric_only"]) == ("pid", True)
    assert (told["dialect"].separator, told["dialect"].null) == (";", ("-999",))


# ------------------------------------------------------------------ nothing in them


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "there is nothing in it, not even names of columns"),
        ("\n\n", "there is nothing in it, not even names of columns"),
        ("u,v,city,patient_id\n", ""),
        ("u,v,city,patient_id\n,,,\n,,,\n", "2 rows of 2 dropped without any value"),
    ],
)
def test_a_site_with_nothing_usable_does_not_end_a_run(
    here, capsys, content, said, stream
):
    Path("d.csv").write_text(content)
    words = ("run", "sites", "d.csv", *RUN[2:-1], "--privacy", "summary", stream)
    code, out, err = call(capsys, *words, "--out", "with")
    assert code == 0
    assert said in err
    assert "Note: d has 0 rows, fewer than 5: it takes no part" in out
    assert set(Path("with/labels/d.csv").read_text().split()) <= {
        "patient_id,cluster",
        ",-1",
    }
    with_d = json.loads(Path("with/result.json").read_text())
    call(capsys, "run", "sites", *words[3:], "--out", "without")
    alone = json.loads(Path("without/result.json").read_text())
    assert with_d["centers"] == alone["centers"]


def test_check_shows_a_site_with_nothing_in_it(here, capsys):
    Path("d.csv").touch()
    code, out, _ = call(capsys, "check", "sites/a.csv", "d.csv")
    assert code == 0
    assert "d: 0 rows" in out
    assert "note: d.csv: there is nothing in it" in out


def test_sites_that_all_hold_nothing_end_a_run(here, capsys):
    Path("d.csv").touch()
    Path("e.csv").write_text("u,v\n")
    Path("f.csv").write_text("u,v\n,\n")
    code, _, err = call(capsys, "run", "d.csv", "--out", "o")
    assert (code, "d.csv: the file is empty" in err) == (2, True)
    with pytest.raises(SystemExit) as ended:
        main(["run", "d.csv", "e.csv", "f.csv", "--out", "o"])
    assert ended.value.code == 2
    assert "no client has as many rows" in capsys.readouterr().err.splitlines()[-1]


def test_half_a_row_is_still_an_error(here, capsys):
    Path("d.csv").write_text("u,v\n,\n1,\n")
    code, _, err = call(capsys, "run", "d.csv", "--out", "o")
    assert code == 2
    assert "d.csv: column 'u', row 1 has no value (2 rows of 2 incomplete)" in err


def test_empty_files_of_a_folder_are_told_from_others(here, capsys):
    Path("sites/d.csv").touch()
    Path("sites/read.me").write_text("about the tables")
    code, out, _ = call(capsys, "check", "sites", "--json")
    notes = json.loads(out)["notes"]
    assert code == 0
    assert f"{Path('sites/d.csv')} left out: there is nothing in it" in notes
    assert f"{Path('sites/read.me')} left out: not a table" in notes

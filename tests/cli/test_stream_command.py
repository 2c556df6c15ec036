# SPDX-License-Identifier: Apache-2.0
"""`afcl run --stream` and folders as sites, as a user meets them."""

import json
import tracemalloc

import numpy as np
import polars as pl
import pytest

from afcl.cli import main
from afcl.data import parquet, passing, sites, sniff, stream, texts
from afcl.data.synthetic import make_sd1
from afcl.kernels import assign
from afcl.runtime import results


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, seed):
    """Two sites: a file, and a folder of two files with a row that has a hole."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(texts, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(parquet, "BATCH", 100)
    X, _ = make_sd1(seed)
    frame = pl.DataFrame(X, schema=["u", "v"])
    frame[::2].write_parquet("north.parquet")
    (tmp_path / "south").mkdir()
    frame[1::4].write_csv("south/1.csv")
    frame[3::4].write_csv("south/2.csv")
    with open("south/2.csv", "a") as file:
        file.write("1,\n")
    return tmp_path


def call(capsys, *words):
    """Run the command; return its exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    if ended.value.code:
        assert err.count("\n") == 1, err
    return ended.value.code, out, err


RUN = ("run", "north.parquet", "--site", "south", "--missing", "drop", "--out")


def test_streamed_and_in_memory_write_the_same_files(capsys, here):
    said = [call(capsys, *RUN, "a", "--stream"), call(capsys, *RUN, "b", "--no-stream")]
    assert [code for code, _, _ in said] == [0, 0]
    assert said[0][2] == said[1][2]
    identities = [json.loads((here / out / "run.json").read_text()) for out in "ab"]
    assert identities[0]["identity"] == identities[1]["identity"]
    names = ["result.json", "centers.csv", "path.csv"]
    for name in [*names, "labels/north.csv", "labels/south.csv"]:
        one, other = (here / "a" / name), (here / "b" / name)
        assert one.read_bytes() == other.read_bytes(), name
    assert (here / "a" / "report.html").is_file()
    labels = (here / "a" / "labels" / "south.csv").read_text().split()
    n_south = sum(pl.read_csv(p).height for p in (here / "south").iterdir())
    assert len(labels) == n_south + 1
    assert labels[-1] == "-1"
    result = json.loads((here / "a" / "result.json").read_text())
    assert [site["rows"] for site in result["sites"]][1] == n_south - 1
    counted = np.bincount(np.array(labels[1:-1], dtype=int), minlength=4)
    assert counted.tolist() == result["sites"][1]["sizes"]


def test_a_run_may_go_on_in_the_other_way(capsys):
    assert call(capsys, *RUN, "a", "--stream")[0] == 0
    code, out, _ = call(capsys, *RUN, "a", "--no-stream")
    assert code == 0
    assert "holds this run already" in out


def test_large_sites_are_streamed_by_themselves(capsys, monkeypatch):
    used = []
    original = stream.StreamedTable.__init__

    def noted(self, name, *args, **kwargs):
        used.append(name)
        original(self, name, *args, **kwargs)

    monkeypatch.setattr(stream.StreamedTable, "__init__", noted)
    assert call(capsys, *RUN, "a")[0] == 0
    assert used == []
    monkeypatch.setattr(sites, "STREAM_ABOVE", 1000)
    assert call(capsys, *RUN, "b")[0] == 0
    assert used == ["north", "south"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--preset", "paper"), "preset paper"),
        (("--privacy", "grouped(5)"), "privacy level grouped(5)"),
        (("--method", "k-fed", "--n-clusters", "4"), "method k-fed"),
    ],
)
def test_what_needs_all_rows(capsys, monkeypatch, words, what):
    code, _, err = call(capsys, *RUN, "a", "--stream", *words)
    assert code == 2
    assert f"--stream: {what} needs all rows in memory; leave --stream out" in err
    monkeypatch.setattr(sites, "STREAM_ABOVE", 1000)
    code, _, err = call(capsys, *RUN, "a", *words)
    assert code == 0
    assert f"read into memory: {what} needs all rows there" in err


def test_a_streamed_site_with_a_fault_is_one_line(capsys, here):
    (here / "south" / "3.csv").write_text("u,v\n1,2\n3,Ann\n")
    code, _, err = call(capsys, *RUN, "a", "--stream")
    assert code == 2
    assert "3.csv: column 'v', row 2 is 'Ann', not a number" in err
    assert not (here / "a").exists()


def test_a_site_may_join_with_a_folder(capsys, here):
    join = ("join", "127.0.0.1:1", "--data", "south", "--name", "s", "--out", "mine")
    told = ("--missing", "drop", "--insecure")
    code, _, err = call(capsys, *join, *told, "--stream", "--privacy", "grouped(5)")
    assert code == 2
    assert "privacy level grouped(5) needs all rows in memory" in err


def test_how_rows_are_read_may_change_when_a_site_comes_back(capsys, here):
    from afcl.runtime.live.membership import DONE, Membership, keep_membership

    told = Membership(str(here / "south"), "s", missing="drop", state=DONE)
    keep_membership(here / "mine", told)
    join = ("join", "127.0.0.1:1", "--data", "south", "--name", "s", "--out", "mine")
    code, out, err = call(capsys, *join, "--missing", "drop", "--insecure", "--stream")
    assert code == 0
    assert "result already" in out
    assert "1 row of" in err


# ------------------------------------------------------------------ new rows


@pytest.fixture
def done(capsys, monkeypatch):
    """A finished run, and parts of a size that is usual for what is read later."""
    assert call(capsys, *RUN, "a", "--no-stream")[0] == 0
    monkeypatch.setattr(texts, "BLOCK_BYTES", 1 << 15)


def many_rows(n, seed):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(rng.random((n, 2)), schema=["v", "u"]).with_columns(
        name=pl.Series([f"row {i}" for i in range(n)])
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_new_rows_are_labelled_in_parts_of_bounded_memory(
    done, kind, capsys, here, seed, monkeypatch
):
    n = 200_000
    monkeypatch.setattr(parquet, "BATCH", 2000)
    monkeypatch.setattr(results, "LINES", 1000)
    monkeypatch.setattr(sniff, "LOOKED_AT", 1 << 15)
    rows = many_rows(n, seed)
    new = here / f"new.{kind}"
    if kind == "folder":
        new.mkdir()
        rows[: n // 2].write_csv(new / "1.csv")
        rows[n // 2 :].write_csv(new / "2.csv")
    else:
        getattr(rows, f"write_{kind}")(new)
    call(capsys, "predict", "a", "north.parquet", "--out", "w.csv")  # all is loaded
    tracemalloc.start()
    code, out, _ = call(capsys, "predict", "a", new, "--id", "name", "--out", "l.csv")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (code, out) == (0, "200,000 labels are in l.csv.\n")
    assert peak < 8 * n  # half of what the rows would take
    found = pl.read_csv("l.csv")
    assert found.columns == ["name", "cluster"]
    assert found["name"].to_list() == rows["name"].to_list()
    result = json.loads((here / "a" / "result.json").read_text())
    low, span = (np.array(result["scale"][name]) for name in ("low", "span"))
    X = (rows.select("u", "v").to_numpy() - low) / span
    centers = (np.array(result["centers"]) - low) / span
    assert found["cluster"].to_list() == assign(X, centers)[0].tolist()
    _, printed, _ = call(capsys, "predict", "a", new, "--id", "name")
    assert printed == (here / "l.csv").read_text()


def test_of_rows_one_of_which_is_wrong_nothing_is_told(done, capsys, here, seed):
    many_rows(20_000, seed).write_csv("new.csv")
    with open("new.csv", "a") as file:
        file.write("1,oops,last\n")
    (here / "l.csv").write_text("before")
    for told in ((), ("--out", "l.csv")):
        code, out, err = call(capsys, "predict", "a", "new.csv", *told)
        assert (code, out) == (2, "")
        assert "column 'u', row 20001 is 'oops'" in err
        assert "the run had numbers there" in err
    assert (here / "l.csv").read_text() == "before"
    assert not list(here.glob("*.part"))


def test_rows_that_are_left_out_have_no_label(done, capsys):
    with open("new.csv", "w") as file:
        file.write("u,v\n" + "1,2\n3,\n" * 9000)
    code, out, err = call(capsys, "predict", "a", "new.csv", "--missing", "drop")
    assert code == 0
    assert out.split()[1::2].count("-1") == 0
    assert set(out.split()[2::2]) == {"-1"}
    assert "9000 rows of 18000 dropped for missing values" in err


def test_parquet_without_pyarrow_is_read_at_once(done, capsys, monkeypatch):
    _, parted, _ = call(capsys, "predict", "a", "north.parquet")
    monkeypatch.setattr(passing, "can_stream_parquet", lambda: False)
    assert call(capsys, "predict", "a", "north.parquet") == (0, parted, "")


def test_an_unknown_way_with_gaps_is_refused(done, capsys):
    code, out, err = call(capsys, "predict", "a", "north.parquet", "--missing", "fil")
    assert (code, out) == (2, "")
    assert "missing is 'fil'; use 'error', 'drop', 'impute' or 'available'" in err

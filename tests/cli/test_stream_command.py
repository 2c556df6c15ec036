# SPDX-License-Identifier: Apache-2.0
"""`afcl run --stream` and folders as sites, as a user meets them."""

import json

import numpy as np
import polars as pl
import pytest

from afcl.cli import main
from afcl.data import parquet, sites, stream, texts
from afcl.data.synthetic import make_sd1


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

# SPDX-License-Identifier: Apache-2.0
"""`afcl run --device`, as a user meets it where there is no GPU."""

import json
import sys
from typing import Any

import polars as pl
import pytest

from afcl.cli import main
from afcl.data.synthetic import make_sd1
from afcl.kernels import gpu


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    X, _ = make_sd1(seed)
    frame = pl.DataFrame(X, schema=["u", "v"])
    frame[::2].write_csv("north.csv")
    frame[1::2].write_csv("south.csv")
    return tmp_path


def call(capsys, *words):
    """Run the command; return its exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


RUN = ("run", "north.csv", "south.csv", "--json", "--out")


def test_without_pytorch_one_line_says_so_and_nothing_is_written(
    capsys, here, monkeypatch
):
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, err = call(capsys, *RUN, "out", "--device", "cuda")
    assert code == 2
    assert err.count("\n") == 1
    assert "needs PyTorch" in err
    assert not (here / "out" / "result.json").exists()
    assert not (here / "out" / "run.json").exists()


def test_rows_are_moved_and_labels_come_back(capsys, here, monkeypatch):
    def move(values: Any, device: str) -> Any:
        return values

    monkeypatch.setattr(gpu, "moved", move)
    code, out, _ = call(capsys, *RUN, "there", "--device", "cuda")
    assert not code
    found = json.loads(out)
    assert found["parameters"]["device"] == "cuda"
    _, out, _ = call(capsys, *RUN, "here")
    expected = json.loads(out)
    assert "device" not in expected["parameters"]
    assert found["n_clusters"] == expected["n_clusters"]
    for site in ("north", "south"):
        written = (here / "there" / "labels" / f"{site}.csv").read_text()
        assert written == (here / "here" / "labels" / f"{site}.csv").read_text()


def test_streamed_rows_are_not_moved(capsys, monkeypatch):
    monkeypatch.setattr(gpu, "moved", lambda values, device: values)
    code, _, err = call(capsys, *RUN, "out", "--device", "cuda", "--stream")
    assert code == 2
    assert "read part by part" in err

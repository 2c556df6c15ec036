# SPDX-License-Identifier: Apache-2.0
"""What a newcomer stumbles over: each of these was seen once.

`afcl audit` without cryptography, `afcl plot --help` and `afcl run … | head` are in
test_audit.py, test_plot.py and test_exit_codes.py.
"""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from tests.cli.test_commands import call

from afcl.cli import main

#: A process in which Flower is not installed.
WITHOUT_FLOWER = (
    "import sys\nsys.modules['flwr'] = None\n"
    "from afcl.cli import main\nmain(sys.argv[1:])"
)


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    paths = []
    for name in "abc":
        rows = rng.normal(size=(60, 2)) + 9 * rng.integers(0, 2, size=(60, 1))
        path = tmp_path / f"{name}.csv"
        np.savetxt(path, rows, delimiter=",", header="x,y", comments="")
        paths.append(path)
    return paths


@pytest.fixture
def done(files, tmp_path, capsys):
    assert call(capsys, "run", *files, "--out", tmp_path / "r")[0] == 0
    return tmp_path / "r"


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--out", "new", "--insecure", "--port", "1"],
        ["serve", "--out", "new"],
        [
            *("join", "localhost:1", "--data", "a.csv", "--name", "a"),
            *("--out", "new", "--insecure"),
        ],
    ],
    ids=["serve --insecure", "serve", "join"],
)
def test_without_flower_nothing_is_left_behind(files, tmp_path, command):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FLOWER, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    told = [line for line in done.stderr.splitlines() if line.startswith("afcl: ")]
    assert told == ["afcl: federation needs Flower: pip install 'afcl[flower]'"]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "new").exists()


def test_the_status_of_a_finished_run_is_no_progress(done, capsys):
    code, out, _ = call(capsys, "status", done)
    assert code == 0
    assert ": done, 3 sites" in out
    assert "so far" not in out


@pytest.mark.parametrize("command", ["run", "demo"])
def test_a_folder_that_cannot_be_made(files, capsys, command):
    given = files if command == "run" else []
    code, _, err = call(capsys, command, *given, "--out", "/proc/x")
    assert code == 2
    (line,) = (line for line in err.splitlines() if line.startswith("afcl: "))
    assert "--out" in line
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x,z\n1,2\n", "there is no column 'y', which the run had; it has x, z"),
        ("x,y\n1,a\n", "column 'y', row 1 is 'a', not a number; the run had numbers"),
    ],
)
def test_predict_names_no_option_it_lacks(done, tmp_path, capsys, text, told):
    new = tmp_path / "new.csv"
    new.write_text(text)
    code, _, err = call(capsys, "predict", done, new)
    assert code == 2
    assert told in err
    assert "--drop" not in err
    assert "--columns" not in err


@pytest.fixture(scope="module")
def gappy(tmp_path_factory):
    """A run on three sites of which one lacks a column, and its folder."""
    here = tmp_path_factory.mktemp("gappy")
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(8)]
    for site in "abc":
        rows = rng.normal(size=(90, 8)) + 6 * (np.arange(90) % 3)[:, None]
        frame = pl.DataFrame(rows, schema=names)
        (frame.drop("c7") if site == "c" else frame).write_csv(here / f"{site}.csv")
    files = [here / f"{site}.csv" for site in "abc"]
    with pytest.raises(SystemExit) as ended:
        main(["run", *map(str, files), "--missing", "impute", "--out", str(here / "o")])
    assert ended.value.code == 0
    return here


def test_predict_labels_by_the_columns_that_are_there(gappy, capsys):
    capsys.readouterr()
    code, out, err = call(capsys, "predict", gappy / "o", gappy / "c.csv")
    assert code == 0
    assert out == (gappy / "o" / "labels" / "c.csv").read_text()
    assert f"note: {gappy / 'c.csv'}: no column 'c7'; labelled by the others\n" in err


def test_predict_names_all_columns_that_are_lacking(gappy, tmp_path, capsys):
    new = tmp_path / "new.csv"
    new.write_text("c0,c1,c2,c3,c4,c5\n1,2,3,4,5,6\n")
    code, _, err = call(capsys, "predict", gappy / "o", new, "--missing", "error")
    assert code == 2
    assert "there are no columns 'c6', 'c7', which the run had; it has c0, " in err
    assert "--columns" not in err
    new.write_text("other\n1\n")
    code, _, err = call(capsys, "predict", gappy / "o", new)
    assert code == 2
    assert "'c0', 'c1', 'c2'" in err
    assert "--columns" not in err


def test_an_export_into_nowhere(done, tmp_path, capsys):
    path = tmp_path / "nowhere" / "model.json"
    code, _, err = call(capsys, "export", done, "--to", "json", "--out", path)
    assert code == 2
    assert "is no folder" in err


@pytest.mark.parametrize("port", [0, 99999])
def test_a_number_that_is_no_port_leaves_nothing_behind(tmp_path, capsys, port):
    code, _, err = call(capsys, "serve", "--out", tmp_path / "new", "--port", port)
    assert code == 2
    assert f"'--port': {port} is not in the range" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "extra"), [("run", "gpu"), ("join", "gpu"), ("export", "export")]
)
def test_help_names_extras_in_brackets(capsys, monkeypatch, command, extra):
    monkeypatch.setenv("COLUMNS", "300")
    code, out, _ = call(capsys, command, "--help")
    assert code == 0
    assert f"pip install 'afcl[{extra}]'" in out

# SPDX-License-Identifier: Apache-2.0
"""``afcl plot`` as a user meets it: pictures of runs and benchmarks, or one line."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from afcl.cli import main
from afcl_bench.cli.plot import OF_A_BENCHMARK, OF_A_RUN
from afcl_bench.execute import work
from afcl_bench.runner import resolve
from afcl_bench.spec import parse_spec
from afcl_bench.store import Store

pytest.importorskip("matplotlib")

SPEC = """
blocks = ["trajectories-plot", "convergence-plot", "significance-plot"]
runs = 1
split = "iid:2"
participation = "always"
trace = true

[[grid]]
group = "unknown k"
datasets = ["gaussians:60:2:3", "gaussians:90:2:3"]
methods = ["afcl"]

[[grid]]
group = "given k*"
datasets = ["gaussians:60:2:3", "gaussians:90:2:3"]
methods = ["k-fed", "dk++"]
options = { n_clusters = 3 }
"""


def call(capsys, *arguments):
    """Run the command in this process; return (exit code, stdout, stderr)."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a finished run on two files."""
    where = tmp_path_factory.mktemp("sites")
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        rows = rng.normal(np.repeat([[0, 0], [9, 90]], 25, axis=0))
        text = "\n".join(f"{x},{y}" for x, y in rows)
        (where / f"{name}.csv").write_text(f"age,dose\n{text}\n")
    paths = [str(where / f"{name}.csv") for name in ("north", "south")]
    with pytest.raises(SystemExit):
        main(["run", *paths, "--out", str(where / "out")])
    return where / "out"


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    """A folder of runs, made without worker processes."""
    root = tmp_path_factory.mktemp("runs")
    (root / "specs").mkdir()
    (root / "specs" / "tiny.toml").write_text(SPEC)
    for cell in parse_spec("tiny", SPEC).cells:
        made = resolve(cell, Store(root), None)
        assert made is not None
        work(root, made, None, cell.trace, 900.0)
    return root


@pytest.mark.parametrize("what", OF_A_RUN)
def test_a_picture_lands_in_the_folder_of_its_run(run, what, capsys):
    code, out, err = call(capsys, "plot", run, what)
    assert (code, err) == (0, "")
    assert out == f"{what} is in {run / what}.png.\n"
    assert (run / f"{what}.png").read_bytes().startswith(b"\x89PNG")


def test_trajectories_have_the_units_of_the_data(run, tmp_path, capsys):
    path = tmp_path / "new" / "ways.svg"
    code, _, _ = call(capsys, "plot", run, "trajectories", "--out", path)
    assert code == 0
    text = path.read_text()
    assert ">age</text>" in text
    assert ">dose</text>" in text


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--out", "a.pdf"], "a.pdf"),
        (["--out", "a", "--format", "svg"], "a.svg"),
        (["--out", "a.svg", "--format", "svg"], "a.svg"),
    ],
)
def test_format_and_name(run, options, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, _, _ = call(capsys, "plot", run, "k-path", "--index", "bic", *options)
    assert code == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_unfinished_run_shows_what_it_has(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "cut")
    (tmp_path / "cut" / "result.json").unlink()
    trace = tmp_path / "cut" / "trace.jsonl"
    trace.write_text("".join(trace.read_text().splitlines(keepends=True)[:-3]))
    for what in ("trajectories", "objective", "participation"):
        assert call(capsys, "plot", tmp_path / "cut", what)[0] == 0
    code, _, err = call(capsys, "plot", tmp_path / "cut", "k-path")
    assert code == 2
    assert "holds no finished run: finish it with the same 'afcl run' command" in err


def test_a_benchmark_shows_what_its_runs_allow(benchmark, tmp_path, capsys):
    for what in ("trajectories", "objective"):
        out = tmp_path / f"{what}.svg"
        assert call(capsys, "plot", benchmark, what, "--out", out)[0] == 0
        assert "k-fed" in out.read_text()
    code, said, _ = call(
        capsys, "plot", benchmark, "critical-difference", "--out", tmp_path / "cd.png"
    )
    assert code == 0
    assert said.count("\n") == 2
    assert (tmp_path / "cd-sc.png").is_file()
    assert (tmp_path / "cd-ch.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "objective"], "no folder nowhere: give the one that"),
        (["RUN", "objectives"], "'objectives' cannot be drawn of a run: choose one"),
        (["RUN", "time-growth"], "choose one of trajectories, objective, k-path"),
        (["BENCH", "k-path"], "'k-path' cannot be drawn of a benchmark: choose"),
        (["BENCH", "cost"], "holds no run of a spec with cost-plot: see 'afcl bench"),
        (["RUN", "k-path", "--index", "bci"], "no index 'bci'; choose one of"),
        (["RUN", "k-path", "--format", "gif"], "--format gif is unknown: choose one"),
        (["RUN", "k-path", "--out", "a.gif"], "end the name in .png, .svg, .pdf, or"),
        (["RUN", "k-path", "--out", "a"], "end the name in .png, .svg, .pdf, or give"),
        (["RUN", "k-path", "--out", "a.png", "--format", "pdf"], "contradict each"),
        (["EMPTY", "objective"], "holds no run: give the folder that 'afcl run"),
        (["RUN"], "Missing argument 'WHAT'"),
    ],
)
def test_bad_input_gets_one_line(
    arguments, message, run, benchmark, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    places = {"RUN": run, "BENCH": benchmark, "EMPTY": tmp_path}
    code, out, err = call(capsys, "plot", *(places.get(a, a) for a in arguments))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_help_names_everything_there_is(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = call(capsys, "plot", "--help")
    for what in (*OF_A_RUN, *OF_A_BENCHMARK):
        assert what in out

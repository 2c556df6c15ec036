# SPDX-License-Identifier: Apache-2.0
"""``afcl bench`` as a user meets it: one line when it fails, and killed it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from afcl.cli import main
from afcl_bench.cli.bench import _duration, _progress
from afcl_bench.runner import Counts
from afcl_bench.spec import find_spec, spec_names
from afcl_bench.store import DONE, Store

SPEC = """
runs = 6
split = "iid:2"
participation = "always"

[[grid]]
datasets = ["iris"]
methods = ["afcl", "afcl-w"]

[[grid]]
datasets = ["iris"]
methods = ["k-fed", "mufc"]
options = { n_clusters = [2, 3] }
"""
#: Runs of which each takes many seconds, to be stopped in the middle.
SLOW = 'runs = 4\ncap = 100\n[[grid]]\ndatasets = "SD1"\nmethods = "any-k:ffcm-avg2"\n'


def call(capsys, *arguments):
    """Run the command in this process; return (exit code, stdout, stderr)."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "quick.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def asked(monkeypatch):
    """What the command would run, without running it."""
    found: list[dict[str, Any]] = []

    def run_grid(spec, cells, root, folder, **options):
        found.append({"spec": spec, "cells": cells, "root": root, "folder": folder})
        found[-1] |= options
        return Counts(stored=1, done=2, failed=3, capped=4)

    monkeypatch.setattr("afcl_bench.runner.run_grid", run_grid)
    return found


# ------------------------------------------------------------------ help and lists


def test_help_names_the_three_commands(capsys):
    code, out, _ = call(capsys, "bench", "--help")
    assert code == 0
    for name in ("run", "report", "specs"):
        assert f" {name} " in out
    code, out, _ = call(capsys, "bench", "run", "--help")
    assert code == 0
    for option in (
        "--out",
        "--data",
        "--only",
        "--runs",
        "--jobs",
        "--part",
        "--retry",
    ):
        assert option in out
    code, out, _ = call(capsys, "--help")
    assert "bench" in out


def test_specs_are_listed_with_their_runs_and_titles(capsys):
    code, out, err = call(capsys, "bench", "specs")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == spec_names()
    (line,) = [line for line in lines if line.startswith("significance ")]
    found = find_spec("significance")
    assert line.endswith(f"{len(found.cells):,} runs  {found.title}")


# ------------------------------------------------------------------ what is asked for


def test_options_reach_the_grid(spec, tmp_path, capsys, asked):
    (tmp_path / "data").mkdir()
    code, out, err = call(
        capsys, "bench", "run", spec, "--out", tmp_path / "o", "--data",
        tmp_path / "data", "--only", "iris,k-fed,afcl", "--runs", 3, "--jobs", 5,
        "--part", "2/3", "--retry",
    )  # fmt: skip
    assert (code, err) == (1, "")  # three runs failed
    (said,) = asked
    assert said["spec"].name == "quick"
    assert said["root"] == tmp_path / "o"
    assert said["folder"] == tmp_path / "data"
    assert (said["jobs"], said["part"], said["retry"]) == (5, (2, 3), True)
    assert said["progress"] is None
    assert {(c.method, c.seed) for c in said["cells"]} == {
        (method, seed) for method in ("k-fed", "afcl") for seed in range(3)
    }
    assert out == (
        "quick: 2 runs made, 1 were there, 3 failed, 4 met their time cap. "
        f"Next: afcl bench report {tmp_path / 'o'}\n"
    )


def test_what_is_left_out_is_everything_on_one_machine(spec, tmp_path, capsys, asked):
    call(capsys, "bench", "run", spec, "--out", tmp_path)
    (said,) = asked
    assert len(said["cells"]) == 36
    assert (said["jobs"], said["part"], said["retry"]) == (2, (1, 1), False)
    assert said["folder"] is None


def test_a_shipped_spec_is_run_by_its_name(tmp_path, capsys, asked):
    call(capsys, "bench", "run", "paper-tables", "--out", tmp_path, "--only", "IR,afcl")
    assert {(c.dataset, c.method) for c in asked[0]["cells"]} == {("IR", "afcl")}


def test_runs_that_met_their_cap_are_no_failure(spec, tmp_path, capsys, monkeypatch):
    ended = Counts(done=2, capped=4)
    monkeypatch.setattr("afcl_bench.runner.run_grid", lambda *_, **__: ended)
    assert call(capsys, "bench", "run", spec, "--out", tmp_path)[0] == 0


# ------------------------------------------------------------------ bad input


def test_a_method_that_nobody_knows_is_refused_before_all_runs(tmp_path, capsys, asked):
    path = tmp_path / "own.toml"
    path.write_text('[[grid]]\ndatasets = ["iris"]\nmethods = ["afcl", "nobody"]\n')
    code, _, err = call(capsys, "bench", "run", path, "--out", tmp_path / "o")
    assert (code, asked) == (2, [])
    assert "nobody" in err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "{spec}"], "Missing option '--out'"),
        (["run", "--out", "o"], "Missing argument"),
        (["run", "nope", "--out", "o"], "unknown spec 'nope'; choose one of ablation"),
        (["run", "nope.toml", "--out", "o"], "no spec nope.toml"),
        (["run", "{spec}", "--out", "o", "--only", "SE"], "quick has no SE"),
        (["run", "{spec}", "--out", "o", "--only", "iris,x,y"], "quick has no x, y"),
        (["run", "{spec}", "--out", "o", "--runs", "0"], "Invalid value for '--runs'"),
        (["run", "{spec}", "--out", "o", "--runs", "x"], "Invalid value for '--runs'"),
        (["run", "{spec}", "--out", "o", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["run", "{spec}", "--out", "o", "--part", "3/2"], "--part 3/2: give the i-th"),
        (["run", "{spec}", "--out", "o", "--part", "0/2"], "--part 0/2: give the i-th"),
        (["run", "{spec}", "--out", "o", "--part", "half"], "such as 2/3"),
        (["run", "{spec}", "--out", "o", "--part", "-1/2"], "such as 2/3"),
        (["run", "{spec}", "--out", "o", "--data", "none"], "no folder none"),
        (["run", "{spec}", "--out", "o", "--speed"], "No such option: --speed"),
        (["run", "{spec}", "--out", "{spec}"], "a file is in its way"),
        (["report", "nowhere"], "nowhere holds no benchmark: make one with"),
        (["report", "nowhere", "--spec", "x"], "nowhere holds no benchmark"),
        (["report"], "Missing argument"),
        (["walk"], "No such command 'walk'"),
        ([], "Missing command"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(
    arguments, text, spec, tmp_path, capsys, monkeypatch
):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    code, out, err = call(capsys, "bench", *(a.format(spec=spec) for a in arguments))
    assert code == 2
    assert text in err
    assert err.startswith("afcl: ")
    assert err.count("\n") == 1
    assert out == ""
    assert list(empty.iterdir()) == []


def test_a_bad_spec_gets_one_line(tmp_path, capsys):
    path = tmp_path / "bad.toml"
    for content in ("= broken", "speed = 1\n", SPEC + "runs = 'x'\n", "\n"):
        path.write_text(content)
        code, _, err = call(capsys, "bench", "run", path, "--out", tmp_path / "o")
        assert (code, err.count("\n")) == (2, 1)
        assert "bad" in err
        assert not (tmp_path / "o").exists()


def test_an_empty_folder_has_nothing_to_report(tmp_path, capsys):
    code, out, err = call(capsys, "bench", "report", tmp_path)
    assert (code, out) == (2, "")
    assert "holds no benchmark" in err
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "quick.toml").write_text(SPEC)
    code, _, err = call(capsys, "bench", "report", tmp_path)
    assert code == 2
    assert "holds no run of quick" in err
    code, _, err = call(capsys, "bench", "report", tmp_path, "--spec", "other")
    assert code == 2
    assert "it has those of quick" in err
    assert not (tmp_path / "report").exists()


def test_an_interruption_says_how_to_go_on(spec, tmp_path, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("afcl_bench.runner.run_grid", stop)
    code, _, err = call(capsys, "bench", "run", spec, "--out", tmp_path)
    assert code == 130
    assert err == "afcl: interrupted; the same command continues where it stopped\n"


# ------------------------------------------------------------------ progress


def test_on_a_terminal_there_is_a_bar_with_the_time_left(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    with _progress() as show:
        assert show is not None
        show(1, 3, None, "iris/afcl/0.npz")
        show(2, 3, 3661.4, "iris/afcl/1.npz")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (59.6, "0:01:00"), (3661.4, "1:01:01"), (90000, "25:00:00")],
)
def test_durations(seconds, text):
    assert _duration(seconds) == text


# ------------------------------------------------------------------ real processes


@contextmanager
def started(*arguments) -> Iterator[subprocess.Popen[str]]:
    """The command as a process in a group of its own, all of which ends here."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from afcl.cli import main; main()", "bench"]
        + [str(a) for a in arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    try:
        yield process
    finally:
        for pid in alive(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def alive(leader: int) -> list[int]:
    """Processes that a command started, itself included, from /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = path.read_text().rsplit(")", 1)[1].split()[:4]
        except (OSError, ValueError):
            continue  # it has just ended
        if int(number) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found


def until(condition: Callable[[], object], seconds: float) -> bool:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def stored(out: Path) -> dict[Path, tuple[int, bytes]]:
    """Every run's file with its time and its bytes."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(out.rglob("*.npz"))
    }


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="looks at processes in /proc"
)


@needs_proc
def test_killed_it_goes_on_where_it_stopped(spec, tmp_path, capsys):
    """kill -9 of everything, the same command again: all runs, none made twice."""
    out = tmp_path / "o"
    command = ("run", spec, "--out", out, "--jobs", 2)
    with started(*command) as process:
        assert until(lambda: len(list(out.rglob("*.npz"))) >= 3, 300)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
    before = stored(out)
    assert 3 <= len(before) < 36
    # As if the kill had come in the middle of writing.
    half = next(iter(before)).with_name("9.npz.4711.part")
    half.write_bytes(b"half a run")
    with started(*command) as process:
        said, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (0, "")
    assert said.startswith(
        f"quick: {36 - len(before)} runs made, {len(before)} were there, 0 failed, "
    )
    after = stored(out)
    assert len(after) == 36
    assert {path: after[path] for path in before} == before
    store = Store(out)
    for cell in find_spec(str(spec)).cells:
        run = cell.resolve(lambda: pytest.fail("no word asks for the data"))
        known = store.facts(run)
        assert known is not None
        assert known[0] == DONE
        assert store.path(run) in after
    code, said, err = call(capsys, "bench", "report", out)
    assert (code, err) == (0, "")
    assert said == f"quick: 36 of 36 runs, in {out / 'report' / 'quick'}\n"
    page = (out / "report" / "quick" / "report.md").read_text()
    assert "| iris | mufc | n_clusters = 3 | iid:2 | always | 6 of 6 |" in page


#: CPU seconds of a worker that is still loading what it needs, and of one at work.
LOADING, WORKING = 0.06, 4.0


def at_work(leader: int, seconds: float, count: int = 1) -> bool:
    """Whether so many workers of a command have used so much CPU time each."""
    used = []
    for pid in alive(leader):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if b"spawn_main" in command:
            used.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    return sum(time >= seconds for time in used) >= count


@needs_proc
def test_workers_end_when_the_benchmark_is_killed(tmp_path):
    """Nobody waits for them any more, and the same command may be under way again."""
    path, out = tmp_path / "slow.toml", tmp_path / "o"
    path.write_text(SLOW)
    with started("run", path, "--out", out, "--jobs", 1) as process:
        assert until(lambda: at_work(process.pid, WORKING), 300)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
        assert until(lambda: not alive(process.pid), 20)
    assert stored(out) == {}


@needs_proc
@pytest.mark.parametrize(
    ("seconds", "jobs"), [(LOADING, 2), (WORKING, 1)], ids=["loading", "working"]
)
def test_ctrl_c_ends_everything_with_one_line(tmp_path, seconds, jobs):
    """As a terminal sends it: to the workers, too, whatever they are doing."""
    path, out = tmp_path / "slow.toml", tmp_path / "o"
    path.write_text(SLOW)
    with started("run", path, "--out", out, "--jobs", jobs) as process:
        assert until(lambda: at_work(process.pid, seconds, jobs), 300)
        os.killpg(process.pid, signal.SIGINT)
        said, err = process.communicate(timeout=30)
        assert until(lambda: not alive(process.pid), 5)
    assert process.returncode == 130
    assert err == "afcl: interrupted; the same command continues where it stopped\n"
    assert said == ""
    assert stored(out) == {}


# ------------------------------------------------------------------ its own next line


def test_the_next_line_works_as_it_is_printed(tmp_path, capsys):
    """A report finds the data where the runs had them, wherever it is asked for."""
    data, out = tmp_path / "data", tmp_path / "o"
    data.mkdir()
    rows = [f"{9 * (i % 2) + i / 100},{i % 2}" for i in range(40)]
    (data / "pairs.csv").write_text("\n".join(["x,class", *rows]) + "\n")
    spec = tmp_path / "own.toml"
    spec.write_text('runs = 1\nsplit = "iid:2"\n[[grid]]\ndatasets = "pairs"\n'
                    'methods = "k-fed"\noptions = { n_clusters = 2 }\n')  # fmt: skip
    code, said, _ = call(
        capsys, "bench", "run", spec, "--out", out, "--data", data, "--jobs", 1
    )
    assert code == 0
    command = said.split("Next: afcl ")[1].split()
    assert command == ["bench", "report", str(out)]
    code, said, err = call(capsys, *command)
    assert (code, err) == (0, "")
    assert said == f"own: 1 of 1 runs, in {out / 'report' / 'own'}\n"
    # Where they are no longer there, it says what to do.
    (data / "pairs.csv").unlink()
    data.rmdir()
    code, _, err = call(capsys, *command)
    assert code == 2
    assert "give the folder that holds pairs.csv with --data DIR" in err


def test_what_is_published_is_not_made_again(tmp_path, capsys):
    data, out, pages = tmp_path / "data", tmp_path / "o", tmp_path / "pages"
    data.mkdir()
    rows = [f"{9 * (i % 2) + i / 100},{i % 2}" for i in range(40)]
    (data / "pairs.csv").write_text("\n".join(["x,class", *rows]) + "\n")
    spec = tmp_path / "own.toml"
    spec.write_text('runs = 1\nsplit = "iid:2"\n[[grid]]\ndatasets = "pairs"\n'
                    'methods = "k-fed"\noptions = { n_clusters = 2 }\n')  # fmt: skip
    make = ("bench", "run", spec, "--data", data, "--jobs", 1, "--pages", pages)
    pages.mkdir()
    assert "1 runs made" in call(capsys, *make, "--out", out)[1]
    code, said, err = call(capsys, "bench", "keep", out, "--pages", pages)
    assert (code, said, err) == (0, "own: 1 of 1 runs kept\n", "")
    code, said, _ = call(capsys, *make, "--out", tmp_path / "other")
    assert code == 0
    assert "0 runs made, 0 were there" in said


def test_quality_refuses_a_name_it_does_not_know():
    """Measuring nothing and ending well would look as if everything held."""
    script = Path(__file__).parents[2] / "benchmarks" / "quality.py"
    done = subprocess.run(
        [sys.executable, script, "--data", ".", "--only", "SD1,R15"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("--only R15: choose from SD1, SD2, SE")
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)

# SPDX-License-Identifier: Apache-2.0
"""How commands end: 0, 2, 3, 130, 141, 143, and never more than a line about it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.cli.test_live_commands import PLAN, beating

from afcl.cli import main
from afcl.cli.signals import Ended, ended_by_signals
from afcl.exceptions import InputError
from afcl.occupied import occupied
from afcl.runtime.live.server import write_failure
from afcl.runtime.results import read_result

COMMAND = "import sys; from afcl.cli import main; main(sys.argv[1:])"
#: Seconds that anything may take, on a machine that is busy with something else.
LONG = 300.0

resource = pytest.importorskip("resource", reason="limits are set with resource")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for site in "abc":
        rows = rng.normal(size=(60, 2)) + 9 * rng.integers(0, 2, size=(60, 1))
        lines = [f"{x},{y}" for x, y in rows]
        (tmp_path / f"{site}.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    return tmp_path


RUN = ("run", "a.csv", "b.csv", "c.csv", "--out", "r")


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str, str]:
    """Return the exit code, what was printed, and the last line about trouble."""
    with pytest.raises(SystemExit) as end:
        main(list(words))
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("afcl: ")]
    assert "Traceback" not in err
    assert len(lines) <= 1
    return end.value.code, out, "".join(lines)


def started(*words: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


# ------------------------------------------------------------------ the disk


def test_a_full_disk_stops_a_run_and_the_same_command_goes_on(here: Path):
    """A limit on the size of files, as a real process meets it."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

    whole = started("run", "a.csv", "b.csv", "c.csv", "--out", "whole")
    assert (whole.communicate(timeout=LONG), whole.returncode)[1] == 0
    first = started(*RUN, preexec_fn=limited)
    _, err = first.communicate(timeout=LONG)
    assert first.returncode == 3, err
    assert [line for line in err.splitlines() if line.startswith("afcl: ")] == [
        "afcl: r/journal.bin: File too large; nothing is lost: mend that, and the same "
        "command goes on (see docs/errors.md#stopped)"
    ]
    assert "Traceback" not in err
    assert not (here / "r" / "result.json").exists()
    status = started("status", "r")
    out, _ = status.communicate(timeout=LONG)
    assert status.returncode == 3
    assert "r: stopped (r/journal.bin: File too large); the same 'afcl run'" in out
    again = started(*RUN)
    assert (again.communicate(timeout=LONG), again.returncode)[1] == 0
    assert read_result(here / "r")["centers"] == read_result(here / "whole")["centers"]
    assert not (here / "r" / "heartbeat.json").exists()


@pytest.mark.parametrize("name", ["labels", "result.json", "centers.csv"])
def test_no_room_for_the_result(
    capsys: pytest.CaptureFixture[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
):
    real = os.replace

    def full(old: Path, new: Path) -> None:
        if name in str(new):
            raise OSError(errno.ENOSPC, "No space left on device", str(old))
        real(old, new)

    monkeypatch.setattr("os.replace", full)
    code, _, line = ended(capsys, *RUN)
    assert code == 3
    assert "No space left on device; nothing is lost" in line
    assert (here / "r" / "journal.bin").is_file()
    assert not list((here / "r").rglob("*.part"))
    monkeypatch.setattr("os.replace", real)
    assert ended(capsys, *RUN)[0] == 0


@pytest.mark.parametrize("out", ["/proc/x", "a.csv", "a.csv/below"])
def test_where_nothing_can_be_written(capsys: pytest.CaptureFixture[str], out: str):
    for words in ((*RUN[:-1], out), ("serve", "--insecure", "--out", out)):
        code, _, line = ended(capsys, *words)
        assert code == 2
        assert "--out" in line


def test_a_folder_that_became_read_only_before_the_run_began(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "r/run.json.part")

    monkeypatch.setattr("os.replace", refuse)
    code, _, line = ended(capsys, *RUN)
    assert code == 2
    assert line == "afcl: r/run.json.part: Read-only file system"
    assert not (here / "r").exists()


# ------------------------------------------------------------------ one at a time


@pytest.mark.parametrize(
    ("words", "who"),
    [
        (RUN, "afcl run"),
        (("serve", "--out", "r", "--insecure"), "afcl serve"),
        (("serve", "--resume", "r"), "afcl serve"),
        (
            ("join", "h:1", "--data", "a.csv", "--name", "a", "--out", "r")
            + ("--insecure",),
            "afcl join",
        ),
    ],
)
def test_two_in_one_folder(
    capsys: pytest.CaptureFixture[str], here: Path, words: tuple[str, ...], who: str
):
    with occupied(here / "r", who):
        code, _, line = ended(capsys, *words)
    assert code == 2
    assert f"another {who} (process {os.getpid()}) works in" in line


# ------------------------------------------------------------------ signals and pipes


def test_a_reader_that_goes_away(here: Path):
    """`afcl run … | head -0`: the run is made, and nobody complains."""
    process = started(*RUN)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(LONG) == 141
    assert "Traceback" not in err
    assert "Exception" not in err
    assert "afcl: " not in err
    assert read_result(here / "r")["n_clusters"] >= 1


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)]
)
def test_the_watching_is_ended(here: Path, number: int, code: int):
    PLAN.write(here / "r")
    beating(here / "r", 1e12)  # this process is there for a long time
    process = started("status", "r", "--watch")
    assert process.stdout is not None
    assert "waiting for 3 sites" in process.stdout.readline()
    process.send_signal(number)
    _, err = process.communicate(timeout=LONG)
    assert process.returncode == code
    assert "Traceback" not in err
    assert err.count("\n") == (number == signal.SIGTERM)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "stopped; 'afcl serve --resume"),
        (Ended(), 143, "ended; 'afcl serve --resume"),
        (OSError(errno.ENOSPC, "No space", "x"), 3, "x: No space; 'afcl serve --re"),
        (OSError(errno.ENOENT, "No such file", "x"), 2, "x: No such file"),
        (InputError("not so"), 2, "not so"),
    ],
)
def test_what_ends_a_served_run(
    capsys: pytest.CaptureFixture[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    text: str,
):
    class Ending:
        @contextmanager
        def serve(self, folder: Path, *given: object) -> Iterator[Any]:
            yield SimpleNamespace(
                begin=lambda: None, turned_away=list, alive=True, log=folder / "log"
            )

    def sleep(seconds: float) -> None:
        raise error

    module = import_module("afcl.cli.serve")
    monkeypatch.setattr(module, "get_launcher", lambda name: Ending())
    monkeypatch.setattr("afcl.cli.coordinating.time.sleep", sleep)
    found, _, line = ended(capsys, "serve", "--out", "r", "--insecure")
    assert found == code
    assert text in line
    assert (here / "r" / "plan.json").is_file()


def test_an_engine_that_fails_on_a_full_disk_can_be_resumed(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
):
    """It says what it likes; whether the disk is full can be seen."""
    test_what_ends_a_served_run(
        capsys, here, monkeypatch, InputError("not so"), 2, "not so"
    )
    usage = SimpleNamespace(free=0)
    monkeypatch.setattr("afcl.durable.shutil.disk_usage", lambda folder: usage)
    said = "r: No space left on device (not so); 'afcl serve --resume"
    test_what_ends_a_served_run(
        capsys, here, monkeypatch, InputError("not so"), 3, said
    )


@pytest.mark.parametrize(
    ("alive", "stopped", "text"),
    [
        (False, "", "the engine ended by itself, see "),
        (True, "journal.bin: No space left", "journal.bin: No space left; 'afcl serve"),
    ],
)
def test_a_served_run_that_stops_can_be_resumed(
    capsys: pytest.CaptureFixture[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    alive: bool,
    stopped: str,
    text: str,
):
    class Stopping:
        @contextmanager
        def serve(self, folder: Path, *given: object) -> Iterator[Any]:
            def begin() -> None:
                beating(folder, 1.0, stopped=stopped)

            yield SimpleNamespace(begin=begin, alive=alive, log=folder / "e" / "log")

    module = import_module("afcl.cli.serve")
    monkeypatch.setattr(module, "get_launcher", lambda name: Stopping())
    code, _, line = ended(capsys, "serve", "--out", "r", "--insecure")
    assert code == 3
    assert text in line
    assert "--resume" in line


# ------------------------------------------------------------------ starts that fail


@pytest.mark.parametrize("moment", ["serve", "begin"])
def test_a_start_that_fails_leaves_no_run(
    capsys: pytest.CaptureFixture[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
):
    class Broken:
        def serve(self, *given: object) -> Any:
            if moment == "serve":
                raise InputError("port 8000 is taken")
            return self._started()

        @contextmanager
        def _started(self) -> Iterator[Any]:
            def begin() -> None:
                raise InputError("the engine refused")

            yield SimpleNamespace(begin=begin)

    module = import_module("afcl.cli.serve")
    monkeypatch.setattr(module, "get_launcher", lambda name: Broken())
    assert ended(capsys, "serve", "--out", "r", "--insecure")[0] == 2
    assert not (here / "r").exists()
    code, _, line = ended(capsys, "status", "r")
    assert code == 2
    assert "holds no run" in line
    # One that was there before stays, and so does why it failed.
    PLAN.write(here / "r")
    write_failure(here / "r", "no client said hello")
    assert ended(capsys, "serve", "--resume", "r", "--insecure")[0] == 2
    assert (here / "r" / "plan.json").is_file()
    assert (here / "r" / "failed.json").is_file() is (moment == "serve")


def test_without_an_engine_no_folder_is_left(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("cryptography", reason="comes with 'afcl[flower]'")
    from afcl.runtime.flower.network import free_port

    monkeypatch.setattr("afcl.runtime.flower.keys.find_spec", lambda name: None)
    for words in ((), ("--insecure",)):
        port = ("--port", str(free_port()))
        code, _, line = ended(capsys, "serve", "--out", "r", *port, *words)
        assert code == 2
        assert "pip install 'afcl[flower]'" in line
        assert ended(capsys, "status", "r")[0] == 2


# ------------------------------------------------------------------ the status


def test_the_states_have_codes(capsys: pytest.CaptureFixture[str], here: Path):
    folder = here / "r"
    PLAN.write(folder)
    assert ended(capsys, "status", "r")[0] == 3
    beating(folder, 1e12)
    assert ended(capsys, "status", "r")[0] == 0
    beating(folder, 5.0)
    code, out, _ = ended(capsys, "status", "r")
    assert code == 3
    assert "probably dead" in out
    write_failure(folder, "no")
    assert ended(capsys, "status", "r")[0] == 2
    (folder / "result.json").write_text("{}")
    assert ended(capsys, "status", "r")[0] == 0


def test_the_status_of_a_finished_run_for_programs(
    capsys: pytest.CaptureFixture[str], here: Path
):
    assert ended(capsys, *RUN)[0] == 0
    code, out, _ = ended(capsys, "status", "r", "--json")
    assert code == 0
    facts = json.loads(out)
    assert facts["state"] == "done"
    assert facts["k"] == read_result(here / "r")["n_clusters"]
    assert [(site["name"], site["rows"]) for site in facts["sites"]] == [
        ("a", 60),
        ("b", 60),
        ("c", 60),
    ]
    assert facts["damaged_lines"] == 0
    assert facts["heartbeat_seconds"] is None
    with (here / "r" / "trace.jsonl").open("ab") as file:
        file.write(b"\xff\n")
    code, out, _ = ended(capsys, "status", "r")
    assert code == 0
    assert "1 lines of the trace cannot be read" in out


def test_a_run_is_watched_until_its_end(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = here / "r"
    PLAN.write(folder)
    beating(folder, 1e12)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            (folder / "heartbeat.json").unlink()  # stopped, but not the end
        if len(slept) == 4:
            write_failure(folder, "no client said hello")

    monkeypatch.setattr("time.sleep", sleep)
    code, out, _ = ended(capsys, "status", "r", "--watch")
    assert code == 2
    assert slept == [2.0] * 4
    states = [line.split(": ", 1)[1].split()[0] for line in out.splitlines()]
    assert states == ["waiting", "waiting", "stopped;", "stopped;", "failed:"]
    assert "\x1b" not in out  # this is no terminal


# ------------------------------------------------------------------ signals


def test_signals_are_the_main_threads_business():
    from threading import Thread

    seen: list[bool] = []

    def elsewhere() -> None:
        with ended_by_signals():
            seen.append(True)

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [True]


def test_a_damaged_journal_of_a_simulated_run(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
):
    assert ended(capsys, *RUN[:-1], "whole")[0] == 0
    module = import_module("afcl.runtime.results")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_labels", full)
        assert ended(capsys, *RUN)[0] == 3
    path = here / "r" / "journal.bin"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(SystemExit) as end:
        main([*RUN])
    assert end.value.code == 0
    err = capsys.readouterr().err
    assert "note: journal.bin was damaged: record" in err
    assert read_result(here / "r")["centers"] == read_result(here / "whole")["centers"]
    assert (here / "r" / "journal.damaged-1").is_file()
    assert ended(capsys, *RUN, "--force")[0] == 0
    assert not (here / "r" / "journal.damaged-1").exists()

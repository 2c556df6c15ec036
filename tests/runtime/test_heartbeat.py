# SPDX-License-Identifier: Apache-2.0
"""Signs of life, and where a run stands by them."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from afcl.exceptions import InputError
from afcl.occupied import occupied
from afcl.runtime.heartbeat import HEARTBEAT, SILENT, Beat, Heartbeat, read_beat
from afcl.runtime.live.server import PLAN, RunPlan, write_failure
from afcl.runtime.live.standing import standing
from afcl.trace import RunHistory, history_of

NOW = 1000.0
AGREED = [{"event": "agreed", "tick": 0, "columns": ["x"], "rows": 9}]


def test_it_beats_and_is_gone_at_the_end(tmp_path: Path):
    times = iter(range(100, 10**6))
    with Heartbeat(tmp_path, every=0.01, clock=lambda: float(next(times))):
        first = read_beat(tmp_path)
        assert first == Beat(os.getpid(), socket.gethostname(), 100.0)
        size = (tmp_path / HEARTBEAT).stat().st_size
        end = time.monotonic() + 60
        while read_beat(tmp_path) == first:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert (tmp_path / HEARTBEAT).stat().st_size == size
        assert (tmp_path / HEARTBEAT).stat().st_mode & 0o077 == 0
    assert read_beat(tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_it_says_what_the_disk_refused(tmp_path: Path):
    """It is written in place: that needs no room."""
    full = OSError(errno.ENOSPC, "No space left on device", "run1/" + "ö" * 500)
    with pytest.raises(OSError, match="No space"), Heartbeat(tmp_path):
        raise full
    beat = read_beat(tmp_path)
    assert beat is not None
    assert beat.stopped.startswith("run1/öö")


@pytest.mark.parametrize("error", [ValueError("x"), OSError(errno.ENOENT, "gone")])
def test_other_errors_are_not_the_disks(tmp_path: Path, error: Exception):
    with pytest.raises(type(error)), Heartbeat(tmp_path):
        raise error
    assert read_beat(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"process": 1}', "\x00" * 20])
def test_half_a_beat_is_none(tmp_path: Path, text: str):
    (tmp_path / HEARTBEAT).write_text(text)
    assert read_beat(tmp_path) is None


def test_a_process_that_has_ended_is_dead():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = socket.gethostname()
    assert Beat(gone.pid, here, 0.0).is_dead()
    assert not Beat(os.getpid(), here, 0.0).is_dead()
    assert not Beat(gone.pid, "another machine", 0.0).is_dead()


# ------------------------------------------------------------------ where it stands


@pytest.fixture
def live(tmp_path: Path) -> Path:
    RunPlan("run", "afcl", {}, 0, 100, 3).write(tmp_path)
    return tmp_path


def beat(folder: Path, **changes: object) -> None:
    fields = {**asdict(Beat(os.getpid(), socket.gethostname(), NOW - 1)), **changes}
    (folder / HEARTBEAT).write_text(json.dumps(fields))


def state(folder: Path, history: RunHistory | None = None) -> tuple[str, str]:
    found = standing(folder, history or RunHistory(), NOW)
    return found.state, found.text


def test_nobody_has_come_and_all_are_there(live: Path):
    beat(live)
    assert state(live) == ("waiting", "waiting for 3 sites")
    running = state(live, history_of(AGREED))
    assert running == ("running", "running, about 0 answers to come")


def test_nobody_works_on_it(live: Path):
    word, text = state(live)
    assert word == "stopped"
    assert text == f"stopped; 'afcl serve --resume {live}' goes on"


def test_the_process_is_dead(live: Path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    beat(live, process=gone.pid)
    assert state(live)[0] == "stopped"


@pytest.mark.parametrize("host", [socket.gethostname(), "another machine"])
def test_it_has_been_silent(live: Path, host: str):
    beat(live, at=NOW - SILENT - 10, host=host)
    word, text = state(live, history_of(AGREED))
    assert word == "silent"
    assert text.startswith("silent since 40 s: probably dead; 'afcl serve --resume")


def test_the_disk_has_stopped_it(live: Path):
    beat(live, stopped="journal.bin: No space left on device")
    with occupied(live, "afcl serve"):  # it is about to end
        word, text = state(live)
    assert word == "stopped"
    assert text.startswith("stopped (journal.bin: No space left on device); 'afcl")


def test_it_is_being_started(live: Path):
    with occupied(live, "afcl serve"):
        word, text = state(live)
    assert (word, text) == ("starting", f"starting (afcl serve, process {os.getpid()})")


def test_it_has_failed_or_is_done(live: Path):
    beat(live)
    write_failure(live, "no client said hello")
    assert state(live) == ("failed", "failed: no client said hello")
    (live / "failed.json").write_text("{")
    assert "cannot be read" in state(live)[1]
    (live / "result.json").write_text("{}")
    assert state(live) == ("done", "done, 0 sites")


def test_a_simulated_run(tmp_path: Path):
    with pytest.raises(InputError, match="holds no run"):
        state(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    assert state(tmp_path) == ("stopped", "stopped; the same 'afcl run' goes on")
    beat(tmp_path)
    assert state(tmp_path)[0] == "running"
    (tmp_path / "result.json").write_text("{}")
    assert state(tmp_path) == ("done", "done, 0 sites")


def test_a_plan_that_is_damaged_is_no_run(live: Path):
    (live / PLAN).write_text("{")
    with pytest.raises(InputError, match="holds no run"):
        state(live)

# SPDX-License-Identifier: Apache-2.0
"""Logs of the engine's processes: appended to, with times, not without end."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the network needs Flower: afcl[flower]")

from afcl.runtime.flower import log_file
from afcl.runtime.flower.child import Child
from afcl.runtime.flower.environment import environment
from afcl.runtime.flower.log_file import open_log, read_log, write_lines
from afcl.runtime.flower.logs import last_words, node_id, refusal

pytestmark = pytest.mark.federation

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ")


def test_a_process_that_is_started_again_goes_on_in_its_log(tmp_path: Path):
    log = tmp_path / "log"
    for text in ("first", "second"):
        command = [sys.executable, "-c", f"print('{text}')"]
        with Child(command, log=log, cwd=tmp_path, env=environment(tmp_path)) as child:
            assert child.wait(60) == 0
        assert read_log(log) == f"{text}\n"
    lines = log.read_text().splitlines()
    assert all(STAMP.match(line) for line in lines)
    said = [STAMP.sub("", line) for line in lines]
    assert said == ["started by afcl", "first", "started by afcl", "second"]
    assert log.stat().st_mode & 0o077 == 0


def test_what_an_earlier_process_said_is_not_held_against_this_one(tmp_path: Path):
    log = tmp_path / "log"
    for words in (["SuperNode ID: 7", "[code: 2004]"], []):
        open_log(log).close()
        assert (node_id(log), refusal(log)) == (None, None)
        write_lines([f"{word}\n".encode() for word in words], log)
        assert node_id(log) == ("7" if words else None)
    assert last_words(log) == f"see {log}"


def test_a_log_does_not_grow_without_end(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(log_file, "LARGEST", 500)
    log = tmp_path / "log"
    open_log(log).close()
    write_lines((f"line {number}\n".encode() for number in range(200)), log)
    assert {each.name for each in tmp_path.iterdir()} == {
        "log",
        "log.1",
        "log.2",
        "log.3",
    }
    assert all(each.stat().st_size <= 500 for each in tmp_path.iterdir())
    # Two of them are read: nothing of an earlier process is among it.
    assert read_log(log).endswith("line 198\nline 199\n")
    assert "started" not in read_log(log)


def test_a_start_is_found_in_the_file_before(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(log_file, "LARGEST", 60)
    log = tmp_path / "log"
    log.write_text("of an earlier process\n")
    open_log(log).close()
    write_lines([b"of this one\n"], log)
    assert (tmp_path / "log.1").is_file()
    assert read_log(log) == "of this one\n"


def test_bytes_that_are_no_text_and_colours(tmp_path: Path):
    log = tmp_path / "log"
    write_lines([b"\xff \x1b[92mINFO\x1b[0m\r\n", b"no end"], log)
    assert read_log(log) == "� INFO\nno end\n"


def test_a_full_disk_does_not_hold_the_process_up(tmp_path: Path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("logging.StreamHandler.flush", full)
    taken = []

    def lines():
        for number in range(3):
            taken.append(number)
            yield b"x\n"

    write_lines(lines(), tmp_path / "log")
    assert taken == [0, 1, 2]

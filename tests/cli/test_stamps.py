# SPDX-License-Identifier: Apache-2.0
"""Lines of a log begin with the time."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from afcl.cli.stamps import Stamped, now, stamped_lines

#: As the installed command calls it.
COMMAND = "from afcl.cli import main; main()"
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "


@pytest.mark.parametrize(
    ("texts", "written"),
    [
        (["a\n"], "T a\n"),
        (["a", "b\n"], "T ab\n"),
        (["a\nb\n", "c"], "T a\nT b\nT c"),
        (["\n"], "T \n"),
        ([""], ""),
    ],
)
def test_every_line_has_one_stamp(texts: list[str], written: str):
    stream = io.StringIO()
    stamped = Stamped(stream, clock=lambda: "T")
    for text in texts:
        assert stamped.write(text) == len(text)
    assert stream.getvalue() == written


def test_what_commands_say_goes_through_it(monkeypatch: pytest.MonkeyPatch):
    """Click looks whether a stream takes bytes, and then writes nothing else."""
    bytes_ = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_, encoding="utf-8"))
    with stamped_lines(["serve"]):
        typer.echo("Listening on é")
        with pytest.raises(TypeError, match="no bytes"):
            sys.stdout.write(b"")  # type: ignore[arg-type]
    assert re.fullmatch(STAMP + "Listening on é\n", bytes_.getvalue().decode())


def test_the_time_is_told_in_utc():
    assert re.fullmatch(STAMP.strip(), now())


def ran(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        cwd=where,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_last_line_of_a_lasting_command_is_stamped_too(tmp_path: Path):
    done = ran(tmp_path, "serve")
    assert done.returncode == 2
    assert re.fullmatch(STAMP + "afcl: give --out DIR .*\n", done.stderr)


@pytest.mark.parametrize("command", ["serve", "join"])
def test_help_is_no_log(tmp_path: Path, command: str):
    done = ran(tmp_path, command, "--help")
    assert done.returncode == 0
    assert f"Usage: afcl {command}" in done.stdout
    assert re.search(STAMP, done.stdout) is None


def test_other_commands_are_as_they_were(tmp_path: Path):
    assert ran(tmp_path, "status", "nothing").stderr.startswith("afcl: ")


def test_a_terminal_shows_no_times(monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", file)
    with stamped_lines(["join", "hub:8000"]):
        sys.stdout.write("joined\n")
        sys.stderr.write("warning\n")
    assert sys.stdout is terminal
    assert terminal.getvalue() == "joined\n"
    assert re.fullmatch(STAMP + "warning\n", file.getvalue())

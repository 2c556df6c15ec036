# SPDX-License-Identifier: Apache-2.0
"""Real processes: `afcl` commands started, watched and ended, within a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

psutil = pytest.importorskip("psutil", reason="needs psutil: 'afcl[flower]'")

#: Seconds that anything may take; machines are shared, so it is a lot.
LONG = 300.0
COMMAND = "import sys; from afcl.cli import main; main(sys.argv[1:])"


class Party:
    """One `afcl` command running in a process of its own."""

    def __init__(self, where: Path, *arguments: object, env: dict[str, str]) -> None:
        words = [str(argument) for argument in arguments]
        name = f"{words[0]}-{len(list(where.glob('*.said')))}"
        self.said_in = where / f"{name}.said"
        with self.said_in.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *words],
                cwd=where,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.said_in.read_text(encoding="utf-8")

    def ends(self, code: int, within: float = LONG) -> str:
        """Wait for the end; return what was said."""
        try:
            found = self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"does not end; it said:\n{self.said}") from None
        assert found == code, self.said
        return self.said

    def says(self, text: str, within: float = LONG) -> None:
        """Wait until it has said this."""
        until(lambda: text in self.said or self.process.poll() is not None, within)
        assert text in self.said, self.said

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


def until(condition: Callable[[], bool], within: float = LONG) -> None:
    """Wait until something is so."""
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def living(where: Path) -> list[str]:
    """Command lines of processes that have to do with a folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd", "environ", "status"]):
        facts = process.info
        if facts["status"] == psutil.STATUS_ZOMBIE:
            continue
        words = [*(facts["cmdline"] or ()), facts["cwd"] or ""]
        home = (facts["environ"] or {}).get("FLWR_HOME", "")
        if any(str(where) in word for word in (*words, home)):
            found.append(" ".join(facts["cmdline"] or ()))
    return found


@pytest.fixture
def party(tmp_path: Path) -> Iterator[Callable[..., Party]]:
    """Start commands in the test's folder; nothing of them may live on."""
    started: list[Party] = []

    def start(*arguments: object, env: dict[str, str] | None = None) -> Party:
        started.append(Party(tmp_path, *arguments, env=env or {}))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.signal(signal.SIGTERM)
    for each in started:
        try:
            each.process.wait(30)
        except subprocess.TimeoutExpired:
            each.process.kill()
            each.process.wait()
    try:
        until(lambda: not living(tmp_path), 30)
    finally:
        for process in psutil.process_iter(["cmdline"]):
            if any(str(tmp_path) in word for word in process.info["cmdline"] or ()):
                process.kill()

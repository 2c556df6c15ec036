# SPDX-License-Identifier: Apache-2.0
"""Several machines on this one: a page is typed at them, block by block.

A machine is a folder, which is its user's home, and a network name. Names resolve to
addresses of the loopback (``stand_ins/names``), the coordinator's to one of its own, so
that the page's port is free. Nothing needs root. What is not as the page has it:

* ``0.0.0.0`` is the coordinator's loopback address: tests open nothing to the network;
* ``scp``, ``sudo``, ``systemctl`` and ``journalctl`` are small programs in
  ``stand_ins``: there is no systemd in a container, and no second machine.

The first line of a block says where it is typed: ``# at coordinator``; of a file, its
name too: ``# site.toml at site-a``. If it names several machines, the others type the
same with their own name in place of the first one's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.docs.test_blocks import PLACE, Block, agrees

from .conftest import LONG, until

STAND_INS = Path(__file__).parent / "stand_ins"
#: Commands that stay where they were typed.
LASTING = re.compile(r"afcl (?:serve|join) .*")
#: What begins the lines of a log.
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", re.MULTILINE)
DOMAIN = "example.org"


@dataclass(frozen=True)
class Place:
    """Where a block belongs: at which machines, and in which file."""

    names: tuple[str, ...]
    file: str = ""


def place_of(block: Block) -> Place | None:
    """Return where a block is typed, None if it does not say."""
    found = PLACE.fullmatch(block.text.splitlines()[0])
    if found is None:
        return None
    return Place(tuple(found["names"].split(", ")), found["file"] or "")


def stays(block: Block) -> bool:
    """Whether the command of a block goes on while the page does."""
    lines = block.text.splitlines()[1:]
    return len(lines) == 1 and LASTING.fullmatch(lines[0]) is not None


class Command:
    """A command that stays."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log

    @property
    def said(self) -> str:
        """What it has said so far, without the times."""
        return STAMP.sub("", self._log.read_text(encoding="utf-8"))

    def shows(self, text: str) -> None:
        """Wait until it has said what the page shows."""
        wanted = f"{text}…\n"

        def is_said() -> bool:
            return agrees(wanted, self.said) or self.process.poll() is not None

        try:
            until(is_said, LONG)
        except AssertionError:
            raise AssertionError(f"it said only\n{self.said}") from None
        assert agrees(wanted, self.said), f"it said\n{self.said}"


class Network:
    """The machines, and all that runs on them.

    Parameters
    ----------
    root : Path
        Their folders are made below.
    address : str
        Of the coordinator, on the loopback.
    """

    def __init__(self, root: Path, address: str) -> None:
        self._root, self.address = root, address
        self.commands: list[tuple[str, Command]] = []

    def folder(self, name: str) -> Path:
        """Return the home of a machine's user."""
        folder = self._root / name
        folder.mkdir(exist_ok=True)
        return folder

    def environment(self, name: str) -> dict[str, str]:
        """Return what the processes of a machine are told."""
        hosts = ("coordinator", "new")
        here = {f"{host}.{DOMAIN}": self.address for host in hosts}
        programs = (STAND_INS, Path(sys.executable).parent, os.environ["PATH"])
        paths = (STAND_INS / "names", os.environ.get("PYTHONPATH", ""))
        told = {
            "HOME": str(self.folder(name)),
            "PATH": os.pathsep.join(map(str, programs)),
            "PYTHONPATH": os.pathsep.join(map(str, filter(None, paths))),
            "AFCL_TEST_NAMES": json.dumps(here),
            "AFCL_TEST_MACHINES": str(self._root),
            "COLUMNS": "200",
        }
        ours = ("AFCL_HOME", "XDG_STATE_HOME")
        kept = {k: v for k, v in os.environ.items() if k not in ours}
        return {**kept, **told}

    def play(self, block: Block, shown: str) -> None:
        """Type a block at its machines; `shown` is what the page says they answer."""
        place = place_of(block)
        assert place is not None, f"line {block.line} does not say where it is typed"
        first = place.names[0]
        started = []
        for name in place.names:
            text, says = (t.replace(first, name) for t in (block.text, shown))
            text, says = (t.replace("0.0.0.0", self.address) for t in (text, says))
            if place.file:
                (self.folder(name) / place.file).write_text(text, encoding="utf-8")
            elif stays(block):
                started.append((self._start(name, text), says))
            else:
                said = self._run(name, text, block.line)
                if shown:
                    assert agrees(says, said), f"line {block.line}: it said\n{said}"
        for command, says in started:
            command.shows(says)

    def _start(self, name: str, text: str) -> Command:
        log = self._root / f"{name}-{len(self.commands)}.said"
        with log.open("wb") as out:
            process = self._bash(name, f"exec {text.splitlines()[1]}", out)
        command = Command(process, log)
        self.commands.append((name, command))
        return command

    def _run(self, name: str, text: str, line: int) -> str:
        out = self._root / "last.said"
        with out.open("wb") as file:
            process = self._bash(name, text, file)
            try:
                code = process.wait(LONG)
            finally:
                if process.poll() is None:  # it waits for a line that does not come
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        said = out.read_text(encoding="utf-8")
        assert code == 0, f"line {line} at {name}: exit code {code}\n{said}"
        return said

    def _bash(self, name: str, text: str, out: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder(name),
            env=self.environment(name),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def close(self) -> None:
        """End all that still runs, each by its number."""
        for name in sorted(path.name for path in self._root.iterdir() if path.is_dir()):
            units = self.folder(name) / ".units"
            running = [path.stem for path in units.glob("*.pid")]
            if running:
                self._run(name, f"systemctl stop {' '.join(running)}", 0)
        for _, command in self.commands:
            if command.process.poll() is None:
                command.process.send_signal(signal.SIGTERM)
                command.process.wait(60)

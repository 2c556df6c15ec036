# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, with real processes: one line, exit code 3, nothing is lost.

Who may mount one has a small disk of its own for it (tmpfs). Elsewhere the processes of
that side are told that there is no space left whenever they want a file to last.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip(
    "flwr", reason="federation needs Flower: pip install 'afcl[flower]'"
)

from afcl.runtime.flower.network import free_port
from afcl.runtime.results import read_result

from .conftest import Party, until
from .test_live import join, port_is_free, write_sites

pytestmark = pytest.mark.federation

Start = Callable[..., Party]
NO_SPACE = "No space left on device"
#: What stands in for a full disk.
TOLD = f"""
import errno, os
_fsync = os.fsync
def fsync(handle):
    if os.path.exists(os.environ["AFCL_TEST_FULL"]):
        raise OSError(errno.ENOSPC, {NO_SPACE!r})
    _fsync(handle)
os.fsync = fsync
"""


class Disk:
    """A disk for one folder that can be filled and emptied.

    Parameters
    ----------
    folder : Path
        Where it is.
    beside : Path
        What it needs lies below.
    """

    def __init__(self, folder: Path, beside: Path) -> None:
        self._folder, self._full = folder, beside / "full"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
        self.is_real = os.getuid() == 0 and subprocess.run(command).returncode == 0
        self.env: dict[str, str] = {}
        if not self.is_real:
            code = beside / "code"
            code.mkdir()
            (code / "sitecustomize.py").write_text(TOLD)
            paths = [str(code), os.environ.get("PYTHONPATH", "")]
            told = os.pathsep.join(filter(None, paths))
            self.env = {"PYTHONPATH": told, "AFCL_TEST_FULL": str(self._full)}

    def fill(self) -> None:
        if not self.is_real:
            self._full.touch()
            return
        with (self._folder / "filling").open("wb", buffering=0) as file:
            while shutil.disk_usage(self._folder).free:
                file.write(b"x" * 4096)

    def empty(self) -> None:
        (self._folder / "filling").unlink(missing_ok=True)
        self._full.unlink(missing_ok=True)

    def remove(self) -> None:
        if self.is_real:
            subprocess.run(["umount", "--lazy", str(self._folder)], check=True)


@pytest.fixture
def disk_at(tmp_path: Path) -> Iterator[Callable[[str], Disk]]:
    made: list[Disk] = []

    def make(name: str) -> Disk:
        made.append(Disk(tmp_path / name, tmp_path))
        return made[-1]

    yield make
    for disk in made:
        disk.remove()


def last_line(said: str) -> str:
    assert "Traceback" not in said
    return said.splitlines()[-1]


def test_at_a_site(tmp_path: Path, party: Start, disk_at: Callable[[str], Disk]):
    write_sites(tmp_path, 3)
    port, disk = free_port(), disk_at("site-0")
    serve = ("serve", "--out", "run", "--port", port, "--insecure")
    # Open a while longer: the others may have ended before this site is back.
    server = party(*serve, "--privacy", "summary", "--linger", 20)
    server.says("Listening")
    full = join(party, port, 0, "--insecure", env=disk.env)
    full.says("joined")
    disk.fill()
    others = [join(party, port, site, "--insecure") for site in (1, 2)]
    line = last_line(full.ends(3))
    assert NO_SPACE in line
    assert "the same command comes back into the run" in line
    # Typed again on the full disk it ends in the same way.
    line = last_line(join(party, port, 0, "--insecure", env=disk.env).ends(3))
    assert NO_SPACE in line
    disk.empty()
    others.append(join(party, port, 0, "--insecure", env=disk.env))
    for each in others:
        each.ends(0)
    server.ends(0)
    assert len(read_result(tmp_path / "run")["sites"]) == 3
    assert (tmp_path / "site-0" / "labels.csv").is_file()


def test_at_the_coordinator(
    tmp_path: Path, party: Start, disk_at: Callable[[str], Disk]
):
    write_sites(tmp_path, 3)
    port, disk = free_port(), disk_at("run")
    serve = ("serve", "--out", "run", "--port", port, "--insecure")
    server = party(*serve, "--privacy", "summary", env=disk.env)
    server.says("Listening")
    sites = [join(party, port, site, "--insecure") for site in (0, 1)]
    for each in sites:
        each.says("joined")
    disk.fill()
    sites.append(join(party, port, 2, "--insecure"))
    line = last_line(server.ends(3))
    assert NO_SPACE in line
    assert f"'afcl serve --resume {tmp_path / 'run'}' goes on" in line
    disk.empty()
    until(lambda: port_is_free(port), 60)
    again = party("serve", "--resume", "run", env=disk.env)
    again.says("Listening")
    if sites[-1].process.poll() is not None:  # the engine could not take it in
        sites.pop().ends(3)
        sites.append(join(party, port, 2, "--insecure"))
    for each in sites:
        each.ends(0)
    again.ends(0)
    assert read_result(tmp_path / "run")["n_clusters"] == 4

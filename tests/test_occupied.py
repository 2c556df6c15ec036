# SPDX-License-Identifier: Apache-2.0
"""Folders in which one process works at a time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from afcl import occupied as module
from afcl.exceptions import InputError
from afcl.occupied import LOCK, Holder, holder, occupied

HOLD = """
import sys, time
from pathlib import Path
from afcl.occupied import occupied
with occupied(Path(sys.argv[1]), "afcl serve"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_one_is_told_who_is_there(tmp_path: Path):
    line = rf"another afcl serve \(process {os.getpid()}\) works in .*run1: wait"
    with (
        occupied(tmp_path / "run1", "afcl serve"),
        pytest.raises(InputError, match=line),
        occupied(tmp_path / "run1", "afcl run", patience=0.0),
    ):
        pytest.fail("two are there")
    with occupied(tmp_path / "run1", "afcl run", patience=0.0):
        pass


def test_locks_of_other_names_are_others(tmp_path: Path):
    with occupied(tmp_path, "serve"), occupied(tmp_path, "coordinator", name="other"):
        assert holder(tmp_path) == Holder("serve", os.getpid())
        assert holder(tmp_path, "other") == Holder("coordinator", os.getpid())
    assert holder(tmp_path) is None


def test_who_is_killed_lets_go(tmp_path: Path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            assert holder(tmp_path) == Holder("afcl serve", process.pid)
            line = rf"\(process {process.pid}\)"
            with pytest.raises(InputError, match=line), occupied(tmp_path, "x"):
                pytest.fail("two are there")
        finally:
            process.kill()
    assert (tmp_path / LOCK).is_file()
    assert holder(tmp_path) is None
    with occupied(tmp_path, "afcl serve"):
        assert holder(tmp_path) == Holder("afcl serve", os.getpid())
    assert not (tmp_path / LOCK).exists()


def test_a_folder_that_was_made_for_nothing_is_removed(tmp_path: Path):
    with occupied(tmp_path / "a" / "b", "x", private=True):
        assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "a" / "b").exists()
    with occupied(tmp_path / "c", "x"):
        (tmp_path / "c" / "kept").write_text("x")
    assert [each.name for each in (tmp_path / "c").iterdir()] == ["kept"]
    with occupied(tmp_path / "c", "x"):
        (tmp_path / "c" / "kept").unlink()
    assert (tmp_path / "c").is_dir()  # it was there before


def test_one_that_was_removed_meanwhile_is_no_lock(tmp_path: Path, monkeypatch):
    """Opened before the last holder removed it, locked after: others see a new one."""
    seen: list[Path] = []
    real = module._is_there

    def once(file, path):
        if not seen:
            seen.append(path)
            path.unlink()
        return real(file, path)

    monkeypatch.setattr(module, "_is_there", once)
    with occupied(tmp_path, "x"):
        assert holder(tmp_path) == Holder("x", os.getpid())
    assert seen


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/x"])
def test_where_no_folder_can_be(tmp_path: Path, where: str):
    (tmp_path / "file").write_text("x")
    if where.startswith("/proc") and not Path("/proc/self").exists():
        pytest.skip("there is no /proc")
    with pytest.raises(InputError, match="--out"), occupied(tmp_path / where, "x"):
        pytest.fail("there is no such folder")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch):
    def refuse(path, flags):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(module, "owner_only", refuse)
    with pytest.raises(InputError, match="Read-only") as told, occupied(tmp_path, "x"):
        pytest.fail("nothing can be written")
    assert "choose another folder" in str(told.value)


@pytest.mark.skipif(os.name != "posix", reason="the system has no flock")
def test_where_there_are_no_locks_everybody_may(tmp_path: Path, monkeypatch):
    def refuse(*given):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with occupied(tmp_path, "x"), occupied(tmp_path, "y"):
        pass


def test_a_full_disk_does_not_break_the_lock(tmp_path: Path):
    (tmp_path / LOCK).write_text("rubbish")
    with occupied(tmp_path, "x"):
        (tmp_path / LOCK).write_text("")
        assert holder(tmp_path) == Holder("afcl", 0)

# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced: in which order, and what is left when it fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.report.folders import result_of

from afcl import durable
from afcl.durable import disk_trouble, no_space, remove, replacing
from afcl.owner_only import owner_only, write_whole
from afcl.report import write_report
from afcl.runtime.live.server import RunPlan
from afcl.runtime.results import JOURNAL, RESULT, write_result


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the system, in order: sync, rename, unlink and of which."""
    told: list[str] = []
    real_sync, real_replace, real_unlink = os.fsync, os.replace, Path.unlink

    def sync(handle: int) -> None:
        told.append(f"sync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        real_sync(handle)

    def rename(old: Path, new: Path) -> None:
        told.append(f"rename {Path(new).name}")
        real_replace(old, new)

    def unlink(path: Path, missing_ok: bool = False) -> None:
        told.append(f"unlink {path.name}")
        real_unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr("os.fsync", sync)
    monkeypatch.setattr("os.replace", rename)
    monkeypatch.setattr(Path, "unlink", unlink)
    return told


on_linux = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="names of open files are in /proc"
)


@on_linux
def test_the_content_lasts_before_the_name_does(tmp_path: Path, calls: list[str]):
    with replacing(tmp_path / "new") as file:
        file.write("whole")
    assert calls == ["sync new.part", "rename new", f"sync {tmp_path.name}"]
    assert (tmp_path / "new").read_text() == "whole"
    assert (tmp_path / "new").stat().st_mode & 0o077


@on_linux
@pytest.mark.parametrize("kind", ["plan", "private", "report"])
def test_everything_that_is_replaced_is_synced(
    tmp_path: Path, calls: list[str], kind: str
):
    if kind == "plan":
        RunPlan("run", "afcl", {}, 0, 100, 3).write(tmp_path)
    elif kind == "private":
        write_whole(tmp_path / "x", b"x")
    else:
        write_result(tmp_path, result_of(), {})
        calls.clear()
        write_report(tmp_path)
    assert [call.split()[0] for call in calls] == ["sync", "rename", "sync"]


@on_linux
def test_the_journal_goes_when_the_result_lasts(tmp_path: Path, calls: list[str]):
    (tmp_path / JOURNAL).write_bytes(b"all that was said")
    write_result(tmp_path, result_of(), {})
    folder = f"sync {tmp_path.name}"
    last = [f"sync {RESULT}.part", f"rename {RESULT}", folder]
    assert calls[-5:] == [*last, f"unlink {JOURNAL}", folder]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_what_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
):
    path = tmp_path / "file"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"os.{moment}", full)
    with pytest.raises(OSError, match="No space"), replacing(path) as file:
        file.write("new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_bytes_and_owners(tmp_path: Path):
    with replacing(tmp_path / "x", "wb", opener=owner_only) as file:
        file.write(b"\r\n")
    assert (tmp_path / "x").read_bytes() == b"\r\n"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_what_is_removed_may_be_gone_already(tmp_path: Path):
    (tmp_path / "x").write_text("x")
    for _ in range(2):
        remove(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_where_folders_cannot_be_synced(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(durable, "_CAN_SYNC_FOLDERS", False)
    monkeypatch.setattr("os.open", lambda *_: pytest.fail("a folder was opened"))
    durable.sync_folder(tmp_path)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left", "a/b"), "a/b: No space left"),
        (OSError(errno.EROFS, "Read-only"), "Read-only"),
        (OSError(errno.EDQUOT, "Quota"), "Quota"),
        (PermissionError(errno.EACCES, "denied", "x"), "x: denied"),
        (FileNotFoundError(errno.ENOENT, "gone", "x"), None),
        (TimeoutError("late"), None),
    ],
)
def test_what_is_the_disk(error: OSError, words: str | None):
    assert disk_trouble(error) == words


@pytest.mark.parametrize("free", [0, 4096, 1 << 30])
def test_a_disk_that_is_as_good_as_full(tmp_path: Path, monkeypatch, free: int):
    usage = SimpleNamespace(free=free)
    monkeypatch.setattr("afcl.durable.shutil.disk_usage", lambda folder: usage)
    said = f"{tmp_path}: No space left on device"
    assert no_space(tmp_path) == (None if free > 4096 else said)

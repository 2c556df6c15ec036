# SPDX-License-Identifier: Apache-2.0
"""A site whose disk is full: it says so, loses nothing, and comes back into the run."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.test_federation import (
    ListEngine,
    no_waiting,
    plan,
    write_sites,
)

from afcl.cli import attending
from afcl.cli.waiting import Waiting
from afcl.core.terms import AskAnnouncement
from afcl.exceptions import InputError, Stopped
from afcl.runtime.codec import encode
from afcl.runtime.live.membership import SITE, open_membership
from afcl.runtime.live.server import serve_run
from afcl.runtime.live.site_disk import RESERVE, SIZE, leave_word, make_room, read_word
from afcl.runtime.live.trouble import KEPT_HERE, TROUBLE, answer_or_reason
from afcl.runtime.results import read_result

__all__ = ["no_waiting"]

ASKED = encode(AskAnnouncement("run", True))
FULL = OSError(errno.ENOSPC, "No space left on device")
NODE: Any = SimpleNamespace(trouble=lambda: None, absent=lambda: None, alive=True)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A disk that can be full: what is not in place already is not taken."""
    state, sync = SimpleNamespace(full=False), os.fsync

    def fsync(handle: int) -> None:
        if state.full:
            raise FULL
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return state


def site(tmp_path: Path) -> Any:
    _, folders = write_sites(tmp_path)
    make_room(folders[100])
    return folders[100]


def test_the_reason_is_in_the_sites_folder_and_the_state_is_kept(tmp_path, disk):
    folder = site(tmp_path)
    before = (folder / SITE).read_bytes()
    disk.full = True
    assert answer_or_reason(folder, ASKED) == (b"", KEPT_HERE)
    assert "No space left on device" in read_word(folder)
    assert (folder / RESERVE).stat().st_size == SIZE
    assert (folder / SITE).read_bytes() == before
    assert not (folder / TROUBLE).exists()
    with pytest.raises(Stopped, match=r"No space left.*comes back into the run"):
        attending._watch(folder, NODE, Waiting(None))
    disk.full = False
    make_room(folder)
    assert read_word(folder) == ""
    said, why = answer_or_reason(folder, ASKED)
    assert said
    assert why == ""


def test_what_cannot_be_written_down_stops_the_site(tmp_path):
    """The record of what leaves the house may lie on another disk."""
    folder = site(tmp_path)
    (folder / "sent.jsonl").mkdir()
    assert answer_or_reason(folder, ASKED) == (b"", KEPT_HERE)
    assert "so nothing is sent" in read_word(folder)


def test_a_run_waits_for_who_makes_room(tmp_path, disk):
    """Full from its third request on; the coordinator goes on with it afterwards."""
    _, folders = write_sites(tmp_path)
    make_room(folders[100])

    class Filling(ListEngine):
        stopped = False

        def poll(self):
            mine = [d for a, d in self.requests if a == 100]
            disk.full = len(mine) >= 3 and not self.stopped
            arrived = super().poll()
            disk.full = False
            if read_word(folders[100]):
                self.stopped = True
                make_room(folders[100])  # as 'afcl join' does when it is typed again
            return arrived

    engine = Filling({**folders})
    serve_run(engine, plan(tmp_path / "run"))
    assert engine.stopped
    assert len(read_result(tmp_path / "run")["sites"]) == 4
    assert {open_membership(f).state for f in folders.values()} == {"done"}


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_nobody_may_write_to_any_more(tmp_path, monkeypatch, code):
    folder, opened = site(tmp_path), Path.open

    def refuse(self, mode="r", *more, **others):
        if mode == "r":
            return opened(self, mode, *more, **others)
        raise OSError(code, os.strerror(code), str(self))

    monkeypatch.setattr(Path, "open", refuse)
    leave_word(folder, "not even that")
    with pytest.raises(Stopped, match=rf"{RESERVE}: {os.strerror(code)}; the same"):
        attending._watch(folder, NODE, Waiting(None))


def test_a_long_reason_does_not_grow_the_file(tmp_path):
    make_room(tmp_path)
    leave_word(tmp_path, "ö" * SIZE)
    assert (tmp_path / RESERVE).stat().st_size == SIZE
    assert set(read_word(tmp_path)) == {"ö"}


def test_a_site_of_an_earlier_version_has_no_such_file(tmp_path):
    leave_word(tmp_path, "full")
    assert read_word(tmp_path) == ""


@pytest.mark.parametrize(
    ("began", "kind"), [(True, Stopped), (False, OSError), (None, OSError)]
)
def test_only_what_began_can_be_come_back_to(tmp_path, began, kind):
    error = FULL if began is not None else OSError(errno.ECONNREFUSED, "refused")
    if began is not False:
        (tmp_path / SITE).touch()
    with pytest.raises(kind) as ended, attending.coming_back(tmp_path):
        raise error
    assert not isinstance(ended.value, InputError)

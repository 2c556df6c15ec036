# SPDX-License-Identifier: Apache-2.0
"""Files and folders that only their owner can open."""

from __future__ import annotations

import os

import pytest

from afcl.owner_only import all_owner_only, make_folder, owner_only, write_whole


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def open_to_all():
    """The system would let everybody in."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_new_file_is_closed_before_anything_is_in_it(tmp_path):
    with open(tmp_path / "new", "w", opener=owner_only):
        assert mode(tmp_path / "new") == 0o600


def test_an_old_file_is_closed(tmp_path):
    (tmp_path / "old").write_text("x")
    with open(tmp_path / "old", "a", opener=owner_only):
        assert mode(tmp_path / "old") == 0o600


def test_folders_that_are_made_are_closed_and_others_stay(tmp_path):
    (tmp_path / "given").mkdir()
    make_folder(tmp_path / "given" / "made" / "below")
    assert mode(tmp_path / "given") == 0o777
    assert mode(tmp_path / "given" / "made") == 0o700
    assert mode(tmp_path / "given" / "made" / "below") == 0o700


def test_a_file_in_the_way_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file" / "below")


def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "folder" / "file"
    write_whole(path, b"first")
    assert path.read_bytes() == b"first"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)

    def fail(*_):
        raise OSError("no room")

    monkeypatch.setattr("afcl.durable.os.replace", fail)
    with pytest.raises(OSError, match="no room"):
        write_whole(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(path.parent.iterdir()) == [path]


def test_whatever_is_made_meanwhile(tmp_path):
    with all_owner_only():
        (tmp_path / "inside").write_text("x")
    (tmp_path / "outside").write_text("x")
    assert mode(tmp_path / "inside") == 0o600
    assert mode(tmp_path / "outside") == 0o666

# SPDX-License-Identifier: Apache-2.0
"""What is left of messages in the engine's database."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from afcl.exceptions import InputError
from afcl.runtime.flower.database import DATABASE, forget_messages, tidy


def left_by_a_killed_engine(home: Path) -> None:
    """Write a database as a SuperLink does, and leave its log behind."""
    home.mkdir()
    own = home.with_name("running")
    own.mkdir()
    database = sqlite3.connect(own / DATABASE)
    database.execute("PRAGMA journal_mode = WAL")
    for table in ("objects", "message_res", "node"):
        database.execute(f"CREATE TABLE {table} (content BLOB)")
    database.execute("INSERT INTO objects VALUES ('from site-zoe')")
    database.execute("INSERT INTO message_res VALUES ('said by site-zoe')")
    database.execute("INSERT INTO node VALUES ('a public key')")
    database.commit()
    database.execute("DELETE FROM objects")
    database.commit()
    for path in own.iterdir():
        shutil.copyfile(path, home / path.name)
    database.close()


def test_no_message_is_left_and_nodes_stay(tmp_path: Path) -> None:
    home = tmp_path / "engine"
    left_by_a_killed_engine(home)
    assert b"site-zoe" in (home / f"{DATABASE}-wal").read_bytes()
    forget_messages(home)
    assert all(b"site-zoe" not in path.read_bytes() for path in home.iterdir())
    with sqlite3.connect(home / DATABASE) as database:
        assert database.execute("SELECT * FROM message_res").fetchall() == []
        assert database.execute("SELECT * FROM node").fetchall() == [("a public key",)]


def test_where_nothing_was_served_nothing_is_made(tmp_path: Path) -> None:
    forget_messages(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match=r"engine\.db still holds messages .*: delete"):
        forget_messages(tmp_path)
    tidy(tmp_path)  # who only starts or ends a run is not hindered

# SPDX-License-Identifier: Apache-2.0
"""Flower's own record of messages: taken out of its database when nobody serves.

A SuperLink keeps what was asked and answered in SQLite, and what it deletes stays
readable in the file and its log until that is written anew. Nothing of it is needed to
go on: the coordinator asks again under a new run of the engine's.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from afcl.exceptions import InputError

#: The SuperLink's state, in the engine's folder.
DATABASE = "engine.db"
#: Where messages are in it, by Flower's names.
_TABLES = (
    *("message_ins", "message_res", "objects", "object_children", "run_objects"),
    *("object_push_sessions", "object_push_session_pending"),
    *("object_push_session_roots", "message", "task_message"),
)


def forget_messages(home: Path) -> None:
    """Delete all messages that an engine has kept; it must not run.

    Raises
    ------
    InputError
        If its database cannot be read or written.
    """
    path = home / DATABASE
    if not path.is_file():
        return
    try:
        # Without transactions of its own: VACUUM wants none.
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            _empty(database)
    except sqlite3.Error as error:
        raise InputError(
            f"{path} still holds messages ({error}): delete {home}, the engine makes "
            "it anew"
        ) from error


def tidy(home: Path) -> None:
    """Delete all messages that an engine has kept, if that can be done."""
    with suppress(InputError):
        forget_messages(home)


def _empty(database: sqlite3.Connection) -> None:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    there = {name for (name,) in found.fetchall()}
    for table in _TABLES:
        if table in there:
            database.execute(f'DELETE FROM "{table}"')
    # What was deleted is still in the file until it is copied, and in the log of
    # changes until that is cut off.
    database.execute("VACUUM")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

# SPDX-License-Identifier: Apache-2.0
"""Files and folders for their owner alone, from the first byte on: 0600 and 0700.

Where a system has no such modes, its own rules hold.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from afcl.durable import part_of_this_process, replacing

#: What nobody but the owner may do with anything that is made.
UMASK = 0o077
_FILE = 0o600
_FOLDER = 0o700


def owner_only(path: str, flags: int) -> int:
    """Open a file that only its owner can read: ``open(path, "w", opener=owner_only)``.

    One that is there already, and readable by others, is closed to them.
    """
    handle = os.open(path, flags, _FILE)
    if stat.S_IMODE(os.fstat(handle).st_mode) & UMASK:
        with suppress(OSError):  # a file system without modes
            os.chmod(path, _FILE)
    return handle


def make_folder(folder: Path) -> None:
    """Make a folder, and what it lies in; those that are there stay as they are."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(_FOLDER, exist_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file for its owner alone: whole or not at all, and to last."""
    make_folder(path.parent)
    part = part_of_this_process(path)
    with replacing(path, "wb", opener=owner_only, part=part) as file:
        file.write(content)


def put_aside(path: Path, data: bytes) -> Path:
    """Keep a damaged file under another name, for its owner alone; return which."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.damaged-{number}")).exists():
        number += 1
    with replacing(aside, "wb", opener=owner_only) as file:
        file.write(data)
    return aside


@contextmanager
def all_owner_only() -> Iterator[None]:
    """Make whatever this process and its children make meanwhile the owner's alone."""
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)

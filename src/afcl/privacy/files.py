# SPDX-License-Identifier: Apache-2.0
"""Files that nobody else may read, written whole or not at all, one process at a time.

What a site must never lose or say twice is kept in such files.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afcl.durable import replacing, sync_folder
from afcl.exceptions import InputError
from afcl.owner_only import make_folder, owner_only

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

#: Seconds to wait for another process where the system has no locks of its own.
PATIENCE = 10.0


def write_private(path: Path, content: bytes) -> None:
    """Put a file in place that lasts through a power cut; only its owner may read it.

    Raises OSError.
    """
    make_folder(path.parent)
    with replacing(path, "wb", opener=owner_only) as file:
        file.write(content)


def kept_secret(path: Path) -> bytes:
    """Return 32 bytes that only the owner of this file knows, drawn once."""
    if not path.is_file():
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        with open(part, "wb", opener=owner_only) as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)  # the first one to come decides
        except FileExistsError:
            pass
        finally:
            part.unlink()
        sync_folder(path.parent)
    return path.read_bytes()


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other processes from doing what is done under the lock of this file."""
    beside = path.with_name(path.name + ".lock")
    try:
        make_folder(beside.parent)
        lock = open(beside, "a", opener=owner_only) if fcntl else _exclusive(beside)
    except OSError as error:
        raise InputError(f"cannot lock {path}: {error.strerror or error}") from None
    with lock:
        if fcntl:
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if not fcntl:
                beside.unlink()


def _exclusive(path: Path) -> Any:
    """Create a file that must not exist, waiting for who holds it."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return open(path, "x")
        except FileExistsError:
            if time.monotonic() > until:
                raise InputError(
                    f"another process holds {path}: wait for it, or delete the file if "
                    "there is none"
                ) from None
            time.sleep(0.01)

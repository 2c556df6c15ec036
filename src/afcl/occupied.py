# SPDX-License-Identifier: Apache-2.0
"""Folders in which one process works at a time.

The lock is the system's, on a file in the folder: whoever dies lets go of it.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from afcl.durable import in_words
from afcl.exceptions import InputError
from afcl.owner_only import make_folder, owner_only

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

#: The file that is locked, in the folder.
LOCK = "afcl.lock"
#: Seconds for who only looks whether there is a lock to let go of it.
GLANCE = 0.5
#: What the system says of a lock that another process has.
_TAKEN = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
#: The byte that is locked where reading a locked one is forbidden: beyond the text.
_FAR = 1 << 20


class Holder(NamedTuple):
    """Who works in a folder, as it says itself."""

    who: str
    process: int


@contextmanager
def occupied(
    folder: Path,
    who: str,
    *,
    private: bool = False,
    name: str = LOCK,
    patience: float = GLANCE,
) -> Iterator[None]:
    """Keep other processes out of a folder meanwhile.

    A folder that was made for this, and in which nothing has been left, is removed.

    Parameters
    ----------
    folder
        Where one works at a time.
    who
        What others are told.
    private
        Whether the folder, if it has to be made, is for its owner alone.
    name
        Of the file that is locked.
    patience
        Seconds to wait for somebody else.

    Raises
    ------
    InputError
        If another process works there, or nobody can.
    """
    made = _made(folder, private)
    try:
        file = _locked(folder / name, who, patience)
        try:
            yield
        finally:
            _release(file, folder / name)
    finally:
        if made:
            with suppress(OSError):
                folder.rmdir()


def holder(folder: Path, name: str = LOCK) -> Holder | None:
    """Return who works in a folder, None if nobody does."""
    try:
        with open(folder / name, "r+b", buffering=0) as file:
            if _try(file):
                return None
            return _holder(file)
    except OSError:
        return None


def _made(folder: Path, private: bool) -> bool:
    """Make sure there is a folder; return whether it was made now."""
    if folder.is_dir():
        return False
    if folder.exists():
        raise InputError(f"{folder} is a file: choose a folder with --out")
    try:
        if private:
            make_folder(folder)
        else:
            folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise in_its_way(folder) from error
    except OSError as error:
        raise InputError(_unusable(folder, error)) from error
    return True


def in_its_way(folder: Path) -> InputError:
    """Return the error of a folder that a file of its name, or above it, hinders."""
    return InputError(
        f"{folder} cannot be made, a file is in its way: "
        "choose another folder with --out"
    )


def _unusable(folder: Path, error: OSError) -> str:
    return (
        f"nothing can be written to {folder} ({in_words(error)}): "
        "choose another folder with --out"
    )


def _locked(path: Path, who: str, patience: float) -> BinaryIO:
    until = time.monotonic() + patience
    while True:
        try:
            file: BinaryIO = open(path, "a+b", buffering=0, opener=owner_only)
        except OSError as error:
            raise InputError(_unusable(path.parent, error)) from error
        if _try(file):
            if _is_there(file, path):
                _sign(file, who)
                return file
            file.close()  # whoever had it has removed it meanwhile
            continue
        other = _holder(file)
        file.close()
        if time.monotonic() >= until:
            raise InputError(
                f"another {other.who} (process {other.process}) works in "
                f"{path.parent}: wait for it, or end it first"
            )
        time.sleep(0.05)


def _try(file: BinaryIO) -> bool:
    """Lock a file, if nobody has; where there are no locks everybody may."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            file.seek(_FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError as error:
        return error.errno not in _TAKEN
    return True


def _is_there(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _sign(file: BinaryIO, who: str) -> None:
    # A full disk is somebody else's trouble: the lock holds without a name.
    with suppress(OSError):
        file.truncate(0)
        file.write(json.dumps({"who": who, "process": os.getpid()}).encode())


def _holder(file: BinaryIO) -> Holder:
    try:
        file.seek(0)
        known = json.loads(file.read())
        return Holder(str(known["who"]), int(known["process"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Holder("afcl", 0)


def _release(file: BinaryIO, path: Path) -> None:
    """Remove the file while it is locked, so that nobody locks one that is gone."""
    if fcntl is not None:
        with suppress(OSError):
            path.unlink()
    file.close()
    if fcntl is None:
        with suppress(OSError):  # open files cannot be removed there
            path.unlink()

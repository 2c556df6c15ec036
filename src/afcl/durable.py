# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced whole, and are still there after a power cut.

Every file that is put in the place of another one goes through :func:`replacing`: it is
written beside its place, synced, renamed, and the folder is synced too. Without the
first sync a power cut may leave an empty file under the new name; without the second,
the old one.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

#: Whether a folder can be opened and synced like a file.
_CAN_SYNC_FOLDERS = os.name == "posix"
#: Bytes with which nobody gets far.
_LITTLE = 1 << 16
#: What the system says when it is the disk, or the right to write on it, that lacks.
_DISK = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EIO,
    errno.EACCES,
    errno.EPERM,
}


@contextmanager
def replacing(
    path: Path,
    mode: str = "w",
    *,
    opener: Callable[[str, int], int] | None = None,
    part: Path | None = None,
) -> Iterator[IO[Any]]:
    """Open what will stand at `path`; it does, and lasts, when all went well.

    Parameters
    ----------
    path
        The file; its folder is there.
    mode
        ``"w"`` for text, in UTF-8 with line ends as they are given, or ``"wb"``.
    opener
        As :func:`open` takes it.
    part
        Where it is written, if several processes may do so at once.
    """
    part = path.with_name(path.name + ".part") if part is None else part
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(part, mode, opener=opener, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def part_of_this_process(path: Path) -> Path:
    """Return where a file is written that other processes may be writing too."""
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def remove(path: Path) -> None:
    """Remove a file, if it is there, so that it stays away."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new names last through a power cut, where folders can be synced."""
    if not _CAN_SYNC_FOLDERS:
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def disk_trouble(error: OSError) -> str | None:
    """Say in a few words what is wrong with the disk, None if it is something else.

    Examples
    --------
    >>> disk_trouble(OSError(errno.ENOSPC, "No space left on device", "run1/x"))
    'run1/x: No space left on device'
    >>> disk_trouble(ConnectionRefusedError(errno.ECONNREFUSED, "refused")) is None
    True
    """
    return in_words(error) if error.errno in _DISK else None


def no_space(folder: Path) -> str | None:
    """Say that the disk of a folder is full, or as good as that; None if it is not.

    Others may fail on it in words that do not say so.
    """
    if shutil.disk_usage(folder).free >= _LITTLE:
        return None
    return f"{folder}: {os.strerror(errno.ENOSPC)}"


def in_words(error: OSError) -> str:
    """Say in a few words what the system said, and of which file.

    Examples
    --------
    >>> in_words(FileNotFoundError(errno.ENOENT, "No such file or directory", "x"))
    'x: No such file or directory'
    """
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{error.filename}: {reason}"

# SPDX-License-Identifier: Apache-2.0
"""How a site says that its disk takes nothing any more, on that very disk.

An answer is made in a process of its own, which can leave word for ``afcl join`` in the
site's folder only. So there is a file of one size, made when there was room for it, and
the reason is written in its place. Where not even that can be written, ``afcl join``
sees it by itself.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from afcl.durable import disk_trouble
from afcl.exceptions import NothingSent
from afcl.owner_only import write_whole

#: The file, in the site's folder, and its bytes.
RESERVE = "disk.txt"
SIZE = 1024


def make_room(folder: Path) -> None:
    """Make sure that a reason can be written, and that none is."""
    write_whole(folder / RESERVE, b" " * SIZE)


def trouble_with_disk(error: BaseException) -> str | None:
    """Say in a few words what the disk did not take, None if that is not the trouble.

    Examples
    --------
    >>> trouble_with_disk(OSError(28, "No space left on device", "mine/site.json"))
    'mine/site.json: No space left on device'
    >>> trouble_with_disk(ValueError("no number")) is None
    True
    """
    if isinstance(error, NothingSent):
        return str(error)
    return disk_trouble(error) if isinstance(error, OSError) else None


def leave_word(folder: Path, reason: str) -> None:
    """Write why the disk took nothing, if anything at all can be written."""
    content = reason.encode()[:SIZE].decode(errors="ignore").encode()
    with suppress(OSError), (folder / RESERVE).open("r+b", buffering=0) as file:
        file.write(content.ljust(SIZE))


def read_word(folder: Path) -> str:
    """Return what is wrong with the disk of the site in a folder, "" if nothing is."""
    path = folder / RESERVE
    try:
        with path.open("r+b") as file:  # so that a disk nobody may write to is seen
            return file.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return disk_trouble(error) or ""

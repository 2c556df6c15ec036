# SPDX-License-Identifier: Apache-2.0
"""The log of an engine's process: appended to, with times, and not without end.

A process that is started again goes on in the same file, behind a line that says so;
a file that has grown large becomes ``NAME.1``, that one ``NAME.2``, and so on.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from afcl.owner_only import make_folder, owner_only

#: Bytes of a file before the next one is begun, and how many old ones are kept.
LARGEST = 5_000_000
OLD = 3
#: What stands where a process was started.
STARTED = "started by afcl"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ?", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[\d*m")


def open_log(path: Path) -> FileIO:
    """Open the log of a process that is being started, behind a line that says so.

    It is there at once: nobody may take an earlier process's end for this one's.
    """
    make_folder(path.parent)
    file: Any = open(path, "ab", buffering=0, opener=owner_only)
    file.write(f"{time.strftime(_TIME, time.gmtime())} {STARTED}\n".encode())
    log: FileIO = file
    return log


class _Patient(RotatingFileHandler):
    """Writes what it can: a full disk must not hold up the process that speaks."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Go on without this line."""


def write_lines(lines: Iterable[bytes], path: Path) -> None:
    """Write what a process says, line by line, until it is silent for good."""
    handler = _Patient(path, "a", LARGEST, OLD, encoding="utf-8", delay=True)
    formatter = logging.Formatter("%(asctime)s %(message)s", _TIME)
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    for line in lines:
        text = line.decode("utf-8", errors="replace").rstrip("\r\n")
        handler.handle(logging.LogRecord("", 0, "", 0, text, None, None))
    with suppress(OSError):
        handler.close()


def read_log(path: Path) -> str:
    """Return what the process that was started last has said, without the times."""
    text = "".join(_text(each) for each in (path.with_name(f"{path.name}.1"), path))
    text = _COLOUR.sub("", _STAMP.sub("", text))
    return text.rpartition(f"{STARTED}\n")[2]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""

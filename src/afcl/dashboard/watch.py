# SPDX-License-Identifier: Apache-2.0
"""Looking at a folder again and again, reading it only when something changed."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from afcl.exceptions import InputError
from afcl.report import Facts, Status, gather, status_of

#: The files a run's page is made of.
FILES = ("result.json", "trace.jsonl", "failed.json", "plan.json", "site.json")


@dataclass(frozen=True)
class News:
    """What a page is told: which version of the folder there is, and how it stands."""

    version: str
    status: Status


class Watcher:
    """One run's folder; safe to ask from several threads.

    Versions depend on the files alone, so that a page that was open before the server
    was started again knows whether it is up to date.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock
        self._lock = threading.Lock()
        self._version = ""
        self._facts: Facts | None = None
        self._trouble = ""

    def version(self) -> str:
        """Return a name for what the files hold now."""
        seen = []
        for name in FILES:
            try:
                about = (self.folder / name).stat()
            except OSError:
                continue
            seen.append(f"{name} {about.st_mtime_ns} {about.st_size}")
        return hashlib.sha256("\n".join(seen).encode()).hexdigest()[:16]

    def look(self) -> tuple[News, Facts]:
        """Return how the run stands now and everything that is known of it."""
        with self._lock:
            version = self.version()
            if self._facts is None or version != self._version:
                self._read()
                self._version = version
            facts = self._facts
            assert facts is not None
            status = status_of(facts, self._clock())
            if self._trouble:
                status = Status("failed", self._trouble)
            return News(version, status), facts

    def _read(self) -> None:
        try:
            self._facts, self._trouble = gather(self.folder), ""
        except InputError as error:
            self._trouble = str(error)
            if self._facts is None:
                self._facts = Facts(self.folder.name)

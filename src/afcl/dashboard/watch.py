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
from afcl.report import RunFolder, RunState, read_so_far, state_of
from afcl.report.run_folder import FILES


@dataclass(frozen=True)
class Snapshot:
    """Which version of a folder there is, and where its run stands."""

    version: str
    state: RunState


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
        self._run: RunFolder | None = None
        self._trouble = ""

    def now(self) -> float:
        """Return the time by the clock that states are judged by."""
        return self._clock()

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

    def look(self) -> tuple[Snapshot, RunFolder]:
        """Return how the run stands now and everything that is known of it."""
        with self._lock:
            version = self.version()
            if self._run is None or version != self._version:
                self._read()
                self._version = version
            run = self._run
            assert run is not None
            state = state_of(run, self._clock())
            if self._trouble:
                state = RunState("failed", self._trouble)
            return Snapshot(version, state), run

    def _read(self) -> None:
        try:
            self._run, self._trouble = read_so_far(self.folder), ""
        except InputError as error:
            self._trouble = str(error)
            if self._run is None:
                self._run = RunFolder(self.folder.name)

# SPDX-License-Identifier: Apache-2.0
"""A sign of life in a run's folder, for who wants to know whether it is worked on.

The file is of one size and written in place, so that it can be even on a full disk,
and say so. It is gone when the run is done, failed or was stopped.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from afcl.durable import disk_trouble
from afcl.owner_only import owner_only

#: The file, in the run's folder.
HEARTBEAT = "heartbeat.json"
#: Seconds between two signs of life.
EVERY = 5.0
#: Seconds without one after which whoever gave them is probably dead.
SILENT = 30.0
#: Bytes of the file; what is said fits, the rest is white space.
_SIZE = 2048
_LONGEST = 200


@dataclass(frozen=True)
class Beat:
    """A sign of life.

    Attributes
    ----------
    process, host
        Who works on the run, and where.
    at
        When that was, in seconds since 1970.
    stopped
        Why it had to stop, if it had to: the run can be resumed.
    """

    process: int
    host: str
    at: float
    stopped: str = ""

    def age(self, now: float) -> float:
        """Return how many seconds ago it was."""
        return max(0.0, now - self.at)

    def is_dead(self) -> bool:
        """Whether it is known, on the same machine, that the process has ended."""
        if self.host != socket.gethostname() or os.name != "posix":
            return False
        try:
            # Signal 0 asks and does nothing.
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False


def read_beat(folder: Path) -> Beat | None:
    """Return the newest sign of life in a folder, None if there is none."""
    try:
        fields = json.loads((folder / HEARTBEAT).read_text(encoding="utf-8"))
        process, at = int(fields["process"]), float(fields["at"])
        return Beat(process, str(fields["host"]), at, str(fields["stopped"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Heartbeat:
    """Gives signs of life while a run is worked on: a context manager."""

    def __init__(
        self,
        folder: Path,
        every: float = EVERY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = folder / HEARTBEAT
        self._every, self._clock = every, clock
        self._over = threading.Event()
        # A thread, since the server may think for minutes.
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> Heartbeat:
        self._file = open(self._path, "wb", buffering=0, opener=owner_only)
        self._beat()
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._over.set()
        self._thread.join()
        trouble = disk_trouble(error) if isinstance(error, OSError) else None
        if trouble is not None:
            with suppress(OSError):
                self._beat(trouble)
        else:
            # A run that ended in good order needs no sign of life.
            self._path.unlink(missing_ok=True)
        self._file.close()

    def _go_on(self) -> None:
        while not self._over.wait(self._every):
            with suppress(OSError):  # who writes what matters will notice
                self._beat()

    def _beat(self, stopped: str = "") -> None:
        where = (os.getpid(), socket.gethostname())
        now = Beat(*where, self._clock(), stopped[:_LONGEST])
        self._file.seek(0)
        self._file.write(json.dumps(asdict(now)).encode().ljust(_SIZE - 1) + b"\n")

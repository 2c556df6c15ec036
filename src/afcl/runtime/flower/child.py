# SPDX-License-Identifier: Apache-2.0
"""A process of the engine, and everything it starts, ended together.

Flower's processes start processes of their own, some in process groups of their own.
Each stands under a guard (this module, run as a program): a small process that ends the
whole family when it is told to, and also when we die without a word.

Linux and macOS.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from afcl.owner_only import UMASK
from afcl.runtime.flower.keys import require_flower
from afcl.runtime.flower.log_file import open_log, write_lines

if TYPE_CHECKING:
    import psutil

#: Seconds to end by themselves when asked.
_GRACE = 10.0
#: Seconds to end by themselves when nobody is left to ask.
_ORPHANED = 3.0
_MODULE = "afcl.runtime.flower.child"


class Child:
    """A process of ours, and everything it starts.

    Parameters
    ----------
    command
        The program and its arguments.
    log
        Where its output goes, behind what is there already. Like all that the process
        writes, it is for the owner alone.
    cwd, env
        The folder and the environment it runs in.
    """

    def __init__(
        self, command: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str]
    ) -> None:
        require_flower()
        self.log = log
        with open_log(log) as out:
            self._guard = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(log.resolve()), *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=env,
                start_new_session=True,
                umask=UMASK,
            )

    @property
    def pid(self) -> int:
        """The guard's process id; all others descend from it."""
        return self._guard.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs; it counts as running until its family is gone."""
        return self._guard.poll() is None

    def wait(self, seconds: float | None = None) -> int:
        """Wait until all is over; return the exit code."""
        return self._guard.wait(seconds)

    def stop(self, grace: float = _GRACE) -> None:
        """End the process and all it started: asked first, killed after `grace` s."""
        pipe = self._guard.stdin
        assert pipe is not None
        if self.alive and not pipe.closed:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(f"{grace}\n".encode())
                pipe.flush()
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
        try:
            self._guard.wait(grace + _GRACE)
        except subprocess.TimeoutExpired:
            _end(self.pid, 0.0)
            self._guard.kill()
            self._guard.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _guard(log: Path, command: Sequence[str], orders: IO[str]) -> int:
    """Run `command`; end its family when it ends, is to end, or nobody is left to say.

    What it says goes into the log.
    `orders` is a pipe whose other end only our parent holds: the system closes it
    however that parent dies. A line on it is the time to end in.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # On Linux whoever loses a parent in the family becomes our child, so nobody can
    # get out of sight; should we be killed, the engine is at least asked to end.
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    engine = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: _prctl(1, signal.SIGTERM),  # PR_SET_PDEATHSIG
    )
    assert engine.stdout is not None
    writer = threading.Thread(target=write_lines, args=(engine.stdout, log))
    writer.daemon = True
    writer.start()
    grace = _ORPHANED
    try:
        while engine.poll() is None:
            if select.select([orders], [], [], 0.2)[0]:
                grace = float(orders.readline() or grace)
                break
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(os.getpid(), grace)
    code = engine.wait()
    writer.join(_GRACE)
    return code if code >= 0 else 128 - code


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _end(root: int, grace: float) -> None:
    """End all that descend from the process `root`, but not `root` itself."""
    import psutil

    asked: set[psutil.Process] = set()
    deadline = time.monotonic() + grace
    while (late := time.monotonic() - deadline) < _GRACE:
        family = _family(root, asked)
        if not family:
            return
        for process in family:
            with contextlib.suppress(psutil.Error):
                if late >= 0:
                    process.kill()
                elif process not in asked:
                    process.terminate()
        asked |= family
        psutil.wait_procs(family, timeout=0.2)


def _family(root: int, known: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Return the living that descend from `root` or are `known` to have done so."""
    import psutil

    heads = set(known)
    with contextlib.suppress(psutil.NoSuchProcess):
        heads |= set(psutil.Process(root).children())
    family = set(heads)
    for head in heads:
        with contextlib.suppress(psutil.NoSuchProcess):
            family |= set(head.children(recursive=True))
    return {process for process in family if _lives(process)}


def _lives(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    sys.exit(_guard(Path(sys.argv[1]), sys.argv[2:], sys.stdin))

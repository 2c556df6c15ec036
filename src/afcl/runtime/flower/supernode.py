# SPDX-License-Identifier: Apache-2.0
"""A site's process: a SuperNode that hears of requests soon.

Flower's looks for a request every three seconds, whatever happens. Ours (this module,
run as a program) looks often while requests come, and ever more rarely while none do.
Its SuperExec is ours, too: :mod:`~afcl.runtime.flower.superexec`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

#: Seconds between two looks while requests come.
SHORTEST = 0.1
#: Of the time without a request, what is slept until the next look.
SHARE = 0.25
#: From so many seconds on, Flower's pauses are those between requests; shorter ones are
#: for an answer that is being made.
_IDLE = 1.0
_SUPEREXEC = "afcl.runtime.flower.superexec"


class Pace:
    """Pauses that are short after a request, and grow to Flower's own.

    Parameters
    ----------
    sleep
        Sleeps for so many seconds.
    """

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._quiet = 0.0

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds` at most."""
        if seconds < _IDLE:
            self._quiet = 0.0
            self._sleep(min(seconds, SHORTEST))
            return
        pause = min(seconds, max(SHORTEST, SHARE * self._quiet))
        self._quiet += pause
        self._sleep(pause)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start our SuperExec where Flower starts its own."""
    return subprocess.Popen([sys.executable, "-P", "-m", _SUPEREXEC, *command[1:]])


def _supernode(arguments: Sequence[str]) -> None:
    """Be a SuperNode with another pace and another SuperExec."""
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    inside: Any = start_client_internal
    inside.time = SimpleNamespace(sleep=Pace().sleep)
    inside.subprocess = SimpleNamespace(Popen=_start)
    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()


if __name__ == "__main__":
    _supernode(sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""Threads inside one kernel call: how many, and who gets which rows.

Compiled code lets go of the interpreter's lock, so plain threads do. They write to
places of their own; nothing that is computed depends on how many there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from afcl.exceptions import InputError

#: Multiply-adds from which a second thread is worth its start.
LARGE = 1 << 22


def workers() -> int:
    """Return the threads to use: AFCL_THREADS, OMP_NUM_THREADS or all cores."""
    for name in ("AFCL_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            return int(text)
        if text and name == "AFCL_THREADS":
            raise InputError(f"AFCL_THREADS is {text!r}: give a whole number, or none")
    # Cores that this process may use: in a container fewer than there are.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def in_ranges(
    work: Callable[[int, int], None], n: int, effort: int, shares: int = 1
) -> None:
    """Call `work(first, last)` for ranges that make up 0 to n, so many a thread.

    One is enough where ranges of one length take equally long.
    """
    # Starting a thread costs more than a small pass.
    threads = min(workers(), n, max(1, effort // LARGE))
    if threads <= 1:
        work(0, n)
        return
    parts = min(n, threads * shares)
    edges = [n * part // parts for part in range(parts + 1)]
    list(_threads(threads, os.getpid()).map(work, edges[:-1], edges[1:]))


@cache
def _threads(number: int, process: int) -> ThreadPoolExecutor:
    """Return so many threads of this process; they stay, and wait for work.

    A process that is a fork has none of its parent's.
    """
    return ThreadPoolExecutor(number, f"afcl-{process}")

# SPDX-License-Identifier: Apache-2.0
"""Being asked to stop, so that everything that was started is ended too."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Ended(BaseException):
    """SIGTERM arrived; as little of an error as Ctrl-C is."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM into an exception for a while, as Ctrl-C is one already."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return

    def end(number: int, frame: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

# SPDX-License-Identifier: Apache-2.0
"""Being asked to stop, so that everything that was started is ended too."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Ended(Exception):
    """SIGTERM arrived."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM into an exception for a while, as Ctrl-C is one already."""

    def end(number: int, frame: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

# SPDX-License-Identifier: Apache-2.0
"""Loading without Python looking for garbage meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_swept() -> Iterator[None]:
    """Leave out the search for garbage: what is loaded stays, and there is much of it.

    Numba makes some hundred thousand objects; going through all of them again and
    again takes a third of the time that loading takes.
    """
    swept = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if swept:
            gc.enable()

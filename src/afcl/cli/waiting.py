# SPDX-License-Identifier: Apache-2.0
"""A site that is there before its coordinator: it waits, and says so once."""

from __future__ import annotations

import time
from collections.abc import Callable

from afcl.exceptions import InputError


class Waiting:
    """How long a coordinator has not been there, and what to say of it.

    Parameters
    ----------
    limit
        Seconds to wait for it; None: for ever.
    clock
        In seconds.
    """

    def __init__(
        self, limit: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._clock = limit, clock
        self._since = clock()
        self._was_told = False

    def news(self, absent: str | None) -> str:
        """Return a line that is new, "" if there is none.

        Parameters
        ----------
        absent : str or None
            Why the coordinator is not there yet; None if it is.

        Raises
        ------
        InputError
            If it was waited for long enough.
        """
        if absent is None:
            was_told, self._was_told = self._was_told, False
            self._since = self._clock()
            return "the coordinator answers" if was_told else ""
        if self._limit is not None and self._clock() - self._since >= self._limit:
            raise InputError(f"{absent} It was waited for {self._limit:g} s (--wait).")
        was_told, self._was_told = self._was_told, True
        return "" if was_told else f"{absent} It is waited for."

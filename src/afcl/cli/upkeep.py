# SPDX-License-Identifier: Apache-2.0
"""What is looked after once a day while a run is served: certificates that end."""

from __future__ import annotations

import time
from collections.abc import Callable

from afcl.durable import in_words
from afcl.exceptions import InputError

#: Seconds between two looks, by the clock on the wall: a machine may sleep.
A_DAY = 86_400.0


class Upkeep:
    """Looks after something once a day; what goes wrong with it ends nothing.

    Parameters
    ----------
    look
        What is done; it was done when this is made.
    say
        Receives a line for people.
    clock
        Returns the time, in seconds.
    """

    def __init__(
        self,
        look: Callable[[], object],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._look, self._say, self._clock = look, say, clock
        self._last = clock()

    def __call__(self) -> None:
        """Look, if it is time."""
        now = self._clock()
        if 0 <= now - self._last < A_DAY:
            return
        self._last = now
        try:
            self._look()
        except InputError as error:
            self._say(str(error))
        except OSError as error:
            self._say(in_words(error))

# SPDX-License-Identifier: Apache-2.0
"""Looking after the engine of a run: a stall is borne for a while, and told."""

from __future__ import annotations

import time
from collections.abc import Callable

from afcl.exceptions import InputError
from afcl.runtime.live.engine import EngineSilent

#: Seconds between the first two tries while the engine does not answer,
FIRST = 1.0
#: and between later ones, at most.
MOST = 15.0


class EngineWatch:
    """Asks the engine things, and bears that it does not answer for a while.

    Parameters
    ----------
    patience
        Seconds without an answer after which the engine is given up.
    say
        Receives a line for people.
    again
        What to do then, for the last line.
    clock
        Returns the time, in seconds.
    """

    def __init__(
        self,
        patience: float,
        say: Callable[[str], None],
        again: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patience, self._say, self._again = patience, say, again
        self._clock = clock
        self._since: float | None = None
        self._next, self._wait = 0.0, FIRST

    def ask(self, question: Callable[[], None]) -> bool:
        """Ask, unless the engine is to be left in peace; return whether it answered."""
        now = self._clock()
        if self._since is not None and now < self._next:
            return False
        try:
            question()
        except EngineSilent as error:
            self._bear(str(error))
            return False
        if self._since is not None:
            self._since = None
            self._say("the engine answers again")
        return True

    def _bear(self, reason: str) -> None:
        now = self._clock()
        if self._since is None:
            self._since, self._wait = now, FIRST
            self._say(f"the engine does not answer ({reason}); it is asked again")
        elif now - self._since >= self._patience:
            raise InputError(
                f"the engine has not answered for {now - self._since:.0f} s "
                f"({reason}): {self._again}"
            )
        self._next, self._wait = now + self._wait, min(2 * self._wait, MOST)

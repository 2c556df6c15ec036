# SPDX-License-Identifier: Apache-2.0
"""Once a day, while a run is served, certificates are looked after."""

from __future__ import annotations

import errno

import pytest

from afcl.cli.upkeep import A_DAY, Upkeep
from afcl.exceptions import InputError


class Looked:
    """Counts looks at times that are set, and fails if it is to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.now, self.count, self.error = 1e9, 0, error
        self.said: list[str] = []
        self.upkeep = Upkeep(self._look, self.said.append, lambda: self.now)

    def _look(self) -> None:
        self.count += 1
        if self.error is not None:
            raise self.error

    def after(self, seconds: float) -> int:
        self.now += seconds
        self.upkeep()
        return self.count


def test_it_is_done_once_a_day():
    looked = Looked()
    assert [looked.after(s) for s in (0, A_DAY - 1, 2, 1, A_DAY)] == [0, 0, 1, 1, 2]


def test_a_clock_that_is_set_back_does_not_end_it():
    looked = Looked()
    assert looked.after(-400 * A_DAY) == 1
    assert looked.after(A_DAY) == 2


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("server.crt cannot be renewed"), "server.crt cannot be renewed"),
        (OSError(errno.ENOSPC, "No space left", "tls/x"), "tls/x: No space left"),
    ],
)
def test_what_goes_wrong_is_told_and_ends_nothing(error: Exception, line: str):
    looked = Looked(error)
    looked.after(A_DAY)
    looked.after(A_DAY)
    assert looked.said == [line, line]

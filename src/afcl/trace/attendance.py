# SPDX-License-Identifier: Apache-2.0
"""Who took part when: the one definition that every table and picture shows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from afcl._typing import Ints

if TYPE_CHECKING:
    from afcl.trace.history import RunHistory


class Attendance(IntEnum):
    """What a site did in a round; of several things the highest number is shown.

    A message outweighs its absence. Trouble outweighs everything, for it is what a
    reader must not miss.
    """

    #: Nothing was asked of the site.
    NOT_ASKED = 0
    #: A request went out; its answer came in another round, or never.
    ASKED = 1
    #: The site has left and is not back.
    GONE = 2
    #: It answered the newest version.
    ANSWERED = 3
    #: It answered, but a version that was not the newest any more.
    LATE = 4
    #: Its first message was absorbed.
    HELLO = 5
    #: A message was rejected, or none came.
    TROUBLE = 6


def attendance(history: RunHistory) -> dict[int, Ints]:
    """Return what every site did in every round.

    Parameters
    ----------
    history : RunHistory
        Of a run, finished or not.

    Returns
    -------
    dict of int to ndarray of shape (n_rounds,)
        For every client the numbers of :class:`Attendance` by round. Round 0 is the
        start, before the first broadcast.

    Notes
    -----
    Columns are rounds and not ticks: participation is drawn by round, and so do the
    curves count. With an event clock many ticks make one round
    (:meth:`RunHistory.round_of`).

    A site that has left is gone from that round on, until something of it is heard
    again. What it did in the round it left in stays visible.
    """
    table = {
        client: np.zeros(history.n_rounds, dtype=np.int64)
        for client in sorted(history.sites)
    }
    for (client, tick), what in history.marks.items():
        rounds, number = table[client], history.round_of(tick)
        rounds[number] = max(rounds[number], what)
    for client, left, back in history.absences:
        rounds = table[client]
        first = history.round_of(left)
        # The round it came back in shows what it did there, not that it was away.
        last = history.n_rounds if back is None else history.round_of(back)
        away = rounds[first:last]
        np.maximum(away, Attendance.GONE, out=away)
    return table


def rounds_by_tick(known: Mapping[int, int], last: int) -> list[int]:
    """Return the round of every tick from 0 to `last`.

    Parameters
    ----------
    known : mapping of int to int
        Rounds of the ticks whose events say both; ticks ascend.
    last : int

    Notes
    -----
    A run starts with tick 0 and round 0. Between two known ticks the rounds are spread
    evenly; after the last one, and in a trace that says none, every tick is a round.

    Examples
    --------
    >>> rounds_by_tick({0: 0, 4: 2}, last=6)
    [0, 0, 1, 1, 2, 3, 4]
    """
    found = [known.get(0, 0)]
    for tick, number in known.items():
        span, before = tick - len(found) + 1, found[-1]
        rise = number - before
        found += [before + step * rise // span for step in range(1, span + 1)]
    found += [found[-1] + step for step in range(1, last - len(found) + 2)]
    return found[: last + 1]

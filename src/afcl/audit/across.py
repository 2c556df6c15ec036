# SPDX-License-Identifier: Apache-2.0
"""What several runs on the same sites tell together, though each of them is honest.

Every run here is its sites' first: nothing is kept from one to the next. That is the
worst that can happen, and what a live site's kept views and its limit of runs are for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from afcl._typing import Floats
from afcl.audit.findings import EXACT, AcrossRuns, known_rows
from afcl.audit.wire import Tapped
from afcl.privacy.attacks import Released, releases
from afcl.privacy.attacks_sums import difference_coarse

#: After so many runs it is said what they tell.
COUNTED = (1, 2, 3, 5, 10)

#: Runs a level on these tables with this seed.
Run = Callable[[Sequence[Floats], int], Tapped]


def across_runs(
    tables: Sequence[Floats],
    run: Run,
    runs: int,
    seed: int,
    tolerance: float = EXACT,
) -> tuple[AcrossRuns, ...]:
    """Compare the messages of several runs, and say what that recovers.

    Parameters
    ----------
    tables : sequence of ndarray
        Rows of every site.
    run : callable
        Returns a run on tables like these; all of its runs must agree on one box.
    runs : int
        How many are heard.
    seed : int
        Of the first run; the others' are the next ones.
    tolerance : float
        How close to a row a guess must be, in units of the box.
    """
    again = [run(tables, seed + number) for number in range(runs)]
    fewer = [run(each, seed) for each in _leaving(tables, runs, seed)]
    rows = again[0].rows()
    return tuple(
        AcrossRuns(
            number,
            _recovered(again[:number], rows, tolerance),
            _recovered(fewer[:number], rows, tolerance),
        )
        for number in COUNTED
        if number <= runs
    )


def _leaving(tables: Sequence[Floats], runs: int, seed: int) -> list[list[Floats]]:
    """Return the tables of every run: between two of them each site loses a row."""
    rng = np.random.default_rng(seed)
    current, every = list(tables), []
    for _ in range(runs):
        every.append(current)
        current = [np.delete(rows, rng.integers(len(rows)), axis=0) for rows in current]
    return every


def _recovered(runs: Sequence[Tapped], rows: Floats, tolerance: float) -> float:
    """Return the share of rows that all these runs' messages tell together."""
    released: list[Released] = [
        each for run in runs for each in releases(run.exchanges)
    ]
    return float(known_rows(difference_coarse(released), rows, tolerance).mean())

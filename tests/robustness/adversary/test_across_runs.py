# SPDX-License-Identifier: Apache-2.0
"""An honest but curious server that hears the same sites in ten runs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.robustness.adversary.attacks import compare_runs
from tests.robustness.adversary.victims import (
    TABLES,
    Victim,
    bounds_of,
    honest_run,
    joined,
    share_recovered,
)

from afcl.privacy.attacks import Exchange

#: Sites of a run.
SITES = 3
#: Runs that the server hears.
RUNS = 10

every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Keep what sites remember of their runs in the test's own folder."""
    monkeypatch.setenv("AFCL_HOME", str(tmp_path / "home"))


def learned(heard: list[Exchange], tables, box) -> float:
    """Return the share of rows that the server can name, over all sites."""
    shares = [
        share_recovered(
            compare_runs([one for one in heard if one.client == client], box), rows
        )
        for client, rows in enumerate(tables)
    ]
    return float(np.mean(shares))


@every_table
@pytest.mark.parametrize("changed", [False, True], ids=["unconfirmed", "confirmed"])
def test_groups_with_and_without_a_row(tmp_path, seed, table, changed):
    """Every site loses a row between two runs; groups of five must not tell which."""
    tables = [table(seed + 10 * client) for client in range(SITES)]
    box, rng = bounds_of(np.concatenate(tables)), np.random.default_rng(seed)
    current, heard = list(tables), []
    for run in range(RUNS):
        victims = [
            joined(
                tmp_path / f"site {client}" / f"out {run}",
                rows,
                privacy="grouped(5)",
                changed=changed,
            )
            for client, rows in enumerate(current)
        ]
        bounds = (box.low, box.low + box.span)
        heard += honest_run(victims, f"run {run}", 0, "grouped(5)", bounds)
        current = [np.delete(rows, rng.integers(len(rows)), 0) for rows in current]
    assert heard
    assert learned(heard, tables, box) == 0


@every_table
def test_ten_runs_with_other_seeds(tmp_path, seed, table):
    """Cells of the same rows around other seeds differ by single rows."""
    tables = [table(seed + 10 * client) for client in range(SITES)]
    box, heard = bounds_of(np.concatenate(tables)), []
    for run in range(RUNS):
        victims: list[Victim] = [
            joined(tmp_path / f"site {client}" / f"out {run}", rows)
            for client, rows in enumerate(tables)
        ]
        heard += honest_run(victims, f"run {run}", run, "summary")
    assert heard
    assert learned(heard, tables, box) == 0

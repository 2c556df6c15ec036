# SPDX-License-Identifier: Apache-2.0
"""An honest but curious server that hears the same sites in ten runs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.robustness.adversary.victims import TABLES, share_recovered, share_right

from afcl._typing import Floats
from afcl.audit.liar import compare_runs
from afcl.audit.victims import (
    Victim,
    bounds_of,
    honest_run,
    joined,
)
from afcl.core.messages import Hello
from afcl.privacy.attacks import Exchange, releases
from afcl.privacy.attacks_enumeration import enumerated
from afcl.scale import Box

#: Sites of a run.
SITES = 3
#: Runs that the server hears.
RUNS = 10

every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Keep what sites remember of their runs in the test's own folder."""
    monkeypatch.setenv("AFCL_HOME", str(tmp_path / "home"))


def learned(heard: list[Exchange], tables: list[Floats], box: Box) -> float:
    """Return the share of rows that guesses name which are right half of the time."""
    shares = []
    for client, rows in enumerate(tables):
        own = [one for one in heard if one.client == client]
        guesses = compare_runs(own, box)
        believed = [each for each in guesses if share_right(each, rows) >= 0.5]
        every = np.concatenate([np.empty((0, rows.shape[1])), *believed])
        shares.append(share_recovered(every, rows))
    return float(np.mean(shares))


@pytest.mark.no_cover
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
                runs=1,
            )
            for client, rows in enumerate(current)
        ]
        bounds = (box.low, box.low + box.span)
        heard += honest_run(victims, f"run {run}", 0, "grouped(5)", bounds)
        current = [np.delete(rows, rng.integers(len(rows)), 0) for rows in current]
    assert any(isinstance(one.reply, Hello) for one in heard)
    assert learned(heard, tables, box) == 0


@every_table
def test_ten_runs_with_other_seeds(tmp_path, seed, table):
    """Cells of the same rows around other seeds differ by single rows.

    One run of `summary` tells some of them already, and does not promise otherwise; a
    site that allows one run tells no more in ten.
    """
    tables = [table(seed + 10 * client) for client in range(SITES)]
    box = bounds_of(np.concatenate(tables))
    heard: list[Exchange] = []
    first: list[Exchange] = []
    for run in range(RUNS):
        victims: list[Victim] = [
            joined(tmp_path / f"site {client}" / f"out {run}", rows, runs=1)
            for client, rows in enumerate(tables)
        ]
        heard += honest_run(victims, f"run {run}", run, "summary")
        first = first or list(heard)
    assert any(isinstance(one.reply, Hello) for one in first)
    assert learned(heard, tables, box) <= learned(first, tables, box)


@pytest.mark.parametrize("digits", [0, 1])
def test_one_column_of_steps_does_not_tell_its_rows(tmp_path, seed, digits):
    """Count, mean and scatter of five whole numbers (or tenths) leave several ways.

    One passive run; the attack goes through everything that fits a first message.
    """
    rng = np.random.default_rng(seed)
    scale = 10.0 ** (1 - digits)
    tables = [
        np.round(rng.normal(5 * scale, 1.5 * scale, (100, 1)), digits)
        for _ in range(SITES)
    ]
    victims = [
        joined(tmp_path / f"site {client}" / "out", rows, privacy="grouped(5)")
        for client, rows in enumerate(tables)
    ]
    heard = honest_run(victims, "run", seed, "grouped(5)")
    box = next(one.request.terms.box for one in heard if hasattr(one.request, "terms"))
    assert enumerated(releases(heard), tables, box).singled == 0

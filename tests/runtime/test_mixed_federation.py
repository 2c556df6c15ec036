# SPDX-License-Identifier: Apache-2.0
"""Live runs on tables with categories, gaps and columns that a site lacks.

The sites are folders behind a list of messages; the same files in `afcl run` are what
everything is compared with.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.runtime.test_federation import ListEngine, no_waiting

from afcl.cli import main
from afcl.runtime.live.membership import Membership, keep_membership
from afcl.runtime.live.server import RunPlan, serve_run
from afcl.runtime.results import read_result

__all__ = ["no_waiting"]

SITES = ("north", "south", "west")
LEVELS = np.array(["green", "blue", "red"])


def frame(site, rows=90, seed=0):
    """Three kinds of rows: seven columns of numbers, a text and a code tell them."""
    rng = np.random.default_rng([seed, SITES.index(site)])
    kind = rng.integers(0, 3, rows)
    numbers = {f"x{i}": kind * 4.0 + rng.normal(0, 0.5, rows) for i in range(7)}
    colour = LEVELS[kind]
    if site == "south":
        colour = np.char.upper(colour)
    return pl.DataFrame({**numbers, "colour": colour, "code": kind + 1})


def with_gaps(table, seed=0):
    """Every twentieth cell of three columns, and of the text, has no value."""
    rng = np.random.default_rng(seed)
    return table.with_columns(
        pl.when(pl.Series(rng.random(table.height) < 0.05))
        .then(None)
        .otherwise(pl.col(name))
        .alias(name)
        for name in ("x0", "x1", "x2", "colour")
    )


class Federation:
    """Sites in folders, the files of which a simulated run can read too."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.folders: dict[int, Path] = {}

    def join(self, name, table, **asked):
        folder = self.where / name
        folder.mkdir()
        path = self.where / f"{name}.csv"
        table.write_csv(path)
        keep_membership(folder, Membership(str(path), name, **asked))
        self.folders[100 + len(self.folders)] = folder

    def serve(self, level="summary", engine=None, **plan):
        run = self.where / "run"
        run.mkdir(exist_ok=True)
        parameters = {"privacy": level, "min_cell": 5}
        told = {"min_clients": 3, "patience": 500.0, "parameters": parameters, **plan}
        RunPlan("run", "afcl", {"privacy": level}, 0, 100, **told).write(run)
        engine = engine or ListEngine(self.folders)
        serve_run(engine, run)
        return read_result(run)

    def simulated(self, *words):
        files = [str(self.where / f"{name}.csv") for name in SITES]
        out = self.where / "simulated"
        main(["run", *files, "--privacy", "summary", *words, "--out", str(out)])
        return read_result(out)

    def labels(self, name):
        live = pl.read_csv(self.where / name / "labels.csv")["cluster"]
        alone = self.where / "simulated" / "labels" / f"{name}.csv"
        return live.to_numpy(), pl.read_csv(alone)["cluster"].to_numpy()


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path)


def same_partition(a, b):
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


def test_the_same_answer_as_with_all_files_at_one_place(federation):
    tables = {name: with_gaps(frame(name)) for name in SITES}
    tables["west"] = tables["west"].drop("x6").rename({"x5": "X 5"})
    for name in SITES:
        federation.join(name, tables[name], missing="impute")
    with pytest.raises(SystemExit) as ended:
        federation.simulated("--missing", "impute", "--category", "code")
    assert ended.value.code in (None, 0)
    alone = read_result(federation.where / "simulated")
    result = federation.serve(categories={"code": ()})
    assert result["n_clusters"] == alone["n_clusters"] == 3
    assert sorted(result["columns"]) == sorted(alone["columns"])
    features = {each["name"]: each["levels"] for each in result["features"]}
    assert features == {"colour": ["blue", "green", "red"], "code": ["1", "2", "3"]}
    place = [alone["columns"].index(column) for column in result["columns"]]
    low = np.array(alone["scale"]["low"])[place]
    assert np.array_equal(result["scale"]["low"], low)
    for name in SITES:
        live, simulated = federation.labels(name)
        assert same_partition(live, simulated)
    notes = "\n".join(result["notes"])
    assert "west: lacks 'x6', what is usual at the others stands there" in notes
    assert "west: 'X 5' is 'x5'" in notes
    own = read_result(federation.where / "west")
    assert own["features"] == result["features"]
    assert own["site"]["notes"] == ["west: what is usual at the others stands for 'x6'"]

# SPDX-License-Identifier: Apache-2.0
"""Live runs on tables with categories, gaps and columns that a site lacks.

The sites are folders behind a list of messages; the same files in `afcl run` are what
everything is compared with.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.runtime.test_federation import Crash, ListEngine, events, no_waiting

from afcl.cli import main
from afcl.core.terms import AskHello
from afcl.exceptions import InputError
from afcl.runtime.codec import decode
from afcl.runtime.live.membership import Membership, keep_membership, open_membership
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
        with pytest.raises(SystemExit) as ended:
            main(["run", *files, "--privacy", "summary", *words, "--out", str(out)])
        assert not ended.value.code
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
    # x6 says nothing of kinds: west, which lacks it, stays among the others.
    noise = pl.Series(np.random.default_rng(1).normal(0, 0.5, 90))
    tables = {name: with_gaps(frame(name)).with_columns(x6=noise) for name in SITES}
    tables["west"] = tables["west"].drop("x6").rename({"x5": "X 5"})
    for name in SITES:
        federation.join(name, tables[name], missing="impute")
    alone = federation.simulated("--missing", "impute", "--category", "code")
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
    # Which cells had no value, a site is told as everybody is in a simulated run.
    (west,) = (site for site in alone["sites"] if site["name"] == "west")
    assert own["site"]["gaps"] == west["gaps"]
    assert west["gaps"]["x6"]["cells"] == tables["west"].height
    assert all("gaps" not in site for site in result["sites"])


def partition(federation, name):
    return pl.read_csv(federation.where / name / "labels.csv")["cluster"].to_numpy()


def test_names_of_levels_stay_with_the_sites(federation, tmp_path, capsys):
    """At `secure` the coordinator sees hashes; every site its own names."""
    for name in SITES:
        table = frame(name)
        if name == "west":
            table = table.filter(pl.col("colour") != "red")
        federation.join(name, table)
    engine = ListEngine(federation.folders)
    result = federation.serve("secure+summary", engine)
    assert result["n_clusters"] == 3
    (colour,) = result["features"]
    assert colour["hashed"]
    assert all(level.startswith("#") for level in colour["levels"])
    seen = b"".join(data for _, data in engine.requests)
    seen += json.dumps(result).encode() + (tmp_path / "run/trace.jsonl").read_bytes()
    for level in (b"red", b"RED", b"green", b"blue"):
        assert level not in seen.replace(b"reduced", b"").replace(b"shared", b"")
    own = read_result(tmp_path / "north")
    (named,) = own["features"]
    assert sorted(named["levels"]) == ["blue", "green", "red"]
    (fewer,) = read_result(tmp_path / "west")["features"]
    (unknown,) = set(fewer["levels"]) - {"blue", "green"}
    assert unknown.startswith("#")
    # New rows: a site can label them, the coordinator cannot read their texts.
    new = str(tmp_path / "north.csv")
    with pytest.raises(SystemExit):
        main(["predict", str(tmp_path / "run"), new])
    assert "known to the sites alone" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["predict", str(tmp_path / "north"), new])
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [int(line) for line in lines] == partition(federation, "north").tolist()


def test_a_shared_key_keeps_names_from_being_guessed(federation, tmp_path):
    key = tmp_path / "names.key"
    key.write_bytes(b"known to the sites")
    for name in SITES:
        federation.join(name, frame(name), names_key=str(key))
    federation.join("east", frame("north", seed=9))
    result = federation.serve()
    assert result["features"][0]["hashed"]
    (refused,) = events(federation.where / "run", "refused")
    assert refused["name"] == "east"
    assert "--names-key" in refused["reason"]
    assert sorted(read_result(tmp_path / "south")["features"][0]["levels"]) == [
        "BLUE",
        "GREEN",
        "RED",
    ]


def test_with_noise_declared_levels_are_used(federation):
    ranges = {f"x{i}": (-3.0, 12.0) for i in range(7)} | {"code": (1.0, 3.0)}
    for name in SITES:
        federation.join(name, frame(name, rows=400), budget=99.0)
    with pytest.raises(InputError, match="levels of 'colour' must not come from"):
        federation.serve("dp(50)", ranges=ranges)
    for folder in federation.folders.values():
        keep_membership(
            folder, Membership(open_membership(folder).data, folder.name, budget=99.0)
        )
    (federation.where / "run" / "journal.bin").unlink()
    declared = {"colour": ("red", "green", "blue")}
    result = federation.serve("dp(50)", ranges=ranges, categories=declared)
    assert result["features"] == [
        {"name": "colour", "levels": ["red", "green", "blue"]}
    ]
    assert len(result["sites"]) == 3


@pytest.mark.no_cover
@pytest.mark.parametrize("crash_at", [4, 7, 10])
def test_a_killed_coordinator_goes_on(federation, crash_at):
    for name in SITES:
        table = frame(name).drop("x6") if name == "west" else frame(name)
        federation.join(name, table, missing="impute")
    federation.join("odd", frame("north").drop("colour"))  # it had a vote
    with pytest.raises(Crash):
        federation.serve(engine=ListEngine(federation.folders, crash_at=crash_at))
    result = federation.serve()
    alone = federation.simulated("--missing", "impute")
    assert result["n_clusters"] == alone["n_clusters"]
    assert len(result["sites"]) == 3
    assert result["features"] == alone["features"]
    assert same_partition(*federation.labels("west"))


def test_new_levels_of_a_late_site_are_none_of_the_agreed(federation):
    for name in SITES:
        federation.join(name, frame(name))
    late = frame("north", seed=5).with_columns(
        colour=pl.col("colour").replace("red", "crimson")
    )
    federation.join("late", late)
    engine = ListEngine(federation.folders, arrives={103: 40}, slow={100: 15})
    result = federation.serve(engine=engine)
    assert result["features"][0]["levels"] == ["blue", "green", "red"]
    assert len(result["sites"]) == 4
    assert same_partition(partition(federation, "late"), late["code"].to_numpy())


def test_a_site_that_takes_no_part_gets_its_labels(federation):
    """Of two columns it lacks one: its rows cannot speak, as in a simulated run."""
    few = ["x0", "x1"]
    for name in SITES:
        federation.join(name, frame(name).select(few))
    federation.join("poor", frame("north", seed=5).select("x0"), missing="impute")
    poor = federation.folders[103]
    engine = ListEngine(federation.folders)
    result = federation.serve(engine=engine)
    assert [site["name"] for site in result["sites"]] == list(SITES)
    hellos = [a for a, data in engine.requests if isinstance(decode(data), AskHello)]
    assert hellos.count(103) == 1
    (failure,) = events(federation.where / "run", "failure")
    assert "takes no part" in failure["reason"]
    kinds = frame("north", seed=5)["code"].to_numpy()
    assert same_partition(partition(federation, "poor"), kinds)
    assert len(read_result(poor)["site"]["notes"]) == 2


def test_an_odd_site_is_told_what_to_type(federation):
    for name in SITES:
        federation.join(name, frame(name))
    codes = frame("north", seed=3).with_columns(colour=pl.col("code"))
    federation.join("codes", codes)
    federation.serve()
    reason = open_membership(federation.folders[103]).reason
    assert reason == (
        "codes has numbers in 'colour', a category at the others: join with "
        "--category colour"
    )

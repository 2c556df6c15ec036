# SPDX-License-Identifier: Apache-2.0
"""A federation that goes on, with real processes: rows change, a site is forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip(
    "flwr", reason="federation needs Flower: pip install 'afcl[flower]'"
)

from afcl.runtime.flower.network import free_port

from .conftest import Party, until

pytestmark = pytest.mark.federation

Start = Callable[..., Party]

SPOTS = [(0, 0), (0, 12), (12, 0), (12, 12)]


def write_rows(path: Path, spots: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.vstack([rng.normal(spot, 1, (30, 2)) for spot in spots])
    part = path.with_suffix(".part")
    pl.DataFrame(rows, schema=["height", "weight"]).write_csv(part)
    part.replace(path)


def answered(folder: Path, number: int) -> bool:
    path = folder / "result.json"
    return path.is_file() and json.loads(path.read_text()).get("answer", 0) >= number


def test_answers_follow_one_another(tmp_path: Path, party: Start):
    port, run = free_port(), tmp_path / "run"
    flags = ("--standing", "--look", 5, "--answers", 3, "--min-clients", 3)
    serve = party(
        "serve",
        "--out",
        run,
        "--port",
        port,
        "--insecure",
        *flags,
        "--privacy",
        "summary",
    )
    serve.says("Listening")
    sites: dict[str, Party] = {}
    for seed, name in enumerate("abcd"):
        write_rows(tmp_path / f"{name}.csv", SPOTS, seed)
        where = (
            "--data",
            tmp_path / f"{name}.csv",
            "--name",
            name,
            "--out",
            tmp_path / name,
        )
        sites[name] = party(
            "join",
            f"127.0.0.1:{port}",
            *where,
            *("--insecure", "--stay", "--runs", 9, "--home", tmp_path / f"home-{name}"),
        )
    until(lambda: answered(run, 1))
    until(lambda: all(answered(tmp_path / name, 1) for name in "abcd"))

    write_rows(tmp_path / "a.csv", [*SPOTS, (40, 40)], 9)
    until(lambda: answered(run, 2))
    result = json.loads((run / "result.json").read_text())
    assert [change["text"] for change in result["changes"]] == ["c4 is new"]
    until(lambda: all(answered(tmp_path / name, 2) for name in "abcd"))

    said = party("forget", "a", "--run", run).ends(0)
    assert "a is being forgotten" in said
    serve.ends(0)
    result = json.loads((run / "result.json").read_text())
    assert [change["text"] for change in result["changes"]] == ["c4 is gone"]
    assert [entry["withdrawn"] for entry in result["history"]] == [True, True, False]
    for name in "bcd":
        assert "labels of answer 3" in sites[name].ends(0)
    assert "answer 3: 4 clusters, 3 sites" in party("status", run).ends(0)

# SPDX-License-Identifier: Apache-2.0
"""The story of docs/examples/heart.md, on drawn hospitals whose clusters are known."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from afcl.cli import app
from afcl.metrics import adjusted_rand

from .heart_lookalike import ORDER, SITES, write_hospitals

CODES = "sex,cp,fbs,restecg,exang,slope,thal"


def called(*arguments):
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def hospitals(tmp_path, seed):
    clusters = write_hospitals(tmp_path / "heart", seed)
    return tmp_path / "heart", clusters


def emptied(folder):
    """Do what the page does to zeros."""
    for file in folder.glob("*.csv"):
        frame = pl.read_csv(file, infer_schema=False)
        frame.with_columns(pl.col("chol").replace("0", "")).write_csv(file)


def test_drawn_hospitals_have_what_the_page_speaks_of(hospitals):
    folder, _ = hospitals
    files = {name: folder / f"{name}.csv" for name in SITES}
    frames = {n: pl.read_csv(f, null_values="") for n, f in files.items()}
    assert all(frame.columns == [*ORDER, "num"] for frame in frames.values())
    assert frames["switzerland"]["chol"].to_list() == [0] * len(frames["switzerland"])
    for name in ("hungarian", "switzerland", "va"):
        frame = frames[name]
        assert frame["ca"].null_count() > 0.8 * len(frame)


def test_check_names_zeros_codes_and_empty_columns(hospitals):
    folder, _ = hospitals
    found = json.loads(called("check", folder, "--json"))["suspicions"]
    kinds = {(each["kind"], each["column"]) for each in found}
    two = {("two values", column) for column in ("sex", "fbs", "exang")}
    assert {("zero", "chol"), ("mostly empty", "ca"), *two} <= kinds


def test_the_clusters_that_were_drawn_are_found(hospitals):
    folder, clusters = hospitals
    emptied(folder)
    out = folder.parent / "out"
    given = ("--drop", "num,ca,thal", "--category", CODES, "--missing", "impute")
    said = called("run", folder, *given, "--out", out)
    result = json.loads((out / "result.json").read_text())
    assert result["n_clusters"] == 2
    aside = sum(site.get("set_aside", 0) for site in result["sites"])
    assert (f"{aside} row" in said) == (aside > 0)
    for name, known in clusters.items():
        labels = pl.read_csv(out / "labels" / f"{name}.csv")["cluster"].to_numpy()
        assert adjusted_rand(np.array(known), labels) > 0.8

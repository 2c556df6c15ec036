# SPDX-License-Identifier: Apache-2.0
"""Categories, gaps and a column that a site lacks, between processes; on loopback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip(
    "flwr", reason="federation needs Flower: pip install 'afcl[flower]'"
)

from afcl.runtime.flower.network import free_port
from afcl.runtime.results import read_result

from .test_live import Start

pytestmark = pytest.mark.federation

SITES = ("north", "south", "west")


def write_sites(where: Path) -> None:
    """Three kinds of rows that six numbers, a text and a code tell apart.

    The seventh number, which a site lacks, does not: with few sites, what stands for a
    column that tells clusters apart makes new ones in some orders of the sites.
    """
    for number, name in enumerate(SITES):
        rng = np.random.default_rng(number)
        kind = rng.integers(0, 3, 120)
        noise = rng.normal(0, 0.6, (120, 7))
        numbers = noise + 4.0 * kind[:, None] * (np.arange(7) < 6)
        table = pl.DataFrame(numbers, [f"x{i}" for i in range(7)])
        holes = rng.random(120) < 0.1
        table = table.with_columns(
            x0=pl.when(pl.Series(holes)).then(None).otherwise(pl.col("x0")),
            colour=pl.Series(np.array(["green", "blue", "red"])[kind]),
            code=pl.Series(kind + 1),
        )
        if name == "west":
            table = table.drop("x6").rename({"colour": "Colour"})
        table.write_csv(where / f"{name}.csv")


def test_the_same_clusters_as_with_all_files_at_one_place(tmp_path: Path, party: Start):
    write_sites(tmp_path)
    files = [f"{name}.csv" for name in SITES]
    alone = ("run", *files, "--missing", "impute", "--category", "code")
    party(*alone, "--privacy", "summary", "--out", "alone").ends(0)
    port = free_port()
    server = party(
        *("serve", "--out", "run", "--port", port, "--insecure"),
        *("--privacy", "summary", "--category", "code", "--linger", 20),
    )
    server.says("Listening")

    def join(name: str, file: str, *more: object):
        where = ("--data", file, "--name", name, "--out", f"at-{name}")
        return party("join", f"127.0.0.1:{port}", *where, "--insecure", *more)

    sites = [join(name, f"{name}.csv", "--missing", "impute") for name in SITES]
    server.says("agreed")
    pl.read_csv(tmp_path / "north.csv").with_columns(colour=pl.col("code")).write_csv(
        tmp_path / "odd.csv"
    )
    odd = join("odd", "odd.csv", "--missing", "impute").ends(2)
    assert "join with --category colour" in odd
    for site in sites:
        site.ends(0)
    server.ends(0)
    live, simulated = read_result(tmp_path / "run"), read_result(tmp_path / "alone")
    assert live["n_clusters"] == simulated["n_clusters"]
    assert {f["name"]: f["levels"] for f in live["features"]} == {
        "colour": ["blue", "green", "red"],
        "code": ["1", "2", "3"],
    }
    for name in SITES:
        own = pl.read_csv(tmp_path / f"at-{name}" / "labels.csv")["cluster"]
        other = pl.read_csv(tmp_path / "alone" / "labels" / f"{name}.csv")["cluster"]
        pairs = set(zip(own, other, strict=True))
        assert len(pairs) == own.n_unique() == other.n_unique()
    assert "note: west: what is usual at the others stands for 'x6'" in sites[2].said
    assert "west: lacks 'x6'" in server.said
    assert "west: 'Colour' is 'colour'" in server.said
    new = ("predict", "at-north", "north.csv", "--missing", "impute")
    party(*new, "--out", "new.csv").ends(0)
    again = pl.read_csv(tmp_path / "new.csv")["cluster"]
    assert again.equals(pl.read_csv(tmp_path / "at-north" / "labels.csv")["cluster"])

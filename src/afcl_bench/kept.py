# SPDX-License-Identifier: Apache-2.0
"""Runs that are published beside the pages: ``runs/SPEC.csv.gz``, a line a run.

Facts and scores of every run that a page's tables rest on, without labels and centres.
So anybody can check a table without hours of runs, and a part of the runs can be made
anew: what has not been made here is taken from there. A run made here counts.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl

from afcl.durable import replacing
from afcl_bench.frame import SCHEMA
from afcl_bench.measures import MEASURES
from afcl_bench.published import (
    TOLD,
    WHERE,
    damaged,
    is_kept,
    path_of,
    place_of,
    text_of,
)
from afcl_bench.spec import LEARNER, BenchSpec

#: What is kept of a run,
COLUMNS = {name: kind for name, kind in SCHEMA.items() if kind != pl.Object}
#: and how exactly.
DECIMALS = 6
#: How options say that a run was told the k' of another one.
LEARNED = "n_clusters = learned"


def with_kept(spec: BenchSpec, frame: pl.DataFrame, pages: Path) -> pl.DataFrame:
    """Return the runs, and those that are kept and were not made here.

    Parameters
    ----------
    spec : BenchSpec
    frame : polars.DataFrame
        As :func:`afcl_bench.frame.collect` returns it.
    pages : Path
        Folder of the pages.

    Returns
    -------
    polars.DataFrame
        In the order of the spec, with the same columns. Of a spec whose tables need
        more than is kept, the runs as they are.
    """
    path = path_of(pages, spec)
    if not is_kept(spec) or not path.is_file():
        return frame
    own, kept = frame.select(*COLUMNS), _read(path)
    others = kept.join(own, on=WHERE, how="anti", nulls_equal=True)
    # A rival that was told a k' which is another one today.
    learned = pl.col("options").str.contains(LEARNED, literal=True)
    stale = _learners(own).join(_learners(kept), on=[*TOLD, "k"], how="anti")
    others = pl.concat(
        [
            others.filter(~learned),
            others.filter(learned).join(stale, on=TOLD, how="anti"),
        ]
    )
    places = pl.DataFrame(
        [place_of(cell) for cell in spec.cells],
        {name: COLUMNS[name] for name in WHERE},
        orient="row",
    ).with_row_index("place")
    whole = pl.concat([own, others]).join(places, on=WHERE, nulls_equal=True)
    whole = whole.sort("place").select(*COLUMNS)
    rest = [name for name in SCHEMA if name not in COLUMNS]
    nothing = [None] * whole.height
    return whole.with_columns(pl.Series(name, nothing, pl.Object) for name in rest)


def keep(spec: BenchSpec, frame: pl.DataFrame, pages: Path) -> None:
    """Write the runs of a spec beside the pages; the same runs are the same bytes.

    Without any run nothing is written.
    """
    if not is_kept(spec) or not frame.height:
        return
    rounded = pl.col(*MEASURES, "seconds", "cpu_seconds").round(DECIMALS)
    text = frame.select(*COLUMNS).with_columns(rounded).write_csv()
    path = path_of(pages, spec)
    path.parent.mkdir(exist_ok=True)
    with replacing(path, "wb") as file:
        file.write(gzip.compress(text.encode(), mtime=0))


def _learners(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs whose k' rivals are told, and that k'."""
    ours = runs.filter(method=LEARNER, options="")
    return ours.select(*TOLD, "k").unique()


def _read(path: Path) -> pl.DataFrame:
    text = text_of(path)
    try:
        return pl.read_csv(text.encode(), schema=COLUMNS)
    except Exception as error:
        raise damaged(path, error) from error

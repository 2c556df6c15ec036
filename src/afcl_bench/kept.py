# SPDX-License-Identifier: Apache-2.0
"""Runs that are published beside the pages: ``runs/SPEC.csv.gz``, a line a run.

Facts and scores of every run that a page's tables rest on, without labels and centres.
So anybody can check a table without hours of runs, and a part of the runs can be made
anew: what has not been made here is taken from there. A run made here counts.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from afcl.durable import replacing
from afcl.exceptions import InputError
from afcl_bench.frame import SCHEMA, WHERE, row_of
from afcl_bench.measures import MEASURES
from afcl_bench.spec import BenchSpec, Cell

#: Folder below that of the pages.
KEPT = "runs"
#: Blocks that read labels, centres or events, which are not kept.
OF_ARRAYS = {
    "convergence",
    "convergence-plot",
    "sites",
    "trajectories",
    "trajectories-plot",
}
#: What is kept of a run,
COLUMNS = {name: kind for name, kind in SCHEMA.items() if kind != pl.Object}
#: and how exactly.
DECIMALS = 6


def is_kept(spec: BenchSpec) -> bool:
    """Whether the tables of a spec can be made of what is kept."""
    return not OF_ARRAYS.intersection(spec.blocks)


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
    path = _path(pages, spec)
    if not is_kept(spec) or not path.is_file():
        return frame
    own = frame.select(*COLUMNS)
    others = _read(path).join(own, on=WHERE, how="anti", nulls_equal=True)
    cells = [row_of(cell, "") for cell in spec.cells]
    places = pl.DataFrame(
        {name: [cell[name] for cell in cells] for name in WHERE},
        {name: COLUMNS[name] for name in WHERE},
    ).with_row_index("place")
    whole = pl.concat([own, others]).join(places, on=WHERE, nulls_equal=True)
    whole = whole.sort("place").select(*COLUMNS)
    rest = [name for name in SCHEMA if name not in COLUMNS]
    nothing = [None] * whole.height
    return whole.with_columns(pl.Series(name, nothing, pl.Object) for name in rest)


def not_kept(spec: BenchSpec, cells: Iterable[Cell], pages: Path) -> list[Cell]:
    """Return the cells whose runs are not published beside the pages."""
    path = _path(pages, spec)
    if not is_kept(spec) or not path.is_file():
        return list(cells)
    known = set(_read(path).select(WHERE).iter_rows())
    return [
        cell
        for cell in cells
        if tuple(row_of(cell, "")[name] for name in WHERE) not in known
    ]


def keep(spec: BenchSpec, frame: pl.DataFrame, pages: Path) -> None:
    """Write the runs of a spec beside the pages; the same runs are the same bytes."""
    if not is_kept(spec):
        return
    rounded = pl.col(*MEASURES, "seconds", "cpu_seconds").round(DECIMALS)
    text = frame.select(*COLUMNS).with_columns(rounded).write_csv()
    path = _path(pages, spec)
    path.parent.mkdir(exist_ok=True)
    with replacing(path, "wb") as file:
        file.write(gzip.compress(text.encode(), mtime=0))


def _path(pages: Path, spec: BenchSpec) -> Path:
    return pages / KEPT / f"{spec.name}.csv.gz"


def _read(path: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(gzip.decompress(path.read_bytes()), schema=COLUMNS)
    except Exception as error:
        raise InputError(
            f"{path} is damaged ({error}): restore it, or remove it and make all runs"
        ) from error

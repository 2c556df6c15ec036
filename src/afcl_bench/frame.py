# SPDX-License-Identifier: Apache-2.0
"""Stored runs as a Polars table: one row per cell, what became of it, its scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from afcl._typing import Floats
from afcl.exceptions import InputError
from afcl_bench.datasets import fingerprint, is_drawn
from afcl_bench.execute import dataset
from afcl_bench.measures import MEASURES, Scores
from afcl_bench.published import WHERE, place_of
from afcl_bench.runner import resolve
from afcl_bench.spec import BenchSpec, Cell
from afcl_bench.store import DONE, Record, Store

#: Facts of a record that are columns of the table.
FACTS = ("k", "rounds", "bytes", "messages", "most_messages", "seconds", "cpu_seconds")
#: Options that some table tells apart, as columns of their own.
OPTIONS = ("n_seeds", "privacy", "max_rounds")
#: What became of the split, and how many clients there were.
SPLIT = ("clients", "redrawn", "merged")

SCHEMA = {
    **dict.fromkeys(WHERE, pl.String),
    "seed": pl.Int64,
    "status": pl.String,
    "reason": pl.String,
    "k_true": pl.Int64,
    **dict.fromkeys(OPTIONS, pl.String),
    "started_from": pl.Int64,
    **dict.fromkeys((*FACTS, *MEASURES), pl.Float64),
    **dict.fromkeys(SPLIT, pl.Int64),
    "trace": pl.Object,
    "centers": pl.Object,
    "labels": pl.Object,
}


def row_of(cell: Cell, status: str, **found: Any) -> dict[str, Any]:
    """Return the row of a cell; what is not given of the other columns is missing."""
    options = {name: str(value) for name, value in cell.options}
    return {
        **dict(zip(WHERE, place_of(cell), strict=True)),
        "status": status,
        **{name: options.get(name) for name in OPTIONS},
        **found,
    }


def frame_of(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Return rows as a table of all columns."""
    listed = list(rows)
    # Column by column: from rows Polars would make a struct of a trace's events.
    return pl.DataFrame(
        pl.Series(name, [row.get(name) for row in listed], dtype=kind)
        for name, kind in SCHEMA.items()
    )


def values(frame: pl.DataFrame, name: str) -> Floats:
    """Return a column of numbers; NaN where there is none."""
    return frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy(writable=True)


def kinds(frame: pl.DataFrame, name: str) -> list[str]:
    """Return what a column holds, each once, in the order of the spec."""
    return frame[name].unique(maintain_order=True).to_list()


def parts(frame: pl.DataFrame, name: str) -> dict[str, pl.DataFrame]:
    """Split by a column, in the order in which its values first appear."""
    grouped = frame.group_by(name, maintain_order=True)
    return {str(value): part for (value,), part in grouped}


def collect(spec: BenchSpec, root: Path, folder: Path | None) -> pl.DataFrame:
    """Read the runs of a spec that are stored, and score them.

    Parameters
    ----------
    spec : BenchSpec
    root : Path
        Folder of the runs.
    folder : Path, optional
        Where files of data sets are looked for.

    Returns
    -------
    polars.DataFrame
        With the columns of `SCHEMA`, in the order of the spec; a cell that has not been
        run has no row.
    """
    scores = Scores(root)
    found: dict[Cell, dict[str, Any]] = {}
    grouped: dict[tuple[str, int | None], list[tuple[Cell, Record]]] = defaultdict(list)
    for cell, record in stored(spec.cells, Store(root), folder):
        seed = cell.seed if is_drawn(cell.dataset) else None
        grouped[cell.dataset, seed].append((cell, record))
    for group in grouped.values():
        found.update(_scored(group, scores, folder))
    return frame_of(found[cell] for cell in spec.cells if cell in found)


def stored(
    cells: Iterable[Cell], store: Store, folder: Path | None
) -> Iterator[tuple[Cell, Record]]:
    """Pair every cell that has been run with its record."""
    for cell in cells:
        run = resolve(cell, store, folder)
        record = None if run is None else store.read(run)
        if record is not None:
            yield cell, record


def _scored(
    group: list[tuple[Cell, Record]], scores: Scores, folder: Path | None
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Score the answers of runs on the same rows."""
    answered = [(cell, r) for cell, r in group if r.status == DONE]
    for cell, record in group:
        if record.status != DONE:
            reason = str(record.facts["reason"])
            yield cell, row_of(cell, record.status, reason=reason, k_true=0)
    if not answered:
        return
    first = answered[0][0]
    data = dataset(first.dataset, first.seed, folder)
    known = fingerprint(data)
    if any(record.facts["data"]["fingerprint"] != known for _, record in answered):
        raise InputError(
            f"{data.name} is not what the stored runs were made on: give the same "
            "--data, or make the runs again in another folder"
        )
    partitions = [record.labels for _, record in answered]
    measured = scores.measure(
        data,
        known,
        [labels for labels in partitions if labels is not None],
    )
    for (cell, record), scored in zip(answered, measured, strict=True):
        yield (
            cell,
            row_of(
                cell,
                DONE,
                reason="",
                k_true=int(record.facts["data"]["k"]),
                # The number of seeds, also where a spec has it drawn.
                started_from=dict(record.run.options).get("n_seeds"),
                **{name: record.facts[name] for name in FACTS},
                **scored,
                **{name: record.facts["data"].get(name) for name in SPLIT},
                trace=record.trace,
                centers=record.arrays.get("centers"),
                labels=record.labels,
            ),
        )

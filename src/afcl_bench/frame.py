# SPDX-License-Identifier: Apache-2.0
"""Stored runs as a table: one row per cell, its facts and its scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.exceptions import InputError
from afcl_bench.datasets import fingerprint, is_drawn
from afcl_bench.execute import dataset
from afcl_bench.measures import MEASURES, Scores
from afcl_bench.runner import resolve
from afcl_bench.spec import BenchSpec, Cell
from afcl_bench.store import DONE, Record, Store

#: Facts of a record that are columns of the table.
FACTS = ("k", "rounds", "bytes", "messages", "most_messages", "seconds", "cpu_seconds")


@dataclass(frozen=True)
class Row:
    """One cell of the grid and what became of it."""

    cell: Cell
    status: str
    reason: str
    k_true: int
    facts: dict[str, Any]
    scores: dict[str, float | None] = field(default_factory=dict)
    trace: list[dict[str, Any]] | None = field(default=None, repr=False)
    centers: Floats | None = field(default=None, repr=False)

    def value(self, name: str) -> float | None:
        """Return a fact or a score; None where there is none."""
        found = self.facts.get(name, self.scores.get(name))
        return None if found is None else float(found)

    def option(self, name: str) -> Any:
        """Return an option of the cell, as the spec says it."""
        return dict(self.cell.options).get(name)


@dataclass(frozen=True)
class Frame:
    """Rows, and how to pick some of them."""

    rows: tuple[Row, ...]

    def where(self, **wanted: Any) -> Frame:
        """Return the rows whose cell has these values (or one of several)."""
        kept = [
            row
            for row in self.rows
            if all(_fits(getattr(row.cell, key), want) for key, want in wanted.items())
        ]
        return Frame(tuple(kept))

    def by(self, key: Callable[[Row], Any]) -> dict[Any, Frame]:
        """Group rows, in the order in which keys first appear."""
        groups: dict[Any, list[Row]] = defaultdict(list)
        for row in self.rows:
            groups[key(row)].append(row)
        return {name: Frame(tuple(rows)) for name, rows in groups.items()}

    def values(self, name: str) -> Floats:
        """Return a column; NaN where there is no value."""
        found = [row.value(name) for row in self.rows]
        return np.array([np.nan if v is None else v for v in found], dtype=np.float64)

    def datasets(self) -> list[str]:
        """Return the data sets, in the order of the spec."""
        return list(dict.fromkeys(row.cell.dataset for row in self.rows))

    def methods(self) -> list[str]:
        """Return the methods, in the order of the spec."""
        return list(dict.fromkeys(row.cell.method for row in self.rows))

    def __len__(self) -> int:
        return len(self.rows)


def _fits(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list | tuple) else value == wanted


def collect(spec: BenchSpec, root: Path, folder: Path | None) -> Frame:
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
    Frame
        In the order of the spec; a cell that has not been run has no row.
    """
    scores = Scores(root)
    found: dict[Cell, Row] = {}
    grouped: dict[tuple[str, int | None], list[tuple[Cell, Record]]] = defaultdict(list)
    for cell, record in stored(spec.cells, Store(root), folder):
        seed = cell.seed if is_drawn(cell.dataset) else None
        grouped[cell.dataset, seed].append((cell, record))
    for group in grouped.values():
        for row in _scored(group, scores, folder):
            found[row.cell] = row
    return Frame(tuple(found[cell] for cell in spec.cells if cell in found))


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
) -> Iterator[Row]:
    """Score the answers of runs on the same rows."""
    answered = [(cell, r) for cell, r in group if r.status == DONE]
    for cell, record in group:
        if record.status != DONE:
            reason = str(record.facts["reason"])
            nothing = dict.fromkeys(MEASURES)
            yield Row(cell, record.status, reason, 0, {}, nothing)
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
    for (cell, record), values in zip(answered, measured, strict=True):
        facts = {name: record.facts[name] for name in FACTS}
        k_true = int(record.facts["data"]["k"])
        centers = record.arrays.get("centers")
        yield Row(cell, DONE, "", k_true, facts, values, record.trace, centers)

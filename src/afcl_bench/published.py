# SPDX-License-Identifier: Apache-2.0
"""Which runs are published beside the pages, without reading their figures.

Apart from :mod:`afcl_bench.kept`, because Polars starts threads, and one of them would
take a Ctrl-C from the process that waits for its workers.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable
from pathlib import Path

from afcl.exceptions import InputError
from afcl_bench.spec import LEARNER, BenchSpec, Cell, Run
from afcl_bench.store import DONE

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
#: Where a run stands in the grid.
WHERE = ("group", "dataset", "method", "options", "split", "participation", "seed")
#: Where the run stands whose k' a rival is told.
TOLD = ("dataset", "split", "participation", "seed")


def is_kept(spec: BenchSpec) -> bool:
    """Whether the tables of a spec can be made of what is kept."""
    return not OF_ARRAYS.intersection(spec.blocks)


def path_of(pages: Path, spec: BenchSpec) -> Path:
    """Return the file of a spec's runs."""
    return pages / KEPT / f"{spec.runs_of}.csv.gz"


def text_of(path: Path) -> str:
    """Return what is published; a file that is damaged is named."""
    try:
        return gzip.decompress(path.read_bytes()).decode()
    except Exception as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> InputError:
    """Return what is said of a file that cannot be read."""
    return InputError(
        f"{path} is damaged ({error}): restore it, or remove it and make all runs"
    )


def place_of(cell: Cell) -> tuple[str | int, ...]:
    """Return where a cell stands, in the order of :data:`WHERE`."""
    options = ", ".join(f"{name} = {value}" for name, value in cell.options)
    what = (cell.group, cell.dataset, cell.method, options)
    return (*what, cell.split, cell.participation, cell.seed)


def not_kept(
    spec: BenchSpec,
    cells: Iterable[Cell],
    pages: Path,
    learned: Callable[[Run], int | None],
    *,
    retry: bool = False,
) -> list[Cell]:
    """Return the cells whose runs are not published beside the pages.

    Parameters
    ----------
    spec, cells
        The benchmark, and those of its cells that are asked for.
    pages : Path
        Folder of the pages.
    learned
        Called with a run: the k' it found if it was made here. A rival that was told
        another k' before has to be run again.
    retry
        Count runs that failed or met their cap as not published.

    Returns
    -------
    list of Cell
    """
    path = path_of(pages, spec)
    if not is_kept(spec) or not path.is_file():
        return list(cells)
    rows = csv.DictReader(io.StringIO(text_of(path)))
    known: set[tuple[str | int, ...]] = set()
    found: dict[tuple[str, ...], str] = {}
    try:
        for row in rows:
            if row["status"] == DONE or not retry:
                where = (row[name] for name in WHERE[:-1])
                known.add((*where, int(row["seed"])))
            if row["method"] == LEARNER and not row["options"]:
                found[tuple(row[name] for name in TOLD)] = row["k"]
    except (KeyError, ValueError) as error:
        raise damaged(path, error) from error

    def is_today(cell: Cell) -> bool:
        k = learned(cell.learns) if cell.learns else None
        told = found.get(tuple(str(getattr(cell, name)) for name in TOLD))
        return k is None or bool(told) and float(str(told)) == k

    return [cell for cell in cells if place_of(cell) not in known or not is_today(cell)]

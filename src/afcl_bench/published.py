# SPDX-License-Identifier: Apache-2.0
"""Which runs are published beside the pages, without reading their figures.

Apart from :mod:`afcl_bench.kept`, because Polars starts threads, and one of them would
take a Ctrl-C from the process that waits for its workers.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from pathlib import Path

from afcl.exceptions import InputError
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
#: Where a run stands in the grid.
WHERE = ("group", "dataset", "method", "options", "split", "participation", "seed")


def is_kept(spec: BenchSpec) -> bool:
    """Whether the tables of a spec can be made of what is kept."""
    return not OF_ARRAYS.intersection(spec.blocks)


def path_of(pages: Path, spec: BenchSpec) -> Path:
    """Return the file of a spec's runs."""
    return pages / KEPT / f"{spec.name}.csv.gz"


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


def not_kept(spec: BenchSpec, cells: Iterable[Cell], pages: Path) -> list[Cell]:
    """Return the cells whose runs are not published beside the pages."""
    path = path_of(pages, spec)
    if not is_kept(spec) or not path.is_file():
        return list(cells)
    rows = csv.DictReader(io.StringIO(text_of(path)))
    try:
        known = {
            (*(row[name] for name in WHERE[:-1]), int(row["seed"])) for row in rows
        }
    except (KeyError, ValueError) as error:
        raise damaged(path, error) from error
    return [cell for cell in cells if place_of(cell) not in known]

# SPDX-License-Identifier: Apache-2.0
"""Which library reads large files in parts: the figures of decision 0016.

Every reader turns the same files into tables of float64 in the order of the rows, in a
process of its own: Parquet in row groups of 131,072 rows, the same in one row group,
and CSV. Says megabytes of numbers a CPU second, and the peak of memory beyond that
of the libraries alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats
from streaming import COLUMNS, GIGABYTE, mixture, write_site

#: Rows that a reader is asked for at once.
ROWS = 65_536
KINDS = ("groups.parquet", "whole.parquet", "text.csv")


def ours(path: Path) -> Iterator[Floats]:
    """Read as `afcl` does: PyArrow page by page, Polars block by block."""
    from afcl.data.cells import matrix
    from afcl.data.dialect import Dialect
    from afcl.data.files import open_file, read_frames

    file, _ = open_file(path, Dialect())
    for frame in read_frames(file, file.columns, streamed=True):
        yield matrix(frame, path)


def polars_batches(path: Path) -> Iterator[Floats]:
    """Read with the streaming engine of Polars."""
    import polars as pl

    scan = pl.scan_parquet if path.suffix == ".parquet" else pl.scan_csv
    for frame in scan(path).collect_batches(chunk_size=ROWS, maintain_order=True):
        yield frame.to_numpy(order="c")


def polars_slices(path: Path) -> Iterator[Floats]:
    """Read slice by slice with Polars."""
    import polars as pl

    scan = pl.scan_parquet if path.suffix == ".parquet" else pl.scan_csv
    size, start = 16 * ROWS, 0
    while (frame := scan(path).slice(start, size).collect()).height:
        yield frame.to_numpy(order="c")
        start += size


def pyarrow_plain(path: Path) -> Iterator[Floats]:
    """Read with PyArrow as it is set by default."""
    import pyarrow.csv
    import pyarrow.parquet

    if path.suffix == ".parquet":
        batches = pyarrow.parquet.ParquetFile(path).iter_batches(ROWS)
    else:
        batches = pyarrow.csv.open_csv(path)
    for batch in batches:
        yield np.column_stack([column.to_numpy() for column in batch.columns])


def pandas_chunks(path: Path) -> Iterator[Floats]:
    """Read with pandas, which has no parts of a Parquet file."""
    import pandas as pd

    if path.suffix == ".parquet":
        yield np.ascontiguousarray(pd.read_parquet(path).to_numpy())
        return
    for frame in pd.read_csv(path, chunksize=ROWS):
        yield np.ascontiguousarray(frame.to_numpy())


READERS: dict[str, Callable[[Path], Iterator[Floats]]] = {
    "ours": ours,
    "polars_batches": polars_batches,
    "polars_slices": polars_slices,
    "pyarrow_plain": pyarrow_plain,
    "pandas_chunks": pandas_chunks,
}


def peak() -> float:
    """Return the peak of this process's memory so far, in MB (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def read(name: str, path: Path) -> dict[str, float]:
    """Read a file once and say what it took."""
    import pandas  # noqa: F401
    import polars  # noqa: F401
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401

    before, begun, count, total = peak(), time.process_time(), 0, 0.0
    for rows in READERS[name](path):
        count += rows.size
        total += float(rows[:, 0].sum())
    took = time.process_time() - begun
    return {
        "mb_per_cpu_second": count * 8e-6 / took,
        "mb": peak() - before,
        "sum": total,
    }


def main() -> None:
    """Write the files, let every reader read each, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.5)
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.read:
        print(json.dumps(read(asked.read[0], Path(asked.read[1]))))
        return
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / kind for kind in KINDS]
        n_rows = int(asked.gigabytes * GIGABYTE) // (8 * COLUMNS)
        write_site(paths[0], n_rows, 1)
        write_whole(paths[1], n_rows)
        write_site(paths[2], n_rows // 5, 1)
        for path in paths:
            for reader in READERS:
                show(path, reader)


def write_whole(path: Path, n_rows: int) -> None:
    """Write the rows as one row group."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    rows = np.concatenate(list(mixture(n_rows, 1)))
    table = pa.table({f"x{place}": column for place, column in enumerate(rows.T)})
    write_table(table, path, row_group_size=n_rows)


def show(path: Path, reader: str) -> None:
    """Read a file in a process of its own, and print what it took."""
    done = subprocess.run(
        [sys.executable, __file__, "--read", reader, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    took: dict[str, Any] = json.loads(done.stdout)
    print(
        f"{path.name:15} {reader:15} {took['mb_per_cpu_second']:6.0f} MB a CPU second"
        f"{took['mb']:7.0f} MB more  (sum {took['sum']:.6f})",
        flush=True,
    )


if __name__ == "__main__":
    main()

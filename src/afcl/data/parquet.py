# SPDX-License-Identifier: Apache-2.0
"""Parquet files, read at once or a few megabytes at a time (decision 0016).

Polars reads a file at once. PyArrow reads page by page, so that even a file that is one
huge row group needs little memory. What it does need is a page or two of every column
at once.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afcl.data.errors import fail, unreadable

if TYPE_CHECKING:
    import polars as pl

#: Numbers that are read together: 1 MB of them.
BATCH = 1 << 17
#: Bytes of the file that are read at once over all columns.
BUFFERS = 1 << 23
#: Bytes of the file that are read at once for one column, at most.
BUFFER = 1 << 16
#: The same, at least.
SMALLEST_BUFFER = 1 << 12
#: Fewest rows of a batch, however many columns there are.
FEWEST_ROWS = 256
#: Bytes of a column's pages as writers cut them, with the values that they repeat.
PAGES = 1_300_000


def can_stream_parquet() -> bool:
    """Return whether the library that reads Parquet page by page is there."""
    return find_spec("pyarrow") is not None


def parquet_names(path: Path) -> list[str]:
    """Return the column names of a Parquet file."""
    return _scanned(path).collect_schema().names()


def parquet_rows(path: Path) -> int:
    """Return how many rows a Parquet file says it has."""
    import polars as pl

    return int(_scanned(path).select(pl.len()).collect().item())


def parquet_frame(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Return these columns of a Parquet file, read at once."""
    import polars as pl

    # As bytes: so no name is taken for a pattern, and no folder for a column.
    return pl.read_parquet(io.BytesIO(path.read_bytes()), columns=list(columns))


def _scanned(path: Path) -> pl.LazyFrame:
    import polars as pl

    # The name is a name: no pattern, and its folders are no columns.
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def parquet_frames(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield these columns of a Parquet file, batch by batch."""
    import polars as pl

    width = len(columns)
    buffer = max(SMALLEST_BUFFER, min(BUFFER, BUFFERS // width))
    rows = max(FEWEST_ROWS, BATCH // width)
    with _opened(path, buffer) as file:
        for batch in file.iter_batches(rows, columns=columns, use_threads=False):
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            yield frame.select(columns)


def memory_needed(path: Path, columns: Sequence[str]) -> int:
    """Return about how many bytes the open pages of a Parquet file may take."""
    with _opened(path, BUFFER) as file:
        about, wanted = file.metadata, set(columns)
        groups = (about.row_group(g) for g in range(about.num_row_groups))
        return max((_pages(group, wanted) for group in groups), default=0)


def _pages(group: Any, wanted: set[str]) -> int:
    chunks = (group.column(place) for place in range(group.num_columns))
    return sum(
        2 * min(PAGES, chunk.total_uncompressed_size)
        for chunk in chunks
        if chunk.path_in_schema in wanted
    )


@contextmanager
def _opened(path: Path, buffer: int) -> Iterator[Any]:
    """Open a file so that its pages are read one after the other."""
    if not can_stream_parquet():
        raise fail(
            f"{path}: reading Parquet in parts needs PyArrow: "
            "pip install 'afcl[stream]', or read it at once with --no-stream"
        )
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, buffer_size=buffer, pre_buffer=False) as file:
            yield file
    except ArrowException as error:
        raise unreadable(path, error) from None

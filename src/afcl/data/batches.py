# SPDX-License-Identifier: Apache-2.0
"""Parquet files, read a few megabytes at a time (decision 0016).

PyArrow reads page by page, so that even a file that is one huge row group needs little
memory. What it does need is a page or two of every column at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afcl.data.words import fail, unreadable

if TYPE_CHECKING:
    import polars as pl

#: Numbers that are read together: 1 MB of them.
BATCH = 1 << 17
#: Bytes of the file that are read at once, over all columns, and for one at most.
BUFFERS, BUFFER = 1 << 23, 1 << 16
#: Bytes of a column's pages as writers cut them, with the values that they repeat.
PAGES = 1_300_000


def can_stream_parquet() -> bool:
    """Return whether the library that reads Parquet page by page is there."""
    return find_spec("pyarrow") is not None


def parquet_frames(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield these columns of a Parquet file, batch by batch."""
    import polars as pl

    width = len(columns)
    buffer = max(4096, min(BUFFER, BUFFERS // width))
    rows = max(256, BATCH // width)
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

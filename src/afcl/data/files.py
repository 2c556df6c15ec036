# SPDX-License-Identifier: Apache-2.0
"""One site's file on disk, read into named columns of numbers.

Text files are parsed as text and turned into numbers here, cell by cell, so that an
error can name the cell. Rows are counted from 1, the header not included.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from afcl._typing import Bools, Floats
from afcl.data.errors import (
    FLAGS,
    MISSING,
    drop_option,
    empty,
    ending,
    excerpt,
    fail,
    unreadable,
)
from afcl.data.parquet import (
    parquet_frame,
    parquet_frames,
    parquet_names,
    parquet_rows,
)
from afcl.data.texts import count_lines, text_frames, text_names
from afcl.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl


def _check_path(path: Path) -> None:
    """Refuse what is not a readable kind of file, before anything is read."""
    if not os.path.exists(path):
        raise fail(f"{path}: no such file; check the name and the folder")
    if not ending(path):
        raise fail(
            f"{path}: unknown kind of file; use .csv, .tsv or .parquet "
            "(.csv.gz and .tsv.gz are fine too)"
        )
    if os.path.getsize(path) == 0:
        raise empty(path)


def names_in(path: Path) -> tuple[list[str], list[str]]:
    """Return the names of a file's columns, and notes on those that are left out.

    Unnamed columns and the index columns of saved data frames are left out.
    """
    _check_path(path)
    with _reading(path):
        names = parquet_names(path) if _is_parquet(path) else text_names(path)
    index = [c for c in names if c.startswith(("\0", "__index_level_"))]
    if len(index) == len(names):
        raise fail(f"{path}: no column has a name; put a line with names on top")
    notes = [f"{path}: {_described(name)}" for name in index]
    return [c for c in names if c not in index], notes


def rows_in(path: Path) -> int:
    """Return the rows of a file; of text, the lines below the column names."""
    with _reading(path):
        return parquet_rows(path) if _is_parquet(path) else count_lines(path)


def read_frames(
    path: Path,
    columns: Sequence[str],
    streamed: bool = False,
    as_numbers: bool = True,
) -> Iterator[pl.DataFrame]:
    """Yield these columns of a file, part by part.

    Parameters
    ----------
    path : Path
    columns : sequence of str
        Names that the file has.
    streamed : bool
        Whether the parts must be small. Text is always read in small parts, Parquet
        otherwise at once.
    as_numbers : bool
        Whether cells of text that are numbers may come as such.
    """
    with _reading(path):
        if not _is_parquet(path):
            for frame in text_frames(path, columns if as_numbers else ()):
                yield frame.select(columns)
        elif streamed:
            yield from parquet_frames(path, columns)
        else:
            yield parquet_frame(path, columns)


def read_frame(path: Path) -> tuple[pl.DataFrame, list[str]]:
    """Read one file; returns its columns (text as text) and notes worth telling."""
    import polars as pl

    names, notes = names_in(path)
    frames = list(read_frames(path, names, as_numbers=False))
    if not sum(frame.height for frame in frames):
        raise no_rows(path)
    return pl.concat(frames), notes


def no_rows(path: Path) -> InputError:
    """Return the error of a file that has column names only."""
    return fail(f"{path}: has column names but no rows; add rows or leave the site out")


def matrix(frame: pl.DataFrame, path: Path, before: int = 0) -> Floats:
    """Return the cells of a frame as numbers; see :func:`numbers`."""
    values = np.empty((frame.height, frame.width))
    for place, series in enumerate(frame):
        values[:, place] = numbers(series, path, before)
    return values


def numbers(series: pl.Series, path: Path, before: int = 0) -> Floats:
    """Return a column as float64, NaN where there is no value; text is refused.

    Parameters
    ----------
    series : Series
    path : Path
        The file, for error lines.
    before : int
        Rows of the file before the first one of the series.
    """
    import polars as pl

    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        values = _parsed(series)
    elif series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null):
        values = series.cast(pl.Float64)
    else:
        values = pl.repeat(None, len(series), dtype=pl.Float64, eager=True)
    if values.null_count():
        text = (values.is_null() & _has_value(series)).to_numpy()
        _refuse(text, "not a number", series, path, before)
    array: Floats = values.to_numpy().astype(np.float64, copy=False)
    infinite = "and infinite values are never accepted"
    _refuse(np.isinf(array), infinite, series, path, before)
    return array


def _parsed(series: pl.Series) -> pl.Series:
    """Read text cells as numbers, true and false as 1 and 0; null elsewhere."""
    import polars as pl

    text = series.str.strip_chars()
    values = text.cast(pl.Float64, strict=False)
    if values.null_count() == 0:
        return values
    words = text.str.to_lowercase()
    flags = words.replace_strict(FLAGS, default=None, return_dtype=pl.Float64)
    return values.fill_null(flags)


def _refuse(cells: Bools, why: str, series: pl.Series, path: Path, before: int) -> None:
    """Refuse a column with such cells, and name the first of them."""
    if cells.any():
        row = int(np.argmax(cells))
        raise fail(
            f"{path}: column {series.name!r}, row {before + row + 1} is "
            f"{excerpt(series[row])}, {why}; correct it or leave the column "
            f"out with {drop_option(series.name)}"
        )


def _has_value(series: pl.Series) -> pl.Series:
    """Mark the cells that hold something other than a sign for "missing"."""
    import polars as pl

    if series.dtype != pl.String:
        return series.is_not_null()
    words = series.fill_null("").str.strip_chars().str.to_lowercase()
    return ~words.is_in(MISSING)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file brings about into one line."""
    import polars as pl

    try:
        yield
    except pl.exceptions.DuplicateError as error:
        raise fail(f"{path}: {error}; rename the columns so that they differ") from None
    except (OSError, EOFError, zlib.error, pl.exceptions.PolarsError) as error:
        raise unreadable(path, error) from None
    except pl.exceptions.PanicException as error:  # a damaged file can do this
        raise unreadable(path, error) from None


def _is_parquet(path: Path) -> bool:
    return ending(path) == ".parquet"


def _described(name: str) -> str:
    if name.startswith("\0"):
        return f"column {name[1:]} left out: it has no name"
    return f"column {name!r} left out: it is a row index"

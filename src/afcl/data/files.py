# SPDX-License-Identifier: Apache-2.0
"""One site's file on disk, read into named columns.

Text files are parsed as text and turned into numbers cell by cell (see
:mod:`afcl.data.cells`), so that an error can name the cell.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from afcl.data.dialect import UNKNOWN, Dialect, Written, nothing
from afcl.data.errors import EXCEL, PARQUET, empty, ending, fail, unreadable
from afcl.data.excel import excel_frame, excel_names
from afcl.data.parquet import (
    parquet_frame,
    parquet_frames,
    parquet_names,
    parquet_rows,
)
from afcl.data.sniff import written_in
from afcl.data.texts import count_lines, text_frames, text_names
from afcl.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file whose columns are known.

    Attributes
    ----------
    path : Path
    written : Written
        How its cells are written.
    columns : tuple of str
        What its columns go by.
    own : mapping of str to str
        What they are called in the file, where that is something else.
    """

    path: Path
    written: Written
    columns: tuple[str, ...]
    own: Mapping[str, str] = field(default_factory=dict)


def open_file(path: Path, dialect: Dialect) -> tuple[DataFile, list[str]]:
    """Look into a file, as far as to its column names; returns notes on it, too.

    Unnamed columns and the index columns of saved data frames are left out.
    """
    _check_path(path)
    with _reading(path):
        written, names, notes = _looked_at(path, dialect)
    index = [c for c in names if c.startswith(("\0", "__index_level_"))]
    if len(index) == len(names):
        raise fail(f"{path}: no column has a name; put a line with names on top")
    notes += [f"{path}: {_described(name)}" for name in index]
    return DataFile(path, written, tuple(c for c in names if c not in index)), notes


def _check_path(path: Path) -> None:
    """Refuse what is not a readable kind of file, before anything is read."""
    if not os.path.exists(path):
        raise fail(f"{path}: no such file; check the name and the folder")
    if not ending(path):
        raise fail(
            f"{path}: unknown kind of file; use .csv, .tsv, .txt, .dat, .data (with or "
            "without .gz), .parquet or .xlsx"
        )
    if os.path.getsize(path) == 0:
        raise empty(path)


def _looked_at(path: Path, dialect: Dialect) -> tuple[Written, list[str], list[str]]:
    """Return how a file is written, its column names, and notes."""
    words, values = nothing(dialect.null)
    if ending(path) == PARQUET:
        written = Written(decimal=dialect.decimal or ".", words=words, values=values)
        return written, parquet_names(path), []
    if ending(path) == EXCEL:
        # Its numbers come with points, whatever they look like on the screen.
        return Written(words=words, values=values), *excel_names(path)
    written, notes = written_in(path, dialect)
    return written, text_names(path, written), notes


def rows_in(file: DataFile) -> int:
    """Return the rows of a file; of text, the lines below the column names."""
    with _reading(file.path):
        if ending(file.path) == PARQUET:
            return parquet_rows(file.path)
        if ending(file.path) == EXCEL:
            return excel_frame(file.path).height
        return count_lines(file.path, file.written)


def read_frames(
    file: DataFile,
    columns: Sequence[str],
    streamed: bool = False,
    as_numbers: bool = True,
    as_texts: Collection[str] = (),
) -> Iterator[pl.DataFrame]:
    """Yield these columns of a file, part by part.

    Parameters
    ----------
    file : DataFile
    columns : sequence of str
        Names that its columns go by.
    streamed : bool
        Whether the parts must be small. Text is always read in small parts, Excel
        never, Parquet otherwise at once.
    as_numbers : bool
        Whether cells of text that are numbers may come as such.
    as_texts : collection of str
        Columns in which they may not.
    """
    own = [file.own.get(name, name) for name in columns]
    names = dict(zip(own, columns, strict=True))
    with _reading(file.path):
        numbers = [spelt for spelt, name in names.items() if name not in as_texts]
        floats = numbers if as_numbers else ()
        for frame in _frames(file, own, streamed, floats):
            yield frame.select(own).rename(names)


def _frames(
    file: DataFile, own: Sequence[str], streamed: bool, floats: Collection[str]
) -> Iterator[pl.DataFrame]:
    path = file.path
    if ending(path) == EXCEL:
        yield excel_frame(path, as_text=not floats)
    elif ending(path) != PARQUET:
        yield from text_frames(path, file.written, floats)
    elif streamed:
        yield from parquet_frames(path, own)
    else:
        yield parquet_frame(path, own)


def read_frame(path: Path) -> tuple[pl.DataFrame, list[str]]:
    """Read one file; returns its columns (text as text) and notes worth telling."""
    import polars as pl

    file, notes = open_file(path, UNKNOWN)
    frames = list(read_frames(file, file.columns, as_numbers=False))
    if not sum(frame.height for frame in frames):
        raise no_rows(path)
    return pl.concat(frames), notes


def no_rows(path: Path) -> InputError:
    """Return the error of a file that has column names only."""
    return fail(f"{path}: has column names but no rows; add rows or leave the site out")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file brings about into one line."""
    import polars as pl

    try:
        yield
    except pl.exceptions.DuplicateError as error:
        raise fail(f"{path}: {error}; rename the columns so that they differ") from None
    except (OSError, EOFError, zlib.error, UnicodeError) as error:
        raise unreadable(path, error) from None
    except pl.exceptions.PolarsError as error:
        raise unreadable(path, error) from None
    except pl.exceptions.PanicException as error:  # a damaged file can do this
        raise unreadable(path, error) from None


def _described(name: str) -> str:
    if name.startswith("\0"):
        return f"column {name[1:]} left out: it has no name"
    return f"column {name!r} left out: it is a row index"

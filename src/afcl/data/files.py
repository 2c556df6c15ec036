# SPDX-License-Identifier: Apache-2.0
"""One site's file on disk, read into named columns of numbers.

Text files are parsed as text and turned into numbers here, cell by cell, so that an
error can name the cell. Rows are counted from 1, the header not included.
"""

from __future__ import annotations

import gzip
import io
import os
import shlex
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from afcl._typing import Floats
from afcl.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl

#: Separators by file ending; anything here may also end in `.gz`.
SEPARATORS = {".csv": ",", ".tsv": "\t"}
#: Endings that can be read, longest first.
ENDINGS = (".csv.gz", ".tsv.gz", ".csv", ".tsv", ".parquet")
#: Cells of a text column (in lower case) that mean "no value".
MISSING = ("", "?", "na", "n/a", "nan", "none", "null")
#: Cells of a text column (in lower case) that are booleans.
FLAGS = {"true": 1.0, "false": 0.0}
#: Longest excerpt of a cell in an error line.
EXCERPT = 40


def fail(message: str) -> InputError:
    """Return an error whose message is one line, whatever the names in it hold."""
    return InputError(" ".join(message.splitlines()))


def ending(path: Path) -> str:
    """Return the known ending of a file name, or "" for any other."""
    name = path.name.lower()
    return next((e for e in ENDINGS if name.endswith(e)), "")


def listed(names: Sequence[str]) -> str:
    """Join names for an error line, and shorten a long list."""
    shown = ", ".join(names[:8]) or "none"
    return shown if len(names) <= 8 else f"{shown}, … ({len(names)} in all)"


def excerpt(value: object) -> str:
    """Show a cell in an error line, shortened."""
    text = repr(value)
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"


def drop_option(name: str) -> str:
    """Return the option that leaves a column out, as one would type it."""
    return f"--drop {shlex.quote(name)}"


def check_path(path: Path) -> None:
    """Refuse what is not a readable kind of file, before anything is read."""
    if os.path.isdir(path):
        raise fail(f"{path}: is a folder; name the files in it one by one")
    if not os.path.exists(path):
        raise fail(f"{path}: no such file; check the name and the folder")
    if not ending(path):
        raise fail(
            f"{path}: unknown kind of file; use .csv, .tsv or .parquet "
            "(.csv.gz and .tsv.gz are fine too)"
        )
    if os.path.getsize(path) == 0:
        raise _empty(path)


def read_frame(path: Path) -> tuple[pl.DataFrame, list[str]]:
    """Read one file; returns its columns (text as text) and notes worth telling.

    Unnamed columns and the index columns of saved data frames are left out.
    """
    import polars as pl

    check_path(path)
    try:
        frame = _read_parquet(path) if ending(path) == ".parquet" else _read_text(path)
    except (OSError, EOFError, zlib.error, pl.exceptions.PolarsError) as error:
        raise _unreadable(path, error) from None
    except pl.exceptions.PanicException as error:  # a damaged file can do this
        raise _unreadable(path, error) from None
    if frame.height == 0:
        raise fail(
            f"{path}: has column names but no rows; add rows or leave the site out"
        )
    return _without_index(frame, path)


def numbers(series: pl.Series, path: Path) -> Floats:
    """Return a column as float64, NaN where there is no value; text is refused."""
    import polars as pl

    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        values = _parsed(series)
    elif series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null):
        values = series.cast(pl.Float64)
    else:
        values = pl.repeat(None, len(series), dtype=pl.Float64, eager=True)
    text = (values.is_null() & _has_value(series)).arg_true()
    if len(text):
        raise fail(
            f"{path}: column {series.name!r}, row {text[0] + 1} is "
            f"{excerpt(series[text[0]])}, not a number; correct it or leave the column "
            f"out with {drop_option(series.name)}"
        )
    array: Floats = values.to_numpy().astype(np.float64)
    _refuse_infinite(array, series, path)
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


def _has_value(series: pl.Series) -> pl.Series:
    """Mark the cells that hold something other than a sign for "missing"."""
    import polars as pl

    if series.dtype != pl.String:
        return series.is_not_null()
    words = series.fill_null("").str.strip_chars().str.to_lowercase()
    return ~words.is_in(MISSING)


def _refuse_infinite(array: Floats, series: pl.Series, path: Path) -> None:
    """Refuse infinite values, whatever the policy for missing ones."""
    rows = np.flatnonzero(np.isinf(array))
    if rows.size:
        raise fail(
            f"{path}: column {series.name!r}, row {rows[0] + 1} is "
            f"{excerpt(series[int(rows[0])])}, and infinite values are never accepted; "
            f"correct it or leave the column out with {drop_option(series.name)}"
        )


def _read_parquet(path: Path) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.read_parquet(io.BytesIO(path.read_bytes()))
    except pl.exceptions.DuplicateError as error:
        raise fail(f"{path}: {error}; rename the columns so that they differ") from None


def _read_text(path: Path) -> pl.DataFrame:
    """Read a separated text file; its first line must name the columns."""
    import polars as pl

    kind = ending(path)
    data = path.read_bytes()
    # Blank lines around the table are no rows; an old line ending is a line ending.
    data = (gzip.decompress(data) if kind.endswith(".gz") else data).strip(b"\r\n")
    if not data.strip():
        raise _empty(path)
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    separator = SEPARATORS[kind.removesuffix(".gz")]
    frame = pl.read_csv(
        io.BytesIO(data), has_header=False, infer_schema=False, separator=separator
    )
    names = [(name or "").strip() for name in frame.row(0)]
    _check_header(names, path)
    _check_separator(frame, path)
    return frame[1:].rename(dict(zip(frame.columns, _fill(names), strict=True)))


def _fill(names: list[str]) -> list[str]:
    """Give unnamed columns a name that only `_without_index` knows."""
    return [name or f"\0{position}" for position, name in enumerate(names, 1)]


def _check_header(names: list[str], path: Path) -> None:
    """Refuse a header that is a row of data, or repeats a name."""
    if _all_numbers(names) and names not in _counted(len(names)):
        raise fail(
            f"{path}: the first line holds numbers ({listed(names)}); "
            "put a line with the column names above it"
        )
    for name, times in Counter(filter(None, names)).items():
        if times > 1:
            raise fail(
                f"{path}: the column name {name!r} occurs {times} times; "
                "rename the columns so that they differ"
            )


def _check_separator(frame: pl.DataFrame, path: Path) -> None:
    """Refuse a single column whose cells look like several."""
    cells = [str(row[0]) for row in frame.head(2).rows()]
    other = set(";|\t,") - {SEPARATORS[ending(path).removesuffix(".gz")]}
    if frame.width == 1 and any(all(s in cell for cell in cells) for s in other):
        raise fail(
            f"{path}: has the single column {excerpt(cells[0])}, so it is separated by "
            "something else; use commas in .csv and tabs in .tsv"
        )


def _counted(n_names: int) -> list[list[str]]:
    """Return the headers of counted columns, which are names although numbers."""
    return [[str(i) for i in range(start, start + n_names)] for start in (0, 1)]


def _all_numbers(names: list[str]) -> bool:
    try:
        return bool([float(name) for name in names])
    except ValueError:
        return False


def _without_index(frame: pl.DataFrame, path: Path) -> tuple[pl.DataFrame, list[str]]:
    """Leave out unnamed columns and saved row indices, and say so."""
    index = [c for c in frame.columns if c.startswith(("\0", "__index_level_"))]
    if len(index) == frame.width:
        raise fail(f"{path}: no column has a name; put a line with names on top")
    notes = [f"{path}: {_described(name)}" for name in index]
    return frame.drop(index), notes


def _described(name: str) -> str:
    if name.startswith("\0"):
        return f"column {name[1:]} left out: it has no name"
    return f"column {name!r} left out: it is a row index"


def _empty(path: Path) -> InputError:
    return fail(
        f"{path}: the file is empty; put a header and rows into it, or leave the site "
        "out"
    )


def _unreadable(path: Path, error: BaseException) -> InputError:
    """Say in one line why a file could not be read."""
    if isinstance(error, OSError) and error.strerror:
        return fail(f"{path}: cannot be read ({error.strerror}); check the file")
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if "more fields" in reason:
        return fail(
            f"{path}: a row has more fields than the header; correct the row, or quote "
            "the cells that contain the separator"
        )
    what = "Parquet" if ending(path) == ".parquet" else "UTF-8 text"
    return fail(
        f"{path}: cannot be read ({reason}); check that it is {what} and save it anew"
    )

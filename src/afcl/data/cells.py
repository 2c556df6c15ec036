# SPDX-License-Identifier: Apache-2.0
"""Cells that should be numbers: which are, which mean nothing, and which are not.

Rows are counted from 1, the header not included.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from afcl._typing import Bools, Floats
from afcl.data.decimals import looks_like_a_number
from afcl.data.dialect import USUAL, Written
from afcl.data.errors import FLAGS, drop_option, excerpt, fail, without_levels
from afcl.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl

#: How dates are written that are read as such.
DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%.f", "%d.%m.%Y")
#: The same at so many hours from Greenwich.
ZONED = ("%Y-%m-%dT%H:%M%z", "%Y-%m-%dT%H:%M:%S%.f%z")
#: Of a day.
MILLISECONDS = 86_400_000
#: Columns that an error line describes; it names all of them.
DESCRIBED = 8


@dataclass(frozen=True, slots=True)
class OddCell:
    """The first cell of a column that is not a number, in one file.

    Attributes
    ----------
    column : str
    path : Path
        The file.
    row : int
        Counted from 1.
    cell : object
        What is there.
    decimal : str
        What numbers are read with there.
    """

    column: str
    path: Path
    row: int
    cell: object
    decimal: str = "."


class NotNumbers(InputError):
    """Columns that were to be numbers are not; `odd` has a cell of each."""

    def __init__(self, odd: Sequence[OddCell]) -> None:
        super().__init__(str(fail(_in_words(odd))))
        self.odd = tuple(odd)

    @property
    def where(self) -> str:
        """The first of them, without a word on what to do."""
        first = self.odd[0]
        return (
            f"{first.path}: column {first.column!r}, row {first.row} is "
            f"{excerpt(first.cell)}, not a number{_hint(first)}"
        )


def _in_words(odd: Sequence[OddCell]) -> str:
    """Say which columns are no numbers, and how to leave them out."""
    names = [cell.column for cell in odd]
    if len(odd) == 1:
        (only,) = odd
        return (
            f"{only.path}: column {only.column!r}, row {only.row} is "
            f"{excerpt(only.cell)}, not a number{_hint(only)}; correct it or leave the "
            f"column out with {drop_option(*names)}"
        )
    hint = next(filter(None, map(_hint, odd)), "")
    return (
        f"{len(odd)} columns are not numbers: {described(odd)}{hint}; leave them out "
        f"with {drop_option(*names)} or --numeric-only"
    )


def described(odd: Sequence[OddCell], most: int = DESCRIBED) -> str:
    """Name columns and a cell of each, so many at most."""
    shown = [
        f"{c.column} ({excerpt(c.cell)} in {c.path}, row {c.row})" for c in odd[:most]
    ]
    if len(odd) > most:
        shown.append("…")
    return ", ".join(shown)


def _hint(odd: OddCell) -> str:
    """Say what is the matter with a cell that is a number elsewhere."""
    if not looks_like_a_number(odd.cell):
        return ""
    other = "." if odd.decimal == "," else ","
    return (
        f" as numbers are read here, with {odd.decimal!r} before decimals (--decimal "
        f"{other!r} for the other) and nothing between thousands"
    )


def numbers(
    series: pl.Series, written: Written = USUAL, flags: bool = False
) -> tuple[Floats, Bools | None]:
    """Return a column as float64, NaN where there is no value.

    This is where a column is judged to be of numbers, and nowhere else.

    Parameters
    ----------
    series : Series
    written : Written
        How cells of text are written, and what means "no value".
    flags : bool
        Whether true and false are 1 and 0; else they are no numbers but kinds.

    Returns
    -------
    values : ndarray of float
    odd : ndarray of bool or None
        Cells that hold something else than a number; None: there is none.
    """
    import polars as pl

    written = written.at(series.name)
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        values = _parsed(series, written.decimal, flags)
    elif series.dtype.is_numeric() or series.dtype == pl.Null:
        values = series.cast(pl.Float64)
    elif series.dtype == pl.Boolean and flags:
        values = series.cast(pl.Float64)
    else:
        values = pl.repeat(None, len(series), dtype=pl.Float64, eager=True)
    odd: Bools | None = None
    if values.null_count():
        odd = (values.is_null() & _has_value(series, written)).to_numpy()
    array: Floats = values.to_numpy().astype(np.float64, copy=False)
    if written.values:
        array = np.where(np.isin(array, written.values), np.nan, array)
    return array, odd if odd is not None and odd.any() else None


def texts(
    series: pl.Series, written: Written = USUAL, levels: Collection[str] = ()
) -> list[str | None]:
    """Return the cells of a column as texts, None where there is no value.

    What is declared as a level is a value: `none` may be one.
    """
    import polars as pl

    written = written.at(series.name)
    if series.dtype.is_float():
        # Numbers that stand for kinds: 1 and 1.0 are one of them.
        whole = series.is_finite() & (series == series.round(0))
        numbers = series.cast(pl.Int64, strict=False).cast(pl.String)
        series = series.cast(pl.String).set(whole.fill_null(False), None)
        series = series.fill_null(numbers)
    cells = series.cast(pl.String, strict=False)
    held = _has_value(cells, written, levels)
    if written.values:
        held &= ~_parsed(cells, written.decimal).is_in(written.values).fill_null(False)
    return cells.set(~held, None).to_list()


def days(series: pl.Series, written: Written = USUAL) -> tuple[Floats, Bools | None]:
    """Return a column of dates as days since 1970; what is odd as :func:`numbers` does.

    Dates of files that know them, and texts: 2026-11-30, with a time or without, or
    30.11.2026. Times of a zone are those of Greenwich (UTC).
    """
    import polars as pl

    if series.dtype == pl.Date or isinstance(series.dtype, pl.Datetime):
        cells = series
        found = series.cast(pl.Datetime("ms"))
    else:
        cells = pl.Series(series.name, texts(series, written), dtype=pl.String)
        cells = cells.str.strip_chars().str.strip_suffix("Z")
        cells = cells.str.replace(" ", "T", literal=True)
        found = pl.Series(series.name, [None] * len(series), dtype=pl.Datetime("ms"))
        for form in DATES:
            found = found.fill_null(
                cells.str.to_datetime(form, time_unit="ms", strict=False)
            )
        if found.null_count() > cells.null_count():
            for form in ZONED:
                zoned = cells.str.to_datetime(form, time_unit="ms", strict=False)
                found = found.fill_null(zoned.dt.replace_time_zone(None))
    values = found.to_physical().cast(pl.Float64) / MILLISECONDS
    odd = (values.is_null() & cells.is_not_null()).to_numpy()
    array: Floats = values.to_numpy().astype(np.float64, copy=False)
    return array, odd if odd.any() else None


def _parsed(series: pl.Series, decimal: str, flags: bool = False) -> pl.Series:
    """Read text cells as numbers, true and false as 1 and 0 if asked; else null."""
    import polars as pl

    text = series.str.strip_chars()
    if decimal == ",":
        # A point would be one between thousands.
        text = text.set(text.str.contains(".", literal=True).fill_null(False), "-")
        text = text.str.replace(",", ".", literal=True)
    values = text.cast(pl.Float64, strict=False)
    if values.null_count() == 0 or not flags:
        return values
    words = text.str.to_lowercase()
    known = words.replace_strict(FLAGS, default=None, return_dtype=pl.Float64)
    return values.fill_null(known)


def _has_value(
    series: pl.Series, written: Written, levels: Collection[str] = ()
) -> pl.Series:
    """Mark the cells that hold something other than a sign for "missing"."""
    import polars as pl

    if series.dtype != pl.String:
        return series.is_not_null()
    words = series.fill_null("").str.strip_chars().str.to_lowercase()
    absent = without_levels(levels)
    return ~words.is_in([*absent, *(word.lower() for word in written.words)])


def matrix(
    frame: pl.DataFrame,
    path: Path,
    before: int = 0,
    written: Written = USUAL,
    dates: Collection[str] = (),
    flags: bool = False,
) -> Floats:
    """Return the cells of a frame as numbers; refuses text and infinite values.

    Parameters
    ----------
    frame : DataFrame
    path : Path
        The file, for error lines.
    before : int
        Rows of the file before the first one of the frame.
    written : Written
        How the cells are written.
    dates : collection of str
        Columns of dates.
    flags : bool
        Whether true and false are numbers.
    """
    values = np.empty((frame.height, frame.width))
    for place, series in enumerate(frame):
        if series.name in dates:
            values[:, place] = days_in(series, path, before, written)
            continue
        values[:, place], odd = numbers(series, written, flags)
        if odd is not None:
            raise NotNumbers([odd_cell(odd, series, path, before, written)])
        _refuse_infinite(values[:, place], series, path, before)
    return values


def days_in(series: pl.Series, path: Path, before: int, written: Written) -> Floats:
    """Return a column of dates as days; refuses cells that are none."""
    values, odd = days(series, written)
    if odd is not None:
        cell = odd_cell(odd, series, path, before, written)
        raise fail(
            f"{path}: column {cell.column!r}, row {cell.row} is {excerpt(cell.cell)}, "
            "not a date: write 2026-11-30 or 30.11.2026, or leave the column out with "
            f"{drop_option(cell.column)}"
        )
    return values


def odd_cell(
    odd: Bools, series: pl.Series, path: Path, before: int, written: Written
) -> OddCell:
    """Return the first of the cells that are no numbers."""
    row = int(np.argmax(odd))
    return OddCell(series.name, path, before + row + 1, series[row], written.decimal)


def _refuse_infinite(
    values: Floats, series: pl.Series, path: Path, before: int
) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise fail(
            f"{path}: column {series.name!r}, row {before + row + 1} is "
            f"{excerpt(series[row])}, and infinite values are never accepted; correct "
            f"it or leave the column out with {drop_option(series.name)}"
        )

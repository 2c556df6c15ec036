# SPDX-License-Identifier: Apache-2.0
"""Tables in memory: arrays, pandas and Polars frames, told apart by what they offer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from afcl._typing import AnyArray, Floats
from afcl.data.date_parts import DAY
from afcl.data.errors import FLAGS, MISSING, excerpt, fail

Labels: TypeAlias = tuple[Any, ...]


def from_frames(
    tables: Iterable[Any],
) -> tuple[list[Floats], tuple[str, ...] | None]:
    """Turn arrays, pandas or Polars frames into arrays with the same columns.

    Parameters
    ----------
    tables : sequence of array-like of shape (n_samples, n_features) or data frames
        One table per client. Frames are aligned by name to the order of the first;
        arrays must have equal width.

    Returns
    -------
    arrays : list of ndarray of shape (n_samples, n_features)
        float64; missing values are NaN and are not checked here.
    names : tuple of str or None
        The columns; None if the tables do not name them (arrays, or frames whose
        columns are numbered).

    Examples
    --------
    >>> arrays, names = from_frames([[[1, 2]], [[3, 4], [5, 6]]])
    >>> arrays[1].shape, names
    ((2, 2), None)
    """
    tables = list(tables)
    if not tables:
        raise fail("no tables given; pass one array or data frame per client")
    labels = [_labels(table, i) for i, table in enumerate(tables, 1)]
    order = _common_order(labels)
    arrays = [
        _from_array(table, i) if order is None else _from_frame(table, order, i)
        for i, table in enumerate(tables, 1)
    ]
    _check_widths(arrays)
    if order is None or not all(isinstance(label, str) for label in order):
        return arrays, None
    return arrays, tuple(str(label) for label in order)


def with_lacking(tables: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Return frames that all have the columns which two of them have, and notes.

    A column that a frame lacks has no value in any of its rows; one that a single frame
    has is left out. Tables that are not all frames with named columns stay as they are.

    Examples
    --------
    >>> import polars as pl
    >>> one, other = pl.DataFrame({"a": [1.0], "b": [2.0]}), pl.DataFrame({"a": [3.0]})
    >>> frames, notes = with_lacking([one, other, one])
    >>> frames[1].columns, notes
    (['a', 'b'], ["table 2 lacks the column 'b'"])
    """
    frames = list(tables)
    if not all(hasattr(table, "columns") for table in frames):
        return frames, []
    if any(getattr(table, "streamed", False) for table in frames):
        return frames, []
    labels = [_labels(table, i) or () for i, table in enumerate(frames, 1)]
    every = dict.fromkeys(label for have in labels for label in have)
    if all(len(have) == len(every) for have in labels):
        return frames, []
    if not all(isinstance(label, str) for label in every):
        return frames, []
    common = [c for c in every if sum(c in have for have in labels) >= 2]
    alone = {c: i for c in every for i, have in enumerate(labels, 1) if c in have}
    notes = [
        f"column {c!r} left out: only table {alone[c]} has it"
        for c in every
        if c not in common
    ]
    notes += [
        f"table {i} lacks the column {c!r}"
        for i, have in enumerate(labels, 1)
        for c in common
        if c not in have
    ]
    return [widened(frame, common) for frame in frames], notes


def widened(frame: Any, columns: Sequence[str]) -> Any:
    """Return these columns of a frame of pandas or Polars, empty where it lacks one."""
    if hasattr(frame, "reindex"):
        return frame.reindex(columns=list(columns))
    empty = np.full(len(frame), np.nan)
    lacking = {c: empty for c in columns if c not in frame.columns}
    widened = frame.with_columns(**lacking) if lacking else frame
    return widened.select(columns)


def check_labels(table: Any, number: int = 1) -> None:
    """Refuse a frame in which two columns are called the same."""
    if not getattr(table, "streamed", False):
        _labels(table, number)


def date_columns(table: Any) -> list[str]:
    """Return the columns of a frame that are dates, times or lengths of time."""
    if getattr(table, "streamed", False):
        return []
    return [str(c) for c in getattr(table, "columns", ()) if _of_dates(table[c])]


def _of_dates(column: Any) -> bool:
    kind = str(column.dtype).lower()
    if kind == "object":
        valued = (cell for cell in column.to_numpy() if cell is not None)
        return isinstance(next(valued, None), date)
    return kind.startswith(("date", "time", "dur"))


def cells_of(column: Any) -> AnyArray:
    """Return the cells of a frame's column; times of a zone are those of Greenwich."""
    if getattr(column.dtype, "tz", None) is not None:  # of pandas: Polars does it
        zoned: AnyArray = column.to_numpy(dtype="datetime64[ms]")
        return zoned
    cells: AnyArray = column.to_numpy()
    return cells


def _labels(table: Any, number: int) -> Labels | None:
    """Return a frame's column labels, None for an array."""
    if not hasattr(table, "columns"):
        return None
    labels = tuple(table.columns)
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
        raise fail(
            f"table {number}: column {twice[0]!r} occurs twice; rename one of them"
        )
    return labels


def _common_order(labels: Sequence[Labels | None]) -> Labels | None:
    """Return the labels of the first frame, None where tables go by position."""
    frames = {i: have for i, have in enumerate(labels, 1) if have is not None}
    named = [i for i, have in frames.items() if any(isinstance(c, str) for c in have)]
    if len(frames) < len(labels):
        if named:
            bare = next(i for i, have in enumerate(labels, 1) if have is None)
            raise fail(
                f"table {named[0]} names its columns and table {bare} is a bare array; "
                "pass frames only, or arrays only"
            )
        return None
    first = frames[1]
    for i, have in frames.items():
        _check_same(first, have, i)
    return first


def _check_same(first: Labels, have: Labels, number: int) -> None:
    """Refuse a frame whose set of columns differs from the first one's."""
    for who, lacks in (
        (number, [c for c in first if c not in have]),
        (1, [c for c in have if c not in first]),
    ):
        if lacks:
            other = 1 if who == number else number
            raise fail(
                f"table {who} lacks the column {lacks[0]!r} that table {other} has; "
                "give every table the same columns, or the estimator missing='impute'"
            )


def _check_widths(arrays: Sequence[Floats]) -> None:
    width = arrays[0].shape[1]
    for i, array in enumerate(arrays, 1):
        if array.shape[1] == 0:
            raise fail(f"table {i} has no columns; pass rows with at least one number")
        if array.shape[1] != width:
            raise fail(
                f"table {i} has {array.shape[1]} columns and table 1 has {width}; "
                "give every table the same columns"
            )


def _from_frame(frame: Any, order: Labels, number: int) -> Floats:
    """Take the columns of a frame by name."""
    values = np.empty((len(frame), len(order)))
    for j, label in enumerate(order):
        values[:, j] = column_of(cells_of(frame[label]), number, label)
    return values


def _from_array(table: Any, number: int) -> Floats:
    """Take the columns of an array, or of a frame that numbers them, by position."""
    try:
        raw: AnyArray = np.asarray(table)
    except ValueError:
        raise fail(
            f"table {number} has rows of different lengths; make them equal"
        ) from None
    if raw.ndim != 2:
        raise fail(
            f"table {number} is an array of {raw.ndim} dimension(s), not 2; pass one "
            "table of rows and columns per client"
        )
    if raw.dtype.kind in "biuf":
        return np.ascontiguousarray(raw, dtype=np.float64)
    values = np.empty(raw.shape)
    for j in range(raw.shape[1]):
        values[:, j] = column_of(raw[:, j], number, j)
    return values


def column_of(raw: AnyArray, number: int, label: object) -> Floats:
    """Return one column as numbers, NaN where there is no value.

    `number` is that of its table, for errors.
    """
    if raw.dtype.kind in "biuf":
        return raw.astype(np.float64)
    if raw.dtype.kind in "mM":  # dates and times, in days
        days = raw.astype(f"{raw.dtype.kind}8[ms]").astype(np.float64) / DAY
        return np.where(np.isnat(raw), np.nan, days)
    values = np.empty(raw.shape[0])
    for row, cell in enumerate(raw):
        try:
            values[row] = _number(cell)
        except (TypeError, ValueError):
            raise fail(
                f"table {number}: column {label!r}, row {row + 1} is {excerpt(cell)}, "
                "not a number; correct it or leave the column out"
            ) from None
    return values


def is_number(cell: object) -> bool:
    """Whether a cell is a number, or has no value."""
    try:
        _number(cell)
    except (TypeError, ValueError):
        return False
    return True


def _number(cell: object) -> float:
    """Return a cell as a number; raises TypeError or ValueError if it is none."""
    if cell is None or type(cell).__name__ == "NAType":
        return float("nan")
    if isinstance(cell, str):
        word = cell.strip().lower()
        return float("nan") if word in MISSING else float(FLAGS.get(word, word))
    if isinstance(cell, Real | Decimal | np.bool_):
        return float(cell)
    if isinstance(cell, date):
        return _days(cell)
    raise TypeError


def _days(cell: date) -> float:
    """Return a date as days since 1970; one of pandas that is none is no value."""
    if cell != cell:
        return float("nan")
    if not isinstance(cell, datetime):
        cell = datetime(cell.year, cell.month, cell.day)
    if cell.tzinfo is None:
        cell = cell.replace(tzinfo=UTC)
    return cell.timestamp() * 1000 / DAY

# SPDX-License-Identifier: Apache-2.0
"""Frames with numbers and categories, as tables of numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.data.cells import days
from afcl.data.date_parts import Dates, part_values, with_parts
from afcl.data.encoding import UnknownLevel, encoded
from afcl.data.errors import FLAGS, MISSING, excerpt, fail, listed, without_levels
from afcl.data.features import (
    STRAY,
    Embedding,
    Feature,
    agree,
    ordered_feature,
    parts_of_dates,
    texts_of,
)
from afcl.data.frames import cells_of, column_of, date_columns, is_number
from afcl.data.spelling import by_column

#: What declares an order, and dates, as messages call it.
ORDINAL, DATES = "ordinal=", "dates="
#: Texts that are looked at, whether they are dates.
LOOKED_AT = 100


def rows_of(frame: Any, embedding: Embedding, number: int = 1) -> Floats:
    """Return a frame's rows as numbers; NaN where there is no value.

    `number` is that of the table, for errors. A level that is not known is none, and
    refused if levels have an order.
    """
    lacking = [c for c in embedding.columns if c not in frame.columns]
    if lacking:
        raise fail(f"table {number} lacks the column {listed(lacking)}")
    known = {feature.name: feature for feature in embedding.features}
    parts = []
    for column in embedding.columns:
        if column in known:
            parts.append(_encoded(frame, known[column], number))
        elif column in embedding.dates:
            parts.append(_days(frame, column, number)[:, None])
        else:
            parts.append(column_of(cells_of(frame[column]), number, column)[:, None])
    return np.concatenate(parts, axis=1)


def _days(frame: Any, column: str, number: int) -> Floats:
    """Return a column of dates, or of texts that are dates, as days since 1970."""
    import polars as pl

    raw = cells_of(frame[column])
    if raw.dtype.kind == "O" or raw.dtype.kind == "U":
        cells = raw.tolist()
        if any(isinstance(cell, str) for cell in cells):
            series = pl.Series(column, _texts(frame, column), dtype=pl.String)
            values, odd = days(series)
            if odd is not None:
                row = int(np.argmax(odd))
                raise fail(
                    f"table {number}: column {column!r}, row {row + 1} is "
                    f"{excerpt(cells[row])}, not a date; write 2026-11-30 or "
                    "30.11.2026, or leave the column out"
                )
            return values
    elif raw.dtype.kind in "biuf" and not np.isnan(raw.astype(np.float64)).all():
        raise fail(
            f"table {number}: column {column!r} holds numbers, not dates; correct it, "
            f"or leave it out of {DATES}"
        )
    return column_of(raw, number, column)


def _encoded(frame: Any, feature: Feature, number: int) -> Floats:
    if feature.parts:
        return part_values(_days(frame, feature.name, number), feature.levels)
    try:
        return encoded(_texts(frame, feature.name, feature.levels), feature)
    except UnknownLevel as odd:
        raise fail(
            f"table {number}: column {feature.name!r}, row {odd.row + 1} is "
            f"{excerpt(odd.cell)}, which is none of {'<'.join(feature.levels)}; "
            f"correct it, or give it a place with {ORDINAL}"
        ) from None


def has_texts(table: Any) -> bool:
    """Whether a table is a frame with a column that is not of numbers.

    Columns whose type says so are categories, also if they hold numbers, and so are
    those of booleans. A few cells
    that are none make no column of texts: they are refused as odd numbers. Levels that
    have an order are none, whatever they are, nor are dates.
    """
    return is_frame(table) and bool(
        date_columns(table) or _text_columns(table) or _own_orders(table)
    )


def is_frame(table: Any) -> bool:
    """Whether a table is a data frame in memory."""
    return hasattr(table, "columns") and not getattr(table, "streamed", False)


def embedding_of(
    frames: Sequence[Any],
    least: int,
    owners: Ints | None = None,
    ordinal: Mapping[str, Sequence[Any]] | None = None,
    dates: Dates | None = None,
) -> tuple[Embedding, list[str]]:
    """Settle how these frames become tables: their categories, and the levels of each.

    Parameters
    ----------
    frames : sequence of data frames
        One a client, with the same columns.
    least : int
        Rows of a level that a client needs to name it.
    owners : ndarray of int, optional
        Whose the rows of a single frame are.
    ordinal : mapping from str to sequence, optional
        Columns whose levels have an order, and these. Ordered categoricals of pandas
        have one by themselves.
    dates : sequence of str, or mapping from str to sequence of str, optional
        Columns of dates, with the parts of each that count; without any it is a number
        of days, as every column is whose type says that it holds dates.

    Returns
    -------
    embedding : Embedding
    notes : list of str
        What was left out and why.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"size": [1.5, 2.5], "colour": ["red", "blue"]})
    >>> embedding_of([frame], least=1)[0].names
    ('size', 'colour=blue', 'colour=red')
    """
    texts = {name for frame in frames for name in _text_columns(frame)}
    order = [str(column) for column in frames[0].columns]
    settled = _ordered(frames, by_column(ORDINAL, ordinal or {}, order))
    declared = by_column(DATES, with_parts(dates), order)
    both = sorted(settled.keys() & declared.keys())
    if both:
        raise fail(f"{ORDINAL} and {DATES} both name {both[0]!r}; drop one")
    settled |= parts_of_dates(DATES, declared)
    in_days = {name for frame in frames for name in date_columns(frame)} | {*declared}
    features, notes, kept = [], [], []
    for column in order:
        if column in settled:
            features.append(settled[column])
        elif column in texts - in_days:
            cells = [_texts(frame, column) for frame in frames]
            if owners is not None:
                cells = _by_owner(cells[0], owners)
            feature, remarks = agree(column, [texts_of(each) for each in cells], least)
            if feature is None:
                notes += _left_out(column, cells) or remarks
                continue
            notes += remarks
            features.append(feature)
        kept.append(column)
    if not kept:
        raise fail("no column is of numbers or categories; pass some that are")
    left = tuple(c for c in kept if c in in_days and c not in settled)
    return Embedding(tuple(kept), tuple(features), left), notes


def _left_out(column: str, cells: Sequence[Sequence[str | None]]) -> list[str]:
    """Say so if texts that are no kinds of rows are dates."""
    import polars as pl

    some = [cell for own in cells for cell in own if cell is not None][:LOOKED_AT]
    if not some or days(pl.Series(column, some, dtype=pl.String))[1] is not None:
        return []
    how = f"{DATES}[{column!r}] counts its days"
    return [f"column {column!r} left out: dates; {how}"]


def _ordered(
    frames: Sequence[Any], declared: Mapping[str, Sequence[Any]]
) -> dict[str, Feature]:
    """Return the columns whose levels have an order: declared, or the frames' own."""
    found = {
        name: ordered_feature(ORDINAL, name, given) for name, given in declared.items()
    }
    own: dict[str, Sequence[Any]] = {}
    for number, frame in enumerate(frames, 1):
        for name, order in _own_orders(frame).items():
            if own.setdefault(name, order) != order and name not in found:
                raise fail(
                    f"table {number} has other levels of {name!r} than a table before, "
                    f"or another order; say which with {ORDINAL}"
                )
    for name, levels in own.items():
        if name not in found and len(levels) > 1:
            found[name] = ordered_feature(ORDINAL, name, levels)
    return found


def _own_orders(frame: Any) -> dict[str, list[str]]:
    """Return the levels of the ordered categoricals of a pandas frame."""
    found = {}
    for column in frame.columns:
        # A name that occurs twice stands for a frame, which has no kind.
        kind = getattr(frame[column], "dtype", None)
        if kind is not None and getattr(kind, "ordered", False):
            found[str(column)] = [str(level) for level in kind.categories]
    return found


def _by_owner(cells: list[str | None], owners: Ints) -> list[list[str | None]]:
    held: list[list[str | None]] = [[] for _ in range(int(owners.max()) + 1)]
    for cell, owner in zip(cells, owners.tolist(), strict=True):
        held[owner].append(cell)
    return held


def _text_columns(frame: Any) -> list[str]:
    return [
        str(column)
        for column in frame.columns
        if _is_declared(frame[column]) or _is_text(frame[column].to_numpy())
    ]


def _is_declared(column: Any) -> bool:
    """Whether pandas or Polars says that a column is of categories, or booleans."""
    return str(column.dtype).lower().startswith(("categor", "enum", "bool"))


def _is_text(cells: Any) -> bool:
    """Whether more than a few of the cells that have a value are no numbers."""
    if cells.dtype.kind in "biufMm":
        return False
    valued = [cell for cell in cells.tolist() if not _is_missing(cell)]
    if valued and all(map(_is_flag, valued)):
        return True
    odd = sum(isinstance(cell, str) and not is_number(cell) for cell in valued)
    return odd > STRAY * len(valued)


def _is_flag(cell: Any) -> bool:
    """Whether a cell is true or false, or says so."""
    return isinstance(cell, bool) or (
        isinstance(cell, str) and cell.strip().lower() in FLAGS
    )


def _is_missing(cell: Any, absent: Collection[str] = MISSING) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in absent
    return cell is None or type(cell).__name__ == "NAType" or cell != cell


def _texts(frame: Any, column: str, levels: Collection[str] = ()) -> list[str | None]:
    """Return the cells of a column; what is declared as a level is a value."""
    cells, absent = frame[column].to_numpy().tolist(), without_levels(levels)
    return [None if _is_missing(cell, absent) else str(cell) for cell in cells]

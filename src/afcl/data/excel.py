# SPDX-License-Identifier: Apache-2.0
"""Excel workbooks: the first sheet, its first row being the names of the columns."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afcl.data.errors import empty, fail, unreadable
from afcl.data.texts import check_names, filled

if TYPE_CHECKING:
    import polars as pl

#: What the library says of columns without cells is nobody's concern.
_QUIET = logging.NullHandler()


def excel_names(path: Path) -> tuple[list[str], list[str]]:
    """Return the column names of a workbook, and a note on sheets that are not read."""
    sheets, frame = _sheet(path, n_rows=1, dtypes="string")
    if not frame.width:
        raise empty(path)
    names = [(name or "").strip() for name in frame.row(0)]
    check_names(names, path)
    notes = []
    if len(sheets) > 1:
        notes.append(f"{path}: sheet {sheets[0]!r} read, the first of {len(sheets)}")
    return filled(names), notes


def excel_frame(path: Path, as_text: bool = False) -> pl.DataFrame:
    """Return the rows of a workbook; columns of numbers as such, unless `as_text`."""
    names, _ = excel_names(path)
    # As text, numbers have 15 digits, as on the screen; a column of both is text.
    kinds: dict[str, Any] = {"dtypes": "string"} if as_text else {}
    _, frame = _sheet(path, skip_rows=1, schema_sample_rows=None, **kinds)
    return frame.rename(dict(zip(frame.columns, names, strict=True)))


def _sheet(path: Path, **options: Any) -> tuple[list[str], pl.DataFrame]:
    """Return the names of the sheets, and cells of the first."""
    try:
        import fastexcel
    except ModuleNotFoundError:
        raise fail(
            f"{path}: reading Excel needs fastexcel: pip install 'afcl[excel]', or "
            "save the sheet as .csv"
        ) from None
    logging.getLogger("fastexcel").addHandler(_QUIET)
    try:
        book: Any = fastexcel.read_excel(path)
        sheet = book.load_sheet(0, header_row=None, **options)
        return list(book.sheet_names), sheet.to_polars()
    except fastexcel.FastExcelError as error:
        raise unreadable(path, error) from None

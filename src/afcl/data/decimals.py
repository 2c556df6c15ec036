# SPDX-License-Identifier: Apache-2.0
"""What stands before the decimals of the numbers in a text file: a point or a comma.

Separators of thousands are never read. Where `1,234` may be 1.234 or 1234, it is asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from afcl.data.dialect import Written
from afcl.data.errors import MISSING, excerpt, fail
from afcl.data.texts import without_comments

if TYPE_CHECKING:
    import polars as pl

_POWER = r"(?:[eE][+-]?\d+)?"
#: Numbers with a decimal comma, perhaps points between thousands.
COMMA = rf"^[+-]?(?:\d*|\d{{1,3}}(?:\.\d{{3}})+),\d+{_POWER}$"
#: The same with a decimal point.
POINT = rf"^[+-]?(?:(?:\d+|\d{{1,3}}(?:,\d{{3}})+)\.\d*|\.\d+){_POWER}$"
#: Numbers with neither.
WHOLE = rf"^[+-]?\d+{_POWER}$"
#: Numbers whose only mark may be decimal or between thousands.
EITHER = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"
#: A number in quotation marks with a comma in it.
_QUOTED = re.compile(r'"\s*[+-]?[\d.]*,\d+\s*"')


@dataclass(frozen=True, slots=True)
class Vote:
    """A column of numbers that have decimals.

    Attributes
    ----------
    column, cell : str
        Its name, and its first number with decimals.
    is_sure : bool
        Whether its mark cannot be one between thousands.
    """

    column: str
    cell: str
    is_sure: bool


def decimal_in(text: str, written: Written, path: Path) -> str:
    """Return the mark before the decimals in a text; refuses what may mean two things.

    Parameters
    ----------
    text : str
        Whole lines from the top of the file.
    written : Written
        What is known already.
    path : Path
        The file, for error lines.
    """
    if not _is_worth_a_look(text, written.separator):
        return "."
    cells = _cells(text, written)
    comma, point = _votes(cells, written) if cells is not None else ([], [])
    if comma and point:
        raise fail(
            f"{path}: numbers are written with ',' (column {comma[0].column!r}: "
            f"{excerpt(comma[0].cell)}) and with '.' (column {point[0].column!r}: "
            f"{excerpt(point[0].cell)}); say which is right with --decimal"
        )
    votes = comma or point
    # With points, only where commas would be expected.
    doubtful = comma or written.separator == ";"
    if votes and doubtful and not any(vote.is_sure for vote in votes):
        mark = "," if comma else "."
        raise fail(
            f"{path}: column {votes[0].column!r} has {excerpt(votes[0].cell)}, with "
            f"decimals or in thousands; say --decimal {mark!r} if these are decimals, "
            f"and take {mark!r} out of the file if not"
        )
    return "," if comma else "."


def _is_worth_a_look(text: str, separator: str) -> bool:
    if separator == ",":
        return _QUOTED.search(text) is not None
    return "," in text or (separator == ";" and "." in text)


def _votes(table: pl.DataFrame, written: Written) -> tuple[list[Vote], list[Vote]]:
    """Return the columns of numbers with decimal commas, and those with points."""
    comma: list[Vote] = []
    point: list[Vote] = []
    words = [*MISSING, *(word.lower() for word in written.words)]
    for column in table:
        name, cells = str(column[0] or "").strip(), column[1:].drop_nulls()
        cells = cells.str.strip_chars()
        cells = cells.filter(~cells.str.to_lowercase().is_in(words))
        whole = int(cells.str.contains(WHOLE).sum())
        for votes, form in ((comma, COMMA), (point, POINT)):
            marked = cells.filter(cells.str.contains(form))
            if len(marked) and 2 * (len(marked) + whole) >= len(cells):
                sure = not marked.str.contains(EITHER).all()
                votes.append(Vote(name, marked[0], sure))
    return comma, point


def _cells(text: str, written: Written) -> pl.DataFrame | None:
    """Return the cells of a text; None if there is a fault, told when it is read."""
    import polars as pl

    table, _ = without_comments(text.encode(), written.comments)
    if written.old:
        table = table.replace(b"\r", b"\n")
    try:
        return pl.read_csv(
            BytesIO(table),
            has_header=False,
            infer_schema=False,
            separator=written.separator,
        )
    except pl.exceptions.PolarsError:
        return None


def looks_like_a_number(cell: object) -> bool:
    """Whether a cell is a number in some country, though not as it was read.

    Examples
    --------
    >>> [looks_like_a_number(c) for c in ("1.234,5", "1,234,567", "153,6", "Ann")]
    [True, True, True, False]
    """
    grouped = r"[+-]?\d{1,3}(?:([., '’])\d{3})(?:\1\d{3})*(?:[.,]\d+)?"
    forms = (COMMA, POINT, grouped)
    text = cell.strip() if isinstance(cell, str) else ""
    return any(re.fullmatch(form, text) for form in forms)

# SPDX-License-Identifier: Apache-2.0
"""How a text file is written, found out from its first megabytes.

The same bytes always give the same answer, whatever else is read. What can be meant in
two ways is refused, with the option that says which.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from afcl.data.decimals import decimal_in
from afcl.data.dialect import PLAIN_ENCODING, Dialect, Written, nothing
from afcl.data.errors import SEPARATORS, ending, fail
from afcl.data.texts import opened, without_comments

#: Bytes of a file that are looked at.
LOOKED_AT = 1 << 22
#: Characters that tell the separator,
FIRST = 1 << 18
#: and rows among them.
ROWS = 200
#: What may stand between cells, and what it is called in a note.
CANDIDATES = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'"}
# How well a separator fits; the larger number is the better fit.
#: Every row is as wide as the header.
ALL = 2
#: Most rows are.
MOST = 1
#: Neither.
FEW = 0


def written_in(path: Path, wish: Dialect) -> tuple[Written, list[str]]:
    """Find out how a text file is written, as far as it is not said.

    Parameters
    ----------
    path : Path
    wish : Dialect
        What is said of it.

    Returns
    -------
    written : Written
    notes : list of str
        What was found out that is not the plain default; one line, or none.
    """
    with opened(path) as file:
        head = file.read(LOOKED_AT)
    whole = len(head) < LOOKED_AT
    encoding = _plain(wish.encoding or _encoding(head, path))
    text = _decoded(head, encoding, whole)
    top = _top(text, whole)
    comments = _comments(top)
    table = _text_below(top, comments)
    usual = SEPARATORS[ending(path).removesuffix(".gz")]
    separator = wish.separator or _separator(table, usual, path)
    marked = comments > 0 and _is_header(_text_below(top, comments - 1), separator)
    comments -= marked
    words, values = nothing(wish.null)
    old = "\r" in text and "\n" not in text
    written = Written(separator, ".", encoding, words, values, comments, marked, old)
    decimal = wish.decimal or decimal_in(_whole_lines(text, whole), written, path)
    found = [] if wish.separator or separator == usual else [_between(separator)]
    if not wish.decimal and decimal != ".":
        found.append(f"{decimal!r} in numbers")
    notes = _note(path, found, "" if wish.encoding else encoding, comments)
    return replace(written, decimal=decimal), notes


def _between(separator: str) -> str:
    return f"{CANDIDATES[separator]} between cells"


def _note(path: Path, found: list[str], encoding: str, comments: int) -> list[str]:
    """Say what was taken, in one line if anything is worth it."""
    parts = [f"with {' and '.join(found)}"] if found else []
    if encoding not in ("", PLAIN_ENCODING):
        parts.append(f"as {encoding} text")
    if comments:
        lines = "1 line" if comments == 1 else f"{comments} lines"
        parts.append(f"without {lines} of comments on top")
    return [f"{path}: read {', '.join(parts)}"] if parts else []


# ------------------------------------------------------------------------- encoding


def _encoding(head: bytes, path: Path) -> str:
    """Return what the text is encoded in."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in head[:1024]:
        return _without_mark(head[:1024], path)
    for encoding in (PLAIN_ENCODING, "cp1252"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(head)
        except UnicodeDecodeError:
            continue
        return encoding
    raise fail(
        f"{path}: is neither UTF-8 nor Windows-1252 text; name what it is encoded in "
        "with --encoding"
    )


def _without_mark(head: bytes, path: Path) -> str:
    """Return which UTF-16 it is: most first or second bytes are zero."""
    for encoding, start in (("utf-16-le", 1), ("utf-16-be", 0)):
        zeros, others = head[start::2], head[1 - start :: 2]
        if 2 * zeros.count(0) > len(zeros) and not others.count(0):
            return encoding
    raise fail(
        f"{path}: is not text; save it as .csv, or name what it is encoded in with "
        "--encoding"
    )


def _plain(encoding: str) -> str:
    """Return `utf-8` under whatever name it was given."""
    known = codecs.lookup(encoding).name
    return PLAIN_ENCODING if known in ("utf-8", "utf-8-sig", "ascii") else encoding


def _decoded(head: bytes, encoding: str, whole: bool) -> str:
    decoder = codecs.getincrementaldecoder(encoding)()
    return decoder.decode(head, final=whole).removeprefix("\ufeff")


# ------------------------------------------------------------------ lines on top


def _top(text: str, whole: bool) -> str:
    """Return the first rows, without one that is cut off."""
    return _whole_lines(text[:FIRST], whole and len(text) <= FIRST)


def _whole_lines(text: str, whole: bool) -> str:
    if whole:
        return text
    cut = max(text.rfind("\n"), text.rfind("\r")) + 1
    return text[:cut] or text


def _text_below(text: str, comments: int) -> str:
    return without_comments(text.encode(), comments)[0].decode()


def _comments(text: str) -> int:
    """Count the lines on top that begin with `#`."""
    lines = re.split(r"[\r\n]+", text.lstrip("\r\n"))
    return next((i for i, line in enumerate(lines) if line[:1] != "#"), len(lines))


def _is_header(text: str, separator: str) -> bool:
    """Whether the first line, which begins with `#`, has the names of the columns.

    It has as many cells as the line below it, and that one has a number in it.
    """
    rows = _rows(text, separator, 2)
    if len(rows) < 2:
        return True
    return len(rows[0]) == len(rows[1]) and any(map(_is_number, rows[1]))


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", ".", 1))
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------------ separator


def _separator(text: str, usual: str, path: Path) -> str:
    """Return what stands between the cells of a table."""
    fits = {}
    for separator in CANDIDATES:
        widths = [len(row) for row in _rows(text, separator, ROWS)]
        if widths and widths[0] > 1:
            fits[separator] = _fit(widths)
    if not fits:
        _check_spaces(text, path)
        return usual
    best = [s for s, fit in fits.items() if fit == max(fits.values())]
    if len(best) == 1:
        return best[0]
    if max(fits.values()) < ALL and usual in best:
        return usual
    shown = " or ".join(CANDIDATES[s] for s in best)
    raise fail(f"{path}: {shown} may be between its cells; say which with --separator")


def _fit(widths: Sequence[int]) -> int:
    """Return how well the widths of rows agree with that of the header."""
    header, rows = widths[0], widths[1:]
    same = sum(width == header for width in rows)
    if same == len(rows):
        return ALL
    return MOST if 2 * same >= len(rows) and max(rows) <= header else FEW


def _rows(text: str, separator: str, count: int) -> list[list[str]]:
    """Return the first rows that are not blank, as far as they can be parted."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows: list[list[str]] = []
    try:
        rows.extend(islice(filter(None, lines), count))
    except csv.Error:
        pass
    return rows


def _check_spaces(text: str, path: Path) -> None:
    """Refuse a table whose cells are parted by white space."""
    rows = [line.split() for line in text.splitlines()[:ROWS] if line.strip()]
    widths = {len(row) for row in rows}
    numbers = all(_is_number(cell) for row in rows[1:] for cell in row)
    if len(rows) > 1 and len(widths) == 1 and widths != {1} and numbers:
        raise fail(
            f"{path}: spaces seem to be between its cells; say --separator space if it "
            "is a single one everywhere, or save it with commas"
        )

# SPDX-License-Identifier: Apache-2.0
"""Separated text, read a few megabytes at a time.

A file is cut into blocks of whole lines, and every block is parsed by itself, with the
line of the column names above it. So memory is bounded, whatever the size of the file,
and the cells are the same wherever the cuts fall. Whatever the file is encoded in, the
blocks are UTF-8.
"""

from __future__ import annotations

import codecs
import gzip
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from io import BufferedIOBase, BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from afcl.data.dialect import PLAIN_ENCODING, Written
from afcl.data.errors import MISSING, empty, ending, excerpt, fail, listed

if TYPE_CHECKING:
    import polars as pl


def _spelt(words: Iterable[str]) -> list[str]:
    """Return words as they may be spelt, as the parser wants them: letter by letter."""
    return sorted({s for w in words for s in (w, w.upper(), w.capitalize())})


#: Bytes of text that are parsed together.
BLOCK_BYTES = 1 << 22
#: Cells without a value.
NOTHING = _spelt(MISSING)
#: Longest row: beyond it, a quotation mark was opened and not closed.
LONGEST = 1 << 26


def text_names(path: Path, written: Written) -> list[str]:
    """Return the column names of a text file; unnamed ones begin with a NUL."""
    # Two blocks hold two lines, if the file does.
    first = b"".join(islice(_blocks(path, written), 2))
    frame = _parsed(written, first).head(2)
    names = [(name or "").strip() for name in frame.row(0)]
    check_names(names, path)
    _check_separator(frame, path, written)
    return filled(names)


def text_frames(
    path: Path, written: Written, floats: Collection[str] = ()
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a text file block by block, all cells as text.

    Columns of `floats` are numbers where the parser itself can read every cell; that is
    three times as quick, and the numbers are the same.
    """
    line, names, quick = b"", [""], bool(floats)
    for block in _blocks(path, written):
        if not line:
            cut = _first_line(block)
            line, block = block[:cut], block[cut:]
            header = _parsed(written, line).row(0)
            names = filled([(name or "").strip() for name in header])
        if not block:
            continue
        frame = _numbers(written, block, names, floats) if quick else None
        if frame is None:
            quick = False
            # The line of the names tells the parser how many cells a row has.
            frame = _parsed(written, line, block)[1:]
            frame = frame.rename(dict(zip(frame.columns, names, strict=True)))
        yield frame


def _numbers(
    written: Written, block: bytes, names: list[str], floats: Collection[str]
) -> pl.DataFrame | None:
    """Parse a block of rows whose cells are finite numbers; None if one is not."""
    import polars as pl

    with_comma = written.decimal == ","
    # The parser would take a point for a decimal comma, and thousands for ones.
    if with_comma and (written.separator == "," or b"." in block):
        return None
    schema = {name: pl.Float64 if name in floats else pl.String for name in names}
    try:
        frame = pl.read_csv(
            BytesIO(block),
            has_header=False,
            schema=schema,
            null_values=NOTHING + _spelt(written.words),
            separator=written.separator,
            decimal_comma=with_comma,
        )
    except pl.exceptions.PolarsError:
        return None
    infinite = frame.select(pl.col(pl.Float64).is_infinite().any())
    return None if any(infinite.row(0)) else frame


def filled(names: list[str]) -> list[str]:
    """Return the names, a NUL and the position for columns that have none."""
    return [name or f"\0{position}" for position, name in enumerate(names, 1)]


def count_lines(path: Path, written: Written) -> int:
    """Return the lines below the column names; quicker than parsing them."""
    lines = sum(
        block.count(b"\n") + (not block.endswith(b"\n"))
        for block in _blocks(path, written)
    )
    return lines - 1


def _parsed(written: Written, *texts: bytes) -> pl.DataFrame:
    import polars as pl

    return pl.read_csv(
        BytesIO(b"".join(texts)),
        has_header=False,
        infer_schema=False,
        separator=written.separator,
    )


# ------------------------------------------------------------------ bytes to blocks


def _blocks(path: Path, written: Written) -> Iterator[bytes]:
    """Yield a file's text in blocks of whole lines; refuses one without any text.

    Blank lines around the table are no rows; an old line ending is a line ending.
    """
    rest, started = b"", False
    with opened(path) as file:
        for read in _below(_in_utf8(file, written.encoding), written):
            if not started:
                read = (rest + read).lstrip(b"\r\n")
                rest = b""
                started = bool(read.strip())
            rest += read.replace(b"\r", b"\n") if written.old else read
            if not started:
                continue
            cut = _last_row(rest)
            if cut:
                yield rest[:cut]
                rest = rest[cut:]
            if len(rest) > LONGEST:
                raise fail(
                    f"{path}: a row is longer than {LONGEST >> 20} MB; close the "
                    "quotation mark that is open there"
                )
    rest = rest.rstrip(b"\r\n")
    if rest.strip():
        yield rest
    elif not started:
        raise empty(path)


def opened(path: Path) -> BufferedIOBase:
    """Open a text file for its bytes, unpacked."""
    if ending(path).endswith(".gz"):
        return gzip.GzipFile(path, "rb")
    return open(path, "rb")


def _in_utf8(file: BufferedIOBase, encoding: str) -> Iterator[bytes]:
    """Yield a file block by block, as UTF-8 without byte-order mark."""
    parts = iter(lambda: file.read(BLOCK_BYTES), b"")
    if encoding != PLAIN_ENCODING:
        parts = _encoded_anew(parts, encoding)
    first = b""
    for part in parts:
        first += part
        if len(first) >= len(codecs.BOM_UTF8):
            break
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from parts


def _encoded_anew(parts: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    for part in parts:
        yield decoder.decode(part).encode()
    yield decoder.decode(b"", final=True).encode()


def _below(parts: Iterator[bytes], written: Written) -> Iterator[bytes]:
    """Yield the text below the comments, the mark of the line of names taken off."""
    top, left = b"", written.comments
    if left or written.marked:
        for part in parts:
            top, left = without_comments(top + part, left)
            if not left and _is_bare(top, written.marked):
                break
        yield top.lstrip(b"#").lstrip(b" \t") if written.marked else top
    yield from parts


def without_comments(text: bytes, count: int) -> tuple[bytes, int]:
    """Take so many lines off the top, as far as they end; returns how many are left."""
    text = text.lstrip(b"\r\n")
    while count:
        ends = [end for end in (text.find(b"\n"), text.find(b"\r")) if end >= 0]
        if not ends:
            break
        text, count = text[min(ends) :].lstrip(b"\r\n"), count - 1
    return text, count


def _is_bare(text: bytes, marked: bool) -> bool:
    """Whether a line has begun with something other than its mark."""
    return bool(text.lstrip(b"#").lstrip(b" \t") if marked else text)


def _last_row(text: bytes) -> int:
    """Return where the last row that is followed by another line ends.

    A line ends outside quotation marks only. Blank lines at the end are kept back: the
    file may end with them.
    """
    cut = text.rfind(b"\n") + 1
    marks = text.count(b'"', 0, cut)
    while marks % 2:
        before = text.rfind(b"\n", 0, cut - 1) + 1
        marks -= text.count(b'"', before, cut)
        cut = before
    body = text[:cut].rstrip(b"\r\n")
    return text.find(b"\n", len(body)) + 1 if body else 0


def _first_line(text: bytes) -> int:
    """Return where the first line ends, outside quotation marks."""
    cut, marks = 0, 1
    while marks % 2:
        end = text.find(b"\n", cut) + 1
        if not end:
            return len(text)
        marks += text.count(b'"', cut, end) - (cut == 0)
        cut = end
    return cut


def check_names(names: list[str], path: Path) -> None:
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


def _check_separator(frame: pl.DataFrame, path: Path, written: Written) -> None:
    """Refuse a single column whose cells look like several."""
    cells = [str(row[0]) for row in frame.rows()]
    other = set(";|\t,") - {written.separator}
    if frame.width == 1 and any(all(s in cell for cell in cells) for s in other):
        raise fail(
            f"{path}: has the single column {excerpt(cells[0])}, so it is separated by "
            "something else; name it with --separator, or leave that option out"
        )


def _counted(n_names: int) -> list[list[str]]:
    """Return the headers of counted columns, which are names although numbers."""
    return [[str(i) for i in range(start, start + n_names)] for start in (0, 1)]


def _all_numbers(names: list[str]) -> bool:
    try:
        return bool([float(name) for name in names])
    except ValueError:
        return False

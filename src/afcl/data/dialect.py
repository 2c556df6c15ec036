# SPDX-License-Identifier: Apache-2.0
"""How the cells of a file are written: what one may say of it, and what is taken."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from afcl.data.errors import excerpt, fail

#: What separators are called where they cannot be typed.
SPELT = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    "\\t": "\t",
    "pipe": "|",
    "space": " ",
}
#: What stands between a column and a cell that means "no value" there.
IN_COLUMN = "="
#: What text is written in if nothing else is said.
PLAIN_ENCODING = "utf-8"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is known of the way files are written; the rest is found out, per file.

    Attributes
    ----------
    separator : str or None
        What stands between cells: one character, or `comma`, `semicolon`, `tab`,
        `pipe`, `space`.
    decimal : {".", ","} or None
        What stands before the decimals of a number.
    encoding : str or None
        Such as `utf-8`, `utf-16`, `cp1252`.
    null : tuple of str
        Further cells that mean "no value"; a number means every cell equal to it.
        `chol=0` means so in the column `chol` only.

    Examples
    --------
    >>> Dialect(separator="semicolon", decimal=",").checked().separator
    ';'
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    null: tuple[str, ...] = ()

    def checked(self) -> Dialect:
        """Return the same in plain characters, or refuse what cannot be."""
        separator = self.separator
        if separator is not None:
            separator = SPELT.get(separator.lower(), separator)
            if len(separator) != 1 or not separator.isascii() or separator in '"\r\n#':
                raise fail(
                    f"--separator {excerpt(self.separator)} is not one character; use "
                    "comma, semicolon, tab, pipe, space or a character such as ':'"
                )
        if self.decimal not in (None, ".", ","):
            raise fail(f"--decimal {excerpt(self.decimal)} is unknown; use '.' or ','")
        if self.encoding is not None:
            _check_encoding(self.encoding)
        nothing_in(self.null)
        return Dialect(separator, self.decimal, self.encoding, tuple(self.null))


#: Nothing is known: everything is found out.
UNKNOWN = Dialect()


def _check_encoding(name: str) -> None:
    try:
        codecs.getincrementaldecoder(name)().decode(b"", final=True)
        "".encode(name)
    except (LookupError, ValueError, TypeError):
        raise fail(
            f"--encoding {excerpt(name)} is unknown; use utf-8, utf-16, cp1252, "
            "latin-1 or another one that Python knows"
        ) from None


@dataclass(frozen=True, slots=True)
class Written:
    """How the cells of one file are written.

    Attributes
    ----------
    separator, decimal, encoding
        As in :class:`Dialect`, all of them known.
    words : tuple of str
        Further texts that mean "no value".
    values : tuple of float
        Numbers that mean "no value".
    own : mapping from str to tuple of str
        Cells that mean "no value" in one column, by its name.
    comments : int
        Lines above that of the column names.
    marked : bool
        Whether the line of the column names begins with `#`.
    old : bool
        Whether lines end as on old Macs, with a carriage return alone.
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = PLAIN_ENCODING
    words: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    comments: int = 0
    marked: bool = False
    old: bool = False
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def at(self, column: str) -> Written:
        """Return how the cells of one column are written."""
        if column not in self.own:
            return self
        words, values = nothing(self.own[column])
        return replace(
            self, words=self.words + words, values=self.values + values, own={}
        )


#: How text is written that nothing is said of.
USUAL = Written()


def nothing(null: Iterable[str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Tell texts that mean "no value" from numbers that do, in all columns.

    Examples
    --------
    >>> nothing(["k.A.", "-999", "chol=0"])
    (('k.A.',), (-999.0,))
    """
    words, values = [], []
    for cell in null:
        if IN_COLUMN in cell:
            continue
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            words.append(cell.strip())
        else:
            values.append(value)
    return tuple(words), tuple(values)


def nothing_in(null: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the cells that mean "no value" in one column, by its name.

    Examples
    --------
    >>> nothing_in(["-999", "chol=0", "chol=k.A."])
    {'chol': ('0', 'k.A.')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for each in null:
        name, mark, cell = (part.strip() for part in each.rpartition(IN_COLUMN))
        if not mark:
            continue
        if not name or not cell:
            raise fail(
                f"--null {excerpt(each)}: give a cell, such as -999, or COLUMN=CELL, "
                "such as chol=0"
            )
        found[name] = (*found.get(name, ()), cell)
    return found

# SPDX-License-Identifier: Apache-2.0
"""How the cells of a file are written: what one may say of it, and what is taken."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable
from dataclasses import dataclass

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


#: How text is written that nothing is said of.
USUAL = Written()


def nothing(null: Iterable[str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Tell texts that mean "no value" from numbers that do.

    Examples
    --------
    >>> nothing(["k.A.", "-999"])
    (('k.A.',), (-999.0,))
    """
    words, values = [], []
    for cell in null:
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            words.append(cell.strip())
        else:
            values.append(value)
    return tuple(words), tuple(values)

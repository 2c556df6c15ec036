# SPDX-License-Identifier: Apache-2.0
"""What files may be called and how faults are reported: in one line, with a remedy."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from afcl.exceptions import InputError

#: What is expected between the cells of text, by file ending, which `.gz` may follow.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ",", ".dat": ",", ".data": ","}
PARQUET = ".parquet"
EXCEL = ".xlsx"
#: Endings that can be read, longest first.
ENDINGS = (*(e + ".gz" for e in SEPARATORS), *SEPARATORS, PARQUET, EXCEL)
#: Cells of a text column (in lower case) that mean "no value".
MISSING = ("", ".", "?", "na", "n/a", "nan", "none", "null")
#: Cells of a text column (in lower case) that are booleans.
FLAGS = {"true": 1.0, "false": 0.0}
#: Longest excerpt of a cell in an error line.
EXCERPT = 40


def without_levels(levels: Collection[str]) -> list[str]:
    """Return the words that mean "no value" where these are levels.

    Examples
    --------
    >>> "none" in without_levels(["None", "some"]), "na" in without_levels(["None"])
    (False, True)
    """
    named = {level.strip().lower() for level in levels}
    return [word for word in MISSING if word not in named]


def fail(message: str) -> InputError:
    """Return an error whose message is one line, whatever the names in it hold."""
    return InputError(" ".join(message.splitlines()))


class NothingThere(InputError):
    """A file has no content at all: no names of columns, no rows."""


def empty(path: Path) -> NothingThere:
    """Return the error of a file without any content."""
    told = fail(
        f"{path}: the file is empty; put a header and rows into it, or leave the site "
        "out"
    )
    return NothingThere(str(told))


def unreadable(path: Path, error: BaseException) -> InputError:
    """Say in one line why a file could not be read."""
    if isinstance(error, OSError) and error.strerror:
        return fail(f"{path}: cannot be read ({error.strerror}); check the file")
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if "more fields" in reason:
        return fail(
            f"{path}: a row has more fields than the header; correct the row, quote "
            "the cells that contain the separator, or name it with --separator"
        )
    if isinstance(error, UnicodeError) or "utf-8" in reason:
        return fail(
            f"{path}: not all of it can be read as text in that encoding; name the "
            "right one, such as --encoding cp1252"
        )
    what = {PARQUET: "Parquet", EXCEL: "an Excel workbook"}.get(ending(path), "text")
    return fail(
        f"{path}: cannot be read ({reason}); check that it is {what} and save it anew"
    )


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


def drop_option(*names: str) -> str:
    r"""Return the option that leaves columns out, as one would type it.

    Examples
    --------
    >>> drop_option("age", "last, first")
    '--drop \'age,"last, first"\''
    """
    return naming("--drop", *names)


def naming(option: str, *names: str) -> str:
    """Return an option that takes a list of columns, as one would type it.

    Examples
    --------
    >>> naming("--category", "sex", "blood group")
    "--category 'sex,blood group'"
    """
    return f"{option} {shlex.quote(','.join(map(_in_list, names)))}"


def _in_list(name: str) -> str:
    """Return a name as it stands in a list parted by commas, quoted as in CSV."""
    if not set(name) & set(',"\r\n') and name == name.strip():
        return name
    return '"' + name.replace('"', '""') + '"'


def rows_in_words(count: int) -> str:
    """Return a number of rows in words."""
    return "1 row" if count == 1 else f"{count} rows"

# SPDX-License-Identifier: Apache-2.0
"""What files may be called and how faults are reported: in one line, with a remedy."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from afcl.exceptions import InputError

#: Separators by file ending; anything here may also end in `.gz`.
SEPARATORS = {".csv": ",", ".tsv": "\t"}
#: Endings that can be read, longest first.
ENDINGS = (".csv.gz", ".tsv.gz", ".csv", ".tsv", ".parquet")
#: Cells of a text column (in lower case) that mean "no value".
MISSING = ("", "?", "na", "n/a", "nan", "none", "null")
#: Cells of a text column (in lower case) that are booleans.
FLAGS = {"true": 1.0, "false": 0.0}
#: Longest excerpt of a cell in an error line.
EXCERPT = 40


def fail(message: str) -> InputError:
    """Return an error whose message is one line, whatever the names in it hold."""
    return InputError(" ".join(message.splitlines()))


def empty(path: Path) -> InputError:
    """Return the error of a file without any content."""
    return fail(
        f"{path}: the file is empty; put a header and rows into it, or leave the site "
        "out"
    )


def unreadable(path: Path, error: BaseException) -> InputError:
    """Say in one line why a file could not be read."""
    if isinstance(error, OSError) and error.strerror:
        return fail(f"{path}: cannot be read ({error.strerror}); check the file")
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if "more fields" in reason:
        return fail(
            f"{path}: a row has more fields than the header; correct the row, or quote "
            "the cells that contain the separator"
        )
    what = "Parquet" if ending(path) == ".parquet" else "UTF-8 text"
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


def drop_option(name: str) -> str:
    """Return the option that leaves a column out, as one would type it."""
    return f"--drop {shlex.quote(name)}"


def rows_in_words(count: int) -> str:
    """Return a number of rows in words."""
    return "1 row" if count == 1 else f"{count} rows"

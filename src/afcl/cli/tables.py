# SPDX-License-Identifier: Apache-2.0
"""Options of every command that reads tables, and what they come to."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from afcl.exceptions import InputError

Sites = Annotated[
    list[Path] | None,
    typer.Argument(
        help="One file per site (CSV and other text, Parquet, Excel), or folders with "
        "a file per site.",
        metavar="SITE",
        show_default=False,
    ),
]
Folders = Annotated[
    list[Path],
    typer.Option(
        "--site",
        help="A folder whose files are one site; repeat for more.",
        metavar="FOLDER",
    ),
]
Columns = Annotated[
    list[str],
    typer.Option(help="Use only these columns: a,b,c, or repeat.", metavar="NAMES"),
]
Drop = Annotated[
    list[str],
    typer.Option(help="Leave out these columns: a,b,c, or repeat.", metavar="NAMES"),
]
NumericOnly = Annotated[
    bool | None,
    typer.Option(
        "--numeric-only",
        help="Leave out every column that is not numeric at some site.",
        show_default=False,
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="Column that names the rows: never used or sent, only written beside the "
        "labels.",
        metavar="NAME",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        help="Between cells of text: comma, semicolon, tab, pipe, space or a "
        "character (found out).",
        metavar="TEXT",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Before decimals in text: '.' or ',' (found out).", metavar="."),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Of text: utf-8, utf-16, cp1252, … (found out).", metavar="NAME"),
]
Null = Annotated[
    list[str],
    typer.Option(
        help="Further cells that mean no value: -999,k.A., in one column chol=0, or "
        "repeat.",
        metavar="CELLS",
    ),
]
Category = Annotated[
    list[str],
    typer.Option(
        help="Columns that are categories although they look like numbers: a,b, or "
        "with all their levels a=red|blue. Texts are categories anyway.",
        metavar="NAMES",
    ),
]
Ordinal = Annotated[
    list[str],
    typer.Option(
        help="Columns whose levels have an order, from the lowest on: "
        "'severity=mild<moderate<severe'.",
        metavar="LEVELS",
    ),
]
Date = Annotated[
    list[str],
    typer.Option(
        help="Columns of dates, to count as days: a,b; or parts of them that count: "
        "'a=month|weekday|hour' (also year, days).",
        metavar="NAMES",
    ),
]
#: Options that are lists, parted by commas or repeated.
LISTS = ("columns", "drop", "null", "category", "ordinal", "date")


def items(option: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Read lists that are parted by commas; what holds a comma is quoted as in CSV.

    Examples
    --------
    >>> items("--drop", ["a, b", '"last, first"'])
    ('a', 'b', 'last, first')
    """
    found: list[str] = []
    for text in texts:
        try:
            for row in csv.reader([text], skipinitialspace=True, strict=True):
                found += [item.strip() for item in row if item.strip()]
        except csv.Error:
            raise InputError(
                f"{option} {text}: cannot be read as a list; write a,b,c and put what "
                'has a comma or a quotation mark into "…"'
            ) from None
    return tuple(found)


def quoted(text: str) -> str:
    """Return a text as :func:`items` reads it back whole, whatever is in it.

    Examples
    --------
    >>> items("--drop", [quoted('last, "first"')])
    ('last, "first"',)
    """
    return '"' + text.replace('"', '""') + '"'


def split_lists(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as they were typed, lists as such."""
    return {
        name: items(f"--{name}", value) if name in LISTS else value
        for name, value in typed.items()
    }


def categories(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return declared categories and their levels, none where these are found.

    Dates and their parts are written in the same way.

    Examples
    --------
    >>> categories(["sex=male|female", "region"])
    {'sex': ('male', 'female'), 'region': ()}
    """
    declared = {}
    for text in texts:
        name, _, levels = text.partition("=")
        named = tuple(level.strip() for level in levels.split("|") if level.strip())
        declared[name.strip()] = named
    return declared


def ordinals(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return declared columns of ordered levels, the lowest first.

    Examples
    --------
    >>> ordinals(["severity = mild<moderate < severe"])
    {'severity': ('mild', 'moderate', 'severe')}
    """
    declared = {}
    for text in texts:
        name, _, levels = text.partition("=")
        declared[name.strip()] = tuple(level.strip() for level in levels.split("<"))
    return declared


def table_options(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what :func:`afcl.data.read_sites` is to be told.

    Parameters
    ----------
    chosen : mapping
        `columns`, `drop`, `missing`, `numeric_only`, `id`, `category`, `ordinal`,
        `date`, `separator`, `decimal`, `encoding`, `null`; what is not there is as
        usual.
    """
    from afcl.data.dialect import Dialect

    return {
        "columns": chosen.get("columns") or None,
        "drop": chosen.get("drop", ()),
        "missing": chosen.get("missing", "error"),
        "numeric_only": bool(chosen.get("numeric_only")),
        "id_column": chosen.get("id"),
        "categories": categories(chosen.get("category", ())),
        "ordinal": ordinals(chosen.get("ordinal", ())),
        "dates": categories(chosen.get("date", ())),
        "dialect": Dialect(
            chosen.get("separator"),
            chosen.get("decimal"),
            chosen.get("encoding"),
            tuple(chosen.get("null", ())),
        ),
    }

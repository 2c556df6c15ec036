# SPDX-License-Identifier: Apache-2.0
"""``afcl check``: what is in the files, and what looks suspicious. Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from afcl.cli.tables import (
    Category,
    Columns,
    Date,
    Decimal,
    Drop,
    Encoding,
    Folders,
    IdColumn,
    Null,
    NumericOnly,
    Ordinal,
    Separator,
    Sites,
    split_lists,
    table_options,
)

if TYPE_CHECKING:
    from afcl.data.contents import ColumnContent, SiteContent
    from afcl.data.suspicion import Suspicion

#: Longest line, but for long names.
WIDTH = 100
#: Columns of the table, and how wide each is; the first two are texts.
TABLE = (
    ("column", 24),
    ("kind", 30),
    ("gaps", 6),
    ("smallest", 10),
    ("median", 10),
    ("largest", 10),
)
#: Columns of a site that are shown; those with findings are shown anyway.
COLUMNS_SHOWN = 30
#: Sites that are shown; those with findings are shown anyway.
SITES_SHOWN = 12

#: As `afcl run` has it.
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse data that look suspicious (afcl check)."),
]


def check(
    context: typer.Context,
    sites: Sites = None,
    folders: Folders = [],
    columns: Columns = [],
    drop: Drop = [],
    numeric_only: NumericOnly = None,
    id: IdColumn = None,
    category: Category = [],
    ordinal: Ordinal = [],
    date: Date = [],
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    null: Null = [],
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 1 if 'afcl run' would refuse.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON.")
    ] = False,
) -> None:
    """Show what is in the files and what looks suspicious; write nothing.

    Ids and counters, sentinels such as -999, wild values, codes that are taken for
    numbers, a site in other units, rows that are there twice.
    """
    from afcl.data.contents import site_contents
    from afcl.data.places import site_places
    from afcl.data.sites import open_sites
    from afcl.data.suspicions import find_suspicions

    typed = split_lists(context.params)
    # Rows with gaps stay, and so do columns that a site lacks.
    options = table_options({**typed, "missing": "available"})
    places, notes = site_places(sites or [], folders)
    read = open_sites(places, **options, min_rows=0, whole="afcl check")
    found = find_suspicions(read, read.dates)
    contents = site_contents(read, read.dates)
    notes = [*notes, *read.notes]
    if as_json:
        typer.echo(_as_json(contents, notes, found))
    else:
        for line in in_words(contents, notes, found):
            typer.echo(line)
    if strict and any(each.is_serious for each in found):
        raise typer.Exit(1)


def refuse(found: Sequence[Suspicion]) -> None:
    """End the command if there is something serious, in one line."""
    from afcl.exceptions import InputError

    serious = [each for each in found if each.is_serious]
    if serious:
        more = len(serious) - 1
        others = f"; {more} more, 'afcl check' shows all" if more else ""
        raise InputError(f"{serious[0].text}{others} (refused by --strict)")


def _as_json(
    contents: Sequence[SiteContent], notes: Sequence[str], found: Sequence[Suspicion]
) -> str:
    content = {
        "sites": [asdict(site) for site in contents],
        "notes": list(notes),
        "suspicions": [asdict(each) for each in found],
    }
    return json.dumps(content, indent=2, allow_nan=False)


def in_words(
    contents: Sequence[SiteContent], notes: Sequence[str], found: Sequence[Suspicion]
) -> Iterable[str]:
    """Yield the lines for people."""
    odd_sites = {each.site for each in found}
    odd_columns = {each.column for each in found}
    hidden = 0
    for place, site in enumerate(contents):
        if place < SITES_SHOWN or site.name in odd_sites:
            yield from _site_table(site, odd_columns)
        else:
            hidden += 1
    if hidden:
        yield f"… and {hidden:,} more sites; --json has all"
        yield ""
    for note in notes:
        yield from _wrapped(f"note: {note}")
    if notes:
        yield ""
    yield from _findings(found)


def _findings(found: Sequence[Suspicion]) -> Iterable[str]:
    serious = [each for each in found if each.is_serious]
    if not serious:
        yield "Nothing suspicious."
    else:
        yield f"{len(serious)} suspicious:"
        yield from (line for each in serious for line in _wrapped(f"- {each.text}"))
    minor = [each for each in found if not each.is_serious]
    if minor:
        yield f"{len(minor)} to think about:"
        yield from (line for each in minor for line in _wrapped(f"- {each.text}"))


def _wrapped(text: str) -> list[str]:
    return wrap(
        text,
        WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _site_table(site: SiteContent, odd: set[str | None]) -> Iterable[str]:
    yield f"{site.name}: {site.rows:,} {'row' if site.rows == 1 else 'rows'}"
    yield _line([name for name, _ in TABLE])
    shown = [
        column
        for place, column in enumerate(site.columns)
        if place < COLUMNS_SHOWN or column.name in odd
    ]
    yield from (_line(_cells(column)) for column in shown)
    hidden = len(site.columns) - len(shown)
    if hidden:
        yield f"… and {hidden:,} more columns; --json has all"
    yield ""


def _cells(column: ColumnContent) -> list[str]:
    kind = column.kind
    if column.levels is not None:
        kind = f"{kind}: {', '.join(column.levels)}"
    gaps = "" if column.gaps is None else _percent(column.gaps)
    edges = (column.smallest, column.median, column.largest)
    return [column.name, kind, gaps, *map(_value, edges)]


def _percent(share: float) -> str:
    """Return a share of cells; a few are never none, nor nearly all all.

    Examples
    --------
    >>> _percent(0.0), _percent(0.0004), _percent(0.254), _percent(0.9999)
    ('', '<1 %', '25 %', '99 %')
    """
    if share == 0:
        return ""
    if share < 0.01:
        return "<1 %"
    return f"{100 if share == 1 else min(99, round(100 * share))} %"


def _value(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    text = f"{value:.6g}"
    # Without its exponent a number would be another one.
    return text if len(text) <= TABLE[-1][1] else f"{value:.3g}"


def _line(cells: Sequence[str]) -> str:
    from afcl.texts import plain

    parts = []
    for place, (cell, (_, width)) in enumerate(zip(cells, TABLE, strict=True)):
        text = plain(cell, width)
        parts.append(text.ljust(width) if place < 2 else text.rjust(width))
    return "  ".join(parts).rstrip()

# SPDX-License-Identifier: Apache-2.0
"""Figures in prose and the tables they come from: reading both, comparing them.

A figure is marked with its source, which the rendered page does not show:

    <!-- from: paper-tables#honest-sc :: afcl :: rank -->2.19<!-- /from -->

Page and table (the name of a `bench:` block, or the anchor of the heading above it),
the row by its first cells (several are separated by commas), the column by its header.
`min`, `max` and `mean` stand for that of the first figure of all rows or columns, and
`count TEXT` for in how many rows a column is TEXT. What stands between the marks is the
figure alone; several cells of one source need several marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

#: A number as pages write it: 0.875, .875, −.91, 8,402, 20.
NUMBER = r"[−+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?"
MARK = re.compile(r"<!-- from: (?P<source>.*?) -->(?P<figure>.*?)<!-- /from -->", re.S)
#: What has to be marked in prose: numbers with a decimal point, and counts.
QUOTED = re.compile(r"(?<![\w.,/])[−-]?\d*\.\d+(?![\w.]*\w)|\b\d+ of \d+\b")

AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "min": min,
    "max": max,
    "mean": lambda found: sum(found) / len(found),
}


class Stale(Exception):
    """A figure that its source does not have, or a source that is not there."""


@dataclass(frozen=True)
class Grid:
    """A Markdown table: its header and its rows, as texts without emphasis."""

    header: list[str]
    rows: list[list[str]]


def marks(text: str) -> list[tuple[str, str]]:
    """Return the marked figures of a page: source and text."""
    return [
        (mark["source"].strip(), mark["figure"].strip()) for mark in MARK.finditer(text)
    ]


def unmarked(prose: str, allowed: frozenset[str] = frozenset()) -> list[str]:
    """Return the figures of prose that say no source."""
    plain = re.sub(r"^```.*?^```", "", MARK.sub("", prose), flags=re.S | re.M)
    plain = re.sub(r"<!--.*?-->|`[^`\n]*`|\]\([^)]*\)", "", plain, flags=re.S)
    return [found for found in QUOTED.findall(plain) if found not in allowed]


def table_of(page: str, name: str) -> Grid:
    """Return the table of a block or under a heading."""
    block = re.search(
        rf"<!-- bench: {re.escape(name)} -->(.*?)<!-- /bench -->", page, re.S
    )
    below = block[1] if block else _below(page, name)
    lines = re.search(r"(?:^\|.*\n?)+", below, re.M)
    if lines is None:
        raise Stale(f"there is no table {name!r}")
    header, _, *rows = [_cells(line) for line in lines[0].strip().splitlines()]
    return Grid(header, rows)


def _below(page: str, anchor: str) -> str:
    for heading in re.finditer(r"^#+ +(.*)$", page, re.M):
        plain = re.sub(r"[^\w\s-]", "", heading[1].lower()).strip()
        if re.sub(r"\s+", "-", plain) == anchor:
            return page[heading.end() :]
    raise Stale(f"there is neither a block nor a heading {anchor!r}")


def _cells(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
    return [cell.strip().replace("**", "").replace("`", "") for cell in cells]


def numbers(text: str) -> list[float]:
    """Return the numbers of a text, in their order."""
    found = [part for part in re.findall(NUMBER, text) if re.search(r"\d", part)]
    return [value(part) for part in found]


def value(text: str) -> float:
    """Return what a number as written is worth."""
    return float(text.replace(",", "").replace("−", "-"))


def cells_at(grid: Grid, row: str, column: str) -> list[str]:
    """Return the cells of a row and a column; an aggregate takes all there are."""
    keys = [key.strip() for key in row.split(",")]
    of_rows = row in AGGREGATES
    named = [r for r in grid.rows if r[0] == row]
    rows = named or [r for r in grid.rows if of_rows or r[: len(keys)] == keys]
    if not rows:
        raise Stale(f"there is no row {row!r}")
    if column in AGGREGATES:
        return rows[0][len(keys) :]
    wanted = [i for i, name in enumerate(grid.header) if name == column]
    if not wanted:
        raise Stale(f"there is no column {column!r}")
    return [r[i] for r in rows for i in wanted]


def check(figure: str, row: str, column: str, grid: Grid) -> None:
    """Raise Stale unless the table has the figure, at the precision it is quoted."""
    if row.startswith("count "):
        cells = cells_at(grid, "min", column)
        held = sum(cell == row.removeprefix("count ") for cell in cells)
        if figure not in (str(held), f"{held} of {len(cells)}"):
            raise Stale(f"it is {held} of {len(cells)}")
        return
    cells = cells_at(grid, row, column)
    if figure in cells:
        return
    quoted = re.fullmatch(NUMBER, figure)
    if quoted is None or not re.search(r"\d", figure):
        raise Stale(f"{figure!r} is neither a number nor what the table has: {cells}")
    aggregate = AGGREGATES.get(row) or AGGREGATES.get(column)
    found = [number for cell in cells for number in numbers(cell)]
    if aggregate is not None:
        found = [aggregate([numbers(cell)[0] for cell in cells if numbers(cell)])]
    decimals = len(figure.partition(".")[2])
    half = 0.5 * 10.0**-decimals + 1e-9
    if not any(abs(value(figure) - number) <= half for number in found):
        raise Stale(f"the table has {', '.join(cells)}")

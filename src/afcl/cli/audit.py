# SPDX-License-Identifier: Apache-2.0
"""``afcl audit``: what a server could recover of these files, level by level."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afcl.cli.run import in_order
from afcl.cli.settings import MISSING, bounds
from afcl.cli.tables import (
    SITES,
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
    split_lists,
    table_options,
)

if TYPE_CHECKING:
    from afcl.audit import Audit, LevelFinding

#: Columns of the table.
HEADER = (
    "level",
    "recovered",
    "shared",
    "nearest",
    "epsilon",
    "kB",
    "k",
    "SC",
    "ARI",
    "promise",
)
#: What they mean.
LEGEND = (
    "recovered: rows a server could name exactly; shared: rows whose value is known",
    "because five or more have it; nearest: from what was sent to the nearest row,",
    "1 is a typical distance between neighbours; epsilon: claimed (at least, shown by",
    "a canary); kB, k, SC: of an ordinary run; ARI: against the labels of 'summary'.",
)


Sites = Annotated[
    list[Path] | None, typer.Argument(help=SITES, metavar="SITE", show_default=False)
]
Levels = Annotated[
    list[str],
    typer.Option(help="A level to audit, such as 'grouped(5)'; repeat for more (all)."),
]
Bounds = Annotated[
    list[str],
    typer.Option(help="Public bounds, for 'dp': COLUMN=LOW:HIGH; all columns."),
]
Cohort = Annotated[
    int | None,
    typer.Option(help="Sites of a cohort at 'secure' (all, at least 3)."),
]
MinCell = Annotated[int, typer.Option(help="Smallest group of rows a site describes.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print everything that was found as JSON.")
]


def audit(
    context: typer.Context,
    sites: Sites = None,
    folders: Folders = [],
    privacy: Levels = [],
    rounds: Annotated[int, typer.Option(help="Rounds in which the server asks.")] = 30,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    ranges: Bounds = [],
    cohort: Cohort = None,
    min_cell: MinCell = 5,
    trials: Annotated[
        int, typer.Option(help="Trials of the canary test of 'dp'.")
    ] = 200,
    runs: Annotated[
        int, typer.Option(help="Runs on the same files that are compared.")
    ] = 3,
    columns: Columns = [],
    drop: Drop = [],
    numeric_only: NumericOnly = None,
    id: IdColumn = None,
    category: Category = [],
    ordinal: Ordinal = [],
    date: Date = [],
    missing: Annotated[str, typer.Option(help=MISSING)] = "error",
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    null: Null = [],
    as_json: AsJson = False,
) -> None:
    """Measure what an honest-but-curious server could recover of these rows.

    Runs every level on the files, keeps the bytes that would be sent, and attacks them.

    Nothing is sent anywhere. Exit code 1 if a level breaks its promise.
    """
    from afcl.audit import audit as run_audit
    from afcl.audit import default_levels
    from afcl.data import read_sites
    from afcl.data.places import site_places
    from afcl.privacy import parse_level

    public = bounds(ranges)
    n_sites = len(site_places(sites or [], folders)[0])
    levels = list(privacy) or default_levels(n_sites, public is not None)
    parsed = [parse_level(level) for level in levels]
    read = read_sites(
        sites or [],
        one_site=folders,
        **table_options(split_lists(context.params)),
        min_rows=max(min_cell, *(level.group for level in parsed)),
    )
    for note in read.notes:
        print(f"note: {note}", file=sys.stderr)
    with _status() as tell:
        found = run_audit(
            [table.values for table in read.tables],
            levels,
            rounds=rounds,
            seed=seed,
            scale="minmax" if public is None else in_order(public, read.columns),
            cohort=cohort,
            min_cell=min_cell,
            canary_trials=trials,
            runs=runs,
            names=[table.name for table in read.tables],
            tell=tell,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _show(found)
        if not privacy:
            for line in _left_out(n_sites, public is not None):
                typer.echo(line)
    if found.broken:
        raise typer.Exit(1)


def _left_out(n_sites: int, bounded: bool) -> Iterator[str]:
    """Say what was not audited, for want of sites or bounds."""
    from afcl.audit.ladder import SMALLEST_COHORT

    if n_sites < SMALLEST_COHORT:
        yield "'secure' was not audited: it needs at least three sites."
    if not bounded:
        yield "'dp' was not audited: give public bounds with --ranges COLUMN=LOW:HIGH."


# ------------------------------------------------------------------ words and tables


def _show(found: Audit) -> None:
    typer.echo(
        f"{found.rows:,} rows of {found.features} columns at {found.clients} "
        f"{'site' if found.clients == 1 else 'sites'}; the server asked for "
        f"{found.rounds} {'round' if found.rounds == 1 else 'rounds'}."
    )
    table = [_cells(level) for level in found.levels]
    if sys.stdout.isatty():
        _rich_table(table)
    else:
        _plain_table(table)
    for line in LEGEND:
        typer.echo(line)
    for level in found.levels:
        for reason in level.reasons:
            typer.echo(f"BROKEN {level.level}: {reason}")
        for note in level.notes:
            typer.echo(f"{level.level}: {note}")


def _cells(level: LevelFinding) -> tuple[str, ...]:
    epsilon = "-"
    if level.claimed is not None and level.measured is not None:
        epsilon = f"{level.claimed:g} ({level.measured:.1f})"
    return (
        level.level,
        _share(level.recovered),
        _share(level.shared),
        "-" if level.nearest is None else f"{level.nearest:.2f}",
        epsilon,
        f"{level.bytes / 1000:.0f}",
        str(level.clusters),
        f"{level.silhouette:.2f}",
        f"{level.ari:.2f}",
        "BROKEN" if level.broken else "kept" if level.promise else "none",
    )


def _share(value: float) -> str:
    """Return a share in per cent; nothing that is found is shown as 0."""
    return "0" if value == 0 else f"{max(100 * value, 0.1):.1f} %"


def _plain_table(table: list[tuple[str, ...]]) -> None:
    rows = [HEADER, *table]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        typer.echo("  ".join([first, *rest]).rstrip())


def _rich_table(table: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, padding=(0, 1, 0, 0))
    for number, name in enumerate(HEADER):
        side: Any = "right" if number else "left"
        shown.add_column(name, justify=side, no_wrap=True)
    for row in table:
        style = "red" if row[-1] == "BROKEN" else None
        shown.add_row(*row, style=style)
    Console().print(shown)


@contextmanager
def _status() -> Iterator[Callable[[str], None] | None]:
    """Show which level is at work on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield lambda level: status.update(f"auditing {level}")

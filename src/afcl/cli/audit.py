# SPDX-License-Identifier: Apache-2.0
"""``afcl audit``: what a server could recover of these files, level by level."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afcl.cli import tables
from afcl.cli.run import in_order
from afcl.cli.settings import MISSING, bounds

if TYPE_CHECKING:
    from afcl.audit import Attempt, Audit, LevelFinding
    from afcl.data import Sites, Table

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
#: Columns of the table of lies.
LIES = ("level", "attack", "learned", "refused", "promise")
#: Columns that hold words.
TEXTS = ("level", "attack")
#: What they mean.
LEGEND = (
    "recovered: rows a server could name exactly; shared: rows whose value is known",
    "because five or more have it; nearest: from what was sent to the nearest row,",
    "1 is a typical distance between neighbours; epsilon: claimed (at least, shown by",
    "a canary); kB, k, SC: of an ordinary run; ARI: against the labels of 'summary'.",
)


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
Lies = Annotated[
    bool, typer.Option(help="Also attack each site as a coordinator that lies would.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print everything that was found as JSON.")
]


def audit(
    context: typer.Context,
    sites: tables.Sites = None,
    folders: tables.Folders = [],
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
    columns: tables.Columns = [],
    drop: tables.Drop = [],
    numeric_only: tables.NumericOnly = None,
    id: tables.IdColumn = None,
    category: tables.Category = [],
    ordinal: tables.Ordinal = [],
    date: tables.Date = [],
    missing: Annotated[str, typer.Option(help=MISSING)] = "error",
    separator: tables.Separator = None,
    decimal: tables.Decimal = None,
    encoding: tables.Encoding = None,
    null: tables.Null = [],
    lies: Lies = True,
    as_json: AsJson = False,
) -> None:
    """Measure what a server could recover of these rows, by looking and by lying.

    Runs every level on the files, keeps the bytes that would be sent, and attacks them.

    Then lies to each site as a dishonest coordinator would. Nothing is sent anywhere.

    Exit code 0 if all levels keep their promises, 1 if one does not, 2 for bad input.
    """
    from afcl.audit import audit as run_audit
    from afcl.audit import default_levels
    from afcl.cli.run import check_levels
    from afcl.data import read_sites
    from afcl.data.features import bounds_of
    from afcl.data.places import site_places
    from afcl.privacy import parse_level

    public = bounds(ranges)
    n_sites = len(site_places(sites or [], folders)[0])
    levels = list(privacy) or default_levels(n_sites, public is not None)
    parsed = [parse_level(level) for level in levels]
    chosen = tables.split_lists(context.params)
    read = read_sites(
        sites or [],
        one_site=folders,
        **tables.table_options(chosen),
        min_rows=max(min_cell, *(level.group for level in parsed)),
        least=min_cell,
    )
    no_noise = _no_noise(read, chosen)
    if no_noise and not privacy:
        levels = [str(level) for level in parsed if not level.private]
    for level in levels:
        check_levels(read.features, chosen, level)
    for note in read.notes:
        print(f"note: {note}", file=sys.stderr)
    scale: Any = "minmax"
    if public is not None:
        scale = in_order(public, read.columns, read.features)
    with _status() as tell:
        found = run_audit(
            [table.values for table in read.tables],
            levels,
            rounds=rounds,
            seed=seed,
            scale=scale,
            cohort=cohort,
            min_cell=min_cell,
            canary_trials=trials,
            runs=runs,
            names=[table.name for table in read.tables],
            bounds=bounds_of(read.columns, read.features) if read.features else None,
            missing=missing,
            lies=lies,
            tell=tell,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _show(found)
        if not privacy:
            for line in _left_out(n_sites, public is not None, no_noise):
                typer.echo(line)
    if found.broken:
        raise typer.Exit(1)


def _no_noise(read: Sites[Table], chosen: dict[str, Any]) -> str:
    """Say why these tables cannot be audited at 'dp'; "": they can be."""
    from afcl.gaps import has_gaps

    declared = tables.categories(chosen["category"])
    found = [
        each.name
        for each in read.features
        if each.shares and not declared.get(each.name)
    ]
    if found:
        return f"declare the levels of {found[0]}, --category '{found[0]}=LEVEL|LEVEL'"
    if any(has_gaps(table.values) for table in read.tables):
        return "leave rows with gaps out, --missing drop"
    return ""


def _left_out(n_sites: int, bounded: bool, no_noise: str) -> Iterator[str]:
    """Say what was not audited, for want of sites, bounds or a package."""
    from afcl.audit.ladder import SMALLEST_COHORT, has_cryptography

    if not has_cryptography():
        yield (
            "'secure' and 'dp' were not audited: they need cryptography, "
            "pip install 'afcl[privacy]'."
        )
        return
    if n_sites < SMALLEST_COHORT:
        yield "'secure' was not audited: it needs at least three sites."
    if not bounded:
        yield "'dp' was not audited: give public bounds with --ranges COLUMN=LOW:HIGH."
    elif no_noise:
        yield f"'dp' was not audited: {no_noise}."


# ------------------------------------------------------------------ words and tables


def _show(found: Audit) -> None:
    typer.echo(
        f"{found.rows:,} rows of {found.features} columns at {found.clients} "
        f"{'site' if found.clients == 1 else 'sites'}; the server asked for "
        f"{found.rounds} {'round' if found.rounds == 1 else 'rounds'}."
    )
    _table(HEADER, [_cells(level) for level in found.levels])
    for line in LEGEND:
        typer.echo(line)
    lies = [(level.level, lie) for level in found.levels for lie in level.lies]
    if lies:
        typer.echo("\nA coordinator that lies to the sites:")
        _table(LIES, [_of_lie(level, lie) for level, lie in lies])
        for name, tried in {lie.name: lie.tried for _, lie in lies}.items():
            typer.echo(f"{name}: {tried}.")
        typer.echo("")
    for level in found.levels:
        for reason in level.reasons:
            typer.echo(f"BROKEN {level.level}: {reason}")
        for note in level.notes:
            typer.echo(f"{level.level}: {note}")


def _of_lie(level: str, lie: Attempt) -> tuple[str, ...]:
    return (
        level,
        lie.name,
        f"{lie.learned:,} of {lie.of:,} {lie.what}",
        f"{lie.refused:,} of {lie.requests:,}",
        "BROKEN" if lie.broken else "kept" if lie.promise else "none",
    )


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


def _table(header: tuple[str, ...], table: list[tuple[str, ...]]) -> None:
    """Show a table; texts are on the left, numbers on the right."""
    if sys.stdout.isatty():
        _rich_table(header, table)
        return
    rows = [header, *table]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        cells = (
            cell.ljust(width) if name in TEXTS else cell.rjust(width)
            for name, cell, width in zip(header, row, widths, strict=True)
        )
        typer.echo("  ".join(cells).rstrip())


def _rich_table(header: tuple[str, ...], table: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, padding=(0, 1, 0, 0))
    for name in header:
        side: Any = "left" if name in TEXTS else "right"
        shown.add_column(name, justify=side, no_wrap=True)
    for row in table:
        style = "red" if row[-1] == "BROKEN" else None
        shown.add_row(*row, style=style)
    Console().print(shown)


@contextmanager
def _status() -> Iterator[Callable[[str], None] | None]:
    """Say on a terminal which attack is made, a line each; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("reading") as status:

        def tell(attack: str) -> None:
            console.print(attack, style="dim", highlight=False)
            status.update(f"auditing {attack}")

        yield tell

# SPDX-License-Identifier: Apache-2.0
"""``afcl bench``: make the runs of a spec, and report on them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from afcl_bench.runner import Progress

bench = typer.Typer(
    help="Benchmarks: make the runs of a spec, and report on them.",
    add_completion=False,
)


@bench.command()
def run(
    spec: str = typer.Argument(
        ..., help="A spec's name (see 'afcl bench specs') or a TOML file."
    ),
    out: Path = typer.Option(..., help="Folder of the runs.", metavar="DIR"),
    data: Path | None = typer.Option(
        None, help="Folder with NAME.csv files, last column the class.", metavar="DIR"
    ),
    only: str = typer.Option(
        "", help="Data sets and methods, separated by commas: IR,SE,k-fed."
    ),
    runs: int | None = typer.Option(None, min=1, help="At most so many runs a cell."),
    jobs: int = typer.Option(2, min=1, help="Runs at a time, one thread each."),
    part: str = typer.Option("1/1", help="The i-th of m parts, for m machines: 2/3."),
    retry: bool = typer.Option(
        False, "--retry", help="Make runs again that failed or met their time cap."
    ),
    pages: Path | None = typer.Option(
        None,
        help="Leave out runs that are published beside the pages in this folder.",
        metavar="DIR",
    ),
) -> None:
    """Make the runs of a spec that have not been made yet.

    Interrupted or killed, the same command goes on where it stopped. Folders filled on
    several machines are merged by copying them together. The exit code is 1 if a run
    failed; its record says why.
    """
    from afcl.exceptions import InputError
    from afcl_bench.ablations import find_method
    from afcl_bench.published import not_kept
    from afcl_bench.runner import run_grid
    from afcl_bench.spec import find_spec
    from afcl_bench.store import Store

    if data is not None and not data.is_dir():
        raise InputError(f"no folder {data}: give the one that holds NAME.csv files")
    chosen = find_spec(spec)
    cells = chosen.select([name for name in only.split(",") if name], runs)
    for method in sorted({cell.method for cell in cells}):
        # Refused before hours of runs, not after.
        find_method(method)
    if pages is not None:
        learned = Store(out).k_of
        cells = not_kept(chosen, cells, pages, learned, retry=retry)
    with _progress() as progress:
        counts = run_grid(
            chosen,
            cells,
            out,
            data,
            jobs=jobs,
            part=_part(part),
            retry=retry,
            progress=progress,
        )
    typer.echo(
        f"{chosen.name}: {counts.done} runs made, {counts.stored} were there, "
        f"{counts.failed} failed, {counts.capped} met their time cap. "
        f"Next: afcl bench report {out}"
    )
    if counts.failed:
        raise typer.Exit(1)


@bench.command()
def report(
    folder: Path = typer.Argument(..., help="Folder of the runs.", metavar="DIR"),
    spec: str | None = typer.Option(None, help="This spec only (a name)."),
    data: Path | None = typer.Option(
        None, help="Folder with NAME.csv files (the one of the runs).", metavar="DIR"
    ),
    out: Path | None = typer.Option(
        None, help="Folder of the report (DIR/report).", metavar="DIR"
    ),
    pages: Path | None = typer.Option(
        None,
        help="Also renew the marked tables of the pages in this folder, and the runs "
        "that are published beside them.",
        metavar="DIR",
    ),
) -> None:
    """Write tables (Markdown, CSV, LaTeX), ranks, tests and plots of stored runs."""
    from afcl_bench.report import write_reports

    for line in write_reports(folder, data, out or folder / "report", spec, pages):
        typer.echo(line)


@bench.command()
def keep(
    folder: Path = typer.Argument(..., help="Folder of the runs.", metavar="DIR"),
    pages: Path = typer.Option(..., help="Folder of the pages.", metavar="DIR"),
    spec: str | None = typer.Option(None, help="This spec only (a name)."),
    data: Path | None = typer.Option(
        None, help="Folder with NAME.csv files (the one of the runs).", metavar="DIR"
    ),
) -> None:
    """Publish stored runs beside pages, a line a run; the pages stay as they are."""
    from afcl_bench.report import keep_runs

    for line in keep_runs(folder, data, pages, spec):
        typer.echo(line)


@bench.command()
def specs() -> None:
    """List the specs that ship with the package."""
    from afcl_bench.spec import find_spec, spec_names

    for name in spec_names():
        found = find_spec(name)
        typer.echo(f"{name:16} {len(found.cells):6,} runs  {found.title}")


def _part(text: str) -> tuple[int, int]:
    from afcl.exceptions import InputError

    match = re.fullmatch(r"(\d+)/(\d+)", text)
    numbers = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= numbers[0] <= numbers[1]:
        raise InputError(f"--part {text}: give the i-th of m parts, such as 2/3")
    return numbers


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show a bar with the time left on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task("")

        def show(done: int, total: int, left: float | None, what: str) -> None:
            eta = "" if left is None else f"{_duration(left)} left  "
            bars.update(bar, completed=done, total=total, description=eta + what)

        yield show


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"

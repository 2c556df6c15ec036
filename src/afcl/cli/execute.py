# SPDX-License-Identifier: Apache-2.0
"""Running a simulated federation on files, with checkpoint, trace and progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afcl.cli.report import write_at_the_end
from afcl.core.protocol import AnyMethod
from afcl.data.sites import Sites, SiteTable
from afcl.runtime import results
from afcl.runtime.coordinator import Spec
from afcl.runtime.journal import Journal
from afcl.runtime.schedule import as_schedule
from afcl.runtime.simulate import simulate
from afcl.trace import Event, Trace, to_line


def execute(
    sites: Sites[SiteTable],
    out: Path,
    method: AnyMethod,
    options: dict[str, Any],
    parameters: dict[str, Any],
    identity: str,
    scale: Any = "minmax",
) -> dict[str, Any]:
    """Run, label, write the folder and its page; return what ``result.json`` holds."""
    names = tuple(source.name for source in sites.tables)
    spec = Spec(
        method,
        options,
        parameters["seed"],
        scale,
        max_rounds=parameters["max_rounds"],
        run=identity[:12],
        names=names,
        columns=tuple(sites.columns),
    )
    with (
        Journal(out / results.JOURNAL, identity) as journal,
        open(out / results.TRACE, "w") as lines,
        _progress(spec.max_rounds) as show,
    ):

        def listen(event: Event) -> None:
            lines.write(to_line(event) + "\n")
            lines.flush()
            show(event)

        outcome = simulate(
            spec,
            [source.rows for source in sites.tables],
            as_schedule(parameters["participation"]),
            journal=journal,
            trace=Trace(listen),
            clock=time.time,
        )
    result = results.describe_simulated(outcome, names, sites.columns, parameters)
    labels = {
        source.name: source.in_input_order(values)
        for source, values in zip(sites.tables, outcome.labels, strict=True)
    }
    results.write_result(out, result, labels)
    write_at_the_end(out)
    return result


@contextmanager
def _progress(max_rounds: int) -> Iterator[Callable[[Event], None]]:
    """Show a bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda event: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("round {task.completed} of at most {task.total}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("listening", total=max_rounds)

        def show(event: Event) -> None:
            if event["event"] == "prepare":
                bar.update(
                    task, completed=event["round"], description=f"k = {event['k']}"
                )

        yield show

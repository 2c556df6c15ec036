# SPDX-License-Identifier: Apache-2.0
"""How far a run is: a bar where somebody looks, lines elsewhere if they are wanted."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from afcl.trace import Event

logger = logging.getLogger("afcl")


def nothing(event: Event) -> None:
    """Show nothing."""


@contextmanager
def progress(max_rounds: int, shown: bool = True) -> Iterator[Callable[[Event], None]]:
    """Yield what shows every event of a run, if it is `shown`.

    On a terminal and in a notebook that is a bar; elsewhere a line per build, on the
    standard error. Who has set up logging gets these lines from the logger `afcl`
    instead.
    """
    if not shown:
        yield nothing
        return
    if logger.isEnabledFor(logging.INFO):
        yield _logged
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _line
        return
    with bar(max_rounds, console) as show:
        yield show


@contextmanager
def bar(max_rounds: int, console: Any) -> Iterator[Callable[[Event], None]]:
    """Yield what moves a bar, which is gone when the run is done."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("round {task.completed} of at most {task.total}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as drawn:
        task = drawn.add_task("listening", total=max_rounds)

        def show(event: Event) -> None:
            if _words(event):
                drawn.update(
                    task, completed=event["round"], description=f"k = {event['k']}"
                )

        yield show


def _line(event: Event) -> None:
    text = _words(event)
    if text:
        sys.stderr.write(f"afcl: {text}\n")


def _logged(event: Event) -> None:
    text = _words(event)
    if text:
        logger.info(text)


def _words(event: Event) -> str:
    """Say where the run is, at a build and at the end."""
    if event["event"] not in ("prepare", "end"):
        return ""
    return f"round {event['round']}: k = {event['k']} ({event['event']})"

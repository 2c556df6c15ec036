# SPDX-License-Identifier: Apache-2.0
"""The end of ``afcl serve``: the result is there, and kept for who was away."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from afcl.runtime.live.farewell import SERVING, EndState, is_served, read_end

if TYPE_CHECKING:
    from afcl.cli.status import RunLog
    from afcl.runtime.live.engine import Server

#: Seconds between two looks at the run.
PAUSE = 0.5


def watch_end(folder: Path, server: Server, log: RunLog) -> None:
    """Say who is told the end, until everybody is or it is not served any more."""
    announced = False
    while not is_served(folder):
        _echo(log)
        end = read_end(folder)
        if end is not None and end.state == SERVING and not announced:
            announced = True
            typer.echo(in_words(end))
        if not server.alive:
            typer.echo(f"the engine ended by itself; the result in {folder} stays")
            return
        time.sleep(PAUSE)
    _echo(log)


def in_words(end: EndState) -> str:
    """Say for whom the end stays served, until when, and how to stop that."""
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(end.until))
    return (
        f"The result is final. Its end stays served until {until} for "
        f"{', '.join(end.missing)}: the same 'afcl join' brings the labels. Ctrl-C "
        "stops that; the result stays."
    )


def _echo(log: RunLog) -> None:
    for line in log.new_lines():
        typer.echo(line)

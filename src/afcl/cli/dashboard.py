# SPDX-License-Identifier: Apache-2.0
"""``afcl dashboard``: a run's page, live."""

from __future__ import annotations

from pathlib import Path

import typer


def dashboard(
    folder: Path = typer.Argument(..., help="Folder of a run.", metavar="DIR"),
    host: str = typer.Option("127.0.0.1", help="Address to listen on."),
    port: int = typer.Option(8050, min=0, max=65535, help="Port (0: a free one)."),
) -> None:
    """Show the page of a run and keep it up to date while the run goes on.

    DIR is the --out of 'afcl run' or 'afcl serve'; it need not be there yet.

    /metrics has the same as numbers, for Prometheus.

    The page shows no row of any site. Ctrl-C ends it; the run does not notice.
    """
    from afcl.dashboard import serve

    serve(
        folder,
        host,
        port,
        lambda url: typer.echo(f"{folder} is shown at {url} (Ctrl-C ends it)."),
    )

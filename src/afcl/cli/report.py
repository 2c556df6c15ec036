# SPDX-License-Identifier: Apache-2.0
"""``afcl report``: a run's folder as one page, and the page at the end of a run."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from afcl.texts import plain

if TYPE_CHECKING:
    from afcl.report import OwnRows


def report(
    folder: Path = typer.Argument(..., help="Folder of a run.", metavar="DIR"),
) -> None:
    """Write DIR/report.html: the run as one page that opens without a network.

    DIR is what 'afcl run', 'afcl serve' or 'afcl join' wrote, finished or not.

    The page of a site's folder shows the site's rows too: for the site alone.
    """
    typer.echo(f"The report is {write(folder)}: open it in a browser.")


def write(folder: Path) -> Path:
    """Write the page of a run; at a site with its own rows."""
    from afcl.report import write_report

    return write_report(folder, own_rows(folder))


def write_at_the_end(folder: Path) -> Path | None:
    """Write the page of a run that is over; whatever happens, the run is not lost."""
    try:
        return write(folder)
    except Exception as error:
        reason = plain(str(error)) or type(error).__name__
        print(
            f"warning: no report was written ({reason}); everything else is there, "
            f"try 'afcl report {folder}'",
            file=sys.stderr,
        )
        return None


def own_rows(folder: Path) -> OwnRows | None:
    """Return the rows of the site whose folder it is, or why they are not shown."""
    from afcl.exceptions import AfclError
    from afcl.report import OwnRows
    from afcl.runtime.live.membership import SITE
    from afcl.runtime.results import RESULT

    if not (folder / SITE).is_file() or not (folder / RESULT).is_file():
        return None
    try:
        return _read_own(folder)
    except (AfclError, OSError) as error:
        return OwnRows(note=f"This site's own rows are not shown: {error}.")


def _read_own(folder: Path) -> OwnRows:
    import numpy as np

    from afcl.exceptions import InputError
    from afcl.report import OwnRows
    from afcl.runtime.live.membership import open_membership
    from afcl.runtime.results import read_result

    member = open_membership(folder)
    sites = member.read()
    table = sites.tables[0]
    if member.fingerprint not in ("", table.fingerprint()):
        raise InputError(f"{member.data} has changed since the run")
    columns = tuple(read_result(folder)["columns"])
    places = [table.columns.index(name) for name in columns]
    with open(folder / "labels.csv", encoding="utf-8", newline="") as file:
        # Ids may stand before the labels.
        lines = [row[-1] for row in csv.reader(file)][1:]
    labels = np.array([int(line) for line in lines], dtype=np.int64)[sites.kept[0]]
    return OwnRows(table.values[:, places], labels, columns)

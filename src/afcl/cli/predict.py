# SPDX-License-Identifier: Apache-2.0
"""``afcl predict``: labels for new rows from a finished run."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from afcl.cli.settings import MISSING
from afcl.cli.tables import (
    Decimal,
    Encoding,
    IdColumn,
    Null,
    Separator,
    split_lists,
    table_options,
)

if TYPE_CHECKING:
    from afcl._typing import Floats, Ints

#: Bytes of labels that are kept in memory until all can be printed.
SPOOLED = 1 << 22

Folder = Annotated[
    Path, typer.Argument(help="Folder of a finished run.", metavar="DIR")
]
New = Annotated[
    Path,
    typer.Argument(
        help="File with new rows, or a folder of files, one after the other.",
        metavar="NEW",
    ),
]


def predict(
    context: typer.Context,
    folder: Folder,
    new: New,
    out: Annotated[
        Path | None, typer.Option(help="Write here instead of printing.")
    ] = None,
    id: IdColumn = None,
    missing: Annotated[
        str | None, typer.Option(help=f"{MISSING} As in the run, if it kept them.")
    ] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    null: Null = [],
) -> None:
    """Label new rows by the clusters of a finished run (CSV, column `cluster`)."""
    from afcl.data.cells import NotNumbers
    from afcl.data.features import Embedding
    from afcl.data.passing import open_rows
    from afcl.exceptions import InputError
    from afcl.gaps import KEEPING, completed
    from afcl.runtime.results import box_of, embedding_of, label_lines, read_result
    from afcl.runtime.shape_files import places_in

    result = read_result(folder)
    box = box_of(result)
    places = places_in(result, box)
    if places is None:
        raise InputError(
            "this run's method has no centres: new rows cannot be labelled"
        )
    typed = split_lists(context.params)
    if missing is None:
        before = result["parameters"].get("missing")
        typed["missing"] = before if before in KEEPING else "error"
    options = table_options(typed)
    # What was a number then is one now, and no category of its own.
    known = embedding_of(result) or Embedding(tuple(result["columns"]), ())

    def label(rows: Floats) -> Ints:
        return places.label(completed(box.scale(rows), places.means))

    try:
        rows = open_rows(
            new,
            known,
            options["missing"],
            dialect=options["dialect"],
            id_column=options["id_column"],
        )
        _tell(label_lines(rows.labels(label), rows.ids), out)
    except NotNumbers as error:
        raise InputError(
            f"{error.where}; the run had numbers there: correct it"
        ) from None
    for note in rows.notes:
        print(f"note: {note}", file=sys.stderr)
    if out is not None:
        typer.echo(f"{rows.n_rows:,} labels are in {out}.")


def _tell(lines: Iterable[str], out: Path | None) -> None:
    """Write or print text that is made part by part, all of it or nothing."""
    from afcl.runtime.results import write_parts

    if out is not None:
        write_parts(out, lines)
        return
    with SpooledTemporaryFile(SPOOLED, "w+", encoding="utf-8", newline="") as spool:
        for line in lines:
            spool.write(line)
        spool.seek(0)
        for part in iter(lambda: spool.read(SPOOLED), ""):
            typer.echo(part, nl=False)

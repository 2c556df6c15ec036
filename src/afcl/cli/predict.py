# SPDX-License-Identifier: Apache-2.0
"""``afcl predict``: labels for new rows from a finished run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

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
    from afcl.data import read_sites
    from afcl.data.cells import NotNumbers
    from afcl.data.features import Embedding
    from afcl.exceptions import InputError
    from afcl.gaps import KEEPING, completed
    from afcl.runtime.results import (
        box_of,
        embedding_of,
        label_lines,
        read_result,
        write_text,
    )
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
    options = {**table_options(typed), "columns": result["columns"]}
    # What was a number then is one now, and no category of its own.
    known = embedding_of(result) or Embedding(tuple(result["columns"]), ())
    try:
        sites = read_sites(one_site=[new], **options, embedding=known)
    except NotNumbers as error:
        raise InputError(
            f"{error.where}; the run had numbers there: correct it"
        ) from None
    for note in sites.notes:
        print(f"note: {note}", file=sys.stderr)
    (table,) = sites.tables
    rows = completed(box.scale(table.values), places.means)
    labels = table.in_input_order(places.label(rows))
    text = "".join(label_lines(labels, table.ids))
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        typer.echo(f"{labels.shape[0]:,} labels are in {out}.")

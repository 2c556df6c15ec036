# SPDX-License-Identifier: Apache-2.0
"""``afcl predict``: labels for new rows from a finished run."""

from __future__ import annotations

from pathlib import Path

import typer

from afcl.cli.settings import MISSING


def predict(
    folder: Path = typer.Argument(..., help="Folder of a finished run.", metavar="DIR"),
    new: Path = typer.Argument(..., help="File with new rows.", metavar="NEW"),
    out: Path | None = typer.Option(None, help="Write here instead of printing."),
    missing: str = typer.Option("error", help=MISSING),
) -> None:
    """Label new rows by the clusters of a finished run (CSV, column `cluster`)."""
    import numpy as np

    from afcl.data import read_sites
    from afcl.exceptions import InputError
    from afcl.kernels import assign
    from afcl.runtime.results import box_of, read_result, write_text

    result = read_result(folder)
    if result["centers"] is None:
        raise InputError(
            "this run's method has no centres: new rows cannot be labelled"
        )
    sites = read_sites([new], columns=tuple(result["columns"]), missing=missing)
    box = box_of(result)
    centers = box.scale(np.array(result["centers"]))
    rows = box.scale(sites.tables[0].values)
    labels = sites.tables[0].in_input_order(assign(rows, centers)[0])
    text = "\n".join(["cluster", *(str(label) for label in labels)]) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        typer.echo(f"{labels.shape[0]:,} labels are in {out}.")

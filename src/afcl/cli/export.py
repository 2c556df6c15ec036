# SPDX-License-Identifier: Apache-2.0
"""``afcl export``: the clusters of a finished run for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class To(StrEnum):
    """What can be written."""

    onnx = "onnx"
    pmml = "pmml"
    json = "json"


def export(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a finished run.", metavar="RESULT")
    ],
    to: Annotated[To, typer.Option(help="Format of the file.")],
    out: Annotated[
        Path | None, typer.Option(help="The file; RESULT/model.FORMAT by default.")
    ] = None,
) -> None:
    r"""Write scaling and nearest centre as ONNX, PMML or JSON.

    ONNX needs pip install 'afcl\[export]'. See docs/how-to/export.md.
    """
    from afcl.export import write_export
    from afcl.runtime.results import read_result

    path = out or folder / f"model.{to.value}"
    write_export(read_result(folder), path, to.value)
    typer.echo(f"The clusters are in {path}.")

# SPDX-License-Identifier: Apache-2.0
"""An answer for other programs: scaling and nearest centre, as ONNX, PMML or JSON.

Reads what ``result.json`` holds and nothing else; a format is a module with one
function and a line in :data:`WRITERS`. See docs/how-to/export.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from afcl.durable import replacing
from afcl.exceptions import InputError
from afcl.registry import CONNECTED

Format: TypeAlias = Literal["onnx", "pmml", "json"]

FORMATS: tuple[str, ...] = get_args(Format)
#: Where the formats are written; each module has `content`.
WRITERS = {
    "onnx": "afcl.export.as_onnx",
    "pmml": "afcl.export.as_pmml",
    "json": "afcl.export.as_json",
}


def write_export(
    result: Mapping[str, Any], path: Path, to: Format | str | None = None
) -> Path:
    """Write an answer with centres to a file.

    Parameters
    ----------
    result : mapping
        What ``result.json`` holds.
    path : Path
        The file.
    to : {"onnx", "pmml", "json"} or None
        Its format; None: by the file's ending.

    Returns
    -------
    Path
        The file that was written.
    """
    kind = path.suffix.removeprefix(".").lower() if to is None else to
    if kind not in FORMATS:
        raise InputError(
            f"no export to {kind or 'a file without an ending'!r}: choose one of "
            f"{', '.join(FORMATS)}"
        )
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is no folder: choose another file")
    _needs_centers(result, kind)
    content: Callable[[Mapping[str, Any]], bytes]
    content = import_module(WRITERS[kind]).content
    data = content(result)
    with replacing(path, "wb") as file:
        file.write(data)
    return path


def _needs_centers(result: Mapping[str, Any], kind: str) -> None:
    """Refuse what has no centres; the one place that says so."""
    if (result.get("shape") or {}).get("name") == CONNECTED and kind != "json":
        raise InputError(
            f"{kind} holds scaling and nearest centre, the clusters of this answer are "
            "labelled cells: export to json"
        )
    if result["centers"] is None:
        raise InputError("this run's method has no centres: there is nothing to export")

# SPDX-License-Identifier: Apache-2.0
"""The report of a fitted model, by way of a folder that does not stay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from afcl.durable import replacing
from afcl.report import render
from afcl.runtime.results import RUN, TRACE, write_result_file
from afcl.trace import Trace, to_line


def write_page(
    result: Mapping[str, Any], trace: Trace, path: Path, times: Sequence[float] | None
) -> Path:
    """Write the page of a run that left no folder, and that began and ended then."""
    with TemporaryDirectory() as name:
        # The page is called by its folder's name.
        folder = Path(name) / "afcl" / path.stem
        folder.mkdir(parents=True)
        (folder / RUN).write_text(json.dumps({"identity": ""}) + "\n")
        events = list(trace.events)
        # A fit's events have no times, so that two fits leave the same ones.
        for place, at in zip((0, -1), times or (), strict=False):
            events[place] = {**events[place], "at": at}
        lines = "".join(to_line(event) + "\n" for event in events)
        (folder / TRACE).write_text(lines)
        write_result_file(folder, result)
        text = render(folder)
    with replacing(path) as file:
        file.write(text)
    return path

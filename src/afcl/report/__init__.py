# SPDX-License-Identifier: Apache-2.0
"""The report: a run's folder as one page that opens without a network.

Reads folders only (``result.json``, ``trace.jsonl`` and the like) and never imports
algorithm or engine; decision 0011 says why it is written by hand.
"""

from __future__ import annotations

from pathlib import Path

from afcl.durable import replacing
from afcl.owner_only import owner_only
from afcl.report.page import body, page
from afcl.report.run_folder import OwnRows, RunFolder, read_run_folder, read_so_far
from afcl.report.run_state import RunState, state_of

__all__ = [
    "REPORT",
    "RunFolder",
    "OwnRows",
    "RunState",
    "body",
    "read_so_far",
    "page",
    "read_run_folder",
    "render",
    "state_of",
    "write_report",
]

#: The page, in a run's folder.
REPORT = "report.html"


def render(folder: Path | str, own: OwnRows | None = None) -> str:
    """Return the page of the run in `folder`; `own`: a site's rows, for its own page.

    Raises
    ------
    InputError
        If there is no run in the folder, or one of its files is damaged.
    """
    return page(read_run_folder(Path(folder), own))


def write_report(folder: Path | str, own: OwnRows | None = None) -> Path:
    """Write ``report.html`` into a run's folder, whole or not at all.

    With a site's own rows in it, the file is for its owner alone.

    Parameters
    ----------
    folder
        What ``afcl run``, ``afcl serve`` or ``afcl join`` wrote, finished or not.
    own
        The rows of the site whose folder it is, for the site's own eyes.

    Returns
    -------
    Path
        The file that was written.
    """
    text = render(folder, own)
    path = Path(folder) / REPORT
    with replacing(path, opener=None if own is None else owner_only) as file:
        file.write(text)
    return path

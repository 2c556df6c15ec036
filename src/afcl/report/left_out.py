# SPDX-License-Identifier: Apache-2.0
"""What the answer does not rest on: columns, rows and sites that were left out."""

from __future__ import annotations

from typing import Any

from afcl.report.markup import Html, section, tag
from afcl.report.run_folder import RunFolder
from afcl.report.tables import folded_table

#: Lines that are shown; the others are counted.
MOST = 12
#: Sites in the table of gaps.
SITES = 30
#: What is done with rows that have gaps.
GAPS = {
    "drop": "Rows with gaps were left out, as asked for.",
    "impute": "Gaps were filled where they could be filled well; rows with others had "
    "no say and were labelled only.",
    "available": "Rows with gaps had no say and were labelled only.",
}


def left_out_section(run: RunFolder) -> Html | None:
    """Return the part of the page on it; None where nothing was left out."""
    lines = left_out(run)
    if not run.done or not (lines or any(site.gaps for site in run.sites)):
        return None
    shown = lines[:MOST]
    if len(lines) > MOST:
        more = len(lines) - MOST
        shown.append(f"And {more} more: see data_notes and notes in result.json.")
    return section(
        "left-out",
        "Dropped or left out",
        tag("ul", [tag("li", line) for line in shown], class_="cautions"),
        _gaps(run),
    )


def _gaps(run: RunFolder) -> Html | None:
    """Return the table of cells without a value: of which column, at which site."""
    sites = [site for site in run.sites if site.gaps][:SITES]
    if not sites:
        return None
    columns = dict.fromkeys(name for site in sites for name in site.gaps)
    rows = [
        [name, *(_cells(site.gaps.get(name)) for site in sites)] for name in columns
    ]
    head = ["column", *(site.name for site in sites)]
    return folded_table(head, rows, "Cells without a value, and how many were filled")


def _cells(both: tuple[int, int] | None) -> str:
    if both is None:
        return ""
    cells, filled = both
    return f"{cells:,}, {filled:,} filled" if filled else f"{cells:,}"


def left_out(run: RunFolder) -> list[str]:
    """Return what was left out and why, a line each."""
    asked = run.parameters
    lines = []
    if dropped := _names(asked.get("drop")):
        lines.append(f"Columns that were to be dropped (--drop): {dropped}.")
    if only := _names(asked.get("columns")):
        lines.append(f"All columns but those asked for (--columns): {only}.")
    if name := asked.get("id"):
        lines.append(f"{name} names the rows (--id) and was not looked at.")
    lines += [*run.data_notes, *run.notes]
    with_gaps = GAPS.get(str(asked.get("missing") or ""))
    if with_gaps and any(site.set_aside for site in run.sites):
        lines.append(with_gaps)
    return [_sentence(line) for line in dict.fromkeys(lines)]


def _names(value: Any) -> str:
    if not value:
        return ""
    return value if isinstance(value, str) else ", ".join(map(str, value))


def _sentence(line: str) -> str:
    line = line.strip()
    return line if line.endswith((".", "!", "?")) else f"{line}."

# SPDX-License-Identifier: Apache-2.0
"""The documentation's pictures, from the code that its pages show: ``make pictures``.

The Python blocks of a page are executed, and what they define is drawn, so that a
picture cannot show anything but what the page says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from afcl.core.client import condense
from afcl.core.messages import Cells
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng
from afcl.scale import Box, minmax_box, ranges_of
from afcl_bench import plots

DOCS = Path(__file__).parent
Page = dict[str, Any]


def executed(page: str) -> Page:
    """Run the Python blocks of a page; return what they define."""
    text = (DOCS / page).read_text(encoding="utf-8")
    names: Page = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        with redirect_stdout(StringIO()):
            exec(compile(block, page, "exec"), names)
    return names


def agreed(page: Page) -> Box:
    """Return the scale of the page's run: that of the clinics that are there first."""
    first = [
        table
        for client, table in enumerate(page["tables"])
        if client not in page["schedule"].late
    ]
    return minmax_box([ranges_of(table) for table in first])


def hellos(page: Page) -> list[Cells]:
    """Return what every clinic says first, in the units of the data."""
    box = agreed(page)
    said = [
        condense(box.scale(table), DefaultParams(), client_rng(0, client, 0))
        for client, table in enumerate(page["tables"])
    ]
    return [Cells(c.counts, box.unscale(c.means), c.scatters) for c in said]


def _named(ax: Any) -> None:
    ax.set_xlabel("age")
    ax.set_ylabel("pulse")


def _circles(ax: Any, cells: Cells, colour: str, **style: Any) -> None:
    sizes = 5.0 * cells.counts
    ax.scatter(*cells.means.T, s=sizes, color=colour, alpha=0.6, linewidth=0, **style)


def rows(page: Page) -> Any:
    """Draw the rows of all clinics, which nobody sees together."""
    figure, places = plots.panels(1, 1, 5.2, 3.4)
    ax = places[0][0]
    for number, (name, table) in enumerate(
        zip(page["clinics"], page["tables"], strict=True)
    ):
        style = plots.line_style(number) | {"linewidth": 0, "markersize": 3}
        ax.plot(*table.T, label=name, alpha=0.7, **style)
    _named(ax)
    plots.shared_legend(figure, places, 9)
    return figure


def cells(page: Page) -> Any:
    """Draw the cells of every clinic over its rows."""
    figure, places = plots.panels(3, 1, 2.8, 2.6)
    said = zip(places[0], page["clinics"], page["tables"], hellos(page), strict=True)
    for number, (ax, name, table, hello) in enumerate(said):
        ax.plot(*table.T, ".", color="0.75", markersize=2)
        _circles(ax, hello, plots.COLOURS[number])
        ax.set_title(f"{name}: {len(table)} rows, {len(hello)} cells", fontsize=9)
        ax.set(xlim=(10, 90), ylim=(45, 110))
        _named(ax)
    return figure


def seeds(page: Page) -> Any:
    """Draw the union of all cells, the seeds at the end, and the centres."""
    figure, places = plots.panels(1, 1, 5.2, 3.4)
    ax = places[0][0]
    for number, (name, hello) in enumerate(
        zip(page["clinics"], hellos(page), strict=True)
    ):
        _circles(ax, hello, plots.COLOURS[number], label=f"cells of {name}")
    model = page["model"]
    box = agreed(page)
    placed = box.unscale(np.array(model.trace_.of("prepare")[-1]["seeds"]))
    ax.plot(*placed.T, "k+", markersize=5, label="seeds")
    centres = {"color": "k", "markersize": 9, "markeredgewidth": 2}
    ax.plot(*model.cluster_centers_.T, "x", label="centres", **centres)
    _named(ax)
    plots.shared_legend(figure, places, 8)
    return figure


def k_path(page: Page) -> Any:
    """Draw the path of the page's model."""
    return plots.k_path(page["model"])


def participation(page: Page) -> Any:
    """Draw who took part when; the trace knows clinics by number."""
    names = list(page["clinics"])
    events = [dict(event) for event in page["model"].trace_]
    events[0]["clients"] = names
    return plots.participation(events)


#: Name of the picture: the page it belongs to, and how it is drawn.
PICTURES: dict[str, tuple[str, Callable[[Page], Any]]] = {
    "rows": ("how-it-works.md", rows),
    "cells": ("how-it-works.md", cells),
    "seeds": ("how-it-works.md", seeds),
    "k-path": ("how-it-works.md", k_path),
    "participation": ("how-it-works.md", participation),
    "two-answers": ("how-to/read-the-path.md", k_path),
}


def main(folder: Path) -> None:
    """Write every picture into a folder."""
    pages = {page: executed(page) for page in {page for page, _ in PICTURES.values()}}
    for name, (page, draw) in PICTURES.items():
        plots.save(draw(pages[page]), folder / f"{name}.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else DOCS / "pictures")

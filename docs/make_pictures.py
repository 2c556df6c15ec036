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

from afcl.core import cohorts
from afcl.core.client import condense
from afcl.core.cohort_answers import groups_of, numbers_for
from afcl.core.cohort_state import SecureState
from afcl.core.messages import Cells, Hello, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng
from afcl.core.tasks import SCORE, Part, SecureHello, SeedPartition
from afcl.privacy.secure import on_grid
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
    """Return the scale of the page's run."""
    return minmax_box([ranges_of(table) for table in page["tables"]])


def scaled_hellos(page: Page) -> list[Cells]:
    """Return what every clinic says first."""
    box = agreed(page)
    return [
        on_grid(condense(box.scale(table), DefaultParams(), client_rng(0, client, 0)))
        for client, table in enumerate(page["tables"])
    ]


def in_units(cells: Cells, box: Box) -> Cells:
    """Return cells in the units of the data; only their places are drawn."""
    return Cells(cells.counts, box.unscale(cells.means), cells.scatters)


def summed(page: Page) -> SecureState:
    """Return what the server of the page's run knows when it has all sums."""
    box = agreed(page)
    state = SecureState(DefaultParams(), 0)
    for client, cells in enumerate(scaled_hellos(page)):
        hello = SecureHello(cells, f"{client:064x}")
        greeting = Hello(int(cells.counts.sum()), hello, client=client)
        state, _ = cohorts.absorb_hello(state, greeting)
    while True:
        state = cohorts.prepare(state)
        ((number, cohort),) = state.working.items()
        assert cohort.question is not None
        if cohort.question.kind == SCORE:
            return state
        for client in cohort.members:
            values = numbers_for(cohort.question, box.scale(page["tables"][client]))
            part = Part(number, cohort.phase, values)
            state, _ = cohorts.absorb_update(state, Update(part, client=client))


def _named(ax: Any) -> None:
    ax.set_xlabel("age")
    ax.set_ylabel("pulse")


def _circles(
    ax: Any, cells: Cells, colour: str, area: float = 5.0, **style: Any
) -> None:
    sizes = area * cells.counts
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
    box = agreed(page)
    hellos = [in_units(hello, box) for hello in scaled_hellos(page)]
    said = zip(places[0], page["clinics"], page["tables"], hellos, strict=True)
    for number, (ax, name, table, hello) in enumerate(said):
        ax.plot(*table.T, ".", color="0.75", markersize=2)
        _circles(ax, hello, plots.COLOURS[number])
        ax.set_title(f"{name}: {len(table)} rows, {len(hello)} cells", fontsize=9)
        ax.set(xlim=(10, 90), ylim=(45, 110))
        _named(ax)
    return figure


def _borders(
    ax: Any, box: Box, nested: tuple[SeedPartition, ...], corner: Any, **style: Any
) -> None:
    """Draw where the groups of the last of nested partitions meet."""
    (left, right), (low, high) = corner
    x, y = np.linspace(left, right, 500), np.linspace(low, high, 500)
    places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    groups = groups_of(box.scale(places), nested).reshape(y.size, x.size)
    for number in range(nested[-1].n_groups):
        own = (groups == number).astype(float)
        if 0 < own.sum() < own.size:
            ax.contour(x, y, own, levels=[0.5], **style)


def groups(page: Page) -> Any:
    """Draw the coarse groups, and the finer ones inside those of one kind."""
    figure, places = plots.panels(2, 1, 3.8, 3.4)
    box, state = agreed(page), summed(page)
    nested = state.cohorts[0].partitions
    moments = state.cohorts[0].moments
    assert moments is not None
    everybody = np.concatenate(page["tables"])
    corners = ((10, 90), (45, 110)), ((57, 75), (55, 75))
    told = (
        (in_units(moments.cells, box), nested[:1]),
        (in_units(_cells_of(box.scale(everybody), nested), box), nested),
    )
    titles = ("coarse groups", "finer groups")
    for ax, corner, (cells, shown), title in zip(
        places[0], corners, told, titles, strict=True
    ):
        larger = len(shown)
        ax.plot(*everybody.T, ".", color="0.7", markersize=2 * larger)
        _circles(ax, cells, plots.COLOURS[3], 5.0 * larger)
        if larger > 1:
            _borders(ax, box, shown, corner, colors=plots.COLOURS[0], linewidths=0.9)
            ax.plot(*box.unscale(shown[1].seeds).T, "k+", markersize=6)
        _borders(ax, box, shown[:1], corner, colors="0.3", linewidths=0.8 * larger)
        ax.set_title(f"{len(cells)} {title} of {cells.counts.sum()} rows", fontsize=9)
        ax.set(xlim=corner[0], ylim=corner[1])
        _named(ax)
    return figure


def _cells_of(points: Any, nested: tuple[SeedPartition, ...]) -> Cells:
    """Return the groups of nested partitions as cells."""
    owner, k = groups_of(points, nested), nested[-1].n_groups
    counts = np.bincount(owner, minlength=k)
    sums = [np.bincount(owner, column, minlength=k) for column in points.T]
    return Cells(counts, np.stack(sums, axis=1) / counts[:, None], np.zeros(k))


def seeds(page: Page) -> Any:
    """Draw the bag of all clinics, the seeds at the end, and the centres."""
    figure, places = plots.panels(1, 1, 5.2, 3.4)
    ax = places[0][0]
    model, box = page["model"], agreed(page)
    (bag,) = summed(page).answered.values()
    cells = in_units(bag, box)
    _circles(ax, cells, plots.COLOURS[3], 12.0, label="the bag of all clinics")
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


def shapes(page: Page) -> Any:
    """Draw the same rows cut into round clusters, and the cells of connected ones."""
    figure, places = plots.panels(2, 1, 3.4, 3.4)
    left, right = places[0]
    model = page["connected"]
    for ax, points, labels, size in (
        (left, page["shaped"], page["round_ones"].labels_, 4.0),
        (right, model.cells_["means"], model.cell_labels_, 7.0 * model.cells_["rows"]),
    ):
        colours = [plots.COLOURS[label % len(plots.COLOURS)] for label in labels]
        ax.scatter(*points.T, s=size, c=colours, alpha=0.7, linewidth=0)
        ax.set_aspect("equal")
    left.set_title(f"rows, {page['round_ones'].n_clusters_} round clusters", fontsize=9)
    title = f"{len(model.cell_labels_)} cells, {model.n_clusters_} connected clusters"
    right.set_title(title, fontsize=9)
    return figure


#: Name of the picture: the page it belongs to, and how it is drawn.
PICTURES: dict[str, tuple[str, Callable[[Page], Any]]] = {
    "rows": ("how-it-works.md", rows),
    "cells": ("how-it-works.md", cells),
    "groups": ("how-it-works.md", groups),
    "seeds": ("how-it-works.md", seeds),
    "k-path": ("how-it-works.md", k_path),
    "participation": ("how-it-works.md", participation),
    "shapes": ("how-it-works.md", shapes),
    "two-answers": ("how-to/read-the-path.md", k_path),
}


def main(folder: Path) -> None:
    """Write every picture into a folder."""
    pages = {page: executed(page) for page in {page for page, _ in PICTURES.values()}}
    for name, (page, draw) in PICTURES.items():
        plots.save(draw(pages[page]), folder / f"{name}.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else DOCS / "pictures")

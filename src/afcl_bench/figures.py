# SPDX-License-Identifier: Apache-2.0
"""Figures of a report; Matplotlib is loaded when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from afcl.exceptions import InputError
from afcl_bench import plots
from afcl_bench.blocks_more import arrivals, measured_size, prepared
from afcl_bench.blocks_paper import DEFAULT, NAMES, counted, mean, score_table, seven
from afcl_bench.frame import Frame, Row
from afcl_bench.plots import (
    COLOURS,
    FORMATS,
    line_style,
    panels,
    save,
    shared_legend,
)
from afcl_bench.significance import CriticalDifference, critical_difference


@dataclass(frozen=True)
class Figure:
    """A picture with its caption; drawn when it is written."""

    name: str
    caption: str
    draw: Callable[[], Any]

    def write(self, folder: Path) -> list[Path]:
        """Write PNG, SVG and PDF."""
        drawn = self.draw()
        return [save(drawn, folder / f"{self.name}.{k}", dpi=120) for k in FORMATS]


def axes(
    columns: int = 1, rows: int = 1, width: float = 4.2, height: float = 3.2
) -> Any:
    """Return a new figure and its axes, a 2-D array of them."""
    try:
        import_module("matplotlib.figure")
    except ImportError as error:
        raise InputError(
            "plots need Matplotlib; install it with: pip install 'afcl[bench]'"
        ) from error
    return panels(columns, rows, width, height)


# ------------------------------------------------------------------ significance


def significance(frame: Frame) -> Iterator[Figure]:
    """Critical-difference diagrams of the default and the paper's six."""
    for measure in ("sc", "ch"):
        _, methods, table = score_table(seven(frame), measure)
        filled = np.where(np.isnan(table), -1e9, table)
        found = critical_difference(filled, methods, DEFAULT, 0.05)
        yield Figure(
            f"cd-{measure}",
            f"Average ranks on {NAMES[measure]}; what lies under the bar cannot be "
            "told from the default (Bonferroni-Dunn, α = .05).",
            partial(_diagram, found),
        )


def _diagram(found: CriticalDifference) -> Any:
    return plots.critical_difference(found).figure


# ------------------------------------------------------------------ over the rounds


def trajectories(frame: Frame) -> Iterator[Figure]:
    """Show where the seeds go, round by round (the paper's Fig. 3)."""

    def draw() -> Any:
        methods = frame.methods()
        figure, places = axes(len(methods))
        for ax, method in zip(places[0], methods, strict=True):
            rows = [row for row in frame.where(method=method).rows if prepared(row)]
            if rows:
                _draw_trajectories(ax, rows[0])
        return figure

    yield Figure(
        "trajectories-plot",
        "SD1 over three clients, first run of each method: seeds at the start (grey), "
        "their ways, and the centres at the end (crosses).",
        draw,
    )


def _draw_trajectories(ax: Any, row: Row) -> None:
    plots.trajectories(row.trace or [], ax, centers=row.centers)
    n_seeds = len(prepared(row)[0]["seeds"])
    ax.set_title(f"{row.cell.method}: {n_seeds} seeds → k' = {row.facts['k']}")


def convergence(frame: Frame) -> Iterator[Figure]:
    """Show the objective per round (the paper's Fig. 4)."""

    def draw() -> Any:
        names, methods = frame.datasets(), frame.methods()
        figure, places = axes(len(names), len(methods), 3.2, 2.3)
        for across, name in enumerate(names):
            for down, method in enumerate(methods):
                ax = places[down][across]
                rows = frame.where(dataset=name, method=method).rows
                _draw_objectives(ax, rows, COLOURS[down])
                ax.set_title(f"{name}, {method}", fontsize=9)
                ax.set_xlabel("round", fontsize=8)
        return figure

    yield Figure(
        "convergence-plot",
        "Objective per round, every run a line: for the default the moment silhouette "
        "of the answer so far (more is better), for the other two the paper's Z (less "
        "is better).",
        draw,
    )


def _draw_objectives(ax: Any, rows: Iterable[Row], colour: str) -> None:
    for row in rows:
        if any(event.get("objective") is not None for event in prepared(row)):
            thin = {"color": colour, "alpha": 0.4, "linewidth": 1, "marker": ""}
            plots.objective(row.trace or [], ax, **thin)
    ax.set_ylabel("")


# ------------------------------------------------------------------ against a setting


def seeds(frame: Frame) -> Iterator[Figure]:
    """Quality against the number of seeds."""
    starts = ["n/64", "n/32", "n/16", "n/8", "n/4", "n/2"]

    def draw() -> Any:
        names = frame.datasets()
        figure, places = axes(len(names), 1, 3.2, 2.8)
        for ax, name in zip(places[0], names, strict=True):
            for place, method in enumerate(frame.methods()):
                parts = frame.where(dataset=name, method=method).by(
                    lambda r: r.option("n_seeds")
                )
                known = [s for s in starts if s in parts]
                means = [mean(counted(parts[s], "sc")) for s in known]
                ax.plot(known, means, label=method, **line_style(place))
            ax.set_title(name)
            ax.set_xlabel("seeds at the start")
        places[0][0].set_ylabel("silhouette, all runs")
        shared_legend(figure, places, 8)
        return figure

    yield Figure(
        "seeds-plot", "Mean silhouette by the number of seeds at the start.", draw
    )


def asynchrony(frame: Frame) -> Iterator[Figure]:
    """Quality against unevenness."""

    def draw() -> Any:
        groups = {"skew": "Gini of participation", "one-shot": "one-shot share"}
        names = frame.where(group=list(groups)).datasets() or ["nothing yet"]
        figure, places = axes(len(names), len(groups), 3.6, 2.8)
        for down, (group, label) in enumerate(groups.items()):
            for across, name in enumerate(names):
                ax = places[down][across]
                runs = frame.where(group=group, dataset=name)
                for place, method in enumerate(frame.methods()):
                    _draw_levels(ax, runs.where(method=method), method, place)
                ax.set_title(name)
                ax.set_xlabel(label)
            places[down][0].set_ylabel("ARI, all runs")
        shared_legend(figure, places, 7)
        return figure

    yield Figure(
        "asynchrony-plot",
        "Mean ARI as participation gets uneven (20 clients; rivals given k\\*).",
        draw,
    )


def _draw_levels(ax: Any, runs: Frame, method: str, place: int) -> None:
    if not len(runs):
        return
    parts = runs.by(lambda r: float(r.cell.participation.split(":")[1]))
    means = [mean(part.values("ari")) for part in parts.values()]
    ax.plot(list(parts), means, label=method, **line_style(place))


def cost(frame: Frame) -> Iterator[Figure]:
    """Bytes until arrival against the score arrived at."""

    def draw() -> Any:
        found = arrivals(frame)
        names = frame.datasets()
        figure, places = axes(len(names), 1, 3.4, 3.2)
        for ax, name in zip(places[0], names, strict=True):
            for place, method in enumerate(frame.methods()):
                values = np.array(found.get((name, method), np.full((1, 3), np.nan)))
                x, y = mean(values[:, 0]), mean(values[:, 2])
                if not np.isnan(x):
                    style = {**line_style(place), "linestyle": "", "markersize": 7}
                    ax.plot(x, y, label=method, **style)
            ax.set_xscale("log")
            ax.set_title(name)
            ax.set_xlabel("kB until within 1 %")
        places[0][0].set_ylabel("final silhouette")
        shared_legend(figure, places, 7)
        return figure

    yield Figure("cost-plot", "Bytes needed against the silhouette reached.", draw)


def time(frame: Frame) -> Iterator[Figure]:
    """Seconds against rows and features."""

    def draw() -> Any:
        groups = {"rows": (0, "rows (d = 2)"), "features": (1, "features (n = 2000)")}
        figure, places = axes(len(groups), 1, 4.6, 3.6)
        for ax, (group, (of, label)) in zip(places[0], groups.items(), strict=True):
            wanted = [group, "rows, ours"] if of == 0 else [group]
            runs = [
                {
                    "method": row.cell.method,
                    "size": measured_size(of, row),
                    "seconds": row.value("cpu_seconds"),
                }
                for row in frame.where(group=wanted).rows
            ]
            plots.time_growth(runs, ax, label=label, methods=frame.methods())
            ax.set_ylabel("CPU seconds")
        return figure

    yield Figure(
        "time-plot",
        "CPU seconds (median) against rows and features, one thread; e is the fitted "
        "exponent of growth.",
        draw,
    )

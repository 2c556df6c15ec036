# SPDX-License-Identifier: Apache-2.0
"""Figures of a report; Matplotlib is loaded when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from afcl_bench import plots
from afcl_bench.blocks_more import arrivals, prepared, sized
from afcl_bench.counting import DEFAULT, NAMES, counted, mean, score_table, seven
from afcl_bench.frame import kinds, parts, values
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


# ------------------------------------------------------------------ significance


def significance(frame: pl.DataFrame) -> Iterator[Figure]:
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


def trajectories(frame: pl.DataFrame) -> Iterator[Figure]:
    """Show where the seeds go, round by round (the paper's Fig. 3)."""

    def draw() -> Any:
        methods = kinds(frame, "method")
        figure, places = panels(len(methods), 1, 4.2, 3.2)
        for ax, method in zip(places[0], methods, strict=True):
            runs = frame.filter(method=method).iter_rows(named=True)
            first = next((run for run in runs if prepared(run["trace"])), None)
            if first is not None:
                _draw_trajectories(ax, first)
        return figure

    yield Figure(
        "trajectories-plot",
        "SD1 over three clients, first run of each method: seeds at the start (grey), "
        "their ways, and the centres at the end (crosses).",
        draw,
    )


def _draw_trajectories(ax: Any, run: dict[str, Any]) -> None:
    plots.trajectories(run["trace"], ax, centers=run["centers"])
    n_seeds = len(prepared(run["trace"])[0]["seeds"])
    ax.set_title(f"{run['method']}: {n_seeds} seeds → k' = {run['k']:.0f}")


def convergence(frame: pl.DataFrame) -> Iterator[Figure]:
    """Show the objective per round (the paper's Fig. 4)."""

    def draw() -> Any:
        names, methods = kinds(frame, "dataset"), kinds(frame, "method")
        figure, places = panels(len(names), len(methods), 3.2, 2.3)
        for across, name in enumerate(names):
            for down, method in enumerate(methods):
                ax = places[down][across]
                runs = frame.filter(dataset=name, method=method)
                _draw_objectives(ax, runs["trace"], COLOURS[down])
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


def _draw_objectives(ax: Any, traces: Iterable[Any], colour: str) -> None:
    for trace in traces:
        if any(event.get("objective") is not None for event in prepared(trace)):
            thin = {"color": colour, "alpha": 0.4, "linewidth": 1, "marker": ""}
            plots.objective(trace, ax, **thin)
    ax.set_ylabel("")


# ------------------------------------------------------------------ against a setting


def seeds(frame: pl.DataFrame) -> Iterator[Figure]:
    """Quality against the number of seeds."""
    starts = ["n/64", "n/32", "n/16", "n/8", "n/4", "n/2"]

    def draw() -> Any:
        names = kinds(frame, "dataset")
        figure, places = panels(len(names), 1, 3.2, 2.8)
        for ax, name in zip(places[0], names, strict=True):
            for place, method in enumerate(kinds(frame, "method")):
                runs = parts(frame.filter(dataset=name, method=method), "n_seeds")
                known = [start for start in starts if start in runs]
                means = [mean(counted(runs[start], "sc")) for start in known]
                ax.plot(known, means, label=method, **line_style(place))
            ax.set_title(name)
            ax.set_xlabel("seeds at the start")
        places[0][0].set_ylabel("silhouette, all runs")
        shared_legend(figure, places, 8)
        return figure

    yield Figure(
        "seeds-plot", "Mean silhouette by the number of seeds at the start.", draw
    )


def asynchrony(frame: pl.DataFrame) -> Iterator[Figure]:
    """Quality against unevenness."""

    def draw() -> Any:
        groups = {"skew": "Gini of participation", "one-shot": "one-shot share"}
        chosen = frame.filter(pl.col("group").is_in(list(groups)))
        names = kinds(chosen, "dataset") or ["nothing yet"]
        figure, places = panels(len(names), len(groups), 3.6, 2.8)
        for down, (group, label) in enumerate(groups.items()):
            for across, name in enumerate(names):
                ax = places[down][across]
                runs = frame.filter(group=group, dataset=name)
                for place, method in enumerate(kinds(frame, "method")):
                    _draw_levels(ax, runs.filter(method=method), method, place)
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


def _draw_levels(ax: Any, runs: pl.DataFrame, method: str, place: int) -> None:
    if not runs.height:
        return
    by_level = parts(runs, "participation")
    levels = [float(name.split(":")[1]) for name in by_level]
    means = [mean(values(part, "ari")) for part in by_level.values()]
    ax.plot(levels, means, label=method, **line_style(place))


def cost(frame: pl.DataFrame) -> Iterator[Figure]:
    """Bytes until arrival against the score arrived at."""

    def draw() -> Any:
        found = arrivals(frame)
        names = kinds(frame, "dataset")
        figure, places = panels(len(names), 1, 3.4, 3.2)
        for ax, name in zip(places[0], names, strict=True):
            for place, method in enumerate(kinds(frame, "method")):
                runs = np.array(found.get((name, method), np.full((1, 3), np.nan)))
                x, y = mean(runs[:, 0]), mean(runs[:, 2])
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


def time(frame: pl.DataFrame) -> Iterator[Figure]:
    """Seconds against rows and features."""

    def draw() -> Any:
        groups = {"rows": (0, "rows (d = 2)"), "features": (1, "features (n = 2000)")}
        figure, places = panels(len(groups), 1, 4.6, 3.6)
        for ax, (group, (of, label)) in zip(places[0], groups.items(), strict=True):
            wanted = [group, "rows, ours"] if of == 0 else [group]
            runs = sized(frame.filter(pl.col("group").is_in(wanted)), of)
            columns = runs.select("method", "size", seconds="cpu_seconds").to_dicts()
            methods = kinds(frame, "method")
            plots.time_growth(columns, ax, label=label, methods=methods)
            ax.set_ylabel("CPU seconds")
        return figure

    yield Figure(
        "time-plot",
        "CPU seconds (median) against rows and features, one thread; e is the fitted "
        "exponent of growth.",
        draw,
    )

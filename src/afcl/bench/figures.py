# SPDX-License-Identifier: Apache-2.0
"""Figures of a report; Matplotlib is loaded when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from afcl.bench.blocks_more import arrivals, measured_size, prepared
from afcl.bench.blocks_paper import DEFAULT, NAMES, counted, mean, score_table, seven
from afcl.bench.frame import Frame, Row
from afcl.exceptions import InputError
from afcl.metrics import CriticalDifference, cd_diagram, critical_difference

#: Colour-blind-safe (Okabe and Ito), and a marker for each, so that print will do.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^v<>PX*hdp"


@dataclass(frozen=True)
class Figure:
    """A picture with its caption; drawn when it is written."""

    name: str
    caption: str
    draw: Callable[[], Any]

    def write(self, folder: Path) -> list[Path]:
        """Write PNG, SVG and PDF."""
        drawn = self.draw()
        paths = [folder / f"{self.name}.{kind}" for kind in ("png", "svg", "pdf")]
        # No date inside, and no random names: the same runs give the same bytes.
        stamp = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
        with import_module("matplotlib").rc_context({"svg.hashsalt": self.name}):
            for path in paths:
                drawn.savefig(path, dpi=120, metadata=stamp[path.suffix[1:]])
        return paths


def axes(
    columns: int = 1, rows: int = 1, width: float = 4.2, height: float = 3.2
) -> Any:
    """Return a new figure and its axes, a 2-D array of them."""
    try:
        figures = import_module("matplotlib.figure")
    except ImportError as error:
        raise InputError(
            "plots need Matplotlib; install it with: pip install 'afcl[bench]'"
        ) from error
    size = (width * columns, height * rows)
    figure = figures.Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _legend(figure: Any, places: Any, size: int) -> None:
    """Name every method once, also those that the first axes lack."""
    known: dict[str, Any] = {}
    for ax in places.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            known.setdefault(label, handle)
    if known:
        entries = (list(known.values()), list(known))
        figure.legend(*entries, loc="outside right", fontsize=size)


def _style(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 4,
        "linewidth": 2.2 if place == 0 else 1.2,
    }


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
    return cd_diagram(found).figure


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
    events = prepared(row)
    seeds = [np.array(event["seeds"]) for event in events]
    ax.plot(*seeds[0].T, "o", color="0.65", markersize=4)
    for before, after in zip(seeds, seeds[1:], strict=False):
        if before.shape == after.shape:
            ways = zip(before, after, strict=True)
            for start, end in ways:
                ax.plot(*np.array([start, end]).T, "-", color=COLOURS[5], linewidth=1)
    ax.plot(*seeds[-1].T, ".", color=COLOURS[0], markersize=4)
    if row.centers is not None:
        ax.plot(*row.centers.T, "x", color=COLOURS[1], markersize=9, markeredgewidth=2)
    ax.set_title(f"{row.cell.method}: {len(seeds[0])} seeds → k' = {row.facts['k']}")
    ax.set_xlabel("x₁ (scaled)")
    ax.set_ylabel("x₂ (scaled)")


def convergence(frame: Frame) -> Iterator[Figure]:
    """Show the objective per round (the paper's Fig. 4)."""

    def draw() -> Any:
        names, methods = frame.datasets(), frame.methods()
        figure, places = axes(len(names), len(methods), 3.2, 2.3)
        for across, name in enumerate(names):
            for down, method in enumerate(methods):
                ax = places[down][across]
                for row in frame.where(dataset=name, method=method).rows:
                    events = [e for e in prepared(row) if "objective" in e]
                    rounds = [event["round"] for event in events]
                    values = [event["objective"] for event in events]
                    ax.plot(rounds, values, color=COLOURS[down], alpha=0.4, linewidth=1)
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
                ax.plot(known, means, label=method, **_style(place))
            ax.set_title(name)
            ax.set_xlabel("seeds at the start")
        places[0][0].set_ylabel("silhouette, all runs")
        _legend(figure, places, 8)
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
        _legend(figure, places, 7)
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
    ax.plot(list(parts), means, label=method, **_style(place))


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
                    style = {**_style(place), "linestyle": "", "markersize": 7}
                    ax.plot(x, y, label=method, **style)
            ax.set_xscale("log")
            ax.set_title(name)
            ax.set_xlabel("kB until within 1 %")
        places[0][0].set_ylabel("final silhouette")
        _legend(figure, places, 7)
        return figure

    yield Figure("cost-plot", "Bytes needed against the silhouette reached.", draw)


def time(frame: Frame) -> Iterator[Figure]:
    """Seconds against rows and features."""

    def draw() -> Any:
        groups = {"rows": (0, "rows (d = 2)"), "features": (1, "features (n = 2000)")}
        figure, places = axes(len(groups), 1, 4.6, 3.6)
        for ax, (group, (of, label)) in zip(places[0], groups.items(), strict=True):
            for place, method in enumerate(frame.methods()):
                wanted = [group, "rows, ours"] if of == 0 else [group]
                runs = frame.where(group=wanted, method=method)
                parts = sorted(runs.by(partial(measured_size, of)).items())
                known = [(s, p) for s, p in parts if not np.isnan(p.values("k")).all()]
                sizes = [s for s, _ in known]
                times = [np.nanmedian(p.values("cpu_seconds")) for _, p in known]
                ax.plot(sizes, times, label=method, **_style(place))
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel(label)
        places[0][0].set_ylabel("CPU seconds")
        _legend(figure, places, 8)
        return figure

    yield Figure(
        "time-plot", "CPU seconds against rows and features, one thread.", draw
    )

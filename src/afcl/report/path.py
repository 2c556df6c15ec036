# SPDX-License-Identifier: Apache-2.0
"""The k-path: an index against k, with the chosen k marked."""

from __future__ import annotations

from afcl.report.line_chart import BOTTOM, LineChart
from afcl.report.markup import Html, number, tag
from afcl.report.run_folder import RunFolder
from afcl.report.svg import WIDTH
from afcl.report.tables import folded_table
from afcl.report.tree import tree_figure
from afcl.report.words import higher_is_better, index_name, runner_up

#: Height of the curve of the index that chose k; above it stands "k′ =".
HEIGHT = 250.0
TOP = 44.0
#: Size of the other indices' curves, and where they begin.
SMALL_WIDTH = 300.0
SMALL_HEIGHT = 180.0
SMALL_TOP = 28.0


def path_section(run: RunFolder) -> Html:
    """Return the section on the number of clusters."""
    inside: list[object] = [tag("h2", "How many clusters", id="path")]
    if len(run.path) < 2:
        inside.append(tag("p", _why_not(run), class_="note"))
        if run.tree is not None:
            inside.append(tag("div", tree_figure(run), class_="card"))
        return tag("section", inside, aria_labelledby="path")
    curve = _curve(run, run.criterion)
    better = "Higher" if higher_is_better(run.criterion) else "Lower"
    inside.append(
        tag(
            "p",
            f"{better} is better. Every k on the path was considered; the ring marks "
            "the one that was chosen.",
            None
            if run.tree is None
            else " The tree shows which seeds were joined on the way, and the cut.",
        )
    )
    cards = [tag("div", curve, class_="card")]
    if run.tree is not None:
        cards.append(tag("div", tree_figure(run), class_="card"))
    inside.append(tag("div", cards, class_="pair"))
    others = _others(run)
    if others:
        inside.append(tag("h3", "The other indices"))
        inside.append(tag("div", others, class_="small-multiples"))
    names = _names(run)
    inside.append(
        folded_table(
            ["k", *(index_name(name) for name in names)],
            [
                [f"{k} (chosen)" if k == run.n_clusters else k]
                + [number(scores.get(name), 4) for name in names]
                for k, scores in run.path
            ],
        )
    )
    return tag("section", inside, aria_labelledby="path")


def _why_not(run: RunFolder) -> str:
    if not run.done:
        return "The path is written when the run is done."
    if run.n_clusters == 1:
        return "There is no path to show: the answer is one cluster."
    if run.parameters.get("n_clusters"):
        return "The number of clusters was given, so there is no path."
    return "This method considers no other number of clusters, so there is no path."


def _names(run: RunFolder) -> list[str]:
    return list(dict.fromkeys(name for _, scores in run.path for name in scores))


def _others(run: RunFolder) -> list[Html]:
    names = [name for name in _names(run) if name != run.criterion]
    drawn = [
        _curve(run, name, small=True)
        for name in names
        if sum(scores.get(name) is not None for _, scores in run.path) > 1
    ]
    return [tag("div", curve, class_="card") for curve in drawn]


def _curve(run: RunFolder, index: str, small: bool = False) -> Html:
    """Draw one index against k."""
    points = [
        (k, value) for k, scores in run.path if (value := scores.get(index)) is not None
    ]
    name, chosen = index_name(index), run.n_clusters
    if not points:
        return tag("p", f"{name} is not defined on this path.", class_="note")
    chart = LineChart(points, WIDTH, HEIGHT, TOP)
    if small:
        chart = LineChart(points, SMALL_WIDTH, SMALL_HEIGHT, SMALL_TOP)
    ks = [k for k, _ in points]
    value_at = dict(points)
    rival = None if small else runner_up(run)
    tips = [_tip(k, value, name, chosen, rival) for k, value in points]
    parts: list[object] = [
        chart.axes("k", name, about=6 if small else 8),
        chart.curve(),
        chart.dots(tips, label=f"{name} for every k", data_k=ks),
    ]
    best = "no k was chosen on it"
    if chosen is not None and chosen in value_at:
        best = f"chosen k = {chosen}"
        x, y = chart.place((chosen, value_at[chosen]))
        bottom = chart.height - BOTTOM
        cut = tag("line", x1=x, x2=x, y1=chart.top, y2=bottom, class_="cut")
        parts.insert(2, cut)  # under the dots, so that they stay readable
        parts.append(_ring(x, y, chosen, small))
    description = f"{name} for k from {ks[0]} to {ks[-1]}; {best}."
    if rival is not None:
        description += f" Runner-up k = {rival[0]}."
    class_ = "k-path small" if small else "k-path"
    return chart.figure(f"{name} against k", description, *parts, class_=class_)


def _ring(x: float, y: float, k: int, small: bool) -> Html:
    ring = tag("circle", cx=x, cy=y, r=8.0, class_="ring", data_chosen=k)
    if small:
        return ring
    end = x > WIDTH - 90
    label = tag(
        "text",
        f"k′ = {k}",
        x=x - 8 if end else x + 8,
        y=38.0,
        class_="label end" if end else "label",
    )
    return tag("g", ring, label)


def _tip(
    k: int, value: float, name: str, chosen: int | None, rival: tuple[int, float] | None
) -> str:
    text = f"k = {k}: {name} {number(value, 4)}"
    if k == chosen:
        return text + ", chosen"
    if rival is not None and k == rival[0]:
        return (
            text
            + f", the runner-up, {number(abs(rival[1]))} "
            + ("less" if rival[1] >= 0 else "more")
        )
    return text

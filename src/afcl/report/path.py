# SPDX-License-Identifier: Apache-2.0
"""The k-path: an index against k, with the chosen k marked."""

from __future__ import annotations

from afcl.report.line_chart import BOTTOM, LineChart
from afcl.report.markup import Html, cards, note, number, section, tag
from afcl.report.run_folder import RunFolder
from afcl.report.svg import WIDTH, text
from afcl.report.tables import folded_table
from afcl.report.tree import tree_figure
from afcl.report.words import higher_is_better, index_name, runner_up, scored

#: Height of the curve of the index that chose k.
HEIGHT = 250.0
#: Where it begins; above it stands "k′ =".
TOP = 44.0
#: Width of the other indices' curves.
SMALL_WIDTH = 300.0
#: Their height.
SMALL_HEIGHT = 180.0


def path_section(run: RunFolder) -> Html:
    """Return the section on the number of clusters."""
    title = "How many clusters"
    tree = None if run.tree is None else tree_figure(run)
    if len(run.path) < 2:
        card = None if tree is None else tag("div", tree, class_="card")
        return section("path", title, note(_why_not(run)), card)
    better = "Higher" if higher_is_better(run.criterion) else "Lower"
    about = f"{better} is better. Every k on the path was considered."
    if not run.done:
        about = f"{better} is better. So the path stands; it may change until the end."
    if tree is not None:
        noun = "seeds" if run.shape is None else "cells"
        about += f" The tree shows which {noun} were joined on the way, and the cut."
    names = _names(run)
    others = [
        _curve(run, name, small=True)
        for name in names
        if name != run.criterion
        and sum(scores.get(name) is not None for _, scores in run.path) > 1
    ]
    numbers = folded_table(
        ["k", *(index_name(name) for name in names)],
        [
            [_level_name(run, k)] + [number(scores.get(name), 4) for name in names]
            for k, scores in run.path
        ],
    )
    return section(
        "path",
        title,
        tag("p", about),
        _legend(run),
        cards("pair", _curve(run, run.criterion), tree),
        [tag("h3", "The other indices"), cards("small-multiples", *others)]
        if others
        else None,
        numbers,
    )


def levels_drawn(run: RunFolder) -> set[int]:
    """Return every k whose dot on the path's curve can be linked to, as ``#k-3``."""
    return {k for k, _ in scored(run)} if len(run.path) > 1 else set()


def _believable(run: RunFolder) -> tuple[int, ...]:
    """Return every k on the path whose clusters come back."""
    trust = run.trust
    if trust is None:
        return ()
    # The answer's k is among them always.
    not_so = {run.n_clusters} if trust.unstable else set()
    levels = set(trust.levels) - not_so
    return tuple(k for k, _ in run.path if k in levels)


def _level_name(run: RunFolder, k: int) -> str:
    marks = ["chosen"] if k == run.n_clusters else []
    marks += ["believable"] if k in _believable(run) else []
    return f"{k} ({', '.join(marks)})" if marks else str(k)


def _legend(run: RunFolder) -> Html | None:
    """Say what the marks on the curve mean."""
    entries = []
    if run.n_clusters in levels_drawn(run):
        ring = tag("circle", cx=10, cy=10, r=7.0, class_="ring")
        ring_meaning = "the k that was chosen" if run.done else "the best k so far"
        entries.append((ring, ring_meaning))
    if _believable(run):
        entries.append((_tick(10.0, 15.0), "a believable k: its clusters come back"))
    spans = [
        tag(
            "span",
            tag("svg", sign, viewBox="0 0 20 20", class_="key", aria_hidden="true"),
            f" {meaning}",
        )
        for sign, meaning in entries
    ]
    return tag("p", spans, class_="legend") if spans else None


def _tick(x: float, bottom: float, **data: object) -> Html:
    """Return the mark of a believable k: a small triangle that stands on the axis."""
    outline = f"M{x - 5:.1f} {bottom:.1f}h10l-5 -8z"
    return tag("path", d=outline, class_="believable", **data)


def _why_not(run: RunFolder) -> str:
    if not run.done:
        return "There is no path yet: the server has not heard enough."
    if run.n_clusters == 1:
        return "There is no path to show: the answer is one cluster."
    if run.parameters.get("n_clusters"):
        return "The number of clusters was given, so there is no path."
    return "This method considers no other number of clusters, so there is no path."


def _names(run: RunFolder) -> list[str]:
    return list(dict.fromkeys(name for _, scores in run.path for name in scores))


def _curve(run: RunFolder, index: str, small: bool = False) -> Html:
    """Draw one index against k."""
    points = [
        (k, value) for k, scores in run.path if (value := scores.get(index)) is not None
    ]
    name, chosen = index_name(index), run.n_clusters
    lower = "" if higher_is_better(index) else " (lower is better)"
    if not points:
        return note(f"{name} is not defined on this path.")
    chart = LineChart(points, WIDTH, HEIGHT, TOP)
    if small:
        chart = LineChart(points, SMALL_WIDTH, SMALL_HEIGHT)
    ks = [k for k, _ in points]
    value_at = dict(points)
    rival = None if small else runner_up(run)
    back = dict.fromkeys(_believable(run), ", its clusters come back")
    tips = [
        _tip(k, value, name, chosen, rival) + back.get(k, "") for k, value in points
    ]
    links = [None if small else f"k-{k}" for k in ks]
    parts: list[object] = [
        chart.axes("k", f"{name}{lower}", about=6 if small else 8),
        chart.curve(),
        chart.dots(tips, label=f"{name} for every k", data_k=ks, id=links),
    ]
    best = "no k was chosen on it"
    if chosen is not None and chosen in value_at:
        best = f"chosen k = {chosen}"
        x, y = chart.place((chosen, value_at[chosen]))
        bottom = chart.height - BOTTOM
        cut = tag("line", x1=x, x2=x, y1=chart.top, y2=bottom, class_="cut")
        parts.insert(2, cut)  # under the dots, so that they stay readable
        parts.append(_ring(x, y, chosen, small))
    description = f"{name}{lower} for k from {ks[0]} to {ks[-1]}; {best}."
    if rival is not None:
        description += f" Runner-up k = {rival[0]}."
    levels = [k for k in _believable(run) if not small and ks[0] <= k <= ks[-1]]
    if levels:
        description += f" Believable: k = {', '.join(map(str, levels))}."
        bottom = chart.height - BOTTOM - 1
        parts += [_tick(chart.x(k), bottom, data_believable=k) for k in levels]
    class_ = "k-path small" if small else "k-path"
    return chart.figure(f"{name} against k", description, *parts, class_=class_)


def _ring(x: float, y: float, k: int, small: bool) -> Html:
    ring = tag("circle", cx=x, cy=y, r=8.0, class_="ring", data_chosen=k)
    if small:
        return ring
    beside = (x - 8, 38.0, "label end") if x > WIDTH - 90 else (x + 8, 38.0, "label")
    return tag("g", ring, text(f"k′ = {k}", *beside))


def _tip(
    k: int, value: float, name: str, chosen: int | None, rival: tuple[int, float] | None
) -> str:
    tip = f"k = {k}: {name} {number(value, 4)}"
    if k == chosen:
        return f"{tip}, chosen"
    if rival is None or k != rival[0]:
        return tip
    less = "less" if rival[1] >= 0 else "more"
    return f"{tip}, the runner-up, {number(abs(rival[1]))} {less}"

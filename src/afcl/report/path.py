# SPDX-License-Identifier: Apache-2.0
"""The k-path: an index against k, with the chosen k marked."""

from __future__ import annotations

from afcl.report.facts import Facts
from afcl.report.markup import Html, number, tag
from afcl.report.svg import (
    WIDTH,
    Scale,
    axes,
    figure,
    line,
    mark,
    marks,
    numbers,
    padded,
    ticks,
    whole_ticks,
)
from afcl.report.tree import tree_figure
from afcl.report.words import higher_is_better, index_name, runner_up

HEIGHT = 250.0


def path_section(facts: Facts) -> Html:
    """Return the section on the number of clusters."""
    inside: list[object] = [tag("h2", "How many clusters", id="path")]
    if len(facts.path) < 2:
        inside.append(tag("p", _why_not(facts), class_="note"))
        if facts.tree is not None:
            inside.append(tag("div", tree_figure(facts), class_="card"))
        return tag("section", inside, aria_labelledby="path")
    curve = _curve(facts, facts.criterion)
    better = "Higher" if higher_is_better(facts.criterion) else "Lower"
    inside.append(
        tag(
            "p",
            f"{better} is better. Every k on the path was considered; the ring marks "
            "the one that was chosen.",
            None
            if facts.tree is None
            else " The tree shows which seeds were joined on the way, and the cut.",
        )
    )
    cards = [tag("div", curve, class_="card")]
    if facts.tree is not None:
        cards.append(tag("div", tree_figure(facts), class_="card"))
    inside.append(tag("div", cards, class_="pair"))
    others = _others(facts)
    if others:
        inside.append(tag("h3", "The other indices"))
        inside.append(tag("div", others, class_="small-multiples"))
    names = _names(facts)
    inside.append(
        numbers(
            ["k", *(index_name(name) for name in names)],
            [
                [f"{k} (chosen)" if k == facts.n_clusters else k]
                + [number(scores.get(name), 4) for name in names]
                for k, scores in facts.path
            ],
        )
    )
    return tag("section", inside, aria_labelledby="path")


def _why_not(facts: Facts) -> str:
    if not facts.done:
        return "The path is written when the run is done."
    if facts.n_clusters == 1:
        return "There is no path to show: the answer is one cluster."
    if facts.parameters.get("n_clusters"):
        return "The number of clusters was given, so there is no path."
    return "This method considers no other number of clusters, so there is no path."


def _names(facts: Facts) -> list[str]:
    return list(dict.fromkeys(name for _, scores in facts.path for name in scores))


def _others(facts: Facts) -> list[Html]:
    names = [name for name in _names(facts) if name != facts.criterion]
    drawn = [
        _curve(facts, name, small=True)
        for name in names
        if sum(scores.get(name) is not None for _, scores in facts.path) > 1
    ]
    return [tag("div", curve, class_="card") for curve in drawn]


def _curve(facts: Facts, index: str, small: bool = False) -> Html:
    """Draw one index against k."""
    points = [
        (k, value)
        for k, scores in facts.path
        if (value := scores.get(index)) is not None
    ]
    name, chosen = index_name(index), facts.n_clusters
    if not points:
        return tag("p", f"{name} is not defined on this path.", class_="note")
    width, height = (300.0, 180.0) if small else (WIDTH, HEIGHT)
    top = 28.0 if small else 44.0
    ks = [k for k, _ in points]
    low, high = padded([value for _, value in points], 0.1)
    x = Scale(ks[0], ks[-1], 56.0, width - 18)
    y = Scale(low, high, height - 42, top)
    at = dict(points)
    parts: list[object] = [
        axes(
            x,
            y,
            whole_ticks(ks[0], ks[-1], 6 if small else 8),
            ticks(low, high, 4),
            "k",
            name,
        )
    ]
    parts.append(line([(x(k), y(v)) for k, v in points], "curve"))
    if chosen in at:
        parts.append(
            tag(
                "line", x1=x(chosen), x2=x(chosen), y1=top, y2=height - 42, class_="cut"
            )
        )
    rival = None if small else runner_up(facts)
    dots = [
        mark(
            "circle",
            _tip(k, value, name, chosen, rival),
            "dot",
            cx=x(k),
            cy=y(value),
            r=3.5,
            data_k=k,
        )
        for k, value in points
    ]
    parts.append(marks(dots, label=f"{name} for every k"))
    if chosen in at:
        parts.append(_ring(x(chosen), y(at[chosen]), chosen, small))
    best = f"chosen k = {chosen}" if chosen in at else "no k was chosen on it"
    said = f"{name} for k from {ks[0]} to {ks[-1]}; {best}."
    if rival is not None:
        said += f" Runner-up k = {rival[0]}."
    class_ = "k-path small" if small else "k-path"
    title = f"{name} against k"
    return figure(title, said, *parts, height=height, width=width, class_=class_)


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

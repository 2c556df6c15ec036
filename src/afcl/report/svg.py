# SPDX-License-Identifier: Apache-2.0
"""Small drawings by hand: scales, axes, figures, marks.

A drawing is 400 units wide, so that its letters stay readable on a phone; colours and
strokes come from the page's style sheet, by class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from afcl.report.markup import Html, join, number, tag

#: Units across a drawing.
WIDTH = 400.0
#: Colours of the palette.
COLOURS = 8
#: Hatchings laid over the colours when these are used up.
HATCHES = 3
#: Outlines of small marks, so that clusters differ without colour too.
SHAPES = 4


@dataclass(frozen=True)
class Scale:
    """A straight map from values to places on the drawing."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        width = self.high - self.low
        share = 0.5 if width == 0 else (value - self.low) / width
        return self.start + share * (self.stop - self.start)


def padded(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    """Return the range of values with some air around it."""
    low, high = min(values), max(values)
    air = (high - low) * share or max(abs(high), 1.0) * share
    return low - air, high + air


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers in a range.

    Examples
    --------
    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def whole_ticks(low: int, high: int, about: int = 8) -> list[int]:
    """Return whole numbers in a range, evenly spaced."""
    step = max(1, math.ceil((high - low) / about))
    if step > 5:
        step = 5 * math.ceil(step / 5)
    first = low if step == 1 else math.ceil(low / step) * step
    return list(range(first, high + 1, step))


def figure(
    title: str,
    description: str,
    *marks: object,
    height: float,
    width: float = WIDTH,
    class_: str = "",
) -> Html:
    """Return a drawing that also says in words what it shows."""
    return tag(
        "svg",
        tag("desc", description),
        *marks,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=f"{title}. {description}",
        class_=f"figure {class_}".strip(),
    )


def axes(
    x: Scale,
    y: Scale,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    x_label: str,
    y_label: str,
    write_y: Callable[[float], str] | None = None,
) -> Html:
    """Return grid lines, numbers and names of both axes."""
    left, right = min(x.start, x.stop), max(x.start, x.stop)
    bottom = max(y.start, y.stop)
    parts: list[Html] = []
    write_x = _writer(x_ticks)
    write_y = _writer(y_ticks) if write_y is None else write_y
    for value in y_ticks:
        at = y(value)
        parts.append(tag("line", x1=left, x2=right, y1=at, y2=at, class_="grid"))
        parts.append(text(write_y(value), left - 6, at + 4, "tick end"))
    for value in x_ticks:
        words, below = write_x(value), bottom + 16
        parts.append(text(words, x(value), below, "tick middle", data_at=value))
    return join(
        parts,
        tag("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis"),
        text(x_label, right, bottom + 32, "axis-name end"),
        text(y_label, 4.0, 14.0, "axis-name"),
    )


def _writer(values: Sequence[float]) -> Callable[[float], str]:
    """Return how to write ticks, with as many places as tell them apart."""
    most = max((abs(value) for value in values), default=0.0)
    if len(values) < 2 or not 1e-4 <= most < 1e7:
        return number
    step = abs(values[1] - values[0])
    places = next(p for p in range(9) if abs(round(step, p) - step) < 1e-9 or p == 8)
    return lambda value: f"{value:,.{places}f}".replace("-", "−")


def text(words: object, x: float, y: float, class_: str, **more: object) -> Html:
    """Return words at a place."""
    return tag("text", words, x=x, y=y, class_=class_, **more)


def cluster_number(cluster: int, x: float, y: float) -> Html:
    """Return a cluster's number, to be read on its colour."""
    return text(cluster, x, y, f"on middle t{cluster % COLOURS}")


def line(points: Sequence[tuple[float, float]], class_: str) -> Html:
    """Return a line through points."""
    places = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return tag("polyline", points=places, class_=class_)


def mark(name: str, tip: str, class_: str, /, **attributes: object) -> Html:
    """Return an element that shows `tip` under the pointer and under the keyboard."""
    return tag(
        name,
        class_=f"mark {class_}".strip(),
        data_tip=tip,
        aria_label=tip,
        role="img",
        **attributes,
    )


def marks(*inside: object, label: str) -> Html:
    """Group marks: one stop of the Tab key, arrow keys within."""
    return tag("g", *inside, data_marks=True, role="group", aria_label=label)


def colour(cluster: int) -> str:
    """Return the class of a cluster's colour."""
    return f"c{cluster % COLOURS}"


def hatch(cluster: int) -> str | None:
    """Return the hatching of a cluster beyond the palette, as a fill."""
    turn = cluster // COLOURS
    return None if turn == 0 else f"url(#hatch{(turn - 1) % HATCHES})"


def cluster_bar(
    cluster: int, tip: str, box: Mapping[str, float], **data: object
) -> list[Html]:
    """Return a bar in a cluster's colour, with its hatching if it has one."""
    bar = mark("rect", tip, f"bar fill {colour(cluster)}", **box, **data)
    over = hatch(cluster)
    if over is None:
        return [bar]
    shade = tag("rect", **box, fill=over, class_="bar-hatch", data_over=cluster)
    return [bar, shade]


def shape(cluster: int, x: float, y: float, r: float) -> str:
    """Return the outline of a cluster's small mark: circle, square, triangle, rhomb."""
    kind = cluster % SHAPES
    if kind == 0:
        half = f"a{r:g} {r:g} 0 1 0"
        return f"M{x - r:.1f} {y:.1f}{half} {2 * r:g} 0{half} {-2 * r:g} 0z"
    if kind == 1:
        return f"M{x - r:.1f} {y - r:.1f}h{2 * r:g}v{2 * r:g}h{-2 * r:g}z"
    if kind == 2:
        return f"M{x:.1f} {y - 1.2 * r:.1f}l{1.2 * r:g} {2.2 * r:g}h{-2.4 * r:g}z"
    q = 1.3 * r
    return f"M{x:.1f} {y - q:.1f}l{q:g} {q:g}l{-q:g} {q:g}l{-q:g} {-q:g}z"


def hatchings() -> Html:
    """Return the hatchings that drawings refer to, in a drawing nobody sees."""
    strokes = ("M0 6L6 0", "M0 0L6 6", "M3 0V6M0 3H6")
    patterns = [
        tag(
            "pattern",
            tag("path", d=stroke, class_="hatch"),
            id=f"hatch{i}",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
        )
        for i, stroke in enumerate(strokes)
    ]
    return tag("svg", tag("defs", patterns), class_="defs", aria_hidden="true")


def swatch(cluster: int) -> Html:
    """Return a cluster's colour and number, for legends and tables."""
    over, box = hatch(cluster), {"x": 1, "y": 1, "width": 22, "height": 16}
    return tag(
        "svg",
        tag("rect", **box, rx=3, class_=f"fill {colour(cluster)}"),
        None if over is None else tag("rect", **box, fill=over),
        cluster_number(cluster, 12, 13),
        viewBox="0 0 24 18",
        class_="swatch",
        role="img",
        aria_label=f"cluster {cluster}",
    )

# SPDX-License-Identifier: Apache-2.0
"""A curve with its axes and a mark at every point: an index over k, k over rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from afcl.report.markup import Html
from afcl.report.svg import (
    Scale,
    axes,
    figure,
    line,
    mark,
    marks,
    padded,
    ticks,
    whole_ticks,
)

#: Room for the numbers of the vertical axis ("1.2 MB").
LEFT = 60.0
#: Room for half a mark.
RIGHT = 17.0
#: Room for the numbers and the name of the horizontal axis.
BOTTOM = 42.0
#: Share of the values' range that is left free above and below them.
AIR = 0.1


@dataclass(frozen=True)
class LineChart:
    """One quantity against whole numbers.

    Attributes
    ----------
    points
        (where, how much), from left to right.
    width, height, top
        Of the drawing, and where the curve's own area begins.
    stairs
        Whether a value holds until the next point; then it is a whole number.
    """

    points: Sequence[tuple[int, float]]
    width: float
    height: float
    top: float = 28.0
    stairs: bool = False

    @cached_property
    def x(self) -> Scale:
        """From the points' places to the drawing."""
        return Scale(self.points[0][0], self.points[-1][0], LEFT, self.width - RIGHT)

    @cached_property
    def y(self) -> Scale:
        """From the points' values to the drawing."""
        low, high = padded([value for _, value in self.points], AIR)
        return Scale(low, high, self.height - BOTTOM, self.top)

    def place(self, point: tuple[int, float]) -> tuple[float, float]:
        """Return where a point lies on the drawing."""
        return self.x(point[0]), self.y(point[1])

    def axes(
        self,
        x_label: str,
        y_label: str,
        about: int = 6,
        write_y: Callable[[float], str] | None = None,
    ) -> Html:
        """Return both axes, with about so many numbers below."""
        # No axis shows what its quantity cannot be: below 0, or between whole numbers.
        least = min(value for _, value in self.points)
        y_ticks = [
            value
            for value in ticks(self.y.low, self.y.high, 4)
            if (value >= 0 or least < 0) and (not self.stairs or value == int(value))
        ]
        x_ticks = whole_ticks(self.points[0][0], self.points[-1][0], about)
        return axes(self.x, self.y, x_ticks, y_ticks, x_label, y_label, write_y)

    def curve(self) -> Html:
        """Return the line through the points."""
        drawn = [self.place(point) for point in self.points]
        if self.stairs:
            corners = zip(drawn, drawn[1:], strict=False)
            steps = [[(after[0], before[1]), after] for before, after in corners]
            drawn = drawn[:1] + [corner for pair in steps for corner in pair]
        return line(drawn, "curve")

    def dots(self, tips: Sequence[str], label: str, **data: Sequence[object]) -> Html:
        """Return a mark for every point; `data`: one more attribute of each."""
        dots = []
        for i, (point, tip) in enumerate(zip(self.points, tips, strict=True)):
            x, y = self.place(point)
            more = {name: values[i] for name, values in data.items()}
            dots.append(mark("circle", tip, "dot", cx=x, cy=y, r=3.5, **more))
        return marks(dots, label=label)

    def figure(self, title: str, description: str, *parts: object, class_: str) -> Html:
        """Return the parts as one drawing."""
        return figure(
            title,
            description,
            *parts,
            height=self.height,
            width=self.width,
            class_=class_,
        )

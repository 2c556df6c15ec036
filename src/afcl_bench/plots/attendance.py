# SPDX-License-Identifier: Apache-2.0
"""Who took part when: a map of sites and rounds."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from afcl._typing import Ints
from afcl.exceptions import InputError
from afcl.trace import Attendance, Event, Trace, attendance, history_of
from afcl_bench.plots.canvas import COLUMN, drawn_on, legend_above, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What a site did in a round (:class:`~afcl.trace.Attendance`) in words and colour;
#: light is little. (The colours are Okabe and Ito's, and three greys.)
STATES = {
    Attendance.NOT_ASKED: ("not asked", "#FFFFFF"),
    Attendance.ASKED: ("asked", "#D0D0D0"),
    Attendance.GONE: ("gone", "#808080"),
    Attendance.ANSWERED: ("answered", "#56B4E9"),
    Attendance.LATE: ("answered, to an older question", "#E69F00"),
    Attendance.HELLO: ("said hello", "#0072B2"),
    Attendance.TROUBLE: ("failed or rejected", "#D55E00"),
}
#: Sites beyond which names are thinned out.
NAMED = 30
#: Cells beyond which they are one image.
CELLS = 4000
#: Inches a site adds to the height,
ROW = 0.16
#: up to so many sites.
TALL = 40


def participation(
    trace: Trace | Sequence[Event], ax: Axes | None = None, **style: Any
) -> Axes:
    """Draw what every site did in every round.

    Parameters
    ----------
    trace : Trace or list of events
        Of a run, finished or not.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's by default.
    **style
        Of the map, as for ``ax.pcolormesh``.

    Returns
    -------
    matplotlib.axes.Axes
    """
    history = history_of(trace)
    if not history.sites:
        raise InputError("no site in this trace yet: there is nothing to draw")
    by_site = attendance(history)
    names = [history.sites[client].name for client in by_site]
    table = np.stack(list(by_site.values()))
    height = COLUMN[1] + ROW * max(0, min(len(names), TALL) - 8)
    with drawn_on(ax, (COLUMN[0], height)) as place:
        _draw_map(place, table, style)
        _name_sites(place, names)
        place.set_xlabel("round")
        _explain(place, table)
        return place


def _draw_map(ax: Axes, table: Ints, style: dict[str, Any]) -> None:
    shades = [colour for _, colour in STATES.values()]
    colours = import_module("matplotlib.colors").ListedColormap(shades)
    many = table.size > CELLS
    chosen = {
        "cmap": colours,
        "vmin": -0.5,
        "vmax": len(STATES) - 0.5,
        "edgecolors": "none" if many else "white",
        "linewidth": 0 if many else 0.4,
        "rasterized": many,
        **style,
    }
    across = np.arange(table.shape[1] + 1) - 0.5
    down = np.arange(table.shape[0] + 1) - 0.5
    ax.pcolormesh(across, down, table, **chosen)
    ax.set_ylim(table.shape[0] - 0.5, -0.5)
    whole_numbers(ax.xaxis)


def _name_sites(ax: Axes, names: Sequence[str]) -> None:
    step = -(-len(names) // NAMED)
    ax.set_yticks(range(0, len(names), step), list(names[::step]))


def _explain(ax: Axes, table: Ints) -> None:
    """Name the colours that occur."""
    patch = import_module("matplotlib.patches").Patch
    shown = [
        patch(facecolor=colour, edgecolor="0.6", linewidth=0.4, label=name)
        for state, (name, colour) in STATES.items()
        if (table == state).any()
    ]
    legend_above(ax, shown, columns=2)

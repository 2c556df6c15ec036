# SPDX-License-Identifier: Apache-2.0
"""Who took part when: a map of sites and rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from afcl._typing import Ints
from afcl.exceptions import InputError
from afcl.trace import Event, Trace
from afcl_bench.plots.canvas import COLUMN, drawn_on, legend_above, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What a site did in a round, from the least to what outdoes everything; light is
#: little. (The colours are Okabe and Ito's, and three greys.)
STATES = {
    "not asked": "#FFFFFF",
    "asked": "#D0D0D0",
    "answered": "#56B4E9",
    "answered, to an older question": "#E69F00",
    "said hello": "#0072B2",
    "failed or rejected": "#D55E00",
    "gone": "#808080",
}
_NAMES = list(STATES)
#: Sites beyond which names are thinned out, and cells beyond which they are one image.
NAMED, CELLS = 30, 4000
#: Inches a site adds to the height, up to so many sites.
ROW, TALL = 0.16, 40


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
    events = list(trace)
    names = site_names(events)
    if not names:
        raise InputError("no site in this trace yet: there is nothing to draw")
    table = attendance(events, len(names))
    height = COLUMN[1] + ROW * max(0, min(len(names), TALL) - 8)
    with drawn_on(ax, (COLUMN[0], height)) as place:
        _draw_map(place, table, style)
        _name_sites(place, names)
        place.set_xlabel("round")
        _explain(place, table)
        return place


def site_names(events: Iterable[Event]) -> list[str]:
    """Return the sites' names by their number; live runs name them as they join."""
    names: dict[int, str] = {}
    for event in events:
        if event["event"] == "run":
            names.update(enumerate(str(name) for name in event["clients"]))
        elif "client" in event:
            number = int(event["client"])
            names.setdefault(number, f"site {number}")
            if event["event"] == "ranges" and "name" in event:
                names[number] = str(event["name"])
    return [names.get(number, f"site {number}") for number in range(len(names))]


def attendance(events: Sequence[Event], n_sites: int) -> Ints:
    """Return the state of every site in every round, by its place in `STATES`.

    Parameters
    ----------
    events : sequence of events
    n_sites : int

    Returns
    -------
    ndarray of shape (n_sites, n_rounds)
        The first column is the start, before the first broadcast.
    """
    at = _rounds(events)
    table = np.zeros((n_sites, max(at, default=0) + 1), dtype=np.int64)
    for event, number in zip(events, at, strict=True):
        kind = event["event"]
        if kind == "left":
            table[event["client"], number:] = _NAMES.index("gone")
        elif (state := _state(event)) is not None:
            row = table[event["client"]]
            if row[number] == _NAMES.index("gone"):  # it is back
                row[number:] = 0
            row[number] = max(row[number], _NAMES.index(state))
    return table


def _state(event: Event) -> str | None:
    kind = event["event"]
    if kind == "update":
        stale = event["staleness"] > 0
        return "answered, to an older question" if stale else "answered"
    return {
        "send": "asked",
        "hello": "said hello",
        "rejected": "failed or rejected",
        "failure": "failed or rejected",
    }.get(kind)


def _rounds(events: Sequence[Event]) -> list[int]:
    """Return every event's round, from its tick and those that say both."""
    known = [(e["tick"], e["round"]) for e in events if "round" in e]
    ticks = [event.get("tick", 0) for event in events]
    if not known:
        return [int(tick) for tick in ticks]
    last_tick, last_round = known[-1]
    known_ticks, known_rounds = np.array(known, dtype=np.float64).T
    found = np.floor(np.interp(ticks, known_ticks, known_rounds)).astype(int)
    return [
        int(last_round + tick - last_tick) if tick > last_tick else int(number)
        for tick, number in zip(ticks, found, strict=True)
    ]


def _draw_map(ax: Axes, table: Ints, style: dict[str, Any]) -> None:
    colours = import_module("matplotlib.colors").ListedColormap(list(STATES.values()))
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
        for number, (name, colour) in enumerate(STATES.items())
        if (table == number).any()
    ]
    legend_above(ax, shown, columns=2)

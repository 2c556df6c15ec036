# SPDX-License-Identifier: Apache-2.0
"""Over the rounds of a run: where the seeds go, and the objective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from afcl._typing import Floats
from afcl.exceptions import InputError
from afcl.trace import Event, Trace
from afcl_bench.plots.canvas import COLOURS, drawn_on, legend_above, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A trace, or its events.
Events: TypeAlias = Trace | Sequence[Event]

#: What the objective of a method is.
OBJECTIVES = {
    "afcl": "moment silhouette",
    "afcl-paper": "objective Z",
    "afcl-matlab": "objective Z",
}


def prepared(trace: Iterable[Event]) -> list[Event]:
    """Return what the server thought, round by round."""
    return [event for event in trace if event["event"] == "prepare"]


# ------------------------------------------------------------------ trajectories


def trajectories(
    trace: Events,
    ax: Axes | None = None,
    *,
    centers: ArrayLike | None = None,
    result: Mapping[str, Any] | None = None,
    **style: Any,
) -> Axes:
    """Draw where the seeds go, round by round (the paper's Fig. 3).

    Parameters
    ----------
    trace : Trace or list of events
        Of a run whose method has seeds.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's by default.
    centers : array-like of shape (k, n_features), optional
        Centres at the end, on the scale of the trace.
    result : dict, optional
        Content of the run's ``result.json``: centres, and the units of the axes.
    **style
        Of the ways, as for ``ax.plot``.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    Seeds at the start are grey, where they end blue, the centres crosses. Two features
    are the plane itself; of more, the first two principal axes of the seeds at the end;
    a single one is drawn against the rounds.
    """
    events = [event for event in prepared(trace) if event.get("seeds")]
    if not events:
        raise InputError(
            "this trace holds no seeds: trajectories need a run of AFCL, or of a rival "
            "with centres, that has heard a first message"
        )
    seeds = [np.array(event["seeds"], dtype=np.float64) for event in events]
    ends = None if centers is None else np.array(centers, dtype=np.float64)
    names = [f"x{_low(j + 1)} (scaled)" for j in range(seeds[0].shape[1])]
    if result is not None:
        low, span = (np.array(result["scale"][name]) for name in ("low", "span"))
        seeds = [low + span * places for places in seeds]
        names = list(result["columns"])
        if ends is None and result["centers"] is not None:
            ends = np.array(result["centers"], dtype=np.float64)
        elif ends is not None:
            ends = low + span * ends
    plane = _plane(seeds, ends, [event["round"] for event in events], names)
    with drawn_on(ax) as place:
        _draw_ways(place, *plane, style)
        if ax is None:
            legend_above(place)
        return place


def _draw_ways(
    ax: Axes,
    seeds: list[Floats],
    ends: Floats | None,
    names: Sequence[str],
    style: Mapping[str, Any],
) -> None:
    chosen = {"color": COLOURS[5], "linewidth": 1, **style}
    ax.plot(*seeds[0].T, "o", color="0.65", markersize=4, label="seeds at the start")
    # One line a seed, as long as seeds neither merge nor come.
    for _, group in groupby(seeds, key=len):
        ways = np.stack(list(group))
        if len(ways) > 1:
            ax.plot(ways[:, :, 0], ways[:, :, 1], "-", **chosen)
    ax.plot(*seeds[-1].T, ".", color=COLOURS[0], markersize=4, label="at the end")
    if ends is not None:
        cross: dict[str, Any] = {
            "color": COLOURS[1],
            "markersize": 9,
            "markeredgewidth": 2,
        }
        ax.plot(*ends.T, "x", label="centres", **cross)
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])


def _plane(
    seeds: list[Floats],
    ends: Floats | None,
    rounds: Sequence[int],
    names: Sequence[str],
) -> tuple[list[Floats], Floats | None, tuple[str, str]]:
    """Return seeds and centres in the plane, and what its axes are."""
    d = seeds[0].shape[1]
    if d == 1:
        flat = [
            np.column_stack([np.full(len(places), number), places])
            for number, places in zip(rounds, seeds, strict=True)
        ]
        if ends is not None:
            ends = np.column_stack([np.full(len(ends), rounds[-1]), ends])
        return flat, ends, ("round", names[0])
    if d == 2:
        return seeds, ends, (names[0], names[1])
    middle = seeds[-1].mean(axis=0)
    spread = np.concatenate(seeds).std(axis=0)
    spread[spread == 0] = 1.0
    _, _, axes = np.linalg.svd((seeds[-1] - middle) / spread, full_matrices=True)

    def flattened(points: Floats) -> Floats:
        projected: Floats = (points - middle) / spread @ axes[:2].T
        return projected

    labels = ("first principal axis", "second principal axis")
    return (
        [flattened(p) for p in seeds],
        None if ends is None else flattened(ends),
        labels,
    )


def _low(number: int) -> str:
    """Return a number in low digits."""
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


# ------------------------------------------------------------------ objective


def objective(
    trace: Events | Mapping[str, Events],
    ax: Axes | None = None,
    **style: Any,
) -> Axes:
    """Draw the objective per round (the paper's Fig. 4).

    Parameters
    ----------
    trace : Trace, list of events, or dict of them
        One run, or several by the name they have in the legend.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's by default.
    **style
        Of the lines, as for ``ax.plot``.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    The objective is the method's own: the moment silhouette of the answer so far for
    AFCL's default preset (more is better), Z for the other two (less is better).
    """
    several = isinstance(trace, Mapping)
    runs: Mapping[str, Events] = trace if isinstance(trace, Mapping) else {"": trace}
    courses = {name: _course(events) for name, events in runs.items()}
    if not any(rounds for rounds, _ in courses.values()):
        raise InputError(
            "no objective in this trace: its server has not heard a first message, or "
            "its method has none"
        )
    with drawn_on(ax) as place:
        for number, (name, (rounds, values)) in enumerate(courses.items()):
            chosen: dict[str, Any] = {**line_style(number), "linewidth": 1.2, **style}
            if several:
                chosen.setdefault("label", name)
            place.plot(rounds, values, **chosen)
        place.set_xlabel("round")
        place.set_ylabel(_named([*runs.values()]))
        place.ticklabel_format(axis="y", useOffset=False)
        if several:
            place.legend()
        return place


def _course(events: Iterable[Event]) -> tuple[list[int], list[float]]:
    known = [e for e in prepared(events) if e.get("objective") is not None]
    return [e["round"] for e in known], [float(e["objective"]) for e in known]


def _named(runs: Iterable[Iterable[Event]]) -> str:
    """Return what the axis shows, if all runs agree on it."""
    names = {
        OBJECTIVES.get(event["method"], "objective")
        for events in runs
        for event in events
        if event["event"] == "run"
    }
    return names.pop() if len(names) == 1 else "objective"

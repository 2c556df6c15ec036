# SPDX-License-Identifier: Apache-2.0
"""Pictures of what many runs gave: ranks, growth, quality against privacy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afcl._typing import Floats
from afcl.exceptions import InputError
from afcl_bench.diagram import cd_diagram
from afcl_bench.plots.canvas import drawn_on, legend_above, line_style
from afcl_bench.significance import CriticalDifference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A line of a table, by the names of its columns.
TableRow = Mapping[str, Any]


def critical_difference(
    found: CriticalDifference, ax: Axes | None = None, **style: Any
) -> Axes:
    """Draw average ranks on a line, and how far a difference could be chance.

    Parameters
    ----------
    found : CriticalDifference
        From :func:`afcl.metrics.critical_difference`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's by default.
    **style
        Of all its texts, as for ``Text.set``, such as ``fontsize=7``.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from afcl_bench.significance import critical_difference as ranks_of
    >>> scores = [[0.9, 0.5, 0.1], [0.8, 0.6, 0.2], [0.7, 0.3, 0.4]]
    >>> ax = critical_difference(ranks_of(scores, ["ours", "b", "c"], "ours"))
    """
    drawn: Axes = cd_diagram(found, ax)
    for text in drawn.texts:
        text.set(**style)
    return drawn


# ------------------------------------------------------------------ growth


def exponent(sizes: Floats, seconds: Floats) -> float:
    """Fit seconds = c size^e and return e; NaN of a single size.

    Examples
    --------
    >>> round(exponent(np.array([1.0, 2.0, 4.0]), np.array([3.0, 12.0, 48.0])), 3)
    2.0
    """
    if len(sizes) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def time_growth(
    rows: Iterable[TableRow],
    ax: Axes | None = None,
    *,
    label: str = "rows",
    methods: Sequence[str] | None = None,
    **style: Any,
) -> Axes:
    """Draw seconds against size on logarithmic axes, the fitted growth in the legend.

    Parameters
    ----------
    rows : iterable of dict
        With `method`, `size` and `seconds` (None: no answer). Of several with the same
        method and size the median counts.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's by default.
    label : str
        What the sizes are.
    methods : sequence of str, optional
        Those to draw, in this order; all of them by default.
    **style
        Of the lines, as for ``ax.plot``.

    Returns
    -------
    matplotlib.axes.Axes
    """
    times: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        by_size = times.setdefault(str(row["method"]), {})
        if row["seconds"] is not None and not math.isnan(row["seconds"]):
            by_size.setdefault(float(row["size"]), []).append(float(row["seconds"]))
    with drawn_on(ax) as place:
        for number, method in enumerate(methods or times):
            known = sorted(times.get(method, {}).items())
            if not known:
                continue
            sizes = np.array([size for size, _ in known])
            medians = np.array([np.median(seconds) for _, seconds in known])
            grows = exponent(sizes, medians)
            name = method if math.isnan(grows) else f"{method} (e = {grows:.2f})"
            place.plot(sizes, medians, **{**line_style(number), "label": name, **style})
        place.set_xscale("log")
        place.set_yscale("log")
        place.set_xlabel(label)
        place.set_ylabel("seconds")
        if place.get_legend_handles_labels()[0]:
            legend_above(place, columns=2)
        return place


# ------------------------------------------------------------------ privacy


def quality_epsilon(
    rows: Iterable[TableRow],
    ax: Axes | None = None,
    *,
    value: str = "score",
    label: str | None = None,
    **style: Any,
) -> Axes:
    """Draw quality against ε, a line for every data set.

    Parameters
    ----------
    rows : iterable of dict
        With `dataset`, `epsilon` (None or infinite: without noise) and what `value`
        names. Of several with the same data set and ε the mean counts.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's by default.
    value : str
        What to draw: ``score``, or ``k_share``, the share of runs with the right k.
    label : str, optional
        What that is called.
    **style
        Of the lines, as for ``ax.plot``.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    ε is on a logarithmic axis, strong privacy on the left; runs without noise stand
    at its right end, at ∞.
    """
    found = _by_epsilon(rows, value)
    levels = sorted({epsilon for known in found.values() for epsilon in known})
    finite = [epsilon for epsilon in levels if math.isfinite(epsilon)]
    beyond = 2 * finite[-1] if finite else 1.0
    with drawn_on(ax) as place:
        for number, (name, known) in enumerate(found.items()):
            at = [min(epsilon, beyond) for epsilon in sorted(known)]
            means = [float(np.mean(known[epsilon])) for epsilon in sorted(known)]
            chosen = {**line_style(number), "linewidth": 1.2, "label": name, **style}
            place.plot(at, means, **chosen)
        place.set_xscale("log")
        _tick(place, finite, beyond, math.inf in levels)
        place.set_xlabel("ε (left: more private)")
        place.set_ylabel(label or value.replace("_", " "))
        legend_above(place)
        return place


def _by_epsilon(
    rows: Iterable[TableRow], value: str
) -> dict[str, dict[float, list[float]]]:
    """Return the values by data set and ε (infinite: without noise)."""
    found: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        if value not in row:
            raise InputError(f"these rows have no {value!r}: {', '.join(row)}")
        epsilon = math.inf if row["epsilon"] is None else float(row["epsilon"])
        if epsilon <= 0:
            raise InputError(f"epsilon must be above 0, not {epsilon:g}")
        by_epsilon = found.setdefault(str(row["dataset"]), {})
        by_epsilon.setdefault(epsilon, []).append(float(row[value]))
    if not found:
        raise InputError(
            "there are no rows to draw: give some with dataset and epsilon"
        )
    return found


def _tick(ax: Axes, finite: list[float], beyond: float, unbounded: bool) -> None:
    """Mark the values of ε that were run, and nothing between them."""
    ticks, names = [*finite], [f"{epsilon:g}" for epsilon in finite]
    if unbounded:
        ticks.append(beyond)
        names.append("∞")
    ax.set_xticks(ticks, names)
    ax.set_xticks([], minor=True)

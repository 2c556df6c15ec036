# SPDX-License-Identifier: Apache-2.0
"""The k-path: an index for every k that was considered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from afcl._typing import Floats
from afcl.exceptions import InputError
from afcl.registry import INDICES
from afcl_bench.plots.canvas import COLOURS, drawn_on, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def k_path(
    result: Any, ax: Axes | None = None, *, index: str = "silhouette", **style: Any
) -> Axes:
    """Draw an index by k, the chosen k' marked.

    Parameters
    ----------
    result : dict or fitted estimator
        Content of a run's ``result.json``, or what has `path_` and `n_clusters_`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's by default.
    index : str
        ``silhouette``, ``simplified``, ``ch``, ``db`` or ``bic``.
    **style
        Of the line, as for ``ax.plot``.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    A run that found a single cluster has no index; the picture then says so.
    """
    chosen, ks, scores = _levels(result, index)
    known = ~np.isnan(scores)
    with drawn_on(ax) as place:
        place.set_xlabel("number of clusters k")
        place.set_ylabel(_title(index))
        if not known.any():
            text = f"k' = {chosen}: no index is defined"
            place.text(0.5, 0.5, text, ha="center", transform=place.transAxes)
            place.set_xticks([chosen])
            place.set_yticks([])
            return place
        line = {"color": COLOURS[0], "marker": "o", "markersize": 3, "linewidth": 1.2}
        place.plot(ks[known], scores[known], **{**line, **style})
        _mark(place, chosen, ks, scores)
        whole_numbers(place.xaxis)
        return place


def _mark(ax: Axes, chosen: int, ks: Floats, scores: Floats) -> None:
    """Ring the chosen k and write its value beside it."""
    ax.axvline(chosen, color=COLOURS[1], linewidth=0.8, linestyle="--")
    at = np.flatnonzero((ks == chosen) & ~np.isnan(scores))
    text = f"k' = {chosen}"
    if at.size:
        value = float(scores[at[0]])
        ring: dict[str, Any] = {
            "markersize": 8,
            "markeredgewidth": 1.5,
            "color": COLOURS[1],
        }
        ax.plot([chosen], [value], "o", fillstyle="none", **ring)
        text += f" ({value:.4g})"
    ax.annotate(
        text,
        (chosen, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        color=COLOURS[1],
    )


def _title(index: str) -> str:
    if index not in INDICES:
        return index
    known = INDICES[index]
    return known.title if known.higher_is_better else f"{known.title} (less is better)"


def _levels(result: Any, index: str) -> tuple[int, Floats, Floats]:
    """Return k', every k, and the index of each (NaN where it is not defined)."""
    if isinstance(result, Mapping):
        chosen, levels = int(result["n_clusters"]), result["path"]
        ks = np.array([level["k"] for level in levels], dtype=np.float64)
        by_name = {
            name: [level["scores"].get(name) for level in levels]
            for name in _names(levels)
        }
    else:
        path, chosen = result.path_, int(result.n_clusters_)
        ks, by_name = np.array(path.k, dtype=np.float64), dict(path.scores)
    if not ks.size:
        raise InputError("this run has no path: its method was told k")
    if index not in by_name:
        raise InputError(
            f"this path has no index {index!r}; choose one of {', '.join(by_name)}"
        )
    values = [np.nan if value is None else float(value) for value in by_name[index]]
    return chosen, ks, np.array(values)


def _names(levels: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for level in levels for name in level["scores"]))

# SPDX-License-Identifier: Apache-2.0
"""The critical-difference diagram; Matplotlib is loaded when one is drawn."""

from __future__ import annotations

from typing import Any

from afcl_bench.significance import CriticalDifference

# Heights, in rows of text below the scale (negative: above it).
#: The bar as long as the critical difference.
RULER = -1.4
#: The numbers of the scale.
NUMBERS = -0.3
#: The bar over methods that do not differ.
REACH = 0.45
#: The first method's name.
FIRST = 1.2


def cd_diagram(data: CriticalDifference, ax: Any = None) -> Any:
    """Draw average ranks on a line, and a bar as far as the control's rivals reach.

    Parameters
    ----------
    data : CriticalDifference
        From :func:`~afcl.metrics.critical_difference`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure's by default (`ax.figure.savefig` writes it).

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If Matplotlib is needed and not installed.

    Notes
    -----
    The best rank is on the left. Methods whose rank lies under the thick bar cannot be
    told from the control, which is set in bold.
    """
    ax = _new_axes(len(data.names)) if ax is None else ax
    _draw_scale(ax, len(data.names))
    _draw_reach(ax, data)
    _draw_methods(ax, data)
    return ax


def _new_axes(n_methods: int) -> Any:
    """Return the axes of a new figure that belongs to no window."""
    from matplotlib.figure import Figure

    height = 1.2 + 0.15 * n_methods
    return Figure(figsize=(7.0, height), layout="constrained").subplots()


def _draw_scale(ax: Any, n_methods: int) -> None:
    """Draw the line of ranks with its numbers, and set the limits."""
    ax.plot([1, n_methods], [0, 0], color="black", linewidth=1)
    for rank in range(1, n_methods + 1):
        ax.plot([rank, rank], [0, -0.15], color="black", linewidth=1)
        ax.text(rank, NUMBERS, str(rank), ha="center", va="bottom")
    margin = 0.3 * n_methods
    ax.set_xlim(1 - margin, n_methods + margin)
    ax.set_ylim(FIRST + (n_methods + 1) // 2, RULER - 0.8)
    ax.set_axis_off()


def _draw_reach(ax: Any, data: CriticalDifference) -> None:
    """Draw the length of the critical difference, and its reach around the control."""
    k = len(data.names)
    ax.plot([1, 1 + data.cd], [RULER, RULER], color="black", linewidth=1.5)
    text = f"CD = {data.cd:.4g} (α = {data.alpha:g})"
    ax.text(1 + data.cd / 2, RULER - 0.1, text, ha="center", va="bottom")
    low = max(1.0, data.control_rank - data.cd)
    high = min(float(k), data.control_rank + data.cd)
    ax.plot([low, high], [REACH, REACH], color="black", linewidth=4, alpha=0.6)


def _draw_methods(ax: Any, data: CriticalDifference) -> None:
    """Draw a line from every rank to its name, the better half on the left."""
    k = len(data.names)
    left = (k + 1) // 2
    for place, (name, rank) in enumerate(zip(data.names, data.ranks, strict=True)):
        is_left = place < left
        depth = FIRST + (place if is_left else k - 1 - place)
        edge = 1 - 0.04 * k if is_left else k + 0.04 * k
        ax.plot([rank, rank, edge], [0, depth, depth], color="gray", linewidth=1)
        ax.text(
            edge,
            depth,
            f"{name} {rank:.2f} " if is_left else f" {rank:.2f} {name}",
            ha="right" if is_left else "left",
            va="center",
            fontweight="bold" if name == data.control else "normal",
        )

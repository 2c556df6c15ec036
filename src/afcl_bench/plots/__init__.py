# SPDX-License-Identifier: Apache-2.0
"""Pictures for papers: Matplotlib functions ``(what, ax=None, **style) -> ax``.

They read traces, results and tables of figures, never the algorithm. Without `ax` a
new figure of one column's width is made, which belongs to no window; `save` writes it.
Matplotlib is loaded when one is drawn.
"""

from __future__ import annotations

from afcl_bench.plots.attendance import participation
from afcl_bench.plots.canvas import (
    COLOURS,
    FORMATS,
    MARKERS,
    line_style,
    panels,
    save,
    shared_legend,
)
from afcl_bench.plots.path import k_path
from afcl_bench.plots.rounds import objective, prepared, trajectories
from afcl_bench.plots.tables import (
    critical_difference,
    exponent,
    quality_epsilon,
    time_growth,
)

__all__ = [
    "COLOURS",
    "FORMATS",
    "MARKERS",
    "critical_difference",
    "exponent",
    "k_path",
    "line_style",
    "objective",
    "panels",
    "participation",
    "prepared",
    "quality_epsilon",
    "save",
    "shared_legend",
    "time_growth",
    "trajectories",
]

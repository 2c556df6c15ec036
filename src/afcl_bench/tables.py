# SPDX-License-Identifier: Apache-2.0
"""Tables of a report, as Markdown, CSV and LaTeX; numbers as people read them."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats
from afcl.texts import csv_cell

#: Where a figure is missing.
NONE = "–"
#: Signs as LaTeX has them.
SIGNS = {
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "∞": r"$\infty$",
    "→": r"$\to$",
    "·": r"$\cdot$",
    "²": r"$^2$",
    "α": r"$\alpha$",
    NONE: "--",
}


@dataclass(frozen=True)
class Table:
    """A table of text; `**…**` marks what is to stand out."""

    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table for a page, its caption above it."""
        lines = [self.caption, "", _bar(self.header), _bar(["---"] * len(self.header))]
        return "\n".join([*lines, *(_bar(row) for row in self.rows)]) + "\n"

    def csv(self) -> str:
        """Return the table for a spreadsheet."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in (self.header, *self.rows):
            writer.writerow([csv_cell(cell.replace("**", "")) for cell in row])
        return text.getvalue()

    def latex(self) -> str:
        """Return the table for a paper (booktabs)."""
        columns = "l" + "r" * (len(self.header) - 1)
        body = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in self.rows]
        lines = [
            rf"% {self.caption}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(_tex(cell) for cell in self.header) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number to so many places; large ones with fewer, none as a dash."""
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.{digits}f}"


def mean_std(values: Floats, digits: int = 3) -> str:
    """Return mean ± standard deviation; what is missing is left out and said."""
    known = values[~np.isnan(values)]
    if known.size == 0:
        return NONE
    text = f"{number(float(known.mean()), digits)} ± {number(float(known.std()), 2)}"
    return text if known.size == values.size else f"{text} ({known.size} runs)"


def share(part: float) -> str:
    """Return a share in per cent."""
    return NONE if math.isnan(part) else f"{100 * part:.0f} %"


def standing_out(texts: Sequence[str], values: Floats, most: bool = True) -> list[str]:
    """Mark the best of a column."""
    known = values[~np.isnan(values)]
    if known.size == 0:
        return list(texts)
    best = known.max() if most else known.min()
    return [
        f"**{text}**" if value == best else text
        for text, value in zip(texts, values, strict=True)
    ]


def _bar(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _tex(text: str) -> str:
    for sign in ("&", "%", "#", "_"):
        text = text.replace(sign, "\\" + sign)
    for sign, tex in SIGNS.items():
        text = text.replace(sign, tex)
    return re.sub(r"\*\*(.+?)\*\*", r"\\textbf{\1}", text)

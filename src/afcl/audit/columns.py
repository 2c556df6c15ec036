# SPDX-License-Identifier: Apache-2.0
"""What the agreement and the first messages tell of categories and gaps.

The names of levels are in the names of columns. How many rows of a site have a level is
the sum of its cells' means times their counts; that rows are missing from its cells
tells how many were set aside because of gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Bools, Floats
from afcl.audit.wire import Tapped
from afcl.core.messages import Cells
from afcl.core.tasks import SecureHello
from afcl.gaps import has_gaps
from afcl.privacy.attacks import FEW, hellos
from afcl.scale import Ranges


@dataclass(frozen=True, slots=True)
class ColumnsTold:
    """What a server that reads the first messages knows of categories and gaps.

    Attributes
    ----------
    levels, counted
        Levels of categories at sites, and how many of them whose rows it counts right.
    rare, rare_counted
        The same, of levels that one to four rows of a site have.
    off
        By how many rows its counts are off, the mean.
    with_gaps, set_aside
        Sites with gaps, and how many of them whose rows that do not speak it counts.
    lacking
        Columns that a site has no value of, and that it is told of.
    """

    levels: int
    counted: int
    rare: int
    rare_counted: int
    off: float
    with_gaps: int
    set_aside: int
    lacking: int


def columns_told(run: Tapped, categories: Bools | None) -> ColumnsTold | None:
    """Return what first messages tell; None where there are neither."""
    gaps = [has_gaps(site.rows) for site in run.sites]
    if categories is None and not any(gaps):
        return None
    wrong, rows, aside = _counts(run, categories, gaps)
    rare = (rows > 0) & (rows < FEW)
    ranges = [one.reply for one in run.exchanges if isinstance(one.reply, Ranges)]
    return ColumnsTold(
        rows.size,
        int((wrong < 1 / 2).sum()),
        int(rare.sum()),
        int((rare & (wrong < 1 / 2)).sum()),
        float(wrong.mean()) if wrong.size else 0.0,
        sum(gaps),
        aside,
        sum(int(np.isnan(each.low).sum()) for each in ranges),
    )


def _counts(
    run: Tapped, categories: Bools | None, gaps: list[bool]
) -> tuple[Floats, Floats, int]:
    """Return how far counts of levels are off, the true ones, and rows set aside."""
    wrong, rows, aside = [np.empty(0)], [np.empty(0)], 0
    for client, payload in hellos(run.exchanges):
        cells = payload.cells if isinstance(payload, SecureHello) else payload
        if not isinstance(cells, Cells):
            continue
        site = run.sites[client]
        if gaps[client] and int(cells.counts.sum()) == _speaking(run, client):
            aside += 1
        if categories is not None:
            means = run.terms.box.unscale(cells.means)
            inferred = (cells.counts[:, None] * means).sum(axis=0)
            held = np.nansum(site.rows, axis=0)
            wrong.append(np.abs(inferred - held)[categories])
            rows.append(held[categories])
    return np.concatenate(wrong), np.concatenate(rows), aside


def _speaking(run: Tapped, client: int) -> int:
    site: Any = run.sites[client]
    return int(site.scaled(run.terms).shape[0])


def in_words(found: ColumnsTold | None) -> tuple[str, ...]:
    """Say what first messages tell."""
    lines = []
    if found is not None and found.levels:
        lines.append(
            f"of {found.counted} of {found.levels} levels at sites the number of rows "
            f"follows from first messages, of {found.rare_counted} of {found.rare} "
            f"that one to four rows have (off by {found.off:.2g} rows on average)"
        )
    if found is not None and found.with_gaps:
        lines.append(
            "how many rows were set aside because of gaps is told of "
            f"{found.set_aside} of {found.with_gaps} sites with gaps"
        )
    return tuple(lines)

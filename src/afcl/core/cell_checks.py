# SPDX-License-Identifier: Apache-2.0
"""Cells that no honest client can have: numbers and geometry, checked by the server.

Rows lie in the agreed box, or at most one box width beyond (a late joiner's may); so do
the means of cells, and their scatters are bounded. A mean of rows lies between the
extremes that the client itself announced. Rows that are nearest to one seed lie in that
seed's Voronoi cell, which is convex, so their mean lies in it too. What rounding can do
is allowed for.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.cells import union
from afcl.core.messages import Cells, check_finite, check_form, refuse_unless
from afcl.core.state import ServerState
from afcl.kernels import assign

#: Most cells of one message, unless more seeds than that were asked for.
MOST_CELLS = 256
#: The box is [0, 1] in agreed units; one width below it is allowed,
LOW = -1.0
#: and one above.
HIGH = 2.0
#: Means beyond this could overflow where no box is agreed,
LARGEST = 1e120
#: and so could scatters beyond this.
WIDEST = 1e255
#: The owner of a cell that rows of several centres were folded into.
NOBODY = -1
#: What rounding may do altogether, relative to the numbers at hand.
SLACK = 1e-9
#: What it may do to a single number.
ROUNDING = float(np.finfo(np.float64).eps)


def check_bags(
    state: ServerState, bags: tuple[Any, ...], width: int, client: ClientId, n_rows: int
) -> Cells:
    """Check the form of every bag, then all their numbers together; return these."""
    least = state.params.min_cell
    # Cells of at least so many rows: more than fit cannot be true.
    most = min(most_cells(state), max(1, n_rows // least))
    for bag in bags:
        refuse_unless(
            not isinstance(bag, Cells) or _length(bag.counts) <= most,
            f"more than {most} cells of {n_rows} rows",
        )
        # Bag by bag before all together: joining arrays of other shapes would fail.
        check_form(bag, width, n_rows, least)
    cells = bags[0] if len(bags) == 1 else union(bags)
    # Once over all numbers of a message: that is most of what checking costs (0017).
    check_finite(cells)
    refuse_unless(
        bool(np.abs(cells.means).max() <= LARGEST and cells.scatters.max() <= WIDEST),
        f"a mean is beyond {LARGEST:g} or a scatter beyond {WIDEST:g}",
    )
    if state.bounded:
        exact = state.params.exact_cells
        _check_box(cells, exact, _slack(n_rows))
        refuse_unless(
            not exact or _differ(cells.means, [len(bag) for bag in bags]),
            "two cells have the same mean",
        )
    # What it announced it is held to: the box was made of it.
    if client in state.extremes:
        low, high = state.extremes[client]
        slack = _slack(n_rows) * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
        refuse_unless(
            bool(
                (cells.means.min(axis=0) >= low - slack).all()
                and (cells.means.max(axis=0) <= high + slack).all()
            ),
            "a mean lies outside the extremes that the client announced",
        )
    return cells


def most_cells(state: ServerState) -> int:
    """Return the most cells of one client around seeds or centres."""
    return max(MOST_CELLS, state.params.n_seeds or 0)


def _length(counts: Any) -> int:
    return counts.size if isinstance(counts, np.ndarray) else 0


def _differ(means: Floats, lengths: list[int]) -> bool:
    """Whether in each of several runs of rows no two are equal."""
    rows = means + 0.0  # there are two zeros
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0].tolist()
    ends = list(accumulate(lengths))
    starts = [end - length for end, length in zip(ends, lengths, strict=True)]
    runs = zip(starts, ends, strict=True)
    return all(len(set(keys[start:end])) == end - start for start, end in runs)


def _slack(n_rows: int) -> float:
    """Return what rounding can do to a mean of so many numbers of size 1."""
    return SLACK + 4 * n_rows * ROUNDING


def _check_box(cells: Cells, exact: bool, slack: float) -> None:
    """Check means and, unless they are noisy, scatters against the widened box.

    Of numbers in [low, high] with mean b the mean square around b is at most
    (high - b)(b - low) (Bhatia and Davis). It holds for groups of rows too: a group
    counts like two rows one standard deviation to each side of its mean, and those are
    what the box is made of at the level `grouped`. At `dp` two noisy means may be cut
    off at the same place.
    """
    means = cells.means
    refuse_unless(
        bool(means.min() >= LOW - slack and means.max() <= HIGH + slack),
        "a mean lies more than one width outside the agreed box",
    )
    widest = np.maximum((HIGH - means) * (means - LOW), 0.0).sum(axis=1)
    widest += 9 * slack * means.shape[1]
    refuse_unless(
        not exact or bool((cells.scatters <= cells.counts * widest).all()),
        "a scatter is larger than the agreed box allows",
    )


def lie_around(cells: Cells, owners: list[Ints], places: list[Floats]) -> bool:
    """Whether every cell with an owner lies in the owner's Voronoi cell.

    Cells come level by level, as their owners and the levels' centres do.
    """
    sizes = [each.shape[0] for each in owners]
    ends = np.cumsum(sizes)
    parts = zip(np.split(cells.means, ends[:-1]), places, strict=True)
    nearest = np.concatenate([assign(part, centers)[1] for part, centers in parts])
    most = np.maximum.reduceat(cells.counts, ends - sizes)
    # Every cell's owner among all centres of all levels.
    before = np.cumsum([0, *(centers.shape[0] for centers in places[:-1])])
    every = np.concatenate(owners)
    own = np.flatnonzero(every != NOBODY)
    level = np.repeat(np.arange(len(owners)), sizes)[own]
    mine = np.concatenate(places)[every[own] + before[level]]
    means = cells.means[own]
    length = (means * means).sum(axis=1) + (mine * mine).sum(axis=1)
    length += cells.scatters[own] / cells.counts[own]
    slack = (SLACK + 4 * ROUNDING * most[level]) * length
    apart = ((means - mine) ** 2).sum(axis=1)
    return bool((apart <= nearest[own] + slack).all())

# SPDX-License-Identifier: Apache-2.0
"""What nobody honest says in the default preset: checked before anything is done.

Sizes first, then types, shapes and numbers (:func:`messages.check_cells`), then what
geometry demands. Rows lie in the agreed box, or at most one box width beyond (a late
joiner's may); so do the means of cells, and their scatters are bounded. A mean of rows
lies between the extremes that the client itself announced. Rows that are nearest to one
seed lie in that seed's Voronoi cell, which is convex, so their mean lies in it too.
Whatever rounding can do is allowed for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.messages import (
    Cells,
    Hello,
    Level,
    LevelReply,
    Plan,
    Summary,
    Update,
    check_cells,
    refuse_unless,
)
from afcl.core.seeding import distinct
from afcl.core.state import ServerState
from afcl.kernels import squared_distances

#: Most rows a client may register: no sum over all clients overflows.
MOST_ROWS = 1 << 40
#: Most cells of one message, unless more seeds than that were asked for.
MOST_CELLS = 256
#: The box is [0, 1] in agreed units; one width beyond it is allowed.
LOW, HIGH = -1.0, 2.0
#: Means and scatters beyond these could overflow where no box is agreed.
LARGEST, WIDEST = 1e120, 1e255
#: What rounding may do, relative to the numbers at hand.
SLACK = 1e-9


def check_hello(state: ServerState, hello: Hello) -> int:
    """Refuse a hello that cannot be; return the number of its features."""
    cells, n_rows = hello.payload, hello.n_rows
    refuse_unless(isinstance(cells, Cells), "a hello must carry cells")
    refuse_unless(
        type(n_rows) is int and 1 <= n_rows <= MOST_ROWS,
        f"a client must register at least one row and at most {MOST_ROWS}",
    )
    width = _width(cells) if state.n_features < 0 else state.n_features
    refuse_unless(width >= 1, "the means of cells must have features")
    _check_cells(state, cells, width, hello.client, n_rows)
    return width


def check_update(state: ServerState, update: Update) -> None:
    """Refuse an answer that cannot be, or that does not answer what was sent.

    Seeds and candidates move without a new version. An answer must fit one of the plans
    of its version; who answers an older version, or a plan that is no longer known, is
    checked for everything but its seeds.
    """
    refuse_unless(
        update.client in state.memory, f"client {update.client} has not said hello"
    )
    summary = update.payload
    refuse_unless(isinstance(summary, Summary), "an update must carry a summary")
    refuse_unless(
        0 <= update.version <= state.version,
        f"version {update.version} was never sent, the newest is {state.version}",
    )
    refuse_unless(isinstance(summary.levels, tuple), "expected a tuple of levels")
    now = update.version == state.version
    _check_number(state, len(summary.levels), now)
    client, n_rows = update.client, state.rows[update.client]
    _check_owned(state, summary, client, n_rows)
    for level in summary.levels:
        refuse_unless(isinstance(level, LevelReply), "expected a reply per level")
        _check_owned(state, level, client, n_rows)
        refuse_unless(
            type(level.revision) is int and level.revision >= 0,
            "a level's revision must be a whole number",
        )
        for total in (level.simplified, level.moment):
            refuse_unless(
                isinstance(total, float) and abs(total) <= n_rows * (1 + SLACK),
                "a sum of silhouettes lies outside [-n, n]",
            )
    if now and state.sent and state.plans == len(state.sent):
        refuse_unless(
            any(_answers(summary, plan) for plan in reversed(state.sent)),
            "cells do not lie around the seeds and centres that were sent",
        )


def check_plan(plan: Any, n_features: int) -> None:
    """Refuse, at a client, a plan that no honest server sends."""
    refuse_unless(isinstance(plan, Plan), "expected seeds and candidates")
    refuse_unless(_is_table(plan.seeds, n_features), "seeds do not fit the rows")
    refuse_unless(isinstance(plan.candidates, tuple), "expected a tuple of candidates")
    for level in plan.candidates:
        refuse_unless(isinstance(level, Level), "expected levels as candidates")
        refuse_unless(
            _is_table(level.centers, n_features) and level.centers.shape[0] >= 2,
            "a candidate's centres do not fit the rows, or are fewer than two",
        )
        k = level.centers.shape[0]
        refuse_unless(
            _is_column(level.spreads, k, WIDEST)
            and _is_column(level.counts, k, float(1 << 60)),
            "a candidate's spreads or sizes cannot be",
        )


def _is_table(array: Any, n_features: int) -> bool:
    return (
        isinstance(array, np.ndarray)
        and array.dtype == np.float64
        and array.ndim == 2
        and array.shape[0] >= 1
        and array.shape[1] == n_features
        and bool(np.all(np.abs(array) <= LARGEST))
    )


def _is_column(array: Any, length: int, most: float) -> bool:
    return (
        isinstance(array, np.ndarray)
        and array.dtype == np.float64
        and array.shape == (length,)
        and bool(np.all((array >= 0) & (array <= most)))
    )


def _check_number(state: ServerState, found: int, now: bool) -> None:
    expected = len(state.candidates)
    refuse_unless(
        not (now and state.sent) or found == expected,
        f"expected {expected} candidate levels, got {found}",
    )
    most = state.params.candidates + 1
    refuse_unless(found <= most, f"at most {most} levels are sent, got {found}")


def _check_owned(state: ServerState, said: Any, client: ClientId, n_rows: int) -> None:
    """Check the cells of an answer, and that no two claim to be of one centre."""
    cells, owners = said.cells, said.owners
    _check_cells(state, cells, state.n_features, client, n_rows)
    refuse_unless(
        isinstance(owners, np.ndarray)
        and owners.dtype == np.int64
        and owners.shape == cells.counts.shape,
        "expected one int64 owner per cell",
    )
    own = owners[owners >= 0]
    refuse_unless(
        bool(np.all(owners >= -1)) and np.unique(own).shape == own.shape,
        "two cells have the same owner, or an owner is negative",
    )


def _check_cells(
    state: ServerState, cells: Any, width: int, client: ClientId, n_rows: int
) -> None:
    least = state.params.min_cell
    most = max(MOST_CELLS, state.params.n_seeds or 0)
    most = min(most, max(1, n_rows // least))
    refuse_unless(
        not isinstance(cells, Cells) or np.size(cells.counts) <= most,
        f"more than {most} cells of {n_rows} rows",
    )
    check_cells(cells, width, n_rows, least)
    refuse_unless(
        bool(
            np.all(np.abs(cells.means) <= LARGEST) and np.all(cells.scatters <= WIDEST)
        ),
        f"a mean is beyond {LARGEST:g} or a scatter beyond {WIDEST:g}",
    )
    if state.bounded:
        _check_box(cells, state.params.privacy, _slack(n_rows))
    if client in state.extremes:
        low, high = state.extremes[client]
        slack = _slack(n_rows) * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
        refuse_unless(
            bool(np.all((cells.means >= low - slack) & (cells.means <= high + slack))),
            "a mean lies outside the extremes that the client announced",
        )


def _slack(n_rows: int) -> float:
    """Return what rounding can do to a mean of so many numbers of size 1."""
    return SLACK + 4 * n_rows * float(np.finfo(np.float64).eps)


def _check_box(cells: Cells, level: str, slack: float) -> None:
    """Check means and, unless they are noisy, scatters against the widened box.

    Of numbers in [low, high] with mean b the mean square around b is at most
    (high - b)(b - low) (Bhatia and Davis). It holds for groups of rows too: a group
    counts like two rows one standard deviation to each side of its mean, and those are
    what the box is made of at the level `grouped`. At `dp` two noisy means may be cut
    off at the same place.
    """
    exact = level.startswith(("summary", "grouped"))
    means = cells.means
    refuse_unless(
        bool(np.all((means >= LOW - slack) & (means <= HIGH + slack))),
        "a mean lies more than one width outside the agreed box",
    )
    refuse_unless(
        not exact or distinct(means) == len(cells), "two cells have the same mean"
    )
    widest = np.maximum((HIGH - means) * (means - LOW), 0.0).sum(axis=1)
    widest += 9 * slack * means.shape[1]
    refuse_unless(
        not exact or bool(np.all(cells.scatters <= cells.counts * widest)),
        "a scatter is larger than the agreed box allows",
    )


def _answers(summary: Summary, plan: Plan) -> bool:
    """Whether this could be an honest answer to this plan."""
    return _lie_around(summary.cells, summary.owners, plan.seeds) and all(
        said.revision == sent.revision
        and _lie_around(said.cells, said.owners, sent.centers)
        for said, sent in zip(summary.levels, plan.candidates, strict=True)
    )


def _lie_around(cells: Cells, owners: Ints, centers: Floats) -> bool:
    """Whether every cell with an owner lies in the owner's Voronoi cell.

    A cell without one took in at least one other, so it stands for two centres.
    """
    k, own = centers.shape[0], owners >= 0
    if len(cells) + int((~own).sum()) > k or bool(np.any(owners >= k)):
        return False
    means, mine = cells.means[own], centers[owners[own]]
    counts = cells.counts[own]
    distances = squared_distances(means, centers)
    sizes = (
        (means**2).sum(axis=1) + (mine**2).sum(axis=1) + cells.scatters[own] / counts
    )
    slack = _slack(int(cells.counts.max())) * sizes
    to_owner = ((means - mine) ** 2).sum(axis=1)
    return bool(np.all(to_owner <= distances.min(axis=1) + slack))


def _width(cells: Cells) -> int:
    """Return the number of features the first hello brings, -1 if it has none."""
    means = cells.means
    return means.shape[1] if isinstance(means, np.ndarray) and means.ndim == 2 else -1

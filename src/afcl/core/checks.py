# SPDX-License-Identifier: Apache-2.0
"""What nobody honest says in the default preset: checked before anything is done.

Both sides check: the server hellos and answers, a client the plans and questions that
it is sent. Sizes first, then types, shapes and numbers (:func:`messages.check_form`),
then what geometry demands of cells (:mod:`core.cell_checks`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afcl._typing import Bools
from afcl.core.cell_checks import (
    LARGEST,
    NOBODY,
    SLACK,
    WIDEST,
    check_bags,
    lie_around,
    most_cells,
)
from afcl.core.indices import BY_FREE_BIC, BY_PEAK, BY_SEARCH
from afcl.core.messages import (
    Cells,
    Hello,
    Level,
    LevelReply,
    Plan,
    Summary,
    Update,
    check_answer,
    is_table,
    refuse_unless,
)
from afcl.core.params import MOST_SEEDS, DefaultParams
from afcl.core.state import ServerState, total
from afcl.core.tasks import (
    MOST_NESTED,
    OPENING,
    SCORE,
    SUM,
    Question,
    SecureHello,
    SeedPartition,
)
from afcl.registry import AUTO
from afcl.scale import FAR_OUT, MIDDLE, WALLS

#: Most rows a client may register: no sum over all clients overflows.
MOST_ROWS = 1 << 40
#: Most parts of a partition that a cohort is asked about.
MOST_PARTS = 20_000


def check_hello(state: ServerState, hello: Hello) -> int:
    """Refuse a hello that cannot be; return the number of its features."""
    cells, n_rows = hello.payload, hello.n_rows
    refuse_unless(isinstance(cells, Cells), "a hello must carry cells")
    refuse_unless(
        # `type`, as True is an int too, and rows are weight.
        type(n_rows) is int and 1 <= n_rows <= MOST_ROWS,
        f"a client must register at least one row and at most {MOST_ROWS}",
    )
    # The first one says how wide rows are, where no agreement did.
    width = _width(cells) if state.n_features < 0 else state.n_features
    refuse_unless(width >= 1, "the means of cells must have features")
    check_bags(state, (cells,), width, hello.client, n_rows)
    return width


def check_outsider(hello: Hello, far: Bools) -> None:
    """Refuse who lies outside a box with walls with more than half of its rows.

    The client announced rows beyond all measure in the columns `far`. Rows of a heavy
    tail are few; more than half of them are in another unit, or made up. Outside lies a
    cell whose mean is halfway to a wall or, in such a column, where rows beyond all
    measure are put. Methods that send no cells are not looked at.
    """
    payload = hello.payload
    cells = payload.cells if isinstance(payload, SecureHello) else payload
    if not isinstance(cells, Cells):
        return
    (low, high), means = WALLS, cells.means
    away = (means < low / 2) | (means > (1 + high) / 2)
    away |= far & (np.abs(means - MIDDLE) <= SLACK)
    refuse_unless(
        2 * int(cells.counts[away.any(axis=1)].sum()) <= int(cells.counts.sum()),
        f"more than half of its rows lie outside the others', some {FAR_OUT:g} times "
        "what they span: check the units, or give public bounds (--ranges)",
    )


def check_update(state: ServerState, update: Update) -> None:
    """Refuse an answer that cannot be, or that does not answer what was sent.

    Seeds and candidates move without a new version. An answer must fit one of the plans
    of its version; who answers an older version, or a plan that is no longer known, is
    checked for everything but its seeds.
    """
    check_answer(update, state.rows, state.version)
    summary = update.payload
    refuse_unless(isinstance(summary, Summary), "an update must carry a summary")
    refuse_unless(isinstance(summary.levels, tuple), "expected a tuple of levels")
    # Older answers are welcome, but what they answer may be forgotten already.
    now = update.version == state.version
    _check_number(state, len(summary.levels), now)
    client, n_rows = update.client, total(state.rows[update.client])
    for level in summary.levels:
        refuse_unless(isinstance(level, LevelReply), "expected a reply per level")
        refuse_unless(
            type(level.revision) is int and level.revision >= 0,
            "a level's revision must be a whole number",
        )
        refuse_unless(
            isinstance(level.sums, np.ndarray)
            and level.sums.dtype == np.float64
            and level.sums.shape == (2,)
            # A silhouette lies in [-1, 1]: larger sums would buy weight.
            and bool(np.all(np.abs(level.sums) <= n_rows * (1 + SLACK))),
            "a sum of silhouettes lies outside [-n, n]",
        )
        _check_valleys(level.valleys, n_rows, most_cells(state))
    parts = (summary, *summary.levels)
    bags = tuple(part.cells for part in parts)
    cells = check_bags(state, bags, state.n_features, client, n_rows)
    owned = [_check_owners(part.owners, len(part.cells)) for part in parts]
    if now and state.sent and state.plans == len(state.sent):
        refuse_unless(
            # The newest first: most answers are to it.
            any(_answers(summary, cells, owned, plan) for plan in reversed(state.sent)),
            "cells do not lie around the seeds and centres that were sent",
        )


def check_plan(plan: Any, n_features: int, params: DefaultParams) -> None:
    """Refuse, at a client, a plan that no honest server sends."""
    refuse_unless(isinstance(plan, Plan), "expected seeds and candidates")
    refuse_unless(_is_table(plan.seeds, n_features), "seeds do not fit the rows")
    refuse_unless(isinstance(plan.candidates, tuple), "expected a tuple of candidates")
    most = _most_seeds(params)
    refuse_unless(
        # Many seeds are many cells: a server could ask rows out one by one (0027).
        plan.seeds.shape[0] <= most,
        f"asked about {plan.seeds.shape[0]} seeds, agreed were at most {most}",
    )
    _check_levels(plan.candidates, n_features, params)


def _check_levels(
    levels: tuple[Any, ...], n_features: int, params: DefaultParams
) -> None:
    most, largest = most_levels(params), _most_seeds(params)
    refuse_unless(
        len(levels) <= most,
        f"asked about {len(levels)} candidate levels, agreed were at most {most}",
    )
    for level in levels:
        refuse_unless(isinstance(level, Level), "expected levels as candidates")
        refuse_unless(
            _is_table(level.centers, n_features)
            and 2 <= level.centers.shape[0] <= largest,
            "a candidate's centres do not fit the rows, or are fewer than two, or more "
            f"than {largest}",
        )
        k = level.centers.shape[0]
        refuse_unless(
            _is_column(level.spreads, k, WIDEST)
            and _is_column(level.counts, k, float(1 << 60)),
            "a candidate's spreads or sizes cannot be",
        )


def check_question(question: Any, n_features: int, params: DefaultParams) -> None:
    """Refuse, at a client, a question that no honest server asks."""
    refuse_unless(isinstance(question, Question), "expected a question")
    refuse_unless(question.kind in OPENING, f"{question.kind!r} cannot be answered")
    about = (question.partitions, question.levels)
    refuse_unless(
        all(isinstance(each, tuple) for each in about)
        and len(about[0]) <= MOST_NESTED
        # Exactly one of the two: partitions, or for scores clusterings.
        and bool(about[question.kind == SCORE])
        and not about[question.kind != SCORE],
        "expected partitions, or clusterings",
    )
    refuse_unless(
        question.opened is None or question.kind == SUM,
        "groups are opened where they are summed",
    )
    n_groups = 1
    for partition in question.partitions:
        refuse_unless(
            isinstance(partition, SeedPartition)
            and _is_table(partition.seeds, n_features)
            and partition.seeds.shape[0] <= MOST_PARTS
            and _are_numbers(partition.parents, partition.seeds.shape[0])
            and _are_numbers(partition.groups, partition.seeds.shape[0]),
            "every seed needs a parent and a group, and the agreed columns, and there "
            f"are at most {MOST_PARTS}",
        )
        refuse_unless(
            _is_nested(partition, n_groups), "groups must lie inside each other"
        )
        n_groups = partition.n_groups
    coarsest = question.partitions[0].n_groups if question.partitions else 0
    refuse_unless(
        question.opened is None or _are_bits(question.opened, coarsest),
        "of every coarse group it is said whether it is opened",
    )
    _check_levels(question.levels, n_features, params)


def _are_numbers(array: Any, length: int) -> bool:
    """Whether these are so many whole numbers that can number so many things."""
    return (
        isinstance(array, np.ndarray)
        and array.dtype == np.int64
        and array.shape == (length,)
        and bool(np.all((array >= 0) & (array < length)))
    )


def _are_bits(array: Any, length: int) -> bool:
    """Whether these are so many zeros and ones."""
    return (
        isinstance(array, np.ndarray)
        and array.dtype == np.int64
        and array.shape == (length,)
        and bool(np.all((array == 0) | (array == 1)))
    )


def _is_nested(partition: SeedPartition, n_groups: int) -> bool:
    """Whether every group has seeds, and those of one group have the same parent."""
    parents, groups = partition.parents, partition.groups
    pairs = np.unique(np.stack([groups, parents], axis=1), axis=0)
    return (
        np.array_equal(np.unique(parents), np.arange(n_groups))
        and bool(np.all(np.diff(parents) >= 0))
        and np.array_equal(pairs[:, 0], np.arange(partition.n_groups))
    )


def _is_table(array: Any, n_features: int) -> bool:
    return is_table(array, n_features) and bool(np.all(np.abs(array) <= LARGEST))


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
    most = most_levels(state.params)
    refuse_unless(found <= most, f"at most {most} levels are sent, got {found}")


def most_levels(params: DefaultParams) -> int:
    """Return the most candidate levels that clients are asked about at once."""
    by_rule = BY_FREE_BIC + BY_PEAK + BY_SEARCH if params.criterion == AUTO else 0
    return params.candidates + 1 + by_rule


def _most_seeds(params: DefaultParams) -> int:
    """Return the most seeds that clients are asked about at once."""
    return max(MOST_SEEDS, params.n_seeds or 0)


def _check_valleys(valleys: Any, n_rows: int, most: int) -> None:
    """Check that these are counts of rows, three for each of a level's centres."""
    refuse_unless(
        isinstance(valleys, np.ndarray)
        and valleys.dtype == np.float64
        and valleys.ndim == 2
        and 2 <= valleys.shape[0] <= most
        and valleys.shape[1] == 3,
        "expected three float64 counts between centres, a centre of a level",
    )
    refuse_unless(
        bool(np.all((valleys >= 0) & (valleys <= n_rows)))
        and bool(np.all(valleys == np.floor(valleys))),
        f"a count between centres is not a whole number from 0 to {n_rows}",
    )


def _check_owners(owners: Any, number: int) -> list[int]:
    """Check that there is an owner per cell and no two have the same; return them."""
    refuse_unless(
        isinstance(owners, np.ndarray)
        and owners.dtype == np.int64
        and owners.shape == (number,),
        "expected one int64 owner per cell",
    )
    every: list[int] = owners.tolist()
    shared = every.count(NOBODY)
    refuse_unless(
        len(set(every)) == len(every) - max(0, shared - 1) and min(every) >= NOBODY,
        "two cells have the same owner, or an owner is negative",
    )
    return every


def _answers(
    summary: Summary, cells: Cells, owned: list[list[int]], plan: Plan
) -> bool:
    """Whether this could be an honest answer to this plan.

    `cells` and `owned` are the summary's, those of the seeds first, then by level. A
    cell without an owner took in at least one other, so it stands for two centres.
    """
    both = zip(summary.levels, plan.candidates, strict=True)
    if any(reply.revision != sent.revision for reply, sent in both):
        return False
    places = [plan.seeds, *(level.centers for level in plan.candidates)]
    counted = (reply.valleys.shape[0] for reply in summary.levels)
    if any(k != sent.shape[0] for k, sent in zip(counted, places[1:], strict=True)):
        return False
    for owners, centers in zip(owned, places, strict=True):
        k = centers.shape[0]
        if len(owners) + owners.count(NOBODY) > k or max(owners) >= k:
            return False
    whose = [summary.owners, *(level.owners for level in summary.levels)]
    return lie_around(cells, whose, places)


def _width(cells: Cells) -> int:
    """Return the number of features the first hello brings, -1 if it has none."""
    means = cells.means
    return means.shape[1] if isinstance(means, np.ndarray) and means.ndim == 2 else -1

# SPDX-License-Identifier: Apache-2.0
"""How many bytes the messages of many clients have, without encoding each of them.

Encoded messages of one kind differ in the numbers of their header (rows, shapes, where
arrays begin) and in the bytes of their arrays, and in nothing else. So one of them is
encoded, and the others are larger or smaller by what their numbers and arrays are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cohort import Cohort
from afcl.core.messages import Addressed, Cells, Hello, LevelReply, Summary, Update
from afcl.core.tasks import PRESENCE, SUM, Evidence, Part, SecureHello, Task
from afcl.runtime.codec import encode

_POWERS = 10 ** np.arange(1, 19, dtype=np.int64)
#: Any public key is so long, in hexadecimal.
_KEY = "0" * 64


def digits(numbers: Ints) -> Ints:
    """Return how many digits whole numbers have, which must not be negative."""
    return np.searchsorted(_POWERS, numbers, side="right") + 1


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of every client's message, and of the arrays in it."""

    bytes: Ints
    array_bytes: Ints


def hello_sizes(cells: Cells, rows: Ints, keyed: bool) -> Sizes:
    """Return the sizes of hellos with these cells; `keyed`: with a public key each."""
    d = cells.means.shape[1]
    arrays = _cell_arrays(cells.sizes, d)
    sample = Hello(1, _no_cells(d))
    if keyed:
        sample = Hello(1, SecureHello(_no_cells(d), _KEY))
    return _sizes(len(encode(sample)), arrays, digits(rows) - 1)


def summary_sizes(summary: Summary) -> Sizes:
    """Return the sizes of updates with these summaries."""
    d = summary.cells.means.shape[1]
    none = _no_cells(d)
    nobody = np.empty(0, dtype=np.int64)
    two = np.full_like(summary.cells.sizes, 2)
    arrays = [*_cell_arrays(summary.cells.sizes, d), (summary.cells.sizes, 8)]
    levels = []
    for level in summary.levels:
        sizes = level.cells.sizes
        centers = np.full_like(sizes, level.valleys.shape[1])
        arrays += [*_cell_arrays(sizes, d), (sizes, 8), (two, 8), (centers, 24)]
        empty = (np.zeros(0), np.zeros((0, 3)))
        levels.append(LevelReply(none, nobody, *empty, level.revision))
    sample = Update(Summary(none, nobody, tuple(levels)))
    return _sizes(len(encode(sample)), arrays)


def part_sizes(cohorts: Sequence[tuple[int, Cohort]], tagged: bool) -> Sizes:
    """Return the size of a member's part in each of these cohorts.

    `tagged`: members show each other who they are where they say what they hold.
    """
    numbers = np.array([number for number, _ in cohorts], dtype=np.int64)
    widths = np.array([cohort.width for _, cohort in cohorts], dtype=np.int64)
    names = np.array([len(cohort.phase) for _, cohort in cohorts], dtype=np.int64)
    members = np.array([len(cohort.members) for _, cohort in cohorts], dtype=np.int64)
    more = digits(numbers) - 1 + names
    nothing, none = np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.int64)
    bare = len(encode(Update(Part(0, "", nothing))))
    plain = _sizes(bare, [(widths, 8)], more)
    signed = len(encode(Update(Part(0, "", nothing, none))))
    shown = _sizes(signed, [(widths, 8), (members, 16)], more)
    which = np.array([tagged and c.phase == PRESENCE for _, c in cohorts], dtype=bool)
    return Sizes(
        np.where(which, shown.bytes, plain.bytes),
        np.where(which, shown.array_bytes, plain.array_bytes),
    )


def task_sizes(
    group: Mapping[int, Cohort],
    clients: Ints,
    sample: Callable[[Any], int],
    tagged: bool,
) -> Ints:
    """Return the sizes of the requests with these clients' tasks, one per client.

    `sample` returns the size of a request with this payload. A cohort's members are
    asked alike: what differs are their places.
    """
    known: dict[tuple[int, int], int] = {}
    members, sizes = [], []
    for number, cohort in group.items():
        everybody = np.array(cohort.members)
        n = everybody.shape[0]
        kind = (id(cohort.question), n if cohort.phase == SUM else 0)
        if kind not in known:
            assert cohort.question is not None
            shown = tagged and cohort.phase == SUM
            task = Task(
                0,
                cohort.phase,
                (),
                (),
                0,
                cohort.question,
                evidence=_evidence(n, cohort) if shown else None,
            )
            known[kind] = sample(Addressed(None, task))
        listed = int(digits(everybody).sum()) + n * (len(_KEY) + 2) + 2 * (n - 1)
        common = known[kind] + listed + len(str(number)) - 1
        members.append(everybody)
        sizes.append(common + digits(np.arange(n)) - 1)
    every, size = np.concatenate(members), np.concatenate(sizes)
    order = np.argsort(every)
    return size[order][np.searchsorted(every[order], clients)]


def _evidence(members: int, cohort: Cohort) -> Evidence:
    """Return evidence of the right size."""
    parts = np.zeros((members, cohort.present), dtype=np.int64)
    seeds = np.zeros_like(cohort.partitions[-1].groups)
    return Evidence(seeds, parts, np.zeros((members, 2), dtype=np.int64))


def _no_cells(d: int) -> Cells:
    return Cells(np.empty(0, dtype=np.int64), np.empty((0, d)), np.empty(0))


def _cell_arrays(sizes: Ints, d: int) -> list[tuple[Ints, int]]:
    """Return rows and bytes a row of the arrays of cells: counts, means, scatters."""
    return [(sizes, 8), (sizes, 8 * d), (sizes, 8)]


def _sizes(
    sample: int, arrays: Iterable[tuple[Ints, int]], more: Ints | int = 0
) -> Sizes:
    """Return sizes from those of a message whose arrays are empty (so begin at 0)."""
    header: Floats | Ints | int = more
    at: Ints | int = 0
    for rows, width in arrays:
        header = header + (digits(rows) - 1) + (digits(np.asarray(at)) - 1)
        at = at + rows * width
    held = np.asarray(at)
    return Sizes(np.asarray(sample + header + held), held)

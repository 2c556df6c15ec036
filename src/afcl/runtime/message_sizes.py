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
from afcl.core.messages import Addressed, Cells, Hello, LevelReply, Summary, Update
from afcl.core.tasks import Cohort, Part, SecureHello, Task
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


def part_sizes(cohorts: Sequence[tuple[int, Cohort]]) -> Sizes:
    """Return the size of a member's part in each of these cohorts."""
    numbers = np.array([number for number, _ in cohorts], dtype=np.int64)
    widths = np.array([cohort.width for _, cohort in cohorts], dtype=np.int64)
    nothing = np.empty(0, dtype=np.int64)
    sample = len(encode(Update(Part(0, "", nothing))))
    names = np.array([len(cohort.phase) for _, cohort in cohorts], dtype=np.int64)
    return _sizes(sample, [(widths, 8)], digits(numbers) - 1 + names)


def task_sizes(
    group: Mapping[int, Cohort], clients: Ints, sample: Callable[[Any], int]
) -> Ints:
    """Return the sizes of the requests with these clients' tasks, one per client.

    `sample` returns the size of a request with this payload. A cohort's members are
    asked alike: what differs are their places.
    """
    known: dict[int, int] = {}
    members, sizes = [], []
    for number, cohort in group.items():
        kind = id(cohort.question)
        if kind not in known:
            assert cohort.question is not None
            about = (cohort.phase, (), (), 0, cohort.question)
            known[kind] = sample(Addressed(None, Task(0, *about)))
        everybody = np.array(cohort.members)
        n = everybody.shape[0]
        listed = int(digits(everybody).sum()) + n * (len(_KEY) + 2) + 2 * (n - 1)
        common = known[kind] + listed + len(str(number)) - 1
        members.append(everybody)
        sizes.append(common + digits(np.arange(n)) - 1)
    every, size = np.concatenate(members), np.concatenate(sizes)
    order = np.argsort(every)
    return size[order][np.searchsorted(every[order], clients)]


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

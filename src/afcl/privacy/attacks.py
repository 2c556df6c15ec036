# SPDX-License-Identifier: Apache-2.0
"""What an honest-but-curious server can read off the messages it gets.

The server keeps to the protocol and thinks about what it hears. It knows what it asked
(seeds, levels, weights), the options of the run, and every answer; of the rows it
knows nothing. Each function here names *candidates*: points in agreed units, and how
many rows it believes to lie there. Attacks on sums: :mod:`afcl.privacy.attacks_sums`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import (
    Addressed,
    Cells,
    Hello,
    Intensities,
    Positions,
    Summary,
    Update,
    WeightedPositions,
)
from afcl.core.paper.pulls import Pulls
from afcl.core.params import PaperParams
from afcl.core.refine import moments_from
from afcl.core.tasks import OPENING, SUM, UNIT, Masks, Part, SecureHello, Task
from afcl.core.terms import AskHello, AskStep
from afcl.scale import Ranges

#: Fewer rows than this are a few: who finds them has singled somebody out.
FEW = 5
#: A cell whose mean squared radius is below this holds equal rows.
EQUAL = 1e-12
#: Pulls of one seed by at most so many rows are solved for; beyond, rounding wins.
SOLVED = 3
#: Candidates lie in the agreed box, or below it by one width, as late joiners' may.
LOW = -1.0
#: The same above it.
HIGH = 2.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and the reply to it, decoded."""

    client: int
    request: Any
    reply: Any


@dataclass(frozen=True, slots=True)
class Candidates:
    """Where an attack believes rows to lie, and how many at each place."""

    attack: str
    points: Floats
    sizes: Ints

    def __len__(self) -> int:
        return int(self.sizes.shape[0])


@dataclass(frozen=True, slots=True)
class Released:
    """Cells said together: they hold every row of their clients once.

    Attributes
    ----------
    clients
        Whose rows: one client's, or a cohort's.
    cells
        What was said.
    centers, owners
        The points that the rows were sorted to, and the number of every cell's (-1: it
        took in rows of others); None where nobody said.
    step
        How exact the numbers are: 0 to rounding, else the width of their grid.
    """

    clients: tuple[int, ...]
    cells: Cells
    centers: Floats | None = None
    owners: Ints | None = None
    step: float = 0.0


def named(
    attack: str, width: int, found: Sequence[tuple[Floats, Ints | int]]
) -> Candidates:
    """Return points and how many rows lie at each as candidates, each place once."""
    if not found:
        return Candidates(attack, np.empty((0, width)), np.empty(0, dtype=np.int64))
    every = np.concatenate([np.reshape(points, (-1, width)) for points, _ in found])
    counts = np.concatenate(
        [np.broadcast_to(np.int64(sizes), len(points)) for points, sizes in found]
    )
    inside = np.all((every >= LOW) & (every <= HIGH), axis=1)
    every, counts = every[inside], counts[inside]
    # Candidates this close are one finding, told twice.
    _, first = np.unique(np.rint(every * 1e8), axis=0, return_index=True)
    first.sort()
    return Candidates(attack, every[first], counts[first])


def width_of(exchanges: Iterable[Exchange]) -> int:
    """Return the number of features, as the agreement says it."""
    for one in exchanges:
        if isinstance(one.reply, Ranges):
            return one.reply.n_features
        if isinstance(one.request, AskHello | AskStep):
            return int(one.request.terms.box.low.shape[0])
    return 0


def hellos(exchanges: Iterable[Exchange]) -> Iterable[tuple[int, Any]]:
    """Every first message: whose it is, and the payload."""
    for one in exchanges:
        if isinstance(one.reply, Hello):
            yield one.client, one.reply.payload


def steps(exchanges: Iterable[Exchange]) -> Iterable[tuple[int, AskStep, Any]]:
    """Every answer to a broadcast: whose it is, the request and the payload."""
    for one in exchanges:
        if isinstance(one.request, AskStep) and isinstance(one.reply, Update):
            yield one.client, one.request, one.reply.payload


# ------------------------------------------------------------------ single messages


def invert(exchanges: Sequence[Exchange]) -> Candidates:
    """Invert uploads of single rows: x = m + r / eta (Eq. 5), or r / W as published."""
    found: list[tuple[Floats, int]] = []
    for _, request, payload in steps(exchanges):
        if not isinstance(payload, Intensities):
            continue
        sent = request.payload
        if isinstance(sent, WeightedPositions):
            if np.all(sent.weights > 0):
                rows = sent.points[payload.owners] + payload.intensities / sent.weights
                found.append((rows, 1))
        elif isinstance(sent, Positions):
            pulls = payload.intensities / _rate(request)
            found.append((sent.points[payload.owners] + pulls, 1))
    return named("inversion", width_of(exchanges), found)


def solve_pulls(exchanges: Sequence[Exchange]) -> Candidates:
    """Solve sums of pulls for the rows behind them (level `affine`).

    A seed pulled N times says beta = sum a (1 - a)^(N - j) x_j, a = w eta. One row is
    beta / a. The same few rows, told with N different weights, are N equations.
    """
    places_by_step: dict[tuple[int, int, int], dict[float, Floats]] = defaultdict(dict)
    for client, request, payload in steps(exchanges):
        if not isinstance(payload, Pulls) or not isinstance(request.payload, Addressed):
            continue
        step = payload.weight * _rate(request)
        for seed in np.flatnonzero((payload.counts >= 1) & (payload.counts <= SOLVED)):
            key = (client, int(seed), int(payload.counts[seed]))
            places_by_step[key][step] = payload.places[seed]
    found = []
    for (_, _, pulled), places in places_by_step.items():
        if len(places) < pulled:
            continue
        rates = np.array(list(places))[:, None]
        powers = rates * (1 - rates) ** np.arange(pulled - 1, -1, -1)
        rows = np.linalg.lstsq(powers, np.array(list(places.values())), rcond=None)[0]
        found.append((rows, 1))
    return named("pulls", width_of(exchanges), found)


def match_first_message(exchanges: Sequence[Exchange]) -> Candidates:
    """Take what first messages say for rows: bare points, cells of very few rows."""
    found: list[tuple[Floats, Ints | int]] = []
    for _, payload in hellos(exchanges):
        if isinstance(payload, Positions):
            found.append((payload.points, 1))
        cells = payload.cells if isinstance(payload, SecureHello) else payload
        if isinstance(cells, Cells):
            found.append(_where(cells, _few_equal(cells)))
    return named("first message", width_of(exchanges), found)


def find_singletons(releases: Sequence[Released]) -> Candidates:
    """Find cells of one row, or of a few equal ones, in any message.

    In one dimension a cell of two rows tells both: its mean and scatter are two
    equations.
    """
    width = columns_of(releases)
    found: list[tuple[Floats, Ints | int]] = []
    for release in releases:
        cells = release.cells
        few = _few_equal(cells)
        found.append(_where(cells, few))
        if width == 1:
            two = (cells.counts == 2) & ~few
            away = np.sqrt(cells.scatters[two] / 2)[:, None]
            found += [(cells.means[two] - away, 1), (cells.means[two] + away, 1)]
    return named("singletons", width, found)


def find_shared(releases: Sequence[Released]) -> Candidates:
    """Find places that several rows share: cells of :data:`FEW` and more equal rows.

    No row is singled out by them, but their common value is known.
    """
    exact = [each.cells for each in releases if each.step == 0]
    found = [_where(cells, (cells.counts >= FEW) & _equal(cells)) for cells in exact]
    return named("shared", columns_of(releases), found)


def columns_of(releases: Sequence[Released]) -> int:
    """Return the number of features, 0 where nothing was released."""
    return releases[0].cells.means.shape[1] if releases else 0


def _where(cells: Cells, chosen: Any) -> tuple[Floats, Ints]:
    """Return the places of some cells, and how many rows each of them holds."""
    return cells.means[chosen], cells.counts[chosen]


def _rate(request: AskStep) -> float:
    options = json.loads(request.terms.options)
    return float(options.get("learning_rate", PaperParams().learning_rate))


def _equal(cells: Cells) -> Any:
    return cells.scatters / cells.counts < EQUAL


def _few_equal(cells: Cells) -> Any:
    return (cells.counts < FEW) & ((cells.counts == 1) | _equal(cells))


# ------------------------------------------------------------------ what was released


def releases(exchanges: Sequence[Exchange]) -> list[Released]:
    """Return every bag of cells the server got to see, cohorts' sums included."""
    found: list[Released] = []
    for client, payload in hellos(exchanges):
        if isinstance(payload, SecureHello):
            cells = payload.cells
            found.append(Released((client,), cells, step=_grid_of(cells)))
        elif isinstance(payload, Cells):
            found.append(Released((client,), payload))
    for client, request, payload in steps(exchanges):
        who = (client,)
        if isinstance(payload, Summary):
            plan = request.payload
            found.append(Released(who, payload.cells, plan.seeds, payload.owners))
            for level, reply in zip(plan.candidates, payload.levels, strict=True):
                found.append(Released(who, reply.cells, level.centers, reply.owners))
        elif isinstance(payload, Intensities):
            found.append(Released(who, payload.cells))
    return found + cohort_sums(exchanges)


def _grid_of(cells: Cells) -> float:
    """Return the coarsest power of two that all means are multiples of, 0 for none."""
    for exponent in range(2, 21):
        scaled = cells.means * 2.0**exponent
        if np.array_equal(scaled, np.rint(scaled)):
            return float(2.0**-exponent)
    return 0.0


def cohort_sums(exchanges: Sequence[Exchange]) -> list[Released]:
    """Add the masked parts of every cohort that is complete; the masks cancel.

    Sums under encryption are those that the holder of the key has opened.
    """
    parts: dict[tuple[int, ...], dict[int, Ints]] = defaultdict(dict)
    tasks: dict[tuple[int, ...], Task] = {}
    found = []
    for client, request, payload in steps(exchanges):
        if not isinstance(payload, Part):
            continue
        task = request.payload.own
        if payload.phase == SUM and task.public is None:
            depth = len(task.question.partitions)
            key = (payload.cohort, depth, *task.members)
            parts[key][client], tasks[key] = payload.values, task
        elif payload.phase == OPENING[SUM]:
            found.append(_cohort_cells(payload.values, task))
    for key, values in parts.items():
        if len(values) == len(tasks[key].members):
            total = Masks().add(list(values.values()), None)
            assert total is not None
            found.append(_cohort_cells(total, tasks[key]))
    return [each for each in found if each is not None]


def _cohort_cells(numbers: Ints, task: Task) -> Released | None:
    """Return a cohort's sums as cells, None if they cannot be any."""
    last = task.question.partitions[-1]
    counts = numbers.reshape(last.n_groups, -1)[:, 0]
    counted = np.zeros(last.groups.shape[0], dtype=np.int64)
    counted[np.unique(last.groups, return_index=True)[1]] = np.maximum(counts, 1)
    moments = moments_from(task.question, numbers, counted)
    if moments is None:
        return None
    held, every = counts > 0, moments.cells
    cells = Cells(every.counts[held], every.means[held], every.scatters[held])
    return Released(task.members, cells, step=UNIT * len(task.members))

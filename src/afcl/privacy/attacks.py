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
from afcl.core.cohort_sums import cells_from
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
from afcl.core.tasks import OPEN_SUM, SUM, UNIT, Masks, Part, SecureHello, Task
from afcl.core.terms import AskStep
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
class Heard:
    """One answer, decoded, with the request it answers."""

    client: int
    asked: Any
    said: Any


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
    attack: str, width: int, points: Sequence[Any], sizes: Sequence[Any] | None = None
) -> Candidates:
    """Return arrays of points (each (n, width)) as candidates, each once."""
    if sizes is None:
        sizes = [np.ones(len(part), dtype=np.int64) for part in points]
    if not points:
        return Candidates(attack, np.empty((0, width)), np.empty(0, dtype=np.int64))
    every = np.concatenate([np.reshape(part, (-1, width)) for part in points])
    counts = np.concatenate([np.asarray(part, dtype=np.int64) for part in sizes])
    inside = np.all((every >= LOW) & (every <= HIGH), axis=1)
    every, counts = every[inside], counts[inside]
    # Candidates this close are one finding, told twice.
    _, first = np.unique(np.rint(every * 1e8), axis=0, return_index=True)
    first.sort()
    return Candidates(attack, every[first], counts[first])


def width_of(heard: Iterable[Heard]) -> int:
    """Return the number of features, as the agreement says it."""
    for message in heard:
        if isinstance(message.said, Ranges):
            return message.said.n_features
        terms = getattr(message.asked, "terms", None)
        if terms is not None:
            return int(terms.box.low.shape[0])
    return 0


def steps(heard: Iterable[Heard]) -> Iterable[tuple[Heard, AskStep, Any]]:
    """Every answer to a broadcast: the exchange, the request and the payload."""
    for message in heard:
        if isinstance(message.asked, AskStep) and isinstance(message.said, Update):
            yield message, message.asked, message.said.payload


# ------------------------------------------------------------------ single messages


def invert(heard: Sequence[Heard]) -> Candidates:
    """Invert uploads of single rows: x = m + r / eta (Eq. 5), or r / W as published."""
    found = []
    for _, asked, payload in steps(heard):
        if not isinstance(payload, Intensities):
            continue
        sent = asked.payload
        if isinstance(sent, WeightedPositions):
            if np.all(sent.weights > 0):
                rows = sent.points[payload.owners] + payload.intensities / sent.weights
                found.append(rows)
        elif isinstance(sent, Positions):
            rate = _rate(asked)
            found.append(sent.points[payload.owners] + payload.intensities / rate)
    return named("inversion", width_of(heard), found)


def solve_pulls(heard: Sequence[Heard]) -> Candidates:
    """Solve sums of pulls for the rows behind them (level `affine`).

    A seed pulled N times says beta = sum a (1 - a)^(N - j) x_j, a = w eta. One row is
    beta / a. The same few rows, told with N different weights, are N equations.
    """
    places_by_step: dict[tuple[int, int, int], dict[float, Floats]] = defaultdict(dict)
    for message, asked, payload in steps(heard):
        if not isinstance(payload, Pulls) or not isinstance(asked.payload, Addressed):
            continue
        step = payload.weight * _rate(asked)
        for seed in np.flatnonzero((payload.counts >= 1) & (payload.counts <= SOLVED)):
            key = (message.client, int(seed), int(payload.counts[seed]))
            places_by_step[key][step] = payload.places[seed]
    found = []
    for (_, _, pulled), places in places_by_step.items():
        if len(places) < pulled:
            continue
        rates = np.array(list(places))[:, None]
        powers = rates * (1 - rates) ** np.arange(pulled - 1, -1, -1)
        rows = np.linalg.lstsq(powers, np.array(list(places.values())), rcond=None)[0]
        found.append(rows)
    return named("pulls", width_of(heard), found)


def match_first_message(heard: Sequence[Heard]) -> Candidates:
    """Take what first messages say for rows: bare points, cells of very few rows."""
    points, sizes = [], []
    for message in heard:
        if not isinstance(message.said, Hello):
            continue
        payload = message.said.payload
        if isinstance(payload, Positions):
            points.append(payload.points)
            sizes.append(np.ones(payload.points.shape[0]))
        cells = payload.cells if isinstance(payload, SecureHello) else payload
        if isinstance(cells, Cells):
            few = _few_equal(cells)
            points.append(cells.means[few])
            sizes.append(cells.counts[few])
    return named("first message", width_of(heard), points, sizes)


def find_singletons(releases: Sequence[Released]) -> Candidates:
    """Find cells of one row, or of a few equal ones, in any message.

    In one dimension a cell of two rows tells both: its mean and scatter are two
    equations.
    """
    if not releases:
        return named("singletons", 0, [])
    width = releases[0].cells.means.shape[1]
    points, sizes = [], []
    for release in releases:
        cells = release.cells
        few = _few_equal(cells)
        points.append(cells.means[few])
        sizes.append(cells.counts[few])
        if width == 1:
            two = (cells.counts == 2) & ~few
            away = np.sqrt(cells.scatters[two] / 2)[:, None]
            points.extend([cells.means[two] - away, cells.means[two] + away])
            sizes.extend([np.ones(int(two.sum()))] * 2)
    return named("singletons", width, points, sizes)


def find_shared(releases: Sequence[Released]) -> Candidates:
    """Find places that several rows share: cells of :data:`FEW` and more equal rows.

    No row is singled out by them, but their common value is known.
    """
    if not releases:
        return named("shared", 0, [])
    points, sizes = [], []
    for release in releases:
        cells = release.cells
        flat = (cells.counts >= FEW) & _equal(cells) & (release.step == 0)
        points.append(cells.means[flat])
        sizes.append(cells.counts[flat])
    return named("shared", releases[0].cells.means.shape[1], points, sizes)


def _rate(asked: AskStep) -> float:
    options = json.loads(asked.terms.options)
    return float(options.get("learning_rate", PaperParams().learning_rate))


def _equal(cells: Cells) -> Any:
    return cells.scatters / cells.counts < EQUAL


def _few_equal(cells: Cells) -> Any:
    return (cells.counts < FEW) & ((cells.counts == 1) | _equal(cells))


# ------------------------------------------------------------------ what was released


def releases(heard: Sequence[Heard]) -> list[Released]:
    """Return every bag of cells the server got to see, cohorts' sums included."""
    found: list[Released] = []
    for message in heard:
        who = (message.client,)
        if isinstance(message.said, Hello):
            payload = message.said.payload
            if isinstance(payload, SecureHello):
                found.append(Released(who, payload.cells, step=_grid_of(payload.cells)))
            elif isinstance(payload, Cells):
                found.append(Released(who, payload))
    for message, asked, payload in steps(heard):
        who = (message.client,)
        if isinstance(payload, Summary):
            plan = asked.payload
            found.append(Released(who, payload.cells, plan.seeds, payload.owners))
            for level, reply in zip(plan.candidates, payload.levels, strict=True):
                found.append(Released(who, reply.cells, level.centers, reply.owners))
        elif isinstance(payload, Intensities):
            found.append(Released(who, payload.cells))
    return found + cohort_sums(heard)


def _grid_of(cells: Cells) -> float:
    """Return the coarsest power of two that all means are multiples of, 0 for none."""
    for exponent in range(2, 21):
        scaled = cells.means * 2.0**exponent
        if np.array_equal(scaled, np.rint(scaled)):
            return float(2.0**-exponent)
    return 0.0


def cohort_sums(heard: Sequence[Heard]) -> list[Released]:
    """Add the masked parts of every cohort that is complete; the masks cancel.

    Sums under encryption are those that the holder of the key has opened.
    """
    parts: dict[tuple[int, ...], dict[int, Ints]] = defaultdict(dict)
    tasks: dict[tuple[int, ...], Task] = {}
    found = []
    for message, asked, payload in steps(heard):
        if not isinstance(payload, Part):
            continue
        task = asked.payload.own
        if payload.phase == SUM and task.public is None:
            key = (payload.cohort, *task.members)
            parts[key][message.client], tasks[key] = payload.values, task
        elif payload.phase == OPEN_SUM:
            found.append(_cohort_cells(payload.values, task))
    for key, values in parts.items():
        if len(values) == len(tasks[key].members):
            total = Masks().add(list(values.values()), None)
            assert total is not None
            found.append(_cohort_cells(total, tasks[key]))
    return [each for each in found if each is not None]


def _cohort_cells(numbers: Ints, task: Task) -> Released | None:
    """Return a cohort's sums as cells, None if they cannot be any."""
    counts = numbers[: int(task.groups.max()) + 1]
    if not bool(np.all(counts > 0)):
        return None
    cells = cells_from(numbers, counts, task.seeds.shape[1])
    if cells is None:
        return None
    return Released(task.members, cells, step=UNIT * len(task.members))

# SPDX-License-Identifier: Apache-2.0
"""Many small simulated sites that are asked together, and answer in one batch.

What each of them answers is what :class:`~afcl.runtime.site.Site` answers for it, to
the bit; only that nothing is encoded, masked and decoded in between. See
docs/decisions/0021-one-engine.md for what that leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.batch import Tables, cohort_sums, condense, reply
from afcl.core.cell_checks import HIGH, LARGEST, LOW
from afcl.core.cells import concatenate
from afcl.core.client import SEEDING_SAMPLE
from afcl.core.cohort import Cohort
from afcl.core.messages import Batch, Plan
from afcl.core.params import DefaultParams
from afcl.core.tasks import PRESENCE, Parts
from afcl.kernels import BLOCK
from afcl.kernels.threads import workers
from afcl.methods.afcl import Afcl
from afcl.privacy import batch as private
from afcl.privacy.grouping import EXACT
from afcl.privacy.levels import MASKS, PLAIN, parse_level
from afcl.privacy.masks import MOST_PRESENT
from afcl.privacy.secure import on_grid
from afcl.runtime.agreement import Settled, agreed_box
from afcl.runtime.message_sizes import Sizes, hello_sizes, part_sizes, summary_sizes
from afcl.runtime.schedule import Rounds, Schedule
from afcl.runtime.spec import Spec
from afcl.scale import Box, Ranges, supported_box

T = TypeVar("T")
#: Clients or cohorts of one call: what it works on stays in the cache.
PART = 1024
#: Most rows of a site: it sees all of them at once when it says hello, groups them or
#: adds them up.
MOST_ROWS = min(BLOCK, EXACT, SEEDING_SAMPLE)


class Threads:
    """Shares work out to threads; the result does not depend on how many there are."""

    def __init__(self, n: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(n or workers())

    def __call__(self, work: Callable[[Ints], T], index: Ints) -> list[T]:
        """Return what `work` gives for parts of an index, in their order."""
        parts = np.array_split(index, max(1, -(-index.shape[0] // PART)))
        return list(self._pool.map(work, parts))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


class BatchAnswers(NamedTuple):
    """A batch, and the sizes of the messages that it stands for.

    `refused` are clients that were asked for too many different sums.
    """

    batch: Batch
    sizes: Sizes
    refused: Ints


NOBODY = np.empty(0, dtype=np.int64)


class SiteBatch:
    """Simulated sites of the default preset, at `summary` or at `secure` with groups.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows of all sites, one site after the other, in units of the data.
    offsets : ndarray of shape (n_sites + 1,)
        Site c owns the rows from ``offsets[c]`` up to ``offsets[c + 1]``.
    params
        Of the method.
    seed
        Of the run.
    threads
        Who does the work.
    """

    def __init__(
        self,
        rows: Floats,
        offsets: Ints,
        params: DefaultParams,
        seed: int,
        threads: Threads,
    ) -> None:
        self._tables = Tables(np.ascontiguousarray(rows, dtype=np.float64), offsets)
        self._params = params
        self._seed = seed
        self._threads = threads
        self._level = parse_level(params.privacy)
        #: What everybody was asked so far, and who holds rows apart from it.
        self._asked = np.zeros(offsets.shape[0] - 1, dtype=np.int64)
        self._present = np.zeros_like(self._asked)
        self._scaled: Tables | None = None

    def __len__(self) -> int:
        return int(self._tables.offsets.shape[0] - 1)

    @property
    def sizes(self) -> Ints:
        """Rows of every site."""
        return self._tables.sizes

    def extremes(self) -> tuple[Floats, Floats]:
        """Return the lows and the highs that each site tells before its hello."""
        if self._level.group:
            pairs = private.extremes(self._tables, self._level.group, self._threads)
            return pairs[:, 0], pairs[:, 1]
        return _extremes(self._tables.rows, self._tables.offsets)

    def agree(self, scale: Any) -> tuple[Settled, Ranges]:
        """Return the box, and what one site says that reaches as far as all do."""
        n, d = self._tables.rows.shape
        if not isinstance(scale, str):
            pooled = Ranges(n, d, np.empty(0), np.empty(0))
            return agreed_box(scale, [pooled]), pooled
        lows, highs = self.extremes()
        pooled = Ranges(n, d, lows.min(axis=0), highs.max(axis=0))
        return Settled(*supported_box(lows, highs)), pooled

    def settle(self, box: Box) -> Tables:
        """Bring all rows to the agreed units."""
        self._scaled = Tables(box.scale(self._tables.rows), self._tables.offsets)
        return self._scaled

    @property
    def tables(self) -> Tables:
        """The rows in agreed units, once they are settled."""
        assert self._scaled is not None
        return self._scaled

    @property
    def tagged(self) -> bool:
        """Whether members would show each other who they are, behind their masks."""
        return self._level.secure and self._level.scheme == MASKS

    def hellos(self) -> BatchAnswers:
        """Return everybody's hello."""
        everybody = np.arange(len(self))
        params, seed, tables = self._params, self._seed, self.tables
        if self._level.group:
            group = self._level.group
            cells = private.hellos(tables, group, params, seed, self._threads)
        else:
            parts = self._threads(
                lambda some: condense(tables, some, params, seed), everybody
            )
            cells = concatenate(parts)
        if self._level.secure:
            cells = replace(on_grid(cells), offsets=cells.offsets)
        sizes = hello_sizes(cells, self.sizes, keyed=self._level.secure)
        return BatchAnswers(Batch(everybody, cells, rows=self.sizes), sizes, NOBODY)

    # ------------------------------------------------------------------ steps

    def wanted(self, group: Any) -> Ints:
        """Return who is asked something, in increasing order."""
        if isinstance(group, np.ndarray):
            return group
        owing = [cohort.owing for cohort in group.values()]
        flat = [client for clients in owing for client in clients]
        return np.sort(np.array(flat, dtype=np.int64))

    def answer(
        self, version: int, payload: Any, group: Any, clients: Ints
    ) -> BatchAnswers:
        """Return the answers of these sites, which are among those wanted."""
        if isinstance(payload, Plan):
            params, threads = self._params, self._threads
            summary = reply(self.tables, clients, payload, params, threads)
            batch = Batch(clients, summary, version=version)
            return BatchAnswers(batch, summary_sizes(summary), NOBODY)
        return self._parts(version, group, clients)

    def _parts(
        self, version: int, group: Mapping[int, Cohort], clients: Ints
    ) -> BatchAnswers:
        """Return the sum of the parts of those who answer, for every cohort.

        Cohorts come in the order in which their last members speak. Who has been asked
        for too many different sums answers no more, see :mod:`privacy.masks`.
        """
        here = np.zeros(len(self), dtype=np.bool_)
        here[clients] = True
        refused: list[int] = []
        answering: list[tuple[int, Cohort, Ints]] = []
        for number, cohort in group.items():
            members = np.array(cohort.owing)
            members = members[here[members]]
            present = cohort.phase == PRESENCE
            asked = self._present if present else self._asked
            most = MOST_PRESENT if present else self._params.passes + 1
            able = asked[members] < most
            refused += members[~able].tolist()
            members = members[able]
            asked[members] += 1
            if members.size:
                answering.append((number, cohort, members))
        answering.sort(key=lambda each: int(each[2].max()))
        about = [(cohort, members) for _, cohort, members in answering]
        threshold = self._params.threshold
        sums = cohort_sums(self.tables, about, self._threads, threshold)
        parts = [
            Parts(number, tuple(members.tolist()), values)
            for (number, _, members), values in zip(answering, sums, strict=True)
        ]
        spoken = [(number, cohort) for number, cohort, _ in answering]
        each = part_sizes(spoken, self.tagged)
        spoke = [members for _, _, members in answering]
        repeats = np.array([some.shape[0] for some in spoke], dtype=np.int64)
        who = np.concatenate([NOBODY, *spoke])
        order = np.argsort(who, kind="stable")
        sizes = Sizes(
            np.repeat(each.bytes, repeats)[order],
            np.repeat(each.array_bytes, repeats)[order],
        )
        batch = Batch(who[order], parts, version=version)
        return BatchAnswers(batch, sizes, np.array(sorted(refused), dtype=np.int64))


# ------------------------------------------------------------------ what fits


def fits(
    spec: Spec, rows: Floats, offsets: Ints, schedule: Schedule | None = None
) -> bool:
    """Whether sites can be asked together.

    Those of the default preset can, at the levels `summary` and `secure` (without `dp`
    or encryption), in plain rounds: no delays, nobody late, silent or leaving, and no
    site with more than :data:`MOST_ROWS` rows. All rows must lie near given bounds, or
    not very far from everybody else's, or not every message would be accepted.
    """
    if type(spec.method) is not Afcl or not _is_plain(schedule):
        return False
    level = parse_level(spec.method.parameters(**spec.options).privacy)
    summed = level.secure and level.scheme in (MASKS, PLAIN) and not level.private
    if not summed and str(level) != "summary":
        return False
    sizes = np.diff(offsets)
    least = max(spec.parameters.min_cell, level.group)
    if not sizes.size or sizes.min() < least or sizes.max() > MOST_ROWS:
        return False
    return _lie_inside(spec.scale, rows, offsets)


def _extremes(rows: Floats, offsets: Ints) -> tuple[Floats, Floats]:
    """Return each site's lows and highs."""
    lows: Floats = np.minimum.reduceat(rows, offsets[:-1])
    return lows, np.maximum.reduceat(rows, offsets[:-1])


def _is_plain(schedule: Schedule | None) -> bool:
    if schedule is None:
        return True
    if schedule.late or schedule.leaves or schedule.silent or schedule.answers:
        return False
    return type(schedule) is Schedule or (
        type(schedule) is Rounds and schedule.delay == 0
    )


def _lie_inside(scale: Any, rows: Floats, offsets: Ints) -> bool:
    low, high = rows.min(axis=0), rows.max(axis=0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return False
    if isinstance(scale, str):
        box, _ = supported_box(*_extremes(rows, offsets))
        return scale == "minmax" and not box.far_out(low, high).any()
    if scale is None:
        return bool(np.all(np.maximum(-low, high) <= LARGEST))
    n, d = rows.shape
    box = agreed_box(scale, [Ranges(n, d, np.empty(0), np.empty(0))]).box
    inside = (box.scale(low) >= LOW) & (box.scale(high) <= HIGH)
    return bool(inside.all())

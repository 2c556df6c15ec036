# SPDX-License-Identifier: Apache-2.0
"""What becomes of the parts of a cohort: kept, added up when complete, read, believed.

A sum that cannot be true is forgotten together with its cohort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats, Ints
from afcl.core.cell_checks import HIGH, LOW
from afcl.core.cohort import Cohort, GroupMoments
from afcl.core.cohort_checks import add_up, agree_with_hellos, lie_around_seeds
from afcl.core.cohort_state import SecureState
from afcl.core.messages import Cells
from afcl.core.refine import joined, moments_from, sub_cells, without_few
from afcl.core.tasks import (
    COUNT,
    FIELD,
    KEY,
    PER_CLUSTER,
    PER_LEVEL,
    PRESENCE,
    SCORE,
    SUM,
    UNIT,
    Parts,
    Question,
    SeedPartition,
)


def keep_parts(state: SecureState, received: Sequence[Parts]) -> SecureState:
    """Keep parts; cohorts in which nobody owes one go on, in the order given."""
    work = _Work(state)
    for parts in received:
        cohort = work.cohorts[parts.cohort].having(parts)
        work.cohorts[parts.cohort] = cohort
        # A sum is read at once: its parts need not be kept.
        if not cohort.owing:
            work.complete(parts.cohort, cohort)
    return work.state(idle=0 if received else state.idle)


class _Work:
    """Cohorts while parts are absorbed: one copy of each table, however many come."""

    def __init__(self, state: SecureState) -> None:
        self.cohorts = dict(state.cohorts)
        self._before = state
        self._answered = dict(state.answered)
        self._scores = dict(state.scores)
        self._spoken: list[ClientId] = []
        self._spoilt: list[ClientId] = []
        self._version = state.version
        self._dirty = state.dirty

    def state(self, **changes: Any) -> SecureState:
        """Return the state after it all."""
        before = self._before
        return replace(
            before,
            cohorts=self.cohorts,
            answered=self._answered,
            scores=self._scores,
            spoken=before.spoken.union(self._spoken),
            spoilt=before.spoilt.union(self._spoilt),
            version=self._version,
            dirty=self._dirty,
            **changes,
        )

    def complete(self, number: int, cohort: Cohort) -> None:
        """Go on when everybody who was asked has answered."""
        parts = list(cohort.parts.values())
        if cohort.phase == KEY:
            # Only the holder is asked for a key, so there is one part.
            self._go_on(number, cohort.asked_next(key=parts[0]))
            return
        if cohort.total is not None:
            self._read(number, cohort, parts[0])
            return
        # None where ciphertexts cannot be added: read as a sum that is not true.
        summed = self._before.scheme.add(parts, cohort.key)
        if cohort.keyed and summed is not None:
            self._go_on(number, cohort.asked_next(total=summed))
        else:
            self._read(number, cohort, summed)

    def _go_on(self, number: int, cohort: Cohort) -> None:
        """Ask a cohort for the next thing; the server need not think first."""
        self.cohorts[number] = cohort
        self._version += 1

    def _read(self, number: int, cohort: Cohort, numbers: Ints | None) -> None:
        """Read a complete sum; one that cannot be true ends the cohort.

        Who spoilt it cannot be told: its members stay with what is known of them.
        """
        question = cohort.question
        assert question is not None
        self._dirty = True
        read = {
            COUNT: self._counted,
            PRESENCE: self._present,
            SUM: self._summed,
            SCORE: self._scored,
        }
        if numbers is None or not read[question.kind](
            number, cohort, question, numbers
        ):
            del self.cohorts[number]
            # All of them: masked parts do not show who was wrong.
            self._spoilt.extend(cohort.members)
            if question.kind != SCORE and cohort.moments is not None:
                self._remember(number, cohort, coarse_cells(cohort))

    def _counted(
        self, number: int, cohort: Cohort, question: Question, numbers: Ints
    ) -> bool:
        """Join seeds to groups of enough rows, and ask how many hold them."""
        state = self._before
        # The hellos said how many rows there are; other counts are wrong or belong to
        # nobody.
        if not _is_count(numbers, state.rows_of(cohort.members)):
            return False
        *coarser, last = question.partitions
        # Finer groups lie inside the coarser ones, so that their counts must add up.
        if cohort.moments is not None and not np.array_equal(
            np.bincount(last.parents, numbers), cohort.moments.counts
        ):
            return False
        # Before any sum is asked for: a sum of fewer rows must not even be computed.
        groups = joined(last, numbers, state.params.min_cell)
        nested = (*coarser, groups)
        self.cohorts[number] = cohort.put(
            Question(PRESENCE, nested), counts=numbers, partitions=nested
        )
        return True

    def _present(
        self, number: int, cohort: Cohort, question: Question, numbers: Ints
    ) -> bool:
        """Ask for sums, and say of which groups enough members hold rows."""
        holders, held = numbers % FIELD, numbers // FIELD
        # There cannot be more holders of a group than rows in it.
        most = np.minimum(len(cohort.members), _in_groups(cohort))
        threshold = self._before.params.threshold
        if not bool(
            np.all((holders >= 1) & (holders <= most))
            and np.all((held >= holders) & (held <= holders * threshold.cap))
        ):
            return False
        opened = threshold.opened(numbers)
        *coarser, last = nested = question.partitions
        bits = cohort.opened
        if bits is None:
            # Coarse groups: of what few hold a member tells only what its companion
            # level would.
            bits = opened.astype(np.int64)
        else:
            # Finer groups: what few hold is joined to a neighbour in the same coarse
            # group.
            nested = (*coarser, without_few(last, opened, bits))
        asked = Question(SUM, nested, opened=bits)
        self.cohorts[number] = cohort.put(
            asked,
            # Members check this before they give sums: the server is not believed
            # (0027).
            evidence=cohort.shown(),
            present=last.n_groups,
            opened=bits,
            partitions=nested,
        )
        return True

    def _summed(
        self, number: int, cohort: Cohort, question: Question, numbers: Ints
    ) -> bool:
        """Keep the groups' sums: coarse ones are to be refined, finer ones are it."""
        counts, last = cohort.counts, question.partitions[-1]
        assert counts is not None
        assert question.opened is not None
        held = _in_groups(cohort)
        group_counts = numbers.reshape(last.n_groups, -1)[:, 0]
        # Of a group that few hold some rows may be missing.
        outer = last.outer if len(question.partitions) > 1 else np.arange(len(held))
        least = np.where(question.opened[outer] > 0, held, 0)
        if not bool(np.all((group_counts >= least) & (group_counts <= held))):
            return False
        moments = moments_from(question, numbers, counts)
        # A sum that contradicts the hellos or the coarser sums would move every centre.
        if moments is None or not self._is_true(cohort, moments, last):
            return False
        if len(question.partitions) == 1:
            self.cohorts[number] = cohort.put(None, moments=moments)
            return True
        self._remember(number, cohort, sub_cells(moments.cells, last, counts))
        self.cohorts[number] = cohort.put(None)
        return True

    def _scored(
        self, number: int, cohort: Cohort, question: Question, numbers: Ints
    ) -> bool:
        """Keep what a cohort says of the candidates."""
        rows, at = self._before.rows_of(cohort.members), 0
        for level in question.levels:
            k = level.centers.shape[0]
            end = at + PER_CLUSTER * k
            each = numbers[at:end].reshape(k, PER_CLUSTER)
            # Nearest centres part the rows: the counts of a level are all of them.
            if not _is_count(each[:, 0], rows) or each.min() < 0:
                return False
            at = end + PER_LEVEL
            # Rows in a slab; silhouettes, each member's rounded by half a unit.
            most = rows + (rows + len(cohort.members)) * UNIT
            silhouettes = numbers[end:at] * UNIT
            if each[:, 2:].max() > rows or np.abs(silhouettes).max() > most:
                return False
        self._scores[number] = numbers * question.units
        self.cohorts[number] = cohort.put(None)
        return True

    def _remember(self, number: int, cohort: Cohort, cells: Cells) -> None:
        self._answered[number] = cells
        self._spoken.extend(cohort.members)

    def _is_true(
        self, cohort: Cohort, found: GroupMoments, partition: SeedPartition
    ) -> bool:
        """Whether sums can be true, by all that is known of this cohort."""
        members, state = len(cohort.members), self._before
        about = (partition, members, found.counts)
        if not self._is_inside(found.means) or not lie_around_seeds(
            found.means, *about
        ):
            return False
        hellos = state.hellos_of(cohort.members)
        if cohort.moments is not None:
            return add_up(found, partition, cohort.moments, members, hellos)
        # Noise moves hellos and sums apart: they need not agree.
        return state.params.noisy or agree_with_hellos(found, hellos)

    def _is_inside(self, means: Floats) -> bool:
        """Whether means lie in the agreed box, or within one width of it."""
        # Without a box nobody has said how far out a mean may lie.
        if not self._before.bounded:
            return True
        # Sums are rounded to units at every member.
        slack = UNIT * means.shape[1]
        return bool(np.all((means > LOW - slack) & (means < HIGH + slack)))


def _in_groups(cohort: Cohort) -> Ints:
    """Return the rows that a cohort has counted in each group it is asked about."""
    assert cohort.counts is not None
    groups = cohort.partitions[-1].groups
    return np.bincount(groups, cohort.counts).astype(np.int64)


def coarse_cells(cohort: Cohort) -> Cells:
    """Return a cohort's coarsest groups as cells."""
    assert cohort.moments is not None
    return cohort.moments.cells


def _is_count(numbers: Ints, rows: int) -> bool:
    return (
        bool(np.all((numbers >= 0) & (numbers <= rows))) and int(numbers.sum()) == rows
    )

# SPDX-License-Identifier: Apache-2.0
"""What becomes of a cohort that has lost members.

Before any sum is known the others are asked again, without them. Once there is a sum
with their rows in it they are not: the difference to a sum without them would be the
rows of one client. See docs/decisions/0025-sums-over-sites.md.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from afcl._typing import ClientId, Floats
from afcl.core.cohort import Cohort
from afcl.core.cohort_state import SecureState
from afcl.core.cohort_sums import coarse_cells
from afcl.core.protocol import server_rng
from afcl.core.refine import coarse
from afcl.core.seeding import distinct, weighted_kmeans
from afcl.core.tasks import COUNT, SCORE, Question

#: Fewest members of a cohort: of two, each could subtract itself.
FEWEST = 3
#: Questions from the first one to the last sums.
STEPS = 4
#: Members of a cohort of those who answer about equally soon, at least: every question
#: waits for the slowest of them, so one rare site among fifty would hold up all.
ALIKE_IN_PACE = 16
#: Purpose of the server's draws.
PLACING_ANEW = 2


def forsaken(state: SecureState) -> SecureState:
    """Go on at once with cohorts that would wait for somebody who has left.

    Who leaves after its answer to one question is missed at the next one.
    """
    for number, cohort in state.working.items():
        if not state.left.isdisjoint(cohort.owing):
            state = without(state, number)
    return state


def is_first(cohort: Cohort) -> bool:
    """Whether nothing is known of a cohort's sums yet."""
    return cohort.moments is None


def without(state: SecureState, number: int) -> SecureState:
    """Go on with a cohort without its members that have left or are silent.

    The parts that were given stay masked for ever.
    """
    cohort = state.cohorts[number]
    away = state.left | state.silent
    rest = tuple(client for client in cohort.members if client not in away)
    cohorts = {n: each for n, each in state.cohorts.items() if n != number}
    changes: dict[str, Any] = {"dirty": True, "idle": 0}
    question = cohort.question
    assert question is not None
    needed = 1 if question.kind == SCORE else STEPS
    # A cohort that cannot get through all its questions would spend its members' for
    # nothing.
    able = len(rest) >= FEWEST and cohort.asked + needed <= state.params.passes + 1
    if question.kind == SCORE:
        if able:
            cohorts[number] = _renewed(cohort, rest, question)
    elif cohort.moments is not None:
        # Not asked again: sums with the one who left, less those without, would be its
        # rows (0025).
        changes["answered"] = {**state.answered, number: coarse_cells(cohort)}
        changes["spoken"] = state.spoken.union(cohort.members)
    elif able:
        seeds = question.partitions[0].seeds
        # After the counts were read the same seeds must not be counted again.
        if question.kind != COUNT:
            seeds = _other_seeds(state, cohort)
        again = Question(COUNT, (coarse(seeds),))
        # Who asked for a size gets it; else the quick do not wait for the slow (0056).
        paces = [rest] if state.params.cohort else _by_pace(cohort, rest)
        numbers = (number, *range(state.opened, state.opened + len(paces) - 1))
        for each, members in zip(numbers, paces, strict=True):
            cohorts[each] = _renewed(cohort, members, again)
        changes["opened"] = state.opened + len(paces) - 1
        # First in the queue, should they come back.
        changes["waiting"] = (*_missing(cohort, rest), *state.waiting)
    else:
        # Too few are left: all of them wait for others, and their hellos count
        # meanwhile.
        changes["waiting"] = (*cohort.members, *state.waiting)
    return replace(state, cohorts=cohorts, version=state.version + 1, **changes)


def _other_seeds(state: SecureState, cohort: Cohort) -> Floats:
    """Place the first seeds anew.

    The rows of all members have been counted around the old ones: the difference to a
    count without somebody would be the rows of one client.
    """
    assert state.inner is not None
    bag = state.inner.bag()
    k = min(state.params.seeds_for(state.total_rows()), distinct(bag.means))
    rng = server_rng(state.seed, PLACING_ANEW, cohort.asked)
    return weighted_kmeans(bag.means, bag.counts.astype(np.float64), k, rng, 1)


def _by_pace(
    cohort: Cohort, members: tuple[ClientId, ...]
) -> list[tuple[ClientId, ...]]:
    """Cut a cohort's members into those who answered soon, and later."""
    number = max(1, len(members) // ALIKE_IN_PACE)
    if number == 1:
        return [members]
    place = {client: i for i, client in enumerate(chain(*cohort.parts))}
    ordered = sorted(members, key=lambda client: place.get(client, len(place)))
    edges = [i * len(ordered) // number for i in range(number + 1)]
    return [tuple(sorted(ordered[a:b])) for a, b in pairwise(edges)]


def _missing(cohort: Cohort, rest: tuple[ClientId, ...]) -> tuple[ClientId, ...]:
    return tuple(client for client in cohort.members if client not in rest)


def _renewed(cohort: Cohort, members: tuple[ClientId, ...], what: Question) -> Cohort:
    """Return a cohort of fewer members that are asked anew, under a new key."""
    # Which groups enough members hold has to be shown anew for fewer of them.
    anew = cohort.put(what) if what.kind == SCORE else cohort.put(what, opened=None)
    return replace(anew, members=members, key=None)

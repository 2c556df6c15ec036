# SPDX-License-Identifier: Apache-2.0
"""The heavy work of the server of sums: which cohorts are asked what next.

Cohorts are formed, asked about a finer partition once their coarse sums are known, and,
when none is at work, asked how good the candidates are. In between the default preset's
seeds, path and candidates are built on whatever is known (:mod:`core.rebuild`): cells
of cohorts, and the hellos of those who are in no sum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afcl._typing import ClientId
from afcl.core import rebuild, server
from afcl.core.cells import concatenate, nothing, offsets_of
from afcl.core.cohort import Cohort
from afcl.core.cohort_losses import FEWEST, forsaken
from afcl.core.cohort_scores import with_scores
from afcl.core.cohort_state import SecureState
from afcl.core.condense import condense_cells
from afcl.core.messages import Batch, Cells, Level
from afcl.core.params import MOST_SEEDS
from afcl.core.protocol import server_rng
from afcl.core.refine import coarse, finer
from afcl.core.state import ServerState
from afcl.core.tasks import COUNT, SCORE, Question
from afcl.kernels import assign

#: Seeds on what cohorts have said, in multiples of the default preset's: cells of
#: cohorts are finer than those of hellos.
FINER = 2
#: Most members, where nobody says how many: every two of them share a mask.
MOST_MEMBERS = 256
#: A cell is new if its squared radius is below this share of its squared distance to
#: what is known.
SMALL_BESIDE = 0.5
#: Purpose of the server's draws.
REFINING = 1


def prepare(state: SecureState) -> SecureState:
    """Let cohorts begin, refine them, and when all have told their sums, rebuild.

    Then the candidates are scored by the cohorts that may be asked once more.
    """
    if not state.hellos or not state.dirty:
        return state
    # New hellos move the candidates; those that are being scored must stay what they
    # are.
    if len(state.hellos) != state.basis[1] and not _is_judging(state):
        state = rebuilt(state)
    # In this order: who a cohort goes on without can wait for the one that is opened
    # next.
    state = _opened(forsaken(_refined(state)))
    # Only when all have told: half of the sums would be rebuilt again right away.
    if not state.working:
        state = _judged(rebuilt(state))
    return replace(state, dirty=False, version=state.version + 1)


def _is_judging(state: SecureState) -> bool:
    """Whether a cohort is being asked about the candidates, which must not change."""
    working = state.working.values()
    return any(each.question and each.question.kind == SCORE for each in working)


def _opened(state: SecureState) -> SecureState:
    """Form cohorts from who waits, in order of arrival, of as many as can be."""
    waiting = state.present()
    wanted = state.params.cohort
    # Of two members each could subtract itself from the sum.
    if len(waiting) < (wanted or FEWEST):
        return state
    inner = rebuilt(state).inner  # who has come since is in it
    assert inner is not None
    assert inner.seeds is not None
    # Who would be left over, too few for a cohort, joins the others.
    number = len(waiting) // wanted if wanted else -(-len(waiting) // MOST_MEMBERS)
    # Counts first: only they say which groups hold enough rows to be summed (0025).
    first = Question(COUNT, (coarse(inner.seeds),))
    begun = {
        state.opened + i: Cohort(members, first, keyed=state.scheme.keyed)
        for i, members in enumerate(_dealt(waiting, number, wanted))
    }
    taken = frozenset(waiting)
    return replace(
        state,
        cohorts={**state.cohorts, **begun},
        opened=state.opened + number,
        waiting=tuple(client for client in state.waiting if client not in taken),
    )


def _dealt(
    waiting: tuple[ClientId, ...], number: int, size: int | None
) -> list[tuple[ClientId, ...]]:
    """Cut a queue into so many pieces: of this size (the last one larger), or equal."""
    n = len(waiting)
    # Equal pieces where nobody wants a size: a small rest would be a cohort that is
    # worth little.
    edges = [i * size if size else i * n // number for i in range(number)] + [n]
    return [waiting[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def _refined(state: SecureState) -> SecureState:
    """Ask the cohorts whose coarse sums are known about a finer partition."""
    ready = {
        number: cohort
        for number, cohort in state.cohorts.items()
        # Coarse sums are in, finer ones were not asked for.
        if cohort.question is None and len(cohort.partitions) == 1
    }
    every = [cohort.moments for cohort in ready.values() if cohort.moments]
    if not every:
        return state
    n_rows = sum(int(each.counts.sum()) for each in every)
    # Numbered, so that a run that is taken up again draws the same seeds.
    rng = server_rng(state.seed, REFINING, state.refined)
    found = finer(every, n_rows, rng)
    asked = {
        number: cohort.put(Question(COUNT, (*cohort.partitions, partition)))
        for (number, cohort), partition in zip(ready.items(), found, strict=True)
    }
    cohorts = {**state.cohorts, **asked}
    return replace(state, cohorts=cohorts, refined=state.refined + 1)


def rebuilt(state: SecureState) -> SecureState:
    """Build the default preset's state on the cohorts' cells and others' hellos."""
    basis = (len(state.answered), len(state.hellos), state.total_rows())
    # Asked for often (the result, the trace), and heavy: only what is new is worked
    # out.
    if basis == state.basis:
        return state
    bags = list(state.answered.values())
    cells = concatenate([nothing(state.n_features, 0), *bags])
    rows = np.array([bag.counts.sum() for bag in bags], dtype=np.int64)
    # Who is in no sum still has a first message, coarse as it is.
    others, their_rows = state.hellos_of_others()
    cells = concatenate([cells, _unexplained(others, cells)])
    rows = np.concatenate([rows, their_rows])
    # Groups are cut up by counts, and these may be smaller than `min_cell` (0025).
    params = replace(state.params, min_cell=1)
    if bags:
        # Sums over many sites do not mix kinds of rows as one site's cells do: they
        # bear more seeds.
        seeds = params.n_seeds or FINER * params.seeds_for(state.total_rows())
        params = replace(params, n_seeds=min(MOST_SEEDS, seeds))
    everybody = Batch(np.arange(rows.shape[0]), cells, rows)
    inner, _ = server.absorb_batch(ServerState(params, state.seed), everybody)
    return replace(state, inner=rebuild.prepare(inner), basis=basis, scores={})


def _unexplained(others: Cells, known: Cells) -> Cells:
    """Return hellos' cells without those that reach as far as a known cell.

    Such a cell lies where sums have told of rows already, or mixes some of these (its
    rows are then as far from its mean as the nearest known cell, on average); one of a
    cluster that no sum knows of is small beside its distance to all of them.
    """
    if not len(known) or not len(others):
        return others
    # Distances of all to all: of a million hellos that would be too many.
    if len(known) * len(others) > rebuild.WORK:
        known = condense_cells(known, rebuild.BULK)
    _, squares = assign(others.means, known.means)
    # A cell that is wide beside its distance to a known one may be a mixture of known
    # ones.
    new = others.scatters / others.counts < SMALL_BESIDE * squares
    assert others.offsets is not None
    sizes = np.add.reduceat(np.append(new, 0), others.offsets[:-1])
    columns = (others.counts[new], others.means[new], others.scatters[new])
    return Cells(*columns, offsets_of(sizes))


def _judged(state: SecureState) -> SecureState:
    """Ask cohorts about the candidates, or take in what all of them have said."""
    if not state.candidates:
        return state
    question = Question(
        SCORE,
        levels=tuple(
            Level(level.centers, level.spreads, level.sizes, level.revision)
            for level in state.candidates
        ),
    )
    # Scores of a cohort with somebody away would never add up.
    away = state.left | state.silent
    asked = {
        number: cohort.put(question)
        for number, cohort in state.cohorts.items()
        if number in state.answered
        and number not in state.scores
        # A site answers only so many questions, whatever they are (`masks.remember`).
        and cohort.asked < state.params.passes
        and away.isdisjoint(cohort.members)
    }
    if asked:
        return replace(state, cohorts={**state.cohorts, **asked})
    return with_scores(state)

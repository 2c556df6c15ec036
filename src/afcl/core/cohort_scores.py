# SPDX-License-Identifier: Apache-2.0
"""Candidates judged by rows: what cohorts say of them, added up.

Rows whose cohort has not said anything of the candidates count by the cells that are
known of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afcl._typing import Floats
from afcl.core.cell_valleys import cell_valleys
from afcl.core.cells import concatenate, nothing
from afcl.core.cohort_state import SecureState
from afcl.core.messages import Cells
from afcl.core.path import scored, summary_silhouettes
from afcl.core.protocol import PathLevel
from afcl.core.tasks import PER_CLUSTER, PER_LEVEL
from afcl.kernels import assign


def with_scores(state: SecureState) -> SecureState:
    """Return the state whose candidates have the scores that cohorts gave them.

    Where none did, all rows count by the cells that are known of them.
    """
    if not state.candidates:
        return state
    assert state.inner is not None
    width = sum(level.k * PER_CLUSTER + PER_LEVEL for level in state.candidates)
    sums = [_whole(state, number) for number in state.scores]
    numbers = np.sum([np.zeros(width), *sums], axis=0)
    others = _others(state)
    at, judged = 0, []
    for level in state.candidates:
        width = level.k * PER_CLUSTER + PER_LEVEL
        judged.append(_judged(level, numbers[at : at + width], others))
        at += width
    inner = replace(state.inner, candidates=tuple(judged))
    return replace(state, inner=inner)


def _whole(state: SecureState, number: int) -> Floats:
    """Return a cohort's scores, made up for members that did not take part in them."""
    scores, k = state.scores[number], state.candidates[0].k
    rows = scores[: k * PER_CLUSTER : PER_CLUSTER].sum()
    whole: Floats = scores * (state.answered[number].counts.sum() / rows)
    return whole


def _others(state: SecureState) -> Cells:
    """Return the cells of all rows whose cohort gave no scores."""
    silent = [c for n, c in state.answered.items() if n not in state.scores]
    cells = [nothing(state.n_features, 0), *silent, state.hellos_of_others()[0]]
    return replace(concatenate(cells), offsets=None)


def _judged(level: PathLevel, numbers: Floats, others: Cells) -> PathLevel:
    """Return a candidate with its figures; as it was if it has an empty cluster."""
    table = numbers[:-PER_LEVEL].reshape(level.k, PER_CLUSTER)
    counts, scatters, valleys = table[:, 0], table[:, 1], table[:, 2:]
    simplified, moment = numbers[-PER_LEVEL:].tolist()
    uncounted = np.empty((0, 3))
    if len(others):
        weights = others.counts.astype(np.float64)
        nearest, squares = assign(others.means, level.centers)
        own = weights * squares + others.scatters
        counts = counts + np.bincount(nearest, weights, minlength=level.k)
        scatters = scatters + np.bincount(nearest, own, minlength=level.k)
        cell_simplified, cell_moment = summary_silhouettes(others, level)
        simplified += float((weights * cell_simplified).sum())
        moment += float((weights * cell_moment).sum())
        uncounted = cell_valleys(others, level.centers)
        if not table.any():  # nobody's rows were counted: better cells than nothing
            valleys, uncounted = uncounted, np.empty((0, 3))
    if not bool(np.all(counts > 0)):
        nobody = np.zeros_like(valleys)
        return replace(level, valleys=nobody, uncounted=np.empty((0, 3)))
    n = float(counts.sum())
    level = replace(level, valleys=valleys, uncounted=uncounted)
    return scored(
        replace(level, sizes=counts, scatters=scatters), moment / n, simplified / n
    )

# SPDX-License-Identifier: Apache-2.0
"""Candidates judged by what cohorts say of them, and by the cells of everybody else."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from immutables import Map

from afcl.core.cell_valleys import cell_valleys
from afcl.core.cohort_answers import numbers_for
from afcl.core.cohort_scores import with_scores
from afcl.core.cohort_state import SecureState
from afcl.core.messages import Cells, Level
from afcl.core.params import DefaultParams
from afcl.core.path import scored, summary_silhouettes
from afcl.core.protocol import PathLevel
from afcl.core.state import ServerState
from afcl.core.tasks import PER_CLUSTER, SCORE, Question
from afcl.kernels import silhouettes, valleys

PARAMS = DefaultParams(min_cell=1, privacy="secure+grouped(5)")
#: Candidates on a line, of 2 and of 3 clusters; spreads 1/16.
TWO = PathLevel(2, np.array([[0.0], [1.0]]), np.full(2, 4.0), {}, np.full(2, 0.25))
THREE = PathLevel(
    3, np.array([[0.0], [0.5], [1.0]]), np.full(3, 4.0), {}, np.full(3, 0.25)
)
#: Rows of two cohorts, in sixteenths: squared distances are whole units of 1/256.
FIRST = np.array([[0.0], [0.125], [0.5], [1.0], [1.125]])
SECOND = np.array([[0.0625], [0.9375], [1.0]])


def score_of(X, *levels):
    """What a cohort with these rows says of the candidates, in agreed units."""
    sent = tuple(Level(each.centers, each.spreads, each.sizes, 0) for each in levels)
    question = Question(SCORE, levels=sent)
    return numbers_for(question, X) * question.units


def knowing(*levels, **what):
    """Return a server with these candidates."""
    inner = dataclasses.replace(ServerState(PARAMS, 0), candidates=levels)
    state = SecureState(PARAMS, 0, inner=inner, n_features=1)
    state = dataclasses.replace(state, **what)
    told = {
        number: sums_behind(scores, levels[0])
        for number, scores in state.scores.items()
    }
    return dataclasses.replace(state, answered={**told, **state.answered})


def sums_behind(scores, level):
    """Return cells of as many rows as a cohort has scored."""
    n = int(scores[: level.k * PER_CLUSTER : PER_CLUSTER].sum())
    return Cells(np.array([n]), np.zeros((1, 1)), np.zeros(1))


def by_rows(X, level):
    """Return a candidate with its figures by all rows, directly."""
    about = (level.centers, level.spreads, level.sizes)
    simplified, moment, _ = silhouettes(X, np.zeros(X.shape[0]), *about)
    gaps = (X - level.centers.T) ** 2
    nearest = gaps.argmin(axis=1)
    counted = dataclasses.replace(
        level,
        sizes=np.bincount(nearest, minlength=level.k).astype(float),
        scatters=np.bincount(nearest, gaps.min(axis=1), minlength=level.k),
        valleys=valleys(X, np.ones(X.shape[0]), level.centers),
    )
    return scored(counted, moment.mean(), simplified.mean())


def same(ours, theirs):
    assert ours.sizes.tolist() == theirs.sizes.tolist()
    assert ours.scatters.tolist() == theirs.scatters.tolist()
    assert ours.valleys.tolist() == theirs.valleys.tolist()
    assert ours.centers is theirs.centers
    assert ours.scores.keys() == theirs.scores.keys()
    for name, value in theirs.scores.items():
        assert ours.scores[name] == pytest.approx(value, abs=1e-5)


def test_without_candidates_there_is_nothing_to_judge():
    nobody = SecureState(PARAMS, 0, scores={0: np.zeros(12)})
    assert with_scores(nobody) is nobody


@pytest.mark.parametrize("summed", [False, True])
def test_where_no_cohort_gave_scores_cells_are_counted_for_valleys(summed):
    """One row each: cells without scatter are the rows, whoever told of them."""
    n = FIRST.shape[0]
    cells = Cells(np.ones(n, dtype=np.int64), FIRST, np.zeros(n))
    known: dict[str, Any] = {"hellos": Map({5: cells}), "rows": Map({5: n})}
    known["keys"] = Map({5: ""})
    if summed:
        known |= {"answered": {0: cells}, "spoken": frozenset({5})}
    (found,) = with_scores(knowing(TWO, **known)).candidates
    same(found, by_rows(FIRST, TWO))


def test_all_rows_judge_where_every_cohort_has_spoken():
    scores = {0: score_of(FIRST, TWO, THREE), 1: score_of(SECOND, TWO, THREE)}
    state = with_scores(knowing(TWO, THREE, scores=scores))
    X = np.concatenate([FIRST, SECOND])
    for ours, level in zip(state.candidates, (TWO, THREE), strict=True):
        same(ours, by_rows(X, level))


def test_figures_by_hand():
    """The lower centre has 0, 1/8 and 1/2, the upper one 1 and 9/8."""
    (found,) = with_scores(knowing(TWO, scores={0: score_of(FIRST, TWO)})).candidates
    assert found.sizes.tolist() == [3.0, 2.0]
    assert found.scatters.tolist() == [1 / 64 + 1 / 4, 1 / 64]
    # 1/8 is farther than a tenth from 0, and 9/8 from 1.
    assert found.valleys.tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("known", ["cohort", "hello", "both"])
def test_who_is_silent_counts_by_its_cells(known):
    """Of a cohort the cells of its sums, of anybody else the hello's.

    Valleys are the rows' of those who speak; those of cells stand beside them.
    """
    cells = Cells(np.array([4, 2]), np.array([[0.125], [1.0]]), np.array([0.5, 0.0]))
    hello = Cells(np.array([3]), np.array([[0.75]]), np.array([0.25]))
    others = {"cohort": [cells], "hello": [hello], "both": [cells, hello]}[known]
    what = {"answered": {0: cells}, "spoken": frozenset({5})}
    # Client 5 is in the silent cohort: its own hello is not used.
    hellos = {5: cells}
    if known == "hello":
        what = {"spoken": frozenset({5})}
    if known != "cohort":
        hellos[6] = hello
    state = knowing(
        TWO,
        scores={1: score_of(FIRST, TWO)},
        hellos=Map(hellos),
        rows=Map(dict.fromkeys(hellos, 6)),
        keys=Map(dict.fromkeys(hellos, "")),
        **what,
    )
    (found,) = with_scores(state).candidates
    alone = by_rows(FIRST, TWO)
    counted = np.sum([cell_valleys(bag, TWO.centers) for bag in others], axis=0)
    assert found.valleys.tolist() == alone.valleys.tolist()
    assert found.uncounted.tolist() == counted.tolist()
    sizes, scatters = alone.sizes.copy(), alone.scatters.copy()
    n = 5.0
    simplified, moment = score_of(FIRST, TWO)[-2:]
    for bag in others:
        gaps = (bag.means - TWO.centers.T) ** 2
        own = gaps.argmin(axis=1)
        sizes += np.bincount(own, bag.counts, minlength=2)
        scatters += np.bincount(
            own, bag.counts * gaps.min(axis=1) + bag.scatters, minlength=2
        )
        n += bag.counts.sum()
        both = summary_silhouettes(bag, TWO)
        simplified += (bag.counts * both[0]).sum()
        moment += (bag.counts * both[1]).sum()
    assert found.sizes.tolist() == sizes.tolist()
    assert found.scatters == pytest.approx(scatters)
    assert found.scores["silhouette"] == pytest.approx(moment / n)
    wanted = scored(
        dataclasses.replace(TWO, sizes=sizes, scatters=scatters),
        moment / n,
        simplified / n,
    )
    assert found.scores == pytest.approx(wanted.scores)


def test_a_cluster_that_nobody_is_in_keeps_the_figures_it_had():
    """Nobody confirms it by valleys either; the other candidate is judged."""
    before = dataclasses.replace(THREE, scores={"silhouette": 0.25})
    X = np.array([[0.0], [0.0625], [1.0]])
    scores = {0: score_of(X, before, TWO)}
    found = with_scores(knowing(before, TWO, scores=scores)).candidates
    assert found[0].scores == {"silhouette": 0.25}
    assert found[0].sizes is before.sizes
    assert found[0].valleys.tolist() == [[0.0] * 3] * 3
    assert not found[0].uncounted.size
    same(found[1], by_rows(X, TWO))


def test_who_speaks_after_all_does_not_count_twice():
    """Its cells stood for its rows as long as it was silent."""
    late = Cells(np.ones(3, dtype=np.int64), SECOND, np.zeros(3))
    scores = {0: score_of(FIRST, TWO)}
    state = with_scores(knowing(TWO, scores=scores, answered={1: late}))
    assert state.candidates[0].uncounted.size
    state = dataclasses.replace(state, scores={**scores, 1: score_of(SECOND, TWO)})
    (found,) = with_scores(state).candidates
    assert not found.uncounted.size
    same(found, by_rows(np.concatenate([FIRST, SECOND]), TWO))


def test_cells_of_others_can_fill_a_cluster():
    middle = Cells(np.array([2]), np.array([[0.5]]), np.array([0.125]))
    X = np.array([[0.0], [0.0625], [1.0]])
    state = knowing(THREE, scores={0: score_of(X, THREE)}, answered={1: middle})
    (found,) = with_scores(state).candidates
    assert found.sizes.tolist() == [2.0, 2.0, 1.0]
    assert found.scatters.tolist() == [1 / 256, 0.125, 0.0]

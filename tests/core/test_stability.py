# SPDX-License-Identifier: Apache-2.0
"""Resamples of what was heard, and what comes back in them."""

from __future__ import annotations

import numpy as np
import pytest

from afcl.core.messages import Cells
from afcl.core.path import level_around
from afcl.core.protocol import PathLevel
from afcl.core.stability import (
    FromRows,
    chosen_again,
    path_with,
    recovered,
    resampled,
    searched_again,
)
from afcl.registry import INDICES


def scores(silhouette, likely=0.0):
    return dict.fromkeys(INDICES, likely) | {"silhouette": silhouette}


def level(k, silhouette, likely=0.0, valleys=None):
    told = np.empty((0, 3)) if valleys is None else np.array(valleys, dtype=float)
    sizes = np.full(k, 10.0)
    return PathLevel(
        k, np.zeros((k, 1)), sizes, scores(silhouette, likely), sizes, 0, told
    )


def test_resamples_vary_as_rows_would():
    counts = np.array([4, 100])
    bag = Cells(counts, np.array([[0.0, 0.0], [5.0, 5.0]]), np.array([8.0, 200.0]))
    rng = np.random.default_rng(0)
    drawn = [resampled(bag, rng) for _ in range(2000)]
    full = [each for each in drawn if len(each) == 2]
    found = np.array([each.counts for each in full], dtype=float)
    np.testing.assert_allclose(found.mean(axis=0), counts, rtol=0.05)
    np.testing.assert_allclose(found.std(axis=0), np.sqrt(counts), rtol=0.1)
    # A cell's variance is 1 in each column, its mean's 1/4 and 1/100.
    means = np.array([each.means[:, 0] for each in full])
    np.testing.assert_allclose(means.std(axis=0), [0.5, 0.1], rtol=0.1)
    # Around the new mean there is less: 3/4 and 99/100.
    spread = np.mean([each.scatters / each.counts for each in full], axis=0)
    np.testing.assert_allclose(spread, [1.5, 1.98], rtol=1e-6)


def test_cells_that_draw_no_row_are_left_out():
    bag = Cells(np.ones(500, dtype=np.int64), np.zeros((500, 1)), np.zeros(500))
    again = resampled(bag, np.random.default_rng(0))
    assert 0 < len(again) < 500
    assert again.counts.min() >= 1


def test_some_row_there_is_in_every_resample():
    bag = Cells(np.ones(2, dtype=np.int64), np.zeros((2, 1)), np.zeros(2))
    for seed in range(50):
        assert len(resampled(bag, np.random.default_rng(seed))) >= 1


def test_what_rows_have_told_is_taken_over():
    valleys = [[0, 9, 9], [0, 9, 9]]
    known = FromRows.of(
        [level(2, 0.5), level(3, 0.4), level(4, 0.1)],
        [level(2, 0.6, valleys=valleys), level(3, 0.7)],
    )
    assert known.shifts[2]["silhouette"] == pytest.approx(0.1)
    assert known.usual["silhouette"] == pytest.approx(0.2)
    asked = known.applied(level(2, 0.3))
    assert asked.scores["silhouette"] == pytest.approx(0.4)
    np.testing.assert_array_equal(asked.valleys, valleys)
    other = known.applied(level(4, 0.3))
    assert other.scores["silhouette"] == pytest.approx(0.5)
    assert other.valleys.shape == (0, 3)


def test_undefined_scores_stay_so_and_nobody_asked_changes_nothing():
    known = FromRows.of([level(2, 0.5)], [])
    undefined = PathLevel(2, np.zeros((2, 1)), np.ones(2), dict.fromkeys(INDICES))
    assert known.applied(undefined).scores == dict.fromkeys(INDICES)
    assert known.applied(level(2, 0.5)).scores["silhouette"] == 0.5


def test_the_rule_chooses_anew_by_what_rows_would_say():
    known = FromRows.of([level(2, 0.5), level(3, 0.5)], [level(2, 0.5), level(3, 0.9)])
    assert chosen_again([level(2, 0.6), level(3, 0.5)], known, "auto", 0.01, 9).k == 3
    assert chosen_again([level(2, 0.6), level(3, 0.1)], known, "auto", 0.01, 9).k == 2


def test_what_comes_back_by_hand():
    """Six things of weight 1 to 6 in two clusters; the last moves to the other."""
    weights = np.arange(1, 7)
    before, after = np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 1, 0, 0, 1])
    # {1, 2, 3}: 6 of {1, 2, 3, 6}'s 12; {4, 5, 6}: 9 of 15.
    np.testing.assert_allclose(recovered(weights, before, after, 2), [0.5, 0.6])
    np.testing.assert_allclose(recovered(weights, before, before, 2), [1, 1])


def test_a_cluster_without_anything_does_not_come_back():
    weights, labels = np.array([3, 3]), np.array([0, 0])
    np.testing.assert_allclose(recovered(weights, labels, labels, 2), [1, 0])


def four_blobs():
    """Cells of four places; the first two are near each other, the last is large."""
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0], [1, 0], [4, 0], [4, 3]])
    means = np.repeat(places, 12, axis=0) + 0.035 * rng.normal(size=(48, 2))
    return Cells(np.full(48, 8), means, np.full(48, 0.14)), places


def test_what_was_searched_for_is_searched_for_again():
    bag, places = four_blobs()
    right = level_around(bag, places)
    wrong = level_around(bag, np.array([[0.5, 0], [4, 0], [3.97, 3], [4.03, 3]]))
    assert right is not None
    assert wrong is not None
    (found,) = searched_again([wrong], bag, 4, 10)
    np.testing.assert_allclose(np.sort(found.centers, 0), np.sort(right.centers, 0))
    # Not at another k than the answer's, and nothing likelier is left to be found.
    assert searched_again([wrong], bag, 3, 10) == (wrong,)
    assert searched_again([right], bag, 4, 10) == (right,)


def test_cells_that_end_in_one_cluster_are_no_level():
    bag, _ = four_blobs()
    assert level_around(bag, np.array([[0.0, 0.0], [99.0, 99.0]])) is None


def test_a_level_takes_the_place_of_that_of_the_same_k():
    path = [level(2, 0.1), level(3, 0.2)]
    other, finer = level(3, 0.9), level(4, 0.9)
    assert path_with(path, other) == (path[0], other)
    assert path_with(path, finer) == (*path, finer)

# SPDX-License-Identifier: Apache-2.0
"""The path: Ward's merges against SciPy, levels by hand, empty centres dropped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.cluster.hierarchy import linkage

from afcl.core.cells import cells_of, pool
from afcl.core.messages import Cells
from afcl.core.path import (
    build_path,
    polish,
    scored,
    summary_silhouettes,
    ward,
)
from afcl.core.protocol import Merge, PathLevel


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def floats(*values):
    return np.array(values, dtype=np.float64)


def cells(counts, means, scatters=None):
    scatter = np.zeros(len(counts)) if scatters is None else floats(*scatters)
    return Cells(np.array(counts), column(*means), scatter)


# ---------------------------------------------------------------------- Ward


def test_ward_by_hand():
    # 0 (1 row), 1 (3 rows), 9 (2 rows). Costs: 0-1: 3/4 * 1 = .75; 0-9: 2/3 * 81 = 54;
    # 1-9: 6/5 * 64. First 0-1, mean .75, 4 rows; then 8/6 * 8.25^2 = 90.75.
    merges = ward(floats(1, 3, 2), column(0, 1, 9))
    assert merges == (Merge(0, 1, 0.75, 4.0), Merge(3, 2, 90.75, 6.0))


def test_ward_takes_the_lowest_index_pair_on_ties():
    # 0-1, 1-2 and 2-3 cost the same: 0-1 joins (node 4, at .5), then 2-3 (node 5).
    merges = ward(np.ones(4), column(0, 1, 2, 3))
    assert [(m.left, m.right) for m in merges] == [(0, 1), (2, 3), (4, 5)]
    assert [m.cost for m in merges] == [0.5, 0.5, 4.0]
    # Four equal points: the lowest pair again and again, the new node in its place.
    merges = ward(np.ones(4), column(5, 5, 5, 5))
    assert [(m.left, m.right) for m in merges] == [(0, 1), (4, 2), (5, 3)]


def test_ward_of_one_seed_is_empty():
    assert ward(floats(3), column(1)) == ()


def test_ward_leaves_its_inputs_alone():
    counts, means = floats(1, 2, 3), column(0, 1, 5)
    ward(counts, means)
    assert counts.tolist() == [1.0, 2.0, 3.0]
    assert means[:, 0].tolist() == [0.0, 1.0, 5.0]


def test_ward_is_scipys(seed):
    X = np.random.default_rng(seed).normal(size=(40, 3))
    merges = ward(np.ones(40), X)
    expected = linkage(X, method="ward")
    found = [(min(m.left, m.right), max(m.left, m.right)) for m in merges]
    assert found == [(int(row[0]), int(row[1])) for row in expected]
    np.testing.assert_allclose(
        [m.cost for m in merges], expected[:, 2] ** 2 / 2, rtol=1e-9
    )
    np.testing.assert_array_equal([m.size for m in merges], expected[:, 3])


def test_weights_are_repeated_points(seed):
    # With every point repeated, scipy first joins the repetitions at no cost; what
    # follows are the merges of the weighted points.
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(15, 2)), rng.integers(1, 5, 15)
    merges = ward(weights.astype(float), X)
    expected = linkage(np.repeat(X, weights, axis=0), method="ward")
    np.testing.assert_allclose(expected[:-14, 2], 0, atol=1e-12)
    np.testing.assert_allclose(
        [m.cost for m in merges], expected[-14:, 2] ** 2 / 2, rtol=1e-9
    )
    np.testing.assert_array_equal([m.size for m in merges], expected[-14:, 3])


@given(
    arrays(np.int64, 7, elements=st.integers(1, 9)),
    arrays(np.float64, (7, 2), elements=st.integers(-4, 4).map(float)),
)
def test_costs_of_the_merges_are_the_total_scatter(counts, means):
    # Merging everything turns all the scatter between seeds into scatter within; and
    # Ward's costs never fall.
    merges = ward(counts.astype(float), means)
    total = pool(Cells(counts, means, np.zeros(7)), np.zeros(7, dtype=np.int64), 1)[2]
    costs = [m.cost for m in merges]
    assert sum(costs) == pytest.approx(float(total[0]), abs=1e-9)
    assert (np.diff(costs) >= -1e-9).all()
    assert merges[-1].size == counts.sum()


# -------------------------------------------------------------------- polish


def test_polish_drops_empty_centres():
    # 50 holds nothing; {0, 2} and {9}: counts 3 and 2, means (0 + 2 * 2)/3 and 9,
    # scatters 1 * (4/3)^2 + 2 * (2/3)^2 + 1 = 24/9 + 1, and 5.
    bag = cells([1, 2, 2], [0, 2, 9], [0, 1, 5])
    counts, centers, scatters = polish(bag, column(0, 50, 9))
    assert counts.tolist() == [3.0, 2.0]
    np.testing.assert_allclose(centers[:, 0], [4 / 3, 9], rtol=1e-15)
    np.testing.assert_allclose(scatters, [24 / 9 + 1, 5], rtol=1e-15)


def test_polish_can_end_with_one_centre():
    counts, centers, _ = polish(cells([2, 2], [0, 1]), column(0.5, 70))
    assert (counts.tolist(), centers[:, 0].tolist()) == ([4.0], [0.5])


# -------------------------------------------------------------------- levels


def test_levels_by_hand():
    # Bag 0, 2, 10, 12 (one row each); the seeds are the cells. k = 2: {0, 2} and
    # {10, 12}: O = 2, Z = 2, V = 1 at 1 and 11. For the cell at 0:
    # a^2 = (1 + 1) * 2 = 4, b^2 = 121 + 1; at 2: b^2 = 81 + 1; the others mirror them.
    # Simplified: 1 - 1/11 and 1 - 1/9.
    # CH: between 4 * 25, within 4: 100 * 2/4 = 50. DB: (1 + 1)/10.
    # BIC: variance 4/4 = 1: 4 ln(1/2) - 2 ln 4.
    bag = cells([1, 1, 1, 1], [0, 2, 10, 12])
    merges = ward(np.ones(4), bag.means)
    levels = build_path(bag, bag, merges, 3)
    assert [level.k for level in levels] == [2, 3]
    level = levels[0]
    assert level.centers[:, 0].tolist() == [1.0, 11.0]
    assert level.sizes.tolist() == [2.0, 2.0]
    assert level.scatters.tolist() == [2.0, 2.0]
    assert level.spreads.tolist() == [1.0, 1.0]
    silhouette = (2 - 2 / np.sqrt(122) - 2 / np.sqrt(82)) / 2
    assert level.scores["silhouette"] == pytest.approx(silhouette, rel=1e-14)
    simplified = (10 / 11 + 8 / 9) / 2
    assert level.scores["simplified"] == pytest.approx(simplified, rel=1e-14)
    assert level.scores["ch"] == pytest.approx(50, rel=1e-14)
    assert level.scores["db"] == pytest.approx(0.2, rel=1e-14)
    assert level.scores["bic"] == pytest.approx(-8 * np.log(2), rel=1e-14)
    # Variances 2/(2 - 1): fit -2 ln 2, shares 4 ln(1/2), parameters 5/2 ln 4.
    assert level.scores["free_bic"] == pytest.approx(-11 * np.log(2), rel=1e-14)


def test_a_cell_is_a_blurred_object():
    # The cell of 4 rows at 1 with scatter 12 has variance 3; it is cluster 0 itself
    # (O = 4, V = 3): a^2 = (3 + 3) * 4/3 = 8, b^2 = 81 + 3 + 2 = 86;
    # simplified 1 - sqrt(3/84). The cell at 10 has variance 2:
    # a^2 = (2 + 2) * 2/1 = 8, b^2 = 81 + 2 + 3 = 86; 1 - sqrt(2/83).
    bag = cells([4, 2], [1, 10], [12, 4])
    level = PathLevel(2, column(1, 10), floats(4, 2), {}, floats(12, 4))
    simplified, moment = summary_silhouettes(bag, level)
    np.testing.assert_allclose(moment, 1 - np.sqrt(8 / 86), rtol=1e-14)
    np.testing.assert_allclose(
        simplified, [1 - np.sqrt(3 / 84), 1 - np.sqrt(2 / 83)], rtol=1e-14
    )
    # The level's score weights them by their rows.
    (found,) = build_path(bag, bag, ward(floats(4, 2), bag.means), 2)
    expected = (4 * simplified[0] + 2 * simplified[1]) / 6
    assert found.scores["simplified"] == pytest.approx(expected, rel=1e-14)


def test_scores_of_the_summary_follow_from_the_rows(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 2))
    labels = rng.permutation(np.arange(90) % 3)
    found = cells_of(X, labels, 3)
    level = PathLevel(3, found.means, found.counts.astype(float), {}, found.scatters)
    scores = scored(level, 0.5, 0.25).scores
    assert list(scores) == ["silhouette", "simplified", "ch", "db", "bic", "free_bic"]
    assert (scores["silhouette"], scores["simplified"]) == (0.5, 0.25)
    assert None not in scores.values()


def test_levels_stop_at_max_clusters_and_at_two(seed):
    rng = np.random.default_rng(seed)
    bag = Cells(rng.integers(1, 9, 12), rng.normal(size=(12, 2)), rng.random(12))
    merges = ward(bag.counts.astype(float), bag.means)
    for kmax in range(14):
        levels = build_path(bag, bag, merges, kmax)
        assert [level.k for level in levels] == list(range(2, min(kmax, 12) + 1))
        assert all(level.sizes.sum() == bag.counts.sum() for level in levels)


# The bag below has two 3-partitions where Lloyd rests: {0} {1} {10, 14} and
# {0, 1} {10} {14}. The seed at 1000 holds nothing and is dropped from level 4, which
# starts at 0, 1, 12; in level 3 it has joined the seed at 1 to (990 * 1 + 9 * 1000)/999
# = 10, which starts at 0, 10, 12.
SEEDS = cells([1, 990, 1, 9], [0, 1, 12, 1000])
JOIN = (Merge(1, 3, 0, 999), Merge(0, 2, 0, 2), Merge(5, 4, 0, 1001))


def centers_at_three(bag, seeds):
    levels = {level.k: level for level in build_path(bag, seeds, JOIN, 4)}
    return levels[3].centers[:, 0].tolist()


def test_levels_with_the_same_k_keep_the_higher_silhouette():
    # Level 3 is the better one, and comes after level 4.
    bag = cells([10, 10, 10, 10], [0, 1, 10, 14])
    assert sorted(centers_at_three(bag, SEEDS)) == [0.5, 10.0, 14.0]
    # Here level 4 is better, {0} {4} {13, 14} from 0, 4, 13.5 (22 holds nothing),
    # against {0, 4} {13} {14} from 0, (4 + 22)/2 = 13, 13.5.
    bag = cells([10, 10, 10, 10], [0, 4, 13, 14])
    seeds = cells([1, 1, 1, 1], [0, 4, 13.5, 22])
    assert sorted(centers_at_three(bag, seeds)) == [0.0, 4.0, 13.5]


def test_a_level_that_ends_with_one_cluster_is_left_out():
    # Level 2 starts at 0.5 and 1000: all cells go to the first.
    bag = cells([5, 5], [0, 1])
    seeds = cells([5, 5, 1], [0, 1, 1000])
    merges = (Merge(0, 1, 0, 10), Merge(3, 2, 0, 11))
    levels = build_path(bag, seeds, merges, 3)
    assert [level.k for level in levels] == [2]
    assert levels[0].centers[:, 0].tolist() == [0.0, 1.0]
    assert build_path(bag, seeds, merges, 2) == ()

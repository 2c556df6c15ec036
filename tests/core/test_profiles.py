# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl.core.connected import Connected
from afcl.core.messages import Cells
from afcl.core.profiles import profiles_of
from afcl.core.protocol import Clustering
from afcl.scale import Box

SEEDS = range(5)
#: One column, of numbers.
NUMBER = np.zeros(1, dtype=bool)


def answer(centers, sizes, cells=None, connected=None):
    return Clustering(
        None if centers is None else np.asarray(centers, dtype=float),
        np.asarray(sizes, dtype=float),
        {},
        cells=cells,
        connected=connected,
    )


def box_of(d, low=0.0, span=1.0):
    return Box(np.full(d, low), np.full(d, span))


def two():
    """Clusters at 0 and at 10 in the first column; the second says nothing."""
    cells = Cells(
        np.array([2, 2, 4]),
        np.array([[-1.0, 5.0], [1.0, 5.0], [10.0, 5.0]]),
        np.array([0.0, 0.0, 32.0]),
    )
    return answer([[0.0, 5.0], [10.0, 5.0]], [4, 4], cells)


def drawn(seed, d=4, k=3, m=40):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(size=(k, d))
    labels = np.concatenate([np.arange(k), rng.integers(0, k, m - k)])
    means = centers[labels] + rng.normal(0, 0.05, (m, d))
    cells = Cells(rng.integers(5, 20, m), means, rng.uniform(0, 0.02, m))
    return answer(centers, np.bincount(labels, cells.counts), cells)


def test_figures_by_hand():
    first, second = profiles_of(two(), box_of(2), np.zeros(2, dtype=bool))
    # Scatter within a cell counts alike in both columns: 32 / 4 rows / 2 columns.
    assert first.spreads.tolist() == [1.0, 0.0]
    assert second.spreads.tolist() == [2.0, 2.0]
    assert first.others.tolist() == [10.0, 5.0]
    assert first.apart.tolist() == [10.0, 0.0]
    assert first.shares.tolist() == [1.0, 0.0]
    assert (first.nearest, second.nearest) == (1, 0)
    # 10 apart, spreads of 1 and 2 on the way.
    assert first.separation == pytest.approx(10 / 3)
    assert second.separation == pytest.approx(10 / 3)
    assert first.rule is not None
    assert [c.column for c in first.rule.conditions] == [0]
    # A row at -1 has one at 1 and itself (of 4 rows 3 others): b is that to the other.
    inside = np.sqrt((1 + 1) * 4 / 4)
    outside = [np.sqrt(121 + 8), np.sqrt(81 + 8)]
    expected = np.mean([1 - inside / far for far in outside])
    assert first.silhouette == pytest.approx(expected)


def test_in_the_units_of_the_data():
    plain = profiles_of(two(), box_of(2), np.zeros(2, dtype=bool))
    wide = profiles_of(two(), box_of(2, 100.0, 3.0), np.zeros(2, dtype=bool))
    for one, other in zip(plain, wide, strict=True):
        assert np.allclose(other.spreads, 3 * one.spreads)
        assert np.allclose(other.others, 100 + 3 * one.others)
        assert np.allclose(other.apart, 3 * one.apart)
        assert np.allclose(other.shares, one.shares)
        assert other.separation == one.separation


def test_a_middle_cluster_is_set_apart_too():
    clustering = answer(
        [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]],
        [5, 5, 5],
        Cells(np.array([5, 5, 5]), np.array([[0.0, 0], [1, 0], [2, 0]]), np.ones(3)),
    )
    middle = profiles_of(clustering, box_of(2), np.zeros(2, dtype=bool))[1]
    assert middle.others.tolist() == [1.0, 0.0]
    assert middle.shares.tolist() == [1.0, 0.0]
    assert middle.apart[0] == pytest.approx(1.0)


def test_a_share_spreads_as_a_share():
    cells = Cells(np.array([5, 5]), np.array([[0.2], [0.9]]), np.array([9.0, 9.0]))
    clustering = answer([[0.2], [0.9]], [5, 5], cells)
    first, _ = profiles_of(clustering, box_of(1), np.ones(1, dtype=bool))
    assert first.spreads[0] == pytest.approx(0.4)


def test_one_cluster_has_spreads_and_nothing_else():
    cells = Cells(np.array([2, 2]), np.array([[0.0], [2.0]]), np.zeros(2))
    (only,) = profiles_of(answer([[1.0]], [4], cells), box_of(1), np.zeros(1, bool))
    assert only.spreads.tolist() == [1.0]
    assert only.shares.tolist() == [0.0]
    assert only.others.tolist() == [1.0]
    found = (only.nearest, only.separation, only.silhouette, only.rule)
    assert found == (None, None, None, None)


def test_nothing_without_cells_or_centers():
    levels = np.zeros(2, dtype=bool)
    assert profiles_of(replace(two(), cells=None), box_of(2), levels) == ()
    assert profiles_of(replace(two(), centers=None), box_of(2), levels) == ()


def test_a_cluster_without_cells_is_not_made_up():
    clustering = two()
    centers = np.vstack([clustering.centers, [[99.0, 99.0]]])
    clustering = replace(clustering, centers=centers, sizes=np.array([4.0, 4.0, 1.0]))
    third = profiles_of(clustering, box_of(2), np.zeros(2, dtype=bool))[2]
    assert third.silhouette is None
    assert third.rule is None
    assert third.nearest is not None


def test_equal_rows_have_an_end_to_separation():
    cells = Cells(np.array([5, 5]), np.array([[0.0], [1.0]]), np.zeros(2))
    first, _ = profiles_of(answer([[0.0], [1.0]], [5, 5], cells), box_of(1), NUMBER)
    assert first.separation == pytest.approx(1 / 2e-4)
    same = answer([[1.0], [1.0]], [5, 5], cells)
    assert profiles_of(same, box_of(1), np.zeros(1, dtype=bool))[0].separation == 0.0


def test_clusters_that_are_not_round_are_steps_apart():
    means = np.array([[0.0], [1.0], [2.0], [8.0], [8.0]])
    cells = Cells(np.full(5, 5), means, np.zeros(5))
    labels = np.array([0, 0, 0, 1, 1])
    found = Connected(cells, labels, (), (), np.zeros(5, dtype=bool), "")
    clustering = answer([[1.0], [8.0]], [15, 10], cells, found)
    first, second = profiles_of(clustering, box_of(1), np.zeros(1, dtype=bool))
    assert (first.nearest, first.separation) == (1, 6.0)
    assert (second.nearest, second.separation) == (0, None)  # its cells coincide
    one = replace(found, labels=np.zeros(5, dtype=np.int64))
    whole = replace(clustering, centers=np.ones((1, 1)), sizes=np.array([25.0]))
    (only,) = profiles_of(replace(whole, connected=one), box_of(1), np.zeros(1, bool))
    assert (only.nearest, only.separation) == (None, None)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_in_another_order_are_the_same_columns(seed):
    clustering, order = drawn(seed), np.random.default_rng(seed).permutation(4)
    assert clustering.centers is not None
    assert clustering.cells is not None
    moved = replace(
        clustering,
        centers=clustering.centers[:, order],
        cells=replace(clustering.cells, means=clustering.cells.means[:, order]),
    )
    levels = np.zeros(4, dtype=bool)
    plain = profiles_of(clustering, box_of(4), levels)
    other = profiles_of(moved, box_of(4), levels)
    for one, two_ in zip(plain, other, strict=True):
        assert np.allclose(one.spreads[order], two_.spreads)
        assert np.allclose(one.shares[order], two_.shares)
        assert one.nearest == two_.nearest
        assert one.separation == pytest.approx(two_.separation)
        assert one.silhouette == pytest.approx(two_.silhouette)
        assert (one.rule is None) == (two_.rule is None)
        if one.rule is not None and two_.rule is not None:
            named = [order.tolist().index(c.column) for c in one.rule.conditions]
            assert named == [c.column for c in two_.rule.conditions]


@pytest.mark.parametrize("seed", SEEDS)
def test_clusters_in_another_order_are_the_same_clusters(seed):
    clustering = drawn(seed)
    assert clustering.centers is not None
    order = np.array([2, 0, 1])
    moved = replace(
        clustering, centers=clustering.centers[order], sizes=clustering.sizes[order]
    )
    levels = np.zeros(4, dtype=bool)
    plain = profiles_of(clustering, box_of(4), levels)
    for place, one in enumerate(profiles_of(moved, box_of(4), levels)):
        was = plain[order[place]]
        assert np.allclose(one.spreads, was.spreads)
        assert np.allclose(one.shares, was.shares)
        assert one.nearest is not None
        assert order[one.nearest] == was.nearest
        assert one.silhouette == pytest.approx(was.silhouette)
        assert one.rule == was.rule


@pytest.mark.parametrize("seed", SEEDS)
def test_what_parts_nothing_is_never_named(seed):
    clustering = drawn(seed)
    assert clustering.centers is not None
    centers = clustering.centers.copy()
    centers[:, 1] = 0.5
    levels = np.zeros(4, dtype=bool)
    for each in profiles_of(replace(clustering, centers=centers), box_of(4), levels):
        assert each.shares[1] == 0.0
        assert each.rule is None or 1 not in [c.column for c in each.rule.conditions]
        assert each.shares.sum() == pytest.approx(1.0)

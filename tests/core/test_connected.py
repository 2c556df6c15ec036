# SPDX-License-Identifier: Apache-2.0
"""Cells that hang together: small cases by hand, and what must not matter."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.core import connected as module
from afcl.core import doubt
from afcl.core.chains import Chains, neighbours
from afcl.core.condense import condense_cells
from afcl.core.connected import (
    CERTAIN,
    PARTED,
    Connected,
    ConnectedLevel,
    chosen,
)
from afcl.core.doubt import DOUBTLESS, FEWEST, Doubt
from afcl.core.hollows import DEEPEST, Hollows
from afcl.core.messages import Cells
from afcl.core.params import DefaultParams
from afcl.core.protocol import PathLevel
from afcl.core.stability import resampled
from afcl.kernels import squared_distances

ASKED = DefaultParams(shape="connected")
AUTO = DefaultParams(shape="auto")


def connected(bag, convex, params, steady=1.0, likeliest=False):
    rng = np.random.default_rng(0)
    return module.connected(bag, convex, params, rng, steady, likeliest)


def chosen_of(found, unseen=True, back=1.0):
    """Choose among the levels as if so much of every cluster came back."""
    doubt = Doubt(Chains.of(found.cells), lambda k: np.full(k, back))
    return chosen(found.levels, doubt, unseen)


def coming_back(monkeypatch, *shares):
    """Let so much of every cluster come back when the cells are resampled."""

    class Again:
        def __init__(self, *_):
            pass

        def of(self, labels):
            k = int(labels.max()) + 1
            return np.resize(np.array(shares), k)

    monkeypatch.setattr(module, "Again", Again)


def least_hollow(chains, labels):
    return Hollows.of(chains).least(labels)


def cells_at(points, count=6, scatter=0.0):
    """Return equal cells at these places."""
    means = np.asarray(points, dtype=float)
    n = means.shape[0]
    return Cells(np.full(n, count), means, np.full(n, float(scatter)))


def found_in(bag, params=ASKED, convex=None, steady=1.0) -> Connected:
    found: Connected | None = connected(bag, convex, params, steady)
    assert found is not None
    return found


def off(points, most=0.05):
    """Move points a little, so that no column has but a few values."""
    n, d = points.shape
    return points + most * np.sin(np.arange(n)[:, None] * (1.0 + 0.7 * np.arange(d)))


def two_chains(n=10):
    """Two rows of cells, one step from cell to cell, three between the rows."""
    along = np.arange(n, dtype=float)
    lower = np.stack([along, np.zeros(n)], axis=1)
    return off(np.concatenate([lower, lower + [0, 3]]))


def ring_and_blob():
    angles = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    ring = 10 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    grid = np.array([[i, j] for i in range(-1, 2) for j in range(-1, 2)], dtype=float)
    return np.concatenate([ring, grid])


def two_halves(gap):
    """Two squares of cells, with a column of a few rows in the gap between."""
    grid = np.array([[i, j] for i in range(6) for j in range(6)], dtype=float) * 4
    between = np.array([[20 + gap / 2, 4.0 * j] for j in range(6)])
    points = np.concatenate([grid, grid + [20 + gap, 0], between])
    counts = np.r_[np.full(72, 40), np.full(6, 5)]
    return Cells(counts, off(points, 0.4), counts * 3.0)


def cells_of(rows, most=120):
    """Return cells of a few rows each, as sites would tell of these."""
    n = rows.shape[0]
    single = Cells(np.ones(n, dtype=np.int64), rows, np.zeros(n))
    return condense_cells(single, most)


def bands(k=2, n=400, apart=3.0):
    """Long clouds beside each other that touch."""
    rng = np.random.default_rng(0)
    along, across = rng.uniform(0, 12, (k, n)), rng.normal(0, 0.7, (k, n))
    rows = np.stack([along, across + apart * np.arange(k)[:, None]], axis=2)
    return cells_of(rows.reshape(-1, 2))


def in_columns(points, d):
    """Put points into a space of so many columns."""
    return cells_at(np.pad(points, ((0, 0), (0, d - points.shape[1]))), 40, 117.0)


def partition(labels):
    """Return a partition that does not depend on numbers."""
    return {frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)}


class TestByHand:
    def test_two_chains(self):
        found = found_in(cells_at(two_chains()))
        assert partition(found.labels) == {
            frozenset(range(10)),
            frozenset(range(10, 20)),
        }
        assert found.reason == "connected clusters were asked for"

    def test_ring_around_a_blob(self):
        found = found_in(cells_at(ring_and_blob()))
        assert found.labels.tolist() == [0] * 32 + [1] * 9

    def test_clusters_are_numbered_by_rows(self):
        bag = cells_at(ring_and_blob())
        bag = replace(bag, counts=np.where(np.arange(41) < 32, 5, 50))
        found = found_in(bag)
        assert found.labels.tolist() == [1] * 32 + [0] * 9
        level = next(level for level in found.levels if level.k == 2)
        assert level.sizes.tolist() == [450.0, 160.0]

    def test_the_tree_ends_with_everything(self):
        points = two_chains(4)
        found = found_in(cells_at(points))
        assert len(found.merges) == len(points) - 1
        last = found.merges[-1]
        assert last.size == 6 * len(points)
        assert last.cost > 1.5  # from chain to chain, not from cell to cell
        nodes = [node for merge in found.merges for node in (merge.left, merge.right)]
        assert sorted(nodes) == list(range(2 * len(points) - 2))

    def test_a_lonely_cell_is_sparse(self):
        points = np.concatenate([two_chains(), [[4.5, 30.0]], [[4.5, 31.0]]])
        bag = cells_at(points)
        bag = replace(bag, counts=np.r_[np.full(20, 50), 5, 5])
        found = found_in(replace(bag, scatters=np.r_[np.full(20, 1.0), 90.0, 1.0]))
        assert not found.sparse[:20].any()
        assert found.sparse.dtype == bool


class TestChoice:
    def convex(self, bag, centers):
        centers = np.asarray(centers, dtype=float)
        return PathLevel(len(centers), centers, np.ones(len(centers)), {})

    def test_round_ones_stay_if_nothing_is_better(self):
        rng = np.random.default_rng(0)
        spots = np.array([[0, 0], [50, 0], [0, 50]])
        bag = cells_at(rng.normal(spots[np.arange(60) % 3], 1.0), scatter=1.0)
        assert connected(bag, self.convex(bag, spots), AUTO) is None

    def test_chains_that_were_cut_are_seen(self):
        bag = cells_at(two_chains(20))
        halves = self.convex(bag, [[4.5, 1.5], [14.5, 1.5]])
        found = found_in(bag, AUTO, halves)
        assert len(partition(found.labels)) == 2
        assert "hang together" in found.reason
        assert not found.reason.endswith(".")

    def test_an_empty_round_cluster_is_no_rival(self):
        bag = cells_at(two_chains(20))
        found = found_in(bag, AUTO, self.convex(bag, [[9.5, 1.5], [900.0, 900.0]]))
        assert len(partition(found.labels)) == 2

    def test_nothing_is_computed_where_clusters_are_round(self):
        asked = DefaultParams(shape="convex")
        assert connected(cells_at(two_chains()), None, asked) is None

    @pytest.mark.parametrize("wish", [{"criterion": "bic"}, {"granularity": "fine"}])
    def test_wishes_for_the_convex_path_are_kept(self, wish):
        bag = cells_at(two_chains(20))
        assert connected(bag, None, replace(AUTO, **wish)) is None
        assert connected(bag, None, replace(ASKED, **wish)) is not None

    def test_gaps_are_seen_where_no_round_clusters_are(self):
        found = found_in(cells_at(two_chains(20)), AUTO)
        assert len(partition(found.labels)) == 2
        assert re.search(r"would cost \d+\.\d times", found.reason)
        assert connected(cells_at(two_chains(14)), None, AUTO) is None  # too few
        wide = found_in(in_columns(two_halves(10.0).means, 11), AUTO)
        assert len(partition(wide.labels)) == 2

    def test_so_are_hollows_with_few_rows(self, monkeypatch):
        # The gap is not for certain; between the bands rows are few, but there are.
        bag = bands(apart=3.3)
        level = chosen_of(found_in(bag))
        assert level.score < CERTAIN
        assert DOUBTLESS < least_hollow(Chains.of(bag), level.labels) < DEEPEST
        assert len(partition(found_in(bag, AUTO).labels)) == 2
        coming_back(monkeypatch, 0.9, 0.5)  # a hollow of 1.01 < .15 + 2 * .5
        assert connected(bag, None, AUTO) is None

    def test_in_many_columns_nothing_is_dense(self):
        assert connected(in_columns(two_halves(8.0).means, 11), None, AUTO) is None

    def test_no_clusters_stay_none(self):
        assert connected(two_halves(3.0), None, AUTO) is None
        rows = np.random.default_rng(0).random((600, 2))
        assert connected(cells_of(rows), None, AUTO) is None

    def test_a_few_rows_far_away_are_no_cluster(self):
        bag = cells_at(np.concatenate([two_halves(5.0).means, [[90.0, 0.0]]]), 9, 40.0)
        assert chosen_of(found_in(bag)).is_fair
        lonely = [level for level in found_in(bag).levels if not level.is_fair]
        assert lonely[0].score > chosen_of(found_in(bag)).score
        assert connected(bag, None, AUTO) is None
        tiny = replace(bag, counts=np.where(np.arange(len(bag)) == 0, 10**6, 5))
        assert connected(tiny, None, AUTO) is None

    def test_levels_of_a_category_part_nothing(self):
        points = np.concatenate([two_chains(20), two_chains(20) + [0.5, 0.05]])
        level = np.repeat([0.0, 1.0], 40)[:, None]
        assert connected(cells_at(points), None, AUTO) is not None
        assert connected(cells_at(np.hstack([points, 30 * level])), None, AUTO) is None

    def test_round_clusters_that_are_parted_stay_apart(self):
        # Two pairs of spots, near each other; the pairs are farther apart.
        spots = np.array([[0.0, 0], [3, 0], [20, 0], [23, 0]])
        rng = np.random.default_rng(0)
        bag = cells_at(rng.normal(spots[np.arange(80) % 4], 1.0), 9, 3.0)
        four = self.convex(bag, spots)
        assert len(partition(found_in(bag, AUTO, four).labels)) < 4
        # Rows in the middle, at the own end, at the other end: hardly any between.
        parted = replace(four, valleys=np.tile([1.0, 50.0, 50.0], (4, 1)))
        assert connected(bag, parted, AUTO) is None

    def test_pieces_that_do_not_come_back_are_put_together(self, monkeypatch):
        monkeypatch.setattr(module, "BETTER", 9.0)  # whatever the silhouette says
        bag = bands(apart=3.3)
        pieces = self.convex(bag, bag.means[::12])
        parted = replace(pieces, valleys=np.tile([1.0, 50.0, 50.0], (pieces.k, 1)))
        for convex in (pieces, parted):
            assert connected(bag, convex, AUTO, steady=0.95) is None
            found = found_in(bag, AUTO, convex, steady=0.7)
            assert found.labels.max() == 1
            assert "come back when the cells are resampled (100% of" in found.reason
            assert found.reason.endswith("round ones do not (70%)")
        monkeypatch.setattr(module, "DEEPER", 9.0)  # their hollow alone
        assert connected(bag, pieces, AUTO, steady=0.7) is not None
        coming_back(monkeypatch, 1.0, 0.5)
        assert connected(bag, pieces, AUTO, steady=0.7) is None
        monkeypatch.setattr(module, "DEEPER", 0.1)
        assert connected(bag, pieces, AUTO, steady=0.7) is not None
        assert connected(bag, pieces, AUTO, steady=0.8) is None  # they come back better

    def test_many_confirmed_clusters_are_not_put_together_to_a_few(self, monkeypatch):
        """Eight of ten with a valley, and four fifths of each that come back."""
        monkeypatch.setattr(module, "BETTER", 9.0)
        bag = bands(apart=3.3)
        ten = self.convex(bag, bag.means[::12])
        assert ten.k == 10
        rows = np.where(np.arange(ten.k) < 0.75 * ten.k, 1.0, 50.0)
        valleys = np.column_stack([rows, np.full((ten.k, 2), 50.0)])
        parted = replace(ten, valleys=valleys)
        assert connected(bag, ten, AUTO, steady=0.8) is not None
        assert connected(bag, parted, AUTO, steady=0.8) is None
        assert connected(bag, parted, AUTO, steady=0.7) is not None

    def test_clusters_of_who_is_silent_stay_round_by_their_cells(self, monkeypatch):
        monkeypatch.setattr(module, "BETTER", 9.0)
        bag = bands(apart=3.3)
        ten = self.convex(bag, bag.means[::12])
        clear = np.tile([1.0, 50.0, 50.0], (10, 1))
        spoken = np.arange(10)[:, None] < 6
        half = replace(ten, valleys=np.where(spoken, clear, 0.0))
        assert connected(bag, half, AUTO, steady=0.8) is not None
        whole = replace(half, uncounted=np.where(spoken, 0.0, clear))
        assert connected(bag, whole, AUTO, steady=0.8) is None

    def test_parted_groups_of_parted_clusters_stay_apart(self):
        """Two groups with a gap for certain, and five likeliest clusters in each."""
        bag = bands(apart=3.3)
        ten = self.convex(bag, bag.means[::12])
        parted = replace(ten, valleys=np.tile([1.0, 50.0, 50.0], (10, 1)))
        stays = module._stays_round
        two = ConnectedLevel(2, np.zeros(4, np.int64), np.full(2, 9.0), CERTAIN)
        assert stays(two, parted, True, strayed=True, mostly_back=True)
        assert not stays(two, parted, False, strayed=True, mostly_back=True)
        assert not stays(two, parted, True, strayed=True, mostly_back=False)

    def test_the_likeliest_clusters_need_fewer_valleys(self):
        chains = cells_at(two_chains(20))
        four = self.convex(chains, chains.means[5::10])
        assert four.k == 4
        rows = np.array([1.0, 1.0, 1.0, 50.0])  # three of four: .75
        valleys = np.column_stack([rows, np.full((4, 2), 50.0)])
        parted = replace(four, valleys=valleys)
        assert connected(chains, parted, AUTO) is not None
        assert connected(chains, parted, AUTO, likeliest=True) is None
        assert connected(chains, parted, AUTO, steady=0.8, likeliest=True) is not None

    def test_much_fewer_than_come_back_are_apart_for_certain(self):
        # Better by the silhouette, and no valleys are known.
        bag = bands(apart=3.3)
        assert connected(bag, self.convex(bag, bag.means[::12]), AUTO) is None
        four = self.convex(bag, [[3, 0], [9, 0], [3, 3.3], [9, 3.3]])
        assert found_in(bag, AUTO, four).labels.max() == 1
        chains = cells_at(two_chains(20))
        eight = self.convex(chains, chains.means[::5])
        assert found_in(chains, AUTO, eight).levels[0].score >= CERTAIN

    def test_a_larger_silhouette_is_nothing_if_clusters_do_not_come_back(
        self, monkeypatch
    ):
        bag = cells_at(two_chains(20))
        halves = self.convex(bag, [[4.5, 1.5], [14.5, 1.5]])
        coming_back(monkeypatch, 0.89, 0.89)
        assert connected(bag, halves, AUTO, steady=0.95) is None
        assert connected(bag, halves, AUTO, steady=0.8) is not None
        coming_back(monkeypatch, 0.91, 0.91)
        assert connected(bag, halves, AUTO, steady=0.95) is not None

    def test_in_many_columns_gaps_have_to_be_certain(self, monkeypatch):
        rng = np.random.default_rng(0)
        points = np.column_stack([two_chains(20), rng.normal(0, 0.05, 40)])
        bag = cells_at(points)
        halves = self.convex(bag, [[4.5, 1.5, 0.0], [14.5, 1.5, 0.0]])
        monkeypatch.setattr(module, "FAR_BETTER", 9.0)
        assert connected(bag, halves, AUTO) is not None
        monkeypatch.setattr(module, "CERTAIN", 99.0)
        assert connected(bag, halves, AUTO) is None
        monkeypatch.setattr(doubt, "COLUMNS", 3)
        assert connected(bag, halves, AUTO) is not None

    def test_the_finest_level_without_doubt(self):
        def level(k, score):
            labels = np.arange(12) % k
            return ConnectedLevel(k, labels, np.ones(k), score)

        class Known:
            """No doubt of so many clusters."""

            def __init__(self, *ks):
                self.ks = ks

            def is_gone(self, labels):
                return labels.max() + 1 in self.ks

            def is_deep(self, labels):
                return False

        def k_of(scores, unseen, *ks):
            levels = tuple(
                level(k, score) for k, score in zip(range(2, 6), scores, strict=True)
            )
            return chosen(levels, cast(Doubt, Known(*ks)), unseen).k

        assert k_of([1.0, 0.3, 0.2, 0.1], False, 2, 3) == 3
        assert k_of([1.0, 0.3, 0.2, 0.1], True, 2, 3) == 3
        assert k_of([PARTED + 0.1, 0.3, 0.2, 0.1], False, 2, 3) == 2  # that stands out
        assert k_of([PARTED + 0.1, 0.3, 0.2, 0.1], True, 2, 3) == 3
        assert k_of([0.2, 0.3, 0.2, 0.4], True) == 5
        assert k_of([0.2, 0.3, CERTAIN, 0.4], True, 2, 5) == 4

    def test_deep_hollows_of_a_finer_level_count_before_the_largest_gap(self):
        # Three spots: two are near each other, the third is far away.
        spots = np.array([[0.0, 0], [4.5, 0], [60, 0]])
        rng = np.random.default_rng(1)
        bag = cells_at(rng.normal(spots[np.arange(120) % 3], 1.0), 9, 3.0)
        doubt = Doubt(Chains.of(bag), lambda k: np.ones(k))
        levels = module.levels_of(doubt.chains, None, ASKED)
        two = replace(levels[0], score=CERTAIN)  # as if its gap were the largest
        levels = (two, *(replace(each, score=0.0) for each in levels[1:]))
        assert chosen(levels, doubt, unseen=False).k == 3
        assert chosen(levels, doubt, unseen=False, settled=True) is two
        strays = Doubt(doubt.chains, lambda k: np.full(k, 0.1))
        assert chosen(levels, strays, unseen=False) is two

    def test_round_clusters_that_are_likely_parted_and_steady_are_not_refined(self):
        clear = np.tile([1.0, 50.0, 50.0], (2, 1))
        bag = cells_at(two_chains(20))
        two = replace(self.convex(bag, bag.means[[0, -1]]), valleys=clear)
        assert module._is_settled(two, 1.0, likeliest=True)
        assert not module._is_settled(two, 1.0, likeliest=False)
        assert not module._is_settled(two, 0.5, likeliest=True)
        assert not module._is_settled(None, 1.0, likeliest=True)
        hidden = replace(two, valleys=np.empty((0, 3)))
        assert not module._is_settled(hidden, 1.0, likeliest=True)

    def test_what_leaves_too_few_cells_does_not_come_back(self):
        points = np.array([[0.0, 0.0], [1.0, 0.1], [0.1, 1.2], [1.1, 1.3]])
        for seed in range(40):
            rng = np.random.default_rng(seed)
            if all(len(resampled(cells_at(points, 1), rng)) < 4 for _ in range(8)):
                break
        rng = np.random.default_rng(seed)
        found = module.connected(cells_at(points, 1), None, ASKED, rng)
        assert found is not None
        assert chosen_of(found).score < CERTAIN
        assert not found.seen

    def test_as_many_clusters_of_other_cells(self, monkeypatch):
        # Cut across, the silhouette of the two bands is worse, and they are others.
        monkeypatch.setattr(module, "BETTER", 9.0)
        bag = bands(apart=3.3)
        halves = self.convex(bag, [[3.0, 1.5], [9.0, 1.5]])
        found = found_in(bag, AUTO, halves)
        assert found.labels.max() == 1
        assert "explain the cells better" in found.reason
        same = self.convex(bag, [[6.0, 0.0], [6.0, 3.3]])
        assert connected(bag, same, AUTO) is None

    def test_or_between_deeper_hollows(self, monkeypatch):
        for name in ("BETTER", "A_LITTLE_BETTER"):
            monkeypatch.setattr(module, name, 9.0)
        bag = bands(apart=3.3)
        halves = self.convex(bag, [[3.0, 1.5], [9.0, 1.5]])
        found = found_in(bag, AUTO, halves)
        assert "lie between deeper hollows than 2 round ones" in found.reason
        monkeypatch.setattr(module, "DEEPER", 2.0)
        assert connected(bag, halves, AUTO) is None
        monkeypatch.setattr(module, "DEEPER", -9.0)
        alone = self.convex(bag, [[6.0, 1.5], [900.0, 900.0]])
        assert connected(bag, alone, AUTO) is None  # one cluster has no hollow
        spatial = replace(bag, means=np.pad(bag.means, ((0, 0), (0, 1))))
        halves = self.convex(spatial, [[3.0, 1.5, 0.0], [9.0, 1.5, 0.0]])
        assert connected(spatial, halves, AUTO) is None  # none is known

    @pytest.mark.parametrize("n", [1, FEWEST - 1])
    def test_too_few_cells(self, n):
        assert connected(cells_at(np.eye(n)), None, ASKED) is None

    @pytest.mark.parametrize("points", [np.eye(FEWEST), np.zeros((6, 2))])
    def test_as_few_cells_as_can_be(self, points):
        found = found_in(cells_at(points))
        assert found.levels[0].k == 2

    def test_no_more_clusters_than_allowed(self):
        found = found_in(cells_at(two_chains()), replace(ASKED, max_clusters=3))
        assert [level.k for level in found.levels] == [2, 3]
        for params in (ASKED, AUTO):
            one = replace(params, max_clusters=1)
            assert connected(cells_at(two_chains(20)), None, one) is None


@st.composite
def bags(draw):
    """Draw some cells, no two of them in the same place."""
    n = draw(st.integers(6, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    means = rng.normal(0, 1, (n, draw(st.integers(1, 3)))) + 6 * rng.integers(
        0, 3, (n, 1)
    )
    counts = rng.integers(5, 40, n)
    return Cells(counts, means, counts * rng.uniform(0, 0.2, n))


@settings(max_examples=25, deadline=None)
@given(bags())
def test_labels_cover_all_and_levels_are_nested(bag):
    found = found_in(bag)
    m, before = len(found.cells), None
    assert found.cells.counts.sum() == bag.counts.sum()
    assert found.labels.shape == found.sparse.shape == (m,)
    assert [level.k for level in found.levels] == list(range(2, found.levels[-1].k + 1))
    for level in found.levels:
        assert sorted(set(level.labels.tolist())) == list(range(level.k))
        sizes = np.bincount(level.labels, found.cells.counts)
        assert np.array_equal(sizes, level.sizes)
        assert np.all(np.diff(level.sizes) <= 0)
        if before is not None:
            pairs = set(zip(level.labels.tolist(), before.labels.tolist(), strict=True))
            assert len(pairs) == level.k
        before = level
    assert partition(found.labels) in [
        partition(level.labels) for level in found.levels
    ]


@settings(max_examples=25, deadline=None)
@given(bags(), st.integers(0, 1000))
def test_order_does_not_matter(bag, seed):
    order = np.random.default_rng(seed).permutation(len(bag))
    moved = Cells(bag.counts[order], bag.means[order], bag.scatters[order])
    # Which level is taken may rest on resamples, whose draws go by the order.
    for was, now in zip(found_in(bag).levels, found_in(moved).levels, strict=True):
        back = np.empty_like(now.labels)
        back[order] = now.labels
        assert partition(was.labels) == partition(back)


@settings(max_examples=25, deadline=None)
@given(bags(), st.sampled_from([2.0**-6, 4.0, 1024.0]), st.integers(-3, 3))
def test_units_do_not_matter(bag, unit, shift):
    scaled = Cells(bag.counts, unit * (bag.means + shift), unit**2 * bag.scatters)
    assert partition(found_in(bag).labels) == partition(found_in(scaled).labels)


@settings(max_examples=25, deadline=None)
@given(bags())
def test_ten_times_the_rows_say_the_same(bag):
    """Spreads are over counts less one, so that a few rows differ a little."""
    many = Cells(1000 * bag.counts, bag.means, 1000 * bag.scatters)
    more = Cells(2 * many.counts, bag.means, 2 * many.scatters)
    # Which level is taken may rest on resamples, which draw other rows of more.
    for one, other in zip(found_in(many).levels, found_in(more).levels, strict=True):
        assert partition(one.labels) == partition(other.labels)


def test_many_cells_are_condensed():
    rng = np.random.default_rng(0)
    spots = np.array([[0.0, 0.0], [9.0, 9.0]])
    bag = cells_at(rng.normal(spots[np.arange(1500) % 2], 1), scatter=0.1)
    found = found_in(bag)
    assert len(found.cells) <= 1000
    assert found.cells.counts.sum() == bag.counts.sum()


def test_a_hollow_by_hand():
    """Two cells of ten rows, 4 apart: what lies in the middle beside what is inside."""
    bag = Cells(np.array([10, 10]), np.array([[0.0], [4.0]]), np.array([6.0, 6.0]))
    chains = Chains.of(bag)
    # Variances: a quarter of that of all rows, (2 * 10 * 4 + 12) / 20. In the middle
    # both Gaussians add up, as at a mean, where the other one adds little.
    variance = 4.6 / 4
    top = np.log(1 + np.exp(-16 / (2 * variance)))
    expected = top - (np.log(2) - 4 / (2 * variance))
    assert least_hollow(chains, np.array([0, 1])) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("heights", "expected"), [([1, 1, 1, 1, 5], 2), ([0, 1], 2.25), ([2.5], 0.5)]
)
def test_a_cell_on_the_wrong_side_fills_no_hollow(heights, expected):
    chains = Chains.of(cells_at(two_chains(5)))
    n = len(heights)
    ends = (np.arange(n), np.arange(5, 5 + n))
    hollows = Hollows(chains, np.full(10, 3.0), ends, np.array(heights, dtype=float))
    assert hollows.least(np.repeat([0, 1], 5)) == expected


def test_nothing_leads_through_the_deepest_hollow():
    points = two_chains(30) + np.repeat([[0.0, 0.0], [0.0, 300.0]], 30, axis=0)
    chains = Chains.of(cells_at(points))
    assert least_hollow(chains, np.repeat([0, 1], 30)) == DEEPEST


@pytest.mark.parametrize("m", [2, 9, 40])
def test_of_several_as_far_the_first_are_neighbours(m, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (m, 2)).astype(float)  # many tie
    squares = squared_distances(X, X)
    order = np.argsort(squares, axis=1, kind="stable")[:, :5]
    expected = np.zeros((m, m), dtype=bool)
    expected[np.arange(m)[:, None], order] = True
    found = neighbours(squares, 4)
    assert np.array_equal(found, found.T)
    assert not found.diagonal().any()
    np.fill_diagonal(expected, False)
    assert found[expected].all()
    # Beyond these only the links of a tree over all, of both sides.
    assert np.triu(found & ~expected & ~expected.T).sum() <= m - 1

# SPDX-License-Identifier: Apache-2.0
"""What becomes of connected cells: path, places, trust, words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from afcl.core.cells import pool
from afcl.core.connected import Connected, ConnectedLevel
from afcl.core.messages import Cells
from afcl.core.params import DefaultParams
from afcl.core.protocol import Clustering, Trust
from afcl.core.shapes import (
    SEVERAL,
    believed,
    described,
    other_labels,
    path_of,
    places_of,
    renamed,
)
from afcl.registry import INDICES

POINTS = np.array([[0.0, 0], [0, 1], [0, 2], [9, 0], [9, 1], [9, 2]])
LABELS = np.array([0, 0, 0, 1, 1, 1])


def answer(counts=(6, 6, 6, 5, 5, 5)) -> Connected:
    cells = Cells(np.array(counts), POINTS, np.full(6, 0.5))
    fine = np.array([0, 0, 2, 1, 1, 1])
    levels = (
        ConnectedLevel(2, LABELS, np.array([18.0, 15.0]), 0.9),
        ConnectedLevel(3, fine, np.array([12.0, 15.0, 6.0]), 0.4),
    )
    sparse = np.zeros(6, dtype=np.bool_)
    return Connected(cells, LABELS, levels, (), sparse, "they are lines")


def places(owners, seeds=POINTS, smallest=5, found=None):
    found = found or answer()
    told = places_of(found.cells, np.array(owners), found, np.array(seeds), smallest)
    return sorted(
        (*point, label)
        for point, label in zip(told.means.tolist(), told.labels.tolist(), strict=True)
        for point in [tuple(point)]
    )


class TestPath:
    def test_centres_and_scores_are_those_of_the_labels(self):
        found = answer()
        two, three = path_of(found)
        counts, means, _ = pool(found.cells, LABELS, 2)
        assert np.array_equal(two.centers, means)
        assert np.array_equal(two.sizes, counts)
        assert set(two.scores) == {*INDICES, "connected"}
        assert two.scores["connected"] == 0.9
        assert three.scores["connected"] == 0.4
        assert all(value is not None for value in two.scores.values())
        assert two.scores["ch"] != three.scores["ch"]

    def test_equal_cells_have_a_silhouette(self):
        found = answer()
        cells = Cells(found.cells.counts, np.zeros((6, 2)), np.zeros(6))
        two, _ = path_of(replace(found, cells=cells))
        assert two.scores["silhouette"] == 0


class TestPlaces:
    def test_cells_of_two_sites_at_a_seed_are_told_as_their_mean(self):
        found = places([0, 1, 2, 0, 1, 2], seeds=[[0, 1], [9, 1]])
        assert found == [(0, 1, 0), (9, 1, 1)]

    def test_a_site_alone_is_told_by_the_seed(self):
        seeds = [[0.2, 1], [9.3, 1]]
        assert places([0, 0, 0, 1, 1, 1], seeds) == [(0.2, 1, 0), (9.3, 1, 1)]
        assert places([0, 0, 1, 1, 1, 1], seeds) == [(0.0, 1, 0), (9.3, 1, 1)]

    def test_sums_over_sites_are_nobodys(self):
        seeds = [[0.2, 1], [9.3, 1]]
        assert places([SEVERAL] * 6, seeds) == [(0, 1, 0), (9, 1, 1)]

    def test_few_rows_are_told_by_the_seed(self):
        seeds = [[0.2, 1], [9.3, 1]]
        assert places([0, 1, 2, 0, 1, 2], seeds, smallest=17) == [
            (0, 1, 0),
            (9.3, 1, 1),
        ]

    def test_of_two_clusters_at_a_seed_a_smaller_one_of_a_site_is_not_told(self):
        owners = [0, 0, 0, 1, 1, 1]
        found = places(owners, seeds=[[0, 1.5], [9, 1], [9, 2]])
        assert found == [(0, 1.5, 0), (9, 1, 1), (9, 2, 1)]
        # One seed for both: the smaller cluster has no place but its centre.
        assert places(owners, seeds=[[4, 1]]) == [(4, 1, 0), (9, 1, 1)]

    def test_other_levels_are_where_their_cells_are(self):
        found = answer()
        told = places_of(found.cells, np.arange(6) % 2, found, POINTS, 5)
        fine = other_labels(found, told, found.levels[1].labels)
        at = {tuple(p): label for p, label in zip(told.means, fine, strict=True)}
        assert at[0.0, 2.0] == 2
        assert at[0.0, 0.0] == 0
        assert at[9.0, 1.0] == 1


class TestTrust:
    def test_the_verdict_stays(self):
        trust = Trust("unclear", 0.5, 0.1, ((7, 0.1),), (0.1,) * 7, (7,))
        rng = np.random.default_rng(0)
        found = believed(trust, answer(), DefaultParams(), rng)
        assert (found.verdict, found.gain) == ("unclear", 0.5)
        assert found.confidence == 1.0
        assert found.shares == ((2, 1.0),)
        assert len(found.stabilities) == 2
        assert found.levels == (2,)

    def test_where_no_round_clusters_were_seen_there_are_clusters_all_the_same(self):
        none = Trust("none", -0.1, 1.0, ((1, 1.0),), (1.0,), (1,))
        params, found = DefaultParams(shape="auto"), answer()
        seen = believed(none, found, params, np.random.default_rng(0))
        assert (seen.verdict, seen.gain) == ("clusters", None)
        wanted = replace(found, seen=False)
        asked = believed(none, wanted, params, np.random.default_rng(0))
        assert (asked.verdict, asked.gain) == ("none", -0.1)

    def test_resamples_without_enough_cells_have_one_cluster(self):
        found = answer()
        cells = Cells(np.ones(3, dtype=np.int64), POINTS[:3], np.zeros(3))
        few = replace(found, cells=cells, labels=np.array([0, 0, 1]))
        trust = Trust("clusters", 0.5, 0.1)
        told = believed(trust, few, DefaultParams(), np.random.default_rng(0))
        assert told.shares == ((1, 1.0),)
        assert told.stabilities == (0.0, 0.0)


def test_other_numbers():
    found = renamed(answer(), np.array([1, 0]), np.array([20.0, 13.0]))
    assert found.labels.tolist() == [1, 1, 1, 0, 0, 0]
    two, three = found.levels
    assert two.labels.tolist() == [1, 1, 1, 0, 0, 0]
    assert two.sizes.tolist() == [20, 13]
    assert three.labels.tolist() == [0, 0, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("asked", "k", "name", "text"),
    [
        ("convex", 3, "convex", "round clusters were asked for"),
        ("auto", 3, "convex", "nothing that hangs together was seen to be better"),
        ("auto", 1, "convex", "nothing parts the rows"),
        ("connected", 3, "convex", "too few cells"),
    ],
)
def test_round_clusters_in_words(asked, k, name, text):
    told = described(Clustering(None, np.ones(k), {}), asked)
    assert told is not None
    assert told["name"] == name
    assert text in told["reason"]


def test_connected_clusters_in_words():
    clustering = Clustering(None, np.ones(2), {}, connected=answer())
    assert described(clustering, None) == {
        "name": "connected",
        "reason": "they are lines",
    }
    assert described(replace(clustering, connected=None), None) is None

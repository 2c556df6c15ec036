# SPDX-License-Identifier: Apache-2.0
"""Pages of runs whose clusters are not round."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from tests.report.folders import path_of, result_of, tree_of

from afcl.cli.words import in_words
from afcl.registry import OF_CONNECTED
from afcl.report.map import map_section
from afcl.report.page import page
from afcl.report.path import path_section
from afcl.report.run_folder import read_run_folder
from afcl.report.tree import nodes_of
from afcl.report.words import how_sure, index_name

TITLE = OF_CONNECTED["connected"].capitalize()
REASON = "2 clusters that hang together explain the cells better than 3 round ones"


def shaped(n_features=2, sparse=True, k=2):
    """Return a result of connected clusters, with eight cells."""
    rng = np.random.default_rng(0)
    made = result_of(k=k, n_features=n_features, n_seeds=8)
    path = path_of(k)
    for level in path:
        level["scores"]["connected"] = level["scores"]["silhouette"] / 2
    merges = tree_of(8)["merges"]
    merges[-1][2] = 0.1  # the last step need not be the longest
    return made | {
        "path": path,
        "scores": path[k - 2]["scores"],
        "shape": {"name": "connected", "reason": REASON},
        "tree": {"sizes": tree_of(8)["sizes"], "merges": merges},
        "places": {
            "points": (10 + 5 * rng.random((4, n_features))).tolist(),
            "clusters": [0, 0, 1, 1],
        },
        "cells": {
            "points": (10 + 5 * rng.random((8, n_features))).tolist(),
            "rows": [5, 9, 7, 6, 5, 8, 20, 5],
            "clusters": [0, 0, 0, 1, 1, 1, 1, 0],
            "sparse": [sparse] + [False] * 7,
        },
    }


@pytest.fixture
def read(tmp_path):
    def read(result, member=False):
        (tmp_path / "result.json").write_text(json.dumps(result))
        if member:
            told = {"name": "site-1", "state": "done"}
            (tmp_path / "site.json").write_text(json.dumps(told))
        return read_run_folder(tmp_path)

    return read


def test_the_map_shows_cells_by_cluster(read):
    html = str(map_section(read(shaped())))
    assert len(re.findall('class="mark cell fill', html)) == 7
    assert len(re.findall("cell sparse stroke", html)) == 1
    assert "A cell of cluster 1: 20 rows" in html
    assert "may be outliers" in html
    assert "seed" not in html
    assert html.count('class="mark center fill') == 2  # a number for every cluster


def test_without_sparse_cells_nothing_is_said_of_them(read):
    html = str(map_section(read(shaped(sparse=False))))
    assert "outliers" not in html


def test_many_columns_are_seen_from_the_cells(read):
    html = str(map_section(read(shaped(n_features=5))))
    assert "the cells lie furthest apart" in html


def test_many_clusters_are_hatched(read):
    made = shaped(k=10)
    made["cells"]["clusters"] = list(range(2, 10))
    assert "hatch" in str(map_section(read(made)))


def test_a_site_sees_places(read):
    made = shaped()
    del made["cells"], made["tree"], made["sites"]
    made["site"] = {"name": "site-1", "rows": 20, "sizes": [12, 8]}
    html = str(map_section(read(made, member=True)))
    assert len(re.findall('class="mark cell fill', html)) == 4
    assert "A place of cluster 1" in html
    assert "places by which rows are labelled" in html


def test_the_index_is_that_of_connected_levels(read):
    run = read(shaped())
    assert run.criterion == "connected"
    html = str(path_section(run))
    assert TITLE in html
    assert "which cells were joined" in html
    assert "Merge tree of the cells" in html
    assert index_name("unheard-of") == "Unheard-of"


def test_heights_are_those_of_the_dearest_merge_so_far(read):
    run = read(shaped())
    assert run.tree is not None
    heights = [node.height for node in nodes_of(run.tree, cubes=True)[8:]]
    assert heights == sorted(heights)
    dearest = max(merge[2] for merge in run.tree.merges)
    assert heights[-1] == heights[-2] == pytest.approx(dearest ** (1 / 3))


def test_words_say_that_clusters_need_not_be_round(read):
    run = read(shaped())
    first, second, *_ = how_sure(run)
    assert first.startswith(f"The clusters need not be round: {REASON}.")
    assert second.startswith(TITLE)
    html = page(run)
    assert "may lie where it has none" in html
    bare = shaped()
    bare["shape"]["reason"] = ""
    assert how_sure(read(bare))[0].startswith("The clusters need not be round. A row")


def test_the_terminal_says_so_too():
    lines = in_words(shaped())
    assert f"They need not be round: {REASON}." in lines
    assert any(line.startswith(f"{TITLE} 0.350") for line in lines)


def test_round_clusters_of_a_run_that_looked_for_others(read):
    made = result_of(shape={"name": "convex", "reason": "nothing was better"})
    run = read(made)
    assert run.shape is None
    assert "need not be round" not in page(run)
    assert not any("need not be" in line for line in in_words(made))

# SPDX-License-Identifier: Apache-2.0
"""What is drawn, by the numbers in the drawing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.report import OwnRows, RunFolder, read_run_folder
from afcl.report.clusters import clusters_section, deviations
from afcl.report.map import map_section, own_rows, plane_of, seed_versions
from afcl.report.path import path_section
from afcl.report.run_folder import MEMBER, Tree
from afcl.report.svg import Scale, padded, shape, ticks, whole_ticks
from afcl.report.timeline import objective_name, timeline_section
from afcl.report.tree import BRANCHES, drawn, nodes_of, tree_figure
from afcl.report.words import tiles
from afcl.trace import history_of

from .folders import events_of, prepare, result_of, scenarios, tree_of, write_run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return scenarios(tmp_path_factory.mktemp("runs"))


def attribute(markup, name):
    return [float(value) for value in re.findall(rf'{name}="([-\d.]+)"', markup)]


# ------------------------------------------------------------------ scales


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.integers(3, 8),
)
def test_ticks_are_few_even_and_inside(low, width, about):
    high = low + width
    found = ticks(low, high, about)

    assert 1 <= len(found) <= about + 2
    assert all(low - 1e-6 * width <= value <= high + 1e-6 * width for value in found)
    steps = np.diff(found)
    assert np.allclose(steps, steps[:1], rtol=1e-6, atol=1e-9 * width)


@given(st.integers(0, 500), st.integers(0, 500))
def test_whole_ticks_are_whole_and_inside(low, width):
    found = whole_ticks(low, low + width)
    assert len(found) <= 10
    assert all(low <= value <= low + width for value in found)


def test_scales():
    assert Scale(0.0, 10.0, 100.0, 0.0)(2.5) == 75.0
    assert Scale(3.0, 3.0, 0.0, 10.0)(3.0) == 5.0
    assert padded([1.0, 3.0], 0.5) == (0.0, 4.0)
    assert padded([0.0]) == (-0.06, 0.06)
    assert ticks(2.0, 2.0) == [2.0]


def test_shapes_differ():
    assert len({shape(c, 0.0, 0.0, 2.0) for c in range(4)}) == 4
    assert shape(0, 0.0, 0.0, 2.0) == shape(4, 0.0, 0.0, 2.0)


# ------------------------------------------------------------------ the path


def test_the_ring_sits_on_the_chosen_k(folders):
    said = path_section(read_run_folder(folders["plain"]))
    curve = said.split('class="figure k-path"')[1].split("</svg>")[0]
    ring = re.search(r'<circle cx="([\d.]+)" cy="([\d.]+)"[^>]*data-chosen="3"', curve)
    dot = re.search(
        r'<circle[^>]*cx="([\d.]+)" cy="([\d.]+)" r="3.5" data-k="3"', curve
    )

    assert ring is not None
    assert dot is not None
    assert ring.groups() == dot.groups()
    assert "k′ = 3" in curve
    # It is the highest dot: y grows downwards.
    assert float(dot[2]) == min(attribute(curve, "cy"))


def test_the_runner_up_is_told_at_its_dot(folders):
    said = path_section(read_run_folder(folders["plain"]))
    assert "k = 2: Silhouette (from summaries) 0.601, the runner-up, 0.099 less" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("half", "has not heard enough"),
        ("one", "the answer is one cluster"),
        ("rival", "was given, so there is no path"),
    ],
)
def test_no_path_says_why(folders, name, words):
    said = path_section(read_run_folder(folders[name]))
    assert words in said
    assert "<svg" not in said


# ------------------------------------------------------------------ the tree


def test_a_tree_of_four_leaves():
    tree = Tree(
        (None, None, 10, 10), ((0, 1, 1.0, 20), (4, 2, 4.0, 30), (5, 3, 9.0, 40))
    )
    nodes = nodes_of(tree)

    assert [node.height for node in nodes[4:]] == [1.0, 2.0, 3.0]
    assert nodes[6].seeds == (0, 1, 2, 3)
    assert drawn(nodes, 4) == ([3, 2, 0, 1], 4)
    said = tree_figure(RunFolder("run", done=True, n_clusters=2, tree=tree))
    # The cut lies midway between the last two merges, 2.5 of a scale to 3.18.
    cut = re.search(r'y1="([\d.]+)" y2="[\d.]+" class="cut"', said)
    assert cut is not None
    assert float(cut[1]) == pytest.approx(208 - (208 - 36) * 2.5 / (3 * 1.06), abs=0.01)
    assert "A merge: 30 rows, 3 seeds" in said
    assert "A seed: 10 rows, 1 seed" in said


def test_a_big_tree_is_folded():
    said = tree_of(100)
    tree = Tree(tuple(said["sizes"]), tuple(map(tuple, said["merges"])))
    nodes = nodes_of(tree)
    order, first = drawn(nodes, 100)

    assert len(order) == BRANCHES
    assert first == len(nodes) - (BRANCHES - 1)
    assert sum(len(nodes[node].seeds) for node in order) == 100
    picture = tree_figure(RunFolder("run", done=True, n_clusters=3, tree=tree))
    assert "the 60 lowest merges folded" in picture
    assert "Folded: 610 rows, 61 seeds" in picture


def test_branches_take_the_colour_of_their_cluster():
    # Two seeds at the left centre, two at the right one.
    tree = Tree((None,) * 4, ((0, 1, 1.0, 20), (2, 3, 1.0, 20), (4, 5, 9.0, 40)))
    seeds = [[0.0, 0.0], [0.1, 0.0], [0.9, 1.0], [1.0, 1.0]]
    run = RunFolder(
        "run",
        done=True,
        n_clusters=2,
        tree=tree,
        centers=np.array([[10.0, 10.0], [20.0, 20.0]]),
        low=np.array([10.0, 10.0]),
        span=np.array([10.0, 10.0]),
        history=history_of([prepare(0, 2, seeds)]),
    )
    said = tree_figure(run)

    assert re.findall(r'class="mark branch ?(.*?)"', said) == [
        "stroke c0",
        "stroke c1",
        "",
    ]
    assert "40 rows, 4 seeds, clusters 0, 1" in said
    other = replace(run, history=history_of([prepare(0, 2, seeds[:3])]))
    assert "stroke c0" not in tree_figure(other)


# ------------------------------------------------------------------ clusters


def test_deviations_are_shares_of_the_range():
    run = RunFolder(
        "run",
        centers=np.array([[0.0, 5.0], [4.0, 5.0]]),
        sizes=(30, 10),
        span=np.array([10.0, 0.0]),
    )
    middle, away = deviations(run)
    # (30 * 0 + 10 * 4) / 40 = 1
    assert middle.tolist() == [1.0, 5.0]
    assert away.tolist() == [[-0.1, 0.0], [0.3, 0.0]]
    middle, _ = deviations(replace(run, sizes=(), span=None))
    assert middle.tolist() == [2.0, 5.0]


def test_columns_that_part_the_clusters_come_first():
    run = RunFolder(
        "run",
        done=True,
        n_clusters=2,
        columns=("same", "apart"),
        centers=np.array([[1.0, 0.0], [1.0, 8.0]]),
        sizes=(10, 10),
        span=np.array([2.0, 10.0]),
    )
    said = clusters_section(run)
    assert said.index(">apart</th>") < said.index(">same</th>")
    assert (
        "Cluster 1, apart: 8, 4 above the mean of all rows (40% of the range)" in said
    )
    assert 'class="mark down4"' in said
    assert said.count('class="mark down0"') == 2


def test_one_cluster_has_no_deviation(folders):
    said = clusters_section(read_run_folder(folders["one"]))
    assert "▲" not in said.split("<table")[1]
    assert "▼" not in said.split("<table")[1]


def test_bars_of_sites_add_up(folders):
    result = result_of()
    said = clusters_section(read_run_folder(folders["plain"]))
    shares = said.split('class="figure shares"')[1].split("</svg>")[0]
    widths = [w for w in attribute(shares, " width") if w > 0]
    # Four sites, each as wide as the scale: 120 to 392.
    assert sum(widths) == pytest.approx(4 * 272, abs=0.1)
    first = max(result["sites"], key=lambda site: site["rows"])
    assert f"{first['name']}: {first['sizes'][0]} rows in cluster 0" in shares


def test_many_sites_share_the_last_bar(folders):
    said = clusters_section(read_run_folder(folders["crowd"]))
    assert "170 others" in said
    assert said.count("<option") == 201
    # Twenty clusters: the palette is used up, hatchings tell them apart.
    assert "url(#hatch0)" in said
    assert "url(#hatch1)" in said


def test_a_coordinator_does_not_know_where_clusters_live(folders):
    said = clusters_section(read_run_folder(folders["coordinator"]))
    assert "labels stay with the sites" in said
    assert "<select" not in said
    assert 'class="figure shares"' not in said


def test_levels_of_a_category_are_shares(tmp_path):
    centers = [[170.0, 0.25, 0.7496], [160.0, 1.0003, 0.0]]
    changes: dict[str, Any] = {
        "columns": ["height", "colour=blue", "colour=red"],
        "centers": centers,
        "sizes": [30, 10],
        "features": [{"name": "colour", "levels": ["blue", "red"]}],
    }
    result = result_of(k=2, n_sites=1, **changes)
    run = read_run_folder(write_run(tmp_path / "run", result, events_of(k=2)))
    page = str(clusters_section(run))

    assert "Of a category it is the share of rows that have this level." in page
    assert "Cluster 0, colour=red: 75% of its rows, 56% of all rows" in page
    assert ">100%<" in page
    assert "Cluster 0, height: 170" in page
    assert dict(tiles(run))["columns"] == "2"


def test_without_categories_nothing_is_said_of_them(folders):
    run = read_run_folder(folders["flat"])
    assert "category" not in str(clusters_section(run))


def test_no_centres_no_profile(folders):
    said = clusters_section(read_run_folder(folders["no-centers"]))
    assert "no centres" in said


# ------------------------------------------------------------------ the map


def test_seeds_move_from_version_to_version():
    a, b = np.zeros((3, 2)), np.ones((3, 2))
    rounds = [prepare(0, 2, np.ones((4, 2))), prepare(1, 2, a), prepare(2, 2, a)]
    history = history_of([*rounds, prepare(3, 2, b), prepare(4, 2)])
    versions = seed_versions(RunFolder("run", history=history))

    # Four seeds are another build, and standing still is no step.
    assert [v.tolist() for v in versions] == [a.tolist(), b.tolist()]


def test_many_versions_are_thinned():
    history = history_of([prepare(i, 2, [[float(i), 0.0]]) for i in range(300)])
    versions = seed_versions(RunFolder("run", history=history))
    assert len(versions) == 60
    assert (versions[0][0, 0], versions[-1][0, 0]) == (0.0, 299.0)


def test_two_columns_are_the_plane_itself():
    run = RunFolder(
        "run", columns=("a", "b"), low=np.array([10.0, 0.0]), span=np.array([5.0, 0.0])
    )
    plane = plane_of(run, [np.array([[0.2, 0.0]])], None, None)
    assert plane.flat(np.array([[0.2, 0.5]])).tolist() == [[11.0, 0.5]]
    assert (plane.x, plane.y) == ("a", "b")
    assert "units of the data" in plane.description
    bare = plane_of(RunFolder("run"), [np.array([[0.2, 0.0]])], None, None)
    assert "agreed scale" in bare.description


def test_many_columns_are_seen_along_their_spread():
    # All spread lies in columns 1 and 3: the plane keeps all of it.
    cloud = np.zeros((4, 5))
    cloud[:, 1] = [0, 1, 0, 1]
    cloud[:, 3] = [0, 0, 2, 2]
    plane = plane_of(RunFolder("run"), [], cloud, None)

    assert "keeps 100% of their spread" in plane.description
    apart = np.linalg.norm(np.diff(plane.flat(cloud), axis=0), axis=1)
    assert np.allclose(apart, np.linalg.norm(np.diff(cloud, axis=0), axis=1))


def test_one_column_is_a_line(folders):
    said = map_section(read_run_folder(folders["line"]))
    assert "height means nothing" in said


def test_the_map_draws_ways_seeds_and_centres(folders):
    said = map_section(read_run_folder(folders["flat"]))
    assert said.count('class="way"') == 8
    assert said.count('class="mark seed"') == 8
    assert said.count("mark center fill") == 3
    assert "Numbered discs are the centres" in said
    assert "through 6 versions" in said
    half = map_section(read_run_folder(folders["half"]))
    assert "discs" not in half
    assert "Small rings are the 8 seeds" in half
    assert 'class="rows"' not in said


def test_a_map_without_anything_to_draw(folders):
    assert "no centres to draw yet" in map_section(read_run_folder(folders["waiting"]))
    assert "there is no map" in map_section(read_run_folder(folders["no-centers"]))


def test_own_rows_are_for_a_sites_own_page():
    own = OwnRows(np.arange(10.0).reshape(5, 2), np.array([0, 0, 1, 1, 1]))
    run = RunFolder(
        "s", kind=MEMBER, done=True, n_clusters=2, own=own, centers=np.ones((2, 2))
    )
    said = map_section(run)
    assert said.count('class="row fill') == 2
    assert "own 5 rows; they were put on this page here" in said
    # In any other folder they are not drawn, even if somebody hands them in.
    assert own_rows(replace(run, kind="coordinator")) == (None, None, "")
    gone = replace(run, own=OwnRows(note="the file is gone"))
    assert "the file is gone" in map_section(gone)


def test_many_rows_are_a_sample():
    rng = np.random.default_rng(0)
    own = OwnRows(rng.random((5000, 3)), np.zeros(5000, dtype=np.int64))
    run = RunFolder("s", kind=MEMBER, done=True, own=own, centers=np.ones((1, 3)))
    values, labels, note = own_rows(run)
    again, _, _ = own_rows(run)
    assert values is not None
    assert again is not None
    assert labels is not None
    assert values.shape == (2000, 3)
    assert labels.shape == (2000,)
    assert "2,000 of this site's own 5,000 rows, drawn at random" in note
    assert np.array_equal(values, again)
    # Two centres span no plane: the rows help.
    assert "map" in map_section(run)


# ------------------------------------------------------------------ the history


def test_the_course_tells_rounds_and_staleness(folders):
    said = timeline_section(read_run_folder(folders["plain"]))
    assert "round 5: Silhouette (from summaries) 0.55" in said
    assert "3 answers 2 versions behind" in said
    assert "site-3: 3 late answers, at worst 2 versions behind" in said
    assert "site-3, round 1: answered late" in said


def test_a_failure_is_told(folders):
    said = timeline_section(read_run_folder(folders["half"]))
    assert "(no answer in time)" in said
    assert "rejected or no answer" in said


def test_a_crowd_is_capped(folders):
    said = timeline_section(read_run_folder(folders["crowd"]))
    assert "160 others" in said
    assert "A column stands for 2 rounds" in said
    assert "The other 180 sites sent" in said
    table = said.split('class="participation"')[1].split("</table>")[0]
    assert table.count("<tr") == 1 + 40 + 1
    # The latest one has most trouble and comes first.
    assert table.index(">site-199<") < table.index(">site-0<")


def test_nothing_to_tell(folders):
    assert "at the coordinator" in timeline_section(read_run_folder(folders["site"]))
    assert "no trace" in timeline_section(read_run_folder(folders["no-centers"]))
    assert "Nothing has happened" in timeline_section(
        read_run_folder(folders["waiting"])
    )


def test_a_calm_run(tmp_path):
    events = [{**e, "staleness": 0} if "staleness" in e else e for e in events_of()]
    said = timeline_section(read_run_folder(write_run(tmp_path, result_of(), events)))
    assert "All 10 answers fitted" in said
    assert "Nobody was late" in said


def test_many_incidents_are_folded(tmp_path):
    events = events_of(n_sites=30, end=False)
    gone = [{"event": "left", "tick": 5, "client": i, "at": 1.0} for i in range(30)]
    more = [{"event": "refused", "tick": 0, "name": "x", "reason": "y", "at": 1.0}]
    again = [{"event": "resumed", "tick": 0, "at": 1.0}]
    run = read_run_folder(write_run(tmp_path, None, [*events, *gone, *more, *again]))
    said = timeline_section(run)
    assert "site-0 left; what it said stays" in said
    assert "21 more</summary>" in said
    assert "x was refused: y" in said
    assert "started again 1 time" in said


def test_very_stale_answers_are_put_together(tmp_path):
    events = [{**e, "staleness": 12} if "staleness" in e else e for e in events_of()]
    said = timeline_section(read_run_folder(write_run(tmp_path, result_of(), events)))
    assert "10 or more" in said


def test_objectives_have_names():
    run = RunFolder("run", parameters={"method": "afcl", "preset": "matlab"})
    assert objective_name(run) == "Objective Z"
    run = RunFolder("run", parameters={"method": "dk++"})
    assert objective_name(run) == "The method's objective"

"""Clusters keep their names from answer to answer, and what changed is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core.lineage import Answered, Lineage, succeeded
from afcl.core.messages import Cells
from afcl.core.protocol import Clustering
from afcl.scale import Box

UNIT = Box(np.zeros(2), np.ones(2))
COLUMNS = ("a", "b")
#: Cells of a cluster lie so around its centre.
AROUND = np.array([(-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0)])


def answer(centers, rows=100, box=UNIT, columns=COLUMNS, around=AROUND):
    """Return an answer whose clusters are four cells around each centre."""
    spots = np.asarray(centers, dtype=np.float64)
    rows = np.broadcast_to(rows, len(spots))
    means = (spots[:, None, :] + around).reshape(-1, spots.shape[1])
    counts = np.repeat(rows // len(around), len(around))
    cells = Cells(counts, box.scale(means), np.zeros(len(means)))
    found = Clustering(box.scale(spots), rows.astype(float), {}, cells=cells)
    return Answered.of(found, box, columns)


def named(before, after, names=None, used=None):
    names = names or tuple(f"c{i}" for i in range(len(before.sizes)))
    found, changes = succeeded(before, names, after, used or len(names))
    return found, [str(change) for change in changes]


FOUR = [(0, 0), (0, 20), (20, 0), (20, 20)]


def test_spreads_are_those_of_cells_and_within_them():
    cells = Cells(
        np.array([4, 4]), np.array([[0.0, 1.0], [0.0, 3.0]]), np.array([8, 8.0])
    )
    found = Clustering(np.array([[0.0, 2.0]]), np.array([8.0]), {}, cells=cells)
    spread = Answered.of(
        found, Box(np.zeros(2), np.array([1.0, 10.0])), COLUMNS
    ).spreads
    # Column a: nothing between cells, 16 / 2 within them over 8 rows; b: 8 between.
    np.testing.assert_allclose(spread, [[1.0, 10 * np.sqrt(2.0)]])


def test_the_same_clusters_in_another_order_keep_their_names():
    order = [2, 0, 3, 1]
    found, changes = named(answer(FOUR), answer([FOUR[i] for i in order]))
    assert found == ("c2", "c0", "c3", "c1")
    assert changes == []


def test_names_follow_through_another_box():
    wide = Box(np.array([-5.0, 3.0]), np.array([40.0, 25.0]))
    found, changes = named(answer(FOUR), answer(FOUR[::-1], box=wide))
    assert found == ("c3", "c2", "c1", "c0")
    assert changes == []


def test_a_cluster_where_nothing_was_is_born():
    found, changes = named(answer(FOUR), answer([*FOUR, (60, 60)]))
    assert found == ("c0", "c1", "c2", "c3", "c4")
    assert changes == ["c4 is new"]


def test_a_cluster_where_nothing_is_has_died():
    found, changes = named(answer(FOUR), answer(FOUR[1:]))
    assert found == ("c1", "c2", "c3")
    assert changes == ["c0 is gone"]


def test_the_larger_part_of_a_split_keeps_the_name():
    before = answer([(0, 0), (40, 40)], around=np.array([(-4.0, 0), (4.0, 0)]))
    after = answer([(4, 0), (-4, 0), (40, 40)], rows=[80, 20, 100])
    found, changes = named(before, after)
    assert found == ("c0", "c2", "c1")
    assert changes == ["c0 is split into c0 and c2"]


def test_the_larger_of_two_that_merge_keeps_the_name():
    before = answer([(4, 0), (-4, 0), (40, 40)], rows=[20, 80, 100])
    after = answer([(0, 0), (40, 40)], around=np.array([(-4.0, 0), (4.0, 0)]))
    found, changes = named(before, after)
    assert found == ("c1", "c2")
    assert changes == ["c1 and c0 are one now, c1"]


def test_who_moves_by_more_than_half_its_spread_has_drifted():
    before, after = answer(FOUR), answer([(0.5, 0), *FOUR[1:]])
    _, changes = named(before, after)
    assert changes == ["c0 drifted: a up by 0.5 (0.7 of its spreads)"]
    assert named(after, before)[1] == ["c0 drifted: a down by 0.5 (0.7 of its spreads)"]
    assert named(before, answer([(0.3, 0), *FOUR[1:]]))[1] == []


def test_few_rows_drift_by_chance():
    before = answer(FOUR, rows=40)
    assert named(before, answer([(0.5, 0), *FOUR[1:]], rows=40))[1] == []


def test_growth_is_no_birth_and_shrinking_no_death():
    before, after = answer(FOUR, rows=[100] * 4), answer(FOUR, rows=[400, 100, 100, 40])
    assert named(before, after) == (("c0", "c1", "c2", "c3"), [])


def test_columns_that_both_have_are_compared():
    three = answer(
        [(0, 0, 9), (0, 20, 9)],
        box=Box(np.zeros(3), np.ones(3)),
        columns=("b", "a", "new"),
        around=np.array([(-1.0, 0, 0), (1.0, 0, 0)]),
    )
    found, changes = named(answer([(20, 0), (0, 0)]), three)
    assert found == ("c1", "c0")
    assert changes == []


def test_without_cells_clusters_stand_for_them():
    found = Clustering(np.array(FOUR, dtype=float), np.full(4, 10.0), {})
    plain = Answered.of(found, UNIT, COLUMNS)
    assert named(plain, plain) == (("c0", "c1", "c2", "c3"), [])


@given(st.permutations(range(4)), st.integers(0, 3), st.booleans())
def test_no_name_is_ever_given_twice(order, leaves, born):
    lineage = Lineage().followed(answer(FOUR), [100] * 4, ["x"])
    for spots in ([FOUR[i] for i in order if i != leaves], FOUR, [*FOUR, (70, 70)]):
        more = [(90, -90)] if born else []
        after = answer([*spots, *more])
        lineage = lineage.followed(after, [100] * len(after.sizes), ["x"])
    given_away = [name for a in lineage.answers for name in a.names]
    assert lineage.used == len(set(given_away))
    for each in lineage.answers:
        assert len(set(each.names)) == len(each.names)
    returned = f"c{leaves}"
    assert returned not in lineage.answers[1].names
    assert returned not in lineage.answers[2].names  # who died does not come back


def test_answers_without_centres_get_fresh_names():
    lineage = Lineage().followed(None, [5, 5], ["x"]).followed(None, [5, 5], ["x"])
    assert [a.names for a in lineage.answers] == [("c0", "c1"), ("c2", "c3")]
    assert [a.number for a in lineage.answers] == [1, 2]


def test_forgetting_leaves_no_count_that_held_the_rows():
    lineage = Lineage().followed(answer(FOUR), [100] * 4, ["x", "y"])
    lineage = lineage.followed(answer(FOUR[1:]), [100] * 3, ["x"]).without("y")
    first, second = lineage.answers
    assert (first.clients, first.sizes, first.withdrawn) == (("x",), (), True)
    assert (second.sizes, second.withdrawn) == ((100, 100, 100), False)


def test_the_last_answer_is_compared_by_its_centres_once_its_cells_are_forgotten():
    lineage = Lineage().followed(answer(FOUR), [100] * 4, ["x", "y"])
    assert lineage.last is not None
    assert len(lineage.last.counts) == 16
    rest = lineage.without("y")
    assert rest.last is not None
    assert rest.last.counts.tolist() == [1, 1, 1, 1]
    after = rest.followed(answer([*FOUR[::-1], (60, 60)]), [100] * 5, ["x"]).answers[-1]
    assert after.names == ("c3", "c2", "c1", "c0", "c4")
    assert [str(change) for change in after.changes] == ["c4 is new"]
    assert lineage.without("nobody").last is lineage.last


def test_a_forgotten_answer_is_not_told_by_how_far_clusters_moved():
    lineage = Lineage().followed(answer(FOUR), [100] * 4, ["x", "y"])
    moved = answer([(5, 0), *FOUR[1:]])
    known = lineage.followed(moved, [100] * 4, ["x"]).answers[-1]
    assert [change.kind for change in known.changes] == ["drifted"]
    rest = lineage.without("y").followed(moved, [100] * 4, ["x"])
    assert rest.answers[-1].changes == ()


def test_nothing_to_compare_with_is_kept_of_a_forgotten_answer():
    lineage = Lineage().followed(answer(FOUR), [100] * 4, ["x", "y"])
    assert lineage.at_rest() is lineage
    assert Lineage().at_rest() == Lineage()
    rest = lineage.without("y").at_rest()
    assert rest.last is None
    assert rest.parts()[1] == {}
    after = rest.followed(answer(FOUR), [100] * 4, ["x"]).answers[-1]
    assert (after.names, after.changes) == (("c4", "c5", "c6", "c7"), ())


@pytest.mark.parametrize("forgotten", ["", "y"])
@pytest.mark.parametrize("centers", [False, True])
def test_a_lineage_survives_its_parts(forgotten, centers):
    lineage = Lineage()
    for spots in (FOUR, [*FOUR[1:], (60, 60)]):
        last = answer(spots) if centers else None
        lineage = lineage.followed(last, [100] * 4, ["x", "y"])
    lineage = lineage.without(forgotten)
    described, arrays = lineage.parts()
    again = Lineage.of_parts(json.loads(json.dumps(described)), arrays)
    assert (again.answers, again.used) == (lineage.answers, lineage.used)
    assert (again.last is None) == (not centers)
    if again.last is not None and lineage.last is not None:
        np.testing.assert_array_equal(again.last.means, lineage.last.means)
        assert again.last.columns == lineage.last.columns

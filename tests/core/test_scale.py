# SPDX-License-Identifier: Apache-2.0
"""The agreed box: made of extremes only, the same map for everybody, late or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from afcl.exceptions import InputError
from afcl.scale import (
    FAR,
    FAR_OUT,
    MIDDLE,
    RADIUS,
    Box,
    Stretch,
    given_box,
    minmax_box,
    no_box,
    ranges_of,
    supported_box,
)


def test_ranges_are_rows_and_extremes():
    said = ranges_of(np.array([[1.0, 5.0], [3.0, -2.0], [2.0, 0.0]]))
    assert (said.n_rows, said.n_features) == (3, 2)
    assert said.low.tolist() == [1.0, -2.0]
    assert said.high.tolist() == [3.0, 5.0]


def test_without_extremes_nothing_of_the_columns_is_said():
    said = ranges_of(np.array([[1.0, 5.0], [3.0, -2.0]]), extremes=False)
    assert (said.n_rows, said.n_features) == (2, 2)
    assert said.low.size == said.high.size == 0


def test_the_box_by_hand():
    # Columns: 0..4 and 10..30 over two clients.
    one = np.array([[0.0, 10.0], [1.0, 20.0]])
    other = np.array([[4.0, 30.0]])
    box = minmax_box([ranges_of(one), ranges_of(other)])
    assert box.low.tolist() == [0.0, 10.0]
    assert box.span.tolist() == [4.0, 20.0]
    assert box.scale(one).tolist() == [[0.0, 0.0], [0.25, 0.5]]
    assert box.scale(other).tolist() == [[1.0, 1.0]]
    assert box.unscale(np.array([[0.5, 0.5]])).tolist() == [[2.0, 20.0]]


def test_a_late_joiner_may_lie_outside_the_box():
    box = given_box(np.array([0.0]), np.array([2.0]))
    assert box.scale(np.array([[-2.0], [6.0]])).tolist() == [[-1.0], [3.0]]


def test_a_constant_column_maps_to_zero():
    X = np.array([[7.0, 1.0], [7.0, 2.0]])
    box = minmax_box([ranges_of(X)])
    assert box.scale(X)[:, 0].tolist() == [0.0, 0.0]
    assert box.unscale(box.scale(X))[:, 0].tolist() == [7.0, 7.0]


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, 5e-324), (0.0, 1e-310), (1e6, 1e6 + 1e-10), (-1e6, np.nextafter(-1e6, 0))],
)
def test_a_column_that_only_rounding_moves_is_constant(low, high):
    box = given_box(np.array([low]), np.array([high]))
    assert box.span.tolist() == [1.0]
    scaled = box.scale(np.array([[low], [high]]))
    assert np.abs(scaled).max() <= 1e-9


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1e-300), (1.0, 1.0 + 1e-12), (-1e300, 1e300)]
)
def test_a_small_or_a_huge_range_is_a_range(low, high):
    box = given_box(np.array([low]), np.array([high]))
    assert box.scale(np.array([[low], [high]]))[:, 0].tolist() == [0.0, 1.0]


def test_scaled_rows_are_contiguous_float64():
    X = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2))
    scaled = no_box(2).scale(X)  # type: ignore[arg-type]
    assert scaled.flags.c_contiguous
    assert scaled.dtype == np.float64
    assert scaled.tolist() == X.tolist()


def test_no_box_is_the_identity():
    X = np.array([[3.0, -4.0]])
    assert no_box(2).scale(X).tolist() == no_box(2).unscale(X).tolist() == X.tolist()


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        ([0.0, 0.0], [1.0], "two bounds for every column"),
        (0.0, 1.0, "two bounds for every column"),
        ([[0.0]], [[1.0]], "two bounds for every column"),
        ([2.0], [1.0], "low <= high"),
        ([0.0], [np.inf], "finite"),
        ([np.nan], [1.0], "finite"),
    ],
)
def test_given_bounds_are_checked(low, high, text):
    with pytest.raises(InputError, match=text):
        given_box(low, high)


TABLES = st.lists(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.just(2)),
        elements=st.floats(-1e6, 1e6),
    ),
    min_size=1,
    max_size=4,
)


@given(TABLES)
def test_everybody_is_inside_and_comes_back(tables):
    box = minmax_box([ranges_of(table) for table in tables])
    pooled = np.concatenate(tables)
    whole = minmax_box([ranges_of(pooled)])
    np.testing.assert_array_equal(box.low, whole.low)
    np.testing.assert_array_equal(box.span, whole.span)
    scaled = box.scale(pooled)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    np.testing.assert_allclose(box.unscale(scaled), pooled, rtol=1e-12, atol=1e-9)


def test_a_box_is_frozen():
    with pytest.raises(AttributeError):
        Box(np.zeros(1), np.ones(1)).low = np.ones(1)  # type: ignore[misc]


def test_a_range_beyond_float64_is_refused():
    with pytest.raises(InputError, match="too wide for 64-bit numbers"):
        given_box(np.array([-1.7e308]), np.array([1.7e308]))


# ------------------------------------------------------------------ nobody alone


def column(*intervals):
    """Return everybody's low and high of one column."""
    lows, highs = np.array(intervals, dtype=float).T
    return lows[:, None], highs[:, None]


def test_one_client_alone_does_not_set_the_box():
    # The others span 0..2, the last one reaches to 2 + 99 * 2.
    box, found = supported_box(*column((0, 1), (1, 2), (0, 2), (0, 200)))
    assert (box.low[0], box.span[0], box.walls) == (0.0, 2.0, True)
    assert found == [Stretch(0, (3,), 99.0)]


@pytest.mark.parametrize("times", [FAR - 0.01, FAR + 0.01])
def test_so_far_and_no_further(times):
    box, found = supported_box(*column((0, 1), (0, 1), (0.5, 1 + times)))
    assert bool(found) == (times > FAR) == bool(box.walls)
    assert box.span[0] == (1.0 if found else 1 + times)


def test_two_of_eight_that_support_each_other_do_not_set_it_either():
    others = [(0, 1)] * 6
    for liars in ([(50, 60), (50, 60)], [(-90, 0), (0, 90)], [(0, 50), (0, 9000)]):
        box, found = supported_box(*column(*others, *liars))
        assert (box.low[0], box.span[0]) == (0.0, 1.0)
        assert {client for stretch in found for client in stretch.clients} == {6, 7}


def test_two_of_seven_do():
    box, found = supported_box(*column(*[(0, 1)] * 5, (50, 60), (50, 60)))
    assert (box.span[0], box.walls, found) == (60.0, None, [])


def test_of_two_clients_both_count():
    box, found = supported_box(*column((0, 1), (0, 50)))
    assert (box.span[0], box.walls) == (50.0, None)
    assert found == [Stretch(0, (1,), 49.0)]


def test_one_client_is_never_alone_with_a_column_that_is_constant_elsewhere():
    box, found = supported_box(*column((3, 3), (3, 3), (3, 3), (0, 900)))
    assert (box.span[0], box.walls, found) == (900.0, None, [])


def test_clusters_that_live_at_one_site_each_set_the_box_together():
    """However small each is beside the gaps between them."""
    box, found = supported_box(*column((0, 0.1), (5, 5.1), (10, 10.1), (20, 20.1)))
    assert (box.low[0], box.span[0], found) == (0.0, 20.1, [])


def test_extremes_beyond_all_numbers_do_no_harm():
    box, found = supported_box(*column((0, 1), (0, 1), (-1.7e308, 1.7e308)))
    assert (box.span[0], found[0].times) == (1.0, np.inf)
    with pytest.raises(InputError, match="too wide for 64-bit numbers"):
        supported_box(*column((0, 1), (-1.7e308, 1.7e308)))


@given(TABLES)
def test_whoever_is_left_out_what_all_others_hold_is_inside(tables):
    lows = np.array([table.min(axis=0) for table in tables])
    highs = np.array([table.max(axis=0) for table in tables])
    box, found = supported_box(lows, highs)
    whole = minmax_box([ranges_of(table) for table in tables])
    assert bool(box.walls) == bool(found and len(tables) > 2)
    for place in range(2):
        gone = {c for each in found if each.column == place for c in each.clients}
        if not box.walls or not gone:
            assert box.low[place] == whole.low[place]
            assert box.span[place] == whole.span[place]
        for client in set(range(len(tables))) - gone:
            scaled = box.scale(tables[client])[:, place]
            assert ((scaled >= 0) & (scaled <= 1)).all()


def test_behind_walls_rows_are_just_outside_or_say_nothing():
    # Columns of width 1 and 1e-9; 3 and -1 are behind the walls, 1e308 says nothing.
    X = np.array(
        [[3.0, 0.4e-9], [1.2, -1e-9], [3.0, -1e-9], [-FAR_OUT, 1e308], [1.25, 2e-9]]
    )
    box = Box(np.zeros(2), np.array([1.0, 1e-9]), walls=True)
    both = RADIUS / np.sqrt(2)
    expected = [
        [MIDDLE + RADIUS, 0.4],
        [1.2, MIDDLE - RADIUS],
        [MIDDLE + both, MIDDLE - both],
        [MIDDLE, MIDDLE],
        [1.25, MIDDLE + RADIUS],
    ]
    np.testing.assert_allclose(box.scale(X), expected, rtol=1e-12)
    np.testing.assert_array_equal(box.scale(X[2]), box.scale(X)[2])
    scaled = box.scale(X)
    box.scale_in_place(X)
    np.testing.assert_array_equal(X, scaled)


ROWS = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.just(3)),
    elements=st.floats(-1e3, 1e3) | st.floats(-3, 3) | st.floats(-1e300, 1e300),
)


@given(ROWS, st.sampled_from([None, True]))
def test_rows_lie_where_their_extremes_say(X, walls):
    box = Box(np.array([0.0, -1.0, 0.5]), np.array([1.0, 2.0, 0.1]), walls)
    low, high = box.reach(X.min(axis=0), X.max(axis=0))
    scaled = box.scale(X)
    assert (scaled >= low - 1e-12 * np.abs(low)).all()
    assert (scaled <= high + 1e-12 * np.abs(high)).all()
    if walls:
        assert (np.abs(scaled - MIDDLE) <= RADIUS).all()


def test_where_extremes_are_beyond_all_measure():
    box = Box(np.array([0.0, 10.0]), np.array([1.0, 2.0]), walls=True)
    for low, high, far in (
        ([0.0, 10.0], [1.0, 12.0], [False, False]),
        ([-FAR_OUT, 10.0], [1.0, 100.0], [True, False]),
        ([0.0, 10.0], [1.0, 1e308], [False, True]),
    ):
        assert box.far_out(np.array(low), np.array(high)).tolist() == far


@pytest.mark.parametrize("n", [1, 2, 113, 114, 227, 1000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_extremes_of_wide_tables(n, order, seed):
    X = np.asarray(np.random.default_rng(seed).normal(size=(n, 9)), order=order)
    found = ranges_of(X)
    assert np.array_equal(found.low, X.min(axis=0))
    assert np.array_equal(found.high, X.max(axis=0))

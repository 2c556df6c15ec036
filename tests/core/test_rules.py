# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from afcl.core.rules import Condition, Described, Rule, plain_between, rule_for


def described(points, labels, counts=None, widths=0.0, levels=None):
    points = np.asarray(points, dtype=float)
    m, d = points.shape
    return Described(
        np.ones(m) if counts is None else np.asarray(counts, dtype=float),
        np.asarray(labels),
        points,
        np.full((m, d), widths),
        np.ones(d),
        np.zeros(d, dtype=bool) if levels is None else np.asarray(levels),
        np.arange(d),
    )


def test_one_condition_by_hand():
    # 0 and 1 below, 4 and 6 above: 2 to 3 is the middle half of the gap.
    cells = described([[0.0], [1.0], [4.0], [6.0]], [0, 0, 1, 1], [3, 1, 2, 2])
    assert rule_for(cells, 0) == Rule((Condition(0, False, 2.0),), 1.0, 1.0)
    assert rule_for(cells, 1) == Rule((Condition(0, True, 2.0),), 1.0, 1.0)


def test_a_corner_takes_two_conditions():
    points = [[0.0, 0.0], [0.0, 10.0], [10.0, 0.0], [10.0, 10.0]]
    rule = rule_for(described(points, [0, 1, 2, 3]), 3)
    assert rule is not None
    assert set(rule.conditions) == {Condition(0, True, 5.0), Condition(1, True, 5.0)}
    assert (rule.covers, rule.right) == (1.0, 1.0)


def test_the_middle_of_a_line_takes_both_sides():
    rule = rule_for(described([[0.0], [10.0], [20.0]], [0, 1, 2]), 1)
    assert rule is not None
    assert sorted(rule.conditions) == [
        Condition(0, False, 15.0),
        Condition(0, True, 5.0),
    ]


def test_shares_by_hand():
    # Nothing parts the cell of 30 rows at 4 from the cluster at 4 and 5.
    cells = described([[0.0], [4.0], [4.0], [5.0]], [0, 0, 1, 1], [50, 30, 40, 30])
    rule = rule_for(cells, 1)
    assert rule is not None
    assert rule.conditions == (Condition(0, True, 2.0),)
    assert rule.covers == 1.0
    assert rule.right == pytest.approx(70 / 100)
    assert rule.worth == pytest.approx(2 * 0.7 / 1.7)


def test_rows_of_a_cell_lie_on_both_sides():
    cells = described([[0.0], [2.0]], [0, 1], widths=1.0)
    rule = rule_for(cells, 1)
    assert rule is not None
    assert rule.conditions == (Condition(0, True, 1.0),)
    beyond = 0.5 * math.erfc(-1 / math.sqrt(2))
    assert rule.covers == pytest.approx(beyond)
    assert rule.right == pytest.approx(beyond)


def test_levels_of_a_category_are_had_or_not():
    points = [[0.9, 5.0], [0.1, 5.0]]
    cells = described(points, [0, 1], levels=[True, False])
    first, second = rule_for(cells, 0), rule_for(cells, 1)
    assert first is not None
    assert second is not None
    assert first.conditions == (Condition(0, True, 0.5),)
    assert second.conditions == (Condition(0, False, 0.5),)
    assert first.covers == pytest.approx(0.9)
    assert second.right == pytest.approx(0.9)


def test_of_two_columns_as_good_the_wider_gap_is_named():
    points = [[0.0, 0.0], [1.0, 7.0]]
    rule = rule_for(described(points, [0, 1]), 0)
    assert rule is not None
    assert [c.column for c in rule.conditions] == [1]
    swapped = rule_for(described(np.array(points)[:, ::-1], [0, 1]), 0)
    assert swapped is not None
    assert [c.column for c in swapped.conditions] == [0]


def test_no_rule_where_there_is_nothing_to_tell():
    assert rule_for(described([[0.0], [1.0]], [0, 0]), 0) is None
    assert rule_for(described([[0.0], [1.0]], [0, 0]), 1) is None
    # Cells of both on top of each other: no condition at all.
    assert rule_for(described([[1.0], [1.0]], [0, 1]), 0) is None
    # One row in a hundred, among the others: no rule is right half of the time.
    ring = [[math.cos(t), math.sin(t)] for t in range(60)]
    cells = described([[0.0, 0.0], *ring], [0] + [1] * 60, [1] + [5] * 60, widths=0.8)
    assert rule_for(cells, 0) is None


def test_never_more_than_three_conditions():
    rng = np.random.default_rng(0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points, labels = rng.normal(size=(60, 5)), rng.integers(0, 4, 60)
        for cluster in range(4):
            rule = rule_for(described(points, labels), cluster)
            assert rule is None or 1 <= len(rule.conditions) <= 3


@pytest.mark.parametrize(
    ("low", "high", "between"),
    [
        (52.3, 55.1, 54.0),
        (0.0, 0.0, 0.0),
        (-1.0, 2.0, 0.0),
        (0.123, 0.1234, 0.1232),
        (1e300, 3e300, 2e300),
        (-5.0, -4.0, -4.5),
    ],
)
def test_thresholds_have_few_digits(low, high, between):
    assert plain_between(low, high) == between


def test_thresholds_lie_between():
    rng = np.random.default_rng(1)
    for scale in (1e-12, 1e-3, 1.0, 1e6):
        for low, high in np.sort(rng.normal(size=(50, 2)) * scale, axis=1).tolist():
            assert low < plain_between(low, high) < high
    assert plain_between(1.0, np.nextafter(1.0, 2.0)) == 1.0


def test_the_first_condition_is_chosen_again_beside_the_others():
    # Alone, x < 2 is best (worth 20 / 24); beside y < 5 it is x < 7.
    points = [[0.0, 0.0], [4.0, 0.0], [0.0, 10.0], [3.0, 10.0], [10.0, 0.0]]
    cells = described(points, [0, 0, 1, 1, 1], [10, 3, 1, 20, 10])
    rule = rule_for(cells, 0)
    assert rule is not None
    assert set(rule.conditions) == {Condition(0, False, 7.0), Condition(1, False, 5.0)}
    assert (rule.covers, rule.right) == (1.0, 1.0)

# SPDX-License-Identifier: Apache-2.0
"""Groups are large enough, not too large, made of neighbours, and always the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from afcl.core.client import condense
from afcl.core.params import DefaultParams
from afcl.exceptions import InputError
from afcl.privacy import grouping
from afcl.privacy.grouping import group_rows, grouped_cells, without_rare


def column(*values):
    """Rows with one feature."""
    return np.array(values, dtype=np.float64)[:, None]


def check_groups(labels, smallest):
    """Assert that labels name groups 0 … g - 1 of a permitted size."""
    sizes = np.bincount(labels)
    assert labels.dtype == np.int64
    assert labels.min() == 0
    assert sizes.min() >= smallest
    assert sizes.max() <= 2 * smallest - 1


def test_groups_by_hand():
    # Mean 9: 20 is farthest and takes 19 and 18. Seven rows are too few for a second
    # search: the other four are one group.
    rows = column(0, 20, 1, 19, 2, 18, 3)
    assert group_rows(rows, 3).tolist() == [1, 0, 1, 0, 1, 0, 1]
    # Mean 453/9 = 50.33: 0 is farthest and takes 1 and 2; from it 100 is, with 99 and
    # 98; what is left.
    rows = column(0, 1, 2, 50, 51, 52, 99, 98, 100)
    assert group_rows(rows, 3).tolist() == [0, 0, 0, 2, 2, 2, 1, 1, 1]


def test_cells_of_groups_by_hand():
    # {0, 2}: mean 1, scatter 1 + 1; {10, 16}: mean 13, scatter 9 + 9.
    rows = column(0, 10, 2, 16)
    cells = grouped_cells(rows, group_rows(rows, 2))
    order = np.argsort(cells.means[:, 0])
    assert cells.counts[order].tolist() == [2, 2]
    assert cells.means[order, 0].tolist() == [1.0, 13.0]
    assert cells.scatters[order].tolist() == [2.0, 18.0]


def test_columns_are_compared_in_their_own_units():
    # Metres beside millimetres: the pairs are those of the second column.
    rows = np.array([[0.0, 0.0], [1.0, 9000.0], [1.0, 0.0], [0.0, 9000.0]])
    shrunk = rows * np.array([1e-3, 1.0])
    assert group_rows(rows, 2).tolist() == group_rows(shrunk, 2).tolist()


def test_offsets_units_and_constant_columns_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 1000, (200, 2)).astype(np.float64)
    expected = group_rows(rows, 5)
    assert np.array_equal(group_rows(rows + 2.0**40, 5), expected)
    assert np.array_equal(group_rows(rows * 2.0**-500, 5), expected)
    constant = np.column_stack([rows, np.full(200, 1e300)])
    assert np.array_equal(group_rows(constant, 5), expected)


def test_the_widest_columns_there_are():
    rows = column(-1.7e308, 1.7e308, -1.6e308, 1.6e308)
    assert group_rows(rows, 2).tolist() == [0, 1, 0, 1]


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 40), st.integers(1, 3)),
        elements=st.one_of(
            st.integers(-2, 2).map(float), st.floats(-1e300, 1e300, allow_nan=False)
        ),
    ),
    st.integers(1, 9),
)
def test_sizes_hold_for_any_rows(rows, smallest):
    if rows.shape[0] < smallest:
        with pytest.raises(InputError, match="too few for a group"):
            group_rows(rows, smallest)
        return
    labels = group_rows(rows, smallest)
    check_groups(labels, smallest)
    assert np.array_equal(group_rows(rows.copy(order="F"), smallest), labels)


@pytest.mark.parametrize("smallest", [2, 5, 40])
def test_many_rows_are_grouped_in_parts(monkeypatch, seed, smallest):
    monkeypatch.setattr(grouping, "EXACT", 60)
    monkeypatch.setattr(grouping, "PART", 30)
    rows = np.random.default_rng(seed).normal(size=(501, 3))
    labels = group_rows(rows, smallest)
    check_groups(labels, smallest)
    assert np.array_equal(labels, group_rows(rows, smallest))


def test_parts_follow_the_rows(monkeypatch):
    # Eight far places of six equal rows: no group may mix two of them.
    monkeypatch.setattr(grouping, "EXACT", 12)
    monkeypatch.setattr(grouping, "PART", 12)
    rows = np.repeat(np.arange(8.0), 6)[:, None]
    rows = rows[np.random.default_rng(0).permutation(48)]
    cells = grouped_cells(rows, group_rows(rows, 3))
    assert cells.scatters.max() == 0.0


def test_groups_in_parts_are_nearly_as_tight(monkeypatch, seed):
    rows = np.random.default_rng(seed).normal(size=(3000, 2))
    exact = grouped_cells(rows, group_rows(rows, 5)).scatters.sum()
    monkeypatch.setattr(grouping, "EXACT", 1000)
    monkeypatch.setattr(grouping, "PART", 500)
    parts = grouped_cells(rows, group_rows(rows, 5)).scatters.sum()
    assert parts < 1.25 * exact


def test_groups_are_tighter_than_a_summary_of_as_many_cells(seed):
    """Groups lose little: their scatter is a small share of the whole."""
    rows = np.random.default_rng(seed).random((600, 2))
    cells = grouped_cells(rows, group_rows(rows, 5))
    summary = condense(rows, DefaultParams(), np.random.default_rng(seed))
    assert cells.scatters.sum() < summary.scatters.sum()
    assert cells.counts.sum() == 600


def test_what_cannot_be_grouped_is_refused():
    with pytest.raises(InputError, match="has 1 row, too few for a group of 2"):
        group_rows(column(1), 2)
    with pytest.raises(InputError, match="has 0 rows"):
        group_rows(np.empty((0, 2)), 1)
    with pytest.raises(InputError, match="ask for at least 1"):
        group_rows(column(1), 0)
    with pytest.raises(InputError, match="missing or infinite"):
        group_rows(column(1, np.nan, 2), 2)


# ------------------------------------------------------------------ values of few rows


def test_a_level_that_few_rows_have_is_that_of_the_others():
    X = np.zeros((20, 3))
    X[:4, 0] = 1.0  # four of twenty said yes
    X[:5, 1] = 1.0  # five did
    X[:17, 2] = 1.0  # three did not
    kept = without_rare(X, 5)
    assert kept[:, 0].max() == 0
    assert np.array_equal(kept[:, 1], X[:, 1])
    assert kept[:, 2].min() == 1
    assert X[:4, 0].min() == 1  # what was given stays as it was


def test_a_mark_that_few_rows_have_is_the_nearest_that_more_have():
    marks = np.repeat([1.0, 2, 3, 4, 5], [2, 6, 9, 8, 1])[:, None]
    kept = without_rare(marks, 5).ravel()
    assert np.unique(kept, return_counts=True)[1].tolist() == [8, 9, 9]


def test_columns_of_many_values_stay_as_they_are(seed):
    rng = np.random.default_rng(seed)
    ages = np.round(rng.normal(50, 15, (60, 1)))
    assert without_rare(ages, 5) is ages
    mostly_nothing = np.zeros((60, 1))
    mostly_nothing[:4, 0] = [40, 41, 55, 62]
    assert without_rare(mostly_nothing, 5).max() == 0
    mostly_nothing[4:6, 0] = [3.0, 70.0]
    assert without_rare(mostly_nothing, 5) is mostly_nothing


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(5, 40), st.just(2)),
        elements=st.integers(0, 3),
    ),
    st.integers(2, 6),
)
def test_no_value_of_a_column_of_few_is_that_of_few_rows(X, smallest):
    kept = without_rare(X, smallest)
    for before, after in zip(X.T, kept.T, strict=True):
        counts = np.unique(after, return_counts=True)[1]
        many = np.unique(before, return_counts=True)[1].max() >= smallest
        assert counts.min() >= smallest or not many

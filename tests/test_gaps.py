# SPDX-License-Identifier: Apache-2.0
"""Gaps are filled from rows alike; rows whose donors disagree do not speak."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from afcl import gaps
from afcl.gaps import AVAILABLE, DONORS, completed, fill, has_gaps

NAN = np.nan


def two_spots(n=20, seed=0):
    """Rows around (0, 0) and (1, 1), one spot after the other."""
    rng = np.random.default_rng(seed)
    spots = np.repeat([[0.0, 0.0], [1.0, 1.0]], n, axis=0)
    return spots + 0.01 * rng.random((2 * n, 2))


def test_whether_there_are_gaps():
    assert has_gaps(np.array([[1.0, NAN]]))
    assert not has_gaps(np.array([[1.0, -np.inf]]))
    assert not has_gaps(np.empty((0, 2)))


def test_a_gap_is_the_mean_of_the_five_nearest_by_hand():
    known = np.array([[0.0, v] for v in (0.1, 0.2, 0.3, 0.4, 0.5)] + [[9.0, 7.0]] * 5)
    filled = fill(np.vstack([known, [[0.1, NAN]]]), np.zeros(2))
    assert filled.rows[-1] == pytest.approx([0.1, 0.3])
    assert np.array_equal(filled.rows[:-1], known)
    # The five differ by a variance of .025, the column by 11.4; half a row is open.
    assert filled.speak.all()


def test_who_could_be_in_either_cluster_does_not_speak():
    """Of three columns the one is known that says nothing."""
    X = np.column_stack([two_spots(), np.full(40, 0.5)])
    X[3, :2] = NAN
    X[4, 0] = NAN
    filled = fill(X, np.zeros(3))
    assert not filled.speak[3]
    assert filled.speak[4]
    assert filled.rows[4, 0] == pytest.approx(0.0, abs=0.02)


def test_with_available_only_rows_without_gaps_speak():
    X = two_spots()
    X[3, 0] = NAN
    filled = fill(X, np.zeros(2), AVAILABLE)
    assert np.flatnonzero(~filled.speak).tolist() == [3]
    # Also if all donors say the same.
    X = np.zeros((20, 2))
    X[3, 0] = NAN
    assert fill(X, np.zeros(2)).speak.all()
    assert np.flatnonzero(~fill(X, np.zeros(2), AVAILABLE).speak).tolist() == [3]


def test_where_too_few_would_speak_all_do():
    X = np.vstack([two_spots(n=2), np.full((30, 2), NAN)])
    X[4:, 0] = np.linspace(0, 1, 30)
    assert fill(X, np.zeros(2), AVAILABLE).speak.all()


@pytest.mark.parametrize("held", [0, DONORS])
def test_a_column_that_hardly_anybody_has_gets_what_is_typical(held):
    X = np.column_stack([two_spots(), np.full(40, NAN)])
    X[:held, 2] = 0.9
    filled = fill(X, np.array([0.0, 0.0, 0.3]))
    assert (filled.rows[held:, 2] == 0.3).all()
    # One column of three is open: more than .09 of a row.
    assert filled.speak.sum() in (held, 40)


def test_a_row_without_any_value_is_typical_and_does_not_speak():
    X = two_spots()
    X[7] = NAN
    filled = fill(X, np.array([0.4, 0.6]))
    assert filled.rows[7].tolist() == [0.4, 0.6]
    assert not filled.speak[7]


def test_donors_are_looked_for_among_a_part_of_many_rows(monkeypatch):
    monkeypatch.setattr(gaps, "LOOKED_AT", 26)
    monkeypatch.setattr(gaps, "TOGETHER", 3)
    X = two_spots(40)
    X[::7, 1] = NAN
    filled = fill(X, np.zeros(2))
    assert np.abs(filled.rows[:, 1] - filled.rows[:, 0]).max() < 0.02


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 30), st.integers(1, 4)),
        elements=st.one_of(st.just(NAN), st.floats(-5, 5, width=16)),
    ),
    st.sampled_from(["impute", "available"]),
)
def test_what_is_known_stays_and_what_is_filled_lies_among_it(X, how):
    filled = fill(X, np.zeros(X.shape[1]), how)
    known = ~np.isnan(X)
    assert np.array_equal(filled.rows[known], X[known])
    assert not np.isnan(filled.rows).any()
    assert filled.speak.sum() >= min(DONORS, len(X))
    low = np.minimum(0, np.where(known, X, np.inf).min(axis=0))
    high = np.maximum(0, np.where(known, X, -np.inf).max(axis=0))
    slack = 1e-9
    assert ((filled.rows >= low - slack) & (filled.rows <= high + slack)).all()


@given(st.integers(0, 1000))
def test_the_nearest_centre_of_what_a_row_has_stays_the_nearest(seed):
    rng = np.random.default_rng(seed)
    X, centers = rng.random((300, 3)), rng.random((4, 3))
    X[rng.random(X.shape) < 0.4] = NAN
    rows = completed(X, centers)
    assert not np.isnan(rows).any()
    squares = ((rows[:, None] - centers) ** 2).sum(axis=2)
    known = np.where(np.isnan(X)[:, None], 0.0, X[:, None] - centers)
    own = (known**2).sum(axis=2)
    assert np.allclose(squares.min(axis=1), own.min(axis=1))
    some = ~np.isnan(X).all(axis=1)
    assert np.array_equal(squares[some].argmin(axis=1), own[some].argmin(axis=1))


def test_rows_without_gaps_are_as_they_are():
    X = two_spots()
    filled = fill(X, np.zeros(2))
    assert np.array_equal(filled.rows, X)
    assert filled.speak.all()
    assert np.array_equal(completed(X, X[:3]), X)

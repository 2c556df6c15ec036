# SPDX-License-Identifier: Apache-2.0
"""A box of agreed quantiles: what clients tell, how it is mixed, what it withstands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.robust import (
    MOST_WEIGHT,
    SHARES,
    TAIL,
    mixed_quantile,
    quantiles_of,
    robust_box,
)
from afcl.scale import WALLS, Ranges, ranges_of


def told(X, n_rows=None):
    """Return what a client with these rows tells, or says it has so many."""
    known = ranges_of(np.asarray(X, dtype=float))
    rows = known.n_rows if n_rows is None else n_rows
    return Ranges(rows, X.shape[1], known.low, known.high, quantiles_of(X))


def evenly(low, high, n=201):
    return np.linspace(low, high, n)[:, None]


def test_the_box_by_hand():
    """Of 0 ... 100 and a wild value: a quarter beyond the 5 % and the 95 % quantile.

    101 values at 0, 1, ..., 100: the quantile of a share s is 100 s. Between 5 and 95
    lie 90, and a quarter of it beyond there are no values: the box is 0 ... 100. With a
    wild value it ends at 95 + 90 / 4 (about, as a value is there more).
    """
    X = evenly(0.0, 100.0, 101)
    assert quantiles_of(X).ravel().tolist() == pytest.approx([100 * s for s in SHARES])
    box, found = robust_box([told(X)])
    assert (box.low[0], box.span[0]) == (0.0, 100.0)
    assert box.walls
    assert found == []
    wild, _ = robust_box([told(np.vstack([X, [[1e9]]]))])
    assert wild.low[0] == 0.0
    assert wild.span[0] == pytest.approx(117.5, abs=2)
    # Beyond all measure it says nothing; farther out than the wall it is on the wall.
    assert wild.scale(np.array([[1e9], [500.0]])).ravel().tolist() == [0.5, WALLS[1]]


def test_clients_are_mixed_by_their_rows():
    """Three quarters of the rows lie evenly in 0 ... 1, a quarter in 1 ... 2.

    The mixture's 30 % quantile is where .75 x = .3, its 90 % one where .75 + .25 (x -
    1) = .9; both lie between quantiles that are told.
    """
    both = np.array([quantiles_of(evenly(0.0, 1.0)), quantiles_of(evenly(1.0, 2.0))])
    weights = np.array([[3.0], [1.0]])
    assert mixed_quantile(both, weights, 0.3) == pytest.approx(0.4)
    assert mixed_quantile(both, weights, 0.9) == pytest.approx(1.6)


@given(st.data())
def test_the_ends_are_quantiles_of_all_rows_about(data):
    """Within a client shares are right at what is told, and off by a gap between."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    tables = [
        rng.normal(rng.uniform(-5, 5), rng.uniform(0.1, 3), (n, 1))
        for n in data.draw(st.lists(st.integers(40, 80), min_size=1, max_size=6))
    ]
    pooled = np.concatenate(tables)
    every = np.array([quantiles_of(X) for X in tables])
    weights = np.array([[float(len(X))] for X in tables])
    widest = max(np.diff(SHARES))
    for share in (TAIL, 1 - TAIL):
        end = mixed_quantile(every, weights, share)
        assert abs(float((pooled <= end).mean()) - share) <= widest + 1 / 40
    # Units and the order of clients do not matter.
    box, _ = robust_box([told(X) for X in tables])
    other, _ = robust_box([told(10 + 7 * X) for X in reversed(tables)])
    inside = box.scale(pooled)
    assert other.scale(10 + 7 * pooled) == pytest.approx(inside, abs=1e-9)


def test_no_client_counts_for_more_than_a_few():
    """Who says it has 1e8 rows, all in one place, does not shrink the box."""
    honest = [told(evenly(0.0, 1.0)) for _ in range(4)]
    liar = told(np.full((20, 1), 0.5) + evenly(0.0, 1e-3, 20), n_rows=10**8)
    box, _ = robust_box([*honest, liar])
    # It has 3 / 7 of the weight: the quantiles are the others' of a share TAIL * 7 / 4.
    share = TAIL * (4 + MOST_WEIGHT) / 4
    every = np.array([each.quantiles for each in (*honest, liar)])
    weights = np.array([[201.0]] * 4 + [[201.0 * MOST_WEIGHT]])
    assert mixed_quantile(every, weights, TAIL) == pytest.approx(share, abs=0.01)
    assert (box.low[0], box.span[0]) == pytest.approx((0.0, 1.0), abs=1e-9)


def test_few_clients_do_not_stretch_it():
    """One far away of four is without a say, and named; of two it is not."""
    near = [told(evenly(0.0, 1.0)) for _ in range(3)]
    far = told(evenly(1e6, 1e6 + 1))
    box, found = robust_box([*near, far])
    assert box.span[0] == 1.0
    assert [stretch.clients for stretch in found] == [(3,)]
    box, _ = robust_box([near[0], far])
    assert box.span[0] > 1e5


def test_where_quantiles_are_equal_extremes_count():
    """A column that is 0 in 97 of 100 rows, and one that never changes."""
    X = np.zeros((100, 2))
    X[:3, 0] = 5.0
    box, _ = robust_box([told(X), told(X)])
    assert box.low.tolist() == [0.0, 0.0]
    assert box.span.tolist() == [5.0, 1.0]


def test_who_lacks_a_column_has_no_say_there():
    X = np.hstack([evenly(0.0, 1.0), evenly(0.0, 1.0)])
    Y = X + 3.0
    Y[:, 1] = np.nan
    box, _ = robust_box([told(X), told(Y)])
    assert box.low[1] + box.span[1] == 1.0
    assert box.low[0] + box.span[0] == 4.0


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_numbers_of_any_size(size):
    box, _ = robust_box([told(evenly(-size, size)), told(evenly(0, size))])
    assert np.isfinite(box.span).all()
    assert 0 < box.span[0] <= 2 * size

# SPDX-License-Identifier: Apache-2.0
"""The client of the default preset: what leaves it, and that nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core import client
from afcl.core.cells import cells_of, fold, fold_owned
from afcl.core.client import HELLO_ITERATIONS, condense, reply
from afcl.core.messages import Level, Plan
from afcl.core.params import DefaultParams
from afcl.core.protocol import client_rng, server_rng
from afcl.core.seeding import plus_plus
from afcl.exceptions import InputError
from afcl.kernels import assign, lloyd


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def rows(seed, n=200, d=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 5 * rng.integers(0, 3, size=(n, 1))


def same_cells(found, expected):
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        found.scatters, expected.scatters, rtol=1e-12, atol=1e-12
    )


def check_decomposition(cells, X):
    """Counts, mean and total scatter of the cells are those of the rows."""
    assert cells.counts.sum() == X.shape[0]
    mean = (cells.counts[:, None] * cells.means).sum(axis=0) / X.shape[0]
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=0, atol=1e-10)
    between = (cells.counts * ((cells.means - mean) ** 2).sum(axis=1)).sum()
    total = ((X - X.mean(axis=0)) ** 2).sum()
    np.testing.assert_allclose(cells.scatters.sum() + between, total, rtol=1e-10)


# ---------------------------------------------------------------------- hello


@pytest.mark.parametrize("min_cell", [1, 2, 5, 30])
def test_condensed_rows_lose_no_moment(seed, min_cell):
    X = rows(seed)
    params = DefaultParams(min_cell=min_cell)
    cells = condense(X, params, np.random.default_rng(seed))
    assert cells.counts.min() >= min_cell
    assert len(cells) <= params.cells_for(200)
    check_decomposition(cells, X)


def test_condensing_is_seeding_five_iterations_and_folding(seed):
    X, params = rows(seed), DefaultParams()
    cells = condense(X, params, np.random.default_rng(seed))
    # min(ceil(3 * sqrt(200)) = 43, 200 // 5 = 40) cells to start from.
    start = X[plus_plus(X, 40, np.random.default_rng(seed))]
    _, labels = lloyd(X, np.ones(200), start, HELLO_ITERATIONS)
    assert HELLO_ITERATIONS == 5
    same_cells(cells, fold(cells_of(X, labels, 40), 5))


def test_many_rows_are_seeded_on_a_sample(seed, monkeypatch):
    monkeypatch.setattr(client, "SEEDING_SAMPLE", 60)
    X, params = rows(seed), DefaultParams()
    cells = condense(X, params, np.random.default_rng(seed))
    assert cells.counts.min() >= 5
    check_decomposition(cells, X)
    # The same by hand: 60 rows in their order, then one pass over all rows.
    rng = np.random.default_rng(seed)
    sample = X[np.sort(rng.choice(200, 60, replace=False))]
    start = sample[plus_plus(sample, 40, rng)]
    centers, _ = lloyd(sample, np.ones(60), start, HELLO_ITERATIONS)
    same_cells(cells, fold(cells_of(X, assign(X, centers)[0], 40), 5))


def test_a_sample_as_large_as_the_rows_is_no_sample(seed, monkeypatch):
    X, params = rows(seed, 60), DefaultParams()
    expected = condense(X, params, np.random.default_rng(seed))
    monkeypatch.setattr(client, "SEEDING_SAMPLE", 60)
    same_cells(condense(X, params, np.random.default_rng(seed)), expected)


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (1, r"this client has 1 row \(n_samples = 1\), fewer than min_cell = 5"),
        (4, r"this client has 4 rows \(n_samples = 4\), fewer than min_cell = 5"),
    ],
)
def test_a_client_smaller_than_a_cell_is_refused_in_one_line(n, text):
    with pytest.raises(InputError, match=text) as refusal:
        condense(np.zeros((n, 2)), DefaultParams(), np.random.default_rng(0))
    assert "\n" not in str(refusal.value)


def test_a_client_as_large_as_a_cell_is_one_cell():
    # 0 1 2 3 4: mean 2, scatter 4 + 1 + 0 + 1 + 4.
    cells = condense(column(0, 1, 2, 3, 4), DefaultParams(), np.random.default_rng(0))
    assert cells.counts.tolist() == [5]
    assert cells.means.tolist() == [[2.0]]
    assert cells.scatters.tolist() == [10.0]


def test_equal_rows_are_one_cell():
    cells = condense(np.full((50, 2), 3.0), DefaultParams(), np.random.default_rng(0))
    assert cells.counts.tolist() == [50]
    assert cells.scatters.tolist() == [0.0]


def test_with_min_cell_one_every_row_may_be_a_cell():
    # 9 = 3 * sqrt(9) cells for 9 different rows: they are the rows.
    X = column(*range(9))
    cells = condense(X, DefaultParams(min_cell=1), np.random.default_rng(0))
    assert sorted(cells.means[:, 0].tolist()) == list(range(9))
    assert cells.scatters.tolist() == [0.0] * 9


def test_condensing_draws_from_the_given_generator_only(seed):
    X, params = rows(seed), DefaultParams()
    first = condense(X, params, client_rng(seed, 3, 0))
    same_cells(condense(X, params, client_rng(seed, 3, 0)), first)
    other = condense(X, params, client_rng(seed, 4, 0))
    assert not np.array_equal(other.means, first.means)


def test_generators_differ_by_who_draws_and_when():
    draws = {
        client_rng(0, 1, 2).random(),
        client_rng(0, 2, 1).random(),
        client_rng(0, 1, 3).random(),
        client_rng(1, 1, 2).random(),
        server_rng(0, 1, 2).random(),
    }
    assert len(draws) == 5
    assert server_rng(5, 0, 1).random() == server_rng(5, 0, 1).random()


@given(st.integers(5, 60), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_any_client_keeps_its_moments(n, d, draw):
    rng = np.random.default_rng(draw)
    X = rng.integers(0, 4, size=(n, d)).astype(float)
    cells = condense(X, DefaultParams(), rng)
    assert cells.counts.min() >= 5
    check_decomposition(cells, X)


# ---------------------------------------------------------------------- reply


def around(X, centers, min_cell):
    """Cells by nearest centre, folded, with whose they are: from the definitions."""
    labels, _ = assign(X, centers)
    cells = cells_of(X, labels, centers.shape[0])
    return fold_owned(cells, np.unique(labels), min_cell)


def said_around(X, centers, min_cell):
    """The same as a client says it."""
    summary = reply(X, Plan(centers, ()), DefaultParams(min_cell=min_cell))
    return summary.cells, summary.owners


def test_cells_around_centres_by_hand():
    # Nearest to 0: 0, 1 (mean .5, scatter .5); to 50: nobody; to 10: 8, 10, 12
    # (mean 10, scatter 8).
    X, centers = column(0, 8, 1, 10, 12), column(0, 50, 10)
    cells, owners = said_around(X, centers, 1)
    assert owners.tolist() == [0, 2]
    assert cells.counts.tolist() == [2, 3]
    assert cells.means[:, 0].tolist() == [0.5, 10.0]
    assert cells.scatters.tolist() == [0.5, 8.0]
    # With min_cell = 3 the two rows join the three: mean (1 + 30)/5 = 6.2, scatter
    # .5 + 8 + 2 * 3/5 * 9.5^2 = 116.8.
    folded, owners = said_around(X, centers, 3)
    assert owners.tolist() == [-1]
    assert folded.counts.tolist() == [5]
    assert folded.means[0, 0] == pytest.approx(6.2, rel=1e-15)
    assert folded.scatters[0] == pytest.approx(116.8, rel=1e-15)


def direct_sums(X, level):
    """Sum the simplified and the moment silhouette, row by row from the formulas."""
    simplified = moment = 0.0
    for x in X:
        squared = ((level.centers - x) ** 2).sum(axis=1)
        own = int(squared.argmin())
        others = np.arange(squared.shape[0]) != own
        simplified += 1 - np.sqrt(squared[own] / squared[others].min())
        size = level.counts[own]
        if size > 1:
            a = np.sqrt((squared[own] + level.spreads[own]) * size / (size - 1))
            b = np.sqrt((squared + level.spreads)[others].min())
            moment += (b - a) / max(a, b)
    return simplified, moment


@pytest.mark.parametrize("min_cell", [1, 5])
def test_a_reply_is_cells_and_sums_around_what_was_sent(seed, min_cell):
    rng = np.random.default_rng(seed)
    X, seeds = rows(seed), rows(seed + 1, 12)
    levels = tuple(
        Level(
            rows(seed + 2 + k, k),
            rng.random(k),
            rng.integers(1, 60, k).astype(float),
            revision=10 * k,
        )
        for k in (2, 4)
    )
    params = DefaultParams(min_cell=min_cell)
    summary = reply(X, Plan(seeds, levels), params)
    expected, owners = around(X, seeds, min_cell)
    same_cells(summary.cells, expected)
    assert summary.owners.tolist() == owners.tolist()
    assert len(summary.levels) == 2
    for view, level in zip(summary.levels, levels, strict=True):
        expected, owners = around(X, level.centers, min_cell)
        same_cells(view.cells, expected)
        assert view.owners.tolist() == owners.tolist()
        assert view.cells.counts.min() >= min_cell
        check_decomposition(view.cells, X)
        simplified, moment = direct_sums(X, level)
        assert view.sums == pytest.approx([simplified, moment], abs=1e-9)
        assert view.sums.dtype == np.float64
        assert view.revision == level.revision


def test_a_reply_counts_rows_between_centres(seed, monkeypatch):
    # By hand: 1 lies in the middle of 0 and 2, both of which have a row and a pair.
    level = Level(column(0, 2), np.zeros(2), np.ones(2), 0)
    plan, params = Plan(column(0), (level,)), DefaultParams(min_cell=1)
    (view,) = reply(column(0, 1, 2, 2), plan, params).levels
    assert view.valleys.tolist() == [[1.0, 1.0, 2.0], [1.0, 2.0, 1.0]]
    assert view.valleys.dtype == np.float64
    # Cells that stand for rows count as often as they hold any.
    cells = cells_of(column(0, 1, 2, 2), np.array([0, 1, 2, 2]), 3)
    (view,) = reply(cells, plan, params).levels
    assert view.valleys.tolist() == [[1.0, 1.0, 2.0], [1.0, 2.0, 1.0]]
    # Rows that are read in parts count as rows do that are read at once.
    X = rows(seed)
    level = Level(rows(seed + 1, 4), np.ones(4), np.full(4, 50.0), 0)
    plan = Plan(rows(seed + 2, 5), (level,))
    whole = reply(X, plan, params).levels[0].valleys
    monkeypatch.setattr("afcl.core.rows.rows_in_the_cache", lambda d, cores: 64)
    assert np.array_equal(reply(X, plan, params).levels[0].valleys, whole)


def test_a_plan_without_candidates_is_answered(seed):
    summary = reply(rows(seed), Plan(rows(seed, 3), ()), DefaultParams())
    assert summary.levels == ()
    assert summary.cells.counts.sum() == 200

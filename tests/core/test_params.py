# SPDX-License-Identifier: Apache-2.0
"""Parameters: what they allow, and the numbers that follow from the rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.core.params import DefaultParams, PaperParams, from_options
from afcl.exceptions import InputError
from afcl.registry import criteria


def test_the_defaults_are_the_documented_ones():
    params = DefaultParams()
    assert (params.n_seeds, params.max_clusters, params.criterion) == (
        None,
        None,
        "auto",
    )
    assert (params.min_cell, params.contacts, params.cells_per_root) == (5, 3, 3.0)
    assert (params.band, params.prune, params.candidates) == (0.01, 0.02, 6)
    assert params.drift == 0.01


@pytest.mark.parametrize(
    ("level", "exact"),
    [
        ("summary", True),
        ("grouped(5)", True),
        ("secure+grouped(5)", False),
        ("dp(8)", False),
        ("unheard-of(3)", False),
    ],
)
def test_which_levels_send_cells_without_noise(level, exact):
    assert DefaultParams(privacy=level).exact_cells is exact


@pytest.mark.parametrize(
    ("n_rows", "min_cell", "expected"),
    [
        (150, 5, 30),  # min(ceil(3 * 12.25) = 37, 150 // 5 = 30)
        (150, 1, 37),
        (100, 1, 30),  # 3 * 10
        (101, 1, 31),  # 3 * 10.05 rounded up
        (10_000, 5, 256),  # 300, capped
        (5, 5, 1),
        (3, 5, 1),  # 3 // 5 = 0, but one cell there is
    ],
)
def test_cells_of_a_client(n_rows, min_cell, expected):
    assert DefaultParams(min_cell=min_cell).cells_for(n_rows) == expected


@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [
        (150, 24),  # floor(2 * 12.25) = 24 < 150 // 4 = 37
        (64, 16),  # max(16, 16), 64 // 4 = 16
        (40, 10),  # 40 // 4 = 10 < 16
        (10, 4),  # max(4, 2)
        (100_000, 256),  # 632, capped
    ],
)
def test_seeds_of_all_rows(n_rows, expected):
    assert DefaultParams().seeds_for(n_rows) == expected
    assert DefaultParams(n_seeds=7).seeds_for(n_rows) == 7


@pytest.mark.parametrize(
    ("n_rows", "n_seeds", "expected"),
    [
        (150, 24, 12),  # floor(12.25)
        (50, 12, 10),  # at least 10 ...
        (50, 8, 8),  # ... but no more than there are seeds
        (100_000, 256, 128),  # 316, capped
    ],
)
def test_largest_k(n_rows, n_seeds, expected):
    assert DefaultParams().clusters_for(n_rows, n_seeds) == expected
    assert DefaultParams(max_clusters=5).clusters_for(n_rows, n_seeds) == 5
    assert DefaultParams(max_clusters=5).clusters_for(n_rows, 3) == 3


@given(st.integers(1, 10**7), st.integers(1, 50))
def test_the_numbers_are_within_their_bounds(n_rows, min_cell):
    params = DefaultParams(min_cell=min_cell)
    cells, seeds = params.cells_for(n_rows), params.seeds_for(n_rows)
    assert 1 <= cells <= 256
    assert cells == 1 or cells * min_cell <= n_rows
    assert 4 <= seeds <= 256
    assert 1 <= params.clusters_for(n_rows, seeds) <= min(128, seeds)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_seeds": 0}, "n_seeds must be 'auto' or at least 1, not 0"),
        ({"max_clusters": 0}, "max_clusters must be 'auto' or at least 1, not 0"),
        ({"criterion": "elbow"}, "unknown criterion 'elbow'.*auto, silhouette"),
        ({"min_cell": 0}, "min_cell must be a whole number, at least 1, not 0"),
        ({"min_cell": 2.5}, "min_cell must be a whole number, at least 1, not 2.5"),
        ({"contacts": 0}, "contacts must be a whole number, at least 1, not 0"),
        ({"candidates": 0}, "candidates must be a whole number, at least 1, not 0"),
        ({"cells_per_root": 0.0}, "cells_per_root must be positive"),
        ({"band": -0.1}, "band must not be negative, not -0.1"),
        ({"prune": -1}, "prune must not be negative, not -1"),
        ({"drift": float("nan")}, "drift must not be negative, not nan"),
    ],
)
def test_default_refusals(options, text):
    with pytest.raises(InputError, match=text):
        DefaultParams(**options)


@pytest.mark.parametrize("criterion", criteria())
def test_every_criterion_is_accepted(criterion):
    assert DefaultParams(criterion=criterion).criterion == criterion


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_seeds": 0}, "n_seeds must be 'auto' or at least 1, not 0"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, not 0"),
        ({"merge": 0.0}, "merge must be positive, not 0"),
        ({"tolerance": -1.0}, "tolerance must not be negative, not -1"),
        ({"balance": -1.0}, "balance must be positive, not -1"),
        ({"winner": "loudest"}, "winner must be one of .* not 'loudest'"),
        ({"anchor": "none"}, "anchor must be one of .* not 'none'"),
        ({"order": "sorted"}, "order must be one of .* not 'sorted'"),
    ],
)
def test_paper_refusals(options, text):
    with pytest.raises(InputError, match=text):
        PaperParams(**options)


@pytest.mark.parametrize(
    ("n_rows", "expected"), [(1, 2), (64, 2), (150, 4), (320, 10), (10_000, 64)]
)
def test_the_papers_seeds_follow_the_rows(n_rows, expected):
    settled = PaperParams().settled(n_rows)
    assert settled.n_seeds == expected
    assert settled.settled(10**6) is settled


def test_a_given_number_of_seeds_stays():
    params = PaperParams(n_seeds=3)
    assert params.settled(1000) is params


def test_options_become_parameters():
    params = from_options(DefaultParams, "afcl", {"min_cell": 2, "band": 0.5})
    assert params == DefaultParams(min_cell=2, band=0.5)


def test_an_unknown_option_gets_the_list_of_known_ones():
    text = "afcl-paper has no option 'eta'; it takes n_seeds, learning_rate, balance"
    with pytest.raises(InputError, match=text):
        from_options(PaperParams, "afcl-paper", {"balance": 1.0, "eta": 0.1})

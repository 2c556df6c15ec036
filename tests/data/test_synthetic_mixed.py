# SPDX-License-Identifier: Apache-2.0
"""Drawn tables of numbers and texts: sizes, shares and overlaps as promised."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.data import make_mixed, random_mixed
from afcl.data.synthetic_mixed import SHARPNESS, shared_numbers
from afcl.exceptions import InputError

seeds = st.integers(0, 2**32 - 1)


def test_what_round_clusters_share():
    # In one column, spreads 1 and 2, 5 apart: sqrt(2·1·2/(1 + 4)) · e^(-25/(4·5)).
    logs = shared_numbers(np.zeros((1, 1)), 1.0, np.array([[5.0]]), np.array([2.0]))
    assert logs[0, 0] == pytest.approx(0.5 * np.log(4 / 5) - 1.25)
    # Without columns, all is shared.
    none = shared_numbers(np.zeros((2, 0)), 1.0, np.zeros((3, 0)), np.ones(3))
    assert none.tolist() == [[0.0] * 3] * 2


@given(seeds, st.integers(1, 8), st.integers(0, 4), st.integers(0, 5), st.data())
@settings(max_examples=40, deadline=None)
def test_shapes_and_sizes(seed, n_clusters, n_numbers, n_texts, data):
    if n_numbers == 0:
        n_clusters = 1  # few texts alone need not hold two
    if n_numbers + n_texts == 0:
        n_texts = 1
    levels = data.draw(st.lists(st.integers(2, 26), min_size=n_texts, max_size=n_texts))
    noise = data.draw(st.lists(st.integers(2, 26), max_size=2))
    imbalance = data.draw(st.sampled_from([1.0, 5.0]))
    table = make_mixed(
        n_clusters,
        n_numbers,
        levels,
        overlap=0.1,
        imbalance=imbalance,
        random_state=seed,
        n_samples=20 * n_clusters,
        noise_numbers=2,
        noise_levels=noise,
    )
    n = 20 * n_clusters
    assert table.numbers.shape == (n, n_numbers + 2)
    assert table.texts.shape == (n, n_texts + len(noise))
    sizes = np.bincount(table.labels, minlength=n_clusters)
    assert sizes.size == n_clusters
    assert sizes.min() >= 12
    for column, m in zip(table.texts.T, [*levels, *noise], strict=True):
        assert all("a" <= text <= chr(ord("a") + m - 1) for text in column)


def test_clusters_share_no_more_than_asked():
    # Who knows centres and shares mistakes at most half the overlap of a pair.
    for seed in range(5):
        table = make_mixed(
            2,
            1,
            [3, 4],
            overlap=0.02,
            imbalance=1,
            random_state=seed,
            n_samples=4000,
            box=0.5,
        )
        first = table.labels == 0
        x, spreads = table.numbers[:, 0], []
        logs = np.zeros((len(x), 2))
        for c, rows in enumerate((first, ~first)):
            spreads.append(x[rows].std())
            logs[:, c] = -np.log(spreads[c])
            logs[:, c] -= ((x - x[rows].mean()) / spreads[c]) ** 2 / 2
            for column in table.texts.T:
                levels, codes = np.unique(column, return_inverse=True)
                counts = np.bincount(codes[rows], minlength=len(levels))
                logs[:, c] += np.log((counts + 0.01) / rows.sum())[codes]
        mistaken = (logs.argmax(axis=1) != table.labels).mean()
        # Three standard errors of a share of 4000 rows.
        assert mistaken <= 0.01 + 3 * np.sqrt(0.01 / 4000)


def test_texts_follow_the_cluster_as_sharply_as_asked(seed):
    table = make_mixed(
        2,
        0,
        [2] * 6,
        overlap=0.1,
        imbalance=1,
        random_state=seed,
        n_samples=8000,
        sharpness=(0.8, 0.8),
    )
    apart = 0
    for column in table.texts.T:
        shares = [(column[table.labels == c] == "a").mean() for c in (0, 1)]
        gap = abs(shares[0] - shares[1])
        # Clusters favour the same level (equal shares) or not (.8 apart).
        assert min(gap, abs(gap - 0.8)) < 5 * np.sqrt(0.5 / 4000)
        apart += gap > 0.4
    # A column in which they differ leaves at least sqrt(.2) of what is shared.
    assert apart >= 3


def test_noise_says_nothing_of_the_cluster():
    table = make_mixed(
        2,
        1,
        [3],
        overlap=0.01,
        imbalance=1,
        random_state=1,
        n_samples=8000,
        noise_numbers=1,
        noise_levels=[3],
    )
    one = table.labels == 0
    numbers, texts = table.numbers[:, 1], table.texts[:, 1]
    # Five standard errors of differences of means, of 4000 rows each.
    assert abs(numbers[one].mean() - numbers[~one].mean()) < 5 * np.sqrt(2 / 4000)
    for level in "abc":
        shares = [(texts[rows] == level).mean() for rows in (one, ~one)]
        assert abs(shares[0] - shares[1]) < 5 * np.sqrt(0.5 / 4000)


@pytest.mark.parametrize(
    "make",
    [
        random_mixed,
        lambda s: make_mixed(3, 2, [2, 4], overlap=0.1, imbalance=3, random_state=s),
    ],
)
def test_the_seed_decides_and_rows_are_shuffled(make):
    one, same, other = make(7), make(np.random.default_rng(7)), make(8)
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.numbers.shape != other.numbers.shape or not np.array_equal(
        one.numbers, other.numbers
    )
    assert (np.diff(one.labels) < 0).any()


def test_random_tables_use_the_whole_range():
    drawn = [random_mixed(seed) for seed in range(60)]
    clusters = [table.labels.max() + 1 for table in drawn]
    assert min(clusters) == 2
    # Log-uniform: one of eight has ten clusters or more.
    assert 10 <= max(clusters) <= 12
    assert all(500 <= len(table.labels) <= 3000 for table in drawn)
    assert all(2 <= table.numbers.shape[1] <= 8 + 3 for table in drawn)
    assert all(2 <= table.texts.shape[1] <= 10 + 3 for table in drawn)
    ratios = [np.bincount(t.labels).max() / np.bincount(t.labels).min() for t in drawn]
    assert min(ratios) < 1.1
    assert 3 < max(ratios) < 6


@pytest.mark.parametrize("seed", range(10))
def test_random_tables_of_one_kind(seed):
    assert random_mixed(seed, with_texts=False).texts.shape[1] == 0
    texts = random_mixed(seed, with_numbers=False)
    assert texts.numbers.shape[1] == 0
    assert texts.texts.shape[1] >= 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "a table needs at least one cluster and one column"),
        (
            {"n_numbers": 0, "levels": []},
            "a table needs at least one cluster and one column",
        ),
        ({"levels": [1]}, "a text column has between 2 and 26 levels"),
        ({"noise_levels": [27]}, "a text column has between 2 and 26 levels"),
        ({"overlap": 1}, "overlap is 1; use a number between 0 and 1"),
        ({"imbalance": 0.5}, "imbalance is 0.5; use 1 (equal sizes) or more"),
        ({"n_samples": 23}, "n_samples is 23; 2 clusters need at least 24"),
        (
            {"sharpness": (0.5, 1.0)},
            "sharpness goes from 0.5 to 1.0; use two numbers from 0 to below 1",
        ),
        (
            {"n_numbers": 0, "levels": [2], "overlap": 0.01},
            "2 clusters that share at most 0.01 do not fit into these columns; use "
            "fewer clusters, more columns or a larger overlap",
        ),
    ],
)
def test_refused_parameters(change, message):
    chosen = {
        "n_clusters": 2,
        "n_numbers": 2,
        "levels": [3],
        "overlap": 0.1,
        "imbalance": 1,
        "random_state": 0,
        "sharpness": SHARPNESS,
    }
    with pytest.raises(InputError) as caught:
        make_mixed(**(chosen | change))
    assert str(caught.value) == message

# SPDX-License-Identifier: Apache-2.0
"""Who owns which row: every row has an owner, every client a row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl.data import (
    column_split,
    dirichlet_split,
    iid_split,
    kmeans_split,
    make_mixture,
    make_sd1,
    merge_small,
    paper_leak_split,
)
from afcl.exceptions import InputError

seeds = st.integers(0, 2**32 - 1)


def assert_owned(owners, n_rows, n_clients):
    assert owners.shape == (n_rows,)
    assert owners.dtype == np.int64
    assert np.unique(owners).tolist() == list(range(n_clients))


def test_kmeans_split_gives_each_client_its_own_corner():
    X = np.array([[0.0], [0.1], [10.0], [10.1], [20.0], [20.1]])
    owners = kmeans_split(X, 3, 0)
    assert_owned(owners, 6, 3)
    assert owners[::2].tolist() == owners[1::2].tolist()


@given(seeds, st.integers(1, 40), st.integers(1, 8))
@settings(max_examples=15, deadline=None)
def test_kmeans_split_owns_every_row(seed, n_rows, n_clients):
    X = np.random.default_rng(seed).normal(size=(n_rows + n_clients, 2))
    owners = kmeans_split(X, n_clients, seed)
    assert_owned(owners, len(X), n_clients)
    assert np.array_equal(owners, kmeans_split(X, n_clients, seed))


def test_fewer_distinct_rows_make_fewer_clients():
    owners = kmeans_split(np.array([[1.0], [1.0], [2.0], [2.0]]), 4, 0)
    assert_owned(owners, 4, 2)
    assert owners[0] == owners[1] != owners[2] == owners[3]


@pytest.mark.parametrize("min_rows", [1, 5, 12])
def test_many_small_clients(min_rows):
    X, _ = make_mixture(
        8, 2, separation=2.5, imbalance=3, random_state=0, n_samples=1000
    )
    owners = kmeans_split(X, len(X) // 20, 0, min_rows=min_rows)
    sizes = np.bincount(owners)
    assert sizes.min() >= min_rows
    assert_owned(owners, 1000, sizes.size)
    assert sizes.size == 50 if min_rows == 1 else sizes.size > 20


def test_merge_small_by_hand():
    # Client 1 (6, one row) is 3.5 from the mean of client 2 and 5.5 from that of 0.
    X = np.array([[0.0], [1.0], [6.0], [9.0], [10.0]])
    owners = np.array([0, 0, 1, 2, 2])
    assert merge_small(X, owners, 1).tolist() == [0, 0, 1, 2, 2]
    assert merge_small(X, owners, 2).tolist() == [0, 0, 1, 1, 1]
    assert merge_small(X, owners, 3).tolist() == [0] * 5
    assert owners.tolist() == [0, 0, 1, 2, 2]


def test_merged_clients_move_their_mean():
    # 0 joins 4 (smallest first, lowest number), which makes the mean 2. Then 10 is
    # nearer to 17 (7 away) than to 2 (8 away); 4 itself would have been nearer.
    X = np.array([[0.0], [4.0], [10.0], [17.0], [17.0]])
    owners = merge_small(X, np.array([0, 1, 2, 3, 3]), 2)
    assert owners.tolist() == [0, 0, 1, 1, 1]


@given(seeds, st.integers(1, 60), st.integers(1, 20), st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_merging_moves_whole_clients(seed, n_rows, n_clients, min_rows):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    owners = column_split(rng.integers(n_clients, size=n_rows))
    if min_rows > n_rows:
        with pytest.raises(InputError, match=f"^{n_rows} rows cannot make a client of"):
            merge_small(X, owners, min_rows)
        return
    merged = merge_small(X, owners, min_rows)
    assert np.bincount(merged).min() >= max(1, min_rows)
    assert_owned(merged, n_rows, merged.max() + 1)
    for client in range(owners.max() + 1):
        assert np.unique(merged[owners == client]).size == 1


@given(seeds, st.integers(1, 200), st.data())
@settings(max_examples=40, deadline=None)
def test_iid_split_is_even(seed, n_rows, data):
    n_clients = data.draw(st.integers(1, n_rows))
    owners = iid_split(n_rows, n_clients, seed)
    assert_owned(owners, n_rows, n_clients)
    assert np.ptp(np.bincount(owners)) <= 1
    assert np.array_equal(owners, iid_split(n_rows, n_clients, seed))


def test_iid_split_is_at_random():
    assert iid_split(50, 5, 0).tolist() != iid_split(50, 5, 1).tolist()
    assert iid_split(50, 5, 0).tolist() != [i % 5 for i in range(50)]


@given(seeds, st.integers(1, 80), st.sampled_from([0.01, 0.3, 1.0, 100.0]), st.data())
@settings(max_examples=40, deadline=None)
def test_dirichlet_split_owns_every_row(seed, n_rows, alpha, data):
    n_clients = data.draw(st.integers(1, n_rows))
    y = np.random.default_rng(seed).integers(3, size=n_rows)
    owners = dirichlet_split(y, n_clients, alpha, seed)
    assert_owned(owners, n_rows, n_clients)
    assert np.array_equal(owners, dirichlet_split(y, n_clients, alpha, seed))


def test_alpha_rules_how_much_clients_differ():
    y = np.repeat(["a", "b"], 500)
    shares = {}
    for alpha in (0.05, 1e4):
        owners = dirichlet_split(y, 4, alpha, 0)
        shares[alpha] = [np.mean(y[owners == g] == "a") for g in range(4)]
    # Large alpha: each client owns an eighth of the rows of each class.
    assert np.allclose(shares[1e4], 0.5, atol=0.05)
    assert max(np.abs(np.array(shares[0.05]) - 0.5)) > 0.4


def test_empty_clients_get_a_row_of_the_largest():
    owners = dirichlet_split(np.zeros(10), 10, 1e-3, 0)
    assert sorted(owners.tolist()) == list(range(10))


def test_rows_of_a_class_are_not_cut_in_their_order():
    owners = dirichlet_split(np.zeros(100), 2, 100.0, 0)
    assert (np.diff(owners) < 0).any()


def test_column_split():
    assert column_split(["b", "a", "b", "c"]).tolist() == [1, 0, 1, 2]
    assert column_split([10, -3, 10]).tolist() == [1, 0, 1]
    assert column_split(np.array([2.5, 0.5])).dtype == np.int64


def test_the_class_leaks_into_the_paper_split():
    # The features, in whatever unit, span 1; the class, unscaled, is far larger.
    X = np.array([[1e6], [2e6], [1e6 + 1], [2e6 + 1], [1e6], [2e6]])
    y = np.array([10, 10, 20, 20, 30, 30])
    owners = paper_leak_split(X, y, 3, 0)
    assert_owned(owners, 6, 3)
    assert owners[0] == owners[1] != owners[2] == owners[3] != owners[4] == owners[5]
    named = paper_leak_split(X, np.array(list("uuvvww")), 3, 0)
    numbered = paper_leak_split(X, y / 10, 3, 0)  # 1, 2 and 3
    assert named.tolist() == numbered.tolist()


def test_the_leak_is_k_means_on_scaled_rows_with_one_more_column():
    X, y = make_sd1(0)
    span = X.max(axis=0) - X.min(axis=0)
    scaled = (X - X.min(axis=0)) / span
    joined = kmeans_split(np.column_stack((scaled, y)), 5, 3)
    np.testing.assert_array_equal(paper_leak_split(X, y, 5, 3), joined)
    np.testing.assert_array_equal(paper_leak_split(1000 * X, y, 5, 3), joined)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kmeans_split(np.ones((3, 1)), 4, 0),
            "n_clients is 4; use a number between 1 and the 3 rows",
        ),
        (
            lambda: iid_split(3, 0, 0),
            "n_clients is 0; use a number between 1 and the 3 rows",
        ),
        (
            lambda: dirichlet_split([0, 1], 3, 1.0, 0),
            "n_clients is 3; use a number between 1 and the 2 rows",
        ),
        (
            lambda: dirichlet_split([0, 1], 2, 0.0, 0),
            "alpha is 0.0; use a number above 0",
        ),
        (
            lambda: column_split([[1, 2]]),
            "a split by column needs one value per row, and a row",
        ),
        (
            lambda: column_split([]),
            "a split by column needs one value per row, and a row",
        ),
        (
            lambda: column_split([1.0, float("nan")]),
            "the column to split by has missing values; fill them in",
        ),
        (
            lambda: column_split(np.array(["a", None], dtype=object)),
            "the column to split by has missing values; fill them in",
        ),
        (
            lambda: merge_small(np.ones((3, 1)), np.zeros(3, dtype=int), 4),
            "3 rows cannot make a client of 4",
        ),
    ],
)
def test_refused_splits(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message

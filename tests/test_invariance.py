# SPDX-License-Identifier: Apache-2.0
"""Where nothing new is said, k stays: repeated, shuffled, shifted and scaled rows.

How often it does on real tables is measured by ``benchmarks/trust.py``.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afcl import AFCL
from afcl.exceptions import TrustWarning


def spots(seed, k):
    """Rows around k places, 14 standard deviations apart, and their owners."""
    rng = np.random.default_rng(seed)
    places = 14.0 * rng.permutation(np.stack(np.divmod(np.arange(16), 4), axis=1))[:k]
    X = rng.normal(np.repeat(places, 40, axis=0), 1)
    return X, rng.permutation(np.arange(len(X)) % 4)


def noise(seed):
    """Rows of one cloud, and their owners."""
    X = np.random.default_rng(seed).normal(size=(240, 3))
    return X, np.arange(240) % 4


def repeated(X, owner, rng):
    return np.repeat(X, 2, axis=0), np.repeat(owner, 2)


def more_clients(X, owner, rng):
    return np.tile(X, (4, 1)), np.concatenate([owner + 4 * i for i in range(4)])


def shuffled(X, owner, rng):
    order = rng.permutation(len(X))
    return X[order], owner[order]


def renamed(X, owner, rng):
    return X, rng.permutation(4)[owner]


def other_columns(X, owner, rng):
    return X[:, rng.permutation(X.shape[1])], owner


def other_units(X, owner, rng):
    return X * rng.uniform(0.01, 100) + rng.normal() * 50, owner


CHANGES = [repeated, more_clients, shuffled, renamed, other_columns, other_units]


def k_of(X, owner, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrustWarning)
        return AFCL(random_state=0, **options).fit(X, clients=owner).n_clusters_


@pytest.mark.parametrize("change", CHANGES)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 6))
@settings(max_examples=3, deadline=None)
def test_k_stays(change, seed, k):
    X, owner = spots(seed, k)
    assert k_of(X, owner) == k
    assert k_of(*change(X, owner, np.random.default_rng(seed))) == k


@pytest.mark.parametrize("change", CHANGES)
def test_no_clusters_stay_none(change):
    for seed in range(3):
        X, owner = noise(seed)
        assert k_of(*change(X, owner, np.random.default_rng(seed))) == 1


@given(seed=st.integers(0, 10_000), k=st.integers(2, 6))
@settings(max_examples=3, deadline=None)
def test_k_stays_if_more_were_allowed(seed, k):
    X, owner = spots(seed, k)
    assert k_of(X, owner, max_clusters=40) == k

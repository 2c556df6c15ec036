# SPDX-License-Identifier: Apache-2.0
"""The canary test: its bound by hand, below every true claim, above every false one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from afcl.core.client import condense
from afcl.core.messages import Cells
from afcl.core.params import DefaultParams
from afcl.exceptions import InputError
from afcl.privacy.accountant import delta_of, epsilon_of
from afcl.privacy.canary import canary_test, epsilon_lower_bound
from afcl.privacy.synopsis import release

ROWS = np.full((100, 2), 0.2)
CANARY = np.array([1.0, 1.0])


def test_the_bound_by_hand():
    # All 100 and none of 100: both rates are known to 1 - .0125^(1/100) = .0429
    # (each of four ends may be wrong with 1.25 %), so epsilon >= log(.9571 / .0429).
    end = 1 - 0.0125**0.01
    expected = math.log((1 - end) / end)
    assert epsilon_lower_bound(100, 100, 0, 100, 0.0) == pytest.approx(expected)
    # delta is granted to the mechanism.
    expected = math.log((1 - end - 0.1) / end)
    assert epsilon_lower_bound(100, 100, 0, 100, 0.1) == pytest.approx(expected)


def test_the_bound_is_the_same_in_all_directions():
    # 90 of 100 against 20 of 100, and its mirror images.
    bound = epsilon_lower_bound(90, 100, 20, 100, 1e-5)
    assert bound > 0
    for other in ((20, 90), (10, 80), (80, 10)):
        mirrored = epsilon_lower_bound(other[0], 100, other[1], 100, 1e-5)
        assert mirrored == pytest.approx(bound, rel=1e-12)


def test_intervals_are_those_of_clopper_and_pearson():
    low = stats.beta.ppf(0.0125, 90, 11)
    high = stats.beta.ppf(1 - 0.0125, 21, 80)
    # The rate of hits is at least .81 with the canary, at most .31 without it: hits
    # show log(.81 / .31), misses more, log(.69 / .19).
    misses = math.log((1 - high - 1e-5) / (1 - low))
    hits = math.log((low - 1e-5) / high)
    found = epsilon_lower_bound(90, 100, 20, 100, 1e-5)
    assert found == pytest.approx(max(hits, misses), rel=1e-9)


def test_nothing_shown_is_zero():
    assert epsilon_lower_bound(5, 10, 5, 10, 1e-5) == 0.0
    assert epsilon_lower_bound(0, 1, 0, 1, 0.0) == 0.0
    assert epsilon_lower_bound(10, 10, 10, 10, 0.0) == 0.0


@given(st.integers(1, 200), st.data())
def test_more_confidence_shows_less(trials, data):
    there = data.draw(st.integers(0, trials))
    absent = data.draw(st.integers(0, trials))
    loose = epsilon_lower_bound(there, trials, absent, trials, 1e-5, 0.5)
    strict = epsilon_lower_bound(there, trials, absent, trials, 1e-5, 0.99)
    assert 0 <= strict <= loose


def test_the_bound_holds_as_often_as_it_says(seed):
    """Guesses at the best rates mu = 1 allows: wrong in at most 5 % of experiments."""
    rng = np.random.default_rng(seed)
    rates = stats.norm.sf(0.5 - 1.0), stats.norm.sf(0.5)
    # The true epsilon at this delta for that one event, by definition.
    delta = 1e-5
    true = max(
        math.log((rates[0] - delta) / rates[1]),
        math.log((1 - rates[1] - delta) / (1 - rates[0])),
    )
    assert delta_of(true, 1.0) >= delta
    wrong = sum(
        epsilon_lower_bound(
            int(rng.binomial(200, rates[0])),
            200,
            int(rng.binomial(200, rates[1])),
            200,
            delta,
        )
        > true
        for _ in range(400)
    )
    assert wrong <= 40  # 20 are allowed on average; in truth it is far fewer


def test_counts_that_cannot_be_are_refused():
    for hits, trials in ((-1, 10), (11, 10), (0, 0)):
        with pytest.raises(InputError, match="cannot be"):
            epsilon_lower_bound(hits, trials, 0, 10, 1e-5)
        with pytest.raises(InputError, match="cannot be"):
            epsilon_lower_bound(0, 10, hits, trials, 1e-5)
    with pytest.raises(InputError, match="between 0 and 1"):
        epsilon_lower_bound(1, 2, 1, 2, 1e-5, confidence=1.0)
    with pytest.raises(InputError, match="run at least 4"):
        canary_test(cheat, ROWS, CANARY, 3, np.random.default_rng(0), 1e-5)


def cheat(X, rng):
    """Claim privacy and send the mean."""
    return Cells(np.array([X.shape[0]]), X.mean(axis=0)[None, :], np.zeros(1))


def gaussian(mu):
    """Return a mechanism that is mu-GDP and not a bit better, at n rows in all."""

    def send(X, rng):
        shift = np.sqrt(2) * 0.8 * (X.shape[0] - 100)
        noise = rng.normal(0, np.sqrt(2) * 0.8 / mu)
        point = ROWS[0] + (shift + noise) * np.ones(2) / np.sqrt(2)
        return Cells(np.array([100]), point[None, :], np.zeros(1))

    return send


@pytest.mark.no_cover
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("offset", range(3))
def test_the_synopsis_keeps_its_claim(seed, epsilon, offset):
    found = canary_test(
        lambda X, rng: release(X, epsilon, 1e-5, 5, rng),
        ROWS,
        CANARY,
        200,
        np.random.default_rng([seed, offset]),
        1e-5,
    )
    assert found.epsilon <= epsilon
    assert found.trials == 100


def test_noise_that_is_too_small_is_caught(seed):
    """The same synopsis, almost without noise: 1 was claimed, more is shown."""
    found = canary_test(
        lambda X, rng: release(X, 1e7, 1e-5, 5, rng),
        ROWS,
        CANARY,
        400,
        np.random.default_rng(seed),
        1e-5,
    )
    assert found.epsilon > 2.0


def test_a_mechanism_without_noise_is_caught(seed):
    for mechanism in (cheat, lambda X, rng: condense(X, DefaultParams(), rng)):
        found = canary_test(
            mechanism, ROWS, CANARY, 400, np.random.default_rng(seed), 1e-5
        )
        assert (found.hits_with, found.hits_without) == (200, 0)
        assert found.epsilon > 3.5


@pytest.mark.parametrize("mu", [0.5, 2.0, 4.0])
def test_a_tight_mechanism_is_nearly_caught(seed, mu):
    found = canary_test(
        gaussian(mu), ROWS, CANARY, 2000, np.random.default_rng(seed), 1e-5
    )
    true = epsilon_of(mu, 1e-5)
    assert found.epsilon <= true
    assert mu < 1 or found.epsilon > 0.3 * mu


def test_a_mechanism_that_says_nothing_shows_nothing(seed):
    found = canary_test(
        lambda X, rng: Cells(np.array([5]), np.zeros((1, 2)), np.zeros(1)),
        ROWS,
        CANARY,
        40,
        np.random.default_rng(seed),
        1e-5,
    )
    assert found.epsilon == 0.0
    assert found.hits_with == found.hits_without

# SPDX-License-Identifier: Apache-2.0
"""The accountant: by hand, against 50 digits, against dp-accounting, monotone."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from afcl.exceptions import InputError
from afcl.privacy.accountant import compose, delta_of, epsilon_of, mu_of

EPSILONS = st.floats(1e-3, 100)
MUS = st.floats(1e-6, 12)
DELTAS = st.floats(-15, -1).map(lambda power: 10.0**power)


def exact_delta(epsilon, mu):
    """Return delta with 50 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        a = mpmath.mpf(epsilon) / mu - mpmath.mpf(mu) / 2
        b = mpmath.mpf(epsilon) / mu + mpmath.mpf(mu) / 2
        return float(mpmath.ncdf(-a) - mpmath.exp(epsilon) * mpmath.ncdf(-b))


def test_delta_by_hand():
    # epsilon 0: the total variation of N(0, 1) and N(mu, 1), 2 Phi(mu / 2) - 1.
    assert delta_of(0.0, 2.0) == pytest.approx(2 * ndtr(1.0) - 1, rel=1e-14)
    # epsilon 1, mu 1: Phi(-1/2) - e Phi(-3/2) = .308537538726 - e * .066807201269.
    by_hand = 0.308537538726 - math.e * 0.066807201269
    assert delta_of(1.0, 1.0) == pytest.approx(by_hand, rel=1e-10)
    assert delta_of(3.0, 0.0) == 0.0


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("deviations", [0.0, 0.5, 3.0, 7.9])
def test_delta_has_many_right_digits(mu, deviations):
    epsilon = deviations * mu + mu * mu / 2
    exact = exact_delta(epsilon, mu)
    assert delta_of(epsilon, mu) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 1.0, 5.0, 40.0, 1000.0])
def test_delta_at_epsilon_zero(mu):
    expected = math.erf(mu / math.sqrt(8))
    assert delta_of(0.0, mu) == pytest.approx(expected, rel=1e-9)


def test_nothing_overflows():
    assert delta_of(100.0, 1e-6) == 0.0
    assert delta_of(1e-6, 1e6) == 1.0
    assert delta_of(1e300, 1e-6) == 0.0


@given(EPSILONS, MUS, st.floats(1.0, 3.0))
def test_delta_grows_with_mu_and_falls_with_epsilon(epsilon, mu, factor):
    found = delta_of(epsilon, mu)
    assert 0 <= found <= 1
    slack = 1e-8 * found
    assert delta_of(epsilon, mu * factor) >= found - slack
    assert delta_of(epsilon * factor, mu) <= found + slack


@given(EPSILONS, DELTAS)
def test_mu_is_what_epsilon_and_delta_allow(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert delta_of(epsilon, mu) <= delta
    assert delta_of(epsilon, mu * (1 + 1e-6)) > delta
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-7)


@given(MUS, DELTAS)
def test_epsilon_is_what_mu_costs(mu, delta):
    epsilon = epsilon_of(mu, delta)
    assert delta_of(epsilon, mu) <= delta
    if epsilon > 0:
        assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-7)
        assert delta_of(epsilon * (1 - 1e-6), mu) > delta
    else:
        assert delta_of(0.0, mu) <= delta


@given(st.lists(MUS, min_size=1, max_size=6), DELTAS)
def test_more_releases_cost_more(mus, delta):
    together = compose(mus)
    assert together >= max(mus)
    assert epsilon_of(together, delta) >= epsilon_of(max(mus), delta) * (1 - 1e-12)


def test_composition_by_hand():
    assert compose([3.0, 4.0]) == 5.0
    assert compose([]) == 0.0
    # Nine equal releases cost three times the mu of one.
    assert compose([0.2] * 9) == pytest.approx(0.6, rel=1e-14)


def test_nonsense_is_refused():
    for epsilon in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="epsilon is"):
            mu_of(epsilon, 1e-5)
    for mu in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="mu is"):
            compose([1.0, mu])
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="delta is"):
            epsilon_of(1.0, delta)


@pytest.fixture(scope="module")
def distributions():
    """Return the privacy loss distributions of dp-accounting."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    return module


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 20.0])
@pytest.mark.parametrize("releases", [1, 3, 10, 30])
def test_dp_accounting_agrees(distributions, epsilon, releases):
    # The grid of losses that dp-accounting works on: its error grows with the number of
    # releases, its work with epsilon.
    grid = 1e-4 if epsilon <= 1 else 1e-3
    for delta in (1e-3, 1e-5, 1e-9):
        mu = mu_of(epsilon, delta)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss = distributions.from_gaussian_mechanism(
                math.sqrt(releases) / mu, value_discretization_interval=grid
            ).self_compose(releases)
            theirs = loss.get_epsilon_for_delta(delta)
        ours = epsilon_of(compose([mu / math.sqrt(releases)] * releases), delta)
        assert ours == pytest.approx(epsilon, rel=1e-9)
        assert theirs == pytest.approx(ours, abs=1e-3)

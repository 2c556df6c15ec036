# SPDX-License-Identifier: Apache-2.0
"""What releases cost, in Gaussian differential privacy.

A mechanism is mu-GDP if telling a data set from its neighbour by its output is at least
as hard as telling N(0, 1) from N(mu, 1). Gaussian noise of deviation s on something a
row can change by f is f/s-GDP, exactly; releases of the same rows compose to the root
of the sum of squares, also when a later one depends on an earlier one. Dong, Roth and
Su (2022), Gaussian differential privacy, JRSS B 84(1): Theorem 2.7, Corollaries 2.13
and 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from afcl.exceptions import InputError

_ROOT_HALF = math.sqrt(0.5)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def delta_of(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which mu-GDP is (epsilon, delta)-DP.

    Notes
    -----
    delta = Phi(-a) - exp(epsilon) Phi(-b), where a = epsilon/mu - mu/2 and
    b = epsilon/mu + mu/2. As exp(epsilon) phi(b) = phi(a), that is
    phi(a) (R(a) - R(b)) with R the ratio Phi(-x)/phi(x) of Mills, which neither
    overflows nor cancels where delta is small.

    Examples
    --------
    >>> round(delta_of(1.0, 1.0), 6)
    0.126937
    """
    _check_cost("epsilon", epsilon)
    _check_cost("mu", mu)
    if mu == 0:
        return 0.0
    a = epsilon / mu - mu / 2
    b = epsilon / mu + mu / 2
    density = math.exp(-a * a / 2) / _ROOT_TWO_PI
    if a < 0:  # nothing is small here, and R(a) may be beyond all bounds
        from scipy.special import ndtr

        found = float(ndtr(-a)) - density * _mills(b)
    else:
        found = density * (_mills(a) - _mills(b))
    return max(0.0, found)


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest mu that (epsilon, delta) allows."""
    _check_cost("epsilon", epsilon)
    check_delta(delta)
    high = 1.0
    while delta_of(epsilon, high) <= delta:
        high *= 2
    return _last(lambda mu: delta_of(epsilon, mu) <= delta, 0.0, high)[0]


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which mu-GDP is (epsilon, delta)-DP."""
    _check_cost("mu", mu)
    check_delta(delta)
    # Then even epsilon 0 is true, and there is nothing to bisect.
    if delta_of(0.0, mu) <= delta:
        return 0.0
    # What zero-concentrated DP would say is never below (Bun and Steinke 2016).
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    return _last(lambda epsilon: delta_of(epsilon, mu) > delta, 0.0, high)[1]


def compose(mus: Iterable[float]) -> float:
    """Return the mu of several releases of the same rows together.

    Examples
    --------
    >>> compose([3.0, 4.0])
    5.0
    """
    every = list(mus)
    for mu in every:
        _check_cost("mu", mu)
    # Gaussian privacy composes exactly: the root of the squares' sum, no bound on it.
    return math.hypot(*every)


def _mills(x: float) -> float:
    """Phi(-x) / phi(x)."""
    from scipy.special import erfcx

    return _ROOT_HALF_PI * float(erfcx(x * _ROOT_HALF))


def _last(
    holds: Callable[[float], bool], low: float, high: float
) -> tuple[float, float]:
    """Bisect to neighbouring numbers: the last where it holds, the first where not."""
    while True:
        middle = (low + high) / 2
        # Neighbouring floats: no tolerance that could err on the wrong side.
        if not low < middle < high:
            return low, high
        if holds(middle):
            low = middle
        else:
            high = middle


def _check_cost(name: str, value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(f"{name} is {value}: it must be finite and not negative")


def check_delta(delta: float) -> None:
    """Refuse what is no probability."""
    if not 0 < delta < 1:
        raise InputError(f"delta is {delta}: it must lie between 0 and 1")

# SPDX-License-Identifier: Apache-2.0
"""The canary test: how much epsilon a mechanism gives away at least, by experiment.

The mechanism runs many times on a table and as often on the table with one more row,
the canary. Who guesses which was which from the output alone, and is right more often
than (epsilon, delta) allows, has shown that epsilon is larger. The test never proves
privacy; it can only disprove a claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from afcl._typing import Floats
from afcl.core.messages import Cells
from afcl.exceptions import InputError


@dataclass(frozen=True, slots=True)
class Canary:
    """What the second half of the trials showed.

    Attributes
    ----------
    epsilon
        Lower bound; with probability `confidence` the true epsilon is not below it.
    hits_with, hits_without
        How often the guess was "the canary is there", when it was and when it was not.
    trials
        Trials of each kind behind the hits.
    threshold
        What the score had to exceed for that guess.
    """

    epsilon: float
    hits_with: int
    hits_without: int
    trials: int
    threshold: float


def epsilon_lower_bound(
    hits_with: int,
    trials_with: int,
    hits_without: int,
    trials_without: int,
    delta: float,
    confidence: float = 0.95,
) -> float:
    """Return an epsilon that the counted guesses rule out everything below of.

    Parameters
    ----------
    hits_with, trials_with : int
        Guesses of "it is there" among the trials with the canary.
    hits_without, trials_without : int
        The same among the trials without it.
    delta : float
    confidence : float
        The probability that the bound holds.

    Returns
    -------
    epsilon : float
        0 if nothing is shown.

    Notes
    -----
    (epsilon, delta)-DP demands P(A) <= exp(epsilon) Q(A) + delta for every event A and
    in both directions, here for the guess and its opposite. Both rates get Clopper and
    Pearson's interval; the four ends hold together with probability `confidence`.

    Examples
    --------
    >>> epsilon_lower_bound(10, 10, 10, 10, 1e-5)
    0.0
    >>> round(epsilon_lower_bound(1000, 1000, 0, 1000, 1e-5), 2)
    5.43
    """
    for hits, trials in ((hits_with, trials_with), (hits_without, trials_without)):
        if not 0 <= hits <= trials or trials < 1:
            raise InputError(
                f"{hits} hits in {trials} trials cannot be: run at least one trial and "
                "count each once"
            )
    if not (0 <= delta < 1 and 0 < confidence < 1):
        raise InputError("delta and confidence must lie between 0 and 1")
    tail = (1 - confidence) / 4
    there = _interval(hits_with, trials_with, tail)
    absent = _interval(hits_without, trials_without, tail)
    ratios = []
    for (low, high), (other_low, other_high) in ((there, absent), (absent, there)):
        ratios.append(_log_ratio(low - delta, other_high))
        ratios.append(_log_ratio(1 - high - delta, 1 - other_low))
    return max(0.0, *ratios)


def canary_test(
    release: Callable[[Floats, np.random.Generator], Cells],
    X: Floats,
    canary: Floats,
    trials: int,
    rng: np.random.Generator,
    delta: float,
    confidence: float = 0.95,
) -> Canary:
    """Run a mechanism with and without a canary and bound its epsilon from below.

    Parameters
    ----------
    release : callable
        The mechanism: rows and a generator give the cells that are sent.
    X : ndarray of shape (n, d)
        A table without the canary. One place shared by all rows is the hardest test.
    canary : ndarray of shape (d,)
    trials : int
        Runs of each kind; half of them choose the threshold, half are counted.
    rng : Generator
    delta : float
    confidence : float

    Returns
    -------
    found : Canary

    Notes
    -----
    The score of an output is how far its mean lies towards the canary; totals of counts
    are not looked at, as the number of rows is public.
    """
    if trials < 4:
        raise InputError(f"{trials} trials cannot show anything: run at least 4")
    joined = np.vstack([X, canary[None, :]])
    axis = canary - X.mean(axis=0)
    there = _scores(release, joined, axis, trials, rng)
    absent = _scores(release, X, axis, trials, rng)
    half = trials // 2
    threshold = _threshold(there[:half], absent[:half], delta, confidence)
    return _shown(there[half:], absent[half:], threshold, delta, confidence)


def _shown(
    there: Floats, absent: Floats, threshold: float, delta: float, confidence: float
) -> Canary:
    """Guess by a threshold, and bound epsilon by how often that is right."""
    trials = there.size
    hits, wrong = int((there > threshold).sum()), int((absent > threshold).sum())
    bound = epsilon_lower_bound(hits, trials, wrong, trials, delta, confidence)
    return Canary(bound, hits, wrong, trials, threshold)


def _scores(
    release: Callable[[Floats, np.random.Generator], Cells],
    X: Floats,
    axis: Floats,
    trials: int,
    rng: np.random.Generator,
) -> Floats:
    """Return how far each output's mean lies along an axis."""
    scores = np.empty(trials)
    for trial in range(trials):
        cells = release(X, rng)
        mean = cells.counts @ cells.means / cells.counts.sum()
        scores[trial] = mean @ axis
    return scores


def _threshold(there: Floats, absent: Floats, delta: float, confidence: float) -> float:
    """Return the cut between two neighbouring scores that shows most."""
    every = np.unique(np.concatenate([there, absent]))
    cuts = (every[:-1] + every[1:]) / 2 if every.size > 1 else every
    shown = [_shown(there, absent, cut, delta, confidence).epsilon for cut in cuts]
    return float(cuts[int(np.argmax(shown))])


def _interval(hits: int, trials: int, tail: float) -> tuple[float, float]:
    """Clopper and Pearson's interval, each end wrong with probability `tail`."""
    misses = trials - hits
    low = float(betaincinv(hits, misses + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, misses, 1 - tail)) if misses else 1.0
    return low, high


def _log_ratio(above: float, below: float) -> float:
    """Return log(above / below), minus infinity where it shows nothing."""
    return math.log(above / below) if above > 0 and below > 0 else -math.inf

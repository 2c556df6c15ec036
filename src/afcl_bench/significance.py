# SPDX-License-Identifier: Apache-2.0
"""Whether methods differ over several datasets: ranks and tests on a table of scores.

A table has one row per dataset and one column per method and no gaps: a run that
failed needs a score (a collapsed labelling scores -1), or the ranks would flatter it.

References
----------
Demsar, "Statistical comparisons of classifiers over multiple data sets", Journal of
Machine Learning Research 7 (2006).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afcl._typing import Floats
from afcl.exceptions import InputError

#: How a critical difference may be computed; see :func:`bonferroni_dunn`.
CONVENTIONS = ("standard", "paper")


@dataclass(frozen=True, slots=True)
class Friedman:
    """Friedman's test of "all rank alike", and Iman and Davenport's sharper one.

    Attributes
    ----------
    statistic, p_value : float
        Friedman's chi-square, corrected for ties.
    f_statistic, f_p_value : float
        Iman and Davenport's F.
    """

    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A method beside the control: Wilcoxon's signed-rank test over the datasets.

    Attributes
    ----------
    name : str
        The method compared with the control.
    statistic, p_value : float
        Smaller sum of signed ranks, two-sided p; datasets with equal scores left out.
    adjusted : float
        The p-value after Holm's correction for the number of comparisons.
    wins, ties, losses : int
        Datasets on which the *control* is better, equal, worse.
    """

    name: str
    statistic: float
    p_value: float
    adjusted: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True)
class CriticalDifference:
    """What a critical-difference diagram shows.

    Attributes
    ----------
    names : tuple of str
        Methods, best average rank first.
    ranks : tuple of float
        Their average ranks.
    cd : float
        Methods whose rank differs by this much from the control's differ from it.
    control : str
        The method the others are compared with.
    alpha : float
        Level of the test.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    cd: float
    control: str
    alpha: float

    @property
    def control_rank(self) -> float:
        """Average rank of the control."""
        return self.ranks[self.names.index(self.control)]

    @property
    def group(self) -> tuple[str, ...]:
        """The control and every method the test cannot tell from it."""
        return tuple(
            name
            for name, rank in zip(self.names, self.ranks, strict=True)
            if abs(rank - self.control_rank) < self.cd
        )


def average_ranks(table: Floats, higher_is_better: bool = True) -> Floats:
    """Return every method's rank, averaged over the datasets; 1 is the best.

    Parameters
    ----------
    table : ndarray of shape (n_datasets, n_methods)
        Scores.
    higher_is_better : bool
        Which way the scores count.

    Returns
    -------
    ndarray of shape (n_methods,)
        Equal scores share the mean of the ranks they take up.

    Examples
    --------
    >>> import numpy as np
    >>> average_ranks(np.array([[0.9, 0.5, 0.5], [0.7, 0.8, 0.6]])).tolist()
    [1.5, 1.75, 2.75]
    """
    from scipy.stats import rankdata

    scores = _as_table(table)
    ranks = rankdata(-scores if higher_is_better else scores, axis=1)
    means: Floats = np.asarray(ranks, dtype=np.float64).mean(axis=0)
    return means


def friedman(table: Floats) -> Friedman:
    """Test whether the methods could all be ranked at random.

    Parameters
    ----------
    table : ndarray of shape (n_datasets, n_methods)
        Scores of at least three methods on at least two datasets; which way they count
        does not matter.

    Returns
    -------
    Friedman
        With statistics 0 and p-values 1 if all methods tie everywhere.
    """
    from scipy.stats import f, friedmanchisquare

    scores = _as_table(table)
    n, k = scores.shape
    if k < 3 or n < 2:
        raise InputError(
            f"{k} method(s) on {n} dataset(s); Friedman's test needs three methods and "
            "two datasets (two methods: wilcoxon_holm)"
        )
    if bool((scores == scores[:, :1]).all()):
        return Friedman(0.0, 1.0, 0.0, 1.0)
    found = friedmanchisquare(*scores.T)
    chi = float(found.statistic)
    left = n * (k - 1) - chi
    ratio = (n - 1) * chi / left if left > 1e-9 * n * k else math.inf
    f_p = float(f.sf(ratio, k - 1, (k - 1) * (n - 1)))
    return Friedman(chi, float(found.pvalue), float(ratio), f_p)


def bonferroni_dunn(
    n_methods: int, n_datasets: int, alpha: float = 0.05, convention: str = "standard"
) -> float:
    """Return the critical difference of average ranks to a control.

    Parameters
    ----------
    n_methods : int
        All methods, the control included.
    n_datasets : int
    alpha : float
        Chance of any false finding among the n_methods - 1 comparisons.
    convention : {"standard", "paper"}
        The test as defined, or as the AFCL paper prints it; see the notes.

    Returns
    -------
    float
        q sqrt(k (k + 1) / (6 N)) with k methods, N datasets and q the two-sided normal
        quantile of alpha / (k - 1).

    Notes
    -----
    The AFCL paper prints 1.9357 (alpha .05) and 1.7567 (.1) for 7 methods and 13
    datasets. These come from q of 7 methods, rounded as in Demsar's table (2.638 and
    2.394), but k = 6, the number of rivals, under the root: 1.93576 and 1.75672, cut
    after four digits. The test as defined gives 2.2354 and 2.0285. `paper` computes
    the former, for comparison with the printed figures only: a difference that small
    is found by chance more often than `alpha` says.

    Examples
    --------
    >>> round(bonferroni_dunn(7, 13), 4), round(bonferroni_dunn(7, 13, 0.1), 4)
    (2.2354, 2.0285)
    >>> round(bonferroni_dunn(7, 13, convention="paper"), 5)
    1.93576
    """
    from scipy.stats import norm

    _check_test(n_methods, n_datasets, alpha, convention)
    q = float(norm.isf(alpha / (2 * (n_methods - 1))))
    k = n_methods
    if convention == "paper":
        q, k = round(q, 3), n_methods - 1
    return q * math.sqrt(k * (k + 1) / (6 * n_datasets))


def critical_difference(
    table: Floats,
    names: Sequence[str],
    control: str,
    alpha: float = 0.05,
    higher_is_better: bool = True,
    convention: str = "standard",
) -> CriticalDifference:
    """Rank the methods and say which the Bonferroni-Dunn test tells from the control.

    Parameters
    ----------
    table : ndarray of shape (n_datasets, n_methods)
        Scores.
    names : sequence of str
        The methods, in the order of the columns.
    control : str
        One of them.
    alpha : float
    higher_is_better : bool
    convention : {"standard", "paper"}
        As in :func:`bonferroni_dunn`.

    Returns
    -------
    CriticalDifference

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.9, 0.5, 0.4]] * 12)
    >>> found = critical_difference(scores, ["a", "b", "c"], control="a")
    >>> found.ranks, round(found.cd, 3), found.group
    ((1.0, 2.0, 3.0), 0.915, ('a',))
    """
    scores = _as_table(table)
    _check_names(names, control, scores.shape[1])
    ranks = average_ranks(scores, higher_is_better)
    order = np.argsort(ranks, kind="stable")
    cd = bonferroni_dunn(scores.shape[1], scores.shape[0], alpha, convention)
    return CriticalDifference(
        names=tuple(names[i] for i in order),
        ranks=tuple(float(ranks[i]) for i in order),
        cd=cd,
        control=control,
        alpha=alpha,
    )


def wilcoxon_holm(
    table: Floats, names: Sequence[str], control: str, higher_is_better: bool = True
) -> tuple[Comparison, ...]:
    """Compare every method with the control by Wilcoxon's test, Holm-adjusted.

    Parameters
    ----------
    table : ndarray of shape (n_datasets, n_methods)
        Scores.
    names : sequence of str
        The methods, in the order of the columns.
    control : str
        One of them.
    higher_is_better : bool
        Which way wins and losses count; the test itself is two-sided.

    Returns
    -------
    tuple of Comparison
        In the order of the columns, the control left out.

    Notes
    -----
    The p-values are exact up to 50 datasets without equal differences, and up to 13
    with; beyond, normal.
    """
    scores = _as_table(table)
    _check_names(names, control, scores.shape[1])
    own = list(names).index(control)
    rivals = [column for column in range(scores.shape[1]) if column != own]
    sign = 1.0 if higher_is_better else -1.0
    better = sign * (scores[:, [own]] - scores)
    tests = [_signed_rank(better[:, column]) for column in rivals]
    adjusted = _holm(np.array([p_value for _, p_value in tests]))
    return tuple(
        Comparison(
            name=names[column],
            statistic=statistic,
            p_value=p_value,
            adjusted=float(holm),
            wins=int((better[:, column] > 0).sum()),
            ties=int((better[:, column] == 0).sum()),
            losses=int((better[:, column] < 0).sum()),
        )
        for column, (statistic, p_value), holm in zip(
            rivals, tests, adjusted, strict=True
        )
    )


def _signed_rank(differences: Floats) -> tuple[float, float]:
    """Statistic and two-sided p of Wilcoxon's test; p = 1 if nothing differs."""
    from scipy.stats import wilcoxon

    unequal = differences[differences != 0]
    if unequal.size == 0:
        return 0.0, 1.0
    found = wilcoxon(unequal)
    return float(found.statistic), float(found.pvalue)


def _holm(p_values: Floats) -> Floats:
    """Holm's adjusted p: the i-th smallest of m times m - i + 1, never falling."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(p_values.shape[0], 0, -1)
    steps = np.minimum(1.0, np.maximum.accumulate(factors * p_values[order]))
    adjusted = np.empty_like(p_values)
    adjusted[order] = steps
    return adjusted


def _as_table(table: Floats) -> Floats:
    """Return a table of finite scores, or say what is wrong with it."""
    scores = np.asarray(table, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[0] < 1 or scores.shape[1] < 2:
        raise InputError(
            f"scores of shape {scores.shape}; give one row per dataset and one column "
            "for each of two or more methods"
        )
    if not np.isfinite(scores).all():
        raise InputError(
            "the table has gaps; give failed runs a score, or leave the dataset or the "
            "method out"
        )
    return scores


def _check_names(names: Sequence[str], control: str, n_methods: int) -> None:
    """Refuse names that do not fit the columns, or lack the control."""
    if len(names) != n_methods or len(set(names)) != n_methods:
        raise InputError(
            f"{len(set(names))} different names for {n_methods} columns; name each once"
        )
    if control not in names:
        raise InputError(f"no method {control!r}; choose one of {', '.join(names)}")


def _check_test(n_methods: int, n_datasets: int, alpha: float, convention: str) -> None:
    """Refuse sizes, levels and conventions that make no test."""
    if n_methods < 2 or n_datasets < 1:
        raise InputError(
            f"{n_methods} method(s) on {n_datasets} dataset(s); "
            "use two methods and one dataset at least"
        )
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha}; use a level between 0 and 1, such as 0.05")
    if convention not in CONVENTIONS:
        raise InputError(
            f"convention {convention!r}; choose one of {', '.join(CONVENTIONS)}"
        )

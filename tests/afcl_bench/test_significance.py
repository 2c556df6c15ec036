# SPDX-License-Identifier: Apache-2.0
"""Ranks, tests and critical differences: by hand, by SciPy, as printed."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare, wilcoxon

from afcl.exceptions import InputError
from afcl_bench.diagram import cd_diagram
from afcl_bench.significance import (
    CriticalDifference,
    average_ranks,
    bonferroni_dunn,
    critical_difference,
    friedman,
    wilcoxon_holm,
)

SCORES = np.array([[0.9, 0.5, 0.5], [0.7, 0.8, 0.6], [0.4, 0.4, 0.4]])


# ------------------------------------------------------------------------ ranks


def test_ranks_with_ties_by_hand():
    # 1, 2.5, 2.5; 2, 1, 3; 2, 2, 2.
    assert average_ranks(SCORES).tolist() == pytest.approx([5 / 3, 5.5 / 3, 7.5 / 3])


def test_ranks_the_other_way_by_hand():
    # 3, 1.5, 1.5; 2, 3, 1; 2, 2, 2.
    ranks = average_ranks(SCORES, higher_is_better=False)
    assert ranks.tolist() == pytest.approx([7 / 3, 6.5 / 3, 4.5 / 3])


@given(st.integers(1, 12), st.integers(2, 8), st.integers(0, 999))
def test_ranks_add_up_and_mirror(n, k, seed):
    table = np.random.default_rng(seed).integers(0, 4, (n, k)).astype(float)
    ranks = average_ranks(table)
    assert ranks.sum() == pytest.approx(k * (k + 1) / 2)
    np.testing.assert_allclose(average_ranks(table, False), k + 1 - ranks, atol=1e-12)


# --------------------------------------------------------------------- Friedman


def test_friedman_by_hand():
    # Ranks 1 2 3 / 1 2 3 / 1 3 2 / 2 1 3: sums 5, 8, 11.
    # 12/(4*3*4) * (25 + 64 + 121) - 3*4*4 = 52.5 - 48 = 4.5; p = exp(-4.5/2).
    # F = 3 * 4.5 / (4*2 - 4.5) = 27/7.
    table = np.array([[3, 2, 1], [3, 2, 1], [3, 1, 2], [2, 3, 1]], dtype=float)
    found = friedman(table)
    assert found.statistic == pytest.approx(4.5)
    assert found.p_value == pytest.approx(math.exp(-2.25))
    assert found.f_statistic == pytest.approx(27 / 7)
    # F with (2, 6) degrees of freedom: p = (1 + 2 F / 6)^(-3).
    assert found.f_p_value == pytest.approx((1 + 9 / 7) ** -3)


def test_friedman_is_that_of_scipy(seed):
    table = np.random.default_rng(seed).integers(0, 6, (13, 7)).astype(float)  # ties
    expected = friedmanchisquare(*table.T)
    found = friedman(table)
    assert (found.statistic, found.p_value) == pytest.approx(tuple(expected))


def test_friedman_at_its_ends():
    always = np.tile([3.0, 2.0, 1.0], (5, 1))  # chi-square n (k - 1) = 10
    found = friedman(always)
    assert found.statistic == pytest.approx(10.0)
    assert (found.f_statistic, found.f_p_value) == (math.inf, 0.0)
    assert dataclasses.astuple(friedman(np.ones((5, 3)))) == (0.0, 1.0, 0.0, 1.0)


# -------------------------------------------------------------- Bonferroni-Dunn


@pytest.mark.parametrize(
    ("alpha", "quantiles"),
    [
        (0.05, [1.960, 2.241, 2.394, 2.498, 2.576, 2.638, 2.690]),
        (0.10, [1.645, 1.960, 2.128, 2.241, 2.326, 2.394, 2.450]),
    ],
)
def test_the_quantiles_are_those_of_the_published_table(alpha, quantiles):
    # Demsar (2006), Table 5(b), 2 to 8 methods.
    for k, q in enumerate(quantiles, start=2):
        found = bonferroni_dunn(k, 6, alpha) / math.sqrt(k * (k + 1) / 36)
        assert found == pytest.approx(q, abs=6e-4)


def test_the_critical_difference_of_seven_methods_on_thirteen_datasets():
    # 2.63826 and 2.39398 times sqrt(7 * 8 / 78) = .84732.
    assert bonferroni_dunn(7, 13) == pytest.approx(2.2354, abs=5e-5)
    assert bonferroni_dunn(7, 13, 0.1) == pytest.approx(2.0285, abs=5e-5)


@pytest.mark.parametrize(("alpha", "printed"), [(0.05, 1.9357), (0.1, 1.7567)])
def test_the_paper_prints_another_one(alpha, printed):
    # q of seven methods, sqrt(6 * 7 / 78) = .7337994 of six:
    # 2.638 * .7337994 = 1.93576, 2.394 * .7337994 = 1.75672, cut after four digits.
    value = bonferroni_dunn(7, 13, alpha, convention="paper")
    assert math.floor(value * 1e4) / 1e4 == printed


# -------------------------------------------------------------------- Wilcoxon


def table_of(*differences):
    """Scores of a control, 1 everywhere, and of rivals so much below it."""
    below = np.array(differences, dtype=float).T
    return np.hstack([np.ones((below.shape[0], 1)), 1 - below])


def test_wilcoxon_holm_by_hand():
    # Five datasets, differences of different sizes (in 32nds, exact).
    # b: all five for the control: W = 0, p = 2/32. c: the smallest against: W = 1,
    # p = 2 * 2/32. d: ranks 4 and 5 against: W = 6 (1 + 2 + 3), p = 2 * 13/32 since
    # of the 32 sign patterns 1 1 1 2 2 3 3 have sums 0 to 6.
    b = np.array([1, 2, 3, 4, 5]) / 32
    c = np.array([-1, 2, 3, 4, 5]) / 32
    d = np.array([1, 2, 3, -4, -5]) / 32
    found = wilcoxon_holm(table_of(c, d, b), ["a", "c", "d", "b"], control="a")
    assert [one.name for one in found] == ["c", "d", "b"]
    assert [one.statistic for one in found] == [1.0, 6.0, 0.0]
    assert [one.p_value for one in found] == pytest.approx([4 / 32, 26 / 32, 2 / 32])
    # Holm: b 3 * 2/32, c max(6/32, 2 * 4/32), d max(8/32, 26/32).
    assert [one.adjusted for one in found] == pytest.approx([8 / 32, 26 / 32, 6 / 32])
    assert [(one.wins, one.ties, one.losses) for one in found] == [
        (4, 0, 1),
        (3, 0, 2),
        (5, 0, 0),
    ]


def test_adjusted_p_values_never_fall_and_stop_at_one():
    # p of one unanimous rival 2/32, of two others 26/32: 6/32; min(1, 52/32) = 1; 1.
    b, d = np.array([1, 2, 3, 4, 5]) / 32, np.array([1, 2, 3, -4, -5]) / 32
    found = wilcoxon_holm(table_of(b, d, d), list("abcd"), control="a")
    assert [one.adjusted for one in found] == pytest.approx([6 / 32, 1.0, 1.0])


def test_datasets_with_equal_scores_are_left_out():
    # Five differences as above and three ties: W = 0, p = 2/32.
    gaps = np.array([0, 1, 2, 0, 3, 4, 5, 0]) / 32
    (found,) = wilcoxon_holm(table_of(gaps), ["a", "b"], control="a")
    assert (found.statistic, found.p_value) == pytest.approx((0.0, 2 / 32))
    assert (found.wins, found.ties, found.losses) == (5, 3, 0)


def test_the_same_scores_everywhere():
    (found,) = wilcoxon_holm(np.ones((4, 2)), ["a", "b"], control="b")
    assert dataclasses.astuple(found) == ("a", 0.0, 1.0, 1.0, 0, 4, 0)


def test_wilcoxon_the_other_way(seed):
    table = np.random.default_rng(seed).normal(size=(12, 3))
    up = wilcoxon_holm(table, list("abc"), control="c")
    down = wilcoxon_holm(table, list("abc"), control="c", higher_is_better=False)
    for one, other, rival in zip(up, down, table.T, strict=False):
        assert one.p_value == other.p_value == wilcoxon(table[:, 2], rival).pvalue
        assert (one.wins, one.losses) == (other.losses, other.wins)


# ---------------------------------------------------------- critical difference


def test_critical_difference_by_hand():
    # Ranks on eight datasets: c first on six and second on two (1.25), a the reverse
    # (1.75), b third (3). q = 2.2414: 2.2414 * sqrt(3 * 4 / 48) = 1.1207.
    scores = np.array([[2.0, 1.0, 3.0]] * 6 + [[3.0, 1.0, 2.0]] * 2)
    found = critical_difference(scores, ["a", "b", "c"], control="c")
    assert found.names == ("c", "a", "b")
    assert found.ranks == (1.25, 1.75, 3.0)
    assert found.cd == pytest.approx(1.1207, abs=5e-5)
    assert (found.control, found.control_rank, found.alpha) == ("c", 1.25, 0.05)
    assert found.group == ("c", "a")
    turned = critical_difference(
        scores, ["a", "b", "c"], "c", 0.1, higher_is_better=False, convention="paper"
    )
    assert turned.names == ("b", "a", "c")
    # q = 1.960 with two under the root: 1.960 * sqrt(2 * 3 / 48).
    assert turned.cd == pytest.approx(1.960 * math.sqrt(1 / 8), rel=1e-12)


def test_a_difference_of_exactly_cd_is_found():
    data = CriticalDifference(("a", "b", "c"), (1.0, 2.0, 2.5), 1.0, "a", 0.05)
    assert data.group == ("a",)


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: average_ranks(np.ones(3)), "one row per dataset"),
        (lambda: average_ranks(np.ones((3, 1))), "two or more methods"),
        (lambda: average_ranks(np.array([[1.0, np.nan]])), "gaps"),
        (lambda: friedman(np.ones((4, 2))), "three methods"),
        (lambda: friedman(np.ones((1, 3))), "two datasets"),
        (lambda: bonferroni_dunn(1, 5), "two methods"),
        (lambda: bonferroni_dunn(3, 0), "one dataset"),
        (lambda: bonferroni_dunn(3, 5, 1.0), "between 0 and 1"),
        (lambda: bonferroni_dunn(3, 5, convention="own"), "standard, paper"),
        (lambda: wilcoxon_holm(SCORES, ["a", "b"], "a"), "name each once"),
        (lambda: wilcoxon_holm(SCORES, ["a", "b", "b"], "a"), "name each once"),
        (lambda: critical_difference(SCORES, list("abc"), "d"), "choose one of a, b"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words):
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- diagram

DIAGRAM = CriticalDifference(
    ("a", "b", "c", "d", "e"), (1.5, 2.0, 3.0, 4.0, 4.5), 1.25, "b", 0.05
)


class Canvas:
    """Axes that remember what was drawn."""

    def __init__(self):
        self.lines, self.texts = [], {}

    def plot(self, x, y, **_):
        self.lines.append((list(x), list(y)))

    def text(self, x, y, s, **style):
        self.texts[s.strip()] = style

    def set_xlim(self, *_):
        pass

    def set_ylim(self, *_):
        pass

    def set_axis_off(self):
        pass


def test_a_diagram_shows_every_method_and_the_reach_of_the_control():
    canvas = Canvas()
    assert cd_diagram(DIAGRAM, canvas) is canvas
    assert {"a 1.50", "b 2.00", "c 3.00", "4.00 d", "4.50 e"} <= set(canvas.texts)
    assert "CD = 1.25 (α = 0.05)" in canvas.texts
    bold = [s for s, style in canvas.texts.items() if style.get("fontweight") == "bold"]
    assert bold == ["b 2.00"]
    reached = [x for x, y in canvas.lines if len(set(y)) == 1 and 0 < y[0] < 1]
    assert reached == [[1.0, 3.25]]  # 2 - 1.25 ends at the best possible rank


def test_a_diagram_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    ax = cd_diagram(DIAGRAM)
    ax.figure.savefig(tmp_path / "cd.png")
    assert (tmp_path / "cd.png").stat().st_size > 1000

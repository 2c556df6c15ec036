# SPDX-License-Identifier: Apache-2.0
"""Tables in three forms, exactly, and numbers as people read them."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from afcl_bench.tables import (
    NONE,
    Table,
    mean_std,
    number,
    share,
    standing_out,
)

TABLE = Table(
    "small",
    "Two rows, k\\*.",
    ("data", "SC² & more", "k' = k*"),
    (
        ("a_b", "**0.500 ± 0.10**", "50 %"),
        ("c|d, #1", NONE, "2.0 · **∞** ≥ 1"),
    ),
)


def test_markdown_exactly():
    assert TABLE.markdown() == (
        "Two rows, k\\*.\n"
        "\n"
        "| data | SC² & more | k' = k* |\n"
        "| --- | --- | --- |\n"
        "| a_b | **0.500 ± 0.10** | 50 % |\n"
        "| c\\|d, #1 | – | 2.0 · **∞** ≥ 1 |\n"
    )


def test_csv_exactly():
    assert TABLE.csv() == (
        'data,SC² & more,k\' = k*\na_b,0.500 ± 0.10,50 %\n"c|d, #1",–,2.0 · ∞ ≥ 1\n'
    )
    assert list(csv.reader(TABLE.csv().splitlines()))[2][0] == "c|d, #1"


def test_latex_exactly():
    assert TABLE.latex() == (
        "% Two rows, k\\*.\n"
        "\\begin{tabular}{lrr}\n"
        "\\toprule\n"
        "data & SC$^2$ \\& more & k' = k* \\\\\n"
        "\\midrule\n"
        "a\\_b & \\textbf{0.500 $\\pm$ 0.10} & 50 \\% \\\\\n"
        "c|d, \\#1 & -- & 2.0 $\\cdot$ \\textbf{$\\infty$} $\\geq$ 1 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
    )


def test_latex_has_no_sign_that_it_does_not_know():
    signs = Table("signs", "Signs.", ("α", "e"), (("1 → 2", "**3 ≥ 4** · **5**"),))
    body = signs.latex().split("\n", 1)[1]
    assert body.isascii()
    assert r"\textbf{3 $\geq$ 4} $\cdot$ \textbf{5} \\" in body


def test_a_table_without_rows_is_a_table():
    empty = Table("none", "Nothing.", ("a", "b"), ())
    assert empty.markdown() == "Nothing.\n\n| a | b |\n| --- | --- |\n"
    assert empty.csv() == "a,b\n"
    assert "\\midrule\n\\bottomrule" in empty.latex()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.123"),
        (-0.5, "-0.500"),
        (0.0, "0.000"),
        (99.99, "99.990"),
        (100.0, "100.0"),
        (-123.456, "-123.5"),
        (999.94, "999.9"),
        (1000.0, "1,000"),
        (1234567.8, "1,234,568"),
        (-4567.0, "-4,567"),
        (float("inf"), "∞"),
        (float("nan"), NONE),
        (None, NONE),
        (3, "3.000"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_numbers_to_so_many_places():
    assert number(0.126, 2) == "0.13"
    assert number(3.0, 0) == "3"
    assert number(3.14159, 1) == "3.1"
    assert number(314.159, 3) == "314.2"


def test_mean_and_standard_deviation():
    assert mean_std(np.array([1.0, 3.0])) == "2.000 ± 1.00"
    assert mean_std(np.array([1.0, 3.0]), 1) == "2.0 ± 1.00"
    assert mean_std(np.array([5.0])) == "5.000 ± 0.00"
    assert mean_std(np.array([200.0, 400.0])) == "300.0 ± 100.0"


def test_what_is_missing_from_a_mean_is_said():
    assert mean_std(np.array([1.0, np.nan, 3.0])) == "2.000 ± 1.00 (2 runs)"
    assert mean_std(np.array([np.nan, np.nan])) == NONE
    assert mean_std(np.array([])) == NONE


def test_shares():
    assert share(0.5) == "50 %"
    assert share(1.0) == "100 %"
    assert share(0.004) == "0 %"
    assert share(float("nan")) == NONE


def test_the_best_stands_out():
    values = np.array([0.1, 0.3, np.nan, 0.3])
    texts = ["a", "b", "c", "d"]
    assert standing_out(texts, values) == ["a", "**b**", "c", "**d**"]
    assert standing_out(texts, values, most=False) == ["**a**", "b", "c", "d"]
    assert standing_out(["x", "y"], np.array([np.nan, np.nan])) == ["x", "y"]
    assert standing_out([], np.array([])) == []

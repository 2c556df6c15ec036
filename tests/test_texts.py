# SPDX-License-Identifier: Apache-2.0
"""Texts of strangers: a plain line, a cell that is no formula."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afcl.texts import LONGEST, csv_cell, plain

#: Texts with much of what is dangerous.
hostile = st.text(
    st.sampled_from("\x1b[]31;mK\x9b\x07\x90\\ \n\r\tab…é\u202e\x00😀\ud800")
)


@given(st.text() | hostile, st.integers(1, 40))
def test_a_plain_line_is_printable_short_and_stays_as_it_is(text, most):
    line = plain(text, most)
    assert line.isprintable()
    assert len(line) <= most
    assert plain(line, most) == line


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=LONGEST))
def test_what_is_plain_already_is_not_touched(text):
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07shown", "shown"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1bcreset", "reset"),
        ("\x1bPq#0\x1b\\drawn", "drawn"),
        ("two\nlines", "two lines"),
        ("over\rwritten", "over written"),
        ("right\u202eleft", "right left"),
        ("half \ud800", "half"),
        ("\x1b", ""),
    ],
)
def test_what_a_terminal_obeys_is_gone(text, line):
    assert plain(text) == line


def test_a_huge_text_is_looked_at_from_the_front():
    assert plain("a" * 10**7) == "a" * (LONGEST - 1) + "…"
    assert plain("\x1b[0m" * 10**6 + "late") == "…"


@given(st.text() | st.text(st.sampled_from("=+-@\t\r\n;,＝ab1.'\"")))
def test_no_cell_begins_a_formula_whatever_separates_cells(text):
    cell = str(csv_cell(text))
    assert cell.replace("'", "") == text.replace("'", "")
    if cell == text and text[:1] in tuple("+-"):
        float(text)  # a number, or it raises
        return
    for part in re.split("[;,\t\r\n]", cell):
        assert not part.startswith(tuple("=+-@＝＋－＠"))


@pytest.mark.parametrize("text", ["=cmd|'/C calc'!A0", "+1+1", "-2+3", "@SUM(A1)"])
@pytest.mark.parametrize("before", ["", "\t", "\r", "x;", "x,", "x\n"])
def test_formulas_get_an_apostrophe(text, before):
    cell = str(csv_cell(before + text))
    assert f"'{text}" in cell
    assert cell[0] not in "=+-@\t\r"


@pytest.mark.parametrize("text", ["-1", "+1.5", "-.5e-3", "1e9", "-inf", "", "a=b"])
def test_numbers_and_harmless_texts_stay(text):
    assert csv_cell(text) == text


@given(st.none() | st.integers() | st.floats(allow_nan=False))
def test_what_is_no_text_stays(value):
    assert csv_cell(value) == value
    if isinstance(value, float) and abs(value) < 1e300:
        assert csv_cell(repr(value)) == repr(value)

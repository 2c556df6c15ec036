# SPDX-License-Identifier: Apache-2.0
"""The answers of a federation that goes on, as the page shows them."""

from __future__ import annotations

import re

import pytest
from tests.report.folders import history_of_answers, result_of, write_run

from afcl.exceptions import InputError
from afcl.report import write_report
from afcl.report.answers import answers_section
from afcl.report.run_folder import read_run_folder


def read(folder, history):
    write_run(folder, result=result_of(k=4, history=history))
    return read_run_folder(folder)


def test_one_answer_needs_no_history(tmp_path):
    assert answers_section(read(tmp_path, history_of_answers(1))) is None
    assert answers_section(read(tmp_path, [])) is None


def test_a_bar_for_every_cluster_and_a_ribbon_for_every_name_that_stays(tmp_path):
    section = str(answers_section(read(tmp_path, history_of_answers(3))))
    # Answer 2 has one cluster more than the others, which have four.
    assert len(re.findall(r"<rect[^>]*mark bar", section)) == 4 + 5 + 4
    assert section.count("ribbon") == 4 + 4
    assert "c4 in answer 2: 20% of the rows" in section
    assert "c4 is gone" in section


def test_a_withdrawn_answer_is_empty(tmp_path):
    history = history_of_answers(3)
    history[1] |= {"withdrawn": True, "sizes": [], "changes": []}
    section = str(answers_section(read(tmp_path, history)))
    assert "2 (withdrawn)" in section
    assert section.count("ribbon") == 0


def test_many_answers_are_drawn_in_part(tmp_path):
    section = str(answers_section(read(tmp_path, history_of_answers(40))))
    assert "The last 12 of 40 answers are drawn" in section
    assert section.count("<tr>") == 41


def test_nothing_new_is_said_too(tmp_path):
    history = history_of_answers(2)
    history[1]["changes"] = []
    section = str(answers_section(read(tmp_path, history)))
    assert "Answer 2: all clusters are as they were." in section


def test_a_damaged_history_is_no_page(tmp_path):
    history = history_of_answers(2)
    history[1]["names"] = ["<script>"]
    with pytest.raises(InputError, match="does not hold a result"):
        read(tmp_path, history)


def test_the_page_has_it(tmp_path):
    write_run(tmp_path, result=result_of(k=4, history=history_of_answers(3)))
    assert "Answers so far" in write_report(tmp_path).read_text(encoding="utf-8")

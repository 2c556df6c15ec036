# SPDX-License-Identifier: Apache-2.0
"""Every error and warning leads to the part of the page that explains it."""

import inspect
import pickle
import re
import traceback
from pathlib import Path

import pytest

from afcl import exceptions
from afcl.cli import main
from afcl.data.cells import NotNumbers, OddCell
from afcl.exceptions import (
    AfclError,
    AfclWarning,
    InputError,
    JournalError,
    TrustWarning,
    reference,
)

PAGE = Path(__file__).parents[1] / exceptions.PAGE
KINDS = [
    kind
    for _, kind in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(kind, AfclError | AfclWarning)
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_is_explained(kind):
    parts = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    explained = {part.splitlines()[0]: part for part in parts}
    text = explained[kind.__name__]
    assert reference(kind) == f"docs/errors.md#{kind.__name__.lower()}"
    if kind not in (AfclError, AfclWarning):
        assert "**What.**" in text
        assert "**What to do.**" in text


def test_the_page_explains_nothing_else():
    headings = re.findall(r"^### (\w+)$", PAGE.read_text(), flags=re.MULTILINE)
    assert sorted(headings) == sorted(kind.__name__ for kind in KINDS)


def test_a_warning_ends_with_the_reference():
    text = str(TrustWarning("no clusters found"))
    assert text == "no clusters found (see docs/errors.md#trustwarning)"


def test_an_error_has_it_as_a_note():
    error = InputError("no such file")
    assert str(error) == "no such file"
    shown = traceback.format_exception_only(error)
    assert shown[-1] == "See docs/errors.md#inputerror\n"
    again = pickle.loads(pickle.dumps(error))
    assert again.__notes__ == error.__notes__


def test_a_kind_of_an_error_leads_to_the_error():
    odd = NotNumbers([OddCell("age", Path("a.csv"), 1, "x")])
    assert odd.__notes__ == ["See docs/errors.md#inputerror"]


def test_the_command_line_says_it_in_the_same_line(monkeypatch, capsys):
    def render(folder, own):
        raise JournalError("the journal belongs to another run")

    monkeypatch.setattr("afcl.report.render", render)
    with pytest.raises(SystemExit) as ended:
        main(["report", "somewhere"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "afcl: the journal belongs to another run (see docs/errors.md#journalerror)\n"
    )

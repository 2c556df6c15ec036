# SPDX-License-Identifier: Apache-2.0
"""Texts that somebody else wrote, made safe to keep, to print and to open.

Reasons come from the other side of a wire, names of columns out of files. A terminal
obeys escape sequences and a spreadsheet formulas; neither must come from a stranger.
"""

from __future__ import annotations

import re

#: Longest line that is kept of a stranger's text.
LONGEST = 300
#: Of a longer text so many times as much is looked at, as escapes count for nothing.
_LOOK = 4
#: What terminals obey: control sequences, strings for the terminal, single escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
#: Where a spreadsheet would take what follows for a formula.
_FORMULA = re.compile(r"(?:\A|(?<=[;,\t\r\n]))(?=[=+\-@\t\r\n＝＋－＠])")
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan)"
)


def plain(text: str, most: int = LONGEST) -> str:
    r"""Return a stranger's text as one printable line of at most so many characters.

    Examples
    --------
    >>> plain("red: \x1b[31mno\x1b[0m\r\nsuch file")
    'red: no  such file'
    >>> plain("a long story", 6)
    'a lon…'
    """
    taken = text[: _LOOK * most]
    line = "".join(c if c.isprintable() else " " for c in _ESCAPES.sub("", taken))
    line = line.strip()
    if len(line) <= most and len(taken) == len(text):
        return line
    return line[: most - 1].rstrip() + "…"


def csv_cell(value: object) -> object:
    """Return a value as a cell of a CSV file that no spreadsheet takes for a formula.

    A text that begins like one, or goes on like one behind a separator, gets an
    apostrophe there. Numbers stay what they are.

    Examples
    --------
    >>> csv_cell("=HYPERLINK(A1)"), csv_cell("age"), csv_cell(-1.5), csv_cell("-1.5")
    ("'=HYPERLINK(A1)", 'age', -1.5, '-1.5')
    """
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    return _FORMULA.sub("'", value)

# SPDX-License-Identifier: Apache-2.0
"""What is found suspicious about data, in words."""

from __future__ import annotations

from dataclasses import dataclass

# Kinds of findings.
IDS = "ids"
SENTINEL = "sentinel"
ZERO = "zero"
EXTREME = "extreme"
TWO_VALUES = "two values"
FEW_VALUES = "few values"
UNIT = "unit"
REPEATED = "repeated rows"
SAME_ROWS = "same rows"
MOSTLY_EMPTY = "mostly empty"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something about the data that is better looked at before the answer.

    Attributes
    ----------
    site, column : str or None
        Where it is; None: at several sites, or in no single column.
    kind : str
        Such as "ids" or "sentinel".
    text : str
        What it is and what to do, for people; one line.
    """

    site: str | None
    column: str | None
    kind: str
    text: str

    @property
    def is_serious(self) -> bool:
        """Whether it may spoil the answer; codes of few values seldom do."""
        return self.kind != FEW_VALUES


def as_typed(value: float) -> str:
    """Return a number as one would type it.

    Examples
    --------
    >>> as_typed(-9999999.0), as_typed(0.1234567)
    ('-9999999', '0.123457')
    """
    number = float(value)
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.6g}"

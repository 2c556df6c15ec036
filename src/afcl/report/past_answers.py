# SPDX-License-Identifier: Apache-2.0
"""The answers before this one, as ``result.json`` holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AnswerSummary:
    """One answer of a federation that goes on.

    Attributes
    ----------
    number, sites
        Its number, and how many sites took part.
    names, sizes
        Of its clusters; no sizes if it is withdrawn.
    changes
        What is not as it was in the answer before.
    withdrawn
        Whether somebody who took part was forgotten.
    """

    number: int
    sites: int
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    changes: tuple[str, ...]
    withdrawn: bool


def answers_of(history: Sequence[Any]) -> tuple[AnswerSummary, ...]:
    """Read them; whatever is no history raises."""
    return tuple(
        AnswerSummary(
            int(answer["number"]),
            len(answer["clients"]),
            tuple(f"c{int(str(name)[1:])}" for name in answer["names"]),
            tuple(int(size) for size in answer["sizes"]),
            tuple(str(change) for change in answer["changes"]),
            bool(answer["withdrawn"]),
        )
        for answer in history
    )

# SPDX-License-Identifier: Apache-2.0
"""What a privacy level does at a client of the default preset.

A level decides once, in :meth:`Protection.view`, what stands for the rows; everything a
client says afterwards is computed from that and so cannot say more.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from afcl.core import client
from afcl.core.messages import Cells, Hello, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import Keep, Requirements, keep_nothing
from afcl.exceptions import InputError
from afcl.privacy.levels import Level, parse_level
from afcl.registry import LEVELS


class Protection:
    """The level `summary`: cells of at least `min_cell` rows. Others depart from it.

    Parameters
    ----------
    level
        As it was read, with what stands in its brackets.
    params
        The run's.

    Attributes
    ----------
    goes_with_secure
        Whether its cells can protect the first message under `secure`.
    once
        Whether all that a client ever says follows from what it has kept.
    """

    goes_with_secure = False
    once = False

    def __init__(self, level: Level, params: DefaultParams) -> None:
        self.level = level
        self.params = params

    @classmethod
    def read(cls, family: str, inside: str | None, text: str) -> Level:
        """Return the level with this in its brackets (None: it has none).

        `text` is what the user wrote, for the one line that says how to write it.
        """
        if inside is not None:
            raise InputError(f"privacy {text!r}: {family} takes nothing in brackets")
        return Level(family)

    def requirements(self) -> Requirements:
        """Return what the level asks of the agreement on scales."""
        return Requirements()

    def view(self, X: Any, rng: np.random.Generator, keep: Keep = keep_nothing) -> Any:
        """Return what a client works on instead of its rows, formed once.

        X are rows that may be read part by part only, as they are; `rng` draws from
        the client's own secret.
        """
        return X

    def first_cells(
        self, view: Any, rng: np.random.Generator, keep: Keep = keep_nothing
    ) -> Cells:
        """Return the cells of the first message; of rows the same in every run."""

        def make() -> Cells:
            return client.condense(view, self.params, rng)

        if self.once:
            return make()
        number = self.params.cells_for(client.rows_in(view))
        return keep(f"{number} cells of {self.params.min_cell} rows", make)

    def hello(
        self, view: Any, rng: np.random.Generator, keep: Keep = keep_nothing
    ) -> Hello:
        """Return the first message."""
        cells = self.first_cells(view, rng, keep)
        return Hello(client.rows_in(view), cells)

    def step(
        self, payload: Any, view: Any, memory: Any, keep: Keep = keep_nothing
    ) -> tuple[Update, Any]:
        """Return the answer to a broadcast, and what the client remembers."""
        return Update(client.reply(view, payload, self.params)), memory


class PlainSummary(Protection):
    """The level `summary` itself; what departs from it says what it goes with."""

    goes_with_secure = True


@lru_cache(maxsize=64)
def protection(params: DefaultParams) -> Protection:
    """Return what protects a client of a run with these parameters.

    Made once a run: every message asks for it.
    """
    level = parse_level(params.privacy)
    kind: type[Protection] = LEVELS[level.listed_as].protection_class()
    return kind(level, params)

# SPDX-License-Identifier: Apache-2.0
"""What a privacy level does at a client of the default preset.

A level decides once, in :meth:`Protection.view`, what stands for the rows; everything a
client says afterwards is computed from that and so cannot say more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from afcl.core import client
from afcl.core.messages import Cells, Hello, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import Requirements
from afcl.exceptions import InputError
from afcl.privacy.levels import Level


class Protection:
    """The level `summary`: cells of at least `min_cell` rows. Others depart from it.

    Attributes
    ----------
    goes_with_secure
        Whether its cells can protect the first message under `secure`.
    """

    goes_with_secure = False

    def read(self, family: str, inside: str | None, text: str) -> Level:
        """Return the level with this in its brackets (None: it has none).

        `text` is what the user wrote, for the one line that says how to write it.
        """
        if inside is not None:
            raise InputError(f"privacy {text!r}: {family} takes nothing in brackets")
        return Level(family)

    def requirements(self, level: Level, params: DefaultParams) -> Requirements:
        """Return what the level asks of the agreement on scales."""
        return Requirements()

    def view(
        self, X: Any, level: Level, params: DefaultParams, rng: np.random.Generator
    ) -> Any:
        """Return what a client works on instead of its rows, formed once.

        X are rows that may be read part by part only, as they are; `rng` draws from
        the client's own secret.
        """
        return X

    def first_cells(
        self, view: Any, level: Level, params: DefaultParams, rng: np.random.Generator
    ) -> Cells:
        """Return the cells of the first message."""
        return client.condense(view, params, rng)

    def hello(
        self, view: Any, level: Level, params: DefaultParams, rng: np.random.Generator
    ) -> Hello:
        """Return the first message."""
        cells = self.first_cells(view, level, params, rng)
        return Hello(client.rows_in(view), cells)

    def step(
        self, payload: Any, view: Any, memory: Any, level: Level, params: DefaultParams
    ) -> tuple[Update, Any]:
        """Return the answer to a broadcast, and what the client remembers."""
        return Update(client.reply(view, payload, params)), memory

    def spends(self, level: Level, params: DefaultParams, contact: int) -> float:
        """Return what a message costs a row's privacy (mu of Gaussian DP)."""
        return 0.0

# SPDX-License-Identifier: Apache-2.0
"""The levels `dp(epsilon)` and `dp-rounds(epsilon)`: noise hides every single row.

The first releases one noisy synopsis that stands for the rows ever after, the second
draws new noise for every message and divides epsilon among them; see :mod:`.synopsis`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core import client
from afcl.core.checks import check_plan
from afcl.core.messages import Cells, Hello, Update
from afcl.core.protocol import Requirements
from afcl.core.rows import as_rows
from afcl.exceptions import InputError, RejectedMessage
from afcl.privacy import synopsis
from afcl.privacy.accountant import mu_of
from afcl.privacy.levels import DELTA, Level
from afcl.privacy.protection import Protection

#: Cells of a first message at `dp-rounds` at most: more would drown in its noise.
MOST_FIRST_CELLS = 40


class _Private(Protection):
    """What both have in common: how they are written, and that bounds are public."""

    @classmethod
    def read(cls, family: str, inside: str | None, text: str) -> Level:
        """Return the level with this epsilon and delta."""
        given = [] if inside is None else inside.split(",")
        named = [
            part.removeprefix(name)
            for part, name in zip(given, ("epsilon=", "delta="), strict=False)
        ]
        try:
            numbers = [float(part) for part in named]
        except ValueError:
            numbers = []
        if not 1 <= len(given) <= 2 or len(numbers) != len(given):
            raise InputError(
                f"privacy {text!r}: say how much a row may cost, as in dp(8) or "
                "dp(8, 1e-6)"
            )
        epsilon, delta = numbers[0], numbers[1] if len(numbers) > 1 else DELTA
        if not (math.isfinite(epsilon) and epsilon > 0 and 0 < delta < 1):
            raise InputError(
                f"privacy {text!r}: epsilon must be positive and delta between 0 and 1"
            )
        return Level(family, epsilon=epsilon, delta=delta)

    def requirements(self) -> Requirements:
        """Bounds must be public: extremes would give rows away."""
        return Requirements(bounds=True, box=True)


class ReleasedOnce(_Private):
    """One synopsis, released once; whatever is computed from it costs nothing more."""

    goes_with_secure = True

    def view(self, X: Any, rng: np.random.Generator) -> Cells:
        """Return the synopsis."""
        rows = as_rows(X).table()
        return synopsis.release(
            rows, self.level.epsilon, self.level.delta, self.params.min_cell, rng
        )

    def first_cells(self, view: Any, rng: np.random.Generator) -> Cells:
        """Return the synopsis as it is."""
        cells: Cells = view
        return cells

    def spends(self, contact: int) -> float:
        """Return all of it for the first message."""
        return mu_of(self.level.epsilon, self.level.delta) if contact == 0 else 0.0


class Noisy:
    """Rows of a client at `dp-rounds`: every message draws its own noise.

    Attributes
    ----------
    rows
        The rows.
    key
        What the noise of every message is drawn from, 32 secret bytes.
    """

    def __init__(self, rows: Floats, rng: np.random.Generator) -> None:
        self.rows = rows
        self.key = rng.bytes(32)

    def draws(self, contact: str) -> np.random.Generator:
        """Return the noise of one message; the same message draws the same."""
        words = int.from_bytes(self.key, "little")
        name = int.from_bytes(contact.encode(), "little")
        return np.random.default_rng(np.random.SeedSequence([words, name]))


class PerMessage(_Private):
    """Cells of the rows themselves, under new noise in every message."""

    goes_with_secure = False  # sums would be of the rows, without any noise

    def view(self, X: Any, rng: np.random.Generator) -> Noisy:
        """Return the rows, with the key of their noise."""
        return Noisy(as_rows(X).table(), rng)

    def hello(self, view: Noisy, rng: np.random.Generator) -> Hello:
        """Return noisy cells around public centres."""
        n, d = view.rows.shape
        draws = view.draws("hello")
        k = min(MOST_FIRST_CELLS, self.params.cells_for(n))
        centers = draws.random((k, d))
        share = self.spends(0)
        return Hello(
            n,
            synopsis.noisy_cells(
                view.rows, centers, share, self.params.min_cell, draws
            ),
        )

    def step(self, payload: Any, view: Noisy, memory: Any) -> tuple[Update, Any]:
        """Answer from noisy cells around the seeds, as long as epsilon lasts."""
        contact = 1 if memory is None else int(memory) + 1
        if contact >= self.params.contacts:
            raise RejectedMessage("this client has spent its epsilon")
        check_plan(payload, view.rows.shape[1])
        cells = synopsis.noisy_cells(
            view.rows,
            payload.seeds,
            self.spends(contact),
            self.params.min_cell,
            view.draws(f"step {contact}"),
        )
        said = client.reply(cells, payload, self.params)
        # The rows themselves could be counted between centres only under noise of its
        # own, and the noisy cells are too coarse for it: zeros confirm no k.
        levels = tuple(
            replace(level, valleys=np.zeros_like(level.valleys))
            for level in said.levels
        )
        return Update(replace(said, levels=levels)), contact

    def spends(self, contact: int) -> float:
        """Return every message's equal share."""
        return mu_of(self.level.epsilon, self.level.delta) / math.sqrt(
            self.params.contacts
        )

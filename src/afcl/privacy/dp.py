# SPDX-License-Identifier: Apache-2.0
"""The levels `dp(epsilon)` and `dp-rounds(epsilon)`: noise hides every single row.

The first releases one noisy synopsis that stands for the rows ever after, the second
draws new noise for every message and divides epsilon among them; see :mod:`.synopsis`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core import client
from afcl.core.checks import check_plan
from afcl.core.messages import Cells, Hello, Update
from afcl.core.protocol import Keep, Requirements, keep_nothing, secret_rng
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

    once = True

    @classmethod
    def read(cls, family: str, inside: str | None, text: str) -> Level:
        """Return the level with this epsilon and delta."""
        parts = [] if inside is None else inside.split(",")
        named = [
            part.removeprefix(name)
            for part, name in zip(parts, ("epsilon=", "delta="), strict=False)
        ]
        try:
            numbers = [float(part) for part in named]
        except ValueError:
            numbers = []
        if not 1 <= len(parts) <= 2 or len(numbers) != len(parts):
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

    def view(
        self, X: Any, rng: np.random.Generator, keep: Keep = keep_nothing
    ) -> Cells:
        """Return the synopsis, which is paid for when it is made."""
        level, smallest = self.level, self.params.min_cell

        def make() -> Cells:
            rows = as_rows(X).table()
            return synopsis.release(rows, level.epsilon, level.delta, smallest, rng)

        # Paid once: what is computed from a released synopsis is free
        # (post-processing).
        cost = mu_of(level.epsilon, level.delta)
        return keep(f"synopsis {level} of cells of {smallest} rows", make, cost)

    def first_cells(
        self, view: Any, rng: np.random.Generator, keep: Keep = keep_nothing
    ) -> Cells:
        """Return the synopsis as it is."""
        cells: Cells = view
        return cells


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

    def draws(self, what: str) -> np.random.Generator:
        """Return the noise of one message; no other message draws the same."""
        return secret_rng(self.key, what)


class PerMessage(_Private):
    """Cells of the rows themselves, under new noise in every message."""

    goes_with_secure = False  # sums would be of the rows, without any noise

    def view(
        self, X: Any, rng: np.random.Generator, keep: Keep = keep_nothing
    ) -> Noisy:
        """Return the rows, with the key of their noise."""
        return Noisy(as_rows(X).table(), rng)

    def hello(
        self, view: Noisy, rng: np.random.Generator, keep: Keep = keep_nothing
    ) -> Hello:
        """Return noisy cells around public centres."""
        n, d = view.rows.shape
        k = min(MOST_FIRST_CELLS, self.params.cells_for(n))

        def make() -> Cells:
            draws = view.draws("hello")
            # Public centres: k-means++ on the rows would have to be paid for.
            return self._cells(view.rows, draws.random((k, d)), draws)

        return Hello(n, keep(self._named(f"{k} first cells"), make, self._share()))

    def step(
        self, payload: Any, view: Noisy, memory: Any, keep: Keep = keep_nothing
    ) -> tuple[Update, Any]:
        """Answer from noisy cells around the seeds, as long as epsilon lasts."""
        contact = 1 if memory is None else int(memory) + 1
        if contact >= self.params.contacts:
            raise RejectedMessage("this client has spent its epsilon")
        check_plan(payload, view.rows.shape[1], self.params)
        seeds = payload.seeds
        # By the seeds: who is asked the same again says the same, and pays nothing.
        named = self._named(f"{seeds.shape} {sha256(seeds.tobytes()).hexdigest()}")
        cells = keep(
            named,
            lambda: self._cells(view.rows, seeds, view.draws(named)),
            self._share(),
        )
        reply = client.reply(cells, payload, self.params)
        # The rows themselves could be counted between centres only under noise of its
        # own, and the noisy cells are too coarse for it: zeros confirm no k.
        levels = tuple(
            replace(level, valleys=np.zeros_like(level.valleys))
            for level in reply.levels
        )
        return Update(replace(reply, levels=levels)), contact

    def _cells(
        self, rows: Floats, centers: Floats, draws: np.random.Generator
    ) -> Cells:
        smallest = self.params.min_cell
        return synopsis.noisy_cells(rows, centers, self._share(), smallest, draws)

    def _named(self, what: str) -> str:
        """Return the name of one message of a run at this level."""
        return f"{self.level} in {self.params.contacts}, {what}"

    def _share(self) -> float:
        """Return what a message costs, every one the same."""
        mu = mu_of(self.level.epsilon, self.level.delta)
        # Messages add up as the root of their squares; all of them together cost mu.
        return mu / math.sqrt(self.params.contacts)

# SPDX-License-Identifier: Apache-2.0
"""The level `secure`: after the first message, only sums over cohorts can be read.

It goes with a level that protects the first message (`grouped` or `dp`), and hides
sums by pairwise masks (:mod:`.masks`) or by encryption (:mod:`.he`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from afcl.core.messages import Addressed, Cells, Hello, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import Requirements
from afcl.core.rows import as_rows
from afcl.core.tasks import SecureHello, Task
from afcl.exceptions import RejectedMessage
from afcl.privacy import ckks, he
from afcl.privacy.levels import HE, Level
from afcl.privacy.masks import Asked, Sealed, answer, public_key
from afcl.privacy.protection import Protection
from afcl.registry import LEVELS

#: The first message's cells lie on a grid of this width (of the unit box), so that a
#: cohort's exact sums minus a first message's cells are no exact rows.
GRID = 1 / 64


def on_grid(cells: Cells) -> Cells:
    """Return cells whose means and mean squared radii are rounded to a grid."""
    radii = np.rint(cells.scatters / cells.counts / GRID**2) * GRID**2
    return Cells(cells.counts, np.rint(cells.means / GRID) * GRID, radii * cells.counts)


def companion(level: Level) -> Protection:
    """Return what protects the first message."""
    protection: Protection = LEVELS[level.family].worker()
    return protection


class Secure(Protection):
    """Tasks of a cohort are answered with parts that only their sum can be read of."""

    def requirements(self, level: Level, params: DefaultParams) -> Requirements:
        """Ask for a cohort and a common scale, beside what the companion asks for."""
        if level.scheme == HE:
            ckks.needed(params.cohort)
        asked = companion(level).requirements(level, params)
        return replace(asked, box=True, clients=params.cohort)

    def view(
        self, X: Any, level: Level, params: DefaultParams, rng: np.random.Generator
    ) -> Sealed:
        """Return rows for sums, the companion's cells for the hello, and a key."""
        rows = as_rows(X).table()
        if level.scheme == HE:
            ckks.library()
        cells: Cells = companion(level).view(rows, level, params, rng)
        return Sealed(cells if level.private else rows, cells, rng.bytes(32))

    def hello(
        self,
        view: Sealed,
        level: Level,
        params: DefaultParams,
        rng: np.random.Generator,
    ) -> Hello:
        """Return the companion's cells on a grid, and the public key."""
        cells = companion(level).first_cells(view.cells, level, params, rng)
        payload = SecureHello(on_grid(cells), public_key(view.secret))
        return Hello(int(view.cells.counts.sum()), payload)

    def step(
        self,
        payload: Any,
        view: Sealed,
        memory: Any,
        level: Level,
        params: DefaultParams,
    ) -> tuple[Update, Any]:
        """Answer the cohort's task."""
        if not isinstance(payload, Addressed) or not isinstance(payload.own, Task):
            raise RejectedMessage("a client under 'secure' answers tasks only")
        if level.scheme == HE:
            held = memory if isinstance(memory, he.Held) else None
            part, remembered = he.answer(payload.own, view, held, params.min_cell)
            return Update(part), remembered
        known = memory if isinstance(memory, Asked) else None
        masked, asked = answer(payload.own, view, known)
        return Update(masked), asked

    def spends(self, level: Level, params: DefaultParams, contact: int) -> float:
        """Return what the companion costs."""
        return companion(level).spends(level, params, contact)

# SPDX-License-Identifier: Apache-2.0
"""The level `secure`: after the first message, only sums over cohorts can be read.

It goes with a level that says what the first message shows (`summary`, `grouped` or
`dp`), and hides sums by pairwise masks (:mod:`.masks`) or by encryption (:mod:`.he`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from afcl.core.client import rows_in
from afcl.core.cohort_losses import FEWEST
from afcl.core.cohort_rebuild import MOST_MEMBERS
from afcl.core.messages import Addressed, Cells, Hello, Update
from afcl.core.params import DefaultParams
from afcl.core.protocol import Keep, Requirements, keep_nothing
from afcl.core.tasks import SecureHello, Task
from afcl.exceptions import RejectedMessage
from afcl.privacy import ckks, he
from afcl.privacy.levels import HE, PLAIN, Level
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


class Secure(Protection):
    """Tasks of a cohort are answered with parts that only their sum can be read of."""

    def __init__(self, level: Level, params: DefaultParams) -> None:
        super().__init__(level, params)
        kind: type[Protection] = LEVELS[level.family].protection_class()
        #: What protects the first message.
        self._companion = kind(level, params)
        # Sums are of the rows, unless noise stands for them.
        self.once = level.private

    def requirements(self) -> Requirements:
        """Ask for a cohort and a common scale, beside what the companion asks for."""
        if self.level.scheme == HE:
            ckks.needed(self.params.cohort or MOST_MEMBERS)
        asked = self._companion.requirements()
        return replace(asked, box=True, clients=self.params.cohort or FEWEST)

    def view(
        self, X: Any, rng: np.random.Generator, keep: Keep = keep_nothing
    ) -> Sealed:
        """Return rows for sums, the companion's cells for the hello, and a key."""
        if self.level.scheme == HE:
            ckks.library()
        stands = self._companion.view(X, rng, keep)
        plain, secret = self.level.scheme == PLAIN, rng.bytes(32)
        key = secret.hex() if plain else public_key(secret)
        return Sealed(stands if self.level.private else X, stands, secret, key, plain)

    def hello(
        self, view: Sealed, rng: np.random.Generator, keep: Keep = keep_nothing
    ) -> Hello:
        """Return the companion's cells on a grid, and the public key."""
        cells = self._companion.first_cells(view.shown, rng, keep)
        return Hello(rows_in(view.rows), SecureHello(on_grid(cells), view.public))

    def step(
        self, payload: Any, view: Sealed, memory: Any, keep: Keep = keep_nothing
    ) -> tuple[Update, Any]:
        """Answer the cohort's task."""
        if not isinstance(payload, Addressed) or not isinstance(payload.own, Task):
            raise RejectedMessage("a client under 'secure' answers tasks only")
        if self.level.scheme == HE:
            held = memory if isinstance(memory, he.Held) else None
            part, remembered = he.answer(payload.own, view, held, self.params)
            return Update(part), remembered
        known = memory if isinstance(memory, Asked) else None
        masked, asked = answer(payload.own, view, known, self.params)
        return Update(masked), asked

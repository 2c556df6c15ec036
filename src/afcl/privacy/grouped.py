# SPDX-License-Identifier: Apache-2.0
"""The level `grouped(m)`: groups of at least m rows stand for the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from afcl.core.messages import Cells
from afcl.core.protocol import Keep, Requirements, keep_nothing
from afcl.core.rounding import coarse_cells, squared_steps
from afcl.core.rows import as_rows
from afcl.exceptions import InputError
from afcl.privacy.grouping import group_rows, grouped_cells, without_rare
from afcl.privacy.ledger import groups_of
from afcl.privacy.levels import GROUP, Level
from afcl.privacy.protection import Protection


class Grouped(Protection):
    """Every message is made of whole groups; see :mod:`.grouping`."""

    goes_with_secure = True
    once = True

    @classmethod
    def read(cls, family: str, inside: str | None, text: str) -> Level:
        """Return the level with groups of so many rows."""
        size = str(GROUP) if inside is None else inside.removeprefix("m=")
        if not size.isascii() or not size.isdigit() or int(size) < 2:
            raise InputError(
                f"privacy {text!r}: groups hold a whole number of rows, at least 2, "
                "as in grouped(5)"
            )
        return Level(family, group=int(size))

    def requirements(self) -> Requirements:
        """Extremes are those of groups."""
        return Requirements(group=self.level.group)

    def view(
        self, X: Any, rng: np.random.Generator, keep: Keep = keep_nothing
    ) -> Cells:
        """Return the groups' counts, means and scatters."""

        def make() -> Cells:
            rows = without_rare(as_rows(X).table(), self.level.group)
            cells = grouped_cells(rows, group_rows(rows, self.level.group))
            return coarse_cells(cells, squared_steps(rows))

        return keep(groups_of(self.level.group), make)

# SPDX-License-Identifier: Apache-2.0
"""What a lying coordinator is let loose on: the audited sites, in temporary folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afcl._typing import Bools, Floats
from afcl.audit.findings import known_rows
from afcl.audit.victims import Victim, joined
from afcl.gaps import has_gaps
from afcl.privacy.attacks import Candidates
from afcl.privacy.lattice import measured_in
from afcl.privacy.levels import Level
from afcl.scale import Box

#: Sites that are attacked, the first ones.
MOST_SITES = 5
#: Rows of a site that is attacked, drawn at random if it has more.
MOST_ROWS = 500


class Learned(NamedTuple):
    """How much an attack has learned, of how much, and of what."""

    number: int
    of: int
    what: str = "rows"


@dataclass
class Scene:
    """Sites at one level, and what an attack on them is judged by.

    Attributes
    ----------
    level, min_cell, cohort
        What the sites insist on.
    tables
        Their rows in the units of the data, NaN where there is no value.
    spoken
        The same rows as they take part: in agreed units, without gaps.
    box, scale
        The agreed map, and what an honest run is told about it.
    runs, seed
        Runs that are compared, and what everything random is drawn from.
    tolerance
        How close a guess must be to a row, in units of the box.
    folder
        Where sites keep what they keep.
    victims
        Every site that has joined so far.
    """

    level: Level
    min_cell: int
    cohort: int | None
    tables: Sequence[Floats]
    spoken: Sequence[Floats]
    box: Box
    scale: Any
    runs: int
    seed: int
    tolerance: float
    folder: Path
    missing: str = "error"
    victims: list[Victim] = field(default_factory=list)

    @property
    def options(self) -> dict[str, Any]:
        """What an honest coordinator would ask for beside the level."""
        return {"min_cell": self.min_cell}

    def victim(
        self, site: int, run: str, rows: Floats | None = None, **promises: Any
    ) -> Victim:
        """Let a site join a run; what it keeps for all runs is in one home."""
        folder = self.folder / f"site {site}"
        options = {
            "privacy": str(self.level),
            "min_cell": self.min_cell,
            "missing": self.missing,
            "home": str(folder / "home"),
            **promises,
        }
        own = self.tables[site] if rows is None else rows
        made = joined(folder / run, own, **options)
        self.victims.append(made)
        return made

    def on_every_site(
        self, attack: Callable[[Victim, Floats], Iterable[Floats]]
    ) -> Learned:
        """Attack one site after the other; a guess is a list of rows, as in the data.

        It counts if it is right at least half of the time.
        """
        known = 0
        for site, rows in enumerate(self.tables):
            guesses = attack(self.victim(site, "run"), rows)
            known += int(self.known(guesses, self.spoken[site]).sum())
        return Learned(known, sum(len(rows) for rows in self.spoken))

    def known(self, guesses: Iterable[Floats], rows: Floats) -> Bools:
        """Return which rows these guesses name, as they are or those on the lattice."""
        every = [np.reshape(guess, (-1, rows.shape[1])) for guess in guesses]
        every += [guess[self._on_lattice(guess)] for guess in every]
        found = [
            Candidates("lies", self.box.scale(points), np.ones(len(points), np.int64))
            for points in every
        ]
        return known_rows(found, rows, self.tolerance)

    def _on_lattice(self, points: Floats) -> Bools:
        """Return which points have values as they are measured, which is public."""
        steps = self.steps
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.abs(points - np.rint(points / steps) * steps)
        close = (off <= self.tolerance * self.box.span) | (steps == 0)
        fits: Bools = close.all(axis=1)
        return fits

    @cached_property
    def steps(self) -> Floats:
        """In which steps the columns are measured; 0: in none, or values are filled."""
        if any(has_gaps(table) for table in self.tables):
            return np.zeros(self.tables[0].shape[1])
        return measured_in(np.concatenate(self.tables))


def drawn(tables: Sequence[Floats], seed: int) -> list[Floats]:
    """Return what is attacked of tables: the first sites, and not too many rows."""
    rng = np.random.default_rng(seed)
    some = []
    for rows in tables[:MOST_SITES]:
        if len(rows) > MOST_ROWS:
            rows = rows[np.sort(rng.choice(len(rows), MOST_ROWS, replace=False))]
        some.append(rows)
    return some

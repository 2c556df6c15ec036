# SPDX-License-Identifier: Apache-2.0
"""One level after the other on the same tables: run, attack, lie, judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.audit import columns, notes
from afcl.audit.across import across_runs
from afcl.audit.canaries import CanaryResult, canaries
from afcl.audit.findings import (
    EXACT,
    ROUNDED,
    AcrossRuns,
    Attempt,
    LevelFinding,
    measure_attacks,
)
from afcl.audit.promises import AuditedRun, broken_promises, in_words
from afcl.audit.wire import Tapped, tapped
from afcl.gaps import IMPUTE, fill, has_gaps
from afcl.metrics import adjusted_rand, silhouette
from afcl.privacy.attacks import releases
from afcl.privacy.attacks_enumeration import enumerated
from afcl.privacy.levels import MASKS, Level, parse_level
from afcl.runtime.site import Site
from afcl.scale import Box, given_box, minmax_box, ranges_of, with_bounds

#: The level everything is compared with.
REFERENCE = "summary"
#: The silhouette is computed on at most so many rows, drawn at random.
SCORED = 4000


@dataclass(frozen=True)
class Auditor:
    """Audits one level after the other on the same tables.

    Attributes
    ----------
    tables
        Rows of every site, NaN where there is no value.
    bounds
        Of columns that need no agreement (NaN: the others), such as categories.
    missing
        How gaps are dealt with; "": there are none.
    tell
        Is told what is done next.
    """

    tables: list[Floats]
    rounds: int
    seed: int
    scale: Any
    cohort: int | None
    min_cell: int
    trials: int
    runs: int
    names: tuple[str, ...]
    bounds: tuple[Floats, Floats] | None
    missing: str
    lies: bool
    tell: Callable[[str], None]

    @cached_property
    def rows(self) -> Floats:
        """All rows in the units in which results are compared."""
        scaled = self._pooled.scale(np.concatenate(self.tables))
        if has_gaps(scaled):
            return fill(scaled, np.full(scaled.shape[1], 0.5)).rows
        return scaled

    @cached_property
    def _pooled(self) -> Box:
        """The box of all rows, in which results and several runs are compared."""
        rows = np.concatenate(self.tables)
        return with_bounds(minmax_box([ranges_of(rows)]), self.bounds)

    @cached_property
    def _agreed(self) -> tuple[Floats, Floats]:
        """Bounds of every column that all runs share: the given ones, or the rows'."""
        if isinstance(self.scale, str) or self.scale is None:
            return self._pooled.low, self._pooled.low + self._pooled.span
        return np.asarray(self.scale[0]), np.asarray(self.scale[1])

    @cached_property
    def reference(self) -> Tapped:
        """The run that all others are compared with."""
        return self._run(parse_level(REFERENCE), curious=False)

    def audited(self, level: Level) -> LevelFinding:
        """Attack a level and check its promise."""
        self.tell(f"{level}: messages")
        run = self._run(level, curious=True)
        released = releases(run.exchanges)
        attacks = measure_attacks(
            run.exchanges, released, run.rows(), tolerance_of(level)
        )
        spoken, box = run.spoken(), run.terms.box
        found, at_most = (
            enumerated(released, spoken, box, self.bounds, ends).singled
            for ends in (False, not level.private)
        )
        categories = None if self.bounds is None else ~np.isnan(self.bounds[0])
        disclosed = columns.columns_told(run, categories)
        canary = self._canaries(level)
        across = self._across(level)
        lies = self._lies(level) if self.lies else ()
        evidence = AuditedRun(
            level, run, released, attacks, canary, self.min_cell, found, across, lies
        )
        reasons = broken_promises(evidence)
        return LevelFinding(
            str(level),
            in_words(level, self.min_cell),
            bool(reasons),
            tuple(dict.fromkeys(reasons)),
            attacks.recovered,
            attacks.precision,
            attacks.shared,
            attacks.nearest,
            min((int(each.cells.counts.min()) for each in released), default=None),
            level.epsilon if level.private else None,
            canary[0].measured if canary else None,
            **self._quality(level),
            attacks=attacks.attacks,
            notes=(
                *notes.of_extremes(level, run),
                *columns.in_words(disclosed),
                *notes.of_steps(found),
                *notes.of_ends(found, at_most),
                *notes.of_runs(across),
                *notes.of_lies(lies),
            ),
            enumerated=found,
            across=across,
            lies=lies,
            columns=None if disclosed is None else asdict(disclosed),
        )

    def _canaries(self, level: Level) -> tuple[CanaryResult, ...]:
        if not level.private:
            return ()
        self.tell(f"{level}: canaries")
        width = self.tables[0].shape[1]
        return canaries(level, width, self.min_cell, self.trials, self.seed)

    def _across(self, level: Level) -> tuple[AcrossRuns, ...]:
        """Compare ordinary runs, at levels whose cells have no noise.

        Sums are the same however they are hidden: those under masks are compared.
        """
        hidden_otherwise = level.secure and level.scheme != MASKS
        if not level.sends_cells or level.private or hidden_otherwise:
            return ()
        self.tell(f"{level}: {self.runs} runs")

        def run(tables: Sequence[Floats], seed: int) -> Tapped:
            return tapped(
                str(level),
                tables,
                seed=seed,
                scale=self._agreed,
                rounds=self.rounds,
                options=self._options(level),
                names=self.names,
                missing=self.missing,
            )

        fewest = min(table.shape[0] for table in self.tables)
        least = max(self.min_cell, level.group)
        runs = min(self.runs, fewest - least + 1)
        return across_runs(self.tables, run, runs, self.seed, tolerance_of(level))

    def _lies(self, level: Level) -> tuple[Attempt, ...]:
        """Let a coordinator lie to the sites, each in a folder that does not stay."""
        from afcl.audit.lies import attempt, lies_at
        from afcl.audit.scene import Scene, drawn

        tables, box = drawn(self.tables, self.seed), given_box(*self._agreed)
        terms = replace(self.reference.terms, box=box)
        sites = [Site(table, missing=self.missing or IMPUTE) for table in tables]
        attempts = []
        with TemporaryDirectory(prefix="afcl-audit-") as folder:
            scene = Scene(
                level,
                self.min_cell,
                self.cohort,
                tables,
                [site.scaled(terms) for site in sites],
                box,
                self._agreed,
                self.runs,
                self.seed,
                tolerance_of(level),
                Path(folder),
                self.missing or "error",
            )
            for lie in lies_at(level):
                self.tell(f"{level}: {lie.name}")
                attempts.append(attempt(lie, scene))
        return tuple(attempts)

    def _options(self, level: Level) -> dict[str, Any]:
        options: dict[str, Any] = {"min_cell": self.min_cell}
        if self.cohort is not None and level.secure:
            options["cohort"] = self.cohort
        return options

    def _run(self, level: Level, curious: bool) -> Tapped:
        options = self._options(level) if level.sends_cells else {}
        if level.sends_cells and curious and level.family != "dp-rounds":
            options["contacts"] = self.rounds + 1
        return tapped(
            str(level),
            self.tables,
            seed=self.seed,
            scale=self.scale,
            rounds=self.rounds,
            options=options,
            curious=curious,
            names=self.names,
            bounds=self.bounds if isinstance(self.scale, str) else None,
            missing=self.missing,
        )

    def _quality(self, level: Level) -> dict[str, Any]:
        """Return what an ordinary run costs and finds."""
        same = str(level) == REFERENCE
        run = self.reference if same else self._run(level, curious=False)
        tallies = run.outcome.finished.tallies.values()
        labels = run.labels()
        return {
            "messages": sum(tally.messages for tally in tallies),
            "bytes": sum(tally.bytes for tally in tallies),
            "clusters": run.outcome.clustering.k,
            "silhouette": silhouette(self.rows, labels, sample=SCORED),
            "ari": adjusted_rand(self.reference.labels(), labels),
        }


def tolerance_of(level: Level) -> float:
    """Return how close to a row what is found of it must be, in units of the box."""
    return ROUNDED if level.secure else EXACT

# SPDX-License-Identifier: Apache-2.0
"""The audit: every level on the same rows, attacked on the bytes that are sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.audit.across import across_runs
from afcl.audit.canaries import canaries
from afcl.audit.findings import (
    EXACT,
    ROUNDED,
    AcrossRuns,
    Audit,
    LevelFinding,
    measure_attacks,
)
from afcl.audit.promises import Evidence, broken_promises, in_words
from afcl.audit.wire import Tapped, tapped
from afcl.data import from_frames
from afcl.exceptions import InputError
from afcl.metrics import adjusted_rand, silhouette
from afcl.privacy.attacks import releases
from afcl.privacy.attacks_enumeration import enumerated
from afcl.privacy.levels import Level, parse_level
from afcl.registry import LEVELS
from afcl.scale import Ranges, minmax_box, ranges_of

#: The level everything is compared with.
REFERENCE = "summary"
#: The level of live runs where nobody names one.
DEFAULT = "secure+summary"
#: Fewest sites in a cohort: of two, each could subtract itself.
SMALLEST_COHORT = 3
#: The silhouette is computed on at most so many rows, drawn at random.
SCORED = 4000


def default_levels(n_clients: int, bounded: bool) -> list[str]:
    """Return the levels that can be audited with so many clients, by name.

    `dp` needs public bounds of every column, `secure` at least three clients.
    """
    known = [each.examples[0] for each in LEVELS.values() if each.audited]
    known.insert(known.index("secure"), DEFAULT)
    return [
        str(level)
        for level in map(parse_level, known)
        if (bounded or not level.private)
        and (n_clients >= SMALLEST_COHORT or not level.secure)
    ]


def audit(
    tables: Sequence[Any],
    levels: Sequence[str] | None = None,
    *,
    rounds: int = 30,
    seed: int = 0,
    scale: Any = "minmax",
    cohort: int | None = None,
    min_cell: int = 5,
    canary_trials: int = 200,
    runs: int = 3,
    names: Sequence[str] = (),
    tell: Callable[[str], None] | None = None,
) -> Audit:
    """Measure what an honest-but-curious server could recover, level by level.

    Parameters
    ----------
    tables : sequence of array-like of shape (n_rows, n_features)
        One per client: arrays, pandas or Polars frames.
    levels : sequence of str, default=None
        Privacy levels such as ``"grouped(5)"``; None: all that these tables allow.
    rounds : int
        Rounds in which the server asks everybody.
    seed : int
        Seed of everything random.
    scale : "minmax" or (low, high)
        As in :class:`afcl.AFCL`; `dp` needs given bounds.
    cohort : int, default=None
        Clients of a cohort at `secure`; None: as many as there are.
    min_cell : int
        Smallest cell a client may describe.
    canary_trials : int
        Trials of each kind in the canary test of `dp`.
    runs : int
        Runs on the same sites whose messages are compared, at levels whose cells can be
        read and are not noisy.
    names : sequence of str
        Of the clients, for messages.
    tell : callable, default=None
        Is told the name of each level before it is audited.

    Returns
    -------
    found : Audit
        With one entry per level. Attacks see a run in which the server asks everybody
        in every round; bytes and quality are those of an ordinary run.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.normal(place, 0.1, (40, 2)) for place in (0, 1, 2)]
    >>> found = audit(tables, ["exact", "grouped(5)"], rounds=3)
    >>> [(level.level, level.recovered) for level in found.levels]
    [('exact', 1.0), ('grouped(5)', 0.0)]
    """
    arrays = _checked(tables)
    for name, value, least in (
        ("rounds", rounds, 1),
        ("min_cell", min_cell, 1),
        ("canary_trials", canary_trials, 4),
        ("runs", runs, 1),
    ):
        if value < least:
            raise InputError(f"{name} is {value}: it must be at least {least}")
    bounded = not isinstance(scale, str) and scale is not None
    chosen = list(levels or default_levels(len(arrays), bounded))
    parsed = [parse_level(text) for text in chosen]
    auditor = _Auditor(
        arrays, rounds, seed, scale, cohort, min_cell, canary_trials, runs, tuple(names)
    )
    found = []
    for level in parsed:
        if tell is not None:
            tell(str(level))
        found.append(auditor.audited(level))
    return Audit(
        sum(table.shape[0] for table in arrays),
        arrays[0].shape[1],
        len(arrays),
        rounds,
        seed,
        tuple(found),
    )


def _checked(tables: Sequence[Any]) -> list[Floats]:
    if not len(tables):
        raise InputError("an audit needs at least one table")
    arrays, _ = from_frames(tables)
    for number, table in enumerate(arrays):
        if table.ndim != 2 or not table.shape[0] or not np.isfinite(table).all():
            raise InputError(
                f"table {number} must hold rows of finite numbers: drop the others"
            )
    return [np.ascontiguousarray(table, dtype=np.float64) for table in arrays]


@dataclass(frozen=True)
class _Auditor:
    """Audits one level after the other on the same tables."""

    tables: list[Floats]
    rounds: int
    seed: int
    scale: Any
    cohort: int | None
    min_cell: int
    trials: int
    runs: int
    names: tuple[str, ...]

    @cached_property
    def rows(self) -> Floats:
        """All rows in the units in which results are compared."""
        rows = np.concatenate(self.tables)
        return minmax_box([ranges_of(rows)]).scale(rows)

    @cached_property
    def reference(self) -> Tapped:
        """The run that all others are compared with."""
        return self._run(parse_level(REFERENCE), curious=False)

    def audited(self, level: Level) -> LevelFinding:
        """Attack a level and check its promise."""
        run = self._run(level, curious=True)
        released = releases(run.heard)
        tolerance = ROUNDED if level.secure else EXACT
        attacks = measure_attacks(run.heard, released, run.rows(), tolerance)
        canary = (
            canaries(level, self.rows.shape[1], self.min_cell, self.trials, self.seed)
            if level.private
            else ()
        )
        found = enumerated(released, self.tables, run.terms.box).singled
        reasons = broken_promises(
            Evidence(level, run, released, attacks, canary, self.min_cell, found)
        )
        across = self._across(level)
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
            notes=(*_notes(level, run), *_of_steps(found), *_of_runs(across)),
            enumerated=found,
            across=across,
        )

    def _across(self, level: Level) -> tuple[AcrossRuns, ...]:
        """Compare ordinary runs, at levels whose cells are exact and can be read."""
        if not level.sends_cells or level.private or level.secure:
            return ()
        rows = np.concatenate(self.tables)
        box = (rows.min(axis=0), rows.max(axis=0))
        scale = box if isinstance(self.scale, str) else self.scale

        def run(tables: Sequence[Floats], seed: int) -> Tapped:
            options = {"min_cell": self.min_cell}
            return tapped(
                str(level),
                tables,
                seed=seed,
                scale=scale,
                rounds=self.rounds,
                options=options,
                names=self.names,
            )

        fewest = min(table.shape[0] for table in self.tables)
        least = max(self.min_cell, level.group)
        return across_runs(
            self.tables, run, min(self.runs, fewest - least + 1), self.seed
        )

    def _run(self, level: Level, curious: bool) -> Tapped:
        options: dict[str, Any] = {}
        if level.sends_cells:
            options = {"min_cell": self.min_cell}
            if self.cohort is not None and level.secure:
                options["cohort"] = self.cohort
            if curious and level.family != "dp-rounds":
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


def _of_steps(found: float) -> tuple[str, ...]:
    """Say what follows from one message because columns are measured in steps."""
    if not found:
        return ()
    return (
        f"{found:.1%} of the values follow from a single message, by going through "
        "everything that fits it: the columns are measured in few steps",
    )


def _of_runs(across: Sequence[AcrossRuns]) -> tuple[str, ...]:
    """Say what several runs tell together, which no single one does."""
    lines = []
    for each in across[-1:]:
        if each.reseeded > 0:
            lines.append(
                f"{each.reseeded:.1%} of the rows follow from {each.runs} "
                f"{'run' if each.runs == 1 else 'runs'} with other seeds, unless a "
                "site keeps what it has said"
            )
        if each.after_leaving > 0 and each.runs > 1:
            lines.append(
                f"{each.after_leaving:.1%} follow from {each.runs} runs if every site "
                "loses a row between two of them: no level but dp hides who has left"
            )
    return tuple(lines)


def _notes(level: Level, run: Tapped) -> tuple[str, ...]:
    """Say what the agreement on scales gave away."""
    sent = [one.reply for one in run.heard if isinstance(one.reply, Ranges)]
    exact = 0
    for ranges, site in zip(sent, run.sites, strict=True):
        if ranges.low.size:
            exact += int((ranges.low == site.rows.min(axis=0)).sum())
            exact += int((ranges.high == site.rows.max(axis=0)).sum())
    if not exact:
        return ()
    shared = " (values that several rows share)" if level.group else ""
    return (f"{exact} column extremes of sites were told exactly{shared}",)

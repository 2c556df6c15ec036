# SPDX-License-Identifier: Apache-2.0
"""What an audit found: attacks judged by the rows, one line per level."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from afcl._typing import Bools, Floats
from afcl.core.messages import Positions
from afcl.privacy.attacks import (
    Candidates,
    Exchange,
    Released,
    find_shared,
    find_singletons,
    hellos,
    invert,
    match_first_message,
    solve_pulls,
)
from afcl.privacy.attacks_sums import difference, difference_unions, subtract_hellos

#: A row is recovered exactly if a candidate lies this close, in units of the box.
EXACT = 1e-6
#: The same under `secure`: sums are rounded to 2^-20 there, so candidates are coarser.
ROUNDED = 1e-4
#: An attack that is wrong more often than this guesses; its hits count for nothing.
RIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: how many places it named, how many held a row, what that makes.

    Attributes
    ----------
    name
        Which attack.
    candidates, right
        Places it named, and how many of them were rows.
    recovered
        Share of all rows it named exactly, whether or not that counts.
    counts
        Whether at least half of what it named was right. An attack that is wrong more
        often tells the server nothing: it cannot know which of its guesses to believe.
    """

    name: str
    candidates: int
    right: int
    recovered: float
    counts: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way in which a coordinator lied to the sites, and what that was worth.

    Attributes
    ----------
    name, tried
        Which, and in words what was done.
    promise
        What it would break; empty: nothing is promised, the figure is to be known.
    rows
        Rows of the sites it was tried on.
    learned, of, what, share
        How many were learned of how many: rows placed exactly, values of a column, or
        answers and synopses beyond what was agreed.
    requests, refused
        What was asked of the sites, and how often they refused.
    broken
        Whether something was learned that is promised not to be.
    """

    name: str
    tried: str
    promise: str
    rows: int
    learned: int
    of: int
    what: str
    share: float
    requests: int
    refused: int
    broken: bool


@dataclass(frozen=True, slots=True)
class LevelFinding:
    """What the audit found of one level.

    Attributes
    ----------
    level, promise
        Its name, and in words what it promises (empty: nothing).
    broken, reasons
        Whether it broke that, and how.
    recovered
        Share of all rows that the server could name exactly, by any attack that counts.
    precision
        Share of what those attacks named that were rows; None: nothing was named.
    shared
        Share of rows whose exact value is known because at least five rows share it.
    enumerated
        Share of values that fewer than five rows of a site have and that follow from a
        single message, by going through everything that fits it; 0 where columns are as
        good as continuous. With one column these are rows; with several nobody knows
        which values belong together.
    across
        Rows that follow from several runs on the same sites: by the number of runs,
        with other seeds, and with a row of every site gone between two runs.
    lies
        What a coordinator that lies learned of the sites.
    columns
        What first messages tell of categories and gaps, see
        :class:`afcl.audit.columns.ColumnsTold`; None: there are neither.
    nearest
        Distance of what was sent to the nearest row, the median, in units of a typical
        row's distance to its nearest neighbour; None: nothing that has a place. Where
        most rows are recovered, of what the attacks named.
    smallest
        Rows of the smallest cell that could be read; None: there was none.
    claimed, measured
        The epsilon that is claimed, and what the canary shows it to be at least.
    messages, bytes
        Of an ordinary run, from all sites.
    clusters, silhouette, ari
        Of an ordinary run; the silhouette is -1 where all rows are in one cluster, the
        adjusted Rand index compares with the labels of `summary`.
    attacks
        Every attack that named anything.
    notes
        What else the messages say.
    """

    level: str
    promise: str
    broken: bool
    reasons: tuple[str, ...]
    recovered: float
    precision: float | None
    shared: float
    nearest: float | None
    smallest: int | None
    claimed: float | None
    measured: float | None
    messages: int
    bytes: int
    clusters: int
    silhouette: float
    ari: float
    attacks: tuple[Attack, ...]
    notes: tuple[str, ...] = ()
    enumerated: float = 0.0
    across: tuple[AcrossRuns, ...] = ()
    lies: tuple[Attempt, ...] = ()
    columns: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AcrossRuns:
    """What so many runs on the same sites tell together.

    Attributes
    ----------
    runs
        How many.
    reseeded
        Share of rows recovered if only the seed differs and views are not kept, as
        where every run is a site's first.
    after_leaving
        Share recovered if every site loses a row between two runs and says so.
    """

    runs: int
    reseeded: float
    after_leaving: float


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit of several levels on the same rows."""

    rows: int
    features: int
    clients: int
    rounds: int
    seed: int
    levels: tuple[LevelFinding, ...]

    @property
    def broken(self) -> bool:
        """Whether any level broke its promise."""
        return any(level.broken for level in self.levels)

    def to_dict(self) -> dict[str, Any]:
        """Return plain tables, fit for JSON."""
        return {**dataclasses.asdict(self), "broken": self.broken}


@dataclass(frozen=True, slots=True)
class AttackResults:
    """All attacks on one run, measured by its rows."""

    attacks: tuple[Attack, ...]
    recovered: float
    precision: float | None
    shared: float
    nearest: float | None


def measure_attacks(
    exchanges: Sequence[Exchange],
    released: Sequence[Released],
    rows: Floats,
    tolerance: float = EXACT,
) -> AttackResults:
    """Attack what was heard, and see what the attacks are worth."""
    tree = cKDTree(rows)
    known = np.zeros(rows.shape[0], dtype=np.bool_)
    attacks: list[Attack] = []
    named: list[Floats] = []
    places = [each.cells.means for each in released]
    # Bare points of first messages have a place too.
    payloads = [payload for _, payload in hellos(exchanges)]
    places += [each.points for each in payloads if isinstance(each, Positions)]
    for found in (
        invert(exchanges),
        solve_pulls(exchanges),
        match_first_message(exchanges),
        find_singletons(released),
        difference(released),
        difference_unions(released),
        subtract_hellos(released),
    ):
        if not len(found):
            continue
        right, hit = _hits(found, rows, tree, tolerance)
        counts = right >= RIGHT * len(found)
        share = float(hit.mean())
        attacks.append(Attack(found.attack, len(found), right, share, counts))
        if counts:
            known |= hit
            named.append(found.points)
    believed = [attack for attack in attacks if attack.counts]
    n_named = sum(attack.candidates for attack in believed)
    shared = find_shared(released)
    return AttackResults(
        tuple(attacks),
        float(known.mean()),
        sum(attack.right for attack in believed) / n_named if n_named else None,
        float(_hits(shared, rows, tree, EXACT)[1].mean()) if len(shared) else 0.0,
        _nearest(named if known.mean() > RIGHT else places + named, rows, tree),
    )


def known_rows(
    found: Iterable[Candidates], rows: Floats, tolerance: float = EXACT
) -> Bools:
    """Return which rows are named by attacks that are mostly right."""
    tree, known = cKDTree(rows), np.zeros(rows.shape[0], dtype=np.bool_)
    for each in found:
        if len(each):
            right, hit = _hits(each, rows, tree, tolerance)
            known |= hit & (right >= RIGHT * len(each))
    return known


def _hits(
    found: Candidates, rows: Floats, tree: Any, tolerance: float
) -> tuple[int, Bools]:
    """Return how many candidates are rows, and which rows are candidates."""
    right = int((tree.query(found.points)[0] <= tolerance).sum())
    hit: Bools = cKDTree(found.points).query(rows)[0] <= tolerance
    return right, hit


def _nearest(places: Sequence[Floats], rows: Floats, tree: Any) -> float | None:
    """Return the median distance to the nearest row, in nearest-neighbour units."""
    distinct = np.unique(rows, axis=0)
    if not places or distinct.shape[0] < 2:
        return None
    every = np.unique(np.concatenate(places), axis=0)
    between = np.median(cKDTree(distinct).query(distinct, k=2)[0][:, 1])
    return float(np.median(tree.query(every)[0]) / between)

# SPDX-License-Identifier: Apache-2.0
"""Parameters of the three presets, with the paper's symbols."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, TypeVar

from afcl.core.tasks import Threshold
from afcl.exceptions import InputError
from afcl.registry import LEVELS, SHAPE, SHAPES, PrivacyLevel, criteria

#: More cells per square root of rows than any client has.
MOST_PER_ROOT = 1e6
#: Most seeds, where nobody says how many.
MOST_SEEDS = 256
#: Which of several believable levels is the answer.
GRANULARITIES = ("coarse", "auto", "fine")
#: Fewer remembered cells than this would not show clusters.
LEAST_CELLS = 1024

T = TypeVar("T")


def from_options(kind: type[T], method: str, options: Mapping[str, Any]) -> T:
    """Build a method's parameters; an unknown option gets the list of known ones."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            raise InputError(
                f"{method} has no option {name!r}; it takes {', '.join(known)}"
            )
    return kind(**options)


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise InputError(text)


def _require_auto_or_one(name: str, value: int | None) -> None:
    _require(
        value is None or value >= 1,
        f"{name} must be 'auto' or at least 1, not {value}",
    )


@dataclass(frozen=True, slots=True)
class DefaultParams:
    """Constants of the default preset.

    Attributes
    ----------
    n_seeds
        k0, seeds placed on the union of all cells; None follows the number of rows.
    max_clusters
        Largest k that may be the answer; None follows the number of rows.
    criterion
        What chooses k: the name of an index, or `auto`, the rule of the moment
        silhouette's band.
    min_cell
        Smallest cell a client may upload.
    contacts
        Messages a client is asked for, its hello included.
    cells_per_root
        A client forms about this many cells per square root of its rows.
    band
        Levels whose moment silhouette is this close to the best are ties.
    prune
        Levels this close to the best are sent to the clients for polishing.
    candidates
        At most so many levels are sent (plus the one the rule picks).
    drift
        Share of the within-scatter that seeds may move before the path is rebuilt.
    privacy
        The level, as :func:`afcl.privacy.parse_level` reads it.
    passes
        Different sums a client is asked for where sums over cohorts are read.
    cohort
        Clients whose sums are read together, at least 3; None: as many as there are.
    holders
        Clients that hold rows of a group, at least, before its sums are read.
    max_cells
        Cells the server remembers before it condenses them; see :mod:`core.budget`.
    allow_one
        Whether "no clusters", k' = 1, is an answer.
    granularity
        Which of the levels that can be believed is the answer: the rule's (`auto`), the
        one with the fewest (`coarse`) or the most (`fine`) clusters.
    shape
        What clusters may look like: `convex`, `connected`, or `auto`, connected where
        that is seen to be better; see :mod:`core.connected`.
    """

    n_seeds: int | None = None
    max_clusters: int | None = None
    criterion: str = "auto"
    min_cell: int = 5
    contacts: int = 3
    cells_per_root: float = 3.0
    band: float = 0.01
    prune: float = 0.02
    candidates: int = 6
    drift: float = 0.01
    privacy: str = "summary"
    passes: int = 6
    cohort: int | None = None
    holders: int = 3
    max_cells: int = 1 << 20
    allow_one: bool = True
    granularity: str = "auto"
    shape: str = SHAPE

    def __post_init__(self) -> None:
        _require_auto_or_one("n_seeds", self.n_seeds)
        _require_auto_or_one("max_clusters", self.max_clusters)
        known = criteria()
        _require(
            self.criterion in known,
            f"unknown criterion {self.criterion!r}; choose from {', '.join(known)}",
        )
        for name, least in (
            ("min_cell", 1),
            ("contacts", 1),
            ("candidates", 1),
            ("passes", 5),
            ("cohort", 3),
            ("holders", 2),
            ("max_cells", LEAST_CELLS),
        ):
            value = getattr(self, name)
            _require(
                (isinstance(value, Integral) and int(value) >= least)
                or (name == "cohort" and value is None),
                f"{name} must be a whole number, at least {least}, not {value!r}",
            )
        _require(
            isinstance(self.allow_one, bool),
            f"allow_one must be True or False, not {self.allow_one!r}",
        )
        _require(
            self.granularity in GRANULARITIES,
            f"granularity must be one of {', '.join(GRANULARITIES)}, not "
            f"{self.granularity!r}",
        )
        _require(
            self.shape in SHAPES,
            f"shape must be one of {', '.join(SHAPES)}, not {self.shape!r}",
        )
        _require(
            0 < self.cells_per_root <= MOST_PER_ROOT,
            f"cells_per_root must be positive and at most {MOST_PER_ROOT:g}, not "
            f"{self.cells_per_root}",
        )
        for name in ("band", "prune", "drift"):
            value = getattr(self, name)
            _require(value >= 0, f"{name} must not be negative, not {value}")

    @property
    def threshold(self) -> Threshold:
        """When the sums of a group of a cohort may be read."""
        return Threshold(self.min_cell, self.holders)

    @property
    def exact_cells(self) -> bool:
        """Whether the level's cells are sums of rows as they are, without noise."""
        level = self._level(self.privacy)
        return level is not None and level.exact_cells

    @property
    def noisy(self) -> bool:
        """Whether there is noise in what clients send."""
        levels = [self._level(part) for part in self.privacy.split("+")]
        return any(level is not None and level.noisy for level in levels)

    @staticmethod
    def _level(name: str) -> PrivacyLevel | None:
        return LEVELS.get(name.partition("(")[0])

    def cells_for(self, n_rows: int) -> int:
        """Cells m_g a client of `n_rows` rows starts from."""
        wanted = math.ceil(self.cells_per_root * math.sqrt(n_rows))
        return max(1, min(256, wanted, n_rows // self.min_cell))

    def seeds_for(self, n_rows: int) -> int:
        """Return the number of seeds k0 for `n_rows` rows in all."""
        if self.n_seeds is not None:
            return self.n_seeds
        return min(MOST_SEEDS, max(16, math.isqrt(4 * n_rows)), max(4, n_rows // 4))

    def clusters_for(self, n_rows: int, n_seeds: int) -> int:
        """Largest k that may be the answer."""
        wanted = self.max_clusters
        if wanted is None:
            wanted = min(128, max(10, math.isqrt(n_rows)))
        return min(wanted, n_seeds)


@dataclass(frozen=True, slots=True)
class PaperParams:
    """Constants of the `paper` and `matlab` presets.

    Attributes
    ----------
    n_seeds
        k; None is min(64, max(2, n // 32)) once the number of rows is known.
    learning_rate
        eta.
    balance
        xi.
    tolerance
        The run stops when the objective Z changes by no more than this.
    merge
        Seeds whose coordinates all differ by less than this are one.
    winner
        `conscience` (Eq. 2) or `nearest` (without gamma).
    anchor
        m_r in Eqs. (13) and (14): `sent` to the client, or `current`.
    order
        Rows in the `given` order or in a `random` one each time.
    privacy
        `exact` (every row's pull is sent) or `affine` (their sum, as the server would
        apply it).
    """

    n_seeds: int | None = None
    learning_rate: float = 1e-3
    balance: float = 1.0
    tolerance: float = 1e-4
    merge: float = 1e-3
    winner: str = "conscience"
    anchor: str = "sent"
    order: str = "given"
    privacy: str = "exact"

    def __post_init__(self) -> None:
        _require_auto_or_one("n_seeds", self.n_seeds)
        for name in ("learning_rate", "balance", "merge"):
            value = getattr(self, name)
            _require(value > 0, f"{name} must be positive, not {value}")
        _require(
            self.tolerance >= 0, f"tolerance must not be negative, not {self.tolerance}"
        )
        for name, choices in (
            ("winner", ("conscience", "nearest")),
            ("anchor", ("sent", "current")),
            ("order", ("given", "random")),
        ):
            value = getattr(self, name)
            _require(
                value in choices, f"{name} must be one of {choices}, not {value!r}"
            )

    def settled(self, n_rows: int) -> PaperParams:
        """Fix the number of seeds, now that the number of rows is known."""
        if self.n_seeds is not None:
            return self
        return replace(self, n_seeds=min(64, max(2, n_rows // 32)))

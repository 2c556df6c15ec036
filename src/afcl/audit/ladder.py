# SPDX-License-Identifier: Apache-2.0
"""The audit: every level on the same rows, attacked on the bytes that are sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.audit.auditor import Auditor
from afcl.audit.findings import Audit
from afcl.data import from_frames
from afcl.exceptions import InputError
from afcl.gaps import KEEPING, has_gaps, speaking
from afcl.privacy.levels import Level, parse_level
from afcl.registry import LEVELS

#: The level of live runs where nobody names one.
DEFAULT = "secure+summary"
#: Fewest sites in a cohort: of two, each could subtract itself.
SMALLEST_COHORT = 3


def default_levels(n_clients: int, bounded: bool) -> list[str]:
    """Return the levels that can be audited with so many clients, by name.

    `dp` needs public bounds of every column, `secure` at least three clients; both
    need the package cryptography.
    """
    known = [each.examples[0] for each in LEVELS.values() if each.audited]
    known.insert(known.index("secure"), DEFAULT)
    return [
        str(level)
        for level in map(parse_level, known)
        if (bounded or not level.private)
        and (n_clients >= SMALLEST_COHORT or not level.secure)
        and (has_cryptography() or not _needs_cryptography(level))
    ]


def has_cryptography() -> bool:
    """Whether masks and noise can be made here."""
    return find_spec("cryptography") is not None


def _needs_cryptography(level: Level) -> bool:
    return level.secure or level.private


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
    bounds: tuple[Floats, Floats] | None = None,
    missing: str = "error",
    lies: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Audit:
    """Measure what a curious server, and one that lies, could recover, level by level.

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
        Runs on the same sites whose messages are compared, at levels without noise.
    names : sequence of str
        Of the clients, for messages.
    bounds : (low, high), default=None
        Of columns that need no agreement (NaN: the others), such as those of a
        category; see :func:`afcl.data.features.bounds_of`.
    missing : str
        What is done about rows with gaps (NaN), as in :class:`afcl.AFCL`.
    lies : bool
        Whether a coordinator that lies attacks the sites, too: in temporary folders,
        with the code of a live run, and on at most 500 rows of each of five sites.
    tell : callable, default=None
        Is told each attack before it is made.

    Returns
    -------
    found : Audit
        With one entry per level. Attacks on messages see a run in which the server asks
        everybody in every round; bytes and quality are those of an ordinary run.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.normal(place, 0.1, (40, 2)) for place in (0, 1, 2)]
    >>> found = audit(tables, ["exact", "grouped(5)"], rounds=3)
    >>> [(level.level, level.recovered) for level in found.levels]
    [('exact', 1.0), ('grouped(5)', 0.0)]
    """
    arrays = _checked(tables, missing)
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
    for level in parsed:
        _check_level(level, arrays, min_cell, bounds, missing)
    auditor = Auditor(
        arrays,
        rounds,
        seed,
        scale,
        cohort,
        min_cell,
        canary_trials,
        runs,
        tuple(names),
        bounds,
        missing if missing in KEEPING else "",
        lies,
        tell or (lambda line: None),
    )
    found = [auditor.audited(level) for level in parsed]
    return Audit(
        sum(table.shape[0] for table in arrays),
        arrays[0].shape[1],
        len(arrays),
        rounds,
        seed,
        tuple(found),
    )


def _checked(tables: Sequence[Any], missing: str) -> list[Floats]:
    if not len(tables):
        raise InputError("an audit needs at least one table")
    arrays, _ = from_frames(tables)
    for number, table in enumerate(arrays):
        known = ~np.isnan(table) if missing in KEEPING else np.True_
        if (
            table.ndim != 2
            or not table.shape[0]
            or not np.isfinite(table, where=known, out=np.ones(table.shape, bool)).all()
        ):
            raise InputError(
                f"table {number} must hold rows of finite numbers: drop the others"
            )
    return [np.ascontiguousarray(table, dtype=np.float64) for table in arrays]


def _check_level(
    level: Level,
    tables: Sequence[Floats],
    min_cell: int,
    bounds: tuple[Floats, Floats] | None,
    missing: str,
) -> None:
    """Say before anything is run what a level lacks."""
    if _needs_cryptography(level) and not has_cryptography():
        raise InputError(
            f"privacy {level} needs cryptography: pip install 'afcl[privacy]'"
        )
    if missing not in KEEPING:
        return
    if level.private and any(has_gaps(table) for table in tables):
        raise InputError(
            f"at {level} gaps cannot be filled from other rows: use missing='drop', or "
            "leave the level out"
        )
    least = max(min_cell, level.group) if level.sends_cells else 1
    for number, table in enumerate(tables):
        speak = speaking(table, missing, bounds)
        if speak < least:
            raise InputError(
                f"table {number} has {speak} rows whose gaps can be filled, fewer than "
                f"{least}: leave it out, or its emptiest columns"
            )

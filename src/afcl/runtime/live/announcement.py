# SPDX-License-Identifier: Apache-2.0
"""What a site of a live run announces of itself, made there and checked here."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload, refuse_unless
from afcl.data.unit_check import ColumnStats
from afcl.exceptions import InputError, RejectedMessage
from afcl.gaps import has_gaps
from afcl.privacy.identity import announcement, verify
from afcl.runtime.agreement import LARGEST, quoted, select
from afcl.runtime.codec import is_text
from afcl.scale import Ranges, ranges_of

#: Longest name of a site, a column or a unit.
LONGEST = 200
#: Most columns that a site may announce.
MOST_COLUMNS = 100_000
#: Most rows that a site may announce.
MOST_ROWS = 10**12
#: Not in a site's name: names become file names, on any system.
FORBIDDEN = frozenset('<>:"/\\|?*')


@payload
@dataclass(frozen=True, slots=True)
class Announcement:
    """What a site says of itself before anything else.

    Reveals the number of rows, the names of all columns and their units, and of every
    column the exact minimum, maximum and median at this site: values of single rows.
    With public bounds (or no scaling) `low`, `high` and `middle` are empty, as they are
    without rows; then it reveals nothing but names, units and the number of rows.

    An enrolled site shows by a signature of the challenge it was asked with that the
    name is its own; `identity` is its public key.
    """

    name: str
    n_rows: int
    columns: tuple[str, ...]
    units: tuple[str, ...]
    low: Floats
    high: Floats
    middle: Floats
    identity: str = ""
    signature: str = ""

    def ranges(self, columns: Sequence[str]) -> Ranges:
        """Return the rows and the extremes of these columns, if it tells them."""
        places = self._places(columns)
        return Ranges(self.n_rows, len(columns), self.low[places], self.high[places])

    def stats(self, columns: Sequence[str]) -> ColumnStats:
        """Return where these columns lie, or nothing if it does not tell."""
        places = self._places(columns)
        low, high = self.low[places], self.high[places]
        return ColumnStats(low, high, self.middle[places], high - low)

    def _places(self, columns: Sequence[str]) -> Ints:
        return select(columns if self.low.size else (), self.columns)


def announce(
    name: str,
    columns: Sequence[str],
    rows: Floats,
    units: Mapping[str, str],
    extremes: bool,
    shown: Floats | None = None,
) -> Announcement:
    """Return what a site says of itself.

    Parameters
    ----------
    name : str
        The site's, fit for a file name.
    columns : sequence of str
    rows : ndarray of shape (n_rows, n_columns)
    units : mapping from column to unit
        Only those that are known.
    extremes : bool
        Whether minima, maxima and medians are asked for.
    shown : ndarray of shape (n_groups, n_columns), optional
        What stands for the rows there, such as the means of groups of them.

    Raises
    ------
    InputError
        If no coordinator would accept it.
    """
    unknown = [column for column in units if column not in columns]
    if unknown:
        raise InputError(f"a unit is given for {quoted(unknown)}: no such column")
    X = np.asarray(rows, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != len(columns):
        raise InputError(f"{len(columns)} columns named, but the rows are {X.shape}")
    low = high = middle = np.empty(0)
    if extremes and X.shape[0]:
        T = X if shown is None else shown
        known = ranges_of(T)
        low, high = known.low, known.high
        middle = np.nanmedian(T, axis=0) if has_gaps(T) else np.median(T, axis=0)
    own = plain_units(columns, units)
    made = Announcement(name, X.shape[0], tuple(columns), own, low, high, middle)
    try:
        return check(made, extremes)
    except RejectedMessage as error:
        raise InputError(str(error)) from error


def plain_units(columns: Sequence[str], units: Mapping[str, str]) -> tuple[str, ...]:
    """Return the unit of every column, "" where it is not known.

    µ has two code points and ° a few: units compare by what they look like.
    """
    return tuple(
        unicodedata.normalize("NFKC", units.get(column, "")).strip()
        for column in columns
    )


def check(payload: object, extremes: bool) -> Announcement:
    """Return the announcement, or refuse what no honest site says.

    Parameters
    ----------
    payload : object
        Whatever arrived.
    extremes : bool
        Whether minima, maxima and medians were asked for.

    Raises
    ------
    RejectedMessage
        With one line on what is wrong.
    """
    if not isinstance(payload, Announcement):
        raise RejectedMessage("expected an announcement")
    check_name(payload.name)
    n_rows: Any = payload.n_rows
    refuse_unless(
        type(n_rows) is int and 0 <= n_rows <= MOST_ROWS,
        f"{payload.name}: the number of rows must be in 0 … {MOST_ROWS}",
    )
    _check_columns(payload)
    _check_extremes(payload, len(payload.columns) if extremes and n_rows else 0)
    return payload


def check_owner(site: Announcement, run: str, challenge: str) -> None:
    """Refuse a name that is not signed by the key that it comes with, if it does."""
    unsigned = not site.identity and not site.signature
    message = announcement(run, challenge, site.name)
    refuse_unless(
        unsigned or verify(site.identity, message, site.signature),
        f"{site.name}: the announcement is not signed by its own key",
    )


def check_name(name: Any) -> None:
    """Refuse what cannot be a site's name."""
    refuse_unless(_is_text(name) and name != "", "a site needs a name")
    refuse_unless(
        len(name.encode()) <= LONGEST
        and name.isprintable()
        and not FORBIDDEN & set(name)
        and name == name.strip()
        and name[0] not in ".-"
        and name[-1] != ".",
        "a site's name must do as a file name: use letters, digits, '-' and '_'",
    )


def _check_columns(site: Announcement) -> None:
    name, columns, units = site.name, site.columns, site.units
    refuse_unless(
        isinstance(columns, tuple) and isinstance(units, tuple),
        f"{name}: columns and units must be tuples",
    )
    refuse_unless(
        1 <= len(columns) <= MOST_COLUMNS,
        f"{name}: {len(columns)} columns, expected 1 … {MOST_COLUMNS}",
    )
    refuse_unless(
        len(units) == len(columns),
        f"{name}: {len(units)} units for {len(columns)} columns",
    )
    refuse_unless(
        all(_is_text(column) and column.strip() for column in columns),
        f"{name}: every column needs a name of at most {LONGEST} characters",
    )
    refuse_unless(
        len(set(columns)) == len(columns), f"{name}: two columns have the same name"
    )
    refuse_unless(
        all(_is_text(unit) and unit.isprintable() for unit in units),
        f"{name}: a unit is a word of at most {LONGEST} characters, or empty",
    )


def _is_text(value: Any) -> bool:
    """Whether it is a string of bearable length that can be written to a file."""
    return isinstance(value, str) and len(value) <= LONGEST and is_text(value)


def _check_extremes(site: Announcement, expected: int) -> None:
    name, parts = site.name, (site.low, site.high, site.middle)
    refuse_unless(
        all(isinstance(p, np.ndarray) and p.dtype == np.float64 for p in parts),
        f"{name}: extremes and medians must be float64 arrays",
    )
    refuse_unless(
        all(part.shape == (expected,) for part in parts),
        f"{name}: expected {expected} minima, maxima and medians",
    )
    refuse_unless(
        all(bool((np.abs(part) <= LARGEST).all()) for part in parts),
        f"{name}: extremes and medians must be finite, and at most {LARGEST:g}",
    )
    low, high, middle = parts
    refuse_unless(
        bool(((low <= middle) & (middle <= high)).all()),
        f"{name}: a median lies outside its column's extremes",
    )

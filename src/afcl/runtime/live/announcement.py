# SPDX-License-Identifier: Apache-2.0
"""What a site of a live run announces of itself, made there and checked here."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import Floats
from afcl.core.messages import payload, refuse_unless
from afcl.core.terms import Category
from afcl.data.features import Embedding, level_key
from afcl.data.unit_check import ColumnStats
from afcl.exceptions import InputError, RejectedMessage
from afcl.privacy.identity import announcement, verify
from afcl.runtime.agreement import LARGEST, quoted
from afcl.runtime.codec import is_text
from afcl.runtime.live.spelling import called
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
    without rows; then it reveals nothing but names, units and the number of rows. Of a
    category they are NaN, and it reveals instead which levels are in a few rows of the
    site at least, by their names or hashed. A column that has no value at all is not
    announced.

    An enrolled site shows by a signature of the challenge it was asked with that the
    name is its own; `identity` is its public key.

    `names_key` shows whose hashes mean the same ("": names are as they are), `may_lack`
    says that something may stand for columns that it lacks.
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
    categories: tuple[Category, ...] = ()
    names_key: str = ""
    may_lack: bool = False

    @property
    def levels(self) -> dict[str, Category]:
        """Its categories by name."""
        return {each.name: each for each in self.categories}

    def under(self, names: Sequence[str]) -> Announcement:
        """Return the same with the agreed spelling of its columns."""
        new = called(self.columns, names)
        if all(new[column] == column for column in self.columns):
            return self
        kinds = tuple(replace(each, name=new[each.name]) for each in self.categories)
        columns = tuple(new[column] for column in self.columns)
        return replace(self, columns=columns, categories=kinds)

    def ranges(self, embedding: Embedding) -> Ranges:
        """Return the rows and the extremes of these columns, if it tells them.

        Columns of levels are 0 and 1; those that it lacks have none.
        """
        names = embedding.names
        low, high, _, _ = self.stats(names)
        if low.size and embedding.features:
            has = [each for each in embedding.features if each.name in self.columns]
            own = {column for each in has for column in each.columns}
            is_level = np.array([name in own for name in names])
            low, high = np.where(is_level, 0.0, low), np.where(is_level, 1.0, high)
        return Ranges(self.n_rows, len(names), low, high)

    def stats(self, columns: Sequence[str]) -> ColumnStats:
        """Return where these columns lie, or nothing if it does not tell.

        Those that it lacks lie nowhere.
        """
        known = columns if self.low.size else ()
        places = {column: place for place, column in enumerate(self.columns)}
        at = np.array([places.get(column, -1) for column in known], dtype=np.int64)
        padded = [
            np.append(part, np.nan) for part in (self.low, self.high, self.middle)
        ]
        low, high, middle = (part[at] for part in padded)
        return ColumnStats(low, high, middle, high - low)


def announce(
    name: str,
    columns: Sequence[str],
    rows: Floats,
    units: Mapping[str, str],
    extremes: bool,
    shown: Floats | None = None,
    categories: Sequence[Category] = (),
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
    categories : sequence of Category
        Those among the columns, and what is told of them; no row tells anything else
        there (NaN).

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
        middle = _medians(T)
    own = plain_units(columns, units)
    made = Announcement(
        *(name, X.shape[0], tuple(columns), own, low, high, middle),
        categories=tuple(categories),
    )
    try:
        return check(made, extremes)
    except RejectedMessage as error:
        raise InputError(str(error)) from error


def _medians(X: Floats) -> Floats:
    """Return the medians of columns; NaN of those without a value."""
    held = ~np.isnan(X).all(axis=0)
    if held.all() and not np.isnan(X).any():
        return np.asarray(np.median(X, axis=0))
    medians = np.full(X.shape[1], np.nan)
    medians[held] = np.nanmedian(X[:, held], axis=0)
    return medians


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
    _check_categories(payload)
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


def _check_categories(site: Announcement) -> None:
    name, categories = site.name, site.categories
    refuse_unless(
        isinstance(categories, tuple)
        and all(isinstance(each, Category) for each in categories),
        f"{name}: categories must be a tuple of them",
    )
    named = [each.name for each in categories]
    refuse_unless(
        len(set(named)) == len(named) and set(named) <= set(site.columns),
        f"{name}: a category is one of its columns, named once",
    )
    for each in categories:
        keys = {level_key(level) for level in each.levels}
        refuse_unless(
            all(_is_text(level) and level.isprintable() for level in each.levels)
            and "" not in keys
            and len(keys) == len(each.levels),
            f"{name}: a level of {each.name!r} is a word of at most {LONGEST} "
            "characters, told once",
        )
    refuse_unless(
        _is_text(site.names_key) and site.names_key.isprintable(),
        f"{name}: what marks its key of names is a word",
    )
    refuse_unless(type(site.may_lack) is bool, f"{name}: it may lack columns, or not")


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
    kinds = site.levels
    blank = np.array([c in kinds for c in site.columns], dtype=np.bool_)[:expected]
    refuse_unless(
        all(bool(np.isnan(part[blank]).all()) for part in parts),
        f"{name}: a category has no extremes and no median",
    )
    low, high, middle = (part[~blank] for part in parts)
    refuse_unless(
        all(bool((np.abs(part) <= LARGEST).all()) for part in (low, high, middle)),
        f"{name}: extremes and medians must be finite, and at most {LARGEST:g}",
    )
    refuse_unless(
        bool(((low <= middle) & (middle <= high)).all()),
        f"{name}: a median lies outside its column's extremes",
    )

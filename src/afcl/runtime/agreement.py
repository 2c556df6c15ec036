# SPDX-License-Identifier: Apache-2.0
"""Before the first round: who takes part, with which columns, on which scale.

Every site announces itself once. From all announcements and the coordinator's wishes
comes one agreement, frozen from then on; who comes later is measured against it. All
of it is pure: lines for people are returned, never printed, and no answer depends on
the order in which the announcements came.

What is refused and what is only noted: a site that lacks a column or rows, or declares
another unit, is refused. A column that merely *looks* as if it were in another unit is
noted, because sites may really differ.
"""

from __future__ import annotations

import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload, refuse_unless
from afcl.core.scale import Box, Ranges, given_box, minmax_box, no_box
from afcl.exceptions import InputError, RejectedMessage
from afcl.runtime.looks import Extents, looks

#: Limits on what a site may announce.
LONGEST = 200
MOST_COLUMNS = 100_000
MOST_ROWS = 10**12
LARGEST = 1e300
#: Not in a site's name: names become file names, on any system.
FORBIDDEN = frozenset('<>:"/\\|?*')
#: Names in one line before it is cut short.
SHOWN = 8
#: A site with a smaller part of the median number of rows than this is noted.
SMALL = 0.05

#: Fewest other sites a column's looks are compared with.
OTHERS = 2
#: Among more sites than this one is compared with all, itself too: no median moves.
MANY = 256

Scale: TypeAlias = Literal["minmax"] | Mapping[str, tuple[float, float]] | None


@payload
@dataclass(frozen=True, slots=True)
class Announcement:
    """What a site says of itself before anything else.

    Reveals the number of rows, the names of all columns and their units, and of every
    column the exact minimum, maximum and median at this site: values of single rows.
    With public bounds (or no scaling) `low`, `high` and `middle` are empty, as they are
    without rows; then it reveals nothing but names, units and the number of rows.
    """

    name: str
    n_rows: int
    columns: tuple[str, ...]
    units: tuple[str, ...]
    low: Floats
    high: Floats
    middle: Floats


@dataclass(frozen=True)
class Wishes:
    """What the coordinator asks for.

    Attributes
    ----------
    columns : tuple of str or None
        Exactly these, in this order; None settles them among the sites.
    scale : "minmax", mapping from column to (low, high), or None
        Over the sites' extremes, by public bounds, or not at all.
    min_rows : int
        Fewest rows a site may have; without any row nobody takes part.
    group : int
        Extremes and medians are those of the means of groups of so many rows.
    """

    columns: tuple[str, ...] | None = None
    scale: Scale = "minmax"
    min_rows: int = 1
    group: int = 1

    def __post_init__(self) -> None:
        if self.columns is not None:
            if not self.columns:
                raise InputError(
                    "no columns named: name some, or leave it to the sites"
                )
            twice = [c for c, n in Counter(self.columns).items() if n > 1]
            if twice:
                raise InputError(
                    f"named twice: {_quoted(twice)}: name each column once"
                )
        if isinstance(self.scale, str) and self.scale != "minmax":
            raise InputError(
                f"scale {self.scale!r} is unknown: give 'minmax', bounds or None"
            )
        if isinstance(self.scale, Mapping):
            for column, (low, high) in self.scale.items():
                if not -LARGEST <= low <= high <= LARGEST:
                    raise InputError(
                        f"the bounds of {column!r} are ({low}, {high}): "
                        "give two finite numbers, the lower one first"
                    )

    @property
    def extremes(self) -> bool:
        """Whether the sites must tell their extremes and medians."""
        return self.scale == "minmax"


@dataclass(frozen=True)
class Agreement:
    """What holds for everybody, frozen once settled.

    Attributes
    ----------
    columns : tuple of str
    box : Box
        The scale of these columns.
    units : tuple of str
        One per column, "" where no accepted site declares one.
    rows : dict from str to int
        The accepted sites by name, sorted, and their numbers of rows.
    extents : Extents
        Of shape (n_sites, n_columns) in the order of `rows`, or (n_sites, 0) if they
        are not known: what later announcements are compared with.
    """

    columns: tuple[str, ...]
    box: Box
    units: tuple[str, ...]
    rows: dict[str, int]
    extents: Extents

    @cached_property
    def typical(self) -> Extents:
        """The medians over the sites."""
        return self.extents.typical()

    @cached_property
    def median_rows(self) -> float:
        """The median of the sites' rows."""
        return statistics.median(self.rows.values())


# ------------------------------------------------------------------ a site's side


def announce(
    name: str,
    columns: Sequence[str],
    rows: Floats,
    units: Mapping[str, str],
    extremes: bool,
    told: Floats | None = None,
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
    told : ndarray of shape (n_groups, n_columns), optional
        The means of groups of rows, of which they are told instead.

    Raises
    ------
    InputError
        If no coordinator would accept it.
    """
    unknown = [column for column in units if column not in columns]
    if unknown:
        raise InputError(f"a unit is given for {_quoted(unknown)}: no such column")
    X = np.asarray(rows, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != len(columns):
        raise InputError(f"{len(columns)} columns named, but the rows are {X.shape}")
    low = high = middle = np.empty(0)
    if extremes and X.shape[0]:
        T = X if told is None else told
        low, high, middle = T.min(axis=0), T.max(axis=0), np.median(T, axis=0)
    # µ has two code points and ° a few: units compare by what they look like.
    own = tuple(
        unicodedata.normalize("NFKC", units.get(column, "")).strip()
        for column in columns
    )
    said = Announcement(name, X.shape[0], tuple(columns), own, low, high, middle)
    try:
        return check(said, extremes)
    except RejectedMessage as error:
        raise InputError(str(error)) from error


def select(agreement_columns: Sequence[str], own_columns: Sequence[str]) -> Ints:
    """Return where a site finds the agreed columns in its own table.

    Examples
    --------
    >>> select(["age", "height"], ["height", "zip", "age"]).tolist()
    [2, 0]
    """
    places = {column: place for place, column in enumerate(own_columns)}
    missing = [column for column in agreement_columns if column not in places]
    if missing:
        raise InputError(f"agreed, but not in this table: {_quoted(missing)}")
    return np.array([places[c] for c in agreement_columns], dtype=np.int64)


# ------------------------------------------------------------------ one announcement


def check(said: object, extremes: bool) -> Announcement:
    """Return the announcement, or refuse what no honest site says.

    Parameters
    ----------
    said : object
        Whatever arrived.
    extremes : bool
        Whether minima, maxima and medians were asked for.

    Raises
    ------
    RejectedMessage
        With one line on what is wrong.
    """
    if not isinstance(said, Announcement):
        raise RejectedMessage("expected an announcement")
    _check_name(said.name)
    n_rows: Any = said.n_rows
    refuse_unless(
        type(n_rows) is int and 0 <= n_rows <= MOST_ROWS,
        f"{said.name}: the number of rows must be in 0 … {MOST_ROWS}",
    )
    _check_columns(said)
    _check_extents(said, said.name, len(said.columns) if extremes and n_rows else 0)
    return said


def _check_name(name: Any) -> None:
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


def _check_columns(said: Announcement) -> None:
    name, columns, units = said.name, said.columns, said.units
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
    if not isinstance(value, str) or len(value) > LONGEST:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _check_extents(extents: Any, name: str, expected: int) -> None:
    parts = (extents.low, extents.high, extents.middle)
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


# ------------------------------------------------------------------ everybody's


def settle(
    wishes: Wishes, announcements: Sequence[Announcement]
) -> tuple[Agreement | None, dict[str, str], list[str]]:
    """Agree with the sites that are there.

    Parameters
    ----------
    wishes : Wishes
    announcements : sequence of Announcement
        Checked ones, with extremes if `wishes.extremes`; their order does not matter.

    Returns
    -------
    agreement : Agreement or None
        None if no site fits.
    refusals : dict from str to str
        By the name of the site, one line each that says what to do.
    notes : list of str
        Lines for the coordinator.

    Raises
    ------
    InputError
        If an agreed column has no bounds although bounds are given.

    Notes
    -----
    Refused are, in this order: sites whose names differ at most by case (all of them),
    sites with too few rows, sites that lack an agreed column, sites that declare
    another unit. Each step looks only at the sites that are left.

    Unless named, the agreed columns are those that more than half of the sites have.
    They come in the order of the site that has most of them (of several, the first by
    name); what that one lacks follows in the order of the next such site.

    The columns depend on everybody, also on who is refused. To settle again with the
    accepted sites alone, name the agreed columns: the agreement is the same then.
    """
    refusals = _namesakes(announcements)
    sites = [site for site in announcements if site.name not in refusals]
    sites.sort(key=lambda site: site.name)
    sites = _sift(sites, refusals, lambda site: _too_few(site, wishes.min_rows))
    columns = wishes.columns or _common(sites)
    notes = [] if wishes.columns else _spellings(sites, columns)
    fitting = _sift(sites, refusals, lambda site: _lacks(site, columns))
    if sites and columns and not fitting:
        notes.append(f"no site has all of {_quoted(columns)}: name the columns to use")
    units = _units(columns, fitting)
    fitting = _sift(fitting, refusals, lambda site: _other_units(site, columns, units))
    if not fitting:
        return None, refusals, notes
    agreement = _agreement(wishes.scale, columns, fitting)
    notes += _constant(agreement)
    for site in fitting:
        notes += _notes(agreement, site)
    return agreement, refusals, notes


def admit(
    agreement: Agreement, wishes: Wishes, said: Announcement
) -> tuple[str | None, list[str]]:
    """Measure a late or returning site against the agreement, which does not change.

    Parameters
    ----------
    agreement : Agreement
    wishes : Wishes
        The ones it was settled with.
    said : Announcement
        A checked one.

    Returns
    -------
    refusal : str or None
        One line that says what to do, None if the site is welcome.
    notes : list of str
        Lines for the coordinator, none about a site that is refused.
    """
    refusal = (
        _resembles(said.name, agreement.rows)
        or _too_few(said, wishes.min_rows)
        or _lacks(said, agreement.columns)
        or _other_units(said, agreement.columns, agreement.units)
    )
    if refusal:
        return refusal, []
    notes = _notes(agreement, said)
    before = agreement.rows.get(said.name, said.n_rows)
    if said.n_rows != before:
        notes.append(f"{said.name}: is back with {_rows(said.n_rows)}, it had {before}")
    return None, notes


def _agreement(
    scale: Scale, columns: tuple[str, ...], sites: Sequence[Announcement]
) -> Agreement:
    parts = [_extents(site, columns) for site in sites]
    extents = Extents(*(np.array(part) for part in zip(*parts, strict=True)))
    rows = {site.name: site.n_rows for site in sites}
    box = _box(scale, columns, list(rows.values()), extents)
    return Agreement(columns, box, _units(columns, sites), rows, extents)


def _extents(site: Announcement, columns: Sequence[str]) -> Extents:
    """Return the extents of these columns, or nothing if they are not known."""
    places = select(columns if site.low.size else (), site.columns)
    low, high, middle = site.low[places], site.high[places], site.middle[places]
    return Extents(low, high, middle, high - low)


def _box(
    scale: Scale, columns: Sequence[str], rows: Sequence[int], extents: Extents
) -> Box:
    if scale is None:
        return no_box(len(columns))
    if isinstance(scale, str):
        each = zip(rows, extents.low, extents.high, strict=True)
        return minmax_box([Ranges(n, len(columns), low, high) for n, low, high in each])
    missing = [column for column in columns if column not in scale]
    if missing:
        raise InputError(
            f"no bounds are given for {_quoted(missing)}: "
            "give them, or name the columns to use"
        )
    low, high = np.array([scale[column] for column in columns], dtype=np.float64).T
    return given_box(low, high)


# ------------------------------------------------------------------ refusals


def _sift(
    sites: Sequence[Announcement],
    refusals: dict[str, str],
    reason: Callable[[Announcement], str | None],
) -> list[Announcement]:
    """Return the sites without a reason against them; the others' are written down."""
    kept = []
    for site in sites:
        line = reason(site)
        if line is None:
            kept.append(site)
        else:
            refusals[site.name] = line
    return kept


def _namesakes(sites: Sequence[Announcement]) -> dict[str, str]:
    """Return refusals of all sites whose names are the same, or nearly."""
    times = Counter(site.name.casefold() for site in sites)
    return {
        name: f"{times[name.casefold()]} sites are called {name} (in upper or lower "
        "case): give each a name of its own"
        for name in sorted(site.name for site in sites)
        if times[name.casefold()] > 1
    }


def _resembles(name: str, known: Mapping[str, int]) -> str | None:
    for other in known:
        if name != other and name.casefold() == other.casefold():
            return f"{name} differs only by case from {other}: choose another name"
    return None


def _too_few(site: Announcement, min_rows: int) -> str | None:
    fewest = max(min_rows, 1)
    if site.n_rows >= fewest:
        return None
    return (
        f"{site.name} has {_rows(site.n_rows)}, a site needs at least {fewest}: "
        "add rows or leave the site out"
    )


def _common(sites: Sequence[Announcement]) -> tuple[str, ...]:
    """Return the columns that more than half of the sites have; see `settle`."""
    times = Counter(column for site in sites for column in site.columns)
    common = {column for column, n in times.items() if 2 * n > len(sites)}
    ranked = sorted(
        sites, key=lambda site: (-len(common.intersection(site.columns)), site.name)
    )
    order = dict.fromkeys(column for site in ranked for column in site.columns)
    return tuple(column for column in order if column in common)


def _lacks(site: Announcement, columns: Sequence[str]) -> str | None:
    """Return a line that names the agreed columns this site does not have."""
    if not columns:
        return (
            f"{site.name} has {_quoted(site.columns)}, but more than half of the sites "
            "have no column in common: give the same columns the same names"
        )
    agreed, own = set(columns), set(site.columns)
    lacking = [column for column in columns if column not in own]
    if not lacking:
        return None
    spare = {_plain(c): c for c in reversed(site.columns) if c not in agreed}
    near = [spare.get(_plain(column)) for column in lacking]
    parts = [
        repr(column) if other is None else f"{column!r} (it has {other!r})"
        for column, other in zip(lacking, near, strict=True)
    ]
    what, it = ("column", "it") if len(lacking) == 1 else ("columns", "them")
    verbs = "rename" * any(near), "add" * (None in near)
    advice = " or ".join(filter(None, verbs))
    return f"{site.name} lacks {what} {_listed(parts)}: {advice} {it}"


def _plain(column: str) -> str:
    """Return the name without what people vary: case, spaces, underscores, hyphens."""
    folded = unicodedata.normalize("NFKC", column).casefold()
    return "".join(folded.split()).replace("_", "").replace("-", "")


def _units(columns: Sequence[str], sites: Sequence[Announcement]) -> tuple[str, ...]:
    """Return per column the unit most declared (of several, the first by name)."""
    times = {column: Counter[str]() for column in columns}
    for site in sites:
        for column, unit in zip(site.columns, site.units, strict=True):
            if unit and column in times:
                times[column][unit] += 1
    return tuple(
        min(declared, key=lambda unit: (-declared[unit], unit), default="")
        for declared in times.values()
    )


def _other_units(
    site: Announcement, columns: Sequence[str], units: Sequence[str]
) -> str | None:
    """Return a line that names the columns this site declares in another unit."""
    own = dict(zip(site.columns, site.units, strict=True))
    wrong = [
        f"{column!r} in {own[column]}, the others in {unit}"
        for column, unit in zip(columns, units, strict=True)
        if own[column] and unit and own[column] != unit
    ]
    if not wrong:
        return None
    it = "it" if len(wrong) == 1 else "them"
    return f"{site.name} gives {_listed(wrong, '; ')}: convert {it}"


# ------------------------------------------------------------------ notes


def _spellings(sites: Sequence[Announcement], columns: Sequence[str]) -> list[str]:
    """Note the columns that most sites have, but not under one name."""
    agreed = {_plain(column) for column in columns}
    written: dict[str, set[str]] = {}
    times: Counter[str] = Counter()
    for site in sites:
        plain = {column: _plain(column) for column in site.columns}
        times.update(set(plain.values()) - agreed)
        for column, name in plain.items():
            written.setdefault(name, set()).add(column)
    return [
        f"not used, as sites write it differently: {_quoted(sorted(written[name]))}"
        for name in sorted(times)
        if 2 * times[name] > len(sites)
    ]


def _constant(agreement: Agreement) -> list[str]:
    """Note the columns that have one value only, over all sites."""
    low, high = agreement.extents.low, agreement.extents.high
    if not low.size:
        return []
    flat = np.flatnonzero(low.min(axis=0) == high.max(axis=0))
    if not flat.size:
        return []
    names = [agreement.columns[column] for column in flat]
    return [f"without effect, as all rows have one value there: {_quoted(names)}"]


def _notes(agreement: Agreement, site: Announcement) -> list[str]:
    """Return what the coordinator should know of a site that is accepted."""
    notes = []
    agreed = set(agreement.columns)
    unused = [column for column in site.columns if column not in agreed]
    if unused:
        notes.append(f"{site.name}: not used: {_quoted(unused)}")
    median = agreement.median_rows
    if site.n_rows < SMALL * median:
        notes.append(
            f"{site.name}: {_rows(site.n_rows)}, far fewer than the others "
            f"(median {median:g})"
        )
    return notes + _unit_notes(agreement, site)


def _unit_notes(agreement: Agreement, site: Announcement) -> list[str]:
    """Note the columns that look as if they were in another unit."""
    count = len(agreement.rows) - (site.name in agreement.rows)
    if count < OTHERS or not (agreement.extents.low.size and site.low.size):
        return []
    own = _extents(site, agreement.columns)
    if count < MANY:
        others = [i for i, name in enumerate(agreement.rows) if name != site.name]
        found = looks(own, Extents(*(part[others] for part in agreement.extents)))
    else:
        found = looks(own, agreement.extents, agreement.typical)
    notes = []
    for (conversion, larger), places in found.items():
        names = [agreement.columns[place] for place in places]
        one = len(names) == 1
        shift = f", and {conversion.offset:g} off" if conversion.offset else ""
        notes.append(
            f"{site.name}: column{'' if one else 's'} {_quoted(names)} "
            f"look{'s' if one else ''} about {conversion.factor:.10g} times as "
            f"{'large' if larger else 'small'} as at the others{shift}: another unit? "
            f"({conversion.units})"
        )
    return notes


# ------------------------------------------------------------------ words


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _quoted(names: Sequence[str]) -> str:
    return _listed([repr(name) for name in names])


def _listed(parts: Sequence[str], mark: str = ", ") -> str:
    """Join the parts of a line, and cut a long line short."""
    more = f"{mark}… ({len(parts)} in all)" if len(parts) > SHOWN else ""
    return mark.join(parts[:SHOWN]) + more

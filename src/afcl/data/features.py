# SPDX-License-Identifier: Apache-2.0
"""Columns that are not numbers: which are categories, and how these become numbers.

A category becomes one column of 0 and 1 for each of its levels, `colour=red`. Levels
are spelt in any case and with any white space around. A site names a level only if it
has enough rows of it; what nobody names is no level: rows of it have 0 everywhere.

Levels that have an order, which is declared, become one column of ranks: 0, 1, 2, …
Parts of dates, which are declared too, become what :mod:`afcl.data.date_parts` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from afcl._typing import Floats
from afcl.data.date_parts import checked_parts, part_bounds, part_columns
from afcl.data.errors import fail

#: What stands between a category and its level in the name of a column.
IS = "="
#: From so many rows on, texts that are nearly all different are names of rows.
FEW_ROWS = 20
#: How many of them are different then.
DIFFERENT = 0.9
#: Text of more levels than these is free text,
MOST_LEVELS = 50
#: and so is that of which a smaller share is in levels that are named.
COVERED = 0.5
#: A column of numbers with a larger share of other cells is one of texts.
STRAY = 0.5
#: The squared distance of two levels of one category, see decision 0031. A number's
#: largest is 1.
MISMATCH = 1 / 16
#: What a column of 0 and 1 is divided by for that: two levels differ in two columns.
WIDTH = (2 / MISMATCH) ** 0.5
#: How far apart two neighbouring levels that have an order are: as two of a category.
STEP = 1 / 4
#: How far apart the lowest and the highest are at most; a number's ends are 1 apart.
LONGEST_ORDER = 0.5


#: The two levels of a column of booleans, and what they are in one of numbers.
TRUE_OR_FALSE = ("false", "true")
ALIASES = {"0": "false", "1": "true"}


@dataclass(frozen=True, slots=True)
class Feature:
    """A category: its name and its levels, in the order of their columns.

    Attributes
    ----------
    name : str
    levels : tuple of str
    ordered : bool
        Whether the levels have an order, from the lowest on: one column of ranks.
    parts : bool
        Whether it is a date of which parts count: the levels are these.
    """

    name: str
    levels: tuple[str, ...]
    ordered: bool = False
    parts: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns.

        Examples
        --------
        >>> Feature("colour", ("blue", "red")).columns
        ('colour=blue', 'colour=red')
        >>> Feature("pain", ("none", "some", "much"), ordered=True).columns
        ('pain',)
        """
        if self.ordered:
            return (self.name,)
        if self.parts:
            return part_columns(self.name, self.levels)
        return tuple(f"{self.name}{IS}{level}" for level in self.levels)

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """The bounds of its columns, which give them their weight; NaN: a number."""
        if self.parts:
            return tuple(part_bounds(self.levels))
        steps = len(self.levels) - 1
        if self.ordered:
            return ((0.0, steps / min(LONGEST_ORDER, steps * STEP)),)
        return ((0.0, WIDTH),) * len(self.levels)

    @property
    def shares(self) -> bool:
        """Whether its columns are 0 and 1, so that centres are shares of rows."""
        return not (self.ordered or self.parts)

    def nearest(self, rank: float) -> str:
        """Return the level that a mean rank is nearest to.

        Examples
        --------
        >>> Feature("pain", ("none", "some", "much"), ordered=True).nearest(1.4)
        'some'
        """
        return self.levels[round(min(max(rank, 0.0), len(self.levels) - 1.0))]

    def content(self) -> dict[str, Any]:
        """Return what a file keeps of it."""
        order = {"ordered": True} if self.ordered else {}
        parts = {"parts": True} if self.parts else {}
        return {"name": self.name, "levels": list(self.levels), **order, **parts}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Return what a file has kept."""
        levels = tuple(content["levels"])
        kind = bool(content.get("ordered")), bool(content.get("parts"))
        return cls(content["name"], levels, *kind)


def bounds_of(
    columns: Sequence[str], features: Sequence[Feature]
) -> tuple[Floats, Floats]:
    """Return the bounds of categories, which give them their weight; NaN: a number."""
    own: dict[str, tuple[float, float]] = {}
    for each in features:
        own |= zip(each.columns, each.bounds, strict=True)
    both = [own.get(column, (np.nan, np.nan)) for column in columns]
    low, high = np.array(both, dtype=np.float64).reshape(-1, 2).T
    return low, high


@dataclass(frozen=True, slots=True)
class Embedding:
    """How columns of numbers and texts become tables of numbers.

    Attributes
    ----------
    columns : tuple of str
        Of the files or frames, in order; what was left out is not among them.
    features : tuple of Feature
        The categories among them.
    dates : tuple of str
        The dates among them, which become numbers of days.
    coded : bool
        Whether a category stays one column, of the places of its levels, for levels
        are settled later.
    flags : bool
        Whether true and false are 1 and 0 in columns of numbers: it was settled which
        these are.
    """

    columns: tuple[str, ...]
    features: tuple[Feature, ...]
    dates: tuple[str, ...] = ()
    coded: bool = False
    flags: bool = False

    @classmethod
    def of_names(
        cls,
        names: Sequence[str],
        features: Sequence[Feature],
        dates: Sequence[str] = (),
    ) -> Embedding:
        """Return the embedding whose tables have these columns.

        Examples
        --------
        >>> colour = Feature("colour", ("blue", "red"))
        >>> Embedding.of_names(["size", *colour.columns], [colour]).columns
        ('size', 'colour')
        """
        of = {column: each.name for each in features for column in each.columns}
        columns = tuple(dict.fromkeys(of.get(name, name) for name in names))
        return cls(columns, tuple(features), tuple(dates))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the tables."""
        if self.coded:
            return self.columns
        own = {feature.name: feature.columns for feature in self.features}
        return tuple(n for c in self.columns for n in own.get(c, (c,)))

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """The bounds of categories, which give them their weight; NaN: a number."""
        return bounds_of(self.names, self.features)


@dataclass(frozen=True, slots=True)
class Texts:
    """What one site knows of a column of texts.

    Attributes
    ----------
    levels : mapping from str to int
        How many rows have each, by the spelling that comes first.
    numbers, dates : int
        How many cells are numbers, true and false among them, and how many are dates.
    slip : bool
        Whether a cell would be a number if it were written otherwise.
    """

    levels: Mapping[str, int]
    numbers: int = 0
    dates: int = 0
    slip: bool = False

    @property
    def mixed(self) -> bool:
        """Whether they are numbers with some other cells among them."""
        odd = self.n_values - self.numbers
        return 0 < odd and (self.slip or odd <= STRAY * self.n_values)

    @property
    def mostly_dates(self) -> bool:
        """Whether they are dates, but for a few."""
        return self.dates > DIFFERENT * self.n_values

    @property
    def n_values(self) -> int:
        """Cells that have a value."""
        return sum(self.levels.values())

    def covered(self, least: int) -> bool:
        """Whether enough cells are in levels that so many rows have."""
        held = sum(n for n in self.levels.values() if n >= least)
        return held >= COVERED * self.n_values

    @property
    def all_differ(self) -> bool:
        """Whether they are names of rows, rather than of kinds of rows."""
        n = self.n_values
        return n >= FEW_ROWS and len(self.levels) > DIFFERENT * n


def texts_of(values: Sequence[Any]) -> Texts:
    """Count the levels of a column; None is no value.

    Examples
    --------
    >>> dict(texts_of(["red", "Red ", None, "blue"]).levels)
    {'red': 2, 'blue': 1}
    """
    spelt: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for value, n in Counter(v for v in values if v is not None).items():
        key = level_key(value)
        # Numbers have one spelling only.
        own = key if key.isdecimal() else str(value).strip()
        counts[spelt.setdefault(key, own)] += n
    return Texts(counts)


def level_key(value: Any) -> str:
    """Return what is the same for all spellings of a level.

    Examples
    --------
    >>> level_key(" Rather  Red"), level_key("2.0")
    ('rather red', '2')
    """
    key = " ".join(str(value).split()).casefold()
    try:
        number = float(key)
    except ValueError:
        return key
    return str(int(number)) if number.is_integer() else key


def agree(
    name: str, sites: Sequence[Texts], least: int
) -> tuple[Feature | None, list[str]]:
    """Settle the levels of a category: all that some site has enough rows of.

    Parameters
    ----------
    name : str
        The column.
    sites : sequence of Texts
    least : int
        Rows of a level that a site needs to name it.

    Returns
    -------
    feature : Feature or None
        None if the column is no category.
    notes : list of str
        What was left out and why.

    Examples
    --------
    >>> north = texts_of(["red"] * 6 + ["Blue"] * 5 + ["green"])
    >>> south = texts_of(["blue"] * 8)
    >>> agree("colour", [north, south], 5)[0].levels
    ('Blue', 'red')
    """
    sites = _of_booleans(sites)
    named: dict[str, str] = {}
    for site in sites:
        for level, n in site.levels.items():
            if n >= least:
                named.setdefault(level_key(level), level)
    every = Counter[str]()
    for site in sites:
        for level, n in site.levels.items():
            every[level_key(level)] += n
    values = sum(every.values())
    if any(site.mostly_dates for site in sites):
        days = f"dates; --date {name} counts its days"
        parts = f"--date '{name}=month|hour' parts of them"
        return None, [f"column {name!r} left out: {days}, {parts}"]
    if any(site.all_differ for site in sites) or len(named) > MOST_LEVELS:
        what = f"{len(every)} different texts in {values} cells are no kinds of rows"
        return None, [f"column {name!r} left out: {what}"]
    if sum(every[key] for key in named) < COVERED * values:
        what = f"hardly a text is in {least} rows of a site"
        return None, [f"column {name!r} left out: {what}"]
    if len(named) < 2 and len(every) - len(named) < 2:
        return None, [f"column {name!r} left out: it says the same of all rows"]
    rare = values - sum(every[key] for key in named)
    notes = []
    if rare:
        cells = "1 cell" if rare == 1 else f"{rare} cells"
        count = len(every) - len(named)
        levels = "a rare level" if count == 1 else f"{count} rare levels"
        none = f"{'counts' if rare == 1 else 'count'} as none of the others"
        notes.append(f"column {name!r}: {cells} of {levels} {none}")
    return Feature(name, tuple(sorted(named.values(), key=level_key))), notes


def are_numbers(sites: Sequence[Texts]) -> bool:
    """Whether a column is of numbers, with true and false among them as 1 and 0.

    Examples
    --------
    >>> are_numbers([Texts({"2": 5, "true": 1}, numbers=6)])
    True
    >>> are_numbers([Texts({"0": 5, "true": 1}, numbers=6)])
    False
    """
    keys = {level_key(level) for site in sites for level in site.levels}
    if keys <= {*TRUE_OR_FALSE, *ALIASES}:
        return False
    return all(site.numbers == site.n_values for site in sites)


def _of_booleans(sites: Sequence[Texts]) -> Sequence[Texts]:
    """Return a column as true and false also where a site has 1 and 0."""
    keys = {level_key(level) for site in sites for level in site.levels}
    if not keys & {*TRUE_OR_FALSE} or not keys <= {*TRUE_OR_FALSE, *ALIASES}:
        return sites
    counts = []
    for site in sites:
        own = Counter[str]()
        for level, n in site.levels.items():
            key = level_key(level)
            own[ALIASES.get(key, key)] += n
        counts.append(own)
    return [replace(site, levels=own) for site, own in zip(sites, counts, strict=True)]


def ordered_feature(option: str, name: str, levels: Sequence[Any]) -> Feature:
    """Return levels with an order, or refuse what is none.

    Examples
    --------
    >>> ordered_feature("--ordinal", "pain", ["none", "some", "much"]).ordered
    True
    """
    texts = [str(level).strip() for level in levels]
    if len({level_key(text) for text in texts}) < len(texts):
        raise fail(f"{option} names a level of {name!r} twice; name each once")
    if len(texts) < 2 or not all(texts):
        raise fail(
            f"{option} needs the levels of {name!r} from the lowest to the highest, "
            "two or more, such as mild<moderate<severe"
        )
    return Feature(name, tuple(texts), ordered=True)


def parts_of_dates(
    option: str, dates: Mapping[str, Sequence[Any]]
) -> dict[str, Feature]:
    """Return the dates of which parts count, or refuse what is no part.

    Examples
    --------
    >>> parts_of_dates("--date", {"visit": ["hour"], "born": []})["visit"].columns
    ('visit hour cos', 'visit hour sin')
    """
    return {
        name: Feature(name, checked_parts(option, name, parts), parts=True)
        for name, parts in dates.items()
        if parts
    }

# SPDX-License-Identifier: Apache-2.0
"""What sites of a live run agreed on, and what the coordinator should know of them."""

from __future__ import annotations

import statistics
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from afcl.data.features import Embedding, Feature
from afcl.data.unit_check import ColumnStats, converted_columns
from afcl.runtime.agreement import Agreement, listed, quoted
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.live.spelling import called

#: A site with a smaller part of the median number of rows than this is noted.
SMALL = 0.05
#: Fewest other sites that the units of a column are compared with.
OTHERS = 2
#: Among more sites than this one is compared with all, itself too: no median moves.
MANY = 256


@dataclass(frozen=True)
class SiteAgreement(Agreement):
    """The agreement of a live run, and what later announcements are compared with.

    Attributes
    ----------
    units : tuple of str
        One per column of the sites' files, "" where no accepted site declares one.
    rows : dict from str to int
        The accepted sites by name, sorted, and their numbers of rows.
    stats : ColumnStats
        Of shape (n_sites, n_numbers) in the order of `rows`, or (n_sites, 0) if they
        are not known.
    lacking : mapping from str to tuple of str
        Columns that accepted sites lack, by the site.
    names_key : str
        Marks the key that names of levels are hashed with.
    """

    units: tuple[str, ...]
    rows: dict[str, int]
    stats: ColumnStats
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names_key: str = ""

    @cached_property
    def embedding(self) -> Embedding:
        """Columns of the sites' files, and how they become those of the tables."""
        features = [Feature(each.name, each.levels) for each in self.categories]
        return Embedding.of_names(self.columns, features)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are no categories."""
        kinds = {each.name for each in self.categories}
        return tuple(c for c in self.embedding.columns if c not in kinds)

    def held(self, site: Announcement) -> dict[str, int]:
        """Return how many sites have each column, this one not counted."""
        others = [name for name in self.rows if name != site.name]
        missed = Counter(c for name in others for c in self.lacking.get(name, ()))
        return {c: len(others) - missed[c] for c in self.embedding.columns}

    @cached_property
    def typical(self) -> ColumnStats:
        """The medians over the sites."""
        return self.stats.typical()

    @cached_property
    def median_rows(self) -> float:
        """The median of the sites' rows."""
        return statistics.median(self.rows.values())


def spellings(sites: Sequence[Announcement], columns: Sequence[str]) -> list[str]:
    """Note the columns that most sites have, but not under one name."""
    agreed = {plain_name(column) for column in columns}
    written: dict[str, set[str]] = {}
    times: Counter[str] = Counter()
    for site in sites:
        plain = {column: plain_name(column) for column in site.columns}
        times.update(set(plain.values()) - agreed)
        for column, name in plain.items():
            written.setdefault(name, set()).add(column)
    return [
        f"not used, as sites write it differently: {quoted(sorted(written[name]))}"
        for name in sorted(times)
        if 2 * times[name] > len(sites)
    ]


def constant_columns(agreement: SiteAgreement) -> list[str]:
    """Note the columns that have one value only, over all sites."""
    low, high = agreement.stats.low, agreement.stats.high
    if not low.size:
        return []
    flat = np.flatnonzero(np.fmin.reduce(low) == np.fmax.reduce(high))
    if not flat.size:
        return []
    names = [agreement.numbers[column] for column in flat]
    return [f"without effect, as all rows have one value there: {quoted(names)}"]


def site_notes(agreement: SiteAgreement, site: Announcement) -> list[str]:
    """Return what the coordinator should know of a site that is accepted."""
    notes = []
    agreed = set(agreement.embedding.columns)
    unused = [column for column in site.columns if column not in agreed]
    if unused:
        notes.append(f"{site.name}: not used: {quoted(unused)}")
    lacking = lacks(site, agreement.embedding.columns)
    if lacking:
        notes.append(
            f"{site.name}: lacks {quoted(lacking)}, what is usual at the others stands "
            "there"
        )
    median = agreement.median_rows
    if site.n_rows < SMALL * median:
        notes.append(
            f"{site.name}: {rows_text(site.n_rows)}, far fewer than the others "
            f"(median {median:g})"
        )
    return notes + _unit_notes(agreement, site)


def _unit_notes(agreement: SiteAgreement, site: Announcement) -> list[str]:
    """Note the columns that look as if they were in another unit."""
    count = len([name for name in agreement.rows if name != site.name])
    if count < OTHERS or not (agreement.stats.low.size and site.low.size):
        return []
    own = site.stats(agreement.numbers)
    if count < MANY:
        others = [i for i, name in enumerate(agreement.rows) if name != site.name]
        found = converted_columns(
            own, ColumnStats(*(part[others] for part in agreement.stats))
        )
    else:
        found = converted_columns(own, agreement.stats, agreement.typical)
    notes = []
    for (conversion, larger), places in found.items():
        names = [agreement.numbers[place] for place in places]
        one = len(names) == 1
        shift = f", and {conversion.offset:g} off" if conversion.offset else ""
        notes.append(
            f"{site.name}: column{'' if one else 's'} {quoted(names)} "
            f"look{'s' if one else ''} about {conversion.factor:.10g} times as "
            f"{'large' if larger else 'small'} as at the others{shift}: another unit? "
            f"({conversion.units})"
        )
    return notes


def respelt(site: Announcement, names: Sequence[str]) -> list[str]:
    """Note the columns of a site that go by another spelling."""
    new = called(site.columns, names)
    pairs = [f"{own!r} is {name!r}" for own, name in new.items() if own != name]
    return [f"{site.name}: {listed(pairs)}"] if pairs else []


def lacks(site: Announcement, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that a site does not have."""
    own = set(site.columns)
    return tuple(column for column in columns if column not in own)


def plain_name(column: str) -> str:
    """Return the name without what people vary: case, spaces, underscores, hyphens."""
    folded = unicodedata.normalize("NFKC", column).casefold()
    return "".join(folded.split()).replace("_", "").replace("-", "")


def rows_text(count: int) -> str:
    """Return a number of rows for people to read."""
    return "1 row" if count == 1 else f"{count} rows"

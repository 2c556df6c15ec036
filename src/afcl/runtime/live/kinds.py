# SPDX-License-Identifier: Apache-2.0
"""Which columns of a live run are categories, with which levels: from what sites say.

A column is what more than half of the sites that have it take it for, unless the
coordinator has declared it. All levels count that some site names; a site names those
that enough of its rows have. All of it is pure, as in :mod:`.settlement`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from afcl.core.terms import Category
from afcl.data.errors import drop_option, naming
from afcl.data.features import MOST_LEVELS, Embedding, Feature, level_key
from afcl.exceptions import InputError
from afcl.runtime.agreement import AgreementRequest, quoted
from afcl.runtime.live.announcement import Announcement

#: Fewest levels of a category that tells rows apart.
FEWEST = 2


def features_of(categories: Sequence[Category]) -> tuple[Feature, ...]:
    """Return categories as tables know them."""
    return tuple(Feature(each.name, each.levels) for each in categories)


def categories_among(
    columns: Sequence[str],
    sites: Sequence[Announcement],
    declared: Collection[str],
) -> frozenset[str]:
    """Return the columns that are categories."""
    have: Counter[str] = Counter()
    say: Counter[str] = Counter()
    for site in sites:
        have.update(site.columns)
        say.update(site.levels.keys())
    return frozenset(c for c in columns if c in declared or 2 * say[c] > have[c])


def other_kind(
    site: Announcement, columns: Sequence[str], categories: Collection[str]
) -> str | None:
    """Return a line on the columns that are something else at this site."""
    here = site.levels
    held = [column for column in columns if column in site.columns]
    numbers = [c for c in held if c in categories and c not in here]
    texts = [c for c in held if c not in categories and c in here]
    if numbers:
        return (
            f"{site.name} has numbers in {quoted(numbers)}, a category at the others: "
            f"join with {naming('--category', *numbers)}"
        )
    if texts:
        return (
            f"{site.name} has a category in {quoted(texts)}, numbers at the others: "
            f"write numbers, or join with {drop_option(*texts)} --missing impute"
        )
    return None


def usual_key(sites: Sequence[Announcement]) -> str:
    """Return what marks the key that most sites hash names with."""
    marks = Counter(site.names_key for site in sites if _names_levels(site))
    return min(marks, key=lambda mark: (-marks[mark], mark), default="")


def other_key(site: Announcement, mark: str) -> str | None:
    """Return a line if this site's names of levels cannot be compared with others'."""
    if not _names_levels(site) or site.names_key == mark:
        return None
    return (
        f"{site.name} hashes names of levels otherwise than the others: join with the "
        "--names-key that they have, or without one if they have none"
    )


def _names_levels(site: Announcement) -> bool:
    return any(each.levels for each in site.categories)


def settled_levels(
    request: AgreementRequest,
    columns: Sequence[str],
    sites: Sequence[Announcement],
    is_category: Collection[str],
) -> tuple[tuple[Category, ...], dict[str, str]]:
    """Settle the levels of every category.

    Returns
    -------
    categories : tuple of Category
    useless : dict from str to str
        Notes on columns that tell no rows apart.
    """
    declared = {each.name: each for each in request.categories if each.levels}
    categories, useless = [], {}
    for column in (each for each in columns if each in is_category):
        found = declared.get(column) or _union(column, sites)
        reason = _useless(found, request.private)
        if reason:
            useless[column] = f"column {column!r} left out: {reason}"
        else:
            categories.append(found)
    if len(useless) == len(columns):
        raise InputError(f"no column is left: {'; '.join(useless.values())}")
    kept = tuple(column for column in columns if column not in useless)
    names = Embedding(kept, features_of(categories)).names
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise InputError(f"two columns would be called {quoted(twice)}: rename one")
    return tuple(categories), useless


def _union(column: str, sites: Sequence[Announcement]) -> Category:
    """Return all levels that somebody names, by the spelling that comes first."""
    named: dict[str, str] = {}
    hashed = False
    for site in sites:
        own = site.levels.get(column)
        if own is not None:
            hashed |= own.hashed
            for level in own.levels:
                named.setdefault(level_key(level), level)
    return Category(column, tuple(named[key] for key in sorted(named)), hashed)


def _useless(found: Category, private: bool) -> str:
    """Say why a category tells no rows apart; "": it does."""
    if private and not found.levels:
        raise InputError(
            f"with noise the levels of {found.name!r} must not come from the rows: "
            f"give afcl serve --category '{found.name}=LEVEL|LEVEL', or name the "
            "columns to use"
        )
    if len(found.levels) > MOST_LEVELS:
        return f"{len(found.levels)} levels are no kinds of rows"
    if len(found.levels) < FEWEST:
        return "no two levels of it have enough rows at a site"
    return ""

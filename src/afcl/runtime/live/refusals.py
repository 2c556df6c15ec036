# SPDX-License-Identifier: Apache-2.0
"""Why a site of a live run is refused: one line each, which says what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from afcl.runtime.agreement import listed, quoted
from afcl.runtime.live.announcement import Announcement
from afcl.runtime.live.notes import plain_name, rows_text


def namesakes(sites: Sequence[Announcement]) -> dict[str, str]:
    """Return refusals of all sites whose names are the same, or nearly."""
    times = Counter(site.name.casefold() for site in sites)
    return {
        name: f"{times[name.casefold()]} sites are called {name} (in upper or lower "
        "case): give each a name of its own"
        for name in sorted(site.name for site in sites)
        if times[name.casefold()] > 1
    }


def resembles(name: str, known: Mapping[str, int]) -> str | None:
    """Return a line that names the site this one could be taken for."""
    for other in known:
        if name != other and name.casefold() == other.casefold():
            return f"{name} differs only by case from {other}: choose another name"
    return None


def too_few(site: Announcement, min_rows: int) -> str | None:
    """Return a line on how many rows a site needs."""
    fewest = max(min_rows, 1)
    if site.n_rows >= fewest:
        return None
    return (
        f"{site.name} has {rows_text(site.n_rows)}, a site needs at least {fewest}: "
        "add rows or leave the site out"
    )


def lacks(site: Announcement, columns: Sequence[str]) -> str | None:
    """Return a line that names the agreed columns this site does not have."""
    if not columns:
        return (
            f"{site.name} has {quoted(site.columns)}, but more than half of the sites "
            "have no column in common: give the same columns the same names"
        )
    agreed, own = set(columns), set(site.columns)
    lacking = [column for column in columns if column not in own]
    if not lacking:
        return None
    spare = {plain_name(c): c for c in reversed(site.columns) if c not in agreed}
    near = [spare.get(plain_name(column)) for column in lacking]
    parts = [
        repr(column) if other is None else f"{column!r} (it has {other!r})"
        for column, other in zip(lacking, near, strict=True)
    ]
    what, it = ("column", "it") if len(lacking) == 1 else ("columns", "them")
    if None not in near:
        advice = "rename"
    elif any(near):
        advice = "rename or add"
    else:
        advice = "add"
    return f"{site.name} lacks {what} {listed(parts)}: {advice} {it}"


def other_units(
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
    return f"{site.name} gives {listed(wrong, '; ')}: convert {it}"

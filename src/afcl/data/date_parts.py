# SPDX-License-Identifier: Apache-2.0
"""Parts of dates: months, days of the week and hours go round, years go on.

December is next to January. So a part that goes round becomes a place on a circle, two
columns, in which opposite ones are as far apart as two levels of a category: see
docs/decisions/0031-mixed-columns.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from afcl._typing import Floats
from afcl.data.errors import fail

#: Columns of dates, with the parts of each that count where these are named.
Dates: TypeAlias = Sequence[str] | Mapping[str, Sequence[str]]
#: Parts that go round, and what their places are called.
ROUND: dict[str, tuple[str, ...]] = {
    "month": (
        *("January", "February", "March", "April", "May", "June", "July", "August"),
        *("September", "October", "November", "December"),
    ),
    "weekday": (
        *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
        "Sunday",
    ),
    "hour": tuple(f"{hour}:00" for hour in range(24)),
}
#: Parts that are numbers: days since 1970, as a date is without parts, and the year.
AMOUNTS = ("days", "year")
PARTS = (*AMOUNTS, *ROUND)
#: How far apart opposite places of a circle are: as two levels of a category.
ACROSS = 1 / 4
#: The bounds of its columns, which run from -1 to 1.
BOUNDS = (-1.0, -1.0 + 2 / ACROSS)
#: A day, in milliseconds.
DAY = 86_400_000


def with_parts(dates: Dates | None) -> Mapping[str, Sequence[str]]:
    """Return the parts that count of every date; none: it is a number of days.

    Examples
    --------
    >>> with_parts(["visit"]), with_parts({"visit": ["month"]})
    ({'visit': ()}, {'visit': ['month']})
    """
    if isinstance(dates, Mapping):
        return dates
    return dict.fromkeys([dates] if isinstance(dates, str) else dates or (), ())


def checked_parts(option: str, name: str, parts: Iterable[Any]) -> tuple[str, ...]:
    """Return parts of a date as they are called here, or refuse what is none.

    Examples
    --------
    >>> checked_parts("--date", "visit", ["Month", "hour"])
    ('month', 'hour')
    """
    found = tuple(str(part).strip().lower() for part in parts)
    for part in found:
        if part not in PARTS:
            raise fail(
                f"{option}: {part!r} is no part of the date {name!r}; there are "
                f"{', '.join(PARTS)}"
            )
    if len(set(found)) < len(found):
        raise fail(f"{option} names a part of {name!r} twice; name each once")
    return found


def part_columns(name: str, parts: Iterable[str]) -> tuple[str, ...]:
    """Return what the columns of a date's parts are called.

    Examples
    --------
    >>> part_columns("visit", ["year", "month"])
    ('visit year', 'visit month cos', 'visit month sin')
    """
    return tuple(
        f"{name} {part}{which}"
        for part in parts
        for which in ((" cos", " sin") if part in ROUND else ("",))
    )


def part_bounds(parts: Iterable[str]) -> Iterator[tuple[float, float]]:
    """Yield the bounds of their columns; NaN: a number, whose bounds are agreed on."""
    for part in parts:
        yield from [BOUNDS] * 2 if part in ROUND else [(np.nan, np.nan)]


def part_values(days: Floats, parts: Iterable[str]) -> Floats:
    """Return the columns of parts of dates, which are days since 1970; NaN: no date.

    Examples
    --------
    >>> part_values(np.array([0.5, np.nan]), ["year", "hour"]).round(2).tolist()
    [[1970.0, -1.0, 0.0], [nan, nan, nan]]
    """
    known = ~np.isnan(days)
    moments = np.rint(np.where(known, days, 0.0) * DAY).astype("datetime64[ms]")
    columns = []
    for part in parts:
        if part == "days":
            columns.append(days)
        elif part == "year":
            columns.append(moments.astype("datetime64[Y]").astype(np.int64) + 1970.0)
        else:
            angle = 2 * np.pi * _place(moments, part) / len(ROUND[part])
            columns += [np.cos(angle), np.sin(angle)]
    values = np.column_stack(columns)
    values[~known] = np.nan
    return values


def _place(moments: Any, part: str) -> Floats:
    """Return which month, day of the week or hour it is, from 0 on."""
    unit = {"month": "M", "weekday": "D", "hour": "h"}[part]
    since = moments.astype(f"datetime64[{unit}]").astype(np.int64)
    # The first day of 1970 was a Thursday.
    shift = 3 if part == "weekday" else 0
    place: Floats = ((since + shift) % len(ROUND[part])).astype(np.float64)
    return place


def named_place(part: str, cos: float, sin: float) -> str:
    """Return what a mean place is nearest to, and how far rows agree on it.

    Examples
    --------
    >>> named_place("month", 0.1, 0.7), named_place("hour", 0.01, 0.0)
    ('April (71%)', 'any')
    """
    names = ROUND[part]
    agreement = min(1.0, float(np.hypot(cos, sin)))
    if agreement < 0.1:
        return "any"
    turn = float(np.arctan2(sin, cos)) / (2 * np.pi)
    return f"{names[round(turn * len(names)) % len(names)]} ({agreement:.0%})"


def named_places(
    name: str, parts: Sequence[str], columns: Sequence[str], centers: Any
) -> Mapping[str, list[str]]:
    """Return, for every part that goes round, where the centres are."""
    found = {}
    for part in (part for part in parts if part in ROUND):
        cos, sin = (columns.index(each) for each in part_columns(name, [part]))
        found[part] = [named_place(part, row[cos], row[sin]) for row in centers]
    return found

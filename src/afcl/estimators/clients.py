# SPDX-License-Identifier: Apache-2.0
"""One table per client, as people have them: arrays, frames, or rows kept elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from afcl._typing import Floats
from afcl.core.rows import Source
from afcl.data.frames import from_frames
from afcl.exceptions import InputError

#: What a client works on.
Table: TypeAlias = Floats | Source


def titles(names: Sequence[str], roster: Sequence[str]) -> list[str]:
    """Return what messages call the tables of these clients.

    Clients without names of their own are numbered from 0, and tables from 1.

    Examples
    --------
    >>> titles(["0", "2"], ["0", "", "2"]), titles(["b"], ["a", "b"])
    (['table 1', 'table 3'], ['b'])
    """
    numbers = {name: place for place, name in enumerate(roster) if name}
    if any(name != str(place) for name, place in numbers.items()):
        return list(names)
    return [f"table {numbers[name] + 1}" for name in names]


def in_warnings(roster: Sequence[str], owned: bool) -> list[str]:
    """Return what warnings call clients, so that nobody counts from the wrong end.

    Names that are numbers are values of `clients` where rows are `owned`; where tables
    have no names they are places in their list, which messages count from 1.

    Examples
    --------
    >>> in_warnings(["0", "7"], owned=True), in_warnings(["a", "b"], owned=False)
    (['client 0', 'client 7'], ['a', 'b'])
    >>> in_warnings(["0", "1"], owned=False)[1]
    'table 2 (client 1, counted from 0)'
    """
    if owned:
        return [f"client {name}" if name.isdecimal() else name for name in roster]
    called = titles([name for name in roster if name], roster)
    numbered = dict(zip((name for name in roster if name), called, strict=True))
    return [
        name
        if numbered.get(name, name) == name
        else f"{numbered[name]} (client {name}, counted from 0)"
        for name in roster
    ]


def is_source(table: Any) -> bool:
    """Whether the rows are kept elsewhere and read part by part."""
    return bool(getattr(table, "streamed", False))


def aligned(tables: Sequence[Any]) -> tuple[list[Table], tuple[str, ...] | None]:
    """Return tables with the same columns, and the columns' names if they have any.

    Frames are matched by name; a source must have the columns in the order it is asked
    for.
    """
    held = [table for table in tables if not is_source(table)]
    arrays, names = from_frames(held) if held else ([], None)
    if not held:
        names = _names(tables[0])
    width = arrays[0].shape[1] if arrays else tables[0].shape[1]
    for number, table in enumerate(tables, 1):
        if is_source(table):
            _check(table, number, names, width)
    rest = iter(arrays)
    return [table if is_source(table) else next(rest) for table in tables], names


def _names(source: Any) -> tuple[str, ...] | None:
    return tuple(getattr(source, "columns", ())) or None


def _check(source: Any, number: int, names: tuple[str, ...] | None, width: int) -> None:
    have = _names(source)
    if have != names or source.shape[1] != width:
        own = "unnamed" if have is None else ", ".join(have)
        asked = f"{width} without names" if names is None else ", ".join(names)
        raise InputError(
            f"the columns of table {number} are {own}, those of the others {asked}: "
            "choose the same columns in the same order"
        )

# SPDX-License-Identifier: Apache-2.0
"""Which column a name means: by case and white space, or which one may be meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from afcl.data.errors import fail, listed

T = TypeVar("T")


def name_key(name: str) -> str:
    """Return what is the same for all spellings of a column's name.

    Examples
    --------
    >>> name_key("Blood  Group ") == name_key("bloodgroup")
    True
    """
    return "".join(name.split()).casefold()


def meant(name: str, columns: Iterable[str]) -> str | None:
    """Return the column that a name means; None: there is none, or there are two.

    Examples
    --------
    >>> meant("AGE", ["Age ", "sex"]), meant("AGE", ["Age", "age"])
    ('Age ', None)
    """
    every = tuple(columns)
    if name in every:
        return name
    alike = [column for column in every if name_key(column) == name_key(name)]
    return alike[0] if len(alike) == 1 else None


def nearest(name: str, columns: Iterable[str]) -> str:
    """Say which column may be meant by a name that none has; "": none is like it.

    Examples
    --------
    >>> nearest("Agee", ["sex", "age"])
    " (did you mean 'age'?)"
    >>> nearest("height", ["sex", "age"])
    ''
    """
    keys = {name_key(column): column for column in columns}
    found = get_close_matches(name_key(name), keys, n=1)
    return f" (did you mean {keys[found[0]]!r}?)" if found else ""


def in_use(option: str, name: str, columns: Sequence[str]) -> str:
    """Return the column in use that a name means, or refuse the name."""
    column = meant(name, columns)
    if column is None:
        raise fail(
            f"{option} names {name!r}, which is no column in use"
            f"{nearest(name, columns)}; these are {listed(columns)}"
        )
    return column


def by_column(
    option: str, declared: Mapping[str, T], columns: Sequence[str]
) -> dict[str, T]:
    """Return what is declared of columns by the names that these go by."""
    found: dict[str, T] = {}
    for name, value in declared.items():
        column = in_use(option, name, columns)
        if column in found:
            raise fail(f"{option} names {column!r} twice; name each column once")
        found[column] = value
    return found

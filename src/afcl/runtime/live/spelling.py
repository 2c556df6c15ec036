# SPDX-License-Identifier: Apache-2.0
"""Columns whose names differ in case and white space only are the same column.

As between files at one place (:mod:`afcl.data.columns`), unless a site has two of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from afcl.data.spelling import name_key


def called(own: Sequence[str], names: Iterable[str]) -> dict[str, str]:
    """Return under which of the agreed names each of a site's columns goes.

    One that is not among them keeps its own.

    Examples
    --------
    >>> called(["Age", "zip"], ["age", "height"])
    {'Age': 'age', 'zip': 'zip'}
    """
    agreed = tuple(names)
    wanted = Counter(map(name_key, agreed))
    here = Counter(map(name_key, own))
    by_key = {name_key(name): name for name in agreed}
    exact = set(agreed)

    def name(column: str) -> str:
        key = name_key(column)
        if column in exact or (wanted[key], here[key]) != (1, 1):
            return column
        return by_key[key]

    return {column: name(column) for column in own}


def one_name_each(
    sites: Sequence[Sequence[str]], wanted: Sequence[str] = ()
) -> list[str]:
    """Return the names that columns go by: those wanted, or as most sites spell them.

    Of spellings that are equally frequent it is that of the first site. Where a site
    has two columns that might be meant, all are what they are.

    Examples
    --------
    >>> one_name_each([["Age"], ["age", "zip"], ["age"]])
    ['age', 'zip']
    """
    unclear: set[str] = set()
    times: dict[str, Counter[str]] = {}
    for columns in sites:
        keys = Counter(map(name_key, columns))
        unclear.update(key for key, n in keys.items() if n > 1)
        for column in columns:
            times.setdefault(name_key(column), Counter())[column] += 1
    known = set(map(name_key, wanted))
    names = list(wanted)
    for key, spellings in times.items():
        if key in unclear:
            names += [name for name in spellings if name not in wanted]
        elif key not in known:
            names.append(spellings.most_common(1)[0][0])
    return names

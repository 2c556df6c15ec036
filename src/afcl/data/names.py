# SPDX-License-Identifier: Apache-2.0
"""The names of the sites: those of their files or folders, told apart."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from afcl.data.errors import ending, fail

AnyPath: TypeAlias = str | os.PathLike[str]

NO_FILES = "no files given; name a file per site, or a folder of them"


def site_names(paths: Iterable[AnyPath]) -> tuple[str, ...]:
    """Name the sites after their files; equal names get their folders in front.

    Names are distinct (also where upper and lower case are not told apart) and safe
    as file names.

    Examples
    --------
    >>> site_names(["north/a.csv", "south/a.csv", "b.parquet"])
    ('north-a', 'south-a', 'b')
    """
    files = [Path(path) for path in paths]
    if not files:
        raise fail(NO_FILES)
    full = [Path(os.path.abspath(path)) for path in files]
    for path, times in zip(files, map(Counter(full).__getitem__, full), strict=True):
        if times > 1:
            raise fail(f"{path}: given {times} times; name each site's file once")
    return _distinct(
        [(*p.parts[1:-1], s) for p, s in zip(full, _stems(full), strict=True)]
    )


def _stems(paths: Sequence[Path]) -> list[str]:
    """Return the names without ending, unless only the ending tells two apart."""
    stems = [path.name.removesuffix(_suffix(path)) for path in paths]
    same = Counter((p.parent, s.casefold()) for p, s in zip(paths, stems, strict=True))
    return [
        s if s and same[p.parent, s.casefold()] == 1 else p.name.replace(".", "-")
        for p, s in zip(paths, stems, strict=True)
    ]


def _suffix(path: Path) -> str:
    known = ending(path)
    if known:
        return path.name[-len(known) :]
    return "" if os.path.isdir(path) else path.suffix


def _distinct(parts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Join as many trailing parts as it takes to tell all names apart."""
    depth = [1] * len(parts)
    while True:
        names = ["-".join(p[-n:]) for p, n in zip(parts, depth, strict=True)]
        times = Counter(name.casefold() for name in names)
        clash = [i for i, name in enumerate(names) if times[name.casefold()] > 1]
        deeper = [i for i in clash if depth[i] < len(parts[i])]
        if not deeper:
            return _numbered(names)
        for i in deeper:
            depth[i] += 1


def _numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Add numbers where even all folders make no difference (`a-b/c` and `a/b-c`)."""
    taken: set[str] = set()
    used = {name.casefold() for name in names}
    distinct = []
    for name in names:
        new, number = name, 1
        while new.casefold() in taken or (number > 1 and new.casefold() in used):
            number += 1
            new = f"{name}-{number}"
        taken.add(new.casefold())
        distinct.append(new)
    return tuple(distinct)

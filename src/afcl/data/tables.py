# SPDX-License-Identifier: Apache-2.0
"""The sites' tables: read from files, restricted to what all of them have.

Everything that can be wrong with a file ends in an `InputError` whose message is one
line that says what to do about it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.data.files import drop_option, ending, fail, listed, numbers, read_frame
from afcl.data.frames import from_frames
from afcl.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Sites",
    "Table",
    "fingerprint",
    "from_frames",
    "in_input_order",
    "read_sites",
    "site_names",
]

AnyPath: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Table:
    """One site's rows.

    Attributes
    ----------
    name : str
        The site; safe as a file name.
    values : ndarray of shape (n_samples, n_features)
    columns : tuple of str
    path : Path or None
        Where the rows came from.
    """

    name: str
    values: Floats
    columns: tuple[str, ...]
    path: Path | None

    def fingerprint(self) -> str:
        """Return a hash of the rows and the columns' names."""
        return fingerprint(self.values, self.columns)


@dataclass(frozen=True, slots=True)
class Sites:
    """The sites of a run, restricted to their common columns.

    Attributes
    ----------
    tables : tuple of Table
        One per file, all with the same columns in the same order.
    notes : tuple of str
        What was left out and why, one line each.
    kept : tuple of ndarray of shape (n_rows_of_the_file,)
        Per site, which rows of the file are in the table.
    """

    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    kept: tuple[Bools, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that every table has."""
        return self.tables[0].columns


def read_sites(
    paths: Iterable[AnyPath],
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: str = "error",
    min_rows: int = 1,
) -> Sites:
    """Read one file per site and restrict all to the columns they have in common.

    Parameters
    ----------
    paths : iterable of paths
        `.csv`, `.tsv` (both also with `.gz`) or `.parquet`, with column names.
        Integers, floats, booleans (as 0 and 1) and numbers written as text are
        numbers; an empty cell, `NA`, `NaN`, `null` and the like are missing.
    columns : sequence of str, optional
        Use only these, in this order; every file must have them. By default all
        columns that every file has, in the order of the first file.
    drop : sequence of str
        Leave these out.
    missing : {"error", "drop"}
        What to do about rows with missing values. Infinite values are never accepted.
    min_rows : int
        Fewest rows that a site may have.

    Returns
    -------
    Sites

    Raises
    ------
    InputError
        With one line that says what is wrong and what to do.
    """
    if missing not in ("error", "drop"):
        raise fail(f"missing is {missing!r}; use 'error' or 'drop'")
    files = [Path(path) for path in paths]
    names = site_names(files)
    frames, notes = [], []
    for path in files:
        frame, told = read_frame(path)
        frames.append(frame)
        notes += told
    common, told = _common(files, frames, columns, drop)
    notes += told
    tables, masks = [], []
    for name, path, frame in zip(names, files, frames, strict=True):
        values = np.column_stack([numbers(frame[column], path) for column in common])
        kept = _kept_rows(values, common, path, missing, min_rows)
        if not kept.all():
            notes.append(_dropped(path, kept))
        tables.append(Table(name, np.ascontiguousarray(values[kept]), common, path))
        masks.append(kept)
    return Sites(tuple(tables), tuple(notes), tuple(masks))


def in_input_order(labels: Ints, kept: Bools) -> Ints:
    """Spread the labels of the kept rows over all rows of the file; -1 elsewhere.

    Examples
    --------
    >>> in_input_order(np.array([4, 7]), np.array([True, False, True])).tolist()
    [4, -1, 7]
    """
    spread = np.full(kept.shape[0], -1, dtype=np.int64)
    spread[kept] = labels
    return spread


def fingerprint(values: Floats, columns: Sequence[str] | None) -> str:
    """Return a SHA-256 of the content: equal for equal numbers under equal names.

    Examples
    --------
    >>> fingerprint(np.eye(2), ["a", "b"]) == fingerprint(np.eye(2), ["b", "a"])
    False
    """
    names = None if columns is None else list(columns)
    head = json.dumps([list(values.shape), names])
    digest = hashlib.sha256(head.encode())
    # Adding 0 makes -0.0 and 0.0 the same bytes.
    digest.update((np.asarray(values, dtype="<f8") + 0.0).tobytes())
    return digest.hexdigest()


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
        raise fail("no files given; name one .csv, .tsv or .parquet file per site")
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
    return path.name[-len(known) :] if known else path.suffix


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


def _common(
    paths: Sequence[Path],
    frames: Sequence[pl.DataFrame],
    columns: Sequence[str] | None,
    drop: Sequence[str],
) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns to use, and notes on those that not every site has."""
    have = [tuple(frame.columns) for frame in frames]
    _check_asked(paths, have, columns, drop)
    every = dict.fromkeys(name for names in have for name in names)
    wanted = [c for c in every if c not in drop and (not columns or c in columns)]
    lacking = {
        c: next((i for i, h in enumerate(have) if c not in h), None) for c in wanted
    }
    order = dict.fromkeys(columns or have[0])
    common = tuple(c for c in order if c in lacking and lacking[c] is None)
    if not common:
        raise _nothing_common(paths, [[c for c in h if c in wanted] for h in have])
    notes = [
        f"column {c!r} left out: {paths[i]} does not have it"
        for c, i in lacking.items()
        if i is not None
    ]
    return common, notes


def _check_asked(
    paths: Sequence[Path],
    have: Sequence[tuple[str, ...]],
    columns: Sequence[str] | None,
    drop: Sequence[str],
) -> None:
    """Refuse names that the files do not know."""
    for name in columns or ():
        for path, names in zip(paths, have, strict=True):
            if name not in names:
                raise fail(
                    f"{path}: --columns names {name!r}, which it does not have; "
                    f"it has {listed(names)}"
                )
    every = tuple(dict.fromkeys(name for names in have for name in names))
    for name in drop:
        if name not in every:
            raise fail(
                f"--drop names {name!r}, which no file has; they have {listed(every)}"
            )


def _nothing_common(paths: Sequence[Path], have: Sequence[Sequence[str]]) -> InputError:
    """Say why no column is left."""
    if not any(have):
        return fail("--drop leaves no column to use; name fewer columns there")
    apart = (i for i in range(1, len(have)) if not set(have[i]) & set(have[0]))
    i = next(apart, 1)
    return fail(
        f"no column is in every file: {paths[0]} has {listed(have[0])}; "
        f"{paths[i]} has {listed(have[i])}; rename the columns so that they agree"
    )


def _kept_rows(
    values: Floats, columns: Sequence[str], path: Path, missing: str, min_rows: int
) -> Bools:
    """Return which rows are complete; refuses missing values or too few rows."""
    holes = np.isnan(values)
    kept = np.asarray(~holes.any(axis=1))
    if missing == "error" and not kept.all():
        row = int(np.argmin(kept))
        column = columns[int(np.argmax(holes[row]))]
        raise fail(
            f"{path}: column {column!r}, row {row + 1} has no value "
            f"({_rows(int((~kept).sum()))} of {kept.size} incomplete); "
            "fill it in or leave such rows out with --missing drop"
        )
    if not kept.any():
        column = columns[int(np.argmax(holes.sum(axis=0)))]
        raise fail(
            f"{path}: every row has a missing value, so no row is left; "
            f"leave the emptiest column out with {drop_option(column)}"
        )
    if kept.sum() < min_rows:
        raise fail(
            f"{path}: {_rows(int(kept.sum()))}, but a site needs at least {min_rows}; "
            "add rows, lower --min-cell, or leave the site out"
        )
    return kept


def _dropped(path: Path, kept: Bools) -> str:
    n_dropped = int((~kept).sum())
    return f"{path}: {_rows(n_dropped)} of {kept.size} dropped for missing values"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"

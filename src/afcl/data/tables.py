# SPDX-License-Identifier: Apache-2.0
"""The sites' tables: read from files, restricted to what all of them have.

Everything that can be wrong with a file ends in an `InputError` whose message is one
line that says what to do about it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.data.errors import fail
from afcl.data.frames import from_frames
from afcl.data.names import AnyPath, site_names
from afcl.data.sources import SiteFiles, SiteReader, common_columns, site_files

__all__ = [
    "Sites",
    "Table",
    "fingerprint",
    "from_frames",
    "in_input_order",
    "read_sites",
    "site_names",
]

#: Rows whose bytes are hashed together.
HASHED = 65_536


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
        One per site, all with the same columns in the same order.
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
    """Read one file or folder per site; restrict all to their common columns.

    Parameters
    ----------
    paths : iterable of paths
        `.csv`, `.tsv` (both also with `.gz`) or `.parquet`, with column names; or a
        folder of such files, which follow one another by name and have the same
        columns. Integers, floats, booleans (as 0 and 1) and numbers written as text
        are numbers; an empty cell, `NA`, `NaN`, `null` and the like are missing.
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
    named, common, notes = look_into(paths, columns, drop, missing)
    tables, masks = [], []
    for name, site in named:
        table, kept, dropped = read_table(name, site, common, missing, min_rows)
        tables.append(table)
        masks.append(kept)
        notes += dropped
    return Sites(tuple(tables), tuple(notes), tuple(masks))


def look_into(
    paths: Iterable[AnyPath],
    columns: Sequence[str] | None,
    drop: Sequence[str],
    missing: str,
) -> tuple[list[tuple[str, SiteFiles]], tuple[str, ...], list[str]]:
    """Return the sites with their names, the columns to use, and notes.

    The parameters are those of :func:`read_sites`; no row is read yet.
    """
    if missing not in ("error", "drop"):
        raise fail(f"missing is {missing!r}; use 'error' or 'drop'")
    places = [Path(path) for path in paths]
    names = site_names(places)
    sites = [site_files(path) for path in places]
    common, left_out = common_columns(sites, columns, drop)
    notes = [note for site in sites for note in site.notes]
    return list(zip(names, sites, strict=True)), common, notes + left_out


def read_table(
    name: str, site: SiteFiles, columns: tuple[str, ...], missing: str, min_rows: int
) -> tuple[Table, Bools, list[str]]:
    """Read one site into memory; returns also which rows were kept, and notes."""
    reader = SiteReader(site, columns, missing)
    parts, masks = [], []
    for values, kept in reader.parts(streamed=False):
        parts.append(values if kept.all() else values[kept])
        masks.append(kept)
    reader.check(min_rows)
    values = parts[0] if len(parts) == 1 else np.concatenate(parts)
    table = Table(name, values, columns, site.path)
    return table, np.concatenate(masks), reader.notes()


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
    digest = begin_digest(values.shape, columns)
    for start in range(0, values.shape[0], HASHED):
        add_to_digest(digest, values[start : start + HASHED])
    return str(digest.hexdigest())


def begin_digest(shape: tuple[int, ...], columns: Sequence[str] | None) -> Any:
    """Return a hash that knows the shape and the names; rows are added to it."""
    names = None if columns is None else list(columns)
    return hashlib.sha256(json.dumps([list(shape), names]).encode())


def add_to_digest(digest: Any, values: Floats) -> None:
    """Add rows to a hash."""
    # Adding 0 makes -0.0 and 0.0 the same bytes.
    digest.update(np.ascontiguousarray(np.asarray(values, dtype="<f8") + 0.0))

# SPDX-License-Identifier: Apache-2.0
"""The sites of a run: read from files, restricted to what all of them have.

Everything that can be wrong with a file ends in an `InputError` whose message is one
line that says what to do about it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar, cast

import numpy as np

from afcl._typing import Bools
from afcl.data.errors import ending, fail
from afcl.data.files import names_in, rows_in
from afcl.data.names import AnyPath, site_names
from afcl.data.parquet import can_stream_parquet
from afcl.data.sources import SiteFiles, common_columns, site_files
from afcl.data.stream import StreamedTable
from afcl.data.tables import Table, read_table

#: Sites that hold more than this many bytes together are streamed.
STREAM_ABOVE = 1 << 30
#: How much text a compressed file holds for each of its bytes, about.
UNPACKED = 4

#: One site's rows, in memory or in their files.
SiteTable: TypeAlias = Table | StreamedTable
T = TypeVar("T", bound=SiteTable)


@dataclass(frozen=True, slots=True)
class Sites(Generic[T]):
    """The sites of a run, restricted to their common columns.

    Attributes
    ----------
    tables : tuple of Table or StreamedTable
        One per site, all with the same columns in the same order.
    notes : tuple of str
        What was left out and why, one line each.
    """

    tables: tuple[T, ...]
    notes: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that every site has."""
        return self.tables[0].columns

    @property
    def kept(self: Sites[Table]) -> tuple[Bools, ...]:
        """Per site in memory, which rows of its file are in the table."""
        return tuple(
            np.ones(table.shape[0], dtype=np.bool_)
            if table.kept is None
            else table.kept
            for table in self.tables
        )


def read_sites(
    paths: Iterable[AnyPath],
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: str = "error",
    min_rows: int = 1,
) -> Sites[Table]:
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
    read = open_sites(paths, columns, drop, missing, min_rows, stream=False)
    return cast("Sites[Table]", read)


def open_sites(
    paths: Iterable[AnyPath],
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: str = "error",
    min_rows: int = 1,
    stream: bool | None = None,
    whole: str = "",
) -> Sites[SiteTable]:
    """Read the sites as :func:`~afcl.data.read_sites` does, or make them ready to.

    Parameters
    ----------
    paths, columns, drop, missing, min_rows
        As in :func:`~afcl.data.read_sites`.
    stream : bool, optional
        Whether the rows stay in their files. By default they do if all sites together
        are larger than 1 GiB: Parquet by the numbers in it, text by its length.
    whole : str
        What needs all rows in memory, if something does.
    """
    if missing not in ("error", "drop"):
        raise fail(f"missing is {missing!r}; use 'error' or 'drop'")
    places = [Path(path) for path in paths]
    names = site_names(places)
    sites = [site_files(path) for path in places]
    common, left_out = common_columns(sites, columns, drop)
    notes = [note for site in sites for note in site.notes] + left_out
    if stream and whole:
        raise fail(f"--stream: {whole} needs all rows in memory; leave --stream out")
    if stream is None:
        stream, why_not = _choose(sites, whole)
        notes += why_not
    read: Callable[..., SiteTable] = StreamedTable if stream else read_table
    tables = tuple(
        read(name, site, common, missing, min_rows)
        for name, site in zip(names, sites, strict=True)
    )
    notes += [note for table in tables for note in table.notes]
    return Sites(tables, tuple(notes))


def _choose(sites: Sequence[SiteFiles], whole: str) -> tuple[bool, list[str]]:
    """Return whether to stream, and a note if that would be better but cannot be."""
    files = [file for site in sites for file in site.files]
    size = sum(map(size_in_memory, files))
    if size <= STREAM_ABOVE:
        return False, []
    about = f"about {size / 1e9:.1f} GB are read into memory"
    if whole:
        return False, [f"{about}: {whole} needs all rows there"]
    if not can_stream_parquet() and any(ending(f) == ".parquet" for f in files):
        return False, [f"{about}; to stream them: pip install 'afcl[stream]'"]
    return True, []


def size_in_memory(path: Path) -> int:
    """Return about how many bytes a file takes in memory: its numbers, or its text."""
    if ending(path) == ".parquet":
        return rows_in(path) * len(names_in(path)[0]) * 8
    return os.path.getsize(path) * (UNPACKED if ending(path).endswith(".gz") else 1)

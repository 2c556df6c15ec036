# SPDX-License-Identifier: Apache-2.0
"""What a site's rows are in: a file, or a folder of files that follow one another.

Here it is settled which columns count, and every part that is read is checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.data.errors import drop_option, ending, fail, listed, rows_in_words
from afcl.data.files import matrix, names_in, no_rows, read_frames
from afcl.exceptions import InputError


@dataclass(frozen=True, slots=True)
class SiteFiles:
    """Where one site's rows are.

    Attributes
    ----------
    path : Path
        The file or folder, as it was named.
    files : tuple of Path
        The file, or those of the folder by name.
    columns : tuple of str
        What every one of them has.
    notes : tuple of str
        What was left out and why, one line each.
    """

    path: Path
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    notes: tuple[str, ...]


def site_files(path: Path) -> SiteFiles:
    """Look into a file or folder, as far as to its column names."""
    files, notes = _files(path)
    columns: tuple[str, ...] = ()
    for file in files:
        names, left_out = names_in(file)
        notes += left_out
        columns = columns or tuple(names)
        if set(names) != set(columns):
            odd = min(set(names) ^ set(columns))
            has, lacks = (file, files[0]) if odd in names else (files[0], file)
            raise fail(
                f"{lacks}: has no column {odd!r}, but {has} has; the files of a folder "
                "are one site and need the same columns"
            )
    return SiteFiles(path, tuple(files), columns, tuple(notes))


def _files(path: Path) -> tuple[list[Path], list[str]]:
    """Return the files at a path, and notes on those that are left out."""
    if not os.path.isdir(path):
        return [path], []
    found = sorted(p for p in path.iterdir() if p.name[0] not in "._")
    files = [p for p in found if ending(p) and p.is_file() and p.stat().st_size]
    if not files:
        raise fail(
            f"{path}: a folder without .csv, .tsv or .parquet files; name the site's "
            "file, or a folder that holds its files"
        )
    left = [p for p in found if p not in files]
    return files, [f"{p} left out: not a table" for p in left]


def common_columns(
    sites: Sequence[SiteFiles], columns: Sequence[str] | None, drop: Sequence[str]
) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns to use, and notes on those that not every site has."""
    _check_asked(sites, columns, drop)
    every = dict.fromkeys(name for site in sites for name in site.columns)
    wanted = [c for c in every if c not in drop and (not columns or c in columns)]
    lacking = {
        c: next((s.path for s in sites if c not in s.columns), None) for c in wanted
    }
    order = dict.fromkeys(columns or sites[0].columns)
    common = tuple(c for c in order if c in lacking and lacking[c] is None)
    if not common:
        raise _nothing_common(sites, set(wanted))
    notes = [
        f"column {c!r} left out: {path} does not have it"
        for c, path in lacking.items()
        if path is not None
    ]
    return common, notes


def _check_asked(
    sites: Sequence[SiteFiles], columns: Sequence[str] | None, drop: Sequence[str]
) -> None:
    """Refuse names that the files do not know."""
    for name in columns or ():
        for site in sites:
            if name not in site.columns:
                raise fail(
                    f"{site.path}: --columns names {name!r}, which it does not have; "
                    f"it has {listed(site.columns)}"
                )
    every = tuple(dict.fromkeys(name for site in sites for name in site.columns))
    for name in drop:
        if name not in every:
            raise fail(
                f"--drop names {name!r}, which no file has; they have {listed(every)}"
            )


def _nothing_common(sites: Sequence[SiteFiles], wanted: set[str]) -> InputError:
    """Say why no column is left."""
    have = [[c for c in site.columns if c in wanted] for site in sites]
    if not any(have):
        return fail("--drop leaves no column to use; name fewer columns there")
    apart = (i for i in range(1, len(have)) if not set(have[i]) & set(have[0]))
    i = next(apart, 1)
    return fail(
        f"no column is in every file: {sites[0].path} has {listed(have[0])}; "
        f"{sites[i].path} has {listed(have[i])}; rename the columns so that they agree"
    )


class SiteReader:
    """One pass over a site's rows, which are checked on the way.

    Parameters
    ----------
    site, columns
        Where the rows are, and which columns count.
    missing : {"error", "drop"}
        What to do about rows with missing values.

    Attributes
    ----------
    n_rows, n_kept
        Rows seen so far, and those of them that are complete.
    """

    def __init__(self, site: SiteFiles, columns: tuple[str, ...], missing: str) -> None:
        self._site = site
        self._columns = columns
        self._missing = missing
        self._holes: Ints = np.zeros(len(columns), dtype=np.int64)
        self.n_rows = self.n_kept = 0

    def parts(self, streamed: bool) -> Iterator[tuple[Floats, Bools]]:
        """Yield the rows part by part, and which of them are complete."""
        for path in self._site.files:
            before, first, incomplete = self.n_rows, "", 0
            for frame in read_frames(path, self._columns, streamed):
                values = matrix(frame, path, self.n_rows - before)
                kept = self._complete(values)
                if not (first or kept.all()):
                    first = self._hole(values, kept, self.n_rows - before)
                self.n_rows += kept.size
                incomplete += kept.size - int(kept.sum())
                yield values, kept
            size = self.n_rows - before
            self.n_kept += size - incomplete
            if incomplete and self._missing == "error":
                raise fail(
                    f"{path}: {first} has no value "
                    f"({rows_in_words(incomplete)} of {size} incomplete); "
                    "fill it in or leave such rows out with --missing drop"
                )

    def _complete(self, values: Floats) -> Bools:
        # The least value is NaN if any is: much quicker than to look at each.
        if not (values.size and np.isnan(values.min())):
            return np.ones(values.shape[0], dtype=np.bool_)
        holes = np.isnan(values)
        self._holes += holes.sum(axis=0)
        return np.asarray(~holes.any(axis=1))

    def _hole(self, values: Floats, kept: Bools, before: int) -> str:
        row = int(np.argmin(kept))
        column = self._columns[int(np.argmax(np.isnan(values[row])))]
        return f"column {column!r}, row {before + row + 1}"

    def check(self, min_rows: int) -> None:
        """Refuse a site with too few rows, once all were seen."""
        path = self._site.path
        if not self.n_rows:
            raise no_rows(path)
        if not self.n_kept:
            column = self._columns[int(np.argmax(self._holes))]
            raise fail(
                f"{path}: every row has a missing value, so no row is left; "
                f"leave the emptiest column out with {drop_option(column)}"
            )
        if self.n_kept < min_rows:
            raise fail(
                f"{path}: {rows_in_words(self.n_kept)}, but a site needs at least "
                f"{min_rows}; add rows, lower --min-cell, or leave the site out"
            )

    def notes(self) -> list[str]:
        """Say how many rows were left out."""
        dropped = self.n_rows - self.n_kept
        if not dropped:
            return []
        share = f"{rows_in_words(dropped)} of {self.n_rows}"
        return [f"{self._site.path}: {share} dropped for missing values"]

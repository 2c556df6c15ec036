# SPDX-License-Identifier: Apache-2.0
"""What a site's rows are in: a file, or a folder of files that follow one another.

Every part that is read is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.data.cells import OddCell, matrix, numbers, odd_cell
from afcl.data.dialect import Dialect
from afcl.data.errors import drop_option, fail, rows_in_words
from afcl.data.files import DataFile, no_rows, open_file, read_frames
from afcl.data.places import files_at


@dataclass(frozen=True, slots=True)
class SiteFiles:
    """Where one site's rows are.

    Attributes
    ----------
    path : Path
        The file or folder, as it was named.
    files : tuple of DataFile
        The file, or those of the folder by name.
    notes : tuple of str
        What was left out and why, one line each.
    """

    path: Path
    files: tuple[DataFile, ...]
    notes: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """What every one of the files has."""
        return self.files[0].columns

    def check(self) -> None:
        """Refuse files that have not the same columns."""
        first = self.files[0]
        for file in self.files:
            if set(file.columns) != set(first.columns):
                odd = min(set(file.columns) ^ set(first.columns))
                has, lacks = (file, first) if odd in file.columns else (first, file)
                raise fail(
                    f"{lacks.path}: has no column {odd!r}, but {has.path} has; the "
                    "files of a folder are one site and need the same columns"
                )


def site_files(path: Path, dialect: Dialect) -> SiteFiles:
    """Look into a file or folder, as far as to its column names."""
    paths, notes = files_at(path)
    if len(paths) > 1:
        notes.append(f"{path}: {len(paths)} files, taken as one site")
    files = []
    for place in paths:
        file, found = open_file(place, dialect)
        files.append(file)
        notes += found
    return SiteFiles(path, tuple(files), tuple(notes))


def odd_columns(sites: Sequence[SiteFiles], columns: Sequence[str]) -> list[OddCell]:
    """Return every column that is not of numbers at some site, with a cell of it."""
    found: dict[str, OddCell] = {}
    for file in (file for site in sites for file in site.files):
        # What is known not to be numbers is not looked at again.
        left = [name for name in columns if name not in found]
        before = 0
        for frame in read_frames(file, left, streamed=True) if left else ():
            for series in frame:
                odd = numbers(series, file.written)[1]
                if odd is not None and series.name not in found:
                    cell = odd_cell(odd, series, file.path, before, file.written)
                    found[series.name] = cell
            before += frame.height
    return [found[name] for name in columns if name in found]


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
        for file in self._site.files:
            before, first, incomplete = self.n_rows, "", 0
            for frame in read_frames(file, self._columns, streamed):
                seen = self.n_rows - before
                values = matrix(frame, file.path, seen, file.written)
                kept = self._complete(values)
                if not (first or kept.all()):
                    first = self._hole(values, kept, seen)
                self.n_rows += kept.size
                incomplete += kept.size - int(kept.sum())
                yield values, kept
            size = self.n_rows - before
            self.n_kept += size - incomplete
            if incomplete and self._missing == "error":
                raise fail(
                    f"{file.path}: {first} has no value "
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

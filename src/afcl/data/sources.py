# SPDX-License-Identifier: Apache-2.0
"""What a site's rows are in: a file, or a folder of files that follow one another.

Every part that is read is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.data.cells import OddCell, days, days_in, matrix, numbers, odd_cell, texts
from afcl.data.date_parts import part_values
from afcl.data.decimals import looks_like_a_number
from afcl.data.dialect import Dialect
from afcl.data.encoding import UnknownLevel, encoded, places_of
from afcl.data.errors import (
    MISSING,
    NothingThere,
    drop_option,
    excerpt,
    fail,
    listed,
    naming,
    rows_in_words,
    without_levels,
)
from afcl.data.features import Embedding, Feature, Texts, texts_of
from afcl.data.files import DataFile, no_rows, open_file, read_frames
from afcl.data.places import files_at
from afcl.data.spelling import by_column
from afcl.gaps import KEEPING, has_gaps

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class SiteFiles:
    """Where one site's rows are.

    Attributes
    ----------
    path : Path
        The file or folder, as it was named.
    files : tuple of DataFile
        The file, or those of the folder by name; none: there is nothing in it.
    notes : tuple of str
        What was left out and why, one line each.
    """

    path: Path
    files: tuple[DataFile, ...]
    notes: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """What every one of the files has."""
        return self.files[0].columns if self.files else ()

    def check(self) -> None:
        """Refuse files that have not the same columns."""
        for file in self.files:
            first = self.files[0]
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


def site_files_if_any(path: Path, dialect: Dialect) -> SiteFiles:
    """Do the same, and take a file without any content for a site without rows."""
    try:
        return site_files(path, dialect)
    except NothingThere:
        note = f"{path}: there is nothing in it, not even names of columns"
        return SiteFiles(path, (), (note,))


def with_marks(
    sites: Sequence[SiteFiles], marks: Mapping[str, tuple[str, ...]]
) -> list[SiteFiles]:
    """Return the sites with cells that mean "no value" in single columns."""
    if not marks:
        return list(sites)
    every = tuple(dict.fromkeys(name for site in sites for name in site.columns))
    own = by_column("--null", marks, every)
    return [
        replace(
            site,
            files=tuple(
                replace(file, written=replace(file.written, own=own))
                for file in site.files
            ),
        )
        for site in sites
    ]


def odd_columns(sites: Sequence[SiteFiles], columns: Sequence[str]) -> list[OddCell]:
    """Return every column that is not of numbers at some site, with a cell of it."""
    found: dict[str, OddCell] = {}
    for file in (file for site in sites for file in site.files):
        # What is known not to be numbers is not looked at again.
        left = [c for c in columns if c not in found and c in file.columns]
        before = 0
        for frame in read_frames(file, left, streamed=True) if left else ():
            for series in frame:
                odd = numbers(series, file.written)[1]
                if odd is not None and series.name not in found:
                    cell = odd_cell(odd, series, file.path, before, file.written)
                    found[series.name] = cell
            before += frame.height
    return [found[name] for name in columns if name in found]


def texts_at(site: SiteFiles, column: str) -> Texts:
    """Return what a site's column of texts holds."""
    cells: list[str | None] = []
    n_numbers, n_dates, slip = 0, 0, False
    for file in site.files:
        if column not in file.columns:
            continue
        for frame in read_frames(file, [column], as_numbers=False):
            own = texts(frame[column], file.written)
            held = sum(cell is not None for cell in own)
            odd = numbers(frame[column], file.written, flags=True)[1]
            n_numbers += held - (0 if odd is None else int(odd.sum()))
            no_date = days(frame[column], file.written)[1]
            n_dates += held - (0 if no_date is None else int(no_date.sum()))
            if odd is not None:
                slip |= any(map(looks_like_a_number, frame[column].filter(odd)))
            cells += own
    return replace(texts_of(cells), numbers=n_numbers, dates=n_dates, slip=slip)


def _encoded(
    series: pl.Series, feature: Feature, file: DataFile, before: int
) -> Floats:
    """Return the columns of a category; refuses a level that has no place."""
    try:
        return encoded(texts(series, file.written, feature.levels), feature)
    except UnknownLevel as odd:
        mark = naming("--null", f"{feature.name}={odd.cell}")
        raise fail(
            f"{file.path}: column {feature.name!r}, row {before + odd.row + 1} is "
            f"{excerpt(odd.cell)}, which is none of {'<'.join(feature.levels)}: "
            "correct it, give it a place with --ordinal, or say that it means no value "
            f"with {mark}"
        ) from None


class SiteReader:
    """One pass over a site's rows, which are checked on the way.

    Parameters
    ----------
    site, columns
        Where the rows are, and which columns count.
    missing : {"error", "drop", "impute", "available"}
        What to do about rows with missing values: the last two keep all that have a
        value at all.

    Attributes
    ----------
    n_rows, n_kept
        Rows seen so far, and those of them that are kept.
    """

    def __init__(self, site: SiteFiles, columns: Embedding, missing: str) -> None:
        self._site = site
        self._embedding = columns
        self._columns = columns.names
        self._texts = {feature.name for feature in columns.features}
        # The quick parser takes a level that is called `none` for no value.
        self._quick = all(
            len(without_levels(feature.levels)) == len(MISSING)
            for feature in columns.features
        )
        self._missing = missing
        self._holes: Ints = np.zeros(len(self._columns), dtype=np.int64)
        self._gaps = 0
        self.n_rows = self.n_kept = 0

    def parts(self, streamed: bool) -> Iterator[tuple[Floats, Bools]]:
        """Yield the rows part by part, and which of them are kept."""
        for file in self._site.files:
            before, first, incomplete, blank = self.n_rows, "", 0, 0
            own = [c for c in self._embedding.columns if c in file.columns]
            for frame in read_frames(file, own, streamed, self._quick, self._texts):
                seen = self.n_rows - before
                values = self._values(frame, file, seen)
                kept = self._complete(values)
                if not (first or kept.all()):
                    first = self._hole(values, kept, seen)
                self.n_rows += kept.size
                incomplete += kept.size - int(kept.sum())
                blank += int(np.isnan(values[~kept]).all(axis=1).sum())
                yield values, kept
            size = self.n_rows - before
            self.n_kept += size - incomplete
            # Where nothing is filled in at all nothing is half filled in.
            if incomplete and self._missing == "error" and blank < size:
                raise fail(
                    f"{file.path}: {first} has no value "
                    f"({rows_in_words(incomplete)} of {size} incomplete); "
                    "fill it in or keep such rows with --missing impute"
                )

    def _values(self, frame: pl.DataFrame, file: DataFile, seen: int) -> Floats:
        """Return the cells of a part as numbers; NaN in columns the file lacks."""
        known = {feature.name: feature for feature in self._embedding.features}
        if not known and frame.width == len(self._columns):
            return self._numbers(frame, file, seen)
        parts = []
        for column in self._embedding.columns:
            if column not in frame.columns:
                width = self._width(known.get(column))
                parts.append(np.full((frame.height, width), np.nan))
            elif column in known:
                parts.append(self._of_levels(frame[column], known[column], file, seen))
            else:
                parts.append(self._numbers(frame.select(column), file, seen))
        return np.concatenate(parts, axis=1)

    def _width(self, feature: Feature | None) -> int:
        """Return how many columns of the table a column of the files becomes."""
        if feature is None or self._embedding.coded:
            return 1
        return len(feature.columns)

    def _of_levels(
        self, series: pl.Series, feature: Feature, file: DataFile, seen: int
    ) -> Floats:
        if self._embedding.coded:
            return places_of(texts(series, file.written), feature)[:, None]
        if feature.parts:
            read = days_in(series, file.path, seen, file.written)
            return part_values(read, feature.levels)
        return _encoded(series, feature, file, seen)

    def _numbers(self, frame: pl.DataFrame, file: DataFile, seen: int) -> Floats:
        given = frame, file.path, seen, file.written, self._embedding.dates
        return matrix(*given, flags=self._embedding.flags)

    def _complete(self, values: Floats) -> Bools:
        # The least value is NaN if any is: much quicker than to look at each.
        if not has_gaps(values):
            return np.ones(values.shape[0], dtype=np.bool_)
        holes = np.isnan(values)
        self._holes += holes.sum(axis=0)
        self._gaps += int(holes.any(axis=1).sum())
        kept = ~holes.all(axis=1) if self._missing in KEEPING else ~holes.any(axis=1)
        return np.asarray(kept)

    def _hole(self, values: Floats, kept: Bools, before: int) -> str:
        row = int(np.argmin(kept))
        column = self._of_file(int(np.argmax(np.isnan(values[row]))))
        return f"column {column!r}, row {before + row + 1}"

    def _of_file(self, place: int) -> str:
        """Return the column of the files that a column of the table comes from."""
        known = {feature.name: feature for feature in self._embedding.features}
        columns = self._embedding.columns
        widths = [self._width(known.get(column)) for column in columns]
        return columns[int(np.searchsorted(np.cumsum(widths), place, side="right"))]

    def check(self, min_rows: int) -> None:
        """Refuse a site with too few rows, once all were seen."""
        path = self._site.path
        if not min_rows:
            return
        if not self.n_rows:
            raise no_rows(path)
        if not self.n_kept:
            column = self._of_file(int(np.argmax(self._holes)))
            raise fail(
                f"{path}: every row has a missing value, so no row is left; "
                f"leave the emptiest column out with {drop_option(column)}"
            )
        if self.n_kept < min_rows:
            raise fail(
                f"{path}: {rows_in_words(self.n_kept)}, but a site needs at least "
                f"{min_rows}; add rows, lower --min-cell, or leave the site out"
            )

    def gaps(self) -> dict[str, int]:
        """Return how many cells of every column of the files have no value."""
        known = {feature.name: feature for feature in self._embedding.features}
        gaps, place = {}, 0
        for column in self._embedding.columns:
            gaps[column] = int(self._holes[place])
            place += self._width(known.get(column))
        return gaps

    def notes(self) -> list[str]:
        """Say how many rows have gaps, and how many were left out."""
        path, dropped, notes = self._site.path, self.n_rows - self.n_kept, []
        if self._missing in KEEPING and self._gaps:
            gaps = self.gaps()
            empty = [name for name, count in gaps.items() if count == self.n_rows]
            lacks = f", nothing in {listed(empty)}" if empty else ""
            have = "has gaps" if self._gaps == 1 else "have gaps"
            share = f"{rows_in_words(self._gaps)} of {self.n_rows} {have}"
            cells = sum(gaps.values())
            many = "1 cell" if cells == 1 else f"{cells} cells"
            where = [f"{name} {n}" for name, n in gaps.items() if 0 < n < self.n_rows]
            told = f" ({listed(where)})" if where and cells > 1 else ""
            notes.append(f"{path}: {share}, {many} in all{told}{lacks}")
        if dropped:
            share = f"{rows_in_words(dropped)} of {self.n_rows}"
            # An error but for rows without any value.
            kept = self._missing in (*KEEPING, "error")
            why = "without any value" if kept else "for missing values"
            notes.append(f"{path}: {share} dropped {why}")
        return notes

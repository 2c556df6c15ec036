# SPDX-License-Identifier: Apache-2.0
"""The sites of a run: read from files, restricted to what all of them have.

Everything that can be wrong with a file ends in an `InputError` whose message is one
line that says what to do about it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from afcl._typing import Bools
from afcl.data.categories import categories_in, own_categories
from afcl.data.cells import NotNumbers, OddCell, described
from afcl.data.columns import ColumnRequest, common_columns, matched, settled_columns
from afcl.data.date_parts import Dates, with_parts
from afcl.data.dialect import UNKNOWN, Dialect, nothing_in
from afcl.data.errors import EXCEL, PARQUET, empty, ending, fail, listed
from afcl.data.features import Embedding, Feature, ordered_feature, parts_of_dates
from afcl.data.names import AnyPath, site_names
from afcl.data.parquet import can_stream_parquet, parquet_names, parquet_rows
from afcl.data.places import site_places
from afcl.data.sources import (
    SiteFiles,
    odd_columns,
    site_files,
    site_files_if_any,
    with_marks,
)
from afcl.data.spelling import by_column, name_key
from afcl.data.stream import StreamedTable
from afcl.data.tables import Table, read_table
from afcl.gaps import KEEPING

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
    features : tuple of Feature
        The categories: each has a column for every level, or one of ranks.
    dates : tuple of str
        The columns that are dates.
    """

    tables: tuple[T, ...]
    notes: tuple[str, ...]
    features: tuple[Feature, ...] = ()
    dates: tuple[str, ...] = ()

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
    paths: Iterable[AnyPath] = (),
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: str = "error",
    min_rows: int = 1,
    *,
    one_site: Iterable[AnyPath] = (),
    dialect: Dialect = UNKNOWN,
    numeric_only: bool = False,
    id_column: str | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    ordinal: Mapping[str, Sequence[str]] | None = None,
    dates: Dates = (),
    least: int = 1,
    embedding: Embedding | None = None,
) -> Sites[Table]:
    """Read one file per site; restrict all to their common columns.

    Parameters
    ----------
    paths : iterable of paths
        Text (`.csv`, `.tsv`, `.txt`, `.dat`, `.data`, all also with `.gz`), `.parquet`
        or `.xlsx`, with column names; or folders of such files, each of which is a
        site. Integers, floats and numbers written as text are numbers, booleans
        (`true`, `false`) are a category; an empty cell, `NA`, `NaN`, `null` and the
        like are missing. Names that differ in white space, upper and lower case only
        are the same.
    columns : sequence of str, optional
        Use only these, in this order; every file must have them. By default all
        columns that every file has, in the order of the first file.
    drop : sequence of str
        Leave these out.
    missing : {"error", "drop", "impute", "available"}
        What to do about rows with missing values. The last two keep them, with NaN, and
        columns that two sites have at least. Infinite values are never accepted.
    min_rows : int
        Fewest rows that a site may have; 0: it may be empty.
    one_site : iterable of paths
        Folders that are one site each: their files follow one another by name and have
        the same columns. These sites come last.
    dialect : Dialect
        What is known of the way text is written; the rest is found out, file by file.
    numeric_only : bool
        Whether columns that are not of numbers at some site are left out.
    id_column : str, optional
        What rows are called by: no feature; `ids` of every table has it.
    categories : mapping from str to sequence of str, optional
        Columns that are categories although they may look like numbers, and their
        levels; none: those that are found. Columns of texts are categories anyway, with
        a column of 0 and 1 for every level.
    ordinal : mapping from str to sequence of str, optional
        Columns whose levels have an order, and these from the lowest to the highest;
        one column of ranks from 0 on. Other values are refused.
    dates : sequence of str, or mapping from str to sequence of str
        Columns of dates, which become numbers of days; others are left out. A mapping
        has the parts that count instead: "month", "weekday" and "hour", which go round,
        "year" and "days"; none: days.
    least : int
        Rows of a level that a site needs to name it.
    embedding : Embedding, optional
        Columns and levels as they were settled before.

    Returns
    -------
    Sites

    Raises
    ------
    InputError
        With one line that says what is wrong and what to do.
    """
    places, notes = site_places(paths, one_site)
    read = open_sites(
        places,
        columns,
        drop,
        missing,
        min_rows,
        stream=False,
        dialect=dialect,
        numeric_only=numeric_only,
        id_column=id_column,
        categories=categories,
        ordinal=ordinal,
        dates=dates,
        least=least,
        embedding=embedding,
    )
    return cast("Sites[Table]", replace(read, notes=(*notes, *read.notes)))


def open_sites(
    places: Iterable[AnyPath],
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: str = "error",
    min_rows: int = 1,
    stream: bool | None = None,
    whole: str = "",
    *,
    dialect: Dialect = UNKNOWN,
    numeric_only: bool = False,
    id_column: str | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    ordinal: Mapping[str, Sequence[str]] | None = None,
    dates: Dates = (),
    least: int = 1,
    embedding: Embedding | None = None,
    meeting: bool = False,
) -> Sites[SiteTable]:
    """Read the sites as :func:`~afcl.data.read_sites` does, or make them ready to.

    Parameters
    ----------
    places : iterable of paths
        A file or a folder for every site.
    columns, drop, missing, min_rows, dialect, numeric_only, id_column, categories
        As in :func:`~afcl.data.read_sites`.
    ordinal, dates, least, embedding
        Likewise.
    stream : bool, optional
        Whether the rows stay in their files. By default they do if all sites together
        are larger than 1 GiB: Parquet by the numbers in it, text by its length.
    whole : str
        What needs all rows in memory, if something does.
    meeting : bool
        Whether the other sites are elsewhere, so that what the levels of categories are
        is settled later: tables have the places of a site's own levels.
    """
    check_missing(missing)
    paths = [Path(path) for path in places]
    names = site_names(paths)
    wanted = tuple(columns or ()) if embedding is None else embedding.columns
    asked = ColumnRequest(wanted, tuple(drop), id_column, missing not in KEEPING)
    settled_before = embedding is not None
    sites, common, asked, notes = look_at(
        paths, asked, dialect, settled_before, may_be_empty=not min_rows
    )
    if stream and whole:
        raise fail(f"--stream: {whole} needs all rows in memory; leave --stream out")
    if stream is None:
        stream, why_not = _choose(sites, whole)
        notes += why_not
    read: Callable[..., SiteTable] = StreamedTable if stream else read_table

    def read_all(embedding: Embedding) -> tuple[SiteTable, ...]:
        return tuple(
            read(name, site, embedding, missing, min_rows, asked.id_column)
            for name, site in zip(names, sites, strict=True)
        )

    declared = _declared(common, asked.drop, categories, ordinal, dates)

    def settle(odd: Sequence[OddCell]) -> Embedding:
        if numeric_only:
            settled, remarks = declared.numbers_only(common, odd)
        elif meeting:
            settled, remarks = declared.of_one(sites[0], common, odd, least)
        else:
            settled, remarks = declared.of_all(sites, common, odd, least)
        if settled.features and meeting and stream:
            raise fail(
                f"categories ({listed([each.name for each in settled.features])}) need "
                "all rows in memory: --no-stream, or leave them out (--numeric-only)"
            )
        notes.extend(remarks)
        return replace(settled, flags=True)

    known = embedding and replace(embedding, flags=True)
    settled = known or Embedding(common, (), declared.dates)
    if (declared.categories or declared.settled) and embedding is None:
        settled = settle(odd_columns(sites, common))
    try:
        tables = read_all(settled)
    except NotNumbers as error:
        if embedding is not None:
            raise
        # One column is told; here all are, at all sites.
        settled = settle(odd_columns(sites, common) or error.odd)
        tables = read_all(settled)
    notes += [note for table in tables for note in table.notes]
    return Sites(tables, tuple(notes), settled.features, settled.dates)


def look_at(
    paths: Sequence[Path],
    asked: ColumnRequest,
    dialect: Dialect,
    settled: bool,
    may_be_empty: bool = False,
) -> tuple[list[SiteFiles], tuple[str, ...], ColumnRequest, list[str]]:
    """Look into the sites' files as far as to their columns.

    Returns the sites, the columns that count (`settled`: those that are asked for, also
    where a site lacks some), what is asked for by the names that are in use, and notes.
    """
    dialect = dialect.checked()
    looked_at = _looked_at(paths, dialect, may_be_empty)
    sites, asked, notes = matched(looked_at, asked)
    for site in sites:
        site.check()
    sites = with_marks(sites, nothing_in(dialect.null))
    held = [site for site in sites if site.files]
    common, left_out = (settled_columns if settled else common_columns)(held, asked)
    said = [note for site in sites for note in site.notes]
    return sites, common, asked, said + notes + left_out


def check_missing(missing: str) -> None:
    """Refuse another way to deal with gaps than there is."""
    if missing not in ("error", "drop", *KEEPING):
        raise fail(
            f"missing is {missing!r}; use 'error', 'drop', 'impute' or 'available'"
        )


def _looked_at(
    paths: Sequence[Path], dialect: Dialect, may_be_empty: bool
) -> list[SiteFiles]:
    """Look into the files; those without content are sites without rows, if so asked.

    Not all of them may be.
    """
    look = site_files_if_any if may_be_empty else site_files
    found = [look(path, dialect) for path in paths]
    if not any(site.files for site in found):
        raise empty(paths[0])
    return found


class _Declared(NamedTuple):
    """What is declared of columns, by the names that these have in the files.

    `settled` are those about which nothing has to be found out: levels that have an
    order, and dates of which parts count.
    """

    categories: Mapping[str, tuple[str, ...]]
    settled: Mapping[str, Feature]
    dates: tuple[str, ...]

    def numbers_only(
        self, common: tuple[str, ...], odd: Sequence[OddCell]
    ) -> tuple[Embedding, list[str]]:
        """Leave out columns of texts, but for those that are declared."""
        known = {*self.dates, *self.settled}
        left, remarks = _without([c for c in odd if c.column not in known], common)
        return Embedding(left, tuple(self.settled.values()), self.dates), remarks

    def of_one(
        self,
        site: SiteFiles,
        common: tuple[str, ...],
        odd: Sequence[OddCell],
        least: int,
    ) -> tuple[Embedding, list[str]]:
        """Settle what one site knows alone; the levels are agreed on later."""
        return own_categories(site, common, odd, self.categories, self.dates, least)

    def of_all(
        self,
        sites: Sequence[SiteFiles],
        common: tuple[str, ...],
        odd: Sequence[OddCell],
        least: int,
    ) -> tuple[Embedding, list[str]]:
        """Settle the categories of all sites."""
        given = (self.categories, self.settled, self.dates, least)
        return categories_in(sites, common, odd, *given)


def _declared(
    common: tuple[str, ...],
    drop: Sequence[str],
    categories: Mapping[str, Sequence[str]] | None,
    ordinal: Mapping[str, Sequence[str]] | None,
    dates: Dates,
) -> _Declared:
    """Match what is declared with the columns there are; each is declared once."""
    # What is left out today may be declared in a settings file all the same.
    gone = {name_key(name) for name in drop}
    in_time = by_column("--date", _of_use(with_parts(dates), gone), common)
    parts = parts_of_dates("--date", in_time)
    days = tuple(name for name in in_time if name not in parts)
    declared = by_column("--category", _of_use(categories, gone), common)
    in_order = by_column("--ordinal", _of_use(ordinal, gone), common)
    ordered = {
        name: ordered_feature("--ordinal", name, given)
        for name, given in in_order.items()
    }
    _once({"--category": declared, "--date": in_time, "--ordinal": ordered})
    return _Declared(declared, {**ordered, **parts}, days)


def _of_use(
    declared: Mapping[str, Sequence[str]] | None, left_out: Container[str]
) -> dict[str, tuple[str, ...]]:
    """Return what is declared of columns that are not left out."""
    given = (declared or {}).items()
    return {name: tuple(own) for name, own in given if name_key(name) not in left_out}


def _once(declared: Mapping[str, Collection[str]]) -> None:
    """Refuse a column that is declared to be two things."""
    by_whom: dict[str, str] = {}
    for option, names in declared.items():
        for name in names:
            if name in by_whom:
                raise fail(f"{by_whom[name]} and {option} both name {name!r}; drop one")
            by_whom[name] = option


def _without(
    odd: Sequence[OddCell], columns: tuple[str, ...]
) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns of numbers, and a note on the others."""
    if not odd:
        return columns, []
    text = {cell.column for cell in odd}
    left = tuple(name for name in columns if name not in text)
    if not left:
        raise fail(
            f"--numeric-only leaves no column to use: {described(odd)}; write numbers "
            "into the files"
        )
    which = "column" if len(odd) == 1 else "columns"
    return left, [f"{which} left out, not numbers: {described(odd, len(odd))}"]


def _choose(sites: Sequence[SiteFiles], whole: str) -> tuple[bool, list[str]]:
    """Return whether to stream, and a note if that would be better but cannot be."""
    files = [file.path for site in sites for file in site.files]
    size = sum(map(size_in_memory, files))
    if size <= STREAM_ABOVE:
        return False, []
    about = f"about {size / 1e9:.1f} GB are read into memory"
    if whole:
        return False, [f"{about}: {whole} needs all rows there"]
    if not can_stream_parquet() and any(ending(f) == PARQUET for f in files):
        return False, [f"{about}; to stream them: pip install 'afcl[stream]'"]
    return True, []


def size_in_memory(path: Path) -> int:
    """Return about how many bytes a file takes in memory: its numbers, or its text."""
    if ending(path) == PARQUET:
        return parquet_rows(path) * len(parquet_names(path)) * 8
    packed = ending(path).endswith(".gz") or ending(path) == EXCEL
    return os.path.getsize(path) * (UNPACKED if packed else 1)

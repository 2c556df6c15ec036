# SPDX-License-Identifier: Apache-2.0
"""Which columns count: those that every site has, by whatever spelling, and asked for.

Spellings that differ in upper and lower case or in white space are one name, unless a
file has two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from afcl.data.errors import fail, listed
from afcl.data.files import DataFile
from afcl.data.sources import SiteFiles
from afcl.data.spelling import name_key, nearest
from afcl.exceptions import InputError

#: The column of the files of labels that has the labels.
CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """What is asked of the columns.

    Attributes
    ----------
    columns : tuple of str
        Use only these, in this order; none: all that every site has.
    drop : tuple of str
        Leave these out.
    id_column : str or None
        What rows are called by: kept out of everything, and put beside the labels.
    everywhere : bool
        Whether every site must have a column; otherwise two of them must.
    """

    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    id_column: str | None = None
    everywhere: bool = True


def matched(
    sites: Sequence[SiteFiles], asked: ColumnRequest
) -> tuple[list[SiteFiles], ColumnRequest, list[str]]:
    """Give columns that are spelt differently one name: that which comes first.

    Spellings that are asked for come before those of the files.

    Returns
    -------
    sites : list of SiteFiles
    asked : ColumnRequest
        With the names that columns go by.
    notes : list of str
        What was taken for what.
    """
    files = [file for site in sites for file in site.files]
    wanted = [*asked.columns, *filter(None, [asked.id_column])]
    names = _one_name_each(files, wanted)
    notes = []
    found = []
    for site in sites:
        called = [_called(file, names) for file in site.files]
        notes += [note for file in called for note in _notes_of(file)]
        found.append(replace(site, files=tuple(called)))
    dropped = tuple(names.get(name_key(name), name) for name in asked.drop)
    return found, replace(asked, drop=dropped), notes


def _one_name_each(files: Sequence[DataFile], wanted: Sequence[str]) -> dict[str, str]:
    """Return the name that all spellings of a column go by, but for ambiguous ones."""
    unclear: set[str] = set()
    for spellings in (dict.fromkeys(wanted), *(file.columns for file in files)):
        keys = [name_key(name) for name in spellings]
        unclear.update(key for key in keys if keys.count(key) > 1)
    names: dict[str, str] = {}
    for name in (*wanted, *(name for file in files for name in file.columns)):
        names.setdefault(name_key(name), name)
    return {key: name for key, name in names.items() if key not in unclear}


def _called(file: DataFile, names: dict[str, str]) -> DataFile:
    columns = tuple(names.get(name_key(name), name) for name in file.columns)
    pairs = zip(columns, file.columns, strict=True)
    own = {name: spelt for name, spelt in pairs if name != spelt}
    return replace(file, columns=columns, own=own)


def _notes_of(file: DataFile) -> list[str]:
    """Say what the columns of a file were taken for."""
    pairs = [(spelt, name) for name, spelt in file.own.items()]
    if not pairs:
        return []
    (spelt, name), *more = pairs
    first = f"{spelt!r} of {file.path} is {name!r}"
    return [listed([first, *(f"{spelt!r} is {name!r}" for spelt, name in more)])]


def common_columns(
    sites: Sequence[SiteFiles], asked: ColumnRequest
) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns to use, and notes on those that not every site has."""
    _check_asked(sites, asked)
    columns = asked.columns
    out = {*asked.drop, asked.id_column}
    every = dict.fromkeys(name for site in sites for name in site.columns)
    wanted = [c for c in every if c not in out and (not columns or c in columns)]
    enough = len(sites) if asked.everywhere else min(2, len(sites))
    lacking = {c: _lacking(c, sites, enough) for c in wanted}
    order = dict.fromkeys(columns or (sites[0].columns if asked.everywhere else every))
    common = tuple(c for c in order if c in lacking and lacking[c] is None)
    if not common:
        raise _nothing_common(sites, set(wanted))
    notes = [
        f"column {c!r} left out: {path} does not have it"
        for c, path in lacking.items()
        if path is not None
    ]
    return common, notes


def _lacking(column: str, sites: Sequence[SiteFiles], enough: int) -> Path | None:
    """Return a site that lacks a column, unless enough others have it."""
    have = sum(column in site.columns for site in sites)
    if have >= enough:
        return None
    return next(site.path for site in sites if column not in site.columns)


def settled_columns(
    sites: Sequence[SiteFiles], asked: ColumnRequest
) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns that were settled before, and notes on sites that lack some.

    Refuses them where every site must have all, and a site that has none.
    """
    _check_asked(sites, replace(asked, columns=()))
    notes = []
    for site in sites:
        lacking = [name for name in asked.columns if name not in site.columns]
        if asked.everywhere and lacking or len(lacking) == len(asked.columns):
            raise LacksColumns(lacking, site)
        if lacking:
            which = "column" if len(lacking) == 1 else "columns"
            names = listed([repr(name) for name in lacking])
            notes.append(f"{site.path}: no {which} {names}; labelled by the others")
    return asked.columns, notes


class LacksColumns(InputError):
    """A file lacks columns that were settled before."""

    def __init__(self, names: Sequence[str], site: SiteFiles) -> None:
        named = [f"{name!r}{nearest(name, site.columns)}" for name in names]
        what = "is no column" if len(names) == 1 else "are no columns"
        super().__init__(
            f"{site.path}: there {what} {listed(named)}, which the run had; it has "
            f"{listed(site.columns)}"
        )


def _check_asked(sites: Sequence[SiteFiles], asked: ColumnRequest) -> None:
    """Refuse names that the files do not know."""
    by_option = [("--columns", name) for name in asked.columns if asked.everywhere]
    if asked.id_column is not None:
        by_option.append(("--id", asked.id_column))
    for option, name in by_option:
        for site in sites:
            if name not in site.columns:
                raise fail(
                    f"{site.path}: {option} names {name!r}, which it does not have"
                    f"{nearest(name, site.columns)}; it has {listed(site.columns)}"
                )
    every = tuple(dict.fromkeys(name for site in sites for name in site.columns))
    for option, names in (("--drop", asked.drop), ("--columns", asked.columns)):
        unknown = [name for name in names if name not in every]
        if unknown:
            raise fail(
                f"{option} names {unknown[0]!r}, which no file has"
                f"{nearest(unknown[0], every)}; they have {listed(every)}"
            )
    if asked.id_column == CLUSTER:
        raise fail(f"--id names {CLUSTER!r}, as labels are called; rename the column")


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

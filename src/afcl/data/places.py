# SPDX-License-Identifier: Apache-2.0
"""Where sites are: files, folders of one file per site, folders that are one site."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from afcl.data.errors import EXCEL, PARQUET, ending, fail, unreadable
from afcl.data.names import NO_FILES, AnyPath

#: Endings of tables, and of nothing else.
TABLES = (".csv", ".tsv", PARQUET, EXCEL)


def site_places(
    paths: Iterable[AnyPath], one_site: Iterable[AnyPath] = ()
) -> tuple[list[Path], list[str]]:
    """Return a file or folder for every site, and notes on folders taken apart.

    Parameters
    ----------
    paths : iterable of paths
        Files, and folders every file of which is a site.
    one_site : iterable of paths
        Folders the files of which are one site.
    """
    places: list[Path] = []
    notes: list[str] = []
    for path in map(Path, paths):
        files, left_out = files_at(path)
        places += files
        if os.path.isdir(path):
            notes += [*left_out, _taken_apart(path, len(files))]
    places += map(Path, one_site)
    if not places:
        raise fail(NO_FILES)
    return places, notes


def _taken_apart(path: Path, n_files: int) -> str:
    if n_files == 1:
        return f"{path}: 1 file, one site"
    return (
        f"{path}: {n_files} files, taken as one site each (--site {path} would take "
        "them as one)"
    )


def files_at(path: Path) -> tuple[list[Path], list[str]]:
    """Return the files at a path, and notes on those that are left out."""
    if not os.path.isdir(path):
        return [path], []
    try:
        found = sorted(p for p in path.iterdir() if p.name[0] not in "._")
        files = [p for p in found if ending(p) and p.is_file() and p.stat().st_size]
    except OSError as error:
        raise unreadable(path, error) from None
    if not files:
        raise fail(
            f"{path}: a folder without .csv, .tsv, .txt, .parquet or .xlsx files; name "
            "the site's file, or a folder that holds its files"
        )
    # Beside tables, a text is rather about them.
    sure = [p for p in files if ending(p).removesuffix(".gz") in TABLES]
    files = sure or files
    left = [p for p in found if p not in files]
    return files, [f"{p} left out: {_no_table(p)}" for p in left]


def _no_table(path: Path) -> str:
    is_empty = ending(path) and path.is_file() and not path.stat().st_size
    return "there is nothing in it" if is_empty else "not a table"

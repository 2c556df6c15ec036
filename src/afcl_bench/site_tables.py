# SPDX-License-Identifier: Apache-2.0
"""Tables that come from several sites by nature: a folder each, a file per site.

``sites:NAME`` are the columns of numbers of ``NAME/*.csv`` with every gap filled by the
column's median over all rows, which is what methods need that know neither gaps nor
categories; ``sites:NAME:mixed`` are the same rows with their categories and their gaps,
for a method that takes them. Scores are computed on the numbers in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from afcl._typing import Floats, Ints
from afcl.data.errors import MISSING, fail
from afcl.data.files import read_frame
from afcl_bench.fetch import class_codes

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class SiteColumns:
    """Which columns of a table are used, and how.

    Attributes
    ----------
    numbers, categories
        Columns that are used; all others are left out.
    known
        The class column, if there is one.
    above
        The class is whether the class column is above this; None: the column itself.
    never_zero
        Columns of numbers in which 0 means that nobody measured.
    """

    numbers: tuple[str, ...]
    categories: tuple[str, ...] = ()
    known: str = ""
    above: float | None = None
    never_zero: tuple[str, ...] = ()


@dataclass(frozen=True)
class SiteTable:
    """Rows of all sites, one after the other.

    Attributes
    ----------
    X
        The numbers, gaps filled by medians.
    y
        Classes from 0; all 0 where none are known.
    k
        Number of classes; 0 where none are known.
    owner
        The site of every row, sites by file name.
    frame
        Numbers and categories, with gaps.
    """

    X: Floats
    y: Ints
    k: int
    owner: Ints
    frame: pl.DataFrame


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: What is used of every table. Identifiers, dates, what was given to patients and what
#: became of them later are left out, and columns that are empty in most rows.
SITES = {
    "airports": SiteColumns(
        _words("temp dewp humid wind_speed precip pressure visib"),
    ),
    "beijing-air": SiteColumns(
        _words("PM2.5 PM10 SO2 NO2 CO O3 TEMP PRES DEWP RAIN WSPM"),
        ("wd",),
    ),
    "heart": SiteColumns(
        _words("age trestbps chol thalach oldpeak"),
        _words("sex cp fbs restecg exang slope"),
        known="num",
        above=0.0,
        never_zero=("trestbps", "chol"),
    ),
    "indomethacin": SiteColumns(
        ("age", "risk"),
        _words(
            "gender sod pep recpanc psphinc precut difcan pneudil amp paninj acinar "
            "brush asa81 asa325 prophystent therastent pdstent sodsom bsphinc bstent "
            "chole pbmal status type"
        ),
    ),
    "olive": SiteColumns(
        _words(
            "palmitic palmitoleic stearic oleic linoleic linolenic arachidic eicosenoic"
        ),
        known="region",
    ),
    "opt": SiteColumns(
        _words(
            "Age BMI N.qualifying.teeth BL.GE BL..BOP BL.PD.avg BL..PD.4 BL..PD.5 "
            "BL.CAL.avg BL..CAL.2 BL..CAL.3 BL.Calc.I BL.Pl.I"
        ),
        _words(
            "Black White Education Public.Asstce Hypertension Diabetes Use.Tob Use.Alc "
            "Prev.preg"
        ),
    ),
    "penguins": SiteColumns(
        _words("bill_length_mm bill_depth_mm flipper_length_mm body_mass_g"),
        ("sex",),
        known="species",
    ),
}


def read_sites(name: str, folder: Path | None) -> SiteTable:
    """Read a table of several sites.

    Parameters
    ----------
    name : str
        One of :data:`SITES`.
    folder : Path, optional
        Where a folder of this name is looked for, also in folders below.

    Returns
    -------
    SiteTable
    """
    if name not in SITES:
        raise fail(f"unknown sites {name!r}; choose from {', '.join(sorted(SITES))}")
    columns = SITES[name]
    files = _files(name, folder)
    tables = [_used(path, columns) for path in files]
    owner = np.repeat(np.arange(len(files)), [table.height for table in tables])
    return _joined(tables, columns, owner.astype(np.int64))


def _files(name: str, folder: Path | None) -> list[Path]:
    found = [] if folder is None else [p for p in folder.rglob(name) if p.is_dir()]
    files = sorted(min(found).glob("*.csv")) if found else []
    if not files:
        where = "no folder was given" if folder is None else f"none is below {folder}"
        raise fail(
            f"sites:{name} needs a folder {name} with a CSV file per site, and "
            f"{where}: give the one that holds it with --data DIR"
        )
    return files


def _used(path: Path, columns: SiteColumns) -> pl.DataFrame:
    """Return the columns of a site's file that are used, all as text."""
    import polars as pl

    frame, _ = read_frame(path)
    wanted = [*columns.numbers, *columns.categories]
    if columns.known:
        wanted.append(columns.known)
    lacking = [column for column in wanted if column not in frame.columns]
    if lacking:
        raise fail(f"{path}: lacks the column {lacking[0]!r}; use the original file")
    texts = frame.select(pl.col(wanted).cast(pl.String).str.strip_chars())
    none = pl.all().str.to_lowercase().is_in(MISSING)
    return texts.with_columns(pl.when(~none).then(pl.all()))


def _joined(
    tables: Sequence[pl.DataFrame], columns: SiteColumns, owner: Ints
) -> SiteTable:
    """Put the sites' rows together; a row without a class is left out."""
    import polars as pl

    whole = pl.concat(tables)
    held = np.ones(whole.height, dtype=np.bool_)
    if columns.known:
        held = whole[columns.known].is_not_null().to_numpy()
    whole = whole.filter(held)
    numbers = whole.select(pl.col(columns.numbers).cast(pl.Float64, strict=False))
    numbers = numbers.with_columns(
        pl.when(pl.col(column) != 0).then(pl.col(column))
        for column in columns.never_zero
    )
    y = _classes(whole, columns)
    texts = whole.select(pl.col(columns.categories).cast(pl.Categorical))
    filled = numbers.with_columns(pl.all().fill_null(pl.all().median()))
    return SiteTable(
        np.ascontiguousarray(filled.to_numpy(), dtype=np.float64),
        y,
        int(y.max()) + 1 if columns.known else 0,
        owner[held],
        pl.concat([numbers, texts], how="horizontal"),
    )


def _classes(whole: pl.DataFrame, columns: SiteColumns) -> Ints:
    import polars as pl

    if not columns.known:
        return np.zeros(whole.height, dtype=np.int64)
    known = whole[columns.known]
    if columns.above is not None:
        above = known.cast(pl.Float64) > columns.above
        return above.cast(pl.Int64).to_numpy()
    return class_codes(known.to_list())

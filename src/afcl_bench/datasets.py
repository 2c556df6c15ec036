# SPDX-License-Identifier: Apache-2.0
"""Datasets by name: generated ones, scikit-learn's, the paper's, and your own files.

========================  ======================================================
`SD1`, `SD2`, `mixture`   drawn from the seed
`gaussians:N:D:K`         N rows, D features, K clusters, drawn from the seed
`iris`, `breast-cancer`,  come with scikit-learn
`wine`, `digits`
`IR`, `SE`, …, `TF`       the paper's UCI sets, from the folder or else fetched
`CC:paper`, `LI:paper`,   the same as the paper counts them, where that differs
`AB:paper`
`sites:NAME`              a folder with a file per site, see :mod:`.site_tables`;
                          `sites:NAME:mixed` with its categories and gaps
any other NAME            NAME.csv below the folder; its last column is the class
========================  ======================================================

A name in the upper rows always means that set, also when the folder has such a file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from afcl._typing import Bools, Floats, Ints
from afcl.data.errors import MISSING, excerpt, fail
from afcl.data.files import read_frame
from afcl.data.synthetic import make_mixture, make_sd1, make_sd2, random_mixture
from afcl_bench.fetch import class_codes, fetched
from afcl_bench.site_tables import SITES, read_sites

if TYPE_CHECKING:
    import polars as pl

#: Sets that are drawn from the seed.
GENERATED = {"SD1": make_sd1, "SD2": make_sd2, "mixture": random_mixture}
#: Sets that come with scikit-learn, and the function that returns each.
BUNDLED = {
    "breast-cancer": "load_breast_cancer",
    "digits": "load_digits",
    "iris": "load_iris",
    "wine": "load_wine",
}
#: What a name of generated rows of any size looks like.
GAUSSIANS = "gaussians:N:D:K"
#: How far apart the clusters of such rows are, and how unequal.
SEPARATION = 2.5
IMBALANCE = 3.0


@dataclass(frozen=True)
class Dataset:
    """Rows, their classes, and how many clusters are sought.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n_samples, n_features)
        Complete rows only.
    y : ndarray of shape (n_samples,)
        The class of each row, counted from 0 in the sorted order of the class values.
    k : int
        The number of clusters for methods that must be told.
        0 where nobody knows.
    columns : tuple of str
    owner : ndarray of shape (n_samples,) or None
        The site of each row, where the data come from several by nature.
    frame : polars.DataFrame or None
        The rows with categories and gaps, for methods that take them.
    """

    name: str
    X: Floats
    y: Ints
    k: int
    columns: tuple[str, ...]
    owner: Ints | None = None
    frame: pl.DataFrame | None = None


@dataclass(frozen=True)
class Reading:
    """How one of the paper's sets is read from its file.

    Attributes
    ----------
    file : str
        The set's file, without `.csv`.
    rule : str
        What is left out or counted differently, and why.
    k : int or None
        The number of clusters; None counts the classes that occur.
    n_skipped : int
        Leading columns that are left out.
    n_columns : int or None
        Features that the file must have, where some are left out.
    """

    file: str
    rule: str
    k: int | None = None
    n_skipped: int = 0
    n_columns: int | None = None


#: The paper's sets. A row without a value is left out of every one of them.
READINGS = {
    "IR": Reading("IR", "Nothing is left out."),
    "SE": Reading("SE", "Nothing is left out."),
    "AL": Reading("AL", "Nothing is left out: the 10 430 rows for training."),
    "AB": Reading(
        "AB",
        "The sex, which is no number, is not in the file; k is 28, the labels that "
        "occur.",
    ),
    "AB:paper": Reading("AB", "k is 29, the largest label; 28 labels occur.", k=29),
    "CC": Reading(
        "CC",
        "The first column is left out: a patient's number says nothing about a tumour.",
        n_skipped=1,
        n_columns=31,
    ),
    "CC:paper": Reading(
        "CC", "The first column, the patient's number, stays a feature as in the paper."
    ),
    "AC": Reading("AC", "Nothing is left out; the file has ten digits of a number."),
    "SG": Reading("SG", "Nothing is left out: the 2100 rows for testing."),
    "LI": Reading("LI", "Nothing is left out; k is 4, the classes that occur."),
    "LI:paper": Reading(
        "LI",
        "k is 2, as printed, since the paper's code reads two classes; rows and the "
        "four classes stay as they are, for what it made of the others is not known.",
        k=2,
    ),
    "PA": Reading("PA", "Nothing is left out."),
    "AU": Reading(
        "AU",
        "One row of 776 is left out, for it lacks a value; history and detection risk "
        "are not in the file, and three places that have names have the number 8.",
    ),
    "TF": Reading("TF", "Nothing is left out."),
}


def dataset_names() -> list[str]:
    """Return all fixed names, sorted.

    Examples
    --------
    >>> dataset_names()[:4]
    ['AB', 'AB:paper', 'AC', 'AL']
    """
    return sorted([*GENERATED, *BUNDLED, *READINGS])


def load(
    name: str, *, seed: int = 0, folder: Path | None = None, fetch: bool = True
) -> Dataset:
    """Return a dataset by its name.

    Parameters
    ----------
    name : str
        See the module; `dataset_names` lists the fixed ones.
    seed : int
        What generated sets are drawn from; the others ignore it.
    folder : Path, optional
        Where files are looked for, also in folders below.
    fetch : bool
        Whether one of the paper's sets may be downloaded. Without, it comes from
        the folder or from an earlier download.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        With one line that says what is wrong and what to do.

    Examples
    --------
    >>> load("gaussians:500:3:4", seed=1).X.shape
    (500, 3)
    """
    if name in GENERATED:
        return _drawn(name, *GENERATED[name](seed))
    if name.startswith("gaussians:"):
        return _gaussians(name, seed)
    if name in BUNDLED:
        return _bundled(name)
    if name.startswith("sites:"):
        return _of_sites(name, folder)
    if name in READINGS:
        return _of_the_paper(name, folder, fetch)
    path = _found(name, folder)
    if path is None:
        raise _unknown(name, folder)
    X, y, columns = read_csv(path)
    return Dataset(name, X, y, _count(y), columns)


def is_drawn(name: str) -> bool:
    """Whether every seed gives rows of its own."""
    return name in GENERATED or name.startswith("gaussians:")


def fingerprint(dataset: Dataset) -> str:
    """Return a SHA-256 of the rows and classes, in their order, and of their shapes.

    Examples
    --------
    >>> fingerprint(load("SD1", seed=1)) == fingerprint(load("SD1", seed=2))
    False
    """
    shapes = [list(dataset.X.shape), list(dataset.y.shape)]
    digest = hashlib.sha256(json.dumps(shapes).encode())
    # Adding 0 makes -0.0 and 0.0 the same bytes.
    digest.update((np.asarray(dataset.X, dtype="<f8") + 0.0).tobytes())
    digest.update(np.asarray(dataset.y, dtype="<i8").tobytes())
    if dataset.owner is not None:
        digest.update(np.asarray(dataset.owner, dtype="<i8").tobytes())
    if dataset.frame is not None:
        digest.update(dataset.frame.write_csv().encode())
    return digest.hexdigest()


def read_csv(path: Path) -> tuple[Floats, Ints, tuple[str, ...]]:
    """Read a file of numbers whose last column is the class.

    Parameters
    ----------
    path : Path

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The rows without missing values.
    y : ndarray of shape (n_samples,)
    columns : tuple of str
        The names of the features.
    """
    frame, _ = read_frame(path)
    *columns, label = frame.columns
    if not columns:
        raise fail(f"{path}: has one column; features come first, the class last")
    X = np.column_stack([_numbers(frame[column], path) for column in columns])
    kept = _with_value(frame[label]) & ~np.isnan(X).any(axis=1)
    if not kept.any():
        raise fail(f"{path}: every row lacks a value; fill them in")
    classes = frame[label].filter(kept).to_list()
    return X[kept], class_codes(classes), tuple(columns)


def _numbers(series: pl.Series, path: Path) -> Floats:
    """Return a column of text as float64, NaN where there is no value."""
    import polars as pl

    values = series.str.strip_chars().cast(pl.Float64, strict=False)
    array: Floats = values.to_numpy().astype(np.float64)
    bad = np.flatnonzero(_with_value(series) & ~np.isfinite(array))
    if bad.size:
        row = int(bad[0])
        raise fail(
            f"{path}: column {series.name!r}, row {row + 1} is {excerpt(series[row])}, "
            "not a finite number; correct it, or take the column out of the file"
        )
    return array


def _with_value(series: pl.Series) -> Bools:
    """Mark the cells that hold something other than a sign for "missing"."""
    words = series.fill_null("").str.strip_chars().str.to_lowercase()
    marks: Bools = (~words.is_in(MISSING)).to_numpy()
    return marks


def _count(y: Ints) -> int:
    return int(y.max()) + 1


def _drawn(name: str, X: Floats, y: Ints) -> Dataset:
    columns = tuple(f"x{i}" for i in range(1, X.shape[1] + 1))
    return Dataset(name, X, y, _count(y), columns)


def _gaussians(name: str, seed: int) -> Dataset:
    """Draw as many rows, features and clusters as the name says.

    While they are drawn, the rows take about four times their own memory.
    """
    try:
        n, d, k = (int(part) for part in name.split(":")[1:])
    except ValueError:
        raise fail(
            f"{name!r} is not of the form {GAUSSIANS}; write rows, features and "
            "clusters as whole numbers, like gaussians:1000:2:8"
        ) from None
    make = partial(make_mixture, separation=SEPARATION, imbalance=IMBALANCE)
    return _drawn(name, *make(k, d, random_state=seed, n_samples=n))


def _bundled(name: str) -> Dataset:
    """Return one of the sets that come with scikit-learn."""
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, BUNDLED[name])()
    X = np.ascontiguousarray(bunch.data, dtype=np.float64)
    y = np.asarray(bunch.target, dtype=np.int64)
    return Dataset(name, X, y, _count(y), tuple(map(str, bunch.feature_names)))


def _of_the_paper(name: str, folder: Path | None, fetch: bool) -> Dataset:
    """Read one of the paper's sets by its rule."""
    reading = READINGS[name]
    path = _found(reading.file, folder) or fetched(reading.file, folder, online=fetch)
    X, y, columns = read_csv(path)
    if reading.n_columns not in (None, len(columns)):
        raise fail(
            f"{path}: has {len(columns)} features, but {name} leaves the first of "
            f"{reading.n_columns} out; use the original file, or another name for yours"
        )
    k = _count(y) if reading.k is None else reading.k
    kept = slice(reading.n_skipped, None)
    return Dataset(name, np.ascontiguousarray(X[:, kept]), y, k, columns[kept])


def _of_sites(name: str, folder: Path | None) -> Dataset:
    """Read a table of several sites, its numbers alone or all of it."""
    base, _, kind = name.removeprefix("sites:").partition(":")
    if kind not in ("", "mixed"):
        raise fail(
            f"unknown dataset {name!r}: write sites:{base} or sites:{base}:mixed"
        )
    table = read_sites(base, folder)
    frame = table.frame if kind else None
    columns = SITES[base].numbers
    return Dataset(name, table.X, table.y, table.k, columns, table.owner, frame)


def _found(stem: str, folder: Path | None) -> Path | None:
    """Return the file of this name below the folder, the first in sorted order."""
    if folder is None:
        return None
    if not folder.is_dir():
        raise fail(f"{folder}: no such folder; check --data")
    files = (path for path in folder.rglob("*.csv") if path.stem == stem)
    return min(files, default=None)


def _unknown(name: str, folder: Path | None) -> Exception:
    """Say what can be asked for instead."""
    base, _, reading = name.partition(":")
    if base in READINGS and reading:
        other = f"{base}:paper"
        known = f"{base} and {other}" if other in READINGS else f"{base} only"
        return fail(f"unknown dataset {name!r}: that set is read as {known}")
    where = "and no folder was given" if folder is None else f"nor below {folder}"
    return fail(
        f"unknown dataset {name!r}: not one of {', '.join(dataset_names())} or "
        f"{GAUSSIANS}, {where}; give the folder that holds {name}.csv with --data DIR"
    )

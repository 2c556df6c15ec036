# SPDX-License-Identifier: Apache-2.0
"""Benchmark specs: a TOML file becomes a list of cells, and a cell a run.

A cell may say an option by a word ("the true k", "as many as AFCL found"); resolving
it against the data and the stored runs gives a run, whose path is its identity.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import numpy as np

from afcl.exceptions import InputError

#: Keys of a spec, and of each of its grids; what a grid leaves out the spec gives.
SHARED = ("runs", "cap", "split", "participation", "trace", "first")
SPEC_KEYS = {"title", "blocks", "include", "grid", *SHARED}
GRID_KEYS = {"group", "datasets", "methods", "options", *SHARED}
DEFAULTS: dict[str, Any] = {
    "runs": 20,
    "first": 0,
    "cap": 120.0,
    "split": "kmeans:5",
    "participation": "random",
    "trace": False,
}

#: Whose k' the word `learned` means.
LEARNER = "afcl"

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Run:
    """What is run, entirely; equal runs have equal paths and equal results."""

    dataset: str
    method: str
    options: Options
    split: str
    participation: str
    seed: int

    @property
    def kind(self) -> tuple[Any, ...]:
        """Return everything but the seed."""
        where = (self.split, self.participation)
        return (self.dataset, self.method, self.options, *where)

    @property
    def path(self) -> PurePosixPath:
        """Return where the run is stored, below the folder of all runs."""
        named = [(_file_name(n), _file_name(str(value))) for n, value in self.options]
        options = ",".join(f"{name}={value}" for name, value in named) or "as-is"
        what = (_file_name(part) for part in (self.dataset, self.method))
        where = (_file_name(part) for part in (self.split, self.participation))
        return PurePosixPath(*what, options, *where, f"{self.seed}.npz")


@dataclass(frozen=True)
class Cell:
    """One entry of a grid: a run, perhaps with options still in words."""

    group: str
    dataset: str
    method: str
    options: Options
    split: str
    participation: str
    seed: int
    cap: float = field(default=120.0, compare=False)
    trace: bool = field(default=False, compare=False)

    @property
    def learns(self) -> Run | None:
        """Return the run whose k' this cell needs, if any."""
        if ("n_clusters", "learned") not in self.options:
            return None
        return Run(self.dataset, LEARNER, (), self.split, self.participation, self.seed)

    def resolve(self, facts: Callable[[], Facts], learned: int | None = None) -> Run:
        """Put numbers in place of words."""
        options = tuple(
            (name, _number(name, value, facts, learned, self.seed))
            for name, value in self.options
        )
        return Run(
            self.dataset,
            self.method,
            options,
            self.split,
            self.participation,
            self.seed,
        )


@dataclass(frozen=True)
class Facts:
    """What words in options refer to: rows and clusters of a data set."""

    n: int
    k: int


@dataclass(frozen=True)
class BenchSpec:
    """A benchmark: its name, what the report shows of it, and its cells.

    `runs_of` is the name that its runs are published by: another's, if they are its.
    """

    name: str
    title: str
    blocks: tuple[str, ...]
    cells: tuple[Cell, ...]
    text: str
    runs_of: str

    def select(self, only: Iterable[str] = (), runs: int | None = None) -> list[Cell]:
        """Return the cells of these data sets and methods, seeds in turn.

        Parameters
        ----------
        only
            Names of data sets and of methods; of each kind, none means all.
        runs
            At most so many runs of every cell.

        Returns
        -------
        list of Cell
            First seeds first, so that whatever has been done covers the whole grid.
        """
        wanted = set(only)
        datasets = {cell.dataset for cell in self.cells}
        methods = {cell.method for cell in self.cells}
        unknown = sorted(wanted - datasets - methods)
        if unknown:
            raise InputError(
                f"{self.name} has no {', '.join(unknown)}; it has the data sets "
                f"{', '.join(sorted(datasets))} and the methods "
                f"{', '.join(sorted(methods))}"
            )
        datasets = datasets & wanted or datasets
        methods = methods & wanted or methods
        chosen = [
            cell
            for cell in self.cells
            if cell.dataset in datasets and cell.method in methods
        ]
        if runs is not None:
            first: dict[Any, int] = {}
            for cell in chosen:
                key = _without_seed(cell)
                first[key] = min(first.get(key, cell.seed), cell.seed)
            chosen = [c for c in chosen if c.seed < first[_without_seed(c)] + runs]
        return sorted(chosen, key=lambda cell: cell.seed)


def spec_names() -> list[str]:
    """Return the names of the specs that ship with the package."""
    shipped = files("afcl_bench").joinpath("specs").iterdir()
    return sorted(f.name.removesuffix(".toml") for f in shipped if ".toml" in f.name)


def find_spec(name: str, within: tuple[str, ...] = ()) -> BenchSpec:
    """Read a spec: a TOML file, or one that ships with the package, by name."""
    if name in within:
        raise InputError(f"spec {name} includes itself; take one include out")
    within = (*within, name)
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InputError(f"no spec {path}: give a TOML file or a spec's name")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8: {error}") from None
        return parse_spec(path.stem, text, within)
    if name not in spec_names():
        raise InputError(
            f"unknown spec {name!r}; choose one of {', '.join(spec_names())}, "
            "or give a TOML file"
        )
    shipped = files("afcl_bench").joinpath("specs", f"{name}.toml")
    return parse_spec(name, shipped.read_text(encoding="utf-8"), within)


def parse_spec(name: str, text: str, within: tuple[str, ...] = ()) -> BenchSpec:
    """Read a spec's text; a mistake in it ends with one line."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"spec {name} is not TOML: {error}") from None
    _check_keys(name, table, SPEC_KEYS)
    named = _listed(table.get("include", []))
    included = [find_spec(str(other), within) for other in named]
    grids = table.get("grid", [])
    if not isinstance(grids, list) or not (grids or included):
        raise InputError(f"spec {name} has no [[grid]] and no include; add one")
    shared = {**DEFAULTS, **{key: table[key] for key in SHARED if key in table}}
    cells = dict.fromkeys(cell for other in included for cell in other.cells)
    for grid in grids:
        try:
            cells |= dict.fromkeys(_cells(name, {**shared, **grid}))
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            raise InputError(f"a [[grid]] of spec {name} is wrong: {error}") from None
    blocks = tuple(_listed(table.get("blocks", "scores")))
    title = table.get("title", name)
    # One that only looks at another's runs in its own way publishes none.
    runs_of = included[0].runs_of if not grids and len(included) == 1 else name
    return BenchSpec(name, title, blocks, tuple(cells), text, runs_of)


def _cells(name: str, grid: Mapping[str, Any]) -> Iterator[Cell]:
    _check_keys(name, grid, GRID_KEYS)
    for key in ("datasets", "methods"):
        if not grid.get(key):
            raise InputError(f"a [[grid]] of spec {name} has no {key}; list some")
    given = grid.get("options", {})
    combinations = itertools.product(*(_listed(given[key]) for key in sorted(given)))
    varied = [tuple(zip(sorted(given), values, strict=True)) for values in combinations]
    seeds = range(int(grid["first"]), int(grid["first"]) + int(grid["runs"]))
    for dataset, method, options, split, participation, seed in itertools.product(
        _listed(grid["datasets"]),
        _listed(grid["methods"]),
        varied,
        _listed(grid["split"]),
        _listed(grid["participation"]),
        seeds,
    ):
        yield Cell(
            grid.get("group", ""),
            str(dataset),
            str(method),
            options,
            str(split),
            str(participation),
            seed,
            float(grid["cap"]),
            bool(grid["trace"]),
        )


def _number(
    name: str,
    value: Any,
    facts: Callable[[], Facts],
    learned: int | None,
    seed: int,
) -> Any:
    """Return what an option's word stands for."""
    if value == "true":
        return facts().k
    if value == "learned":
        return learned
    if value == "drawn":
        k = facts().k
        return int(np.random.default_rng(seed).integers(k, 2 * k + 1))
    if isinstance(value, str) and value.startswith("n/"):
        share = value.removeprefix("n/")
        if not share.isdecimal() or int(share) == 0:
            raise InputError(f"{name} = {value!r}: write a share of the rows as n/64")
        return max(2, facts().n // int(share))
    return value


def _without_seed(cell: Cell) -> tuple[Any, ...]:
    return (
        cell.group,
        cell.dataset,
        cell.method,
        cell.options,
        cell.split,
        cell.participation,
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _check_keys(name: str, table: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise InputError(
            f"spec {name} has unknown keys {', '.join(unknown)}; "
            f"it may have {', '.join(sorted(known))}"
        )


def _file_name(part: str) -> str:
    """Return a plain name for a part of a path; no two parts share one."""
    name = quote(part, safe=":+ @").replace("~", "%7E").replace(":", "~")
    return name if name.strip(".") else name.replace(".", "%2E")

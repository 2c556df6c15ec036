# SPDX-License-Identifier: Apache-2.0
"""Settings of a run: defaults, overridden by a TOML file, overridden by flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from afcl.cli.config import read_toml, unknown_key
from afcl.cli.tables import LISTS, split_lists
from afcl.exceptions import InputError
from afcl.registry import SHAPE

# ------------------------------------------------- options of more than one command

MISSING = (
    "Rows with missing values: error, drop, impute (fill what can be filled well) or "
    "available (use as they are, for labels only)."
)
Seed = Annotated[int | None, typer.Option(help="Seed of everything random (0).")]
Cohort = Annotated[
    int | None,
    typer.Option(help="Sites whose sums are read together (all, at least 3)."),
]
Holders = Annotated[
    int | None,
    typer.Option(help="Sites that hold rows of a group before it is summed (3)."),
]
#: Typed, it makes `allow_one` false, as a TOML file calls it.
AtLeastTwo = Annotated[
    bool | None,
    typer.Option(
        " /--at-least-two",
        help="Answer with two clusters or more, also if nothing parts the rows.",
        show_default=False,
    ),
]
Granularity = Annotated[
    str | None,
    typer.Option(
        help="Which believable k is the answer: auto (the best), coarse (the "
        "smallest) or fine (the largest)."
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        help="What clusters may look like: convex (round), connected (whatever hangs "
        "together) or auto (whichever is seen)."
    ),
]
SeededNoise = Annotated[
    bool | None,
    typer.Option(
        "--seeded-noise",
        help="Draw the noise of dp from the seed, to repeat a run: no guarantee.",
        show_default=False,
    ),
]
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Leave the rows in their files, or read them into memory; "
        "by default they stay there above 1 GB.",
        show_default=False,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        help="Move the rows there once and work on them there: cuda, or cuda:1 "
        "(pip install 'afcl\\[gpu]').",  # without the backslash it is markup
        metavar="NAME",
        show_default=False,
    ),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Go without TLS.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="What carries the messages.", metavar="NAME")
]

# ------------------------------------------------------------------ their values

#: Every key a run may have, and its default (None: the preset's own).
DEFAULTS: dict[str, Any] = {
    "method": "afcl",
    "n_clusters": None,
    "participation": None,
    "preset": "default",
    "privacy": None,
    "min_cell": 5,
    "cohort": None,
    "holders": 3,
    "max_cells": 1 << 20,
    "ranges": (),
    "scale": "minmax",
    "seed": 0,
    "columns": (),
    "drop": (),
    "missing": "error",
    "numeric_only": False,
    "id": None,
    "category": (),
    "ordinal": (),
    "date": (),
    "separator": None,
    "decimal": None,
    "encoding": None,
    "null": (),
    "n_seeds": "auto",
    "max_clusters": "auto",
    "criterion": "auto",
    "allow_one": True,
    "granularity": "auto",
    "shape": SHAPE,
    "seeded_noise": False,
    "contacts": 3,
    "max_rounds": 100,
}
_LISTS = (*LISTS, "ranges")
#: How columns are scaled where no bounds are given; the default first.
SCALES = ("minmax", "robust")
#: Numbers, or "auto": whatever there are.
_COUNTS = ("n_seeds", "max_clusters")


def settings(config: Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Merge defaults, the TOML file and the flags that were typed (not None).

    Flags that are no settings of a run are left aside.
    """
    return completed(chosen_options(config, flags))


def chosen_options(
    config: Path | None, flags: Mapping[str, Any], *, alone: bool = True
) -> dict[str, Any]:
    """Return the settings that a TOML file or a flag gives, without any defaults.

    Where the file is not `alone` for settings of a run, its other keys are passed over:
    they are read, and the unknown ones refused, elsewhere.
    """
    written = {} if config is None else _read(config, alone)
    typed = {
        name: value
        for name, value in flags.items()
        if name in DEFAULTS and value not in (None, (), [])
    }
    return {**written, **split_lists(typed)}


def completed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a run, those that are not given as usual."""
    merged = {**DEFAULTS, **options}
    for name in _LISTS:
        merged[name] = tuple(merged[name])
    merged["participation"] = participation(merged["participation"])
    return merged


def _read(config: Path, alone: bool) -> dict[str, Any]:
    known = {name.replace("_", "-"): name for name in DEFAULTS}
    merged = {}
    for key, value in read_toml(config).items():
        name = known.get(key.replace("_", "-"))
        if name is None:
            if alone:
                raise unknown_key(config, key, known)
            continue
        _check_type(config, key, name, value)
        merged[name] = value
    return merged


def _check_type(config: Path, key: str, name: str, value: Any) -> None:
    default = DEFAULTS[name]
    if name in _LISTS:
        fits = isinstance(value, list) and all(isinstance(v, str) for v in value)
        wanted = "a list of texts"
    elif isinstance(default, bool):
        fits, wanted = isinstance(value, bool), "true or false"
    elif name in _COUNTS:
        fits = value == "auto" or type(value) is int
        wanted = '"auto" or a whole number'
    elif isinstance(default, int) or name == "n_clusters":
        fits, wanted = type(value) is int, "a whole number"
    elif name == "participation":
        fits, wanted = not isinstance(value, dict), '"always", "random" or numbers'
    else:
        fits, wanted = isinstance(value, str), "a text"
    if not fits:
        raise InputError(f"{config}: {key} must be {wanted}, not {value!r}")


def participation(value: Any) -> Any:
    """Read `always`, `random`, a probability, or probabilities parted by commas."""
    if value is None or value == "always":
        return None
    if value == "random":
        return value
    parts = value.split(",") if isinstance(value, str) else value
    try:
        numbers = [float(part) for part in _listed(parts)]
    except (TypeError, ValueError):
        raise InputError(
            f"participation {value!r} is unknown: give 'always', 'random', a "
            "probability, or one per site parted by commas"
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def scale_of(name: str, ranges: Sequence[str], live: bool = False) -> str:
    """Return the scale that columns are to have where no bounds are given."""
    if name not in SCALES:
        raise InputError(f"--scale {name} is unknown: choose {' or '.join(SCALES)}")
    if name != SCALES[0] and ranges:
        raise InputError(
            f"--scale {name} and --ranges both say how columns are scaled: drop one"
        )
    if name != SCALES[0] and live:
        raise InputError(
            f"scale {name} is for runs on one machine so far: leave it out, or give "
            "public bounds with --ranges"
        )
    return name


def _listed(parts: Any) -> list[Any]:
    return list(parts) if isinstance(parts, list | tuple) else [parts]


def bounds(texts: Sequence[str]) -> dict[str, tuple[float, float]] | None:
    """Read public bounds of columns: ``age=0:120``."""
    read = {}
    for text in texts:
        name, _, both = text.rpartition("=")
        try:
            low, high = (float(part) for part in both.split(":"))
        except ValueError:
            low, high = 1.0, 0.0
        if not name or not low <= high:
            raise InputError(
                f"--ranges {text}: give COLUMN=LOW:HIGH, such as age=0:120"
            )
        read[name] = (low, high)
    return read or None

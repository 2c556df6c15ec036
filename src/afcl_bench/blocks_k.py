# SPDX-License-Identifier: Apache-2.0
"""How often the number of clusters is right, by method and by who holds which row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from afcl_bench.blocks_splits import ALL, PRESENT, called
from afcl_bench.counting import DEFAULT, range_of_k
from afcl_bench.frame import kinds, parts, values
from afcl_bench.store import DONE
from afcl_bench.tables import NONE, Table, number

#: The method's name beside the options it was given and who was there.
LINE = "line"


def k_recovery(frame: pl.DataFrame) -> Iterator[Table]:
    """How often k' is right: on mixtures, on data with known classes, by split."""
    frame = frame.with_columns(_line().alias(LINE))
    yield _mixtures(frame.filter(group="mixtures"))
    suite = frame.filter(group="suite")
    if suite.height:
        splits = kinds(suite, "split")
        yield _sets(suite.filter(split=splits[0]), splits[0])
        yield _over_sets(suite, splits)


def _line() -> pl.Expr:
    present = pl.when(pl.col("participation") == PRESENT).then(pl.lit(ALL))
    options = pl.when(pl.col("options") != "").then(", " + pl.col("options"))
    return pl.concat_str(
        "method", options.otherwise(pl.lit("")), present.otherwise(pl.lit(""))
    )


def _mixtures(runs: pl.DataFrame) -> Table:
    splits, ours = kinds(runs, "split"), runs.filter(pl.col(LINE) == DEFAULT)
    rows = []
    for line, part in parts(runs, LINE).items():
        cells = [_hits(part.filter(split=s), ours.filter(split=s)) for s in splits]
        rows.append((line, *cells))
    return Table(
        "k-recovery",
        "Generated mixtures: share of all runs with k' exact / within 1, and the ARI. "
        "A run without an answer within its cap counts as wrong (ARI 0). Slow methods "
        "met the first mixtures only; beside them stands the default on these. Pooled "
        "references see all rows, whoever holds them: one column says all.",
        ("method", *map(called, splits)),
        tuple(rows),
    )


def _hits(runs: pl.DataFrame, ours: pl.DataFrame) -> str:
    """Return the hits; of fewer runs than ours, with our hits in the same ones."""
    if not runs.height:
        return NONE
    agreement = np.nan_to_num(values(runs, "ari"))
    text = f"{_shares(runs)} · {number(float(agreement.mean()))}"
    lost = runs.filter(pl.col("status") != DONE).height
    if lost:
        text += f", {lost} capped"
    if runs.height < ours.height:
        same = ours.filter(pl.col("seed").is_in(runs["seed"].to_list()))
        text += f" ({runs.height} runs; {DEFAULT} {_shares(same)})"
    return text


def _shares(runs: pl.DataFrame) -> str:
    # A run without an answer is off by NaN, which is no hit.
    gaps = np.abs(values(runs, "k") - values(runs, "k_true"))
    return f"{number((gaps == 0).mean(), 2)} / {number((gaps <= 1).mean(), 2)}"


def _sets(runs: pl.DataFrame, split: str) -> Table:
    lines, rows = kinds(runs, LINE), []
    for name, part in parts(runs, "dataset").items():
        true = max(part["k_true"])
        cells = [_ks(part.filter(pl.col(LINE) == line), true) for line in lines]
        rows.append((name, str(true), *cells))
    return Table(
        "k-recovery-suite",
        f"Data with known classes, {called(split)}: runs with k' = k\\*, and the k' "
        "found.",
        ("data", "k*", *lines),
        tuple(rows),
    )


def _ks(runs: pl.DataFrame, true: int) -> str:
    if not runs.height:
        return NONE
    found = range_of_k(runs)
    if found == NONE:
        return "cap"
    exact = runs.filter(pl.col("k") == true).height
    count = f"{exact}/{runs.height}"
    return f"**{count}**" if exact == runs.height else f"{count} ({found})"


def _over_sets(runs: pl.DataFrame, splits: list[str]) -> Table:
    rows = []
    for line, part in parts(runs, LINE).items():
        rows.append((line, *(_exact(part.filter(split=split)) for split in splits)))
    return Table(
        "k-recovery-splits",
        "The same sets by who holds which row: runs with k' = k\\* of all runs.",
        ("method", *map(called, splits)),
        tuple(rows),
    )


def _exact(runs: pl.DataFrame) -> str:
    if not runs.height:
        return NONE
    lost = runs.filter(pl.col("status") != DONE).height
    exact = runs.filter(pl.col("k") == pl.col("k_true")).height
    return f"{exact} of {runs.height}" + (f", {lost} capped" if lost else "")

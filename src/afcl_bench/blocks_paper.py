# SPDX-License-Identifier: Apache-2.0
"""The paper's tables as printed, beside the same from our runs.

As printed: AFCL by the squared silhouette over the runs with k' = k* alone, the rivals
by the Euclidean one over all runs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib.resources import files

import polars as pl

from afcl_bench.counting import (
    AS_PRINTED,
    DEFAULT,
    KNOWN,
    NAMES,
    PUBLISHED,
    RIGHT,
    SIX,
    SIXTY,
    counted,
    mean,
    range_of_k,
)
from afcl_bench.frame import kinds, parts, values
from afcl_bench.store import DONE
from afcl_bench.tables import NONE, Table, mean_std, number


def published() -> dict[tuple[str, str, str], tuple[float, float]]:
    """Return the paper's printed figures: mean and std (NaN: none printed).

    From tables 3 and 4 of Zhang et al., AAAI 2025.
    """
    text = files("afcl_bench").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (line["dataset"], line["method"], line["measure"]): (
            float(line["mean"]),
            float(line["std"] or "nan"),
        )
        for line in csv.DictReader(text.splitlines())
    }


def plain(name: str) -> str:
    """Return a data set's name without its reading."""
    return name.removesuffix(":paper")


def selected(frame: pl.DataFrame) -> pl.DataFrame:
    """Keep the runs the published table counts: k' = k*, or else k' > 1."""
    done = frame.filter(status=DONE)
    exact = done.filter(RIGHT)
    return exact if exact.height else done.filter(pl.col("k") > 1)


def printed(frame: pl.DataFrame) -> Iterator[Table]:
    """Set AFCL's printed figures beside the same selection of our runs."""
    figures = published()
    runs = frame.filter(group=AS_PRINTED, method=PUBLISHED)
    rows = []
    for name, group in parts(runs, "dataset").items():
        chosen = selected(group)
        exact = group.filter(RIGHT).height
        line = [name]
        for measure, own in (("sc", "sc2"), ("ch", "ch")):
            middle, std = figures[plain(name), PUBLISHED, measure]
            line += [f"{number(middle)} ± {number(std, 2)}".removesuffix(f" ± {NONE}")]
            line += [mean_std(values(chosen, own))]
        everything = mean_std(counted(group, "sc"))
        line += [f"{exact} of {group.height}", everything]
        rows.append(tuple(line))
    header = ("data", "SC² printed", "SC² ours", "CH printed", "CH ours")
    yield Table(
        "printed",
        "AFCL as printed: the published code's behaviour (`matlab` preset), squared "
        "silhouette, only runs with k' = k\\* (where there is none, k' > 1). The last "
        "column counts all runs, Euclidean, a collapsed one as -1.",
        (*header, "k' = k*", "SC, all runs"),
        tuple(rows),
    )
    yield _printed_rivals(frame)


def printed_shares(frame: pl.DataFrame) -> Iterator[Table]:
    """Say what became of all runs of the published code's behaviour."""
    runs = frame.filter(group=SIXTY, method=PUBLISHED, status=DONE)
    rows = []
    for name, group in parts(runs, "dataset").items():
        chosen, apart = selected(group), group.filter(pl.col("k") > 1)
        kept = group.filter(pl.col("k") == pl.col("started_from")).height
        rows.append(
            (
                name,
                f"{kept} of {group.height}",
                f"{group.height - apart.height} of {group.height}",
                f"{group.filter(RIGHT).height} of {group.height}",
                mean_std(values(chosen, "sc2")),
                mean_std(values(chosen, "ch")),
                mean_std(values(apart, "sc")),
            )
        )
    header = (
        "data",
        "k' = k₀",
        "collapsed",
        "k' = k*",
        "SC²",
        "CH",
        "SC, not collapsed",
    )
    yield Table(
        "printed-shares",
        "The published code's behaviour (`matlab` preset), clients split with the "
        "class column: SC² and CH over the runs with k' = k\\* (where there is none, "
        "k' > 1), the Euclidean silhouette over all that did not collapse.",
        header,
        tuple(rows),
    )


def _printed_rivals(frame: pl.DataFrame) -> Table:
    figures = published()
    told_k = frame.filter(group=KNOWN)
    rows = []
    for name in kinds(told_k, "dataset"):
        line = [name]
        for method in SIX:
            middle, _ = figures[plain(name), method, "sc"]
            ours = values(told_k.filter(dataset=name, method=method), "sc")
            line.append(f"{number(middle)} / {number(mean(ours))}")
        rows.append(tuple(line))
    return Table(
        "printed-rivals",
        "The rivals' Euclidean silhouette, printed / ours (given k\\*, all runs). Ours "
        "are written from the papers; clients are split without the class column.",
        ("data", *SIX),
        tuple(rows),
    )


def default_squared(frame: pl.DataFrame) -> Iterator[Table]:
    """Set the default preset, all runs, beside AFCL's printed figures."""
    figures = published()
    runs = parts(frame.filter(method=DEFAULT), "dataset")
    rows, held = [], {"sc": 0, "ch": 0}
    for name, group in runs.items():
        line = [name]
        for measure, own in (("sc", "sc2"), ("ch", "ch")):
            middle, _ = figures[plain(name), PUBLISHED, measure]
            found = counted(group, own)
            holds = bool(mean(found) >= middle)
            if holds and plain(name) == name:
                held[measure] += 1
            line += [number(middle), mean_std(found), "yes" if holds else "**no**"]
        rows.append((*line, range_of_k(group)))
    total = len([name for name in runs if plain(name) == name])
    counts = [f"{held[m]} of {total}" for m in ("sc", "ch")]
    rows.append(("holds", "", "", counts[0], "", "", counts[1], ""))
    header = ("data", "SC² printed", "SC² default", "≥", "CH printed", "CH default")
    yield Table(
        "default-squared",
        "The default preset in the paper's own convention (squared silhouette), all "
        "runs counted, one setting for all data sets, beside AFCL's printed figures.",
        (*header, "≥", "k'"),
        tuple(rows),
    )


def default_alone(frame: pl.DataFrame) -> Iterator[Table]:
    """Show the default preset by itself: it is soon renewed, its rivals are not."""
    rows = []
    for name, group in parts(frame.filter(method=DEFAULT), "dataset").items():
        scores = [mean_std(counted(group, measure)) for measure in NAMES]
        right, lost = (
            f"{group.filter(which).height} of {group.height}"
            for which in (RIGHT, pl.col("k") == 1)
        )
        rows.append((name, *scores, range_of_k(group), right, lost))
    yield Table(
        "default-alone",
        "The default preset alone, all runs counted.",
        ("data", "SC", "SC²", "CH", "ARI", "NMI", "k'", "k' = k*", "collapsed"),
        tuple(rows),
    )

# SPDX-License-Identifier: Apache-2.0
"""Quality by who holds which row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from afcl_bench.counting import DEFAULT, KNOWN, counted, entry, mean, range_of_k
from afcl_bench.frame import kinds, parts, values
from afcl_bench.tables import NONE, Table, number, standing_out

#: Splits as people call them.
CALLED = {
    "kmeans:5": "k-means 5",
    "iid:5": "random 5",
    "iid:50": "random 50",
    "dirichlet:10:0.3": "Dirichlet(.3) 10",
    "rows:20": "n/20 of 20 rows",
}
#: The participation of runs in which everybody is there,
PRESENT = "always"
#: and how tables say so.
ALL = ", everybody present"
#: The option that makes a line of its own.
COMPONENTS = "local_clusters"
#: A rival is better where its mean silhouette is so much larger.
BETTER = 0.01


def called(split: str) -> str:
    """Return a split's name in tables."""
    return CALLED.get(split, split)


def by_split(frame: pl.DataFrame) -> Iterator[Table]:
    """Every method by split; where a rival is better; what splits were merged.

    Runs in which everybody is always there are a method of their own, and so are those
    with another number of components a client.
    """
    present = pl.when(pl.col("participation") == PRESENT).then(pl.lit(ALL))
    other = pl.col("options").str.starts_with(COMPONENTS)
    options = pl.when(other).then(", " + pl.col("options"))
    name = pl.concat_str("method", options, present, ignore_nulls=True)
    sets = frame.with_columns(method=name)
    splits = kinds(sets, "split")
    yield _ours(sets, splits, DEFAULT, "by-split-ours", "random participation")
    yield _ours(
        sets, splits, DEFAULT + ALL, "by-split-present", "everybody always present"
    )
    for measure, title in (("sc", "silhouette"), ("ari", "ARI")):
        yield _over_sets(sets, splits, measure, title)
    yield _lost(sets, splits)
    yield _drawn_again(sets, splits)


def _ours(
    sets: pl.DataFrame, splits: list[str], method: str, title: str, how: str
) -> Table:
    rows = []
    for name, runs in parts(sets.filter(method=method), "dataset").items():
        cells = []
        for split in splits:
            part = runs.filter(split=split)
            cells.append(f"{entry(part, 'sc')} ({range_of_k(part)})")
        rows.append((name, *cells))
    return Table(
        title,
        f"The default, k never given, {how}: mean silhouette over all runs (k').",
        ("data", *map(called, splits)),
        tuple(rows),
    )


def _over_sets(
    sets: pl.DataFrame, splits: list[str], measure: str, title: str
) -> Table:
    names, table, rows = kinds(sets, "dataset"), [], []
    for (group, method), runs in sets.group_by("group", "method", maintain_order=True):
        texts, line = [], []
        for split in splits:
            means = _means(runs.filter(split=split), names, measure)
            known = int((~np.isnan(means)).sum())
            few = "" if known in (0, len(names)) else f" ({known} sets)"
            texts.append(number(mean(means)) + few)
            line.append(mean(means) if known == len(names) else np.nan)
        rows.append([f"{method}{', told k*' if group == KNOWN else ''}", *texts])
        table.append(line)
    best = np.array(table)
    for j in range(len(splits)):
        marked = standing_out([row[j + 1] for row in rows], best[:, j])
        for row, text in zip(rows, marked, strict=True):
            row[j + 1] = text
    return Table(
        f"by-split-{measure}",
        f"Mean {title} over {len(names)} data sets, best of those that answered on all "
        "of them in bold; (n sets): only on these did it answer within its cap, or was "
        "it run.",
        ("method", *map(called, splits)),
        tuple(tuple(row) for row in rows),
    )


def _means(runs: pl.DataFrame, names: list[str], measure: str) -> np.ndarray:
    return np.array(
        [mean(counted(runs.filter(dataset=name), measure)) for name in names]
    )


def _lost(sets: pl.DataFrame, splits: list[str]) -> Table:
    """List where a rival's silhouette is larger than ours, the best rival first."""
    rows = []
    for name, runs in parts(sets, "dataset").items():
        for split in splits:
            part = runs.filter(split=split)
            own = mean(counted(part.filter(method=DEFAULT), "sc"))
            better = [
                (score, method, group, kept)
                for (group, method), kept in part.group_by(
                    "group", "method", maintain_order=True
                )
                if not str(method).startswith(DEFAULT)
                and (score := mean(counted(kept, "sc"))) > own + BETTER
            ]
            if better:
                score, method, group, kept = max(better, key=lambda each: each[0])
                known_k = " (told k*)" if group == KNOWN else ""
                ks = f"{range_of_k(kept)}{known_k}"
                count = str(len(better))
                line = (number(own), str(method), number(score), ks, count)
                rows.append((name, called(split), *line))
    return Table(
        "by-split-lost",
        f"Where a federated rival's mean silhouette is more than {BETTER:g} larger "
        "than the default's: the best of them, and how many there are.",
        ("data", "split", DEFAULT, "best rival", "its SC", "its k'", "better rivals"),
        tuple(rows),
    )


def _drawn_again(sets: pl.DataFrame, splits: list[str]) -> Table:
    """Say what was done to splits so that no client has fewer than five rows."""
    rows = []
    for name, runs in parts(sets.filter(method=DEFAULT), "dataset").items():
        cells = [_repaired(runs.filter(split=split)) for split in splits]
        if any(cells):
            rows.append((name, *(cell or NONE for cell in cells)))
    return Table(
        "by-split-repaired",
        "What was done so that no client has fewer than five rows: runs whose split "
        "was drawn again, and clients on average after small ones were merged into the "
        "nearest (–: nothing). Sets that are not listed needed neither.",
        ("data", *map(called, splits)),
        tuple(rows),
    )


def _repaired(runs: pl.DataFrame) -> str:
    again = runs.filter(pl.col("redrawn") > 0).height
    texts = [f"{again} of {runs.height} drawn again"] if again else []
    if runs.filter(pl.col("merged") > 0).height:
        clients = number(mean(values(runs, "clients")), 1)
        asked = number(mean(values(runs, "clients") + values(runs, "merged")), 1)
        texts.append(f"{clients} of {asked} clients left")
    return ", ".join(texts)

# SPDX-License-Identifier: Apache-2.0
"""AFCL beside its rivals on tables of numbers and texts: runs that are stored.

``python benchmarks/mixed_runs.py --out DIR [--data DIR] [--only mixed,public,...]``

*mixed*, *skewed* and *texts* are drawn tables with known clusters (``mixed.py``), at
seeds that nothing was chosen by; *public* are sets with a known class
(``mixed_sets.py``). AFCL never knows k and sees no table whole: rows are dealt to five
sites by k-means and at random, or lie with the sites they come from. Rivals see all
rows, gaps filled; ``*`` is told k. One line of ``runs.jsonl`` is one answer; what is
there already is not done again. ``mixed_page.py`` makes the page of it.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from afcl import AFCL
from afcl._typing import Ints
from afcl.data.split import iid_split, kmeans_split
from afcl.estimators.afcl import Missing
from afcl.metrics import adjusted_rand
from gaps import alone
from mixed import (
    POOLED,
    SITES,
    SMALLEST,
    STARTS,
    SWEEP,
    Table,
    drawn_table,
    factors,
    known_methods,
)
from mixed_sets import SETS, NotHere, Public, load

RUNS = "runs.jsonl"
#: Seeds of drawn tables, none of which was looked at before.
SEEDS = {
    "mixed": range(2000, 2100),
    "skewed": range(2000, 2030),
    "texts": range(2000, 2030),
}
PUBLIC = "public"
#: The way in which one site holds all rows: what federation costs is seen beside it.
TOGETHER = "one site"
OURS, K_MEANS_SWEPT = "afcl", "k-means-silhouette"


def swept_k_means(table: Table, owners: Ints, seed: int) -> Ints:
    """Return labels of k-means on plain indicators with the best silhouette."""
    X = table.rows * factors(table, "one-hot")
    found = [
        KMeans(k, n_init=STARTS, random_state=seed).fit(X).labels_
        for k in SWEEP
        if k < len(X)
    ]
    return np.asarray(max(found, key=lambda labels: silhouette_score(X, labels)))


RIVALS = {**POOLED, K_MEANS_SWEPT: swept_k_means}


def frame_of(table: Table) -> pl.DataFrame:
    """Return a drawn table as users have it: numbers and texts."""
    columns = [pl.Series(f"number{j}", x) for j, x in enumerate(table.numbers.T)]
    for j in np.unique(table.column):
        codes = table.indicators[:, table.column == j].argmax(axis=1)
        texts = pl.Series(f"text{j}", codes).cast(pl.String)
        columns.append(texts.cast(pl.Categorical))
    return pl.DataFrame(columns)


def dealt(table: Table, seed: int) -> dict[str, Ints]:
    """Return who holds which row, by the name of the way."""
    X = table.rows * factors(table, "gower")
    return {
        "k-means": kmeans_split(X, SITES, random_state=seed, min_rows=SMALLEST),
        "random": iid_split(len(X), SITES, seed),
    }


def ours(found: Public, owners: Ints, seed: int) -> tuple[Ints, dict[str, Any]]:
    """Return AFCL's labels, and what it says of them."""
    missing: Missing = "impute" if found.n_gaps else "error"
    model = AFCL(random_state=seed, missing=missing).fit(found.frame, clients=owners)
    verdict = (model.structure_ or {}).get("verdict")
    return model.labels_, {"verdict": verdict, "confidence": model.k_confidence_}


def answers(part: str, name: str, found: Public, seed: int) -> Iterator[dict[str, Any]]:
    """Yield one line for every answer to a table."""
    table = Table.of(found.filled(seed))
    whole = {
        "part": part,
        "table": name,
        "rows": len(found.labels),
        "numbers": table.numbers.shape[1],
        "texts": len(np.unique(table.column)),
        "gaps": found.n_gaps,
        "true": int(found.labels.max()) + 1,
    }
    given = found.owners
    splits = dealt(table, seed) if given is None else {"own sites": given}
    splits[TOGETHER] = np.zeros(len(found.labels), dtype=np.int64)
    for split, owners in splits.items():
        labels, said = ours(found, owners, seed)
        yield {**whole, "method": OURS, "split": split, **scored(found, labels), **said}
    possible = {*known_methods("mixed" if part == PUBLIC else part), K_MEANS_SWEPT}
    for method in (name for name in RIVALS if name in possible):
        labels = RIVALS[method](table, np.zeros(0, dtype=np.int64), seed)
        yield {**whole, "method": method, "split": "pooled", **scored(found, labels)}


def scored(found: Public, labels: Ints) -> dict[str, Any]:
    """Return k' and the Rand index; a row without a value is in no cluster."""
    k = int(np.unique(labels[labels >= 0]).size)
    return {"k": k, "ari": float(adjusted_rand(found.labels, alone(labels)))}


def tables(parts: list[str], data: Path | None) -> Iterator[tuple[str, str, int]]:
    """Yield part, name and seed of everything that is to be done."""
    for part in parts:
        if part == PUBLIC:
            yield from ((part, name, 0) for name in SETS)
        else:
            yield from ((part, str(seed), seed) for seed in SEEDS[part])


def opened(part: str, name: str, seed: int, data: Path | None) -> Public:
    """Return a table as AFCL gets it."""
    if part == PUBLIC:
        return load(name, data)
    drawn = drawn_table(part, seed)
    return Public(frame_of(drawn), drawn.labels)


def main() -> None:
    """Do what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default=",".join([*SEEDS, PUBLIC]))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    asked.out.mkdir(parents=True, exist_ok=True)
    runs = asked.out / RUNS
    lines = runs.read_text().splitlines() if runs.exists() else []
    done = {(run["part"], run["table"]) for run in map(json.loads, lines)}
    for part, name, seed in tables(asked.only.split(","), asked.data):
        if (part, name) in done:
            continue
        try:
            found = opened(part, name, seed, asked.data)
        except NotHere as reason:
            print(f"{name} is left out: {reason}", flush=True)
            continue
        said = [json.dumps(run) + "\n" for run in answers(part, name, found, seed)]
        with runs.open("a") as file:
            file.writelines(said)
        print(part, name, flush=True)


if __name__ == "__main__":
    main()

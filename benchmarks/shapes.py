# SPDX-License-Identifier: Apache-2.0
"""Clusters that are not round: ours beside pooled methods, and where nothing changes.

``python benchmarks/shapes.py --data DIR [--part files,drawn,round,nothing]
[--seeds 0,1] [--jobs J]``

`files`: every NAME.csv of DIR/shapes (last column the class, 0 for noise, which is left
out of scores), at five sites by k-means and five at random: adjusted Rand index of
`shape="auto"` and `"convex"`; beside them, on the pooled rows, HDBSCAN with clusters of
5 and of 15 rows at least, k-means with the best silhouette of k = 2 to 10, and told k:
spectral clustering and (if ``genieclust`` is there) Genie. `drawn`: the same for drawn
tables (shape_sets). `round`: DIR/suite, DIR/paper and forty drawn mixtures, where the
answer must stay as it is; how often it does not. `nothing`: clouds without clusters;
how often clusters are seen, by `auto` and by `convex`. A negative index counts as 0.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from joblib import Parallel, delayed
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.metrics import silhouette_score

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.split import iid_split, kmeans_split
from afcl.data.synthetic import random_mixture
from afcl.metrics import adjusted_rand
from quality import scaled
from shape_sets import DRAWN

PARTS = ("files", "drawn", "round", "nothing")
SPLITS = ("k-means", "random")
#: Tables with more rows say the same at less cost without.
MOST_ROWS = 8000
#: First seed of the drawn tables and mixtures.
FIRST = 9000
MIXTURES = 40
#: Rows of a cloud, and its columns.
ROWS, COLUMNS = (200, 1000, 3000), (2, 3, 5)


def owners(X: Floats, split: str, seed: int) -> Ints:
    """Deal the rows to five sites."""
    if split == "random":
        return iid_split(len(X), 5, random_state=seed)
    return kmeans_split(scaled(X), 5, random_state=seed, min_rows=5)


def read(path: Path) -> tuple[Floats, Ints]:
    """Read rows without gaps, and their classes."""
    table = pl.read_csv(path).drop_nulls()
    classes = table.to_series(-1).cast(pl.String).to_numpy()
    named = np.unique(classes, return_inverse=True)[1] + 1
    named[classes == "0"] = 0
    return table[:, :-1].to_numpy().astype(np.float64), named


def index(classes: Ints, labels: Ints, noise: bool = True) -> float:
    """Return the adjusted Rand index of rows that are not noise, at least 0."""
    kept = classes > 0 if noise else classes >= 0
    return max(0.0, adjusted_rand(classes[kept], labels[kept]))


def pooled(X: Floats, classes: Ints) -> dict[str, float]:
    """Score what has all rows in one place."""
    rows, k = scaled(X), len(set(classes[classes > 0].tolist()))
    sweep = [
        KMeans(each, n_init=5, random_state=0).fit_predict(rows)
        for each in range(2, 11)
    ]
    best = max(sweep, key=lambda labels: silhouette_score(rows, labels))
    near = SpectralClustering(k, affinity="nearest_neighbors", random_state=0)
    found = {
        "HDBSCAN 5": HDBSCAN(min_cluster_size=5, copy=True).fit_predict(rows),
        "HDBSCAN 15": HDBSCAN(min_cluster_size=15, copy=True).fit_predict(rows),
        "k-means, silhouette": best,
        "spectral, told k": near.fit_predict(rows),
    }
    try:
        from genieclust import Genie

        found["Genie, told k"] = Genie(n_clusters=k).fit_predict(rows)
    except ImportError:
        pass
    return {name: index(classes, labels) for name, labels in found.items()}


def federated(X: Floats, classes: Ints, seed: int, noise: bool) -> dict[str, float]:
    """Score ours at sites of both kinds, and say whether the shape is another."""
    found: dict[str, float] = {}
    for split in SPLITS:
        owner = owners(X, split, seed)
        for shape in ("auto", "convex"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = AFCL(shape=shape, random_state=seed).fit(X, clients=owner)
            found[f"{shape}, {split}"] = index(classes, model.labels_, noise)
            if shape == "auto":
                switched = model.cell_labels_ is not None
                found[f"switched, {split}"] = float(switched)
                found[f"several, {split}"] = float(model.n_clusters_ > 1)
            else:
                found[f"several round, {split}"] = float(model.n_clusters_ > 1)
    return found


def tables(
    part: str, data: Path | None, seed: int
) -> Iterator[tuple[str, Floats, Ints]]:
    """Yield the tables of a part: a name, rows, classes."""
    folders = {"files": ["shapes"], "round": ["suite", "paper"]}.get(part, [])
    for folder in folders if data is not None else ():
        assert data is not None
        for path in sorted((data / folder).glob("*.csv")):
            X, classes = read(path)
            if len(X) <= MOST_ROWS:
                yield path.stem, X, classes
    if part == "drawn":
        for i, (name, draw) in enumerate(DRAWN.items()):
            yield name, *draw(np.random.default_rng([FIRST + seed, i]))
    if part == "round":
        for i in range(MIXTURES if seed == 0 else 0):
            yield f"mixture {FIRST + i}", *random_mixture(FIRST + i)
    if part == "nothing":
        for n in ROWS:
            for d in COLUMNS:
                yield from clouds(n, d, np.random.default_rng([FIRST + seed, n, d]))


def clouds(
    n: int, d: int, rng: np.random.Generator
) -> Iterator[tuple[str, Floats, Ints]]:
    """Yield rows without clusters."""
    long = np.where(np.arange(d) == 0, 10.0, 1.0)
    turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
    kinds = {
        "cube": rng.random((n, d)),
        "Gaussian": rng.normal(size=(n, d)),
        "t3": rng.standard_t(3, (n, d)),
        "10:1": rng.normal(size=(n, d)) * long @ turned,
    }
    for name, rows in kinds.items():
        yield name, rows, np.ones(n, dtype=np.int64)


def one(part: str, name: str, X: Floats, classes: Ints, seed: int) -> dict[str, float]:
    """Measure a table."""
    shaped = part in ("files", "drawn")
    found = federated(X, classes, seed, noise=shaped)
    return {**found, **(pooled(X, classes) if shaped else {})}


def show(part: str, names: list[str], measured: list[dict[str, float]]) -> None:
    """Print a table in Markdown: a line a name, the means last."""
    columns = list(measured[0])
    print(f"\n## {part}\n| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    order = list(dict.fromkeys(names))
    if part == "round":  # Mixtures are one line.
        names = ["mixtures" if n.startswith("mixture ") else n for n in names]
        order = list(dict.fromkeys(names))
    for name in [*order, "**mean**"]:
        rows = [
            each
            for each, own in zip(measured, names, strict=True)
            if name in (own, "**mean**")
        ]
        means = [np.mean([row[column] for row in rows]) for column in columns]
        print(f"| {name} | {' | '.join(f'{mean:.3f}' for mean in means)} |", flush=True)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--part", default=",".join(PARTS))
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    for part in chosen.part.split(","):
        if part not in PARTS:
            parser.error(f"no part {part!r}: choose from {', '.join(PARTS)}")
        work = [
            (part, name, X, classes, int(seed))
            for seed in chosen.seeds.split(",")
            for name, X, classes in tables(part, chosen.data, int(seed))
        ]
        if not work:
            parser.error(f"{part} needs --data DIR")
        measured = Parallel(n_jobs=chosen.jobs)(delayed(one)(*each) for each in work)
        show(part, [name for _, name, *_ in work], measured)


if __name__ == "__main__":
    main()

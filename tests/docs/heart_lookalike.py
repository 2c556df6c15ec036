# SPDX-License-Identifier: Apache-2.0
"""Four drawn hospitals that look like those of docs/examples/heart.md.

The same columns, codes and pattern of gaps; the rows come from two clusters and from no
patient. `num` is more than 0 in most rows of one of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

#: Means in the two clusters, and the spread within.
NUMBERS = {
    "age": (48, 60, 5),
    "trestbps": (122, 142, 8),
    "chol": (225, 260, 18),
    "thalach": (165, 118, 9),
    "oldpeak": (0.3, 2.2, 0.4),
    "ca": (0.2, 1.6, 0.5),
}
#: Codes, and the chance of each in the two clusters.
CODES = {
    "sex": ((0, 1), (0.35, 0.65), (0.15, 0.85)),
    "cp": ((1, 2, 3, 4), (0.05, 0.5, 0.35, 0.1), (0.05, 0.05, 0.1, 0.8)),
    "fbs": ((0, 1), (0.9, 0.1), (0.8, 0.2)),
    "restecg": ((0, 1, 2), (0.7, 0.1, 0.2), (0.5, 0.2, 0.3)),
    "exang": ((0, 1), (0.95, 0.05), (0.25, 0.75)),
    "slope": ((1, 2, 3), (0.7, 0.25, 0.05), (0.1, 0.75, 0.15)),
    "thal": ((3, 6, 7), (0.8, 0.05, 0.15), (0.2, 0.1, 0.7)),
}
ORDER = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
    *("thalach", "exang", "oldpeak", "slope", "ca", "thal"),
)
#: Rows, the share of the second cluster, and the shares of gaps.
SITES: dict[str, tuple[int, float, dict[str, float]]] = {
    "cleveland": (160, 0.45, {"ca": 0.01, "thal": 0.01}),
    "hungarian": (150, 0.35, {"chol": 0.08, "slope": 0.65, "ca": 0.98, "thal": 0.9}),
    "switzerland": (70, 0.9, {"fbs": 0.6, "slope": 0.14, "ca": 0.95, "thal": 0.4}),
    "va": (110, 0.75, {"trestbps": 0.2, "thalach": 0.2, "slope": 0.5, "ca": 0.98}),
}
#: Shares of rows whose cholesterol nobody measured and that have 0 there.
ZEROS = {"switzerland": 1.0, "va": 0.25}
#: How often `num` says what the cluster says.
TELLING = 0.85


def drawn_site(name: str, rng: np.random.Generator) -> tuple[pl.DataFrame, list[int]]:
    """Draw the rows of one hospital, as texts, and the cluster of each."""
    n, share, gaps = SITES[name]
    cluster = (rng.random(n) < share).astype(int)
    columns: dict[str, list[str]] = {}
    for column in ORDER:
        if column in NUMBERS:
            *means, spread = NUMBERS[column]
            values = np.array(means)[cluster] + rng.normal(0, spread, n)
            places = 1 if column == "oldpeak" else 0
            values = np.maximum(values, 0).round(places)
        else:
            levels, *chances = CODES[column]
            values = np.array([rng.choice(levels, p=chances[c]) for c in cluster])
        if column == "chol":
            values = np.where(rng.random(n) < ZEROS.get(name, 0), 0, values)
        written = [f"{value:g}" for value in values]
        empty = rng.random(n) < gaps.get(column, 0)
        columns[column] = ["" if e else w for e, w in zip(empty, written, strict=True)]
    disease = np.where(rng.random(n) < TELLING, cluster, 1 - cluster)
    columns["num"] = [str(d * rng.integers(1, 5)) for d in disease]
    return pl.DataFrame(columns), cluster.tolist()


def write_hospitals(folder: Path, seed: int = 0) -> dict[str, list[int]]:
    """Write a file a hospital; return the clusters their rows were drawn from."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    clusters = {}
    for name in SITES:
        frame, clusters[name] = drawn_site(name, rng)
        frame.write_csv(folder / f"{name}.csv")
    return clusters

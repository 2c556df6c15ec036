# SPDX-License-Identifier: Apache-2.0
"""Parts of dates that go round: how a month should be told, measured.

``python benchmarks/dates.py [--seeds 0-29] [--rules NAME;...] [--jobs J]``

Tables of benchmarks/mixed.py (numbers and texts, 2 to 12 clusters, five sites) with a
month beside them. *seasons*: every cluster has its time of the year, from which its
rows are up to some two months off. *any time*: the month says nothing. A rule says what
becomes of the month: a category of twelve levels, a number, ranks of an order, or a
place on a circle so wide, where a column of numbers has length 1 and two different
texts are 1/4 apart. `none` leaves it out.

Prints, for every rule, how often k is right and the mean ARI.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.features import WIDTH
from afcl.metrics import adjusted_rand

MONTHS = 12
#: How far rows are from their cluster's time of the year: a standard deviation.
OFF = 1.0
CIRCLES = {"circle 1": 1.0, "circle 1/2": 0.5, "circle 1/4": 0.25}
RULES = ("none", "levels", "number", "ranks 1/2", *CIRCLES)
KINDS = ("seasons", "any time")


def months(labels: Ints, kind: str, seed: int) -> Ints:
    """Draw the month of every row, from 0 on."""
    rng = np.random.default_rng([seed, 11])
    if kind == "any time":
        return rng.integers(0, MONTHS, labels.size)
    peaks = rng.uniform(0, MONTHS, int(labels.max()) + 1)
    drawn = np.floor(peaks[labels] + rng.normal(0, OFF, labels.size))
    return np.asarray(drawn % MONTHS, dtype=np.int64)


def embedded(month: Ints, rule: str) -> tuple[Floats, float]:
    """Return the columns of a month, and what they are divided by."""
    if rule == "none":
        return np.empty((month.size, 0)), 1.0
    if rule == "levels":
        return np.eye(MONTHS)[month], WIDTH
    if rule in CIRCLES:
        angle = 2 * np.pi * month / MONTHS
        circle = np.column_stack([1 + np.cos(angle), 1 + np.sin(angle)])
        return circle, 2 / CIRCLES[rule]
    rank: Floats = month[:, None].astype(np.float64)
    return rank, (MONTHS - 1) / (1.0 if rule == "number" else 0.5)


def measured(
    rules: list[str], seed: int, mixed: dict[str, Any]
) -> list[list[tuple[bool, float]]]:
    """Return whether k is right, and the ARI, by kind and rule, on one table."""
    warnings.simplefilter("ignore")
    table = mixed["drawn_table"]("mixed", seed)
    owners, found = mixed["owners_of"](table, seed), []
    for kind in KINDS:
        month, own = months(table.labels, kind, seed), []
        for rule in rules:
            columns, width = embedded(month, rule)
            rows = np.hstack([table.numbers, table.indicators, columns])
            high = np.repeat(
                [1.0, WIDTH, width],
                [table.numbers.shape[1], table.indicators.shape[1], columns.shape[1]],
            )
            model = AFCL(random_state=seed, scale=(np.zeros_like(high), high))
            labels = model.fit(rows, clients=owners).labels_
            right = model.n_clusters_ == int(table.labels.max()) + 1
            own.append((right, adjusted_rand(table.labels, labels)))
        found.append(own)
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-29", help="first-last")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rules", help="parted by semicolons; all by default")
    options = parser.parse_args()
    first, last = (int(end) for end in options.seeds.split("-"))
    rules = options.rules.split(";") if options.rules else list(RULES)
    mixed = run_path(str(Path(__file__).with_name("mixed.py")))
    found = Parallel(n_jobs=options.jobs)(
        delayed(measured)(rules, seed, mixed) for seed in range(first, last + 1)
    )
    mean = np.array(found, dtype=np.float64).mean(axis=0)
    print(f"| month | {' | '.join(KINDS)} |\n|---|---|---|")
    for rule, cells in zip(rules, np.moveaxis(mean, 1, 0), strict=True):
        shown = [f"{right:.2f} / {ari:.3f}" for right, ari in cells]
        print(f"| {rule} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()

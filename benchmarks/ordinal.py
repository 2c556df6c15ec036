# SPDX-License-Identifier: Apache-2.0
"""Ordered levels beside numbers and texts: how much they should count, measured.

``python benchmarks/ordinal.py [--seeds 0-39] [--rules NAME,...]``

Tables of benchmarks/mixed.py (numbers and texts, 2 to 12 clusters, five sites), in
which every second column of numbers is known by ranks only: cut at quantiles into 2 to
7 levels. A rule says how long such a column is, where one of numbers has length 1 and
two different texts are 1/4 apart. `texts` takes the ranks for texts, `numbers` has the
numbers themselves.

Prints, for every rule, how often k is right and the mean ARI.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.features import WIDTH
from afcl.metrics import adjusted_rand

#: Fewest and most levels.
LEVELS = (2, 7)

#: The length of a column of so many levels.
RULES: dict[str, Callable[[int], float]] = {
    "1": lambda levels: 1.0,
    "3/4": lambda levels: 3 / 4,
    "1/2": lambda levels: 1 / 2,
    "1/4": lambda levels: 1 / 4,
    "1/4 a step": lambda levels: (levels - 1) / 4,
    "1/4 a step, at most 1": lambda levels: min(1.0, (levels - 1) / 4),
    "1/4 a step, at most 1/2": lambda levels: min(0.5, (levels - 1) / 4),
    "1/4 a step, at most 3/8": lambda levels: min(3 / 8, (levels - 1) / 4),
    "half of what numbers cut so would have": lambda levels: (levels - 1) / 2 / levels,
    "1/8 a step": lambda levels: (levels - 1) / 8,
}


def ranks(values: Floats, levels: int) -> Ints:
    """Cut a column at quantiles."""
    cuts = np.quantile(values, np.arange(1, levels) / levels)
    return np.searchsorted(cuts, values, side="right")


def embedded(numbers: Floats, rule: str, seed: int) -> tuple[Floats, Floats]:
    """Return the columns of numbers and ranks, and what each is divided by."""
    rng = np.random.default_rng([seed, 7])
    parts, widths = [], []
    for place, values in enumerate(numbers.T):
        levels = int(rng.integers(LEVELS[0], LEVELS[1] + 1))
        if place % 2 == 0 or rule == "numbers":
            part, width = values[:, None], 1.0
        elif rule == "texts":
            part, width = np.eye(levels)[ranks(values, levels)], WIDTH
        else:
            part = ranks(values, levels)[:, None].astype(np.float64)
            width = (levels - 1) / RULES[rule](levels)
        parts.append(part)
        widths += [width] * part.shape[1]
    return np.hstack(parts), np.array(widths)


def measured(
    rules: list[str], seed: int, mixed: dict[str, Any]
) -> list[tuple[bool, float]]:
    """Return whether k is right, and the ARI, for every rule on one table."""
    warnings.simplefilter("ignore")
    table = mixed["drawn_table"]("mixed", seed)
    owners, found = mixed["owners_of"](table, seed), []
    for rule in rules:
        columns, widths = embedded(table.numbers, rule, seed)
        rows = np.hstack([columns, table.indicators])
        high = np.append(widths, np.full(table.indicators.shape[1], WIDTH))
        model = AFCL(random_state=seed, scale=(np.zeros_like(high), high))
        labels = model.fit(rows, clients=owners).labels_
        right = model.n_clusters_ == int(table.labels.max()) + 1
        found.append((right, adjusted_rand(table.labels, labels)))
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-39", help="first-last")
    parser.add_argument("--jobs", type=int, default=2)
    known = [*RULES, "texts", "numbers"]
    parser.add_argument("--rules", help="parted by semicolons; all by default")
    options = parser.parse_args()
    first, last = (int(end) for end in options.seeds.split("-"))
    rules = options.rules.split(";") if options.rules else known
    mixed = run_path(str(Path(__file__).with_name("mixed.py")))
    found = Parallel(n_jobs=options.jobs)(
        delayed(measured)(rules, seed, mixed) for seed in range(first, last + 1)
    )
    right, ari = np.moveaxis(np.array(found, dtype=np.float64), 2, 0)
    print("| length | k right | ARI |\n|---|---|---|")
    for rule, r, a in zip(rules, right.mean(0), ari.mean(0), strict=True):
        print(f"| {rule} | {r:.2f} | {a:.3f} |")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""What gaps do to k and to labels, and what each way to deal with them saves.

``python benchmarks/gaps.py --data DIR [--seeds 5] [--sets wine,r15] [--jobs J]``

From every data set of DIR (NAME.csv, last column the class), dealt to five sites at
random, cells are taken away at random: 5, 20 and 40 % of them; and one column at one
site. Beside each other stand how often k is what it is without gaps, and the adjusted
Rand index of all rows (a row without a label is a cluster of its own), for "impute",
"available" and "drop"; and the index of pooled k-means, told that k, on rows that
scikit-learn's IterativeImputer has filled.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.cluster import KMeans
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.split import iid_split
from afcl.estimators.afcl import Missing
from afcl.exceptions import AfclError
from afcl.metrics import adjusted_rand
from quality import load, scaled

#: Shares of cells that are taken away.
RATES = (0.05, 0.2, 0.4)
#: Stands for a column that one site does not have.
COLUMN = "one column at one site"
WAYS: tuple[Missing, ...] = ("impute", "available", "drop")
#: Small sets of the suite, whose k is found without gaps.
SETS = ("a1", "ecoli", "hepta", "mk1", "r15", "tetra", "twodiamonds", "wine", "x1")


def with_gaps(X: Floats, owner: Ints, rate: float | str, seed: int) -> Floats:
    """Take cells away."""
    rng = np.random.default_rng([seed, 100])
    G = X.copy()
    if isinstance(rate, str):
        G[owner == rng.integers(0, 5), rng.integers(0, X.shape[1])] = np.nan
    else:
        G[rng.random(X.shape) < rate] = np.nan
    return G


def alone(labels: Ints) -> Ints:
    """Return labels in which a row without one is a cluster of its own."""
    none = labels < 0
    return np.where(none, labels.max() + np.cumsum(none), labels)


def measured(
    X: Floats, y: Ints, rate: float | str, seed: int
) -> dict[str, tuple[bool, float]]:
    """Return, for every way, whether k is that without gaps, and the Rand index."""
    warnings.simplefilter("ignore")
    owner = iid_split(len(X), 5, seed)
    whole = AFCL(random_state=seed).fit(X, clients=owner)
    found = {"no gaps": (True, adjusted_rand(y, whole.labels_))}
    G = with_gaps(X, owner, rate, seed)
    for way in WAYS:
        try:
            model = AFCL(missing=way, random_state=seed).fit(G, clients=owner)
        except AfclError:
            found[way] = (False, 0.0)
            continue
        index = adjusted_rand(y, alone(model.labels_))
        found[way] = (model.n_clusters_ == whole.n_clusters_, index)
    filled = IterativeImputer(random_state=seed).fit_transform(G)
    pooled = KMeans(whole.n_clusters_, n_init=10, random_state=seed).fit(filled)
    found["pooled *"] = (True, adjusted_rand(y, pooled.labels_))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    sets = {}
    for name in asked.sets.split(","):
        X, y = load(asked.data, name)
        sets[name] = scaled(X), y
    print("|  | rows | impute: k, ARI | available | drop | pooled * | no gaps |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for rate in (*RATES, COLUMN):
        each = {}
        for name, (X, y) in sets.items():
            runs = Parallel(asked.jobs)(
                delayed(measured)(X, y, rate, seed) for seed in range(asked.seeds)
            )
            each[name] = runs
            print(line(name, rate, len(X), runs), flush=True)
        runs = [run for own in each.values() for run in own]
        print(line("**all**", rate, sum(len(y) for _, y in sets.values()), runs))


def line(
    name: str, rate: float | str, rows: int, runs: list[dict[str, tuple[bool, float]]]
) -> str:
    """Return a line of the table."""

    def cell(way: str, with_k: bool) -> str:
        index = np.mean([run[way][1] for run in runs])
        same = np.mean([run[way][0] for run in runs])
        return f"{same:.2f}, {index:.2f}" if with_k else f"{index:.2f}"

    what = rate if isinstance(rate, str) else f"{100 * rate:g} %"
    cells = [cell(way, True) for way in WAYS] + [
        cell(way, False) for way in ("pooled *", "no gaps")
    ]
    return f"| {name}, {what} | {rows} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

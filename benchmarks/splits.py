# SPDX-License-Identifier: Apache-2.0
"""Whoever holds which row: the same rows, dealt out in five ways, and at one site.

``python benchmarks/splits.py [--data DIR] [--mixtures N] [--participation random]``

Every line is a kind of data, every column a split: rows at one site; five sites by
k-means (they share hardly a cluster); five at random; ten by a Dirichlet(.3) over the
classes; fifty at random; and sites of twenty rows. The default of everything, k never
given. Mixtures are drawn with the seeds 1000, 1001, ...; of DIR (NAME.csv, last column
the class) the suite and the paper's sets are used, three seeds each. Printed is how
often k is right, for the paper's sets the mean silhouette.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.split import dirichlet_split, kmeans_split
from afcl.data.synthetic import random_mixture
from afcl.exceptions import SmallClientsWarning, TrustWarning
from afcl.metrics import adjusted_rand, silhouette
from quality import CLUSTERS, LEAST, load, scaled

#: Parameters of the estimator.
Given = Mapping[str, Any]
#: First seed of the mixtures.
FIRST = 1000
#: Seeds of every other data set.
SEEDS = 3
#: Sets with more rows than this are left out: the figures say the same at less cost.
MOST_ROWS = 8000
#: No site holds fewer rows: a cell would not fit.
SMALLEST = 5


def dealt(n: int, sites: int, seed: int) -> Ints:
    """Deal rows out at random, to sites of the same size."""
    sites = max(1, min(sites, n // SMALLEST))
    return np.random.default_rng([seed, n]).permutation(np.arange(n) % sites)


def by_kmeans(X: Floats, y: Ints, seed: int) -> Ints:
    """Split rows by where they lie."""
    return kmeans_split(scaled(X), 5, random_state=seed, min_rows=SMALLEST)


def by_dirichlet(X: Floats, y: Ints, seed: int) -> Ints:
    """Split classes unevenly; what too small sites hold goes to the largest."""
    owners = dirichlet_split(y, 10, alpha=0.3, random_state=seed)
    held = np.bincount(owners)
    return np.where(held[owners] < SMALLEST, held.argmax(), owners)


SPLITS: dict[str, Callable[[Floats, Ints, int], Ints]] = {
    "one site": lambda X, y, seed: dealt(len(X), 1, seed),
    "k-means 5": by_kmeans,
    "random 5": lambda X, y, seed: dealt(len(X), 5, seed),
    "Dirichlet 10": by_dirichlet,
    "random 50": lambda X, y, seed: dealt(len(X), 50, seed),
    "20 rows each": lambda X, y, seed: dealt(len(X), len(X) // 20, seed),
}


def run(
    X: Floats, y: Ints, split: str, seed: int, given: Given
) -> tuple[int, float, float]:
    """Return k', ARI and the silhouette of one run."""
    for kind in (SmallClientsWarning, TrustWarning):
        warnings.simplefilter("ignore", kind)
    owners = SPLITS[split](X, y, seed)
    model = AFCL(random_state=seed, **given).fit(X, clients=owners)
    score = silhouette(scaled(X), model.labels_, sample=4000)
    return model.n_clusters_, adjusted_rand(y, model.labels_), score


def mixture(seed: int, split: str, given: Given) -> tuple[bool, float, float]:
    """Return whether k is right on a mixture, ARI and silhouette."""
    X, y = random_mixture(seed)
    k, ari, score = run(X, y, split, seed, given)
    return k == np.unique(y).shape[0], ari, score


def stored(
    folder: Path, name: str, seed: int, split: str, given: Given
) -> tuple[bool, float, float]:
    """Return the same on a data set."""
    X, y = load(folder, name, seed)
    k, ari, score = run(X, y, split, seed, given)
    return k == CLUSTERS.get(name), ari, score


def line(what: str, cells: list[str]) -> None:
    """Print a line of the table."""
    print(f"| {what} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--mixtures", type=int, default=200)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--privacy")
    parser.add_argument("--participation", choices=["random"])
    parser.add_argument("--splits", default=",".join(SPLITS))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    splits = options.splits.split(",")
    unknown = [name for name in splits if name not in SPLITS]
    if unknown:
        parser.exit(2, f"no {unknown[0]}: choose from {', '.join(SPLITS)}\n")
    given = {"privacy": options.privacy, "participation": options.participation}
    together = Parallel(n_jobs=options.jobs)
    line("", splits)
    line("---", ["---"] * len(splits))
    if options.mixtures:
        seeds = range(options.first, options.first + options.mixtures)
        cells = []
        for split in splits:
            found = np.array(together(delayed(mixture)(s, split, given) for s in seeds))
            right, ari, _ = found.mean(axis=0)
            cells.append(f"{right:.3f} (ARI {ari:.3f})")
        line(f"{options.mixtures} mixtures", cells)
    for names, figure in ((CLUSTERS, 0), (LEAST, 2)) if options.data else ():
        for name in names:
            if len(load(options.data, name)[0]) > MOST_ROWS:
                continue
            cells = []
            for split in splits:
                found = np.array(
                    together(
                        delayed(stored)(options.data, name, s, split, given)
                        for s in range(SEEDS)
                    )
                )
                right = f"{int(found[:, 0].sum())} of {SEEDS}"
                cells.append(f"{found[:, 2].mean():.3f}" if figure else right)
            line(f"{'SC' if figure else 'k'} {name}", cells)


if __name__ == "__main__":
    main()

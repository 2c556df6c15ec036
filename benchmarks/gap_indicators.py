# SPDX-License-Identifier: Apache-2.0
"""Whether it helps to tell that a value is missing, beside what is filled in.

``python benchmarks/gap_indicators.py [--seeds 0-39] [--jobs J]``

Drawn mixtures (:func:`~afcl.data.random_mixture`) at five random sites. One column is
missing: *tells*: in 70 % of the rows of one cluster and 5 % of the others'; *random*:
in 20 % of all rows; *one site*: at one site altogether. ``impute`` fills gaps as
always; ``with indicator`` has beside it a category of two levels, whether the cell has
a value. Prints how often k is right and the mean ARI of all rows.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import polars as pl
from joblib import Parallel, delayed

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.split import iid_split
from afcl.data.synthetic import random_mixture
from afcl.metrics import adjusted_rand

KINDS = ("tells", "random", "one site")
SITES = 5


def with_gaps(X: Floats, y: Ints, owner: Ints, kind: str, seed: int) -> Floats:
    """Take cells of one column away."""
    rng = np.random.default_rng([seed, 33])
    gone, drawn = X.copy(), rng.random(len(X))
    column, cluster = rng.integers(X.shape[1]), rng.integers(y.max() + 1)
    chances = {
        "tells": np.where(y == cluster, 0.7, 0.05),
        "random": np.full(len(X), 0.2),
        "one site": np.where(owner == 0, 1.0, 0.0),
    }
    gone[drawn < chances[kind], column] = np.nan
    return gone


def framed(X: Floats, indicator: bool) -> pl.DataFrame:
    """Return rows as a frame, with an indicator of every column that has gaps."""
    frame = {f"x{j}": column for j, column in enumerate(X.T)}
    if indicator:
        for j in np.flatnonzero(np.isnan(X).any(axis=0)).tolist():
            frame[f"gap{j}"] = np.where(np.isnan(X[:, j]), "yes", "no")
    return pl.DataFrame(frame)


def measured(seed: int) -> list[list[tuple[bool, float]]]:
    """Return whether k is right, and the ARI, by kind and way."""
    warnings.simplefilter("ignore")
    X, y = random_mixture(seed)[:2]
    owner, found = iid_split(len(X), SITES, seed), []
    for kind in KINDS:
        gone = with_gaps(X, y, owner, kind, seed)
        own = []
        for indicator in (False, True):
            model = AFCL(missing="impute", random_state=seed)
            model.fit(framed(gone, indicator), clients=owner)
            right = model.n_clusters_ == int(y.max()) + 1
            own.append((right, adjusted_rand(y, model.labels_)))
        found.append(own)
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-39", help="first-last")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    first, last = (int(end) for end in asked.seeds.split("-"))
    runs = Parallel(asked.jobs)(delayed(measured)(s) for s in range(first, last + 1))
    mean = np.array(runs, dtype=np.float64).mean(axis=0)
    print("| one column is missing | impute | with indicator |\n|---|---|---|")
    for kind, ways in zip(KINDS, mean, strict=True):
        cells = [f"{right:.2f} / {ari:.3f}" for right, ari in ways]
        print(f"| {kind} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

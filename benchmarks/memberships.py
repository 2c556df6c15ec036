# SPDX-License-Identifier: Apache-2.0
"""How well soft memberships are calibrated, on rows that had no part in a fit.

``make memberships [RUNS=20]``. Mixtures are drawn with 2 to 8 clusters in 2 to 10
columns; half of their rows are clustered at five sites, the others get memberships. A
run counts where k is right: otherwise nobody knows what a row's own cluster is.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.synthetic import make_mixture

#: Rows of a mixture, half of which are held out.
ROWS = 4000
SITES = 5
BINS = 15
SEPARATIONS = (1.5, 1.8, 2.5, 4.0)


def calibration_error(shares: Floats, own: Ints) -> float:
    """Return the expected calibration error of the likeliest cluster."""
    sure, right = shares.max(axis=1), shares.argmax(axis=1) == own
    part = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = [
        abs(float(right[part == b].mean() - sure[part == b].mean()))
        * float((part == b).mean())
        for b in np.unique(part)
    ]
    return sum(gaps)


def measured(separation: float, seed: int) -> tuple[float, float, float] | None:
    """Return the error, and how often memberships and labels are right."""
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(2, 9)), int(rng.choice([2, 3, 5, 10]))
    imbalance = float(rng.choice([1.0, 3.0, 20.0]))
    X, y = make_mixture(
        k,
        d,
        n_samples=ROWS,
        separation=separation,
        imbalance=imbalance,
        random_state=rng,
    )
    turn = rng.permutation(len(X))
    train, held = turn[: len(X) // 2], turn[len(X) // 2 :]
    owner = rng.integers(0, SITES, train.shape[0])
    model = AFCL(random_state=seed).fit(X[train], clients=owner)
    if model.n_clusters_ != k:
        return None
    together = np.zeros((k, k))
    np.add.at(together, (y[train], model.labels_), 1)
    cluster = linear_sum_assignment(together, maximize=True)[1]
    own, shares = cluster[y[held]], model.predict_proba(X[held])
    right = float((shares.argmax(axis=1) == own).mean())
    nearest = float((model.predict(X[held]) == own).mean())
    return calibration_error(shares, own), right, nearest


def main() -> None:
    """Print a line per separation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    print(
        "| separation | runs, k right | error, mean | error, largest "
        "| likeliest is right | nearest is right |"
    )
    print("|---|---|---|---|---|---|")
    for separation in SEPARATIONS:
        every = [measured(separation, seed) for seed in range(runs)]
        known = np.array([each for each in every if each is not None])
        if not len(known):
            print(f"| {separation} | {runs}, 0 | | | | |", flush=True)
            continue
        error, right, nearest = known.T
        print(
            f"| {separation} | {runs}, {len(known)} | {error.mean():.3f} | "
            f"{error.max():.3f} | {right.mean():.3f} | {nearest.mean():.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

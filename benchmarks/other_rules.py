# SPDX-License-Identifier: Apache-2.0
"""Other rules for k beside ours, on the same mixtures: figures of decision 0026.

``python benchmarks/other_rules.py [--mixtures N] [--first SEED] [--box WIDTH]``

Five sites by k-means, everybody present. The other rules see all rows, k-means with
three starts for every k that we consider, and are read the way their authors say:

- *silhouette*, *macro silhouette*: the largest mean over rows, over clusters;
- *prediction strength*: the largest k at which halves of the rows, dealt out at random
  or site by site, predict who belongs together in at least .8 of the pairs of every
  cluster (Tibshirani and Walther 2005);
- *Gaussian splits*: clusters are cut in two as long as Anderson and Darling's test on
  the axis between the halves says that they are not one Gaussian (Hamerly and Elkan
  2003, at their .0001); *dip*: the same with a test for two modes, by the largest gap
  to a unimodal distribution (Hartigan and Hartigan 1985, .05 by 40 uniform draws).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import anderson
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_samples

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.synthetic import BOX, random_mixture
from quality import owners

#: Whether rows on a line are one cluster.
Test: TypeAlias = Callable[[Floats, np.random.Generator], bool]
#: The critical value of Anderson and Darling at .0001 that Hamerly and Elkan use.
NOT_GAUSSIAN = 1.8692
#: Prediction strength from which on halves agree.
STRONG = 0.8
#: Smallest cluster that is tested for being two.
LEAST = 8
#: Draws of a uniform sample that a dip is compared with, and its level.
UNIFORM, LEVEL = 40, 0.05


def cut(X: Floats, k: int, seed: int) -> KMeans:
    """Return k-means with three starts."""
    return KMeans(k, n_init=3, random_state=seed).fit(X)


def strength(X: Floats, half: np.ndarray, k: int, seed: int) -> float:
    """Return how well one half of the rows says who belongs together in the other."""
    one, other = X[half], X[~half]
    if min(len(one), len(other)) <= k:
        return 0.0
    guess = cut(one, k, seed).predict(other)
    labels = cut(other, k, seed).labels_
    shares = []
    for own in range(k):
        counts = np.bincount(guess[labels == own])
        n = counts.sum()
        shares.append((counts * (counts - 1)).sum() / (n * (n - 1)) if n > 1 else 0.0)
    return float(min(shares))


def is_gaussian(line: Floats, rng: np.random.Generator) -> bool:
    """Whether Anderson and Darling's test leaves a Gaussian standing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(anderson(line).statistic <= NOT_GAUSSIAN)


def dip(line: Floats) -> float:
    """Return how far a sample is from every unimodal distribution, about.

    The distribution function is convex up to a mode and concave behind it; over all
    modes the least distance to its convex and concave hulls, halved.
    """
    x = np.sort(line)
    n = len(x)
    y = (np.arange(n) + 0.5) / n
    gaps = [
        max(hull_gap(x[: m + 1], y[: m + 1]), hull_gap(-x[m:][::-1], -y[m:][::-1]))
        for m in np.linspace(0, n - 1, min(n, 25)).astype(int)
    ]
    return min(gaps) / 2


def hull_gap(x: Floats, y: Floats) -> float:
    """Return how far points lie above their greatest convex minorant."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) <= (y[i] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return float((y - np.interp(x, x[kept], y[kept])).max())


def is_unimodal(line: Floats, rng: np.random.Generator) -> bool:
    """Whether the dip is one that uniform samples have."""
    draws = [dip(rng.random(len(line))) for _ in range(UNIFORM)]
    return dip(line) <= float(np.quantile(draws, 1 - LEVEL))


def by_splitting(X: Floats, is_one: Test, most: int, seed: int) -> int:
    """Return how many clusters there are when none is to be cut any more."""
    rng, left, k = np.random.default_rng(seed), [np.arange(len(X))], 0
    while left and k + len(left) <= most:
        rows = left.pop()
        if len(rows) >= LEAST:
            halves = cut(X[rows], 2, seed)
            axis = halves.cluster_centers_[1] - halves.cluster_centers_[0]
            line = X[rows] @ axis
            if not is_one(line / max(float(line.std()), 1e-300), rng):
                left += [rows[halves.labels_ == side] for side in (0, 1)]
                continue
        k += 1
    return k + len(left)


def rules(X: Floats, owner: Ints, most: int, seed: int) -> dict[str, int]:
    """Return the k of every other rule."""
    ks = range(2, most + 1)
    means, macros = [], []
    for k in ks:
        labels = cut(X, k, seed).labels_
        each = silhouette_samples(X, labels)
        means.append(each.mean())
        macros.append(
            np.mean([each[labels == own].mean() for own in np.unique(labels)])
        )
    rng = np.random.default_rng(seed)
    halves = {
        "prediction strength, rows": rng.random(len(X)) < 0.5,
        "prediction strength, sites": owner < 2,
    }
    found = {
        "silhouette": ks[int(np.argmax(means))],
        "macro silhouette": ks[int(np.argmax(macros))],
    }
    for name, half in halves.items():
        strong = [k for k in ks if strength(X, half, k, seed) >= STRONG]
        found[name] = max(strong, default=1)
    found["Gaussian splits"] = by_splitting(X, is_gaussian, most, seed)
    found["dip"] = by_splitting(X, is_unimodal, most, seed)
    return found


def one(seed: int, box: float) -> tuple[int, dict[str, int]]:
    """Return the true k of a mixture and that of every rule."""
    warnings.simplefilter("ignore")
    X, y = random_mixture(seed, box)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    owner = owners(X, seed)
    model = AFCL(random_state=seed).fit(X, clients=owner)
    most = min(45, max(10, int(np.sqrt(len(X)))))
    found = {"ours": model.n_clusters_, **rules(X, owner, most, seed)}
    return len(np.unique(y)), found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixtures", type=int, default=40)
    parser.add_argument("--first", type=int, default=3000)
    parser.add_argument("--box", type=float, default=BOX)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.mixtures)
    runs = Parallel(n_jobs=options.jobs)(delayed(one)(s, options.box) for s in seeds)
    print("| rule | k right | within one | too few | too many |\n|---|---|---|---|---|")
    for name in runs[0][1]:
        gaps = np.array([found[name] - k for k, found in runs])
        shares = (gaps == 0, abs(gaps) <= 1, gaps < 0, gaps > 0)
        print(f"| {name} | {' | '.join(f'{s.mean():.3f}' for s in shares)} |")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Boxes that a few far values do not stretch: which quantiles, measured.

``python benchmarks/robust.py [--seeds 0-39] [--rules NAME,...] [--kinds NAME,...]``

Mixtures with known clusters (:func:`~afcl.data.synthetic.random_mixture`) are dealt to
five sites by k-means, at random and by a Dirichlet(.3) over the clusters in turn, as
they are (`clean`), with one row in a hundred far off in one column (`far`), with one
column log-normal (`long`), or with two columns of noise (`noise`, `far-noise`). AFCL
works in the box of each rule, here that of all rows; behind a quarter of a width
outside of it rows count as just outside. `squashed` takes logarithms of both tails
instead, `agreed` is ``AFCL(scale="robust")``.

``mixed`` and ``skewed`` are the tables of benchmarks/mixed.py instead, where the rules
are for the columns of numbers (not `agreed`).

Prints, for every kind and rule, how often k is right and the mean ARI.
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
from afcl.data.split import column_split, dirichlet_split, iid_split, kmeans_split
from afcl.data.synthetic import random_mixture
from afcl.metrics import adjusted_rand
from afcl.scale import Box

SITES = 5
#: No site holds fewer rows.
SMALLEST = 5
#: Part of the rows that are far off, and how many ranges away they are.
FAR_ROWS, AWAY = 0.01, (5.0, 50.0)
#: Columns of noise.
NOISE = 2
#: A log-normal column is the exponent of so many standard deviations.
SKEW = 1.0

#: The rule that bends columns rather than boxing them.
SQUASHED = "squashed"
#: The product's own: no rows are pooled.
AGREED = "agreed"

#: The lower and upper end of the box of every column.
Ends = tuple[Floats, Floats]


def extremes(X: Floats) -> Ends:
    """From the smallest to the largest value."""
    return X.min(axis=0), X.max(axis=0)


def between(share: float) -> Callable[[Floats], Ends]:
    """Return a rule: without so much of the rows at either end."""

    def ends(X: Floats) -> Ends:
        low, high = np.quantile(X, [share, 1 - share], axis=0)
        return low, high

    return ends


def fences(times: float) -> Callable[[Floats], Ends]:
    """Return a rule: so many interquartile ranges beyond the quartiles."""

    def ends(X: Floats) -> Ends:
        low, high = np.quantile(X, [0.25, 0.75], axis=0)
        beyond = times * (high - low)
        return low - beyond, high + beyond

    return ends


def within_extremes(share: float, beyond: float) -> Callable[[Floats], Ends]:
    """Return a rule: between quantiles and part of that beyond, where values are."""

    def ends(X: Floats) -> Ends:
        low, high = np.quantile(X, [share, 1 - share], axis=0)
        more = beyond * (high - low)
        return np.maximum(low - more, X.min(axis=0)), np.minimum(
            high + more, X.max(axis=0)
        )

    return ends


def inner_fences(X: Floats) -> Ends:
    """Fences, but no farther than the values reach."""
    (low, high), (least, most) = fences(1.5)(X), extremes(X)
    return np.maximum(low, least), np.minimum(high, most)


RULES: dict[str, Callable[[Floats], Ends]] = {
    "minmax": extremes,
    "1-99": between(0.01),
    "2-98": between(0.02),
    "5-95": between(0.05),
    "10-90": between(0.1),
    "quartiles": fences(1.0),
    "fences": fences(1.5),
    "inner-fences": inner_fences,
    "10-90+1/8": within_extremes(0.1, 1 / 8),
    "10-90+1/4": within_extremes(0.1, 1 / 4),
    "10-90+1/2": within_extremes(0.1, 1 / 2),
    "5-95+1/4": within_extremes(0.05, 1 / 4),
}


def squashed(X: Floats) -> Floats:
    """Compress both tails, by quartiles: logarithms far out, straight in the middle."""
    low, middle, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.asarray(np.arcsinh(2 * (X - middle) / width))


def drawn(kind: str, seed: int) -> tuple[Floats, Ints]:
    """Return rows and their clusters."""
    X, y = random_mixture(seed)
    rng = np.random.default_rng([seed, 1])
    column = int(rng.integers(X.shape[1]))
    values = X[:, column]
    if "noise" in kind:
        X = np.hstack([X, rng.normal(size=(len(X), NOISE))])
    if "far" in kind:
        rows = rng.choice(len(X), max(1, round(FAR_ROWS * len(X))), replace=False)
        away = rng.uniform(*AWAY, rows.size) * rng.choice([-1.0, 1.0], rows.size)
        X[rows, column] += away * np.ptp(values)
    elif kind == "long":
        X[:, column] = np.exp(SKEW * (values - values.mean()) / values.std())
    return X, y


def owners_of(X: Floats, y: Ints, seed: int) -> Ints:
    """Deal rows out by k-means, at random and by Dirichlet shares, seed by seed."""
    if seed % 3 == 0:
        return kmeans_split(X, SITES, random_state=seed, min_rows=SMALLEST)
    if seed % 3 == 1:
        return iid_split(len(y), SITES, seed)
    owners = dirichlet_split(y, SITES, alpha=0.3, random_state=seed)
    held = np.bincount(owners)
    return column_split(np.where(held[owners] < SMALLEST, held.argmax(), owners))


def boxed(X: Floats, rule: str) -> Floats:
    """Return rows in the box of a rule; only that of extremes has no walls."""
    if rule == SQUASHED:
        X, rule = squashed(X), "minmax"
    low, high = RULES[rule](X)
    span = np.where(high > low, high - low, 1.0)
    return Box(low, span, None if rule == "minmax" else True).scale(X)


def measured(
    kind: str, rules: list[str], seed: int, mixed: dict[str, Any]
) -> list[tuple[bool, float]]:
    """Return whether k is right, and the ARI, for every rule on one table."""
    warnings.simplefilter("ignore")
    found = []
    if kind in ("mixed", "skewed"):
        table = mixed["drawn_table"](kind, seed)
        numbers, y = table.numbers, table.labels
        others, owners = table.indicators, mixed["owners_of"](table, seed)
    else:
        numbers, y = drawn(kind, seed)
        # Who owns what does not depend on the few values that are far off.
        owners = owners_of(drawn("clean", seed)[0], y, seed)
        others = np.empty((len(y), 0))
    high = np.repeat([1.0, WIDTH], [numbers.shape[1], others.shape[1]])
    for rule in rules:
        scale: Any = "robust"
        if rule == AGREED:
            rows = numbers
        else:
            rows = np.hstack([boxed(numbers, rule), others])
            scale = np.zeros_like(high), high
        model = AFCL(random_state=seed, scale=scale)
        labels = model.fit(rows, clients=owners).labels_
        right = model.n_clusters_ == int(y.max()) + 1
        found.append((right, adjusted_rand(y, labels)))
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-39", help="first-last")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rules", default=",".join([*RULES, SQUASHED, AGREED]))
    parser.add_argument("--kinds", default="clean,far,long,noise,far-noise")
    options = parser.parse_args()
    first, last = (int(end) for end in options.seeds.split("-"))
    rules = options.rules.split(",")
    mixed = run_path(str(Path(__file__).with_name("mixed.py")))
    print(f"| tables | {' | '.join(rules)} |\n|---|{'---|' * len(rules)}", flush=True)
    for kind in options.kinds.split(","):
        found = Parallel(n_jobs=options.jobs)(
            delayed(measured)(kind, rules, seed, mixed)
            for seed in range(first, last + 1)
        )
        right, ari = np.moveaxis(np.array(found, dtype=np.float64), 2, 0)
        cells = [
            f"{r:.2f} / {a:.3f}"
            for r, a in zip(right.mean(0), ari.mean(0), strict=True)
        ]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

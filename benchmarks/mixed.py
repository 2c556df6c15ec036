# SPDX-License-Identifier: Apache-2.0
"""Tables of numbers and texts: how much a text column should count, measured.

``python benchmarks/mixed.py [--seeds 0-59] [--methods NAME,...] [--kind KIND]``

Tables with known clusters are drawn, one a seed
(:func:`~afcl.data.synthetic_mixed.random_mixed`), and dealt to five sites by k-means,
at random and by a Dirichlet(.3) over the clusters in turn. AFCL never knows k. Every
text column becomes one column a level, 1 or 0 times a weight; a method ``afcl:RULE`` is
AFCL with the weights of that rule. Rivals see all rows: k-means on plain indicators,
k-medoids under Gower's distance and k-prototypes, told k (``*``), and k-medoids with
the k of the best silhouette.

k-prototypes needs the package `kmodes` (``pip install kmodes``), and is left out
without it. Prints, for every method: how often k is right, within one, right
where k-medoids by the best silhouette is; the mean ARI; and how often "no clusters" is
the answer.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from afcl import AFCL
from afcl._typing import Floats, Ints
from afcl.data.split import column_split, dirichlet_split, iid_split, kmeans_split
from afcl.data.synthetic_mixed import Mixed, random_mixed
from afcl.metrics import adjusted_rand

SITES = 5
#: No site holds fewer rows.
SMALLEST = 5
#: The numbers of clusters that k-medoids tries, and starts of every pooled method.
SWEEP, STARTS = range(2, 16), 5
#: Iterations of k-medoids at most.
ITERATIONS = 30
#: How skewed numbers are: the exponent of so many standard deviations.
SKEW = 0.6
#: What may be in a table.
KINDS: dict[str, dict[str, bool]] = {
    "mixed": {},
    "skewed": {},
    "numbers": {"with_texts": False},
    "texts": {"with_numbers": False},
}


@dataclass(frozen=True)
class Table:
    """Numbers from 0 to 1, an indicator a level, and which column each belongs to."""

    numbers: Floats
    indicators: Floats
    column: Ints
    labels: Ints

    @classmethod
    def of(cls, drawn: Mixed) -> Table:
        """Return the table with texts as indicators."""
        numbers = drawn.numbers - drawn.numbers.min(axis=0)
        blocks, column = [np.empty((len(numbers), 0))], []
        for j, texts in enumerate(drawn.texts.T):
            levels = np.unique(texts)
            blocks.append((texts[:, None] == levels).astype(np.float64))
            column += [j] * len(levels)
        return cls(
            numbers / np.ptp(numbers, axis=0),
            np.hstack(blocks),
            np.array(column, dtype=np.int64),
            drawn.labels,
        )

    @property
    def rows(self) -> Floats:
        """Numbers and indicators beside each other."""
        return np.hstack([self.numbers, self.indicators])

    @property
    def shares(self) -> Floats:
        """Share of rows of every level."""
        return np.asarray(self.indicators.mean(axis=0))

    @property
    def mixing(self) -> Floats:
        """How often two rows differ in a level's column, for every level."""
        alike = np.bincount(self.column, self.shares**2)
        return np.asarray(1.0 - alike[self.column])

    @property
    def variance(self) -> float:
        """Mean variance of the number columns; 1 where there are none."""
        return float(self.numbers.var(axis=0).mean()) if self.numbers.size else 1.0

    @property
    def size(self) -> Floats:
        """Number of levels of a level's column, for every level."""
        return np.bincount(self.column).astype(np.float64)[self.column]


# ------------------------------------------------------------------ rules

#: What number columns and indicators are multiplied by.
Weights = tuple[Floats, Floats]


def mismatch(squared: float) -> Callable[[Table], Weights]:
    """Two rows that differ in a text are so far apart, squared; 1 in number columns."""

    def weights(table: Table) -> Weights:
        d, m = table.numbers.shape[1], table.indicators.shape[1]
        return np.ones(d), np.full(m, np.sqrt(squared / 2))

    return weights


def spread(share: float) -> Callable[[Table], Weights]:
    """Every text column has this share of the numbers' mean variance."""

    def weights(table: Table) -> Weights:
        units = np.ones(table.numbers.shape[1])
        return units, np.sqrt(share * table.variance / table.mixing)

    return weights


def mean_spread(share: float) -> Callable[[Table], Weights]:
    """One weight for all; texts have this share of the numbers' variance on average."""

    def weights(table: Table) -> Weights:
        units, m = np.ones(table.numbers.shape[1]), table.indicators.shape[1]
        mean = (table.mixing / table.size).sum() / np.unique(table.column).size
        return units, np.full(m, np.sqrt(share * table.variance / mean))

    return weights


def total_spread(table: Table) -> Weights:
    """One weight for all; all texts together vary as much as all numbers together."""
    d, m = table.numbers.shape[1], table.indicators.shape[1]
    total = (table.mixing / table.size).sum()
    return np.ones(d), np.full(m, np.sqrt(d * table.variance / total))


def standard(table: Table) -> Weights:
    """Every column, of numbers and of texts, has variance 1."""
    return 1.0 / table.numbers.std(axis=0), 1.0 / np.sqrt(table.mixing)


def by_level(table: Table) -> Weights:
    """Rare levels weigh more; a text column has about the numbers' mean variance."""
    scale = table.variance / (table.size - 1.0)
    return np.ones(table.numbers.shape[1]), np.sqrt(scale / table.shares)


def famd(table: Table) -> Weights:
    """Numbers have variance 1, indicators are divided by the root of their share."""
    return 1.0 / table.numbers.std(axis=0), 1.0 / np.sqrt(table.shares)


RULES: dict[str, Callable[[Table], Weights]] = {
    "one-hot": mismatch(2.0),
    "gower": mismatch(1.0),
    "half": mismatch(1 / 2),
    "quarter": mismatch(1 / 4),
    "eighth": mismatch(1 / 8),
    "sixteenth": mismatch(1 / 16),
    "thirty-second": mismatch(1 / 32),
    "spread": spread(1.0),
    "half-spread": spread(0.5),
    "mean-spread": mean_spread(1.0),
    "half-mean-spread": mean_spread(0.5),
    "total-spread": total_spread,
    "standard": standard,
    "by-level": by_level,
    "famd": famd,
}


def factors(table: Table, rule: str) -> Floats:
    """Return what every column is multiplied by, never more than 1."""
    both = np.concatenate(RULES[rule](table))
    return both / max(1.0, float(both.max()))


# ------------------------------------------------------------------ methods


def afcl(table: Table, owners: Ints, seed: int, rule: str) -> Ints:
    """Return AFCL's labels; the box holds the weights."""
    high = 1.0 / factors(table, rule)
    model = AFCL(random_state=seed, scale=(np.zeros_like(high), high))
    return np.asarray(model.fit(table.rows, clients=owners).labels_)


def k_means(table: Table, owners: Ints, seed: int) -> Ints:
    """Return labels of k-means on plain indicators, told k."""
    k = int(table.labels.max()) + 1
    X = table.rows * factors(table, "one-hot")
    return np.asarray(KMeans(k, n_init=STARTS, random_state=seed).fit(X).labels_)


def k_prototypes(table: Table, owners: Ints, seed: int) -> Ints:
    """Return labels of k-prototypes, told k."""
    from kmodes.kprototypes import KPrototypes

    k = int(table.labels.max()) + 1
    levels = [table.indicators[:, table.column == j] for j in np.unique(table.column)]
    codes = np.array([block.argmax(axis=1) for block in levels]).T
    rows = np.hstack([table.numbers, codes]).astype(object)
    columns = list(range(table.numbers.shape[1], rows.shape[1]))
    model = KPrototypes(k, init="Huang", n_init=STARTS, random_state=seed)
    return np.asarray(model.fit_predict(rows, categorical=columns))


def gower(table: Table) -> NDArray[np.float32]:
    """Return Gower's distances between all rows."""
    n, columns = len(table.labels), np.unique(table.column).size
    total = np.zeros((n, n), dtype=np.float32)
    for values in table.numbers.T.astype(np.float32):
        total += np.abs(values[:, None] - values)
    hot = table.indicators.astype(np.float32)
    total += columns - hot @ hot.T
    total /= table.numbers.shape[1] + columns
    return total


def medoids(
    apart: NDArray[np.float32], k: int, rng: np.random.Generator
) -> tuple[float, Ints]:
    """Return the cost and the labels of k-medoids from one start."""
    n = len(apart)
    chosen = [int(rng.integers(n))]
    while len(chosen) < k:
        near = apart[:, chosen].min(axis=1).astype(np.float64) ** 2
        chance = near / near.sum() if near.sum() > 0 else np.full(n, 1 / n)
        chosen.append(int(rng.choice(n, p=chance)))
    labels = apart[:, chosen].argmin(axis=1)
    for _ in range(ITERATIONS):
        for c in range(k):
            own = np.flatnonzero(labels == c)
            if own.size:
                chosen[c] = int(own[apart[np.ix_(own, own)].sum(axis=0).argmin()])
        before, labels = labels, apart[:, chosen].argmin(axis=1)
        if (labels == before).all():
            break
    return float(apart[:, chosen].min(axis=1).sum()), labels


def best_medoids(apart: NDArray[np.float32], k: int, seed: int) -> Ints:
    """Return the labels of the best of several starts."""
    rng = np.random.default_rng([seed, k])
    return min((medoids(apart, k, rng) for _ in range(STARTS)), key=lambda r: r[0])[1]


def silhouette_of(apart: NDArray[np.float32], labels: Ints) -> float:
    """Return the mean silhouette under given distances."""
    _, labels = np.unique(labels, return_inverse=True)
    hot = np.eye(labels.max() + 1, dtype=np.float32)[labels]
    if hot.shape[1] < 2:
        return -1.0
    counts, own = hot.sum(axis=0), (np.arange(len(labels)), labels)
    sums = apart @ hot
    inside = sums[own] / np.maximum(counts[labels] - 1, 1)
    means = sums / counts
    means[own] = np.inf
    outside = means.min(axis=1)
    widths = (outside - inside) / np.maximum(np.maximum(inside, outside), 1e-12)
    return float(np.where(counts[labels] > 1, widths, 0.0).mean())


def told_medoids(table: Table, owners: Ints, seed: int) -> Ints:
    """Return labels of k-medoids, told k."""
    return best_medoids(gower(table), int(table.labels.max()) + 1, seed)


def swept_medoids(table: Table, owners: Ints, seed: int) -> Ints:
    """Return labels of k-medoids with the k of the best silhouette."""
    apart = gower(table)
    found = [best_medoids(apart, k, seed) for k in SWEEP]
    return max(found, key=lambda labels: silhouette_of(apart, labels))


#: How a method begins that is AFCL; what follows is the rule.
OURS = "afcl:"
SWEPT = "gower-silhouette"
POOLED: dict[str, Callable[[Table, Ints, int], Ints]] = {
    SWEPT: swept_medoids,
    "gower*": told_medoids,
    "k-means*": k_means,
    "k-prototypes*": k_prototypes,
}


# ------------------------------------------------------------------ measuring


def owners_of(table: Table, seed: int) -> Ints:
    """Deal rows out by k-means, at random and by Dirichlet shares, seed by seed."""
    if seed % 3 == 0:
        X = table.rows * factors(table, "gower")
        return kmeans_split(X, SITES, random_state=seed, min_rows=SMALLEST)
    if seed % 3 == 1:
        return iid_split(len(table.labels), SITES, seed)
    owners = dirichlet_split(table.labels, SITES, alpha=0.3, random_state=seed)
    held = np.bincount(owners)
    return column_split(np.where(held[owners] < SMALLEST, held.argmax(), owners))


def drawn_table(kind: str, seed: int) -> Table:
    """Draw a table; skewed numbers are log-normal where others are normal."""
    drawn = random_mixed(seed, **KINDS[kind])
    if kind == "skewed":
        apart = drawn.numbers - drawn.numbers.mean(axis=0)
        skewed = np.exp(SKEW * apart / drawn.numbers.std(axis=0))
        drawn = drawn._replace(numbers=skewed)
    return Table.of(drawn)


def measured(kind: str, methods: list[str], seed: int) -> list[tuple[int, int, float]]:
    """Return the true k, k' and the ARI of every method on one table."""
    warnings.simplefilter("ignore")
    table = drawn_table(kind, seed)
    owners, found = owners_of(table, seed), []
    for method in methods:
        name = method.removeprefix(OURS)
        if method.startswith(OURS):
            labels = afcl(table, owners, seed, name)
        else:
            labels = POOLED[name](table, owners, seed)
        ari = adjusted_rand(table.labels, labels)
        found.append((int(table.labels.max()) + 1, np.unique(labels).size, ari))
    return found


def known_methods(kind: str) -> list[str]:
    """Return all methods that can be run on such tables."""
    pooled = list(POOLED)
    if kind in ("numbers", "texts") or find_spec("kmodes") is None:
        pooled.remove("k-prototypes*")
    return pooled + [OURS + rule for rule in RULES]


def show(methods: list[str], found: Floats) -> None:
    """Print a line a method; `found` has an axis of seeds, of methods, of figures."""
    true, k, ari = np.moveaxis(found, 2, 0)
    right = true == k
    print("| method | k right | within one | where swept is | ARI | no clusters |")
    print("|---|---|---|---|---|---|")
    for i, method in enumerate(methods):
        among = right[right[:, methods.index(SWEPT)], i] if SWEPT in methods else []
        where = f"{np.mean(among):.2f} of {len(among)}" if len(among) else "-"
        print(
            f"| `{method}` | {right[:, i].mean():.2f} | "
            f"{(np.abs(true - k)[:, i] <= 1).mean():.2f} | {where} | "
            f"{ari[:, i].mean():.3f} | {(k[:, i] == 1).mean():.2f} |"
        )
    told = [i for i, method in enumerate(methods) if method.endswith("*")]
    if told:
        print(f"Best of those told k, table by table: {ari[:, told].max(1).mean():.3f}")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-59", help="first-last")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", help="comma-separated; all by default")
    parser.add_argument("--kind", choices=list(KINDS), default="mixed")
    options = parser.parse_args()
    first, last = (int(end) for end in options.seeds.split("-"))
    known = known_methods(options.kind)
    methods = options.methods.split(",") if options.methods else known
    unknown = [method for method in methods if method not in known]
    if unknown:
        parser.error(f"cannot run {', '.join(unknown)}; there are {', '.join(known)}")
    found = Parallel(n_jobs=options.jobs)(
        delayed(measured)(options.kind, methods, seed)
        for seed in range(first, last + 1)
    )
    show(methods, np.array(found))


if __name__ == "__main__":
    main()

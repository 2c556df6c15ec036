# SPDX-License-Identifier: Apache-2.0
"""Scores of stored labellings, derived when a report asks for them.

Scores belong to a partition of a data set, not to a run: runs that found the same
partition share them. They are kept in ``scores.jsonl`` beside the runs; a measure that
is new there is computed for what is stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.metrics import (
    COLLAPSED,
    adjusted_rand,
    calinski_harabasz,
    davies_bouldin,
    normalized_mutual_info,
    silhouette,
)
from afcl_bench.datasets import Dataset
from afcl_bench.settings import scaled

SCORES = "scores.jsonl"
#: Rows above which the Euclidean silhouette, quadratic in them, is that of a sample.
MOST_ROWS = 20_000
SAMPLE = 5000
#: MiB of distances held at a time.
WORKING_MEMORY = 64

Score = float | None

#: Measures of one partition: scaled rows, classes, labels.
SINGLE: dict[str, Callable[[Floats, Ints, Ints], Score]] = {
    "sc2": lambda X, y, labels: silhouette(X, labels, "sqeuclidean"),
    "ch": lambda X, y, labels: calinski_harabasz(X, labels),
    "db": lambda X, y, labels: davies_bouldin(X, labels),
    "ari": lambda X, y, labels: adjusted_rand(y, labels),
    "nmi": lambda X, y, labels: normalized_mutual_info(y, labels),
}
#: The Euclidean silhouette is measured for many partitions at once.
MEASURES = ("sc", *SINGLE)


class Scores:
    """Scores by partition, with what was measured before."""

    def __init__(self, root: Path) -> None:
        self.path = root / SCORES
        self.known: dict[str, dict[str, Score]] = {}
        text = self.path.read_text(encoding="utf-8") if self.path.is_file() else ""
        self.cut_off = not text.endswith("\n") and bool(text)
        for line in text.splitlines():
            self._take(line)

    def _take(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            return  # a last line cut off; its scores are measured again
        self.known.setdefault(entry.pop("key"), {}).update(entry)

    def measure(
        self, data: Dataset, fingerprint: str, partitions: Sequence[Ints]
    ) -> list[dict[str, Score]]:
        """Return the scores of partitions of one data set.

        Parameters
        ----------
        data : Dataset
        fingerprint : str
            Of the data.
        partitions : sequence of ndarray of shape (n_samples,)

        Returns
        -------
        list of dict
            By :data:`MEASURES`; None where a measure is not defined.
        """
        keys = [f"{fingerprint[:16]}/{_digest(labels)}" for labels in partitions]
        new = dict(zip(keys, partitions, strict=True))
        todo = {
            key: labels
            for key, labels in new.items()
            if any(name not in self.known.get(key, {}) for name in MEASURES)
        }
        if todo:
            found = _measured(data, list(todo.values()))
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n" if self.cut_off else "")
                self.cut_off = False
                for key, scores in zip(todo, found, strict=True):
                    file.write(json.dumps({"key": key, **scores}) + "\n")
                    self.known[key] = scores
        return [self.known[key] for key in keys]


def _measured(data: Dataset, partitions: list[Ints]) -> list[dict[str, Score]]:
    X = scaled(data.X)
    drawn: Any = slice(None)
    if X.shape[0] > MOST_ROWS:  # the same rows every time
        drawn = np.random.default_rng(0).choice(X.shape[0], SAMPLE, replace=False)
    euclidean = silhouettes(X[drawn], [labels[drawn] for labels in partitions])
    return [
        {"sc": sc, **{name: of(X, data.y, labels) for name, of in SINGLE.items()}}
        for sc, labels in zip(euclidean, partitions, strict=True)
    ]


def silhouettes(X: Floats, partitions: Sequence[Ints]) -> list[float]:
    """Return the Euclidean silhouette of many partitions of the same rows.

    The distances, which cost most, are computed once for all of them.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    partitions : sequence of ndarray of shape (n_samples,)

    Returns
    -------
    list of float
        -1 for a collapsed partition, as in :func:`afcl.metrics.silhouette`.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [4.0], [5.0]])
    >>> partitions = [np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), np.zeros(4)]
    >>> [round(value, 4) for value in silhouettes(X, partitions)]
    [0.746, 0.0714, -1.0]
    """
    from scipy.sparse import csr_array
    from scipy.spatial.distance import cdist

    n = X.shape[0]
    codes = [np.unique(labels, return_inverse=True)[1] for labels in partitions]
    sizes = [np.bincount(code) for code in codes]
    starts = np.cumsum([0, *(len(size) for size in sizes)])
    rows = np.concatenate([c + s for c, s in zip(codes, starts, strict=False)])
    columns = np.tile(np.arange(n), len(codes))
    ones = np.ones(rows.shape[0])
    members = csr_array((ones, (rows, columns)), shape=(int(starts[-1]), n))
    totals = np.zeros(len(codes))
    step = max(1, WORKING_MEMORY * 2**20 // (8 * max(n, int(starts[-1]))))
    for first in range(0, n, step):
        part = slice(first, min(n, first + step))
        sums = (members @ cdist(X, X[part])).T
        for i, (code, size) in enumerate(zip(codes, sizes, strict=True)):
            if 2 <= len(size) < n:
                own = sums[:, starts[i] : starts[i + 1]]
                totals[i] += _silhouettes(own, code[part], size).sum()
    return [
        float(total / n) if 2 <= len(size) < n else COLLAPSED
        for total, size in zip(totals, sizes, strict=True)
    ]


def _silhouettes(sums: Floats, own: Ints, sizes: Ints) -> Floats:
    """Return (b - a) / max(a, b) from sums of distances to every cluster."""
    rows = np.arange(own.shape[0])
    inside = sums[rows, own] / np.maximum(sizes[own] - 1, 1)
    means = sums / sizes
    means[rows, own] = np.inf
    outside = means.min(axis=1)
    largest = np.maximum(inside, outside)
    values = np.zeros(own.shape[0])
    held = (sizes[own] > 1) & (largest > 0)
    values[held] = (outside[held] - inside[held]) / largest[held]
    return values


def _digest(labels: Ints) -> str:
    """Return a name for a partition, whatever its clusters are called."""
    _, first, code = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.shape[0], dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.shape[0], dtype=np.int32)
    return hashlib.sha256(rank[code].tobytes()).hexdigest()[:32]

# SPDX-License-Identifier: Apache-2.0
"""Indices that need only summaries, and the rule that chooses k by them.

With O, B, Z the count, mean and scatter of every cluster and V = Z/O, the mean
squared distance of x to the members of a cluster is |x - B|^2 + V. That gives the
silhouette under squared distances exactly, and with square roots an approximation
of the Euclidean one: the *moment silhouette*.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afcl._typing import Floats
from afcl.core.protocol import Scores
from afcl.kernels import crowding

#: The index names in the order they are shown.
INDICES = ("silhouette", "simplified", "ch", "db", "bic")

#: Whether more is better.
HIGHER_IS_BETTER = {
    "silhouette": True,
    "simplified": True,
    "ch": True,
    "db": False,
    "bic": True,
}

#: Sums of the rule this close are a tie: larger BIC, then smaller k.
TIE = 1e-9


def bic(counts: Floats, scatters: Floats, n_features: int) -> float:
    """BIC of a mixture of equal spherical Gaussians, hard assignments."""
    n, k = counts.sum(), counts.shape[0]
    variance = max(scatters.sum() / (n * n_features), 1e-12)
    fit = -0.5 * n * n_features * np.log(variance)
    shares = (counts * np.log(counts / n)).sum()
    return float(fit + shares - 0.5 * k * (n_features + 1) * np.log(n))


def calinski_harabasz(counts: Floats, means: Floats, scatters: Floats) -> float | None:
    """Calinski-Harabasz from (O, B, Z); None where it is not defined."""
    n, k = counts.sum(), counts.shape[0]
    if k < 2 or n <= k:
        return None
    middle = (counts[:, None] * means).sum(axis=0) / n
    between = (counts * ((means - middle) ** 2).sum(axis=1)).sum()
    within = scatters.sum()
    if within <= 0:
        return 1.0
    return float(between * (n - k) / (within * (k - 1.0)))


def davies_bouldin(counts: Floats, means: Floats, scatters: Floats) -> float | None:
    """Davies-Bouldin with root-mean-square radii, from (O, B, Z)."""
    if counts.shape[0] < 2:
        return None
    return crowding(np.sqrt(scatters / counts), means) / len(counts)


def _normalised(values: Floats) -> Floats:
    """Map to [-1, 0], the best to 0."""
    best = values.max()
    scaled: Floats = (values - best) / (best - values.min() + 1e-12)
    return scaled


def choose(levels: Sequence[tuple[int, Scores]], criterion: str, band: float) -> int:
    """Return the position of the level that wins under `criterion`.

    `auto` takes the levels whose moment silhouette lies within `band` of the best and
    among these the largest sum of normalised BIC and simplified silhouette.
    """
    ks = np.array([k for k, _ in levels])
    if criterion != "auto":
        return int(np.lexsort((ks, -goodness(levels, criterion)))[0])
    silhouette = goodness(levels, "silhouette")
    inside = np.flatnonzero(silhouette >= silhouette.max() - band)
    likely = goodness(levels, "bic")[inside]
    total = _normalised(likely) + _normalised(goodness(levels, "simplified")[inside])
    tied = inside[total >= total.max() - TIE]
    return int(tied[np.lexsort((ks[tied], -goodness(levels, "bic")[tied]))[0]])


def goodness(levels: Sequence[tuple[int, Scores]], criterion: str) -> Floats:
    """One number a level, more is better; an undefined index is the worst."""
    name = "silhouette" if criterion == "auto" else criterion
    sign = 1.0 if HIGHER_IS_BETTER[name] else -1.0
    values = [scores[name] for _, scores in levels]
    return np.array([-np.inf if v is None else sign * v for v in values])

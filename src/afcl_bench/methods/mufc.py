# SPDX-License-Identifier: Apache-2.0
"""MUFC: clients upload quantised k-means++ seeds as a histogram, the server clusters.

Every client draws k' of its rows by k-means++, counts the rows nearest to each, rounds
these seeds to a grid and uploads (bin, count). The server sums the histograms, draws as
many points in every bin as it counts, uniformly, and runs k-means on them.

Pan, Sima, Prakash, Rana and Milenkovic, "Machine unlearning of federated clusters",
ICLR 2023. The step of the grid is 1/sqrt(rows in all), for rows scaled to [0, 1]. The
paper hides each client's histogram behind secure aggregation (SCMA); here the
arithmetic over a finite field is left out, and what SCMA would give the server is all
it uses: the *sum* of the histograms. Labels are therefore by the nearest centre.
Where we depart from it: no more clusters than occupied bins are reported; a bin
of more than 1000 rows is drawn as 1000 points of more weight; k-means (the best of ten
runs) is this package's own, whose bits do not depend on the number of threads.
Unlearning, the paper's other subject, is not offered.

Uploaded, once: at most k' bins of d integers, with counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.messages import payload
from afcl.core.protocol import Clustering, server_rng
from afcl.core.seeding import plus_plus, weighted_kmeans
from afcl.exceptions import InputError
from afcl.kernels import assign, sums
from afcl.methods.one_shot import OneShot
from afcl.methods.rival import KnownK, RivalState, expect, simple_clustering

#: Runs of k-means at the server, of which the best is kept.
RESTARTS = 10
#: Points drawn in one bin; more rows than that give these points more weight.
MOST_DRAWS = 1000
#: Bins are numbered exactly up to here in float64.
FARTHEST = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class MufcParams(KnownK):
    """`local_clusters` is k' (None: k); `step` of the grid (None: 1/sqrt(rows))."""

    local_clusters: int | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        KnownK.__post_init__(self)
        local, step = self.local_clusters, self.step
        if local is not None and not (isinstance(local, int) and local >= 1):
            raise InputError(
                f"local_clusters must be a whole number of at least 1, not {local!r}"
            )
        if step is not None and not (
            isinstance(step, int | float) and 0 < step < math.inf
        ):
            raise InputError(f"step must be a positive number, not {step!r}")

    @property
    def per_client(self) -> int:
        """The number of seeds k' a client draws."""
        return self.local_clusters or self.k


@payload
@dataclass(frozen=True, slots=True)
class Histogram:
    """Rows counted in the occupied bins of a grid, bins in lexicographic order.

    MUFC's reveals, to within half a step of the grid, the position of at most k'
    **rows** and how many others are nearest to each; under secure aggregation only the
    sum over all clients would be seen. HFDPC's reveals the bin of **every row**.
    """

    bins: Ints
    counts: Ints


@dataclass(frozen=True, slots=True)
class MufcModel:
    """Centres and the drawn points they hold."""

    centers: Floats
    sizes: Floats


class MUFC(OneShot):
    """One-shot k-means on a summed histogram."""

    name = "mufc"
    Params = MufcParams

    def settle(self, params: Any, n_rows: int) -> Any:
        """Fix the step of the grid, unless it was given."""
        return replace(params, step=params.step or 1 / math.sqrt(n_rows))

    def first(self, X: Floats, params: Any, rng: np.random.Generator) -> Histogram:
        """Send the histogram of the client's seeds."""
        seeds = X[plus_plus(X, params.per_client, rng)]
        counts = np.bincount(assign(X, seeds)[0], minlength=len(seeds))
        return summed(whole(np.rint(seeds / params.step)), counts.astype(np.int64))

    def check_hello(self, state: RivalState, hello: Any, n_rows: int) -> int:
        """Expect distinct bins that hold all of the client's rows."""
        most = min(state.params.per_client, n_rows)
        expect(is_histogram(hello, n_rows, most), f"a histogram of {n_rows} rows")
        return int(hello.bins.shape[1])

    def start(self, state: RivalState) -> MufcModel:
        """Sum the histograms, draw points in their bins, cluster them."""
        total = summed(
            np.concatenate([reply.bins for reply in state.hellos.values()]),
            np.concatenate([reply.counts for reply in state.hellos.values()]),
        )
        rng = server_rng(state.seed, 0, 0)
        points, weights = drawn(total, state.params.step, rng)
        k = min(state.params.k, total.counts.shape[0])
        centers = weighted_kmeans(points, weights, k, rng, RESTARTS)
        sizes, _ = sums(points, weights, assign(points, centers)[0], len(centers))
        return MufcModel(centers[sizes > 0], sizes[sizes > 0])

    def cluster(self, state: RivalState) -> Clustering:
        """Return the centres, by the points drawn around them."""
        return simple_clustering(state.model.centers, state.model.sizes)


def whole(values: Floats) -> Ints:
    """Return whole numbers as integers, if a grid can hold them."""
    if not np.abs(values).max() < FARTHEST:
        raise InputError("the rows are too far apart for a grid: scale them to [0, 1]")
    return values.astype(np.int64)


def summed(bins: Ints, counts: Ints) -> Histogram:
    """Return the histogram of counted bins that may repeat."""
    distinct, inverse = np.unique(bins, axis=0, return_inverse=True)
    total = np.zeros(distinct.shape[0], dtype=np.int64)
    np.add.at(total, inverse.reshape(-1), counts)
    return Histogram(distinct, total)


def drawn(
    histogram: Histogram, step: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw as many points in every bin as it counts, uniformly; and their weights.

    The weights are 1, but in bins of more than MOST_DRAWS rows.
    """
    draws = np.minimum(histogram.counts, MOST_DRAWS)
    bins = np.repeat(histogram.bins, draws, axis=0)
    points: Floats = (bins + rng.uniform(-0.5, 0.5, size=bins.shape)) * step
    return points, np.repeat(histogram.counts / draws, draws)


def is_histogram(reply: Any, n_rows: int, most: int) -> bool:
    """Whether this counts `n_rows` rows in 1 to `most` distinct bins."""
    return (
        isinstance(reply, Histogram)
        and all(isinstance(part, np.ndarray) for part in (reply.bins, reply.counts))
        and reply.bins.dtype == reply.counts.dtype == np.int64
        and reply.bins.ndim == 2
        and reply.bins.shape[1] >= 1
        and reply.counts.shape == reply.bins.shape[:1]
        and 1 <= reply.counts.shape[0] <= most
        and bool(np.all((reply.bins > -FARTHEST) & (reply.bins < FARTHEST)))
        and bool(np.all(reply.counts >= 1))
        and sum(reply.counts.tolist()) == n_rows
        and np.unique(reply.bins, axis=0).shape[0] == reply.bins.shape[0]
    )

# SPDX-License-Identifier: Apache-2.0
"""Timing as a ratio: two pieces of work turn by turn in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from afcl._typing import Floats

#: CPU and wall seconds.
Seconds = tuple[float, float]
#: Lloyd iterations whose time is taken, between two fits.
ITERATIONS = 5


def timed(work: Callable[[], Any]) -> tuple[Any, Seconds]:
    """Return what the work gives, and the time it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = work()
    return found, (time.process_time() - cpu, time.perf_counter() - wall)


def lloyd_iteration(X: Floats, start: Floats) -> Seconds:
    """Return the time of one Lloyd iteration of ``KMeans`` from these centres.

    It is a difference of two fits, so that neither start nor end counts.
    """
    taken = []
    for iterations in (1, 1 + ITERATIONS):
        model = KMeans(
            start.shape[0],
            init=start,
            n_init=1,
            max_iter=iterations,
            tol=0.0,
            algorithm="lloyd",
        )
        _, seconds = timed(partial(model.fit, X))
        assert model.n_iter_ == iterations
        taken.append(seconds)
    (few_cpu, few_wall), (many_cpu, many_wall) = taken
    return (many_cpu - few_cpu) / ITERATIONS, (many_wall - few_wall) / ITERATIONS


def compared(ours: list[Seconds], theirs: list[Seconds]) -> dict[str, Any]:
    """Return medians, and the ratio theirs / ours (how many times faster) of the turns.

    Each entry of the two lists is one turn.
    """
    a, b = np.array(ours), np.array(theirs)
    ratios = b / a
    return {
        "turns": len(ours),
        "ours_cpu": float(np.median(a[:, 0])),
        "ours_wall": float(np.median(a[:, 1])),
        "theirs_cpu": float(np.median(b[:, 0])),
        "theirs_wall": float(np.median(b[:, 1])),
        "ratio_cpu": float(np.median(ratios[:, 0])),
        "ratio_wall": float(np.median(ratios[:, 1])),
        "ratio_cpu_quartiles": np.quantile(ratios[:, 0], (0.25, 0.75)).tolist(),
    }

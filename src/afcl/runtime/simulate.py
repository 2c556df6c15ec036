# SPDX-License-Identifier: Apache-2.0
"""The simulator: a whole federation in this process, from tables to labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.protocol import Clustering, PathLevel
from afcl.runtime.coordinator import Coordinator, Finished, Spec
from afcl.runtime.demands import demands
from afcl.runtime.inprocess import InProcess
from afcl.runtime.journal import Journal
from afcl.runtime.schedule import Replay, Schedule
from afcl.runtime.site import Site
from afcl.trace import Trace


@dataclass(frozen=True)
class Outcome:
    """A finished run with everybody's labels; clusters by size, largest first.

    Attributes
    ----------
    finished
        The coordinator's record; its clustering is in the server's own order.
    clustering
        The same, clusters numbered by the rows they really hold.
    rank
        New number of every cluster of the server's order.
    labels
        One array per client.
    """

    finished: Finished
    clustering: Clustering
    rank: Ints
    labels: tuple[Ints, ...]


def simulate(
    spec: Spec,
    tables: Sequence[Floats],
    schedule: Schedule | None = None,
    *,
    journal: Journal | None = None,
    trace: Trace | None = None,
    clock: Callable[[], float] | None = None,
) -> Outcome:
    """Run `spec` on one table per client and label everybody's rows."""
    schedule = schedule if schedule is not None else Schedule()
    demands(spec.method, spec.options, spec.scale, len(tables))
    sites = [Site(table) for table in tables]
    bound = schedule.bind(len(sites), spec.seed)
    transport = InProcess(sites, bound, journal.entries if journal else None)
    if isinstance(schedule, Replay):
        spec = replace(spec, max_rounds=schedule.last)
    coordinator = Coordinator(
        spec, transport, journal=journal, trace=trace, clock=clock
    )
    return label_all(spec, coordinator.run(), sites)


def label_all(spec: Spec, finished: Finished, sites: Sequence[Site]) -> Outcome:
    """Let every client label its own rows, and number the clusters by size."""
    clustering = finished.clustering
    raw = [
        spec.method.label(clustering, site.scaled(finished.terms), site.memory, client)
        for client, site in enumerate(sites)
    ]
    sizes = np.bincount(np.concatenate(raw), minlength=clustering.k)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.shape[0])
    return Outcome(
        finished,
        _renumbered(clustering, order, sizes.astype(np.float64)),
        rank.astype(np.int64),
        tuple(rank[labels].astype(np.int64) for labels in raw),
    )


def _renumbered(clustering: Clustering, order: Ints, sizes: Floats) -> Clustering:
    centers = clustering.centers
    if centers is not None:
        centers = centers[order]
    path = []
    for level in clustering.path:
        if centers is not None and level.k == clustering.k:
            level = PathLevel(level.k, centers, sizes[order], level.scores)
        path.append(level)
    return replace(clustering, centers=centers, sizes=sizes[order], path=tuple(path))

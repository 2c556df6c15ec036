# SPDX-License-Identifier: Apache-2.0
"""The simulator: a whole federation in this process, from tables to labels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from afcl._typing import Floats, Ints
from afcl.core.cells import offsets_of
from afcl.core.protocol import AnyMethod, Clustering
from afcl.core.rows import Rows, RowsInPlace, Source
from afcl.core.shapes import renamed
from afcl.core.terms import Terms
from afcl.exceptions import InputError
from afcl.gaps import IMPUTE
from afcl.parts import rows_in_a_part
from afcl.runtime.batch import SiteBatch, Threads, fits
from afcl.runtime.batch_coordinator import BatchCoordinator
from afcl.runtime.coordinator import Coordinator
from afcl.runtime.inprocess import InProcess
from afcl.runtime.journal import Journal
from afcl.runtime.requirements import requirements
from afcl.runtime.schedule import Replay, Schedule
from afcl.runtime.site import NO_GAPS, Site
from afcl.runtime.spec import Finished, Spec
from afcl.runtime.who_speaks import too_small
from afcl.trace import Trace

#: What labels are kept as: beside rows of two features, 64 bits are half the data.
LABEL: np.dtype[Any] = np.dtype(np.int32)
#: Clients from which on they are asked together, where they can be.
TOGETHER = 1000


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
        One array per client; of a source that is streamed, what yields them.
    joined_labels
        Those of all tables in memory, one after the other: `labels` are its pieces, so
        that nobody needs a copy.
    set_aside
        How many rows of each client did not speak because of gaps, if there are any.
    filled
        How many cells of every column were filled in the rows that spoke, by client.
    """

    finished: Finished
    clustering: Clustering
    rank: Ints
    labels: tuple[Any, ...]
    joined_labels: Ints
    set_aside: tuple[int, ...] = ()
    filled: tuple[Ints | None, ...] = ()


@dataclass(frozen=True)
class LabelParts:
    """The labels of rows that are not in memory: computed while they are read.

    Attributes
    ----------
    sizes
        Rows in every cluster.
    rows
        The rows, in agreed units.
    work
        Labels a part of them.
    """

    sizes: Ints
    rows: Rows
    work: Callable[[Floats], Ints]

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def __iter__(self) -> Iterator[Ints]:
        return self.rows.map(self.work)

    def collection(self) -> Any:
        """Return a lazy collection of the rows' own kind; this, if they have none."""
        own = getattr(self.rows, "labels", None)
        return self if own is None else own(self.work)


@dataclass(frozen=True)
class LabelsInPlace(LabelParts):
    """The labels of rows that answer where they are: there, too.

    Attributes
    ----------
    held
        An array beside the rows.
    """

    rows: RowsInPlace
    held: Any = None

    def __iter__(self) -> Iterator[Ints]:
        return self.rows.host_labels(self.held)

    def collection(self) -> Any:
        """Return the array beside the rows."""
        return self.held


#: One client's labels.
Labels: TypeAlias = Ints | LabelParts


def simulate(
    spec: Spec,
    tables: Sequence[Floats | Source],
    schedule: Schedule | None = None,
    *,
    journal: Journal | None = None,
    trace: Trace | None = None,
    clock: Callable[[], float] | None = None,
    gone: Collection[int] = (),
) -> Outcome:
    """Run `spec` on one table (or source of rows) per client and label all rows.

    From :data:`TOGETHER` small clients on these are asked together, where they can be:
    see :func:`simulate_batch`. It is the same run, only faster.

    Who is `gone` keeps its number, so that the others keep theirs; its table is empty.
    """
    schedule = schedule if schedule is not None else Schedule()
    if journal is None and len(tables) >= TOGETHER:
        joined = _joined(tables)
        if joined is not None and fits(spec, *joined, schedule):
            return simulate_batch(spec, *joined, schedule, trace=trace, clock=clock)
    small = too_small(spec, tables, gone)
    absent = {*small, *gone}
    taking_part = len(tables) - len(absent)
    requirements(spec.method, spec.parameters, spec.scale, taking_part)
    spec = replace(spec, notes=(*spec.notes, *small.values()))
    # Here the rows are counted, not declared.
    most = max((table.shape[0] for table in tables), default=0)
    spec = replace(spec, max_rows=max(spec.max_rows, most))
    sites = [
        Site(table, secret=spec.secret_of(client), missing=spec.missing or IMPUTE)
        for client, table in enumerate(tables)
    ]
    spec = with_gaps(spec, sites)
    bound = schedule.bind(len(sites), spec.seed)
    known = journal.entries if journal else None
    transport = InProcess(sites, bound, known, absent=absent)
    if isinstance(schedule, Replay):
        spec = replace(spec, max_rounds=schedule.last)
    coordinator = Coordinator(
        spec, transport, journal=journal, trace=trace, clock=clock
    )
    return label_all(spec, coordinator.run(), sites)


def with_gaps(spec: Spec, sites: Sequence[Site]) -> Spec:
    """Return what knows what stands for columns that a table has no value of.

    It is the middle of what the others announce as their medians, in a live run.
    """
    if not any(site.has_gaps for site in sites):
        return spec
    held = [site.rows for site in sites if isinstance(site.rows, np.ndarray)]
    if spec.noisy:
        raise InputError(NO_GAPS)
    lacking = [np.isnan(table).all(axis=0) for table in held]
    if not np.any(lacking):
        return spec
    medians = np.full((len(held), held[0].shape[1]), np.nan)
    for place, table in enumerate(held):
        known = ~lacking[place]
        medians[place, known] = np.nanmedian(table[:, known], axis=0)
    nowhere = np.isnan(medians).all(axis=0)  # the box will say so
    medians[:, nowhere] = 0.0
    return replace(spec, typical=np.nanmedian(medians, axis=0))


def _joined(tables: Sequence[Floats | Source]) -> tuple[Floats, Ints] | None:
    """Return all rows and offsets, if they are in memory and of the same width."""
    held = [table for table in tables if isinstance(table, np.ndarray)]
    if len(held) < len(tables) or len({table.shape[1] for table in held}) > 1:
        return None
    lengths = np.array([table.shape[0] for table in held])
    return np.concatenate(held), offsets_of(lengths)


def simulate_batch(
    spec: Spec,
    rows: Floats,
    offsets: Ints,
    schedule: Schedule | None = None,
    *,
    trace: Trace | None = None,
    clock: Callable[[], float] | None = None,
) -> Outcome:
    """Run `spec` on very many small clients, which are asked together.

    Parameters
    ----------
    spec
        What is to be run; see :func:`afcl.runtime.batch.fits`.
    rows : ndarray of shape (n, d)
        The rows of all clients, one client after the other.
    offsets : ndarray of shape (n_clients + 1,)
        Client c owns the rows from ``offsets[c]`` up to ``offsets[c + 1]``.
    schedule
        Who takes part when; None: everybody, always.
    trace
        Receives the events, one for many clients.
    clock
        Returns the wall-clock time stamped on events (None: no stamp).

    Returns
    -------
    outcome
        What :func:`simulate` returns for the same clients.
    """
    if offsets[0] != 0 or offsets[-1] != rows.shape[0]:
        raise InputError(
            f"offsets run from {offsets[0]} to {offsets[-1]}: they must begin with 0 "
            f"and end with the number of rows, {rows.shape[0]}"
        )
    if not fits(spec, rows, offsets, schedule):
        raise InputError(
            "these clients cannot be asked together: that takes preset 'default', "
            "privacy 'summary' or 'secure', plain rounds and small clients; "
            "give simulate() one table per client"
        )
    schedule = schedule if schedule is not None else Schedule()
    bound = schedule.bind(offsets.shape[0] - 1, spec.seed)
    with Threads() as threads:
        sites = SiteBatch(rows, offsets, spec.parameters, spec.seed, threads)
        run = BatchCoordinator(spec, sites, bound, trace=trace, clock=clock)
        finished = run.run()
    labels = spec.method.label(finished.clustering, sites.tables.rows, None, None)
    labels = labels.astype(LABEL)
    edges = offsets.tolist()
    pieces = [labels[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    return _ranked_by_size(finished, pieces, labels)


def label_all(spec: Spec, finished: Finished, sites: Sequence[Site]) -> Outcome:
    """Let every client label its own rows, and number the clusters by size."""
    clustering, terms = finished.clustering, finished.terms
    held = sum(len(s.rows) for s in sites if isinstance(s.rows, np.ndarray))
    buffer = LabelBuffer(held)
    raw = [
        _labels(spec.method, clustering, site, terms, client, buffer)
        for client, site in enumerate(sites)
    ]
    outcome = _ranked_by_size(finished, raw, buffer.labels)
    return replace(
        outcome,
        set_aside=tuple(site.set_aside for site in sites),
        filled=tuple(site.filled for site in sites),
    )


def _ranked_by_size(finished: Finished, raw: Sequence[Labels], joined: Ints) -> Outcome:
    """Return the outcome with clusters in the order of the rows they really hold.

    Arrays in `raw` are pieces of `joined`, which is changed in place.
    """
    clustering = finished.clustering
    sizes = np.zeros(clustering.k, dtype=np.int64)
    for part in _in_parts(joined):
        sizes += np.bincount(part, minlength=clustering.k)
    for labels in raw:
        if isinstance(labels, LabelParts):
            sizes += labels.sizes
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.shape[0])
    for part in _in_parts(joined):
        part[:] = rank[part]
    return Outcome(
        finished,
        renumbered(clustering, order, sizes.astype(np.float64)),
        rank.astype(np.int64),
        tuple(_ranked(labels, order, rank) for labels in raw),
        joined,
    )


def _in_parts(labels: Ints) -> Iterator[Ints]:
    """Yield views of labels: NumPy widens what it counts or looks up."""
    step = rows_in_a_part(1)
    for start in range(0, labels.shape[0], step):
        yield labels[start : start + step]


def _labels(
    method: AnyMethod,
    clustering: Clustering,
    site: Site,
    terms: Terms,
    client: int,
    buffer: LabelBuffer,
) -> Labels:
    """Return a client's labels in the server's numbers."""
    rows = site.to_label(terms, clustering.landmarks)
    if not method.in_parts:
        table = rows.table()
        return buffer.filled([method.label(clustering, table, site.memory, client)])
    work = partial(method.label, clustering, memory=site.memory, client=client)
    if isinstance(site.rows, np.ndarray):
        return buffer.filled(rows.map(work))
    if isinstance(rows, RowsInPlace) and clustering.landmarks is not None:
        held, sizes = rows.nearest(clustering.landmarks)
        if clustering.places is not None:
            names = clustering.places.labels
            held = rows.renamed(held, names)
            sizes = np.bincount(names, sizes, minlength=clustering.k).astype(np.int64)
        return LabelsInPlace(sizes, rows, work, held)
    sizes = np.zeros(clustering.k, dtype=np.int64)
    for part in rows.map(partial(_count, work, clustering.k)):
        sizes += part
    return LabelParts(sizes, rows, work)


class LabelBuffer:
    """One array for the labels of all tables in memory, filled from the front."""

    def __init__(self, size: int) -> None:
        self.labels: Ints = np.empty(size, dtype=LABEL)
        self._end = 0

    def filled(self, parts: Iterable[Ints]) -> Ints:
        """Put labels behind those that are there, and return their place."""
        start = self._end
        for part in parts:
            self.labels[self._end : self._end + part.shape[0]] = part
            self._end += part.shape[0]
        return self.labels[start : self._end]


def _count(work: Callable[[Floats], Ints], k: int, part: Floats) -> Ints:
    return np.bincount(work(part), minlength=k)


def sizes_of(labels: Labels, k: int) -> Ints:
    """Return the rows in every cluster."""
    if isinstance(labels, LabelParts):
        return labels.sizes
    return np.bincount(labels, minlength=k)


def _ranked(labels: Labels, order: Ints, rank: Ints) -> Labels:
    """Return labels that are computed while rows are read in the new numbers, too."""
    if not isinstance(labels, LabelParts):
        return labels
    work = partial(_rank_part, labels.work, rank)
    if isinstance(labels, LabelsInPlace):
        held = labels.rows.renamed(labels.held, rank)
        return LabelsInPlace(labels.sizes[order], labels.rows, work, held)
    return LabelParts(labels.sizes[order], labels.rows, work)


def _rank_part(work: Callable[[Floats], Ints], rank: Ints, part: Floats) -> Ints:
    return rank[work(part)]


def renumbered(clustering: Clustering, order: Ints, sizes: Floats) -> Clustering:
    """Return the clustering with its clusters in this order, and these sizes."""
    centers = clustering.centers
    if centers is not None:
        centers = centers[order]
    path = []
    for level in clustering.path:
        if centers is not None and level.k == clustering.k:
            level = replace(level, centers=centers, sizes=sizes[order])
        path.append(level)
    trust = clustering.trust
    if trust is not None and trust.stabilities:
        stabilities = tuple(trust.stabilities[i] for i in order.tolist())
        trust = replace(trust, stabilities=stabilities)
    places, connected = clustering.places, clustering.connected
    if places is not None and connected is not None:
        rank = np.argsort(order).astype(np.int64)
        places = replace(places, labels=rank[places.labels])
        connected = renamed(connected, rank, sizes[order])
    return replace(
        clustering,
        centers=centers,
        sizes=sizes[order],
        path=tuple(path),
        trust=trust,
        places=places,
        connected=connected,
    )

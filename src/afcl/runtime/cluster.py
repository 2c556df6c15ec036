# SPDX-License-Identifier: Apache-2.0
"""A site bigger than one machine: rows on a Dask cluster, where the work goes to them.

A client's step is a map-reduce (:mod:`afcl.core.rows`). Here every partition is a task,
run wherever Dask keeps it; only sums over rows, and a sample to place the first cells,
come back. Which engine, and why: decision 0019.
"""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from afcl._typing import Floats, Ints
from afcl.data.stream import AgreedRows
from afcl.data.tables import Words, unordered_digest
from afcl.exceptions import InputError
from afcl.runtime.partitions import (
    DaskPartition,
    Fault,
    Work,
    labelled,
    mapped,
    summary,
    taken,
    tried,
    worked,
)
from afcl.scale import Box, Ranges

#: Partitions that are worked on together where there is no cluster.
AT_ONCE = 64
#: Rows from which medians are taken.
MEDIAN_ROWS = 131_072

T = TypeVar("T")


class ClusterTable:
    """A client's rows on a Dask cluster, in place of an array or a frame.

    Every partition is read once when the table is made: rows are counted, extremes
    taken, values checked. Runs read them again, so a collection that is expensive to
    compute should be persisted first. Without a cluster Dask works on this machine.

    Parameters
    ----------
    collection : Dask DataFrame, or Dask array of shape (n_rows, n_columns)
        The rows; every column must hold numbers.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and of columns.
    columns : tuple of str
        Their names; empty where they are numbered.
    low, high : ndarray of shape (n_columns,)
        The extremes of every column.

    Raises
    ------
    InputError
        If a column holds text or missing values, or if there are no rows.

    Examples
    --------
    >>> import dask.array as da
    >>> table = ClusterTable(da.arange(12, chunks=4).reshape(6, 2))
    >>> table.shape, table.high.tolist()
    ((6, 2), [10.0, 11.0])
    """

    #: The rows are read part by part, and labels are never gathered.
    streamed = True
    #: Rows have no names beside their place.
    ids = None

    def __init__(self, collection: Any) -> None:
        names, self._delayed = _opened(collection)
        named = all(isinstance(name, str) for name in names)
        self.columns: tuple[str, ...] = names if named else ()
        self._partitions = [DaskPartition(i, names) for i in range(len(self._delayed))]
        known = list(self.collect(summary))
        counts = [each.ranges.n_rows for each in known]
        if not sum(counts):
            raise InputError("this Dask collection has no rows: check how it was read")
        self._partitions = [DaskPartition(i, names, n) for i, n in enumerate(counts)]
        self._ends: Ints = np.cumsum(counts)
        self._digests = [each.digest for each in known]
        self._words: Words = np.sum([each.words for each in known], axis=0)
        self.shape = (sum(counts), len(names))
        self.low: Floats = np.min([each.ranges.low for each in known], axis=0)
        self.high: Floats = np.max([each.ranges.high for each in known], axis=0)

    @property
    def rows(self) -> ClusterTable:
        """What a client works on: the collection, wherever it is."""
        return self

    def ranges(self, extremes: bool = True) -> Ranges:
        """Return what the client says of its rows for the agreement."""
        ranges = Ranges(*self.shape, self.low, self.high)
        return ranges if extremes else ranges.without_extremes()

    def medians(self) -> Floats:
        """Return the median of every column, of a seeded sample of many rows."""
        n = self.shape[0]
        rng = np.random.default_rng(0)
        index = np.sort(rng.choice(n, min(n, MEDIAN_ROWS), replace=False))
        middle: Floats = np.median(self.take(index), axis=0)
        return middle

    def fingerprint(self) -> str:
        """Return a hash of names, rows and partitions."""
        content = repr((self.shape, self.columns, self._digests))
        return hashlib.sha256(content.encode()).hexdigest()

    def unordered(self) -> str:
        """Return a hash of the rows and columns in whatever order they come."""
        return unordered_digest(self._words, self.shape[0], self.columns)

    def within(self, box: Box, places: Ints | None = None) -> ClusterRows:
        """Return the rows in agreed columns (None: all) and units."""
        return ClusterRows(self, box, places)

    def in_input_order(self, labels: Iterable[Ints]) -> Iterable[Ints]:
        """Return labels as they are: no row is left out."""
        return labels

    def take(self, index: Ints) -> Floats:
        """Return the rows at these increasing positions."""
        held = np.searchsorted(self._ends, index, side="right")
        starts = np.concatenate([[0], self._ends])
        wanted = {int(i): index[held == i] - starts[i] for i in np.unique(held)}
        rows = self.collect(partial(taken, wanted), list(wanted))
        return np.concatenate([np.empty((0, self.shape[1])), *rows])

    def lazily(self, work: Work[Ints]) -> Any:
        """Return a Dask array of the whole numbers that `work` gives for every row.

        It has a chunk for every partition, also for empty ones, which concatenating
        would leave out.
        """
        import dask.array as da
        from dask.base import tokenize
        from dask.highlevelgraph import HighLevelGraph

        tasks = self._tasks(worked, work, self._partitions)
        name = f"labels-{tokenize([task.key for task in tasks])}"
        places = {(name, i): task.key for i, task in enumerate(tasks)}
        graph = HighLevelGraph.from_collections(name, places, dependencies=tasks)
        chunks = (tuple(partition.n_rows for partition in self._partitions),)
        return da.Array(graph, name, chunks, dtype=np.int64)

    def collect(
        self, work: Work[T], numbers: Iterable[int] | None = None
    ) -> Iterator[T]:
        """Yield what `work` makes of these partitions (default: all), in order."""
        chosen = self._partitions
        if numbers is not None:
            chosen = [self._partitions[i] for i in numbers]
        for result in _computed(self._tasks(tried, work, chosen)):
            if isinstance(result, Fault):
                raise InputError(result.words)
            yield result

    def _tasks(
        self, way: Callable[..., Any], work: Work[T], chosen: Sequence[DaskPartition]
    ) -> list[Any]:
        """Return one task a partition; the work is sent along once."""
        import dask

        shared = dask.delayed(work, pure=False, traverse=False)
        return [
            dask.delayed(partial(way, partition), pure=False)(
                shared, self._delayed[partition.number]
            )
            for partition in chosen
        ]


class ClusterRows(AgreedRows["ClusterTable"]):
    """The rows of a :class:`ClusterTable` in agreed columns and units."""

    def map(self, work: Callable[[Floats], T]) -> Iterator[T]:
        """Yield what `work` makes of each part of the rows, in their order."""
        each = partial(mapped, work, self._box, self._places)
        for results in self._table.collect(each):
            yield from results

    def labels(self, function: Callable[[Floats], Ints]) -> Any:
        """Return labels of all rows that stay on the cluster, not computed yet.

        Parameters
        ----------
        function : callable
            Is given some of the rows and returns a whole number for each.

        Returns
        -------
        labels : dask.array.Array of shape (n_rows,)
            In the order of the rows, chunked as they are partitioned.
        """
        return self._table.lazily(partial(labelled, function, self._box, self._places))

    def table(self) -> Floats:
        """Refuse to return all rows at once."""
        raise InputError(
            "this needs all rows on one machine, and these are on a cluster: use the "
            "default preset at privacy level summary"
        )


# --------------------------------------------------------------- what Dask gives


def _computed(tasks: list[Any]) -> Iterator[Any]:
    """Yield the tasks' results in order; on a cluster they wait there until asked."""
    import dask

    client = _client()
    if client is None:
        for start in range(0, len(tasks), AT_ONCE):
            yield from dask.compute(*tasks[start : start + AT_ONCE])
        return
    futures = deque(client.compute(tasks))
    while futures:
        yield futures.popleft().result()


def _client() -> Any:
    """Return what speaks to the cluster, None if there is none."""
    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].get_client()
    except ValueError:
        return None


def _opened(collection: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the columns' labels (numbers for an array) and the partitions."""
    try:
        import dask
    except ImportError:
        raise InputError(
            "rows on a cluster need Dask: pip install 'afcl[cluster]'"
        ) from None
    # Whatever is asked of a Delayed, it has: but not a number.
    ndim = getattr(collection, "ndim", None)
    if not (
        dask.is_dask_collection(collection) and isinstance(ndim, int) and ndim == 2
    ):
        raise InputError(
            "ClusterTable takes a Dask DataFrame or a two-dimensional Dask array, not "
            f"{type(collection).__name__}: dask.dataframe.read_parquet makes one"
        )
    if hasattr(collection, "columns"):
        labels, partitions = tuple(collection.columns), collection.to_delayed()
    else:
        labels = tuple(range(collection.shape[1]))
        partitions = collection.rechunk({1: -1}).to_delayed().ravel().tolist()
    if not labels or len(set(labels)) < len(labels):
        raise InputError(
            "this Dask collection has no columns, or two of the same name: choose the "
            "columns that count"
        )
    return labels, partitions
